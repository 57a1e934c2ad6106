"""Refreshing a handle that has staged changes, and handles that end with them."""

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tensorlake as tl
from tensorlake.errors import ConflictError, UncommittedChangesError


@pytest.fixture
def url(tmp_path) -> str:
    with tl.create(str(tmp_path / "lake"), {"x": "int64"}, durability="none") as dataset:
        dataset.extend({"x": [1, 2, 3]})
        dataset.commit("three rows")
    return str(tmp_path / "lake")


def appended(url: str) -> None:
    with tl.open(url, durability="none") as other:
        other.append({"x": 4})
        other.commit("a row")


# Tensors that were added go along


def test_a_tensor_added_here_stays_staged_over_a_refresh_and_new_rows_have_its_fill(url):
    dataset = tl.open(url, durability="none")
    dataset.add_tensor("entropy", tl.Scalar("float32", nullable=True))
    appended(url)

    dataset.refresh()
    dataset["entropy"][3] = 0.5
    dataset.commit("entropy")

    assert dataset.version == "main@3"
    assert dataset["entropy"].read(slice(None), null=-1).tolist() == [-1, -1, -1, 0.5]


def test_a_refresh_that_meets_no_commit_keeps_an_added_tensor(url):
    dataset = tl.open(url, durability="none")
    dataset.add_tensor("y", "float32", fill=0.0)

    dataset.refresh()

    assert dataset.has_changes
    assert "y" in dataset.schema


def test_two_tensors_of_one_name_conflict_on_refresh_and_nothing_moves(url):
    dataset = tl.open(url, durability="none")
    dataset.add_tensor("y", "float32", fill=0.0)
    with tl.open(url, durability="none") as other:
        other.add_tensor("y", "int64", fill=0)
        other.commit("y of whole numbers")

    with pytest.raises(ConflictError, match="y"):
        dataset.refresh()

    assert dataset.version == "main@1"
    assert dataset.has_changes


@pytest.mark.parametrize(
    "stage",
    [
        lambda ds: ds.append({"x": 9}),
        lambda ds: ds.delete([0]),
        lambda ds: ds["x"].__setitem__(0, 9),
        lambda ds: ds.rename_tensor("x", "z"),
        lambda ds: (ds.add_tensor("y", "int64", fill=0), ds["y"].__setitem__(0, 1)),
        lambda ds: (ds.add_tensor("y", "int64", fill=0), ds.append({"x": 9, "y": 1})),
    ],
    ids=["append", "delete", "update", "rename", "added and written", "added and appended"],
)
def test_other_staged_changes_still_refuse_a_refresh(url, stage):
    dataset = tl.open(url, durability="none")
    stage(dataset)
    appended(url)

    with pytest.raises(UncommittedChangesError, match="keep_staged=True"):
        dataset.refresh()

    assert dataset.version == "main@1"
    dataset.discard()


# A handle that just ends


@contextmanager
def losses(url: str) -> Iterator[list[str]]:
    """What is warned of handles of ``url``: a collection ends those of other tests too."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
        gc.collect()
    told += [
        str(one.message)
        for one in caught
        if one.category is tl.UncommittedChangesWarning and repr(url) in str(one.message)
    ]


@pytest.mark.slow
def test_a_handle_that_is_collected_with_staged_changes_warns(url):
    dataset = tl.open(url, durability="none")
    dataset.append({"x": 4})

    with losses(url) as told:
        del dataset

    (loss,) = told
    assert "ended with staged changes" in loss


@pytest.mark.slow
def test_a_view_keeps_staged_changes_alive_without_a_warning(url):
    dataset = tl.open(url, durability="none")
    dataset.append({"x": 4})
    view = dataset[2:]
    with losses(url) as told:
        del dataset

    assert told == []
    assert view["x"][:].tolist() == [3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["commit", "discard", "close", "rolled back", "refreshed"])
def test_a_handle_with_nothing_staged_any_more_is_collected_silently(url, end):
    dataset = tl.open(url, durability="none")
    if end == "rolled back":
        with pytest.raises(ZeroDivisionError), dataset.transaction("no"):
            dataset["x"][0] = 1 // 0
    elif end == "refreshed":
        dataset.append({"x": 4})
        appended(url)
        dataset.refresh(keep_staged=True)
        dataset.commit("both")
    else:
        dataset.append({"x": 4})
        if end == "close":
            with pytest.warns(tl.UncommittedChangesWarning):
                dataset.close()
        else:
            getattr(dataset, end)()

    with losses(url) as told:
        del dataset

    assert told == []


SCRIPT = """
import os, sys
import tensorlake as tl
ds = tl.open(sys.argv[1], durability="none")
ds.append({"x": 4})
if sys.argv[2] == "fork":
    if os.fork() == 0:
        sys.exit()          # the copy in a child loses nothing
    os.wait()
    ds.commit()
"""


@pytest.mark.slow  # interpreters that start and end
@pytest.mark.parametrize(("how", "warned"), [("exit", 1), ("fork", 0)])
def test_staged_changes_at_the_end_of_the_interpreter_are_reported_once(url, how, warned):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, how],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=os.environ,
    )

    assert done.stderr.count("UncommittedChangesWarning") == warned
    assert len(tl.open(url)) == 3 + (how == "fork")
