"""Indexes stay readable for ever: they find what a scan finds, and the log names them."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tests.golden.index_contents import CHANGED, DELETED, MORE, ROWS, row_of, vector_of

ARCHIVE = Path(__file__).parent / "v1_indexes.tar.xz"
EVERY = {
    "label": "bitmap",
    "meta.source": "bitmap",
    "name": "btree",
    "price": "btree",
    "tags": "bitmap",
    "text": "text",
    "vector": "vector",
}
DROPPED = "name"
VERSIONS = ["main@2", "main@3", "main@5", "main@6"]  # built, in part out of date, updated, one less
QUESTIONS = [
    ("label", "label = 'owl'", lambda row: row["label"] == "owl"),
    ("label", "label IS NULL", lambda row: row["label"] is None),
    ("tags", "CONTAINS(tags, 'new')", lambda row: "new" in row["tags"]),
    ("price", "price >= 2 AND price < 3.5", lambda row: row["price"] and 2 <= row["price"] < 3.5),
    ("name", "name IN ('name 07', 'name 30')", lambda row: row["name"] in {"name 07", "name 30"}),
    ("meta.source", "meta['source'] = 'site 3'", lambda row: row["meta"]["source"] == "site 3"),
    ("text", "MATCH(text, 'stop red')", lambda row: {"stop", "red"} <= words_of(row)),
    ("text", "MATCH(text, 'größe road')", lambda row: {"größe", "road"} <= words_of(row)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexes")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def pairs(folder: Path) -> dict[str, tuple[tl.Dataset, tl.Dataset]]:
    """Return each version with its indexes, and a branch of it that has dropped them."""
    writable, found = tl.open(folder.as_posix()), dict[str, tuple[tl.Dataset, tl.Dataset]]()
    for version in VERSIONS:
        plain = writable.branch(f"plain-{version.removeprefix('main@')}", at=version)
        for name in plain.indexes:
            plain.drop_index(name)
        found[version] = tl.open(folder.as_posix(), version, read_only=True), plain
    return found


@pytest.fixture(scope="module")
def held() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each version, as they were written."""
    built = [row_of(row) for row in range(ROWS)]
    rows = [row_of(row, is_changed=row in CHANGED) for row in range(ROWS + MORE)]
    changed = [row for place, row in enumerate(rows) if place not in DELETED]
    more = [*changed, row_of(ROWS + MORE)]
    return {"main@2": built, "main@3": changed, "main@5": changed, "main@6": more}


def words_of(row: dict[str, Any]) -> set[str]:
    return {*(row["text"] or "").split()}


def test_every_byte_verifies(folder):
    report = tl.open(folder.as_posix(), read_only=True).check(full=True, decode=True)

    assert report.ok, report
    assert not report.findings


def test_the_log_names_the_indexes_that_a_commit_built_updated_or_dropped(folder):
    log = tl.open(folder.as_posix(), read_only=True).log()
    changes = {one.version: one.changes.indexes for one in log}

    def of(op: str, kinds: dict[str, str]) -> list[dict[str, str]]:
        return [{"op": op, "name": name, "kind": kind} for name, kind in kinds.items()]

    assert list(changes["main@2"]) == of("add", EVERY)
    assert list(changes["main@5"]) == of("update", EVERY)
    assert list(changes["main@6"]) == of("drop", {DROPPED: EVERY[DROPPED]})
    assert [changes[f"main@{number}"] for number in (0, 1, 3, 4)] == [()] * 4


@pytest.mark.parametrize("version", VERSIONS)
def test_indexes_are_listed_with_what_they_cover(pairs, version):
    found = pairs[version][0].indexes

    kinds = dict(EVERY)
    if version == "main@6":
        del kinds[DROPPED]
    assert {name: one.kind for name, one in found.items()} == kinds
    shares = {one.coverage for one in found.values()}
    assert (shares == {1.0}) == (version in {"main@2", "main@5"})
    assert min(shares) > 0.99
    assert found["vector"].recall > 0.95


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_found_by_an_index_are_those_of_a_scan(pairs, held, version):
    indexed, plain = pairs[version]

    for name, condition, meets in QUESTIONS:
        found, scanned = (each.query(f"WHERE {condition}") for each in (indexed, plain))

        is_indexed = version != "main@6" or name != DROPPED
        assert (f"by index {name!r}" in found.explain()) == is_indexed
        assert "index" not in scanned.explain()
        assert found.rows.tolist() == scanned.rows.tolist()
        rows = [place for place, row in enumerate(held[version]) if meets(row)]
        assert found.rows.tolist() == rows != []


@pytest.mark.parametrize("version", VERSIONS)
def test_words_and_phrases_are_ranked_as_without_an_index(pairs, version):
    indexed, plain = pairs[version]

    for words in ("stop größe", "car", "si*", '"blue red"'):
        found, scanned = (each.search("text", words, 12) for each in (indexed, plain))

        assert "index 'text'" in found.explain()
        assert "index" not in scanned.explain()
        assert found.rows.tolist() == scanned.rows.tolist() != []
        assert found["_score"][:].tolist() == scanned["_score"][:].tolist()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_nearest_vectors_are_those_of_all(pairs, held, version):
    indexed, plain = pairs[version]
    vectors = np.array([row["vector"] for row in held[version]])

    for seed in (5, 100, 2000, ROWS + 3):
        wanted = vector_of(seed)
        found, scanned = (each.search("vector", wanted, 2) for each in (indexed, plain))

        assert "index 'vector'" in found.explain()
        assert "compared all" in scanned.explain()
        nearest = np.argsort(((vectors - wanted) ** 2).sum(axis=1), kind="stable")[:2]
        assert found.rows.tolist() == scanned.rows.tolist() == nearest.tolist()


def test_values_read_as_they_were_written(pairs, held):
    rows, (ds, _) = held["main@6"], pairs["main@6"]

    assert ds["name"][:] == [row["name"] for row in rows]
    assert ds["text"].to_list() == [row["text"] for row in rows]
    assert np.array_equal(ds["vector"][:], [row["vector"] for row in rows])
    for price, row in zip(ds["price"].to_list(), rows, strict=True):
        assert price == row["price"] or (math.isnan(price) and math.isnan(row["price"]))
