"""Masks and polygons in tables: read by Arrow, polars, DuckDB, Hugging Face and pycocotools."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pycocotools import mask as coco_mask

import tensorlake as tl
from tensorlake.dataset.write.arrow.columns import TYPE_KEY
from tensorlake.errors import InvalidInputError

MASKS = np.random.default_rng(0).random((3, 6, 8)) > 0.5
SCHEMA = {
    "mask": tl.InstanceMask(nullable=True),
    "outline": tl.Polygon(),
}


@pytest.fixture
def ds(tmp_path):
    with tl.create(f"memory://masks-{tmp_path.name}", SCHEMA) as ds:
        ds.extend(
            {
                "mask": [MASKS, np.zeros((0, 4, 5), np.bool_), None, MASKS[:1, :2]],
                "outline": [[[0, 0, 4, 0, 4, 3], [1, 1, 2, 1, 2, 2, 1, 2]], [], [], [[0.5] * 6]],
            }
        )
        ds.commit("masks")
        yield ds


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_pycocotools_fills_the_masks_of_a_table(ds):
    objects = ds.to_arrow()["mask"].to_pylist()[0]

    filled = coco_mask.decode(objects)

    assert np.array_equal(filled.transpose(2, 0, 1), MASKS)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_pycocotools_fills_the_polygons_of_a_table(ds):
    polygons = ds.to_arrow()["outline"].to_pylist()[0]

    flat = [np.array(one).reshape(-1).tolist() for one in polygons]

    assert flat == [[0, 0, 4, 0, 4, 3], [1, 1, 2, 1, 2, 2, 1, 2]]
    assert coco_mask.area(coco_mask.frPyObjects(flat, 6, 8)).tolist() == [6, 1]


def test_polars_and_duckdb_read_the_objects_of_a_row(ds):
    frame = pl.DataFrame(ds)
    counted = frame.select(pl.col("mask").list.len()).to_series()

    assert counted.to_list() == [3, 0, None, 1]
    assert duckdb.sql("SELECT mask[1].size[1] AS height FROM ds").fetchall() == [
        (6,),
        (None,),
        (None,),
        (2,),
    ]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
def test_hugging_face_reads_masks_as_run_lengths(ds):
    rows = ds.to_hf()

    assert np.array_equal(coco_mask.decode(rows[0]["mask"]).transpose(2, 0, 1), MASKS)
    assert rows[1]["mask"] == []
    assert rows[2]["mask"] is None
    assert rows[3]["mask"][0]["size"] == [2, 8]
    assert rows[0]["outline"][1] == [[1, 1], [2, 1], [2, 2], [1, 2]]


def assert_same_masks(ds, again):
    for row in range(4):
        one, other = ds["mask"][row], again["mask"][row]
        assert (one is None) is (other is None)
        if one is not None:
            assert len(one) == len(other)  # without objects there is no size
            assert not len(one) or np.array_equal(one, other)
    assert again.schema["mask"] == ds.schema["mask"]


def test_masks_of_tables_are_the_same_tensor_again(ds, tmp_path):
    for export in (ds.to_parquet, ds.to_jsonl):
        with pytest.raises(tl.UnsupportedFeatureError, match=r"row 1 of 'mask'.*\(0, 4, 5\)"):
            export(tmp_path / "masks")
    ds["mask"][1] = np.zeros((0, 0, 0), np.bool_)  # of no size, which a list has
    ds.commit("a mask without a size")
    ds.to_parquet(tmp_path / "masks.parquet")
    ds.to_jsonl(tmp_path / "masks.jsonl")

    assert_same_masks(ds, tl.ingest.arrow(ds.to_arrow(), f"{ds.url}-arrow"))
    assert_same_masks(ds, tl.ingest.arrow(ds.to_pandas(), f"{ds.url}-pandas"))
    assert_same_masks(ds, tl.ingest.parquet(tmp_path / "masks.parquet", f"{ds.url}-parquet"))
    schema = dict(ds.schema)
    assert_same_masks(
        ds, tl.ingest.jsonl(tmp_path / "masks.jsonl", f"{ds.url}-jsonl", schema=schema)
    )


def test_a_mask_without_objects_is_exported_with_its_image(tmp_path):
    schema = {"image": tl.Image("png"), "mask": tl.InstanceMask(of="image")}
    with tl.create(f"memory://masks-{tmp_path.name}", schema) as ds:
        ds.append({"image": np.zeros((4, 5, 3), np.uint8), "mask": np.zeros((0, 4, 5), np.bool_)})
        ds.commit("nothing on it")

        ds.to_parquet(tmp_path / "both.parquet")
        with pytest.raises(tl.UnsupportedFeatureError, match="row 0 of 'mask'"):
            ds.to_parquet(tmp_path / "mask.parquet", columns=["mask"])

    again = tl.ingest.parquet(tmp_path / "both.parquet", f"{ds.url}-again")
    assert again["image"][0].shape == (4, 5, 3)
    assert len(again["mask"][0]) == 0


def test_columns_of_a_parquet_file_are_compressed_unless_they_are_media(tmp_path):
    masks = np.zeros((40, 64, 64), np.bool_)
    masks[:, 8:32, 8:32] = True
    schema = {"image": tl.Image("png"), "mask": tl.InstanceMask(), "box": tl.BBox()}
    with tl.create(f"memory://masks-{tmp_path.name}", schema) as ds:
        box = np.zeros((1, 4), np.float32)
        image = np.zeros((64, 64, 3), np.uint8)
        ds.extend({"image": [image] * 20, "mask": [masks] * 20, "box": [box] * 20})
        ds.commit("masks")
        ds.to_parquet(tmp_path / "masks.parquet")

    group = pq.ParquetFile(tmp_path / "masks.parquet").metadata.row_group(0)

    columns = [group.column(at) for at in range(group.num_columns)]
    assert {one.path_in_schema: one.compression for one in columns} == {
        "image": "UNCOMPRESSED",
        "mask.list.element.size.list.element": "ZSTD",
        "mask.list.element.counts": "ZSTD",
        "box.list.element.list.element": "ZSTD",
    }


def test_masks_that_an_earlier_version_wrote_as_bytes_are_masks_again(ds):
    field = ds.to_arrow().schema.field("mask")
    runs = [0, 2, 2]
    stored = np.array([1, 2, 2, len(runs), *runs], "<u4").tobytes()
    old = pa.field("mask", pa.binary(), metadata={TYPE_KEY: field.metadata[TYPE_KEY]})
    table = pa.table([pa.array([stored, None], pa.binary())], schema=pa.schema([old]))

    again = tl.ingest.arrow(table, f"{ds.url}-old")

    assert again.schema["mask"] == tl.InstanceMask(nullable=True)
    assert again["mask"][0].tolist() == [[[True, False], [True, False]]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": [2, 2]},
        {"size": [2], "counts": []},
        {"size": [-1, 2], "counts": []},
        {"size": [2, 2], "counts": [[1, 2]]},
        {"size": [2, 2], "counts": 3},
    ],
)
def test_run_lengths_that_fill_no_masks_are_refused(ds, wrong):
    with pytest.raises(InvalidInputError, match="row 0"):
        ds.append({"mask": wrong, "outline": []})
