"""Handles whose dataset was deleted, or deleted and created again, at the same place."""

import shutil

import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.versions import COMPACTED_EVERY
from tensorlake.versions.log import log
from tests.support.handles import create_on, open_on

SCHEMA = {"x": "int64"}


@pytest.fixture(params=["folder", "memory"])
def url(request, tmp_path):
    return f"{tmp_path}/ds" if request.param == "folder" else f"memory://deleted{tmp_path}"


def made(url, values, schema=None):
    ds = tl.create(url, schema or SCHEMA)
    for value in values:
        ds.append({"x": value})
        ds.commit(str(value))
    return ds


def test_a_commit_into_a_deleted_dataset_is_refused(url):
    stale = made(url, [1])
    stale.append({"x": 2})
    tl.delete(url, confirm=url)

    with pytest.raises(tl.DatasetNotFoundError, match="was deleted since this handle was opened"):
        stale.commit()

    assert not tl.exists(url)
    assert len(made(url, [5])) == 1  # nothing is in the way of another dataset


@pytest.mark.parametrize("values", [[], [7], [7, 8, 9]])
def test_a_commit_never_lands_in_a_dataset_made_anew(url, values):
    stale = made(url, [1, 2])
    tl.delete(url, confirm=url)
    anew = made(url, values)
    stale["x"][0] = 5

    with pytest.raises(tl.DatasetNotFoundError, match=r"deleted( and created again)? since"):
        stale.commit()

    assert tl.open(url)["x"][:].tolist() == values
    anew.append({"x": 10})
    anew.commit()
    assert anew.check().ok


def test_other_ways_to_publish_are_refused_too(url):
    stale = made(url, range(3))
    stale.branch("dev")
    tl.delete(url, confirm=url)
    made(url, [7])

    for call in (lambda: stale.restore("main@1"), stale.optimize, lambda: stale.merge("dev")):
        with pytest.raises(tl.TensorlakeError):
            call()
    assert tl.open(url)["x"][:].tolist() == [7]
    assert [one.version for one in tl.open(url).log()] == ["main@1", "main@0"]


CALLS = {
    "refresh": lambda ds: ds.refresh(),
    "refresh staged": lambda ds: (ds.append({"x": 1}), ds.refresh(keep_staged=True)),
    "tag": lambda ds: ds.tag("v1"),
    "tag at": lambda ds: ds.tag("v1", at="main@0"),
    "delete_tag": lambda ds: ds.delete_tag("v0"),
    "branch": lambda ds: ds.branch("dev"),
    "delete_branch": lambda ds: ds.delete_branch("old"),
    "save": lambda ds: ds[:1].save("positive"),
    "at": lambda ds: ds.at("main@0"),
    "diff": lambda ds: ds.diff("main@0"),
    "expire": lambda ds: ds.expire(keep_last=1),
    "gc": lambda ds: ds.gc(),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("is_made_anew", [False, True])
def test_names_maintenance_and_refresh_are_refused_like_commits(url, call, is_made_anew):
    stale = made(url, [1, 2])
    tl.delete(url, confirm=url)
    if is_made_anew:
        anew = made(url, [7, 8, 9])
        anew.tag("v0")
        anew.branch("old")

    with pytest.raises(tl.DatasetNotFoundError, match="deleted"):
        call(stale)

    stale.discard()
    if not is_made_anew:
        assert not tl.exists(url)
        return
    assert {*tl.open(url).tags} == {"v0"}
    assert {*tl.open(url).branches} == {"main", "old"}
    assert {*tl.open(url).views} == set()


def test_a_folder_that_was_removed_is_not_begun_again(tmp_path):
    stale = made(f"{tmp_path}/ds", [1])
    stale.append({"x": 2})
    shutil.rmtree(tmp_path / "ds")

    with pytest.raises(tl.DatasetNotFoundError):
        stale.commit()


def test_what_a_late_commit_left_is_named_and_can_be_deleted(tmp_path):
    url = f"{tmp_path}/ds"
    made(url, [1])
    tl.delete(url, confirm=url)
    (tmp_path / "ds/branches/main").mkdir(parents=True, exist_ok=True)
    (tmp_path / "ds/branches/main/HEAD").write_bytes(b"a hint")

    with pytest.raises(tl.InvalidInputError, match="what remains of a dataset"):
        tl.create(url, SCHEMA)
    tl.delete(url, confirm=url)

    assert len(made(url, [3])) == 1


def test_a_remote_head_is_read_again_after_a_while(monkeypatch):
    store = CountingStore(MemoryStore())
    ds = create_on(store, SCHEMA)
    ds.append({"x": 1})
    store.reset()
    ds.commit()
    assert store.count("get") == 0  # it was seen a moment ago

    stale = open_on(store)
    monkeypatch.setattr(log, "CONFIRMED_S", 0.0)
    ds.append({"x": 2})
    store.reset()
    ds.commit()
    assert store.count("get") == 1
    stale.append({"x": 3})
    stale.commit()  # a newer head is no other dataset
    assert len(stale) == 3


def test_a_deletion_waits_for_the_compaction_of_the_last_commit(url):
    for _ in range(3):
        ds = tl.create(url, SCHEMA)
        for value in range(COMPACTED_EVERY):
            ds.append({"x": value})
            ds.commit()
        tl.delete(url, confirm=url)

        assert not tl.exists(url)
    anew = made(url, [7])

    assert tl.open(url).version == "main@1"
    assert anew.check().ok
