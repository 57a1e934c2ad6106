"""``--all``: copy, check, gc and du of every dataset of a lake."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.format import COPYING, DESCRIPTOR, head_path
from tensorlake.quantities import human_nbytes
from tensorlake.storage import open_store, runtime

Run = Callable[..., Any]
_numbers = count()


def make(url: str, *rows: int) -> None:
    with tl.create(url, {"x": "int64"}) as ds:
        ds.extend({"x": list(rows)})
        ds.commit("rows")


def values(url: str, version: str | None = None) -> list[int]:
    with tl.open(url, version, read_only=True) as ds:
        return ds["x"][:].tolist()


def lines(text: str) -> dict[str, dict[str, object]]:
    return {one.pop("dataset"): one for one in map(json.loads, text.splitlines())}


@pytest.fixture
def lake() -> str:
    """``pets`` with a branch and a tag, ``vision/cats``, and a fork of the one in the other."""
    url = f"memory://cli-lake-{next(_numbers)}"
    make(f"{url}/pets", 1, 2, 3)
    make(f"{url}/vision/cats", 4)
    with tl.open(f"{url}/pets") as ds:
        ds.tag("v1")
        ds.branch("fix")
    with tl.fork(f"{url}/pets", f"{url}/forks/pets") as fork:
        fork.extend({"x": [5]})
        fork.commit("one of its own")
    return url


@pytest.fixture
def backup() -> str:
    return f"memory://cli-backup-{next(_numbers)}"


def test_a_backup_has_every_dataset_with_its_branches_and_tags(
    run: Run, lake: str, backup: str
) -> None:
    shown = run("copy", lake, backup, "--all")

    assert shown.code == 0, shown.err
    assert tl.list(backup) == tl.list(lake)
    assert values(f"{backup}/pets", "v1") == values(f"{backup}/pets", "fix") == [1, 2, 3]
    assert shown.lines[-1] == f"3 datasets of {lake}"


def test_a_fork_in_a_backup_outlives_its_base(run: Run, lake: str, backup: str) -> None:
    run("copy", lake, backup, "--all")

    tl.delete(f"{lake}/pets", confirm=f"{lake}/pets")

    assert values(f"{backup}/forks/pets") == [1, 2, 3, 5]
    assert run("check", f"{backup}/forks/pets").code == 0


def test_a_second_backup_copies_what_is_new(run: Run, lake: str, backup: str) -> None:
    run("copy", lake, backup, "--all")
    with tl.open(f"{lake}/pets") as ds:
        ds.extend({"x": [9]})
        ds.commit("one more")
    make(f"{lake}/new", 7)

    shown = lines(run("copy", lake, backup, "--all", "--json").out)

    assert values(f"{backup}/pets") == [1, 2, 3, 9]
    assert {name: one["packs"] for name, one in shown.items()} == {
        "forks/pets": 0,
        "new": 1,
        "pets": 1,
        "vision/cats": 0,
    }


def test_datasets_that_were_removed_stay_in_a_backup(run: Run, lake: str, backup: str) -> None:
    run("copy", lake, backup, "--all")
    tl.delete(f"{lake}/vision/cats", confirm=f"{lake}/vision/cats")

    assert run("copy", lake, backup, "--all").code == 0
    assert values(f"{backup}/vision/cats") == [4]


def test_a_copy_that_went_its_own_way_fails_alone(run: Run, lake: str, backup: str) -> None:
    run("copy", lake, backup, "--all")
    with tl.open(f"{backup}/pets") as ds:
        ds.extend({"x": [0]})
        ds.commit("in the backup")
    with tl.open(f"{lake}/vision/cats") as ds:
        ds.extend({"x": [8]})
        ds.commit("in the lake")

    shown = run("copy", lake, backup, "--all", "--json")

    assert shown.code == 1
    found = lines(shown.out)
    assert [name for name, one in found.items() if not one["ok"]] == ["pets"]
    assert values(f"{backup}/vision/cats") == [4, 8]


def test_a_dataset_that_lost_its_descriptor_fails_the_copy_and_is_repaired(
    run: Run, lake: str, backup: str
) -> None:
    store = open_store(f"{lake}/vision/cats")
    runtime.run(store.delete(DESCRIPTOR))

    copied = run("copy", lake, backup, "--all")
    checked = run("check", lake, "--all", "--quick", "--json")
    repaired = run("check", lake, "--all", "--repair")

    assert (copied.code, checked.code, repaired.code) == (1, 1, 0)
    assert "vision/cats: DatasetNotFoundError" in copied.err
    assert copied.lines[-1].endswith("1 failed: vision/cats")
    assert lines(checked.out)["vision/cats"]["ok"] is False
    assert run("copy", lake, backup, "--all").code == 0


def test_an_incomplete_copy_is_left_out(run: Run, lake: str) -> None:
    store = open_store(f"{lake}/partial")
    runtime.run(store.put(COPYING, b"{}"))
    runtime.run(store.put("packs/00/one", b"x"))

    shown = run("check", lake, "--all", "--json")

    assert shown.code == 0
    assert lines(shown.out)["partial"] == {"ok": True, "state": "copying"}
    assert "partial" not in tl.list(lake)


def test_check_of_a_lake_names_the_damaged_dataset(run: Run, lake: str) -> None:
    store = session_of(tl.open(f"{lake}/vision/cats")).store
    runtime.run(store.put(head_path("main"), b"nonsense"))

    shown = run("check", lake, "--all")

    assert shown.code == 1
    assert shown.lines[-1] == f"3 datasets of {lake}, 1 failed: vision/cats"


def test_gc_of_a_lake_asks_once_and_needs_an_answer(run: Run, lake: str) -> None:
    assert run("gc", lake, "--all").code == 0  # there is nothing to delete
    assert run("gc", lake, "--all", "--dry-run").lines[0].startswith("forks/pets: would delete")


def test_du_of_a_lake_sums_its_datasets(run: Run, lake: str) -> None:
    shown = run("du", lake, "--all", "--unreferenced")
    found = lines(run("du", lake, "--all", "--json").out)

    header = ["size", "version", "dataset", "stored", "unreferenced", "own", "packs"]
    assert shown.lines[0].split() == header
    assert [line.split()[3] for line in shown.lines[1:4]] == ["forks/pets", "pets", "vision/cats"]
    assert {name: one["rows"] for name, one in found.items()} == {
        "forks/pets": 4,
        "pets": 3,
        "vision/cats": 1,
    }


def test_du_of_a_lake_counts_the_bytes_of_a_base_once(run: Run, lake: str) -> None:
    sizes = lines(run("du", lake, "--all", "--json").out)

    shown = run("du", lake, "--all")

    own = {name: one["own_nbytes"] for name, one in sizes.items()}
    assert own["pets"] is own["vision/cats"] is None
    assert 0 < own["forks/pets"] < sizes["forks/pets"]["nbytes"] + own["forks/pets"]
    counted = sum(one["own_nbytes"] or one["nbytes"] for one in sizes.values())
    assert shown.lines[4].split() == [*human_nbytes(counted).split(), "total"]
    fork, *others = shown.lines[1:4]
    assert fork.endswith(human_nbytes(own["forks/pets"]))
    assert [len(line.split()) for line in (fork, *others)] == [6, 4, 4]


@pytest.mark.parametrize("command", ["check", "gc", "du"])
def test_all_of_one_dataset_or_of_none_is_refused(run: Run, lake: str, command: str) -> None:
    one = run(command, f"{lake}/pets", "--all")
    none = run(command, f"{lake}/nothing", "--all")

    assert (one.code, none.code) == (2, 1)
    assert "leave out --all" in one.err
    assert "no dataset under" in none.err


def test_a_backup_inside_its_lake_is_refused(run: Run, tmp_path: Path) -> None:
    make(str(tmp_path / "lake/pets"), 1)
    lake = str(tmp_path / "lake")
    (tmp_path / "link").symlink_to(lake)

    inside = run("copy", lake, f"{tmp_path}/link/backup", "--all")
    same = run("copy", lake, f"{lake}/", "--all")
    outside = run("copy", lake, f"{lake}-backup", "--all")

    assert (inside.code, same.code, outside.code) == (2, 2, 0)
    assert "is inside" in inside.err


def test_a_version_with_all_is_refused(run: Run, lake: str, backup: str) -> None:
    assert run("copy", lake, backup, "--all", "--at", "main@1").code == 2
    assert run("du", lake, "--all", "--at", "main@1").code == 2
