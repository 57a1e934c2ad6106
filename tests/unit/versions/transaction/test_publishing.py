"""Publishing when the store does not answer, or not truthfully (format.md, tests 4-6)."""

import gc
import signal
import threading

import pytest

from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CommitOutcomeUnknownError, InvalidStateError, StorageError
from tensorlake.storage import Data, MemoryStore
from tensorlake.testing import CountingStore, Fault, FaultyStore
from tensorlake.versions import CommitRequest
from tensorlake.versions.packs.writer import PUT_TRIES
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.staged import add_row, values, with_staged_row

WAIT_S = 60.0


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


@pytest.fixture
def dataset(store: FaultyStore) -> Dataset:
    return with_staged_row(store)


@pytest.mark.parametrize("path", ["packs/", "branches/"])
@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NOT_STORED])
def test_a_lost_answer_leads_to_exactly_one_commit(store, dataset, fault, path):
    """Tests 4 and 5: stored or not, of the pack or of the entry."""
    store.inject(fault, call="put_if_absent", path=path)

    commit = dataset.commit("second")

    assert commit.version == "main@2"
    assert values(store) == [0, 1]
    assert [one.version for one in open_on(store).log()] == ["main@2", "main@1", "main@0"]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["packs/", "branches/"])
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.TIMED_OUT])
def test_a_refused_put_leaves_the_changes_staged_for_another_try(
    store, dataset, fault, path, caplog
):
    """Test 6: an error of the store is reported; nothing is lost, nothing appears twice."""
    store.inject(fault, call="put_if_absent", path=path)

    with pytest.raises(StorageError):
        dataset.commit("second")

    assert values(store) == [0]
    assert dataset["x"][:].tolist() == [0, 1]
    gc.collect()
    wait_for_storage()
    assert not caplog.records  # reported once, by the exception
    assert dataset.commit("again").version == "main@2"
    assert values(store) == [0, 1]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_pack_whose_fate_is_unknown_is_stored_under_another_name(store, dataset, times):
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/", times=times)

    dataset.commit("second")

    assert values(store) == [0, 1]
    assert dataset["x"][:].tolist() == [0, 1]


def test_a_pack_with_index_pages_is_built_again_under_another_name(store, dataset):
    dataset.discard()
    for x in range(1, 90):  # more than a tail holds: a leaf is spilled into a pack
        dataset.append({"x": x})
        store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")
        dataset.commit()

    assert values(store) == list(range(90))


@pytest.mark.parametrize("fault", [Fault.NOT_STORED, Fault.ANSWER_LOST])
def test_an_update_whose_pack_took_another_name_is_cited_by_it(store, dataset, fault):
    dataset.discard()
    dataset["x"][0] = 7
    store.inject(fault, call="put_if_absent", path="packs/")

    dataset.commit("second")

    assert values(store) == [7]
    assert open_on(store).check().ok


def test_a_pack_that_no_try_stored_is_cited_by_nothing(store, dataset):
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/", times=PUT_TRIES)

    with pytest.raises(StorageError, match="could not be stored"):
        dataset.commit("second")

    assert values(store) == [0]
    dataset.commit("again")
    assert values(store) == [0, 1]


def test_a_name_that_a_pack_went_out_by_is_not_used_again(dataset, store):
    """What was refused may land later, with other index pages."""
    counting = CountingStore(store)
    handle = open_on(counting)
    handle.append({"x": 1})
    store.inject(Fault.TIMED_OUT, call="put_if_absent", path="packs/")
    with pytest.raises(StorageError):
        handle.commit("second")

    handle.commit("again")

    puts = [one.path for one in counting.requests if one.call == "put_if_absent"]
    packs = [path for path in puts if path.startswith("packs/")]
    assert len(packs) == len(set(packs)) == 2


def unknown_outcome(store: FaultyStore, dataset: Dataset, fault: Fault) -> None:
    store.inject(fault, call="put_if_absent", path="branches/")
    store.inject(Fault.ANSWER_LOST, call="put_if_absent", path="nothing")
    refuse_read_back(store)
    with pytest.raises(CommitOutcomeUnknownError):
        dataset.commit("second")


def refuse_read_back(store: FaultyStore) -> None:
    store.inject(Fault.REFUSED, call="get", path="branches/main/0")


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NOT_STORED])
def test_committing_again_after_an_unknown_outcome_publishes_once(store, dataset, fault):
    """Tests 4 and 5: also the read-back failed; the second commit first looks for the txid."""
    unknown_outcome(store, dataset, fault)

    commit = dataset.commit("second, again")
    dataset.append({"x": 2})
    dataset.commit("third")
    wait_for_storage()

    assert commit.version == "main@2"
    assert values(store) == [0, 1, 2]
    stored = {one.version: one.digest for one in open_on(store).log()}
    assert stored["main@2"] == commit.digest


def test_an_unknown_outcome_after_a_lost_race_publishes_once(store, dataset):
    """Another took the number first; ours landed behind it, and nobody told us."""
    add_row(store, 10)
    store.inject(Fault.ANSWER_LOST, call="put_if_absent", path="branches/main/0000000003")
    store.inject(Fault.REFUSED, call="get", path="branches/main/0000000003", skip=1)
    with pytest.raises(CommitOutcomeUnknownError):
        dataset.commit("second")

    commit = dataset.commit("second, again")

    assert commit.version == "main@3"
    assert values(store) == [0, 10, 1]


def test_an_unknown_outcome_that_others_built_on_publishes_once(store, dataset):
    unknown_outcome(store, dataset, Fault.ANSWER_LOST)
    add_row(store, 10)
    add_row(store, 11)

    commit = dataset.commit("second, again")

    assert commit.version == "main@2"
    assert values(store) == [0, 1, 10, 11]


def test_an_unknown_outcome_that_another_overtook_publishes_once(store, dataset):
    unknown_outcome(store, dataset, Fault.NOT_STORED)
    add_row(store, 10)

    commit = dataset.commit("second, again")

    assert commit.version == "main@3"
    assert values(store) == [0, 10, 1]


def test_a_commit_that_is_interrupted_is_finished_by_the_next(store, dataset):
    """Ctrl-C while a pack is being sent: the next commit waits for it, whatever comes of it."""
    main, noticed = threading.main_thread().ident, threading.Event()
    assert main is not None
    store.before("put_if_absent", lambda: signal.pthread_kill(main, signal.SIGINT), path="packs/")
    store.before("put_if_absent", lambda: noticed.wait(60), path="packs/")
    store.inject(Fault.REFUSED, call="put_if_absent", path="packs/")

    with pytest.raises(KeyboardInterrupt):
        dataset.commit("second")
    noticed.set()
    with pytest.raises(StorageError):
        dataset.commit("again: the pack was refused")
    commit = dataset.commit("at last")

    assert commit.version == "main@2"
    assert values(store) == [0, 1]


def test_an_entry_names_the_author_that_the_request_names(store, dataset):
    entry = session_of(dataset).commit(CommitRequest("second", author="someone else"))

    assert entry.author == "someone else"
    assert open_on(store).log(1)[0].author == "someone else"


def test_an_entry_names_the_features_that_its_new_schema_needs(store, dataset):
    """A reader that does not know them would read other values."""
    dataset.add_tensor("half", "bfloat16", fill=0)
    dataset.commit()

    features = session_of(dataset).head.features
    dataset.append({"x": 2, "half": 1})
    dataset.commit()

    assert "narrow-floats" in features.read
    assert session_of(dataset).head.features == features


def test_a_hint_that_cannot_be_written_is_no_failure(store, dataset):
    store.inject(Fault.REFUSED, call="put", path="HEAD", times=100)

    dataset.commit("second")
    wait_for_storage()

    assert values(store) == [0, 1]


def test_a_doubt_lasts_until_the_highest_number_that_was_tried_is_another_s(store, dataset):
    """Two tries without an answer, the later at the lower number: the earlier may still land."""
    add_row(store, 10)
    add_row(store, 11)
    wait_for_storage()
    fourth = "branches/main/0000000004"
    store.inject(Fault.LANDS_LATER, call="put_if_absent", path=fourth, later=1000)
    store.inject(Fault.REFUSED, call="get", path=fourth, skip=1)
    with pytest.raises(CommitOutcomeUnknownError):
        dataset.commit("second")  # number 2 is another's, number 4 has no answer
    store.inject(Fault.NOT_STORED, call="put_if_absent", path="branches/main/0000000002")
    store.inject(Fault.REFUSED, call="get", path="branches/main/0000000002")
    with pytest.raises(CommitOutcomeUnknownError):
        dataset.commit("second, again")

    dataset.refresh(keep_staged=True)
    with pytest.raises(InvalidStateError):
        dataset.append({"x": 2})  # or it would be lost when number 4 turns out to be this commit
    store.heal()
    commit = dataset.commit("second, once more")

    assert commit.version == "main@4"
    assert values(store) == [0, 10, 11, 1]


class StopError(BaseException):
    """Ctrl-C, at a place that a test knows."""


def stop() -> None:
    raise StopError


@pytest.mark.parametrize("error", [StorageError, StopError])
def test_a_commit_that_fails_after_it_moved_leaves_the_handle_where_it_was(store, dataset, error):
    """Reads show the version of the handle and what is staged: not what others committed since."""
    add_row(store, 10)
    if error is StopError:
        store.before("put_if_absent", stop, path="branches/main/0000000003")
    else:
        store.inject(Fault.REFUSED, call="put_if_absent", path="branches/main/0000000003")

    with pytest.raises(error):
        dataset.commit("second")

    assert dataset.version == "main@1"
    assert dataset["x"][:].tolist() == [0, 1]
    assert dataset.commit("again").version == "main@3"
    assert values(store) == [0, 10, 1]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.NOT_STORED])
def test_nothing_is_staged_on_a_commit_in_doubt_until_it_is_known(store, dataset, fault):
    """What is staged then would be lost if the commit turned out to stand."""
    unknown_outcome(store, dataset, fault)

    with pytest.raises(InvalidStateError, match="commit\\(\\) again"):
        dataset.append({"x": 2})
    assert dataset["x"][:].tolist() == [0, 1]
    dataset.commit("again")
    dataset.append({"x": 2})
    dataset.commit("third")

    assert values(store) == [0, 1, 2]


def test_a_doubt_ends_where_another_has_the_number(store, dataset):
    unknown_outcome(store, dataset, Fault.NOT_STORED)
    add_row(store, 10)

    dataset.refresh(keep_staged=True)
    dataset.append({"x": 2})
    dataset.commit()

    assert values(store) == [0, 10, 1, 2]


def test_a_refresh_finds_that_the_commit_in_doubt_stands(store, dataset):
    unknown_outcome(store, dataset, Fault.ANSWER_LOST)
    add_row(store, 10)

    dataset.refresh(keep_staged=True)

    assert not dataset.has_changes
    assert dataset["x"][:].tolist() == values(store) == [0, 1, 10]


def test_a_failure_after_a_race_was_lost_leaves_no_doubt(store, dataset):
    """The winner was read in its place; what came after it was not."""
    add_row(store, 10)
    wait_for_storage()
    store.inject(Fault.REFUSED, call="get", path="branches/main/0", skip=1)
    with pytest.raises(StorageError) as caught:
        dataset.commit()
    assert not isinstance(caught.value, CommitOutcomeUnknownError)

    dataset.append({"x": 2})
    dataset.commit()

    assert values(store) == [0, 10, 1, 2]


def test_a_refused_commit_leaves_no_doubt(store, dataset):
    store.inject(Fault.REFUSED, call="put_if_absent", path="branches/")
    with pytest.raises(StorageError):
        dataset.commit()

    dataset.append({"x": 2})
    dataset.commit()

    assert values(store) == [0, 1, 2]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.LANDS_LATER])
@pytest.mark.parametrize("path", ["packs/", "branches/"])
@pytest.mark.parametrize("later", [0, 1, 2, 3, 5])
def test_a_put_that_lands_later_than_its_answer_is_one_commit(store, dataset, fault, path, later):
    """Test 5, its worst case: timed out, read back absent, sent again, and then it lands."""
    store.inject(fault, call="put_if_absent", path=path, later=later)

    dataset.commit("second")
    dataset.append({"x": 2})
    dataset.commit("third")
    wait_for_storage()

    assert values(store) == [0, 1, 2]
    assert open_on(store).version == "main@3"


def test_listings_in_any_order_find_the_same_branches_and_tags(store, dataset):
    dataset.discard()
    for name in "cab":
        dataset.branch(f"branch-{name}")
        dataset.tag(f"tag-{name}", at="main@1")
    store.inject(Fault.REORDERED, call="list", times=100)

    assert dataset.branches == ["branch-a", "branch-b", "branch-c", "main"]
    assert [*dataset.tags] == ["tag-a", "tag-b", "tag-c"]


class HintsWaiting(MemoryStore):
    """A folder that writes a hint at once, where the loop stands, and is very slow at it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_told = threading.Event()
        self.were_told: list[bool] = []

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        if not durable:
            self.were_told.append(self.is_told.wait(WAIT_S))
        await super().put(path, data, durable=durable)


def test_a_commit_is_told_before_its_hint_is_written():
    store = HintsWaiting()
    store.is_told.set()
    dataset = create_on(store, {"x": "int64"})
    wait_for_storage()
    store.is_told.clear()
    dataset.append({"x": 1})

    dataset.commit("told at once")
    store.is_told.set()
    wait_for_storage()

    assert all(store.were_told)


def test_a_torn_hint_changes_nothing(store, dataset):
    store.inject(Fault.TORN, call="put", path="HEAD", times=100)

    dataset.commit("second")
    wait_for_storage()
    dataset.append({"x": 2})
    dataset.commit("third")
    wait_for_storage()

    assert values(store) == [0, 1, 2]


@pytest.mark.slow
def test_a_refusal_after_a_put_that_may_still_land_is_an_unknown_outcome(store, dataset):
    """The first put is on its way yet; what would be staged now could be lost when it lands."""
    store.inject(Fault.LANDS_LATER, call="put_if_absent", path="branches/", later=50)
    store.inject(Fault.REFUSED, call="put_if_absent", path="branches/")

    with pytest.raises(CommitOutcomeUnknownError):
        dataset.commit("second")
    with pytest.raises(InvalidStateError):
        dataset.append({"x": 2})
    store.heal()
    dataset.commit("again")

    assert values(store) == [0, 1]
    assert open_on(store).version == "main@2"
