"""Forks and newer versions of their bases: a pull is the merge of a branch."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    ConflictError,
    DatasetNotFoundError,
    InvalidInputError,
    UncommittedChangesError,
    UntaggedBaseWarning,
    VersionNotFoundError,
)

_numbers = count()
ROWS = 40


def filled(url: str) -> tl.Dataset:
    ds = tl.create(url, {"x": "int64", "name": "str"})
    ds.extend({"x": [*range(ROWS)], "name": [f"row {row}" for row in range(ROWS)]})
    ds.commit("rows")
    return ds


@pytest.fixture
def place() -> str:
    return f"memory://pulls-{next(_numbers)}"


@pytest.fixture
def base(place: str) -> tl.Dataset:
    return filled(f"{place}/base")


@pytest.fixture
def ds(place: str, base: tl.Dataset) -> tl.Dataset:
    return tl.fork(base.url, f"{place}/fork")


def rows_of(ds: tl.Dataset) -> list[Any]:
    return [(row["x"], row["name"], row["y"] if "y" in ds.schema else None) for row in ds]


def change(ds: tl.Dataset, number: np.random.Generator, sign: int) -> None:
    """Commit a random change; ``sign`` tells the values of the two sides apart."""
    for _ in range(int(number.integers(1, 4))):
        row, value = int(number.integers(len(ds))), sign * int(number.integers(1, 10**6))
        match int(number.integers(5)):
            case 0:
                ds["x"][row] = value
            case 1:
                ds["name"][row] = f"name {value}"
            case 2:
                ds.append({"x": value, "name": "new"})
            case 3:
                ds.delete([row])
            case _:
                if sign > 0 and "y" not in ds.schema:
                    ds.add_tensor("y", tl.Array("int64", (), default=7))
                else:
                    ds.extend({"x": [value] * 2, "name": ["two"] * 2})
    ds.commit("change")


@pytest.mark.parametrize("seed", [0, 1, pytest.param(range(2, 30), marks=pytest.mark.slow)])
def test_pulls_are_merges_of_a_branch(seed: int | range):
    for one in [seed] if isinstance(seed, int) else seed:
        compare_histories(one)


def compare_histories(seed: int) -> None:
    """Make one history in a base and its fork, and in two branches of a dataset."""
    place = f"memory://pulls-{next(_numbers)}"
    theirs, main = filled(f"{place}/base"), filled(f"{place}/one")
    ours, branch = tl.fork(theirs.url, f"{place}/fork"), main.branch("fork")
    for round_ in range(4):
        how: Any = ("ours", "theirs")[int(np.random.default_rng((seed, round_)).integers(2))]
        for at, (one, other) in enumerate(((theirs, main), (ours, branch))):
            for ds in (one, other):
                change(ds, np.random.default_rng((seed, round_, at)), 1 - 2 * at)
        pulled, merged = ours.pull(on_conflict=how), branch.merge("main", on_conflict=how)

        assert rows_of(ours) == rows_of(branch)
        for fact in ("added", "removed", "updated", "schema") if merged.how == "merge" else ():
            assert getattr(pulled, fact) == getattr(merged, fact)
        assert ours.check().ok
    assert rows_of(tl.open(ours.url)) == rows_of(branch)


def test_a_fork_without_commits_takes_what_the_base_has(ds: tl.Dataset, base: tl.Dataset):
    base.append({"x": 99, "name": "new"})
    base["x"][3] = -3
    base.commit("more")

    report = ds.pull()

    assert (report.added, report.updated, report.how) == (1, {"x": 1}, "merge")
    assert rows_of(ds) == rows_of(base)
    assert ds.row_ids == base.row_ids
    assert [(one.url, one.version) for one in ds.bases] == [(base.url, "main@2")]
    assert ds.pull().how == "nothing"
    assert next(iter(ds.log())).message == f"pull main@2 of {base.url}"


def test_versions_branches_and_tags_of_the_base_can_be_pulled(ds: tl.Dataset, base: tl.Dataset):
    for x in (100, 101):
        base.append({"x": x, "name": "new"})
        base.commit("more")
    base.tag("v3")
    side = base.branch("side")
    side.append({"x": 102, "name": "side"})
    side.commit("side")

    found: list[list[int]] = []
    for version in ("main@2", "v3", "side", None):
        ds.pull(version)
        found.append(ds["x"][ROWS:].tolist())

    assert found == [[100], [100, 101], [100, 101, 102], [100, 101, 102]]
    assert ds.check().ok
    with pytest.raises(VersionNotFoundError):
        ds.pull("no such")


def test_a_conflict_is_named_and_leaves_nothing_behind(ds: tl.Dataset, base: tl.Dataset):
    base["x"][5] = 1
    base.commit("theirs")
    ds["x"][5] = 2
    ds.commit("ours")
    tags, version = list(base.refresh().tags), ds.version

    with pytest.raises(ConflictError, match=r"main@2 of memory://.*/base"):
        ds.pull()
    assert ds.pull(dry_run=True).is_refused
    assert (list(base.refresh().tags), tl.open(ds.url).version) == (tags, version)

    ds.pull(on_conflict=lambda conflict: conflict.base + conflict.ours + conflict.theirs)
    assert ds["x"][5] == 5 + 1 + 2
    assert len(base.refresh().tags) == len(tags) + 1


def test_the_base_keeps_all_versions_that_were_pulled(ds: tl.Dataset, base: tl.Dataset):
    for x in (1, 2, 3):
        base["x"][:] = np.full(ROWS, x)
        base.commit("others")
        ds.pull()
    base["x"][:] = np.full(ROWS, 9)
    base.commit("last")
    base.expire(keep_last=1)
    base.gc()

    again = tl.open(ds.url)
    assert [again.at(f"main@{n}")["x"][7] for n in range(4)] == [7, 1, 2, 3]
    assert again.check().ok
    assert again.pull().updated == {"x": ROWS}
    assert again["x"][0] == 9


def test_branches_that_pulled_apart_merge_by_what_they_have_in_common(
    ds: tl.Dataset, base: tl.Dataset
):
    fix = ds.branch("fix")
    base["x"][1] = -1
    base.append({"x": 100, "name": "new"})
    base.commit("more")
    ds.pull()
    fix.pull()
    ds["x"][2], fix["name"][2] = -2, "two"
    ds.commit("ours")
    fix.commit("theirs")

    report = ds.merge("fix")

    assert report.bases == (f"main@2 of {base.url}",) or len(report.bases) == 2
    assert (ds["x"][:4].tolist(), ds["name"][2], len(ds)) == ([0, -1, -2, 3], "two", ROWS + 1)
    assert ds.bases[0].version == "main@2"
    assert ds.pull().how == fix.pull().how == "nothing"


def test_a_branch_that_merged_a_pull_has_pulled(ds: tl.Dataset, base: tl.Dataset):
    fix = ds.branch("fix")
    fix["name"][0] = "fixed"
    fix.commit("fixed")
    base.append({"x": 100, "name": "new"})
    base.commit("more")
    ds.pull()

    fix.merge("main")

    assert (fix.bases[0].version, len(fix), fix["name"][0]) == ("main@2", ROWS + 1, "fixed")
    assert fix.pull().how == "nothing"


def test_a_fork_of_a_fork_pulls_what_the_fork_pulled(ds: tl.Dataset, base: tl.Dataset, place: str):
    second = tl.fork(ds.url, f"{place}/second")
    second["name"][0] = "mine"
    second.commit("mine")
    base.append({"x": 100, "name": "new"})
    base.commit("more")
    ds.pull()

    second.pull()

    assert (second["x"][-1], second["name"][0], len(second)) == (100, "mine", ROWS + 1)
    assert [one.version for one in second.bases] == ["main@1", "main@2"]
    assert second.check().ok
    assert second.absorb() > 0
    assert rows_of(tl.open(second.url)) == rows_of(second)


def test_forks_made_and_pulled_at_once_are_whole(base: tl.Dataset, place: str):
    names = ["a", "b", "same", "same", "same", "c"]

    def made(name: str) -> bool:
        try:
            tl.fork(base.url, f"{place}/{name}")
        except InvalidInputError:
            return False
        return True

    def pulled(name: str) -> tl.MergeReport:
        return tl.open(f"{place}/{name}").pull()

    with ThreadPoolExecutor(6) as pool:
        were_made = list(pool.map(made, names))
        base.append({"x": 100, "name": "new"})
        base.commit("more")
        reports = list(pool.map(pulled, names))

    assert (sum(were_made), were_made[2:5].count(True)) == (4, 1)
    for name in set(names):
        fork = tl.open(f"{place}/{name}")
        assert rows_of(fork) == rows_of(base)
        assert fork.check().ok
    assert [one.how for one in reports].count("merge") == 4


def test_a_base_that_cannot_be_written_is_pulled_with_a_warning(tmp_path: Path):
    base = filled(str(tmp_path / "base"))
    ds = tl.fork(base.url, tmp_path / "fork")
    base.append({"x": 100, "name": "new"})
    base.commit("more")
    shutil.rmtree(tmp_path / "base" / "tags")
    (tmp_path / "base" / "tags").write_text("in the way")

    with pytest.warns(UntaggedBaseWarning, match="main@2"):
        ds.pull()

    assert len(tl.open(ds.url)) == ROWS + 1


def test_what_cannot_be_pulled_is_refused(ds: tl.Dataset, base: tl.Dataset, place: str):
    with pytest.raises(InvalidInputError, match=r"has no base.*\n.*ds\.merge\(name\)"):
        base.pull()
    with pytest.raises(InvalidInputError, match=r"pull\(on_conflict='mine'\)"):
        ds.pull(on_conflict="mine")  # pyright: ignore[reportArgumentType] - what is refused
    ds["x"][0] = 1
    with pytest.raises(UncommittedChangesError, match=r"which pull\(\) would not see"):
        ds.pull()
    ds.discard()
    with pytest.raises(tl.ReadOnlyError):
        ds.at("main@0").pull()
    tl.delete(base.url, confirm=base.url)
    with pytest.raises(DatasetNotFoundError, match="is gone"):
        ds.pull()
    filled(f"{place}/base")
    with pytest.raises(DatasetNotFoundError, match="is another dataset now"):
        ds.pull()


def test_the_error_of_a_conflicting_pull_names_the_pull(base: tl.Dataset, ds: tl.Dataset) -> None:
    base["x"][0] = 100
    base.commit("there")
    ds["x"][0] = 200
    ds.commit("here")

    with pytest.raises(ConflictError, match=r"ds\.pull\(on_conflict='ours'\) or 'theirs'"):
        ds.pull()


def test_a_dry_run_of_a_pull_tells_of_a_broken_check(base: tl.Dataset, ds: tl.Dataset) -> None:
    ds.add_check("small", "x < 1000")
    ds.commit("a check")
    base.append({"x": 5000, "name": "large"})
    base.commit("there")

    report = ds.pull(dry_run=True)

    assert (report.is_refused, "the check 'small'" in report.conflicts[0]) == (True, True)
    with pytest.raises(tl.ConstraintError):
        ds.pull()


def test_a_fork_is_not_made_inside_its_base(tmp_path: Path) -> None:
    base = filled(str(tmp_path / "base"))

    with pytest.raises(InvalidInputError, match="inside its base"):
        tl.fork(base.url, tmp_path / "base" / "inner")
    with pytest.raises(InvalidInputError, match=r"inside its base|already"):
        tl.fork(base.url, tmp_path / "base")
    assert len(tl.fork(base.url, tmp_path / "base-fixed")) == ROWS
