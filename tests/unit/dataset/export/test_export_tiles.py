"""Arrays in tiles leave a dataset as arrays do that are stored whole, and come back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.dataset.export.arrow import stream

if TYPE_CHECKING:
    from pathlib import Path

SHAPES: dict[str, tuple[int | None, ...]] = {
    "ragged": (None, None),
    "rows": (None, 50),
    "fixed": (70, 50),
    "line": (70,),
}


def place() -> str:
    return f"memory://{uuid.uuid4()}"


def dataset(*, tiled: bool, nullable: bool = False) -> Any:
    made = tl.create(
        place(),
        {
            name: tl.Array(
                "uint16", shape, tiles=(16,) * len(shape) if tiled else None, nullable=nullable
            )
            for name, shape in SHAPES.items()
        },
    )
    random = np.random.default_rng(0)
    for row in range(3):
        lengths = [[one or 40 + 11 * row for one in shape] for shape in SHAPES.values()]
        values = [random.integers(0, 999, one, dtype=np.uint16) for one in lengths]
        is_null = nullable and row == 1
        made.append(dict.fromkeys(SHAPES) if is_null else dict(zip(SHAPES, values, strict=True)))
    made.commit("arrays")
    return made


def assert_same(found: Any, expected: Any) -> None:
    for name in SHAPES:
        for row in range(3):
            one, other = found[name][row], expected[name][row]
            if other is None:
                assert one is None
            else:
                assert one.dtype == np.uint16
                assert np.array_equal(one, other)


@pytest.mark.parametrize("nullable", [False, True])
def test_tables_of_arrow_and_parquet_have_arrays_and_come_back_in_tiles(
    tmp_path: Path,
    nullable: bool,  # noqa: FBT001 - of pytest
) -> None:
    tiled, whole = dataset(tiled=True, nullable=nullable), dataset(tiled=False, nullable=nullable)

    table = tiled.to_arrow()
    tiled.to_parquet(tmp_path / "tiles.parquet")
    again = tl.ingest.parquet(tmp_path / "tiles.parquet", place())
    of_arrow = tl.ingest.arrow(table, place())

    assert table.to_pylist() == whole.to_arrow().to_pylist()
    assert table.schema.types == whole.to_arrow().schema.types
    assert pq.read_table(tmp_path / "tiles.parquet").to_pylist() == table.to_pylist()
    for one in (again, of_arrow):
        kind = one.schema["ragged"]
        assert isinstance(kind, tl.Array)
        assert kind.tiles == (16, 16)
        assert_same(one, tiled)


def test_exports_in_memory_equal_those_of_arrays_stored_whole() -> None:
    tiled, whole = dataset(tiled=True), dataset(tiled=False)

    ours, plain = tiled.to_numpy(), whole.to_numpy()
    frame = tiled.to_pandas()

    assert ours["fixed"].dtype == plain["fixed"].dtype == np.uint16
    assert np.array_equal(ours["fixed"], plain["fixed"])
    assert_same(ours, plain)
    assert_same(frame, whole.to_pandas())
    assert_same(tl.ingest.arrow(frame, place()), whole)


def test_files_equal_those_of_arrays_stored_whole(tmp_path: Path) -> None:
    tiled, whole = dataset(tiled=True), dataset(tiled=False)

    tiled.to_numpy(tmp_path / "a.npz")
    tiled.to_webdataset(tmp_path / "a")
    ours, plain = tiled.to_zarr(), whole.to_zarr()

    assert_same(tl.ingest.numpy(tmp_path / "a.npz", place()), whole)
    shards = tl.ingest.webdataset(str(tmp_path / "a"), place())
    assert_same(shards, whole)
    assert np.array_equal(ours["fixed"][:], plain["fixed"][:])
    assert sorted(ours["ragged"].array_keys()) == sorted(plain["ragged"].array_keys())
    assert np.array_equal(ours["ragged/values"][:], plain["ragged/values"][:])
    rows = (tmp_path / "t.jsonl", tmp_path / "w.jsonl")
    tiled.to_jsonl(rows[0])
    whole.to_jsonl(rows[1])
    assert rows[0].read_text() == rows[1].read_text()


def test_batches_are_cut_by_the_size_of_arrays_not_of_their_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tl.create(place(), {"x": tl.Array("uint16", (None,), tiles=(4096,))})
    made.extend({"x": [np.zeros(50_000, np.uint16) for _ in range(8)]})
    made.commit("zeros")
    monkeypatch.setattr(stream, "BATCH_NBYTES", 200_000)

    assert [len(batch) for batch in made.to_arrow().to_batches()] == [2, 2, 2, 2]


def test_nested_lists_are_taken_as_one_array() -> None:
    made = tl.create(place(), {"x": tl.Array("int64", (None, None), tiles=(2, 2))})

    made.append({"x": [[1, 2, 3], [4, 5, 6]]})

    assert made["x"][0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_images_in_tiles_leave_as_png_files_and_come_back_in_tiles(tmp_path: Path) -> None:
    pytest.importorskip("imagecodecs")
    pixels = np.random.default_rng(0).integers(0, 255, (3, 70, 90, 3), dtype=np.uint8)
    schema = {
        "image": tl.Image("webp", tiles=(32, 32), nullable=True),
        "boxes": tl.BBox(of="image"),
    }
    made = tl.create(place(), schema)
    boxes = np.array([[1, 2, 30, 40]], np.float32)
    made.extend({"image": [pixels[0], None, pixels[2]], "boxes": [boxes] * 3})
    made.commit("images")

    made.to_parquet(tmp_path / "a.parquet")
    made.to_webdataset(tmp_path / "shards")
    made.where(~made["image"].is_null()).to_coco(tmp_path / "coco")
    made.where(~made["image"].is_null()).to_mds(tmp_path / "mds", columns=["image"])
    files = sorted((tmp_path / "coco" / "images").iterdir())

    for again in (
        tl.ingest.parquet(tmp_path / "a.parquet", place()),
        tl.ingest.arrow(made.to_arrow(), place()),
        tl.ingest.webdataset(str(tmp_path / "shards"), place()),
    ):
        assert again.schema["image"] == made.schema["image"]
        assert again["image"][1] is None
        assert np.array_equal(again["image"][2], pixels[2])
    assert [file.suffix for file in files] == [".png", ".png"]
    for file, expected in zip(files, pixels[[0, 2]], strict=True):
        assert np.array_equal(np.asarray(PIL.Image.open(file)), expected)
    assert made.to_pandas()["image"][0].startswith(b"\x89PNG")
    assert b'"png"' in (tmp_path / "mds" / "shard.00000.mds").read_bytes()[:1000]
