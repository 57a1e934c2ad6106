"""What a server asks of runs: the order without what made batches, and few parts for one step."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.dataset.runs.record import Record
from tensorlake.dataset.runs.tables import joined_bytes, read_step, table_bytes
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore

ROWS = 24


@pytest.fixture
def numbers(tmp_path):
    ds = tl.create(tmp_path / "numbers.tl", {"x": "int64"}, durability="none")
    ds.extend({"x": range(ROWS)})
    ds.commit("numbers")
    return ds


def test_rows_are_found_without_the_functions_and_the_framework_of_batches(numbers, tmp_path):
    with numbers.run("own") as run:
        loader = run.loader(batch_size=5, shuffle=True, seed=2)
        seen = [batch["_row"].tolist() for batch in loader]
    (segment,) = tmp_path.rglob("segment-*.json")
    recorded = json.loads(segment.read_text())
    recorded["arguments"]["decode"] = {"object": "a step of the program's own", "digest": "0"}
    segment.write_text(json.dumps(recorded | {"framework": "one that is not installed"}))

    again = numbers.runs["own"]

    assert [again.rows_at(step).tolist() for step in range(5)] == seen
    assert again.steps_of(seen[3][0]) == [3]
    with pytest.raises(tl.InvalidInputError, match="decode= of run"):
        again.batch(0)


def test_values_of_a_step_are_found_in_few_parts():
    store = CountingStore(MemoryStore())
    record = Record.create(store, "long", url="memory://long", version="", config={})
    rng = np.random.default_rng(0)
    steps = np.sort(rng.integers(0, 4000, 40_000))
    parts = np.array_split(np.arange(len(steps)), 64)  # a step may be in two of them
    for number, places in enumerate(parts):
        ids = {"txid_high": np.full(len(places), 7, np.uint64), "offset": places.astype(np.uint64)}
        ids["txid_low"] = ids["txid_high"]
        ranks = {"step": steps[places], "rank": np.zeros(len(places), np.int32)}
        table = pa.table(ranks | ids | {"loss": places / 8})
        path = record.path("000000-0123456789abcdef", "rows", number)
        runtime.run(store.put(path, table_bytes(table)))
    joined = [record.path("000000-0123456789abcdef", "rows", number) for number in range(16, 32)]
    data = joined_bytes([runtime.run(store.get(path)) or b"" for path in joined])
    path = record.path("000000-0123456789abcdef", "rows", 16, 31)
    runtime.run(store.put(path, data))
    spans = {}

    for step in (0, 1, 999, 1000, 2345, 3999, *np.unique(steps[[part[0] for part in parts]])):
        store.reset()
        found = read_step(record, int(step), {}, spans)

        expected = np.flatnonzero(steps == step)
        assert np.array_equal(np.sort(found.column("offset").to_numpy()), expected)
        assert np.array_equal(found.column("loss").to_numpy() * 8, found.column("offset"))
        assert store.count("get") <= 8
    assert len(read_step(record, 4000, {}, spans)) == 0
