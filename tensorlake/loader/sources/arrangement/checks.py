"""Checks of ``weights=``, ``stratify=``, ``group=`` and ``repeat=`` against rows and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import is_whole_number, plural
from tensorlake.types import Bool, Scalar, unknown_class

if TYPE_CHECKING:
    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.plan.selection import Selection
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["by_code", "check_arrangement", "check_numbers", "check_repeat"]

PLACES_LIMIT = 1 << 62  # of an epoch
NUMBERS = "iufb"  # kinds of NumPy dtypes


def check_arrangement(rows: SelectedRows, own: Arrangement) -> None:
    """Refuse arguments that do not fit the rows, without reading a value.

    Raises:
        InvalidInputError: An array does not have a weight for each row, or a column no weights.
        TensorNotFoundError: There is no such column.
    """
    if own.by is not None:
        _check_column(rows, own)
    elif own.rule == "weighted":
        check_numbers(own.weights, rows.selection.num_rows, "weights=")


def check_repeat(repeat: int, count: int, noun: str) -> None:
    """Refuse epochs of 2⁶² places and more.

    Raises:
        InvalidInputError: ``repeat`` times ``count`` rows, or others by their noun, are as many.
    """
    if count * repeat <= PLACES_LIMIT:
        return
    most = PLACES_LIMIT // count
    raise InvalidInputError(
        f"repeat={shown(repeat)} of {plural(count, noun)}: an epoch has at most 2**62 {noun}s"
        f"\nrepeat at most {most} times",
        argument="repeat",
        expected=most,
        actual=repeat,
    )


def _check_column(rows: SelectedRows, own: Arrangement) -> None:
    assert own.by is not None, "asked for a column"
    by, virtual = own.by, rows.virtual.get(own.by)
    if by == "balanced" and own.rule == "weighted" and by not in _names(rows.selection):
        raise InvalidInputError(
            "weights='balanced' names no column\nname the classes' column: {'label': 'balanced'}",
            argument="weights",
        )
    sample_type: Any = rows.selection.snapshot.spec(by).type if virtual is None else virtual
    names = getattr(sample_type, "names", None)
    if own.rule == "classes" and own.weights is not None and names:
        by_code(by, names, own.weights)
    if own.rule != "weighted":
        return
    is_number = isinstance(sample_type, Scalar | Bool) if virtual is None else virtual.dtype
    if names or not is_number:
        kind = "class codes" if names else _kind_of(sample_type)
        raise InvalidInputError(
            f"weights={by!r} is a column of {kind}, and a weight is a number"
            f"\nweigh its classes: weights={{{by!r}: 'balanced'}}, or {{{by!r}: {{value: 2.0}}}}",
            argument="weights",
            tensor=by,
        )


def _kind_of(sample_type: Any) -> str:
    return sample_type.describe() if hasattr(sample_type, "describe") else "strings or objects"


def check_numbers(values: Any, rows: int, where: str, noun: str = "row") -> None:
    """Refuse weights that are not a number for each row, or another item, or have no sum.

    Raises:
        InvalidInputError: They are such values.
    """
    if values.dtype.kind not in NUMBERS or values.shape != (rows,):
        raise InvalidInputError(
            f"{where} has {values.dtype} of shape {values.shape}, and the view {plural(rows, noun)}"
            "\ngive one number for each row",
            argument="weights",
            expected=rows,
            actual=values.shape,
        )
    wrong = np.flatnonzero(~((values >= 0) & np.isfinite(values)))
    if len(wrong):
        raise InvalidInputError(
            f"a weight is a finite number >= 0, but {where} is {shown(values[wrong[0]].item())} at"
            f" place {int(wrong[0])}\ngive rows that should not come the weight 0",
            argument="weights",
        )
    if rows and not values.any():
        raise InvalidInputError(
            f"{where} is 0 for all {rows:,} {noun}s\ngive one of them a weight above 0",
            argument="weights",
        )


def by_code(by: str, names: Sequence[str], weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Return weights by the values of a column: class names are codes in it.

    Raises:
        UnknownClassError: A class is not declared.
        InvalidInputError: One is named twice.
    """
    codes = {name: code for code, name in enumerate(names) if name}
    given: dict[Any, float] = {}
    for name, weight in weights.items():
        code = codes.get(name, name)
        is_known = not names or (is_whole_number(code) and 0 <= code < len(names) and names[code])
        if not is_known:
            raise unknown_class(name, names, tensor=by)
        if code in given:
            raise InvalidInputError(
                f"weights of {by!r} name one class twice: {shown(name)} has the code {code}"
                "\ngive each class one weight, by its name",
                argument="weights",
                actual=name,
            )
        given[code] = float(weight)
    return given


def _names(selection: Selection) -> set[str]:
    tensors: Any = selection.snapshot.schema.tensors
    return {one.name for one in tensors}
