"""How a saved view holds on to its rows and its version, against collectors and lost answers."""

import datetime as dt

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import SnapshotExpiredError, StorageError, TransactionExpiredError
from tensorlake.format import Root, RowSegments, seal, tag_path, unseal
from tensorlake.storage import MemoryStore, run
from tensorlake.testing import Fault, FaultyStore
from tensorlake.versions import SavedView
from tensorlake.versions.log.put_once import TRIES
from tests.support.garbage import GRACE, Clock, pack_paths
from tests.support.handles import create_on, open_on

SCATTERED = np.random.default_rng(1).permutation(50_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def dataset(store: MemoryStore):
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": np.arange(50_000)})
    ds.commit("first")
    return ds


def sleep(clock: Clock, time: dt.timedelta) -> None:
    clock.now += time


def tag_of(store, name: str) -> dict:
    return unseal(run(store.get(tag_path(name))), where=name)


def test_a_collection_keeps_what_a_saved_view_names_also_when_its_version_is_given_up(
    dataset, store, clock
):
    """format.md 18 and 15: the row pages of a view, and the version it is of, are marked."""
    dataset[SCATTERED].save("scattered")
    dataset["x"][:] = 0
    dataset.commit("other values")
    dataset.expire(keep_last=1)
    clock.pass_grace()

    report = dataset.gc()

    assert report.skipped == ()
    view = open_on(store).views["scattered"]
    assert np.array_equal(view["x"][:], SCATTERED)


def test_what_a_deleted_view_held_is_collected(dataset, store, clock):
    before = pack_paths(store)
    dataset[SCATTERED].save("scattered")
    held = pack_paths(store) - before
    dataset.delete_tag("scattered")
    clock.pass_grace()

    dataset.gc()

    assert len(held) == 1
    assert pack_paths(store) & held == set()


def test_a_view_whose_pages_are_old_when_it_stands_is_withdrawn(dataset, store, clock):
    """format.md, Garbage, rule 2: tag − oldest pack < grace / 2, by the store's clock."""
    slow = FaultyStore(store)
    slow.before("put_if_absent", lambda: sleep(clock, GRACE / 2), path="tags/")
    view = open_on(slow)[SCATTERED]

    with pytest.raises(TransactionExpiredError, match="half of the dataset's grace"):
        view.save("late")

    assert tag_of(store, "late")["deleted"] is True
    assert list(dataset.views) == []


def test_a_view_that_is_soon_enough_stands(dataset, store, clock):
    slow = FaultyStore(store)
    slow.before(
        "put_if_absent", lambda: sleep(clock, GRACE / 2 - dt.timedelta(seconds=1)), path="tags/"
    )

    open_on(slow)[SCATTERED].save("soon")

    assert len(dataset.views["soon"]) == 50_000


def test_a_view_of_few_rows_has_no_pages_to_grow_old(dataset, store, clock):
    slow = FaultyStore(store)
    slow.before("put_if_absent", lambda: sleep(clock, 10 * GRACE), path="tags/")

    open_on(slow)[[1, 2]].save("few")

    assert dataset.views["few"]["x"][:].tolist() == [1, 2]


def test_a_view_of_a_version_given_up_meanwhile_is_withdrawn(dataset, store):
    """format.md 15 and 40: a view racing an expiry is valid or an error."""
    dataset["x"][0] = 7
    dataset.commit("second")
    racing = FaultyStore(store)
    racing.before("put_if_absent", lambda: dataset.expire(keep_last=1), path="tags/")
    view = open_on(racing, "main@1")[[1, 2]]

    with pytest.raises(SnapshotExpiredError, match=r"main@1 .* has expired"):
        view.save("late")

    assert tag_of(store, "late")["deleted"] is True


@pytest.mark.parametrize(
    "cite",
    [
        lambda ds: ds.views["top"].save("two"),
        lambda ds: ds.tag("old", at="main@1"),
        lambda ds: ds.branch("old", at="main@1"),
    ],
    ids=["view", "tag", "branch"],
)
def test_a_version_that_expired_before_is_not_said_to_have_expired_meanwhile(dataset, cite):
    dataset[[1, 2]].save("top")
    dataset["x"][0] = 7
    dataset.commit("second")
    dataset.expire(keep_last=1)

    with pytest.raises(
        SnapshotExpiredError, match=r"main@1 .* has expired \(by expire\(\)\), so (?s:.)*ds\.log"
    ):
        cite(dataset)


def test_a_view_whose_answer_was_lost_stands(dataset, store):
    lossy = FaultyStore(store)
    lossy.inject(Fault.ANSWER_LOST, call="put_if_absent", path="tags/")

    open_on(lossy)[[1, 2]].save("some")

    assert dataset.views["some"]["x"][:].tolist() == [1, 2]


def test_a_view_that_did_not_land_is_an_error_and_can_be_saved_again(dataset, store):
    lossy = FaultyStore(store)
    lossy.inject(Fault.NOT_STORED, call="put_if_absent", path="tags/", times=TRIES)
    view = open_on(lossy)[[1, 2]]

    with pytest.raises(StorageError):
        view.save("some")
    view.save("some")

    assert dataset.views["some"]["x"][:].tolist() == [1, 2]


def test_another_writers_view_is_never_withdrawn(dataset, store, clock):
    racing = FaultyStore(store)
    racing.before("put_if_absent", lambda: dataset[[5]].save("one"), path="tags/")

    with pytest.raises(tl.InvalidInputError, match="other rows or columns"):
        open_on(racing)[[6]].save("one")

    assert dataset.views["one"]["x"][:].tolist() == [5]


def test_a_pack_that_landed_under_another_name_is_cited_by_that(dataset, store):
    lossy = FaultyStore(store)
    lossy.inject(Fault.NOT_STORED, call="put_if_absent", path="packs/")

    open_on(lossy)[SCATTERED].save("scattered")

    assert np.array_equal(dataset.views["scattered"].rows, SCATTERED)


@pytest.mark.parametrize("member", ["rows", "columns", "selection", "query", "message", "time"])
def test_a_view_that_lacks_a_member_is_damage(dataset, store, member):
    dataset[[1]].save("one")
    body = tag_of(store, "one")
    body[member] = {"height": "?"} if member == "rows" else 7
    del body[member if member != "rows" else "columns"]
    run(store.put(tag_path("one"), seal(body)))

    with pytest.raises(tl.CorruptionError):
        dataset.views["one"]


def test_a_view_of_another_entrys_digest_is_refused(dataset, store):
    dataset[[1]].save("one")
    body = tag_of(store, "one") | {"digest_of": "0" * 40}
    run(store.put(tag_path("one"), seal(body)))

    with pytest.raises(tl.errors.InvalidStateError, match="another digest"):
        dataset.views["one"]


def test_each_byte_of_a_views_object_counts(dataset, store):
    """format.md 45: any flipped byte is an error, never other rows."""
    dataset.query("WHERE x < 3").save("some")
    good = run(store.get(tag_path("some")))
    for position in range(0, len(good), 7):
        bad = bytearray(good)
        bad[position] ^= 1
        run(store.put(tag_path("some"), bytes(bad)))

        with pytest.raises(tl.CorruptionError):
            dataset.views["some"]


def test_a_view_is_the_same_after_its_bytes():
    view = SavedView(
        name="größe/1",
        branch="main",
        seq=3,
        digest="0" * 40,
        rows=Root.of(RowSegments.range(3, 9)),
        columns=("x",),
        selection="1" * 40,
        query=({"tql": "WHERE x > $a", "params": {"a": 1}}, {"columns": ["x"]}),
        message="m",
        author="a",
        time=5,
        txid="f" * 32,
    )

    again = SavedView.from_bytes("größe/1", view.to_bytes(), where="x")

    assert again is not None
    assert again.to_bytes() == view.to_bytes()
