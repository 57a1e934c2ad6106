"""Batches computed side by side: the same rows in the same order, and no thread afterwards."""

import threading

import numpy as np
import pytest

from tensorlake_query import (
    ColumnType,
    QueryLimitError,
    UniformBatch,
    compile_query,
    user_function,
)
from tensorlake_query.execution import workers as workers_module
from tensorlake_query.execution.batches import FIRST_BATCH_ROWS, MAX_BATCH_ROWS
from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import RunScope
from tensorlake_query.execution.workers import THREADED_COST, Workers, are_threadable
from tensorlake_query.values.bound import Apply
from tensorlake_query.values.meter import Meter
from tensorlake_query.values.vectors import RaggedBatch, slice_of, take

NUMBER = ColumnType("number", "int64", ())
WAIT_S = 60


# worth a thread
DEAR = (Apply(lambda vectors, num_rows: vectors[0], (), NUMBER, None, cost=THREADED_COST),)


class Numbers:
    """Numbers from 0, any number of them; remembers in which runs they were read."""

    def __init__(self, num_rows):
        self.num_rows = num_rows
        self.schema = {"x": NUMBER}
        self.runs = []

    def read(self, column, rows):
        raise AssertionError("a scan reads runs")

    def read_run(self, column, start, stop):
        self.runs.append((start, stop))
        return UniformBatch(np.arange(start, stop))

    def statistics(self, column):
        return None

    shapes = None


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(workers_module, "thread_count", lambda: 4)


def query_threads():
    return [one for one in threading.enumerate() if one.name.startswith("tensorlake-query")]


def test_a_scan_reads_consecutive_rows_as_runs_that_grow():
    source = Numbers(MAX_BATCH_ROWS * 3)

    found = compile_query("WHERE x * 1 * 1 * 1 % 100000 = 3", source.schema).run(source).rows

    assert found.tolist() == list(range(3, source.num_rows, 100_000))
    lengths = [stop - start for start, stop in sorted(source.runs)]
    assert lengths[0] == FIRST_BATCH_ROWS
    assert lengths[:-1] == sorted(lengths[:-1])
    assert max(lengths) == MAX_BATCH_ROWS
    assert sum(lengths) == source.num_rows
    assert not query_threads()


def test_what_is_cheap_is_computed_where_it_is_asked():
    threads = set()

    def work(item):
        threads.add(threading.get_ident())
        return item

    cheap = (Apply(DEAR[0].kernel, (), NUMBER, None),)
    list(Workers().mapped(work, range(20), cheap))

    assert threads == {threading.get_ident()}
    assert are_threadable(cheap * 2 + DEAR)


def test_a_limit_that_the_first_batch_meets_reads_no_other():
    source = Numbers(MAX_BATCH_ROWS * 3)

    found = compile_query("WHERE x % 7 = 3 LIMIT 2", source.schema).run(source).rows

    assert found.tolist() == [3, 10]
    assert source.runs == [(0, FIRST_BATCH_ROWS)]


def test_results_come_in_order_though_the_first_batches_end_last():
    meeting = threading.Barrier(4)
    threads = set()

    def work(item):
        if item:
            meeting.wait(WAIT_S)  # passes once four are at work
        threads.add(threading.get_ident())
        return -item

    workers = Workers()
    found = list(workers.mapped(work, range(9), DEAR))
    workers.close()

    assert found == [(item, -item) for item in range(9)]
    assert len(threads) > 1


def test_a_caller_who_stops_waits_for_what_was_begun():
    running, go_on = threading.Event(), threading.Event()
    ended = []

    def work(item):
        if item == 1:
            running.set()
        if item > 1:
            assert go_on.wait(WAIT_S)
        ended.append(item)
        return item

    workers = Workers()
    mapped = workers.mapped(work, range(100), DEAR)
    assert [next(mapped), next(mapped)] == [(0, 0), (1, 1)]
    assert running.is_set()
    go_on.set()
    mapped.close()
    seen = len(ended)
    workers.close()

    assert len(ended) == seen < 10
    assert not query_threads()


def test_the_first_error_in_order_is_the_one_that_is_raised():
    def work(item):
        if item >= 3:
            raise ValueError(item)
        return item

    workers = Workers()
    done = []
    with pytest.raises(ValueError, match=r"^3$"):
        done.extend(workers.mapped(work, range(20), DEAR))
    workers.close()

    assert not query_threads()


def test_functions_of_the_user_are_called_in_the_thread_that_asked():
    threads = set()

    def where(values):
        threads.add(threading.get_ident())
        return values

    function = user_function("WHERE_AM_I", where, dtype="int64", shape=(), vectorized=True)
    source = Numbers(MAX_BATCH_ROWS)
    query = compile_query(
        "WHERE WHERE_AM_I(x) % 100000 = 5", source.schema, functions={"WHERE_AM_I": function}
    )

    assert query.run(source).rows.tolist() == [5, 100_005, 200_005]
    assert threads == {threading.get_ident()}


class Keyed(Numbers):
    """Floats by a key, of which 7 come only in the last batches; remembers who read which rows."""

    def __init__(self, num_rows):
        super().__init__(num_rows)
        self.schema = {"k": NUMBER, "y": ColumnType("number", "float64", ())}
        random = np.random.default_rng(5)
        self.y = random.random(num_rows) * 10.0 ** random.integers(-9, 9, num_rows)
        self.k = np.arange(num_rows) % np.where(np.arange(num_rows) < num_rows // 2, 13, 20)
        self.threads = set()
        self.is_over = False

    def read_run(self, column, start, stop):
        self.threads.add(threading.get_ident())
        self.is_over = self.is_over or start > self.num_rows // 4
        return UniformBatch(getattr(self, column)[start:stop])


SPREAD = "SELECT k, COUNT(*) AS n, SUM(y) AS s, AVG(y) AS m, MAX(y) AS x, VAR(y) AS v GROUP BY k"


def test_groups_of_cheap_keys_are_aggregated_in_blocks_in_the_thread_that_asked():
    source = Keyed(MAX_BATCH_ROWS * 4)

    found = compile_query(SPREAD, source.schema).run(source).columns

    assert source.threads == {threading.get_ident()}
    assert found["k"].values.tolist() == list(range(20))
    assert found["n"].values.tolist() == np.bincount(source.k).tolist()
    sums = [source.y[source.k == key].sum() for key in range(20)]
    assert np.allclose(found["s"].values, sums, rtol=1e-12)


def test_keys_of_two_columns_and_null_are_grouped():
    source = Keyed(MAX_BATCH_ROWS * 4)
    text = "SELECT k % 3 AS a, NULLIF(k, 5) AS b, COUNT(*) AS n GROUP BY k % 3, NULLIF(k, 5)"

    found = compile_query(text, source.schema).run(source).columns

    assert found["a"].values.tolist() == [key % 3 for key in range(20)]
    assert found["b"].valid.tolist() == [key != 5 for key in range(20)]
    assert found["n"].values.tolist() == np.bincount(source.k).tolist()


def test_groups_are_left_when_the_run_is_called_off():
    source = Keyed(MAX_BATCH_ROWS * 8)

    with pytest.raises(QueryLimitError, match="cancelled"):
        compile_query(SPREAD, source.schema).run(source, cancelled=lambda: source.is_over)

    assert not query_threads()


def test_a_run_of_rows_is_sliced_and_taken_as_listed_rows_are():
    source = Numbers(100)
    reader = SourceReader(source, Meter(None, ValueError), lambda query, reader: None)
    scope = RunScope(reader, 10, 20, "")
    scope.column("x")

    assert scope.slice(0, 10) is scope
    assert scope.slice(2, 5).rows.tolist() == [12, 13, 14]
    assert scope.slice(2, 5).slice(1, 2).column("x").values.tolist() == [13]
    assert scope.take(np.array([9, 0])).rows.tolist() == [19, 10]
    assert source.runs == [(10, 20)]


@pytest.mark.parametrize("bounds", [(0, 0), (0, 4), (1, 3), (3, 4)])
def test_a_slice_is_what_taking_the_same_rows_gives(bounds):
    shapes = np.array([[2], [0], [3], [1]])
    ragged = RaggedBatch(np.arange(6), shapes, np.array([True, False, True, True]))

    sliced, taken = slice_of(ragged, *bounds), take(ragged, np.arange(*bounds))

    assert sliced.values.tolist() == taken.values.tolist()
    assert sliced.shapes.tolist() == taken.shapes.tolist()
    assert sliced.valid.tolist() == taken.valid.tolist()
