"""A collection of a damaged dataset: what stops it, what is skipped."""

import pytest

from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError
from tensorlake.format import new_txid, seal
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import BranchLog
from tests.support.garbage import Clock, leave_garbage, pack_paths, with_three_packs
from tests.support.handles import create_on, open_on, rows_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def dataset(store: MemoryStore) -> Dataset:
    return with_three_packs(store)


def test_a_pack_missing_from_a_live_version_is_damage(store, dataset):
    for path in pack_paths(store):
        run(store.delete(path))

    with pytest.raises(CorruptionError, match="tensorlake check"):
        rows_of(open_on(store))


@pytest.mark.parametrize("citing", [None, "tag", "branch"])
def test_a_missing_page_of_a_live_version_stops_it_before_it_deletes(store, clock, citing):
    """Tags, branches and versions that share the page are marked at once, and leave it to others.

    Only tags may name what is gone.
    """
    dataset = create_on(store, {"x": "int64"})
    for number in range(40):  # enough for index pages
        dataset.append({"x": number})
        dataset.commit(f"row {number}")
        if citing is not None:
            getattr(dataset, citing)(f"at {number}")
    entry = run(BranchLog(store, "main").head())
    for child in next(iter(entry.roots.values())).children:
        run(store.delete(child.pack.path))
    packs = pack_paths(store)
    clock.pass_grace()

    with pytest.raises(CorruptionError, match="nothing was deleted"):
        dataset.gc()

    assert pack_paths(store) == packs


def test_a_damaged_tag_stops_it_before_it_deletes(store, dataset, clock):
    """What it holds cannot be told."""
    dataset.tag("v1")
    run(store.put("tags/v1.json", b'{"branch":"main"}'))
    garbage = leave_garbage(store)
    clock.pass_grace()

    with pytest.raises(CorruptionError, match="v1"):
        dataset.gc()

    assert garbage <= pack_paths(store)


def test_each_tag_whose_pages_are_gone_is_told_though_tags_share_them(store, clock):
    dataset = create_on(store, {"x": "int64"})
    fork = dataset.branch("fork")
    for number in range(40):  # enough for index pages
        fork.append({"x": number})
        fork.commit(f"row {number}")
    for number in (38, 39, 40):
        fork.at(f"fork@{number}").tag(f"at {number}")
    dataset.delete_branch("fork")
    entry = run(BranchLog(store, "fork").existing(38))
    for child in next(iter(entry.roots.values())).children:
        run(store.delete(child.pack.path))
    clock.pass_grace()

    report = dataset.gc()

    assert [one.split(":")[0] for one in report.skipped] == [
        f"tag 'at {number}' of fork@{number}" for number in (38, 39, 40)
    ]


def test_a_tag_that_dangles_is_told_and_skipped(store, dataset, clock):
    """Its creator died before it read the log again: that must not stop collecting for ever."""
    entry = run(BranchLog(store, "main").existing(1))
    body = {"branch": "main", "seq": 1, "digest_of": "0" * 40, "txid": new_txid()}
    run(store.put_if_absent("tags/odd.json", seal(body)))
    body |= {"branch": "gone", "digest_of": entry.digest}
    run(store.put_if_absent("tags/lost.json", seal(body)))
    garbage = leave_garbage(store)
    clock.pass_grace()

    report = dataset.gc()

    assert garbage.isdisjoint(pack_paths(store))
    assert any("'odd'" in one for one in report.skipped)
    assert any("'lost'" in one for one in report.skipped)
