"""``tl.collate``: how samples of different shapes become part of a batch.

    "list"     a list of arrays (the default)
    "pad"      one array, filled up to the longest, and <name>_mask, True where it is data
    Pad(…)     the same with another value, a fixed length, or a multiple
    "concat"   the samples one after another, and <name>_offsets, int64 (n + 1)
    "nested"   torch's jagged nested tensor (torch loaders only)
    function   called with the list of arrays; its result is the batch's entry

Combinations that cannot work are refused from the schema alone, when the loader is made
(``check_collate``). NULL is None in a list and is refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import (
    InvalidInputError,
    RaggedBatchError,
    ShapeMismatchError,
    UnsupportedFeatureError,
    did_you_mean,
    shown,
)
from tensorlake.quantities import checked_integer
from tensorlake.types import RaggedColumn

__all__ = [
    "Collate",
    "Pad",
    "check_collate",
    "check_fill",
    "collate_ragged",
    "null_in_batch",
    "parse_collate",
    "quoted",
    "split_ragged",
]

# A user's function: list of arrays in, anything (a batch entry) out.
CollateFunction: TypeAlias = Callable[[list[Any]], Any]
Sample: TypeAlias = NDArray[np.generic] | None
Shape: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Pad:
    """Fill samples up to one shape.

    Attributes:
        value: The fill value.
        to: Length of every varying axis; None is the longest of the batch.
        multiple_of: Round the length up to a multiple, so that few different shapes occur.

    Example:
        >>> Pad(-1, multiple_of=64)
        Pad(value=-1, to=None, multiple_of=64)
    """

    value: float = 0
    to: int | None = None
    multiple_of: int | None = None

    def __post_init__(self) -> None:
        for name, length in (("to", self.to), ("multiple_of", self.multiple_of)):
            if length is not None:
                checked_integer(length, name=f"Pad: {name}", least=1)
        if not isinstance(self.value, Number):
            raise InvalidInputError(
                f"Pad: value is a number, got {shown(self.value)}", actual=self.value
            )


Collate: TypeAlias = Literal["list", "pad", "concat", "nested"] | Pad | CollateFunction


def check_collate(
    name: str,
    shape: Shape,
    collate: object,
    *,
    is_image: bool,
    framework: str,
    bounds: Callable[[], tuple[Shape, Shape] | None] = lambda: None,
) -> Collate | None:
    """Decide how a column of decoded samples of ``shape`` is collated; None means stacked.

    ``bounds`` looks up the smallest and the largest stored shape, for the error; the
    smallest is larger than the largest if all samples are NULL.

    Raises:
        RaggedBatchError: Images have different shapes, and no collation is given.
        InvalidInputError: The keyword is unknown or does not fit the column.
    """
    if None not in shape:
        if collate is None or collate == "list" or callable(collate):
            return None if collate is None else _known(name, collate)
        raise InvalidInputError(
            f"collate={{{name!r}: {shown(collate)}}}: every sample of"
            f" {name!r} has the shape {shape}"
            f"\nleave {name!r} out of collate: it is stacked",
            tensor=name,
            actual=collate,
        )
    if collate is None and is_image:
        found = bounds()
        if found is not None and found[0] > found[1]:
            raise RaggedBatchError(
                f"{name!r} has only NULLs, so its size is unknown, and an array of it too"
                f"\nadd decode={{{name!r}: tl.decode.Resize(224, 224)}}, or"
                f" collate={{{name!r}: 'list'}}, or leave {name!r} out of columns=",
                tensor=name,
                actual=shape,
            )
        if found is None or found[0] == found[1]:
            shapes = f"{shape} by the schema"
        else:
            shapes = f"from {found[0]} to {found[1]}"
        raise RaggedBatchError(
            f"{name!r} has samples of different shapes, {shapes}, and cannot be stacked"
            f"\nadd decode={{{name!r}: tl.decode.Resize(224, 224)}}, or"
            f" collate={{{name!r}: 'list'}}"
            "   (found from the schema, before any data was read)",
            tensor=name,
            actual=shape,
        )
    known = check_word(name, "list" if collate is None else collate, framework=framework)
    if known in ("concat", "nested") and None in shape[1:]:
        raise RaggedBatchError(
            f"{name!r} varies along more than its first axis, {shape}, and cannot be"
            f" one array of items\nadd collate={{{name!r}: 'pad'}}, or 'list'",
            tensor=name,
            actual=shape,
        )
    return known


def check_word(name: str, collate: object, *, framework: str) -> Collate:
    """Return how a column is collated, if the keyword is known and the framework supports it.

    Raises:
        InvalidInputError: The keyword is unknown.
        UnsupportedFeatureError: It is for another framework.
    """
    known = _known(name, collate)
    if known == "nested" and framework != "torch":
        raise UnsupportedFeatureError(
            f"collate={{{name!r}: 'nested'}} makes torch tensors; this loader is for {framework}"
            f"\nuse 'concat': the same values and offsets",
            tensor=name,
        )
    return known


def check_fill(
    name: str, collate: Collate | None, dtype: np.dtype, *, cast: str = "cast them in transform="
) -> None:
    """Refuse a fill value that the samples' dtype cannot represent.

    ``cast`` describes how to get another dtype, for the error.

    Raises:
        InvalidInputError: The value would change.
    """
    if isinstance(collate, Pad) and not _holds(dtype, collate.value):
        raise InvalidInputError(
            f"collate={{{name!r}: {shown(collate)}}}: {dtype.name} does"
            f" not hold {shown(collate.value)}"
            f"\nfill with another number, or {cast}",
            tensor=name,
            expected=dtype.name,
            actual=collate.value,
        )


def _holds(dtype: np.dtype, value: Any) -> bool:
    if np.asarray(value).dtype.kind == "c":
        return dtype.kind == "c"
    if dtype.kind == "b":
        return value in (0, 1)
    if dtype.kind not in "iu":
        return True  # others round
    info = np.iinfo(dtype)
    return info.min <= value <= info.max and value == int(value)


def collate_ragged(
    name: str,
    samples: Sequence[Sample],
    shape: Shape,
    collate: Collate,
    dtype: np.dtype,
    *,
    is_stored: bool = True,
) -> dict[str, Any]:
    """Make the batch's entries of one column from its samples or from a transform's results.

    Raises:
        InvalidInputError: A sample is NULL and the form cannot represent it.
        ShapeMismatchError: A sample is longer than ``Pad(to=)``.
    """
    if collate == "list":
        return {name: list(samples)}
    if callable(collate):
        return {name: collate(list(samples))}
    present = [sample for sample in samples if sample is not None]
    if len(present) < len(samples):
        raise null_in_batch(name)
    if isinstance(collate, Pad) or collate == "pad":
        pad = collate if isinstance(collate, Pad) else Pad()
        return _padded(name, present, shape, pad, dtype, is_stored=is_stored)
    inner = tuple(length or 0 for length in shape[1:])
    lengths = np.fromiter((len(sample) for sample in present), np.int64, len(present))
    offsets = np.zeros(len(present) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    empty = np.empty((0, *inner), dtype=dtype)
    return {name: np.concatenate([empty, *present]), f"{name}_offsets": offsets}


def split_ragged(column: RaggedColumn) -> list[Sample]:
    """Return the samples of a ragged column as views; None where NULL."""
    offsets = column.offsets.tolist()
    shapes = column.shapes.tolist()
    samples: list[Sample] = [
        column.values[start:stop].reshape(shape)
        for start, stop, shape in zip(offsets[:-1], offsets[1:], shapes, strict=True)
    ]
    if column.valid is not None:
        for position in np.flatnonzero(~column.valid).tolist():
            samples[position] = None
    return samples


def null_in_batch(name: str) -> InvalidInputError:
    """Build the error for a NULL that a batch cannot represent."""
    return InvalidInputError(
        f"{name!r} is NULL in a row of this batch, and an array has no place for it"
        f"\nselect rows that have it: ds.query('WHERE {quoted(name)} IS NOT NULL'), or give it a"
        f" value, null={{{name!r}: …}}, or collate={{{name!r}: 'list'}}, where NULL is None",
        tensor=name,
    )


def quoted(name: str) -> str:
    """Quote a tensor's name for TQL, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def parse_collate(collate: Mapping[str, Any] | None, columns: Sequence[str]) -> dict[str, Any]:
    """Check that ``collate`` names columns of the loader."""
    given = dict(collate or {})
    for name in given:
        if name not in columns:
            raise InvalidInputError(
                f"collate names {name!r}, which is not among the columns: {', '.join(columns)}"
                f"{did_you_mean(name, columns)}"
                "\nadd it to columns=, or leave it out of collate",
                tensor=name,
            )
    for name, how in given.items():
        is_pad = isinstance(how, Pad) or (isinstance(how, str) and how == "pad")
        made = f"{name}_mask" if is_pad else f"{name}_offsets"
        if (is_pad or (isinstance(how, str) and how == "concat")) and made in columns:
            raise InvalidInputError(
                f"collate={{{name!r}: {shown(how)}}} makes the entry {made!r}, which is also a"
                f" column\nleave {made!r} out of columns=, or select it under another name",
                tensor=made,
            )
    return given


def _known(name: str, collate: Any) -> Collate:  # Any: whatever the user gave
    match collate:
        case "list" | "pad" | "concat" | "nested" | Pad():
            return collate
        case _:
            if callable(collate):
                return collate
            raise InvalidInputError(
                f"collate={{{name!r}: {shown(collate)}}} is not known"
                "\ngive 'list', 'pad', 'concat', 'nested', tl.collate.Pad(…) or a function of rows",
                tensor=name,
                actual=collate,
            )


def _padded(
    name: str,
    samples: list[NDArray[np.generic]],
    shape: Shape,
    pad: Pad,
    dtype: np.dtype,
    *,
    is_stored: bool,
) -> dict[str, Any]:
    shapes = np.asarray([sample.shape for sample in samples], dtype=np.int64)
    shapes = shapes.reshape(len(samples), len(shape))
    full: list[int] = []
    for axis, length in enumerate(shape):
        longest = int(shapes[:, axis].max(initial=0))
        if length is None:
            column = f"SHAPE({quoted(name)})[{axis}]" if is_stored else None
            longest = _padded_length(name, longest, pad, column)
        full.append(longest)
    masked_axes = 1 + max(axis for axis, length in enumerate(shape) if length is None)
    mask = np.ones((len(samples), *full[:masked_axes]), dtype=np.bool_)
    for axis in range(masked_axes):
        inside = np.arange(full[axis]) < shapes[:, axis, None]
        around = [1] * masked_axes
        around[axis] = full[axis]
        mask &= inside.reshape(len(samples), *around)
    values = np.full((len(samples), *full), pad.value, dtype=dtype)
    for position, sample in enumerate(samples):
        values[position][tuple(slice(length) for length in sample.shape)] = sample
    return {name: values, f"{name}_mask": mask}


def _padded_length(name: str, longest: int, pad: Pad, column: str | None) -> int:
    if pad.to is not None:
        if longest > pad.to:
            shorter = "return shorter ones from transform="
            if column is not None:
                shorter = f"select shorter rows: ds.query('WHERE {column} <= {pad.to}')"
            raise ShapeMismatchError(
                f"{name!r} has a sample of length {longest}, longer than Pad(to={pad.to})"
                f"\nraise to=, or {shorter}",
                tensor=name,
                expected=pad.to,
                actual=longest,
            )
        return pad.to
    if pad.multiple_of is not None:
        return -(-longest // pad.multiple_of) * pad.multiple_of
    return longest


def __dir__() -> list[str]:
    return ["Pad", "__doc__", "__file__", "__name__"]  # the rest is for the loader
