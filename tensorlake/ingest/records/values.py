"""Values of records of other libraries, as ``extend`` takes them for a type."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlake.dataset import given_sample
from tensorlake.types import Bytes, Json, SampleType, Tags

__all__ = ["PIL_MODES", "array_of", "booleans", "pil_pixels", "value_of"]

PIL_MODES = {"L": "L", "RGB": "RGB", "RGBA": "RGBA", "I;16": "L16"}
"""Mode of an image, by PIL's."""

_PIL_HEADER_NBYTES = 12
_PIL_DTYPES = {
    "L": ("u1", 1),
    "RGB": ("u1", 3),
    "RGBA": ("u1", 4),
    "I;16": ("<u2", 1),
}


def value_of(kind: SampleType, content: bytes) -> Any:
    """Return the value of a type for the bytes of a record: a file, JSON, text.

    Raises:
        ValueError: They are not JSON, or not UTF-8.
    """
    if isinstance(kind, Json | Tags):
        return json.loads(content)
    if kind.is_media:
        return given_sample(kind, content)
    return content if isinstance(kind, Bytes) else content.decode()


def booleans(name: str, values: np.ndarray) -> np.ndarray:
    """Return numbers as booleans.

    Raises:
        ValueError: One is not 0 or 1.
    """
    strange = values[(values != 0) & (values != 1)]
    if len(strange):
        raise ValueError(f"the feature {name!r} has {strange[0]}, and a boolean is 0 or 1")
    return values.astype(np.bool_)


def array_of(content: bytes, dtype: np.dtype, shape: Sequence[int] | None) -> np.ndarray:
    """Return the array whose memory some bytes are.

    Args:
        content: The elements, in C order.
        dtype: Their dtype.
        shape: Shape of the array; None: one axis.

    Raises:
        ValueError: The bytes are not those of such an array.
    """
    if shape is not None and math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content):,} bytes are not {dtype} of shape {tuple(shape)}")
    values = np.frombuffer(content, dtype)
    return values if shape is None else values.reshape(shape)


def pil_pixels(content: bytes) -> tuple[str, np.ndarray]:
    """Return mode and pixels of a PIL image as MDS and LitData write it.

        width u32 · height u32 · length of the mode u32 · mode · pixels

    Raises:
        ValueError: It is not that, or of a mode that images do not have.
    """
    if len(content) < _PIL_HEADER_NBYTES:
        raise ValueError("an image is cut off")
    width, height, length = np.frombuffer(content[:_PIL_HEADER_NBYTES], "<u4").tolist()
    if length > len("RGBA"):
        raise ValueError("an image has a mode of more than 4 letters")
    mode = content[_PIL_HEADER_NBYTES : _PIL_HEADER_NBYTES + length].decode("ascii")
    if mode not in _PIL_DTYPES:
        known = ", ".join(_PIL_DTYPES)
        raise ValueError(f"an image has the mode {mode!r}; images are of {known}")
    dtype, channels = _PIL_DTYPES[mode]
    shape = (height, width, channels)
    return mode, array_of(content[_PIL_HEADER_NBYTES + length :], np.dtype(dtype), shape)
