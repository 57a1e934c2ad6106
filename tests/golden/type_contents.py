"""What the golden dataset of every type was made from: a full row, NULLs, and an empty row."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import tensorlake as tl

# A gray picture of 2 × 2 as PNG, as it was encoded once: a picture's bytes never change.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000e494441"
    "5478da63e03ac1f0cb060005880209190f9e5d0000000049454e44ae426082"
)
MASK = np.array([[True, False, False], [True, True, False]])

_TYPES: dict[str, Any] = {
    "bf16": tl.Scalar("bfloat16"),
    "e4m3": tl.Array("float8_e4m3fn", (None,)),
    "e5m2": tl.Array("float8_e5m2", (2, 2)),
    "half": tl.Embedding(3, dtype="bfloat16"),
    "single": tl.Embedding(3, metric="l2"),
    "labels": tl.ClassLabel(["cat", "dog"], multi=True),
    "boxes": tl.BBox("cxcywh"),
    "boxes_3d": tl.BBox3D("xyzlwhq"),
    "mask": tl.BinaryMask(),
    "segments": tl.SegmentMask(["road", "car"], ignore=255, dtype="uint16"),
    "instances": tl.InstanceMask(),
    "outlines": tl.Polygon(),
    "points": tl.Keypoints(["nose", "tail"], [(0, 1)]),
    "tags": tl.Tags(),
    "at": tl.Timestamp("ns", tz="UTC"),
    "key": tl.Uuid(),
    "words": tl.Sequence("str"),
    "arrays": tl.Sequence(tl.Array("int16", (None, 2))),
    "halves": tl.Sequence("bfloat16"),
    "pictures": tl.Sequence(tl.Image("png", mode="L")),
    "nested": tl.Sequence(tl.Sequence("int8")),
}
SCHEMA: dict[str, Any] = {
    "pose": tl.Struct({"score": "float32", "box": tl.Struct({"x": "int16"})}, nullable=True),
    **{name: replace(one, nullable=True) for name, one in _TYPES.items()},
}

FULL: dict[str, Any] = {
    "pose": {"score": 0.5, "box": {"x": -3}},
    "bf16": ml_dtypes.bfloat16(3.140625),
    "e4m3": np.array([448, -0.0, np.nan, 2**-9], ml_dtypes.float8_e4m3fn),
    "e5m2": np.array([[57344, np.inf], [-1.5, 2**-16]], ml_dtypes.float8_e5m2),
    "half": np.array([1, 2, -0.5], ml_dtypes.bfloat16),
    "single": np.array([1, 2, -0.5], np.float32),
    "labels": ["dog", "cat", "dog"],
    "boxes": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "boxes_3d": [[0, 1, 2, 3, 4, 5, 1, 0, 0, 0]],
    "mask": MASK,
    "segments": [[0, 1], [255, 1]],
    "instances": np.stack([MASK, ~MASK]),
    "outlines": [[[0, 0], [4, 0], [4, 3]], [[1, 1], [2, 1], [2, 2], [1, 2]]],
    "points": [[[1, 2, 2], [3, 4, 0]]],
    "tags": ["night", "größe"],
    "at": "2026-03-01T12:00:00.123456789Z",
    "key": uuid.UUID(int=2**100 + 7),
    "words": ["", "größe", "雪"],
    "arrays": [np.arange(4).reshape(2, 2), np.zeros((0, 2), np.int16)],
    "halves": [1, -2.5],
    "pictures": [PNG, PNG],
    "nested": [[1, 2], [], [-3]],
}
EMPTY: dict[str, Any] = {
    **FULL,
    "pose": {"score": None, "box": {"x": 0}},
    **{
        name: []
        for name in (
            *("e4m3", "labels", "boxes", "boxes_3d", "instances", "outlines", "points", "tags"),
            *("words", "arrays", "halves", "pictures", "nested"),
        )
    },
    "mask": np.zeros((0, 0), np.bool_),
    "segments": np.zeros((0, 0), np.uint8),
    "bf16": float("-inf"),
}
ROWS = [FULL, dict.fromkeys(FULL), EMPTY]
