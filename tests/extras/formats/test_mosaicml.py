"""MosaicML's streaming reads what `to_mds` writes, and writes what `tl.ingest.mds` reads."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl

streaming = pytest.importorskip("streaming")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

COLUMNS = {
    "i": "int",
    "f": "float32",
    "s": "str",
    "b": "bytes",
    "j": "json",
    "a": "ndarray",
    "a16": "ndarray:uint16",
    "fixed": "ndarray:float32:2,3",
    "pil": "pil",
    "jpg": "jpeg",
    "png": "png",
    "many": "list[png]",
    "n": "str_int",
    "x": "str_float",
}


def sample(n: int) -> dict[str, object]:
    image = Image.fromarray(np.full((4, 5, 3), 9 * n, np.uint8))
    return {
        "i": -n,
        "f": np.float32(n / 2),
        "s": "é" * n,
        "b": bytes([255, n]),
        "j": {"n": [n]},
        "a": np.full((1 + n, 2), n, np.int64),
        "a16": np.arange(n + 1, dtype=np.uint16),
        "fixed": np.full((2, 3), n, np.float32),
        "pil": image,
        "jpg": image,
        "png": image,
        "many": [image] * (n + 1),
        "n": n,
        "x": 0.1 * n,
    }


@pytest.mark.parametrize("compression", [None, "zstd:3", "gz", "br", "bz2", "snappy"])
def test_what_the_writer_writes_is_read(tmp_path, compression):
    folder = str(tmp_path / "mds")
    with streaming.MDSWriter(
        out=folder, columns=COLUMNS, compression=compression, size_limit=6000
    ) as out:
        for n in range(20):
            out.write(sample(n))
    ds = tl.ingest.mds(folder, str(tmp_path / "x.tl"))

    assert len(ds) == 20
    for n in (0, 7, 19):
        row, expected = ds[n], sample(n)
        for name in ("i", "f", "s", "b", "j", "n", "x"):
            assert row[name] == expected[name], name
        for name in ("a", "a16", "fixed", "pil", "png"):
            assert np.array_equal(row[name], np.asarray(expected[name])), name
        assert [np.array_equal(one, expected["png"]) for one in row["many"]] == [True] * (n + 1)
        assert np.abs(row["jpg"].astype(int) - 9 * n).max() < 4


def test_the_dataset_reads_what_is_written(samples, tmp_path):
    samples.to_mds(tmp_path / "out", shard_size=300)
    read = streaming.StreamingDataset(local=str(tmp_path / "out"), batch_size=1)
    rows = [read[at] for at in range(len(samples))]

    assert np.array_equal([row["x"] for row in rows], samples["x"][:])
    assert np.array_equal([row["total"] for row in rows], samples["total"][:])
    again = tl.ingest.mds(tmp_path / "out", str(tmp_path / "again.tl"))
    assert dict(again.schema) == dict(samples.schema)
