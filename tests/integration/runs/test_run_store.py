"""A store that fails while a run is recorded: training goes on, and nothing is lost in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.runs.record import Record
from tensorlake.dataset.runs.recorder import Recorder
from tensorlake.dataset.runs.tables import parsed_part, read_tables, table_bytes
from tensorlake.storage import open_store, runtime
from tensorlake.testing import Fault, FaultyStore


@pytest.fixture
def store(request):
    return FaultyStore(open_store(f"memory://run-store-{request.node.name}"))


@pytest.fixture
def recorder(store):
    record = Record.create(store, "faulty", url="memory://none", version="main@0", config={})
    made = Recorder(record)
    yield made
    store.heal()
    made.close()


def logged(store):
    record = Record.read(store, "faulty")
    assert record is not None
    return read_tables(record, "events", {}).column("loss").to_pylist()


def test_a_part_that_is_refused_is_put_again(store, recorder):
    store.inject(Fault.REFUSED, call="put_if_absent", path="events")
    for loss in range(5):
        recorder.log({"loss": loss})
    recorder.flush()
    recorder.wait()

    recorder.log({"loss": 5.0})
    with pytest.warns(tl.RunRecordWarning, match="not stored yet"):
        recorder.flush()
    recorder.close()

    assert sorted(logged(store)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_parts_are_joined_and_count_once_wherever_it_stops(store, recorder, monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.runs.recorder.JOINED_PARTS", 5)
    names = ("txid_high", "txid_low", "offset")
    ids = np.zeros(1, [(name, "<u8") for name in names])
    for loss in range(20):
        recorder.log({"loss": loss})
        recorder.log_rows(ids, {"own": np.array([loss * 1.0])})
        recorder.flush()
        recorder.wait()
    paths = [part.path for part in recorder.record.parts()]

    assert [path.rpartition(".")[2] for path in paths].count("parquet") >= 5
    assert logged(store)[:10] == [float(loss) for loss in range(10)]

    # a crash before the parts are deleted leaves them beside the larger one
    attempt = recorder.attempt
    for stop in range(4):
        for kind in ("events", "rows"):
            own = [path for path in paths if f"{kind}-" in path and path.endswith("parquet")]
            first = parsed_part(own[0], runtime.run(store.get(own[0])) or b"")
            for number in range(stop + 1):
                path = recorder.record.path(attempt, kind, number)
                runtime.run(store.put(path, table_bytes(first.slice(number, 1))))
        assert logged(store)[:10] == [float(loss) for loss in range(10)]
    recorder.close()
    assert sorted(logged(store)) == [float(loss) for loss in range(20)]
    rows = read_tables(recorder.record, "rows", {}).column("own").to_pylist()
    assert sorted(rows) == [float(loss) for loss in range(20)]


def test_a_part_that_is_not_stored_yet_is_not_joined_over(store, recorder, monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.runs.recorder.JOINED_PARTS", 3)
    store.inject(Fault.REFUSED, call="put_if_absent", path="events-000002", times=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for loss in range(12):
            recorder.log({"loss": loss})
            recorder.flush()
            recorder.wait()
        recorder.close()

    assert sorted(logged(store)) == [float(loss) for loss in range(12)]


def test_close_raises_for_a_store_that_stays_away(store, recorder):
    store.inject(Fault.REFUSED, call="put_if_absent", path="events", times=1000)
    recorder.log({"loss": 1.0})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(tl.StorageError):
            recorder.close()


def test_an_answer_that_was_lost_is_no_second_part(store, recorder):
    store.inject(Fault.ANSWER_LOST, call="put_if_absent", path="events")
    recorder.log({"loss": 1.0})
    recorder.close()

    assert logged(store) == [1.0]


def test_two_processes_that_begin_at_once_share_one_record(store):
    url = "memory://none"
    other: list[Record] = []

    def begin_too():
        other.append(Record.create(store, "race", url=url, version="main@0", config={"lr": 1}))

    store.before("put_if_absent", begin_too, path="run.json")
    mine = Record.create(store, "race", url=url, version="main@0", config={"lr": 1})

    assert mine.content == other[0].content
    store.before("put_if_absent", lambda: None, path="nothing")
    with pytest.raises(tl.InvalidInputError, match="'lr' differ"):
        Record.create(store, "race", url=url, version="main@0", config={"lr": 2})


def test_attempts_are_ordered_by_number_not_by_clock(store, monkeypatch):
    record = Record.create(store, "clock", url="memory://none", version="main@0", config={})
    for moment in (2e9, 1e9):  # the second machine's clock is decades behind
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        recorder = Recorder(record)
        recorder.log({"loss": moment})
        recorder.close()

    times = read_tables(record, "events", {})
    assert times.sort_by("step").column("loss").to_pylist() == [2e9, 1e9]
    first, second = record.parts("events")
    assert first.attempt < second.attempt
