"""One row of every type, as release 0.1.0 stored it; ``expected.json`` says what it reads as."""

from __future__ import annotations

import uuid
from typing import Any

import ml_dtypes
import numpy as np

import tensorlake as tl
from tests.golden.contents import JPEG
from tests.golden.plain import plain_classes, plain_number
from tests.golden.release_images import lossless, pixels_of, png
from tests.golden.type_contents import ROWS, SCHEMA

__all__ = ["every_type"]


def every_type(url: str) -> dict[str, Any]:
    """Write a row of every type, one of NULLs and an empty one; return what is to be read."""
    more = {
        "any": tl.Image("any", nullable=True),
        "jpeg": tl.Image("jpeg", nullable=True),
        "rgba": tl.Image("png", mode="RGBA", nullable=True),
        "gray16": tl.Image("png", mode="L16", nullable=True),
        "webp": tl.Image("webp", nullable=True),
        "tiff": tl.Image("tiff", nullable=True),
        "jpeg2000": tl.Image("jpeg2000", nullable=True),
        "text": tl.Text(nullable=True),
        "json": tl.Json(nullable=True),
        "blob": tl.Bytes(nullable=True),
        "flag": tl.Bool(nullable=True),
        "complex": tl.Array("complex64", (2,), nullable=True),
        **{
            name: tl.Scalar(name, nullable=True)
            for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        },
        **{name: tl.Scalar(name, nullable=True) for name in ("float16", "float32", "float64")},
    }
    rgba = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    gray16 = np.array([[[0], [65535]], [[256], [1]]], np.uint16)
    own = {
        "any": png(pixels_of(1)),
        "jpeg": JPEG,
        "rgba": png(rgba),
        "gray16": png(gray16),
        "webp": lossless(pixels_of(2), "webp"),
        "tiff": lossless(pixels_of(3), "tiff"),
        "jpeg2000": lossless(pixels_of(4), "jpeg2000"),
        "text": "größe 雪\n",
        "json": {"a": [1, 2.5, None, "x"], "b": {"c": True}},
        "blob": bytes(range(256)),
        "flag": True,
        "complex": np.array([1 + 2j, -0.5j], np.complex64),
        **{name: int(np.iinfo(name).min) for name in ("int8", "int16", "int32", "int64")},
        **{name: int(np.iinfo(name).max) for name in ("uint8", "uint16", "uint32", "uint64")},
        "float16": 65504.0,
        "float32": 2.0**-149,
        "float64": 5e-324,
    }
    ds = tl.create(url, SCHEMA | more)
    ds.extend(
        [ROWS[0] | own, ROWS[1] | dict.fromkeys(own), ROWS[2] | own | {"text": "", "blob": b""}]
    )
    ds.commit("one of each, NULLs, empty ones")

    def number(dtype: Any, name: str, row: dict[str, Any]) -> Any:
        return plain_number(row[name], dtype)

    full = ROWS[0] | own
    images = {"any": pixels_of(1), "rgba": rgba, "gray16": gray16, "webp": pixels_of(2),
              "tiff": pixels_of(3), "jpeg2000": pixels_of(4)}  # fmt: skip
    dtypes: dict[str, Any] = {
        "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
        "half": ml_dtypes.bfloat16, "single": np.float32, "boxes": np.float32,
        "boxes_3d": np.float32,
        "mask": np.bool_, "segments": np.uint16, "instances": np.bool_, "points": np.float32,
        "flag": np.bool_, "complex": np.complex64,
        **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")},
        **{name: name for name in ("uint64", "float16", "float32", "float64")},
    }  # fmt: skip
    expected = {name: number(dtype, name, full) for name, dtype in dtypes.items()}
    expected |= {name: plain_number(pixels) for name, pixels in images.items()}
    gray = np.array([[[10], [200]], [[250], [60]]], np.uint8)  # of type_contents.PNG
    expected |= {
        "pose/score": plain_number(0.5, "float32"),
        "pose/box/x": plain_number(-3, "int16"),
        "labels": plain_classes(full["labels"]),
        "outlines": [plain_number(one, "float32") for one in full["outlines"]],
        "tags": full["tags"],
        "at": {"dtype": "datetime64[ns]", "shape": [], "hex": np.array(
            [np.datetime64("2026-03-01T12:00:00.123456789")]).tobytes().hex()},
        "key": {"uuid": str(uuid.UUID(int=2**100 + 7))},
        "words": full["words"],
        "arrays": [plain_number(one, "int16") for one in full["arrays"]],
        "halves": plain_number(full["halves"], ml_dtypes.bfloat16),
        "pictures": [plain_number(gray)] * 2,
        "nested": [plain_number(np.array(one, "int8")) for one in full["nested"]],
        "text": full["text"],
        "json": full["json"],
        "blob": {"bytes": full["blob"].hex()},
    }  # fmt: skip
    return {"row": expected, "bytes": {name: own[name].hex() for name in (*images, "jpeg")}}
