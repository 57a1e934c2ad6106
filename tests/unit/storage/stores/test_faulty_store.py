"""The faulty store: conformance while nothing is injected, and each fault."""

import pytest

from tensorlake.errors import InvalidInputError, StorageError, StorageTimeoutError
from tensorlake.storage import MemoryStore, MissingObjectError, Store, UnknownOutcomeError, run
from tensorlake.testing import Fault, FaultyStore, SimulatedCrash, StoreConformance


class TestFaultyStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(MemoryStore())


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.mark.parametrize(
    ("fault", "error", "lands"),
    [
        (Fault.REFUSED, StorageError, False),
        (Fault.TIMED_OUT, StorageTimeoutError, False),
        (Fault.NOT_STORED, UnknownOutcomeError, False),
        (Fault.ANSWER_LOST, UnknownOutcomeError, True),
    ],
)
def test_write_fails_once_as_told(store, fault, error, lands):
    store.inject(fault, call="put_if_absent")

    with pytest.raises(error, match="'a'"):
        run(store.put_if_absent("a", b"1"))

    assert run(store.get("a")) == (b"1" if lands else None)
    run(store.put_if_absent("b", b"2"))


def test_fault_meets_only_its_path_after_those_skipped(store):
    store.inject(Fault.REFUSED, call="put_if_absent", path="branches/", skip=1)

    run(store.put_if_absent("packs/a", b"1"))
    run(store.put_if_absent("branches/main/0", b"1"))
    with pytest.raises(StorageError):
        run(store.put_if_absent("branches/main/1", b"1"))
    run(store.put_if_absent("branches/main/1", b"1"))


def test_reads_come_short_flipped_or_not_at_all(store):
    run(store.put_if_absent("a", b"0123"))
    for fault in (Fault.SHORT, Fault.FLIPPED, Fault.MISSING):
        store.inject(fault, call="get")
        store.inject(fault, call="get_range")

    assert [run(store.get("a")) for _ in range(4)] == [b"01", b"0133", None, b"0123"]
    assert [run(store.get_range("a", 0, 4)) for _ in range(2)] == [b"01", b"0133"]
    with pytest.raises(MissingObjectError):
        run(store.get_range("a", 0, 4))


def test_after_a_crash_nothing_happens_any_more(store):
    store.crash_after(1)
    run(store.put_if_absent("a", b"1"))

    with pytest.raises(SimulatedCrash):
        run(store.put_if_absent("b", b"2"))
    with pytest.raises(SimulatedCrash):
        run(store.get("a"))

    assert run(store._store.get("b")) is None
    assert store.writes == 1


def test_action_runs_before_its_request_and_may_use_the_store(store):
    store.before("get", lambda: run(store.put_if_absent("a", b"first")), path="a")

    assert run(store.get("a")) == b"first"
    assert run(store.get("a")) == b"first"


def test_unknown_request_is_refused(store):
    with pytest.raises(InvalidInputError, match="'putt'"):
        store.inject(Fault.REFUSED, call="putt")
