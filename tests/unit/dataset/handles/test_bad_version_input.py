"""Bad input to versions, tags, messages and keys: each an error in words, and nothing changes."""

import datetime as dt

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on


@pytest.mark.parametrize("version", ["main@99", "nope", "main@x", "main@²", "fix@0"])
def test_a_version_that_is_not_there_is_refused(version):
    store = MemoryStore()
    create_on(store, {"x": "int64"}).branch("fix")

    with pytest.raises(tl.VersionNotFoundError):
        open_on(store, version)


@pytest.mark.parametrize("name", ["main", "a" * 300, "v@1", ""])
def test_a_name_that_cannot_be_is_refused_as_a_tag_and_as_a_branch(name):
    dataset = create_on(MemoryStore(), {"x": "int64"})

    with pytest.raises(tl.InvalidInputError):
        dataset.tag(name)
    with pytest.raises(tl.InvalidInputError):
        dataset.branch(name)

    assert dataset.branches == ["main"]
    assert dict(dataset.tags) == {}


def test_a_tag_does_not_move_and_its_name_stays_used():
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.tag("v1")
    assert dataset.tag("v1").version == "main@0"  # again: the same
    dataset.append({"x": 1})
    dataset.commit()

    with pytest.raises(tl.InvalidInputError, match="v1"):
        dataset.tag("v1")
    dataset.delete_tag("v1")
    with pytest.raises(tl.InvalidInputError, match="v1"):
        dataset.tag("v1")
    with pytest.raises(tl.VersionNotFoundError):
        dataset.at("v1")


def test_a_tag_and_a_branch_never_share_a_name():
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.tag("v1")
    dataset.branch("fix")
    with pytest.raises(tl.InvalidInputError, match="reserved"):
        dataset.tag("pin-x")

    with pytest.raises(tl.InvalidInputError):
        dataset.branch("v1")
    with pytest.raises(tl.InvalidInputError):
        dataset.tag("fix")


@pytest.fixture
def one_row() -> Dataset:
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.append({"x": 1})
    dataset.commit("one")
    return dataset


@pytest.mark.parametrize("key", ["", 5, True, b"k", ("k",), float("nan"), "\ud800"])
def test_a_key_that_is_no_text_is_refused_before_the_log_holds_it(one_row, key):
    """Published as a number, it made its log entry one that nobody can read."""
    one_row["x"][0] = 2

    with pytest.raises(tl.InvalidInputError, match="the key"):
        one_row.commit("key", key=key)
    one_row.commit("none")

    assert [commit.keys for commit in one_row.log()] == [(), (), ()]


@pytest.mark.parametrize("message", [5, None, b"text", ["text"], "half \ud800"])
def test_a_message_that_is_no_text_is_refused_and_the_changes_stay(one_row, message):
    one_row["x"][0] = 2

    with pytest.raises(tl.InvalidInputError, match="the message"):
        one_row.commit(message)

    assert one_row.has_changes


@pytest.mark.parametrize("name", [5, b"v1", ["v1"], "half \ud800"])
@pytest.mark.parametrize("call", ["tag", "branch", "delete_tag", "delete_branch", "merge", "at"])
def test_a_name_that_is_no_text_is_refused(one_row, call, name):
    with pytest.raises(tl.InvalidInputError, match=r"name|not a version"):
        getattr(one_row, call)(name)


@pytest.mark.parametrize("expires", ["7", "soon", True, dt.date.max])
def test_a_tag_expires_at_a_time_and_nothing_else(one_row, expires):
    with pytest.raises(tl.InvalidInputError, match="aware datetime"):
        one_row.tag("v1", expires=expires)


@pytest.mark.parametrize(
    "given",
    [
        {"keep_last": "2"},
        {"keep_last": 2.5},
        {"keep_last": True},
        {"older_than": 90},
        {"older_than": dt.timedelta(days=-1)},
        {"older_than": ["90d"]},
    ],
)
def test_what_says_not_which_versions_are_old_gives_none_up(one_row, given):
    with pytest.raises(tl.InvalidInputError, match=next(iter(given))):
        one_row.expire(**given)

    assert one_row.at("main@0").version == "main@0"


def test_a_span_longer_than_history_gives_nothing_up(one_row):
    assert not one_row.expire(older_than="99999w", dry_run=True).given_up


@pytest.mark.parametrize("grace", [0, -1, None, 24.0])
def test_a_grace_time_that_is_no_span_makes_no_dataset(tmp_path, grace):
    with pytest.raises(tl.InvalidInputError, match="grace"):
        tl.create(str(tmp_path / "d"), {"x": "int64"}, grace=grace)

    assert not tl.exists(str(tmp_path / "d"))


def test_a_tensor_that_was_not_updated_is_told_with_those_that_were():
    ds = tl.create("memory://bad-updated", {"x": "int64", "y": "int64"})
    ds.append({"x": 1, "y": 1})
    ds.commit("one row")
    ds["x"][0] = 2
    ds.commit("another")

    with pytest.raises(tl.TensorNotFoundError, match="updated: x") as refused:
        _ = ds.diff("main@1").updated["y"]

    assert "from main@1 to main@2" in str(refused.value)
    assert "y" not in ds.diff("main@1").updated
