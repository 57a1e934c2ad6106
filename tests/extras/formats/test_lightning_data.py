"""LitData reads what `to_litdata` writes, and writes what `tl.ingest.litdata` reads."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl

writer = pytest.importorskip("litdata.streaming.writer")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def sample(n: int) -> dict[str, object]:
    return {
        "pil": Image.fromarray(np.full((4, 5, 3), 9 * n, np.uint8)),
        "label": n,
        "name": f"n{n}",
        "x": torch.ones(3) * n,
        "t": torch.full((2, n + 1), n, dtype=torch.int16),
        "m": np.ones((2, n + 1), np.float32),
        "v": np.arange(n + 1),
        "f": 0.5 * n,
        "ok": n % 2 == 0,
        "raw": bytes([255, n]),
        "nested": {"a": n, "b": ["a", "b"] * n, "c": [{"k": n, "s": "x"}]},
    }


@pytest.mark.parametrize("how", [{}, {"compression": "zstd", "compression_level": "chunk"}])
def test_what_the_writer_writes_is_read(tmp_path, how):
    folder = tmp_path / "lit"
    folder.mkdir()
    out = writer.BinaryWriter(str(folder), chunk_size=4, **how)
    for n in range(10):
        out[n] = sample(n)
    out.done()
    out.merge()
    ds = tl.ingest.litdata(folder, str(tmp_path / "x.tl"))

    assert len(ds) == 10
    for n in (0, 5, 9):
        row, expected = ds[n], sample(n)
        for name in ("label", "name", "f", "ok", "raw"):
            assert row[name] == expected[name], name
        for name in ("pil", "x", "t", "m", "v"):
            assert np.array_equal(row[name], np.asarray(expected[name])), name
        assert row["nested/a"] == n
        assert row["nested/b"] == ["a", "b"] * n
        assert row["nested/c"] == [{"k": n, "s": "x"}]


def test_the_dataset_reads_what_is_written(samples, tmp_path):
    from litdata import StreamingDataset

    samples.to_litdata(tmp_path / "out", chunk_size=300)
    read = StreamingDataset(str(tmp_path / "out"), shuffle=False)
    rows = [read[at] for at in range(len(samples))]

    assert np.array_equal([row["x"] for row in rows], samples["x"][:])
    assert np.array_equal(np.array([row["total"] for row in rows], np.float32), samples["total"][:])
