"""Deep Lake's types, each as a type of tensorlake. Compressions of chunks are left to the format.

>>> Image(sample_compression="jpeg"), BoundingBox(format="ltwh"), Array("float32", shape=[3])
(Image(), BBox('xywh'), Array('float32', (3,)))
"""

from __future__ import annotations

from collections.abc import Sequence as Listed
from dataclasses import replace
from typing import Any

import numpy as np

from tensorlake import types as own
from tensorlake.errors import SchemaError, shown

__all__ = [
    "Array",
    "Audio",
    "BinaryMask",
    "Bool",
    "BoundingBox",
    "Bytes",
    "ClassLabel",
    "Dict",
    "Embedding",
    "Float16",
    "Float32",
    "Float64",
    "Image",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Link",
    "Mesh",
    "SegmentMask",
    "Sequence",
    "Text",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Video",
    "nullable",
]

_FORMATS = {"ltrb": "xyxy", "ltwh": "xywh", "ccwh": "cxcywh"}


def _scalar(dtype: str) -> Any:
    def make() -> own.SampleType:
        return own.as_type(dtype)

    make.__name__ = dtype
    make.__doc__ = f"Return the type of numbers that are {dtype}."
    return make


Bool = _scalar("bool")
Int8, Int16, Int32, Int64 = map(_scalar, ("int8", "int16", "int32", "int64"))
UInt8, UInt16, UInt32, UInt64 = map(_scalar, ("uint8", "uint16", "uint32", "uint64"))
Float16, Float32, Float64 = map(_scalar, ("float16", "float32", "float64"))


def Image(dtype: str = "uint8", sample_compression: str = "png") -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of images of a codec."""
    del dtype  # a file has its own
    codec: Any = {"jpg": "jpeg"}.get(sample_compression, sample_compression)
    return own.Image(codec)


def Embedding(size: int | None = None, dtype: str = "float32", **_: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of vectors; indexes are made by ``ds.tensorlake.create_index``."""
    if size is None:
        return own.Array(dtype, (None,))
    return own.Embedding(size) if np.dtype(dtype) == np.float32 else own.Array(dtype, (size,))


def ClassLabel(dtype: str = "uint32", names: Listed[str] = ()) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of classes; without ``names`` their numbers are integers."""
    return own.ClassLabel([*names]) if names else own.as_type(dtype)


def BoundingBox(dtype: str = "float32", format: str | None = None, **_: Any) -> own.SampleType:  # noqa: A002, N802 - the library's names
    """Return the type of boxes in pixels: "ltrb", "ltwh" or "ccwh"."""
    del dtype
    box: Any = _FORMATS.get(str(format or "ltwh").lower())
    if box is None:
        known = ", ".join(map(repr, _FORMATS))
        raise SchemaError(f"{shown(format)} is not a format of boxes\ngive one of {known}")
    return own.BBox(box)


def Array(  # noqa: N802 - the library's name
    dtype: str = "float32", dimensions: int | None = None, shape: Listed[int] | None = None
) -> own.SampleType:
    """Return the type of arrays of a number of axes, or of a shape."""
    if shape is None:
        return own.Array(dtype, (None,) * (1 if dimensions is None else dimensions))
    return own.Array(dtype, tuple(shape))


def BinaryMask(**_: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of masks, bool (height, width)."""
    return own.BinaryMask()


def SegmentMask(dtype: str = "uint8", **_: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of masks of classes, (height, width)."""
    return own.SegmentMask(dtype=dtype)


def Text(*_: Any, **__: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of texts."""
    return own.Text()


def Dict() -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of JSON values."""
    return own.Json()


def Bytes() -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of bytes."""
    return own.Bytes()


def Video(compression: str = "mp4") -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of video files."""
    del compression  # files keep theirs
    return own.Video()


def Audio(dtype: str = "uint8", sample_compression: str = "mp3") -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of audio files."""
    del dtype, sample_compression  # files keep theirs
    return own.Audio()


def Mesh() -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of mesh files."""
    return own.Mesh()


def Sequence(nested_type: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of lists of samples."""
    return own.Sequence(own.as_type(nested_type))


def Link(nested_type: Any) -> own.SampleType:  # noqa: N802 - the library's name
    """Return the type of samples that stay in their files."""
    return own.Link(own.as_type(nested_type))


def nullable(dtype: Any) -> own.SampleType:
    """Return a type with NULL: rows that were there have no value of a new column."""
    kind: Any = own.as_type(dtype() if callable(dtype) and not isinstance(dtype, type) else dtype)
    return replace(kind, nullable=True)
