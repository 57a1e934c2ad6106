"""Bitmaps of the values under a key of JSON objects: answers are those of a scan."""

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

VALUES = [
    {"source": "wiki", "n": 1}, {"source": "web"}, {"source": None}, {}, [1, "wiki"], "wiki", 3,
    None, {"source": {"a": 1, "b": 2}}, {"source": 3}, {"source": 3.0}, {"source": True},
    {"source": ["wiki", "web"]}, {"source": "é"}, {"source": ""}, {"n": "wiki"},
]  # fmt: skip
CONDITIONS = [
    "meta['source'] = 'wiki'",
    "meta['source'] != 'wiki'",
    "NOT (meta['source'] = 'wiki')",
    "meta['source'] IN ('wiki', 'é')",
    "meta['source'] IS NULL",
    "meta['source'] IS NOT NULL",
    "meta['source'] = 3",
    "meta['source']['a'] = 1",
    "CAST(meta['source']['a'] AS INT) < CAST(meta['source']['b'] AS INT)",
    "meta['source'][0] = 'wiki'",
    "meta['source'] LIKE 'w%'",
    "CONTAINS(meta['source'], 'web')",
    "meta['source'] = 'wiki' OR n = 4",
    "meta['source'] = 'web' AND n > 8",
]
OTHERS = ["meta['n'] = 1", "meta['n'] = meta['source']", "meta IS NULL", "meta[0] = 1"]


@pytest.fixture(scope="module")
def datasets():
    made = create_on(MemoryStore(), {"meta": tl.Json(nullable=True), "n": "int64"})
    rows = [*itertools.islice(itertools.cycle(VALUES), 5000)]
    made.extend({"meta": rows, "n": np.arange(len(rows)) % 500})
    made.commit()
    indexed = made.branch("indexed")
    indexed.create_index("meta", path="source")
    indexed.create_index("n")
    indexed["meta"][[4, 8]] = [{"source": "web"}, {"source": "wiki"}]
    indexed.extend({"meta": VALUES, "n": [0] * len(VALUES)})
    indexed.commit()
    made["meta"][[4, 8]] = [{"source": "web"}, {"source": "wiki"}]
    made.extend({"meta": VALUES, "n": [0] * len(VALUES)})
    made.commit()
    return made, indexed


@pytest.mark.parametrize("condition", CONDITIONS + OTHERS)
def test_answers_are_those_of_a_scan(datasets, condition) -> None:
    made, indexed = datasets
    expected = made.query(f"WHERE {condition}").rows.tolist()
    found = indexed.query(f"WHERE {condition}")
    assert found.rows.tolist() == expected
    assert ("'meta.source' (bitmap)" in found.explain()) == (
        condition in CONDITIONS and 0 < len(expected) < len(made) / 4
    )


def test_an_index_is_merged_and_of_a_longer_path(datasets) -> None:
    made, indexed = datasets
    indexed.create_index("meta", name="inner", path=["source", "a"])
    indexed.commit()
    indexed.optimize()
    assert {one.coverage for one in indexed.indexes.values()} == {1.0}
    for condition in CONDITIONS:
        found = indexed.query(f"WHERE {condition}").rows.tolist()
        assert found == made.query(f"WHERE {condition}").rows.tolist(), condition


@pytest.mark.parametrize("given", [{}, {"path": 3}, {"path": []}, {"path": ["a", 0]}, {"pat": "x"}])
def test_other_paths_are_refused(datasets, given) -> None:
    with pytest.raises(tl.InvalidInputError, match="path"):
        datasets[1].create_index("meta", **given)
    with pytest.raises(tl.InvalidInputError, match="no option"):
        datasets[1].create_index("n", "bitmap", path="a")
