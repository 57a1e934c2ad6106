"""Work on all rows at once is left when its run ends."""

from threading import Event

import numpy as np
import pytest

from tensorlake_query import QueryLimitError, compile_query
from tensorlake_query.execution.workers import WATCHED_ROWS, watched
from tensorlake_query.values.memory import Account, Held, TooMuchMemoryError, charge, collecting
from tests.unit.query.execution.test_many_rows import NUM_ROWS, SCHEMA, NumberSource

PATIENCE_S = 30


def test_work_is_left_while_it_is_under_way():
    begun, may_end, ended = Event(), Event(), Event()
    account, charged = Account(), []

    def work():
        begun.set()
        may_end.wait(PATIENCE_S)
        try:
            charge(1)
        except TooMuchMemoryError as error:
            charged.append(error)
        ended.set()

    def check():
        if begun.is_set():
            raise KeyboardInterrupt

    with collecting(Held(account, "a step")), pytest.raises(KeyboardInterrupt):
        watched(work, check, account)
    assert not ended.is_set()

    may_end.set()
    assert ended.wait(PATIENCE_S)
    assert len(charged) == 1
    assert account.held == 0


def test_work_that_was_left_gives_its_memory_back_in_silence():
    account = Account()
    held = Held(account, "a step")
    held.add(10)
    account.close()

    held.drop()  # by the step that was left
    held.add(-5)  # by its work, which ends later
    held.drop()  # when the holder is gone, which cannot raise

    assert (held.nbytes, account.held) == (0, 0)


def test_watched_work_returns_and_raises_as_it_does_alone():
    account = Account(limit=10)

    def too_much():
        charge(11)

    with collecting(Held(account, "a step")):
        assert watched(lambda: 5, list, account) == 5
        with pytest.raises(TooMuchMemoryError, match="11"):
            watched(too_much, list, account)
        with pytest.raises(ZeroDivisionError):
            watched(lambda: 1 // 0, list, account)
    assert not account.is_closed


@pytest.mark.parametrize("text", [
    "SELECT i, RANK() OVER (PARTITION BY label ORDER BY f) AS r",
    "SELECT DISTINCT i",
    "ARRANGE BY label",
    "SELECT label, MEDIAN(i) AS m GROUP BY label",
    "ORDER BY i, f DESC",
    "SAMPLE BY i + 100 LIMIT 60000",
    "SELECT i UNION SELECT i + 1 AS i",
    "WHERE i >= 0 EXPAND BY 1 1",
])  # fmt: skip
def test_steps_over_many_rows_run_in_another_thread_and_end_by_their_deadline(text):
    assert NUM_ROWS >= WATCHED_ROWS
    compiled = compile_query(text, SCHEMA)
    wanted = compiled.run(NumberSource(1))
    watching = compiled.run(NumberSource(1), timeout_s=600)

    if wanted.rows is not None:
        assert np.array_equal(watching.rows, wanted.rows)
    for name, column in wanted.columns.items():
        assert np.array_equal(watching.columns[name].values, column.values)
    with pytest.raises(QueryLimitError, match="timeout"):
        compiled.run(NumberSource(1), timeout_s=1e-9)
