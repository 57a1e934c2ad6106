"""Widening of a tensor's type without rewriting chunks: wider dtypes, open lengths, any codec.

A dtype widens to another that represents each of its values exactly. That is NumPy's ``can_cast(…,
"safe")`` without its two exceptions: int64 and uint64 round as float64, and a boolean is not a
number. A length of the shape may become None; stored samples keep theirs. Images of one codec may
become images of any, since each is recognised by its first bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.types.base.base import SampleType
from tensorlake.types.base.dtypes import (
    DTYPE_NAMES,
    float_limits,
    holds_floats,
    is_narrow_float,
    parse_dtype,
)
from tensorlake.types.base.errors import listed
from tensorlake.types.scalar.array import Array
from tensorlake.types.scalar.scalar import Scalar
from tensorlake.types.vision.image import Image

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["is_widening", "widened"]


def is_widening(old: np.dtype, new: np.dtype) -> bool:
    """Whether every value of a dtype is a value of another of the same kind.

    >>> is_widening(np.dtype("uint8"), np.dtype("int16"))
    True
    >>> is_widening(np.dtype("int32"), np.dtype("float64"))
    True
    >>> is_widening(np.dtype("int64"), np.dtype("float64"))
    False
    >>> is_widening(parse_dtype("bfloat16"), np.dtype("float32"))
    True
    """
    if (old.kind == "b") is not (new.kind == "b"):
        return False
    if old.kind in "iu" and (new.kind == "c" or holds_floats(new)):
        return np.iinfo(old).bits - (old.kind == "i") <= float_limits(new).nmant + 1
    if is_narrow_float(new):
        return old == new or (holds_floats(old) and _holds_each(old, new))
    if is_narrow_float(old):
        return new.kind == "c" or (new.kind == "f" and _holds_each(old, new))
    return np.can_cast(old, new, "safe")


def _holds_each(old: np.dtype, new: np.dtype) -> bool:
    """Whether every value of a float dtype is one of another's, infinity and NaN among them."""
    few, many = float_limits(old), float_limits(new)
    return (
        few.nmant <= many.nmant
        and few.maxexp <= many.maxexp
        and few.minexp - few.nmant >= many.minexp - many.nmant
        and new.name != "float8_e4m3fn"  # which has no infinity
    )


def widened(
    sample_type: SampleType,
    *,
    dtype: DTypeLike | None = None,
    shape: Iterable[int | None] | None = None,
    codec: str | None = None,
    tensor: str,
) -> SampleType:
    """Return a type with a wider dtype, open lengths, or the codec "any".

    Raises:
        SchemaError: Stored samples would not fit it; the message lists the possible ones.
    """
    wider = sample_type
    if dtype is not None:
        wider = _with_dtype(wider, parse_dtype(dtype), tensor)
    if shape is not None:
        lengths = listed(shape)
        if lengths is None:
            raise SchemaError(f"shape is a list of lengths, got {shown(shape)}", tensor=tensor)
        wider = _with_shape(wider, lengths, tensor)
    return wider if codec is None else _with_codec(wider, codec, tensor)


def _with_codec(sample_type: SampleType, codec: str, tensor: str) -> SampleType:
    is_image = isinstance(sample_type, Image)
    if is_image and sample_type.tiles and codec != sample_type.codec:
        raise SchemaError(
            f"{shown(tensor)} is {sample_type.describe()} in tiles and cannot become one of"
            f" codec={shown(codec)}\ntiles are encoded by one codec: for another one add a tensor",
            tensor=tensor,
            expected=sample_type.codec,
            actual=codec,
        )
    if is_image and codec in ("any", sample_type.codec):
        quality = sample_type.quality if codec == sample_type.codec else None
        return replace(sample_type, codec=codec, quality=quality)
    raise SchemaError(
        f"{shown(tensor)} is {sample_type.describe()} and cannot"
        f" become one of codec={shown(codec)}\n"
        + (
            "stored samples stay, so a codec only widens: to 'any'; for another one add a tensor"
            if is_image
            else "only images have a codec that widens: add a tensor of another type"
        ),
        tensor=tensor,
        expected="any" if is_image else None,
        actual=codec,
    )


def _with_dtype(sample_type: SampleType, dtype: np.dtype, tensor: str) -> SampleType:
    old = sample_type.dtype
    if old == dtype:
        return sample_type
    if not isinstance(sample_type, Array | Scalar) or old is None:
        raise SchemaError(
            f"{tensor!r} is {sample_type.describe()}, which has no other dtype than"
            f" {'its own' if old is None else old.name}; got dtype={dtype.name!r}\n"
            f"add a tensor of another type: ds.add_tensor(…)",
            tensor=tensor,
            expected=None if old is None else old.name,
            actual=dtype.name,
        )
    if not is_widening(old, dtype):
        able = [name for name in DTYPE_NAMES if is_widening(old, parse_dtype(name))]
        able = [name for name in able if name != old.name]
        raise SchemaError(
            f"{tensor!r} is {old.name} and cannot become {dtype.name}: {_why(old, dtype)}\n"
            f"stored samples stay, so a dtype only widens: {', '.join(able) or 'none is wider'};"
            " for another one add a tensor and assign to it",
            tensor=tensor,
            expected=able,
            actual=dtype.name,
        )
    return replace(sample_type, dtype=dtype)


def _why(old: np.dtype, new: np.dtype) -> str:
    if "b" in (old.kind, new.kind):
        return "a boolean is not a number"
    if old.kind in "iu" and (new.kind == "c" or holds_floats(new)):
        return "large numbers would be rounded"
    if (old.kind == "c" or holds_floats(old)) and new.kind in "iu":
        return "fractions would be lost"
    if old.kind == "c" and new.kind != "c":
        return "imaginary parts would be lost"
    if old.kind == "i" and new.kind == "u":
        return "negative numbers would not fit"
    return "not every number would fit"


def _with_shape(sample_type: SampleType, shape: tuple[int | None, ...], tensor: str) -> SampleType:
    old = sample_type.shape
    if shape == old:
        return sample_type
    reason = ""
    if not isinstance(sample_type, Array):
        reason = f"{sample_type.describe()} has one shape"
    elif len(shape) != len(old):
        reason = f"samples have {len(old)} axes, not {len(shape)}"
    elif any(new is not None and new != was for was, new in zip(old, shape, strict=True)):
        reason = "a length may only be left open, as None"
    if reason:
        raise SchemaError(
            f"{shown(tensor)} has samples of shape {old} and cannot get {shown(shape)}: {reason}\n"
            "stored samples stay: for another shape add a tensor and assign to it",
            tensor=tensor,
            expected=old,
            actual=shape,
        )
    assert isinstance(sample_type, Array)
    return replace(sample_type, shape=shape)
