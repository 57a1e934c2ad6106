"""Every type's samples stay readable for ever, NULL and empty ones among them (format.md 34)."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tensorlake as tl

DATASET = Path(__file__).parent / "v1_types"
MASK = np.array([[True, False, False], [True, True, False]])


@pytest.fixture(scope="module")
def ds():
    return tl.open(DATASET.as_posix(), read_only=True)


def bits(values):
    return np.asarray(values).view(f"u{np.asarray(values).itemsize}").tolist()


def test_every_type_is_read_as_it_was_declared(ds):
    described = {name: one.describe() for name, one in ds.schema.items()}

    assert described == {
        "pose/score": "Scalar(float32)",
        "pose/box/x": "Scalar(int16)",
        "bf16": "Scalar(bfloat16)",
        "e4m3": "Array(float8_e4m3fn, (None,))",
        "e5m2": "Array(float8_e5m2, (2, 2))",
        "half": "Embedding(3, bfloat16)",
        "single": "Embedding(3)",
        "labels": "ClassLabel(2: cat, dog)",
        "boxes": "BBox(cxcywh)",
        "boxes_3d": "BBox3D(xyzlwhq)",
        "mask": "BinaryMask",
        "segments": "SegmentMask(2)",
        "instances": "InstanceMask",
        "outlines": "Polygon",
        "points": "Keypoints(2)",
        "tags": "Tags",
        "at": "Timestamp(ns, UTC)",
        "key": "Uuid",
        "words": "Sequence(Text)",
        "arrays": "Sequence(Array(int16, (None, 2)))",
        "halves": "Sequence(Scalar(bfloat16))",
        "pictures": "Sequence(Image(png, L))",
        "nested": "Sequence(Sequence(Scalar(int8)))",
    }
    assert ds.schema["segments"].ignore == 255
    assert ds.schema["points"].skeleton == ((0, 1),)
    assert all(one.nullable for one in ds.schema.values())


def test_the_full_row(ds):
    row = ds[0]

    assert (float(row["pose"]["score"]), int(row["pose"]["box"]["x"])) == (0.5, -3)
    assert row["bf16"].dtype == ml_dtypes.bfloat16
    assert bits(row["bf16"]) == 0x4049
    assert bits(row["e4m3"]) == [0x7E, 0x80, 0x7F, 0x01]
    assert bits(row["e5m2"]) == [[0x7B, 0x7C], [0xBE, 0x01]]
    assert row["half"].astype(np.float32).tolist() == row["single"].tolist() == [1, 2, -0.5]
    assert row["labels"].as_names() == ["dog", "cat", "dog"]
    assert row["boxes"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert row["boxes_3d"].shape == (1, 10)
    assert np.array_equal(row["mask"], MASK)
    assert row["segments"].tolist() == [[0, 1], [255, 1]]
    assert row["segments"].dtype == np.uint16
    assert np.array_equal(row["instances"], np.stack([MASK, ~MASK]))
    assert [one.tolist() for one in row["outlines"]] == [
        [[0, 0], [4, 0], [4, 3]],
        [[1, 1], [2, 1], [2, 2], [1, 2]],
    ]
    assert row["points"].tolist() == [[[1, 2, 2], [3, 4, 0]]]
    assert row["tags"] == ["night", "größe"]
    assert row["key"] == uuid.UUID(int=2**100 + 7)
    assert row["words"] == ["", "größe", "雪"]
    assert [one.tolist() for one in row["arrays"]] == [[[0, 1], [2, 3]], []]
    assert bits(row["halves"]) == [0x3F80, 0xC020]
    assert [one[:, :, 0].tolist() for one in row["pictures"]] == [[[10, 200], [250, 60]]] * 2
    assert [[*map(int, one)] for one in row["nested"]] == [[1, 2], [], [-3]]


def test_nanoseconds_stay(ds):
    stored = ds["at"].read(null=dt.datetime(2000, 1, 1, tzinfo=dt.UTC))[0]

    assert stored == np.datetime64("2026-03-01T12:00:00.123456789")


def test_the_row_of_nulls(ds):
    row = ds[1]

    assert [name for name in ds.schema if row[name] is not None] == []
    assert row["pose"] == {"score": None, "box": {"x": None}}


def test_the_row_of_empty_ones(ds):
    row = ds[2]

    empty = ["e4m3", "labels", "boxes", "boxes_3d", "mask", "segments", "instances", "outlines"]
    empty += ["points", "tags", "words", "arrays", "halves", "pictures", "nested"]
    assert [len(row[name]) for name in empty] == [0] * len(empty)
    assert float(row["bf16"]) == float("-inf")
    assert row["boxes"].shape == (0, 4)
    assert row["pose"]["score"] is None


def test_queries_see_what_they_saw(ds):
    assert ds.query("WHERE bf16 > 3 AND bf16 < 4").rows.tolist() == [0]
    assert ds.query("WHERE pose.score = 0.5").rows.tolist() == [0]
    assert ds.query("WHERE tags IS NULL").rows.tolist() == [1]
    assert ds.query("WHERE LENGTH(boxes) = 2").rows.tolist() == [0]
