"""``view.pack()``: documents of tokens as sequences of one length, for language models.

The loader's arguments apply to documents (``shuffle`` permutes them) and to batches of sequences
(``batch_size``); those that would apply to rows have no meaning here and raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.transform.loader_options import refuse_of_rows
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.loader import Packing
from tensorlake.loader import decode as steps
from tensorlake.quantities import check_flags, checked_integer, is_whole_number

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["checked_packing", "packed_arguments"]

MAX_TOKENS = (1 << 31) - 1  # positions and cu_seqlens are int32
ONE, ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)
ENTRIES = ("segments", "positions", "cu_seqlens", "_source")
"""Entries of a batch beside the tokens and their mask."""
OF_ROWS = {
    "columns": "leave it out: pack(tokens, …, mask=) chose them",
    "transform": "change documents before, by ds.map(…), or batches, by batch_transform=",
    "null": "pack the documents that have tokens: view.where('tokens IS NOT NULL').pack(…)",
    "on_error": "leave it out, and pack a view without the damaged documents",
}
"""Arguments about rows, and what to write instead."""


def checked_packing(
    view: RowSet, tokens: str, length: int, *, eos: int | None, split: bool, mask: str | None
) -> Packing:
    """Check the arguments of ``pack()``.

    Raises:
        TensorNotFoundError: A column does not exist.
        InvalidInputError: It is not a column of arrays of numbers, or a value is impossible.
    """
    check_flags(split=split)
    length = checked_integer(length, name="length", least=1, most=MAX_TOKENS)
    for name in (tokens, mask):
        if name is not None:
            if name in ENTRIES:
                raise InvalidInputError(
                    f"pack() of {name!r}: batches of sequences have an entry of this name"
                    f"\nrename it: ds.rename_tensor({name!r}, …)",
                    tensor=name,
                )
            _check_column(view, name)
    dtype = np.dtype(view.selection.snapshot.spec(tokens).type.dtype)
    if eos is not None:
        eos = checked_integer(eos, name="eos", least=None)
        if dtype.kind not in "iu" or not _fits(eos, dtype):
            raise InvalidInputError(
                f"eos={eos} is not a value of {tokens!r}, whose tokens are {dtype.name}",
                argument="eos",
                expected=dtype.name,
                actual=eos,
            )
    return Packing(tokens, length, eos, mask, split, dtype)


def packed_arguments(
    arguments: Mapping[str, Any], packing: Packing
) -> tuple[dict[str, Any], Packing]:
    """Divide a loader's arguments into those of its documents and those of their packing.

    Raises:
        InvalidInputError: An argument is about rows.
        UnsupportedFeatureError: A step of ``decode`` is not Cast.
    """
    given = dict(arguments)
    refuse_of_rows(given, "sequences of tokens", OF_ROWS)
    batch_size = given.get("batch_size")
    if is_whole_number(batch_size) and batch_size * packing.length > MAX_TOKENS:
        raise InvalidInputError(
            f"batch_size={shown(batch_size)} makes batches of"
            f" {batch_size * packing.length:,} tokens, and a batch has at most {MAX_TOKENS:,}"
            "\ngive a smaller batch_size, or pack into shorter sequences",
            argument="batch_size",
            expected=MAX_TOKENS,
            actual=batch_size,
        )
    collate, cast = given.pop("collate", None) or {}, given.pop("decode", None) or {}
    for name, values in (("collate", collate), ("decode", cast)):
        if not isinstance(values, Mapping) or set(values) - {packing.tokens}:
            raise InvalidInputError(
                f"{name} of a packed loader is for {packing.tokens!r}, got {shown(values)}",
                argument=name,
                actual=values,
            )
    form = collate.get(packing.tokens)
    if form not in (None, "concat"):
        raise InvalidInputError(
            f"collate of packed {packing.tokens!r} is 'concat', or left out, got {shown(form)}",
            argument="collate",
            actual=form,
        )
    given["columns"] = [packing.tokens, *([] if packing.mask is None else [packing.mask])]
    return given, replace(packing, dtype=_dtype(cast, packing), is_flat=form == "concat")


def _dtype(decode: Mapping[str, Any], packing: Packing) -> np.dtype | None:
    step = decode.get(packing.tokens)
    if isinstance(step, list) and len(step) == 1:
        (step,) = step
    if step is None:
        return None
    if not isinstance(step, steps.Cast):
        raise UnsupportedFeatureError(
            f"decode of packed {packing.tokens!r} is tl.decode.Cast(dtype), got {shown(step)}",
            argument="decode",
            actual=step,
        )
    dtype = step.then(steps.LinearMap(ONE, ZERO, packing.stored)).dtype
    if packing.eos is not None and not _fits(packing.eos, dtype):
        raise InvalidInputError(
            f"eos={packing.eos} is not a value of {dtype.name}, to which decode casts"
            f" {packing.tokens!r}\ncast to a wider dtype",
            argument="decode",
            expected=dtype.name,
            actual=packing.eos,
        )
    return dtype


def _fits(token: int, dtype: np.dtype) -> bool:
    if dtype.kind not in "iu":
        return True  # of floats
    limits = np.iinfo(dtype.name)
    return limits.min <= token <= limits.max


def _check_column(view: RowSet, name: str) -> None:
    if name in view.computed:
        raise InvalidInputError(
            f"{name!r} is made by the query, and pack() reads stored tokens\npack the stored"
            " column that it renames, or store the values first: ds.map(…)",
            tensor=name,
        )
    sample_type = view.selection.snapshot.spec(name).type
    if sample_type.dtype is None or len(sample_type.shape) != 1:
        raise InvalidInputError(
            f"pack() takes a column of one array of numbers per document, and {name!r} is"
            f" {sample_type.describe()}\nstore tokens as tl.Array('uint16', (None,))",
            tensor=name,
        )
