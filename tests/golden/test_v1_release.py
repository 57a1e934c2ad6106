"""What 0.1.0 wrote reads as it was written, for ever: versions, merges, copies, types.

``make_v1_release.py`` drew the history; ``expected.json`` says what each version holds, from the
values that were written. Every test reads the stored bytes by the code of today. ``first/`` is
what the first state of 0.1.0 stored.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.format import seal
from tests.golden.plain import digest, plain

COPIES = ["lake", "mirror", "first/lake", "first/mirror"]
# as make_v1_release.py wrote them; a parameter has to be known before the archive is open
VERSIONS = [*(f"main@{number}" for number in range(1, 19)), "side/größe@2", "side/größe@3"]
HEAD = "main@18"


@pytest.fixture(scope="module")
def expected(release: Path) -> Any:
    return json.loads((release / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lake(expected: Any) -> Any:
    return expected["lake"]


def opened(release: Path, name: str, version: str | None = None) -> tl.Dataset:
    return tl.open((release / name).as_posix(), version, read_only=True)


def rows_of(view: Any) -> list[dict[str, Any]]:
    """Read rows one after the other, value by value."""
    return [{name: plain(row[name]) for name in row} for row in view]


def columns_of(ds: tl.Dataset) -> list[dict[str, Any]]:
    """Read the same rows by columns."""
    columns: dict[str, list[Any]] = {}
    for name, one in ds.schema.items():
        if isinstance(one, tl.ClassLabel) and one.per is None:
            values = ds[name][:].as_names()
            columns[name] = [{"class": value} for value in values]
            continue
        nulls = ds[ds[name].is_null()].rows if one.nullable else []
        holds = np.setdiff1d(np.arange(len(ds)), nulls)
        columns[name] = [None] * len(ds)
        for row, value in zip(holds.tolist(), ds[name][holds], strict=True):
            columns[name][row] = plain(value)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def identities(view: Any) -> list[int]:
    return sorted(view["id"][:].tolist())


def held(lake: Any, version: str) -> list[dict[str, Any]]:
    return [lake["rows"][number] for number in lake["versions"][version]["rows"]]


def test_every_version_is_tested(lake):
    assert sorted(lake["versions"]) == sorted(VERSIONS)


@pytest.mark.parametrize(
    ("name", "version"),
    [("lake", "main@1"), ("lake", HEAD), ("lake", "side/größe@3"), ("first/lake", HEAD)],
)
def test_rows_read_as_they_were_written(release, lake, name, version):
    rows = rows_of(opened(release, name, version))

    assert rows == held(lake, version)
    assert digest(rows) == lake["versions"][version]["digest"]


@pytest.mark.parametrize("name", ["lake", "first/lake"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_holds_the_content_it_was_committed_with(release, lake, name, version):
    ds = opened(release, name, version)

    rows = columns_of(ds)

    assert rows == held(lake, version)
    assert digest(rows) == lake["versions"][version]["digest"]
    assert ds["id"][:].tolist() == lake["versions"][version]["identities"]


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("branch", ["main", "side/größe"])
def test_the_log_lists_what_was_committed(release, lake, name, branch):
    log = {commit.version: commit for commit in opened(release, name, branch).log()}

    for version, commit in lake["versions"].items():
        if version.startswith(f"{branch}@"):
            assert log[version].message == commit["message"]
            assert list(log[version].parents) == commit["parents"]
            assert log[version].num_rows == len(commit["rows"])
            assert list(log[version].keys) == commit.get("keys", [])
    assert next(iter(log)) == [version for version in VERSIONS if version.startswith(branch)][-1]


@pytest.mark.parametrize("name", ["lake", "first/lake"])
def test_versions_differ_by_what_was_changed_between_them(release, lake, name):
    for wanted in lake["differences"]:
        found = opened(release, name).diff(wanted["from"], wanted["to"])

        assert identities(found.added) == wanted["added"]
        assert identities(found.removed) == wanted["removed"]
        assert {
            name: identities(found.updated[name].view_after) for name in sorted(found.updated)
        } == wanted["updated"]


@pytest.mark.parametrize("name", COPIES)
def test_tags_and_branches_are_there(release, lake, name):
    ds = opened(release, name)

    assert {name: tag.version for name, tag in ds.tags.items()} == lake["tags"]
    assert set(ds.branches) == {"main", "side/größe"}
    for branch, names in lake["names"].items():
        assert [*opened(release, name, branch)["label"].names] == names


@pytest.mark.parametrize("name", COPIES)
def test_saved_views_open_with_their_rows(release, lake, name):
    ds = opened(release, name)
    by_hand, best = ds.views["by-hand"], ds.views["best"]

    assert sorted(ds.views) == ["best", "by-hand"]
    assert by_hand["id"][:].tolist() == lake["views"]["by-hand"]["identities"]
    assert best["id"][:].tolist() == lake["views"]["best"]["identities"]
    assert np.asarray(best["twice"]).tolist() == lake["views"]["best"]["twice"]


@pytest.mark.parametrize("name", COPIES)
def test_queries_find_what_the_rows_say(release, lake, name):
    ds = opened(release, name)

    for text, rows in lake["queries"].items():
        assert rows  # a query that finds nothing would compare nothing
        assert ds.query(text).rows.tolist() == rows


def test_the_first_commits_key_answers_a_repetition(release, lake, tmp_path):
    shutil.copytree(release / "lake", tmp_path / "copy")
    ds = tl.open((tmp_path / "copy").as_posix())

    again = ds.commit("again", key="golden-first")

    assert again.version == "main@1"
    assert ds.log(1)[0].version == HEAD


@pytest.mark.parametrize("name", ["mirror", "first/mirror"])
def test_the_mirror_holds_every_version(release, lake, name):
    for version in VERSIONS:
        ids = opened(release, name, version)["id"][:].tolist()

        assert ids == lake["versions"][version]["identities"]
    assert columns_of(opened(release, name)) == held(lake, HEAD)


def test_the_mirror_takes_no_commit(release, tmp_path):
    shutil.copytree(release / "mirror", tmp_path / "mirror")

    with pytest.raises(tl.ReadOnlyError), tl.open((tmp_path / "mirror").as_posix()) as ds:
        ds.delete([0])


def test_the_mirror_is_brought_up_to_date(release, tmp_path):
    for name in ("lake", "mirror"):
        shutil.copytree(release / name, tmp_path / name)
    source, mirror = ((tmp_path / name).as_posix() for name in ("lake", "mirror"))
    descriptor = tmp_path / "mirror" / "tensorlake.json"
    told = json.loads(descriptor.read_bytes())
    told["mirror_of"] = source  # where the lake lies now
    descriptor.write_bytes(seal(told))
    with tl.open(source) as ds:
        ds.delete([0])
        ds.commit("one row fewer")

    tl.copy(source, mirror, mirror=True)

    pair = [tl.open(url, read_only=True) for url in (source, mirror)]
    assert pair[0].version == pair[1].version == "main@19"
    assert columns_of(pair[0]) == columns_of(pair[1])


def test_a_copy_without_history_holds_the_tagged_version(release, lake):
    ds = opened(release, "alone")

    assert len(ds.log()) == 1
    assert columns_of(ds) == held(lake, lake["tags"]["before"])


@pytest.mark.parametrize("name", [*COPIES, "alone", "expired", "types", "left", "right", "pets"])
def test_every_stored_byte_verifies(release, name):
    report = opened(release, name).check(full=True, decode=True)

    assert report.ok, report


def test_expired_versions_stay_expired_and_kept_ones_read(release, expected):
    ds = opened(release, "expired")

    assert ds["x"][:].tolist() == expected["expired"]["main"]
    assert opened(release, "expired", "kept")["x"][:].tolist() == expected["expired"]["kept"]
    for version in expected["expired"]["expired"]:
        with pytest.raises(tl.SnapshotExpiredError):
            opened(release, "expired", version)["x"][:]


def test_every_type_reads_as_it_was_written(release, expected):
    full, nulls, empty = opened(release, "types")
    wanted = expected["types"]["row"]

    assert {name: plain(full[name]) for name in wanted} == wanted
    assert set(full) == {*wanted, "jpeg"}
    assert [name for name in nulls if nulls[name] is not None] == []
    assert (empty["text"], empty["blob"], len(empty["boxes"])) == ("", b"", 0)


def test_images_are_stored_as_they_came(release, expected):
    ds = opened(release, "types")

    for name, data in expected["types"]["bytes"].items():
        assert bytes(ds[name].bytes(0)).hex() == data
    assert ds[0]["jpeg"].shape == (8, 8, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lake", "first/lake"])
def test_a_copy_is_written_to_merged_and_optimized_by_todays_code(release, lake, tmp_path, name):
    shutil.copytree(release / name, tmp_path / "copy")
    ds = tl.open((tmp_path / "copy").as_posix())
    branch = ds.branch("today")
    branch["score"][0] = 99.0
    branch.commit("a score")
    ds["label"][1] = "owl"
    ds.commit("an owl")

    ds.merge("today")
    ds.optimize()

    rows = held(lake, HEAD)
    again = rows_of(tl.open((tmp_path / "copy").as_posix(), read_only=True))
    rows[0] = rows[0] | {"score": plain(np.float32(99))}
    rows[1] = rows[1] | {"label": {"class": "owl"}}
    assert again == rows
    assert ds.check().ok
