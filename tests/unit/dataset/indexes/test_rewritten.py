"""Chunks written again by updates: indexes cover every row but those whose values changed."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.indexes import rewritten
from tensorlake.indexes.rewritten import same_samples
from tensorlake.storage import MemoryStore
from tensorlake.types import EncodedColumn, PackedSamples, RaggedColumn, UniformColumn, offsets_of
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on

ROWS = 40_000
KINDS = {"label": None, "price": None, "text": "text", "tags": None, "vec": None}


def packed(texts, first=0):
    offsets = offsets_of(np.array([len(one) for one in texts]))
    return EncodedColumn(PackedSamples("".join(texts).encode(), offsets)[first:])


def ragged(samples, valid=None):
    shapes = np.array([[len(one)] for one in samples])
    return RaggedColumn(np.concatenate([np.float32(one) for one in samples]), shapes, valid)


UNIFORM, ENCODED = UniformColumn, EncodedColumn
SOME, OTHERS = np.array([True, False, False]), np.array([True, False, True])
CASES = [
    (UNIFORM(np.array([1, np.nan, 0.0])), UNIFORM(np.array([1, np.nan, -0.0])), [1, 1, 0]),
    (UNIFORM(np.zeros((2, 2))), UNIFORM(np.array([[0, 0], [0, 1.0]])), [1, 0]),
    (UNIFORM(np.zeros(2)), UNIFORM(np.zeros(2, np.float32)), [0, 0]),
    (UNIFORM(np.array([1, 2, 3]), SOME), UNIFORM(np.array([1, 9, 3]), OTHERS), [1, 1, 0]),
    (ragged([[1, 2], [], [3], [4, 5]]), ragged([[1, 2], [], [3, 3], [4, 6]]), [1, 1, 0, 0]),
    (ragged([[], [1], [], [2], []]), ragged([[], [1], [], [3], []]), [1, 1, 1, 0, 1]),
    (packed(["ab", "", "c", "de"]), packed(["ab", "", "cd", "dE"]), [1, 1, 0, 0]),
    (packed(["x", "ab", "", "c"], 1), packed(["ab", "", "d"]), [1, 1, 0]),
    (ENCODED([b"a", memoryview(b"b")]), packed(["a", "c"]), [1, 0]),
    (ENCODED([b"a"]), UNIFORM(np.zeros(1)), [0]),
    (UNIFORM(np.zeros((2, 1), np.float32)), ragged([[0], [0, 0]]), [1, 0]),
    (UNIFORM(np.zeros(0)), UNIFORM(np.zeros(0)), []),
]


@pytest.mark.parametrize(("one", "other", "expected"), CASES)
def test_samples_are_compared_by_their_bytes(one, other, expected) -> None:
    assert same_samples(one, other).tolist() == [bool(one) for one in expected]


def content(count):
    random = np.random.default_rng(0)
    return {
        "label": random.integers(0, 50, count),
        "price": random.random(count).astype(np.float32),
        "text": [f"w{number % 500} z{number % 7}" for number in range(count)],
        "tags": [[f"t{number % 30}"] for number in range(count)],
        "vec": random.standard_normal((count, 8)).astype(np.float32),
    }


@pytest.fixture
def dataset():
    made = create_on(
        MemoryStore(),
        {
            "label": tl.ClassLabel([f"c{number}" for number in range(50)]),
            "price": "float32",
            "text": tl.Text(),
            "tags": tl.Tags(),
            "vec": tl.Embedding(8),
        },
    )
    made.extend(content(ROWS))
    for column, kind in KINDS.items():
        made.create_index(column, kind)
    made.commit()
    return made


CONDITIONS = [
    "label = 'c5'",
    "price < 0.01",
    "MATCH(text, 'w7')",
    "CONTAINS(tags, 't3')",
    "label = 'c5' OR price > 0.99",
]


def check(dataset) -> None:
    scanned = dataset[["label", "price", "text", "tags"]].query("WHERE TRUE")
    for condition in CONDITIONS:
        by_index = dataset.query(f"WHERE {condition}")
        stated = f"WHERE NOT (NOT ({condition}) AND ABS(price) >= 0)"  # no index answers this
        assert by_index.rows.tolist() == scanned.query(stated).rows.tolist(), condition


@pytest.mark.slow
def test_scattered_updates_leave_all_other_rows_covered(dataset, monkeypatch) -> None:
    rows = np.sort(np.random.default_rng(1).choice(ROWS, 60, replace=False))
    changed = {name: values[:60] for name, values in content(100).items()}
    for first in (0, 20, 40):  # three commits: the last is compared with the version before it
        some = slice(first, first + 20)
        for name, values in changed.items():
            dataset[name][rows[some]] = values[some]
        dataset.commit()
        check(dataset)
        least = {name: one.coverage for name, one in dataset.indexes.items()}
        assert min(least.values()) > 1 - 70 / ROWS, least
    nearest = dataset.search("vec", changed["vec"][33], k=3)
    assert nearest.rows[0] == rows[33]
    assert "finds" in dataset.query("WHERE label = 'c5'").explain()
    monkeypatch.setattr(rewritten, "LOCAL_NBYTES", 0)  # from here on nothing is compared
    monkeypatch.setattr(rewritten, "REMOTE_NBYTES", 0)
    afresh = dataset.at(dataset.version)
    assert all(one.coverage == 0 for one in afresh.indexes.values())
    check(afresh)


@pytest.mark.parametrize(("step", "coverage"), [(ROWS, 1 - 1 / ROWS), (2, 0)])
def test_chunks_that_were_collected_are_scanned(step: int, coverage: float) -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    dataset = create_on(store, {"label": tl.ClassLabel(["a", "b"])})
    dataset.extend({"label": np.arange(ROWS) % 2})
    dataset.commit()
    dataset.create_index("label")
    dataset.commit()
    rows = np.arange(1, ROWS, step)
    dataset["label"][rows] = ["a"] * len(rows)
    dataset.commit()
    assert dataset.indexes["label"].coverage == 1 - len(rows) / ROWS
    dataset.expire(keep_last=1)
    clock.pass_grace()
    assert dataset.gc().deleted_packs
    afresh = open_on(store)
    assert afresh.indexes["label"].coverage == coverage  # the commit notes few differing cells
    assert len(afresh.query("WHERE label = 'b'")) == ROWS // 2 - len(rows)
