"""Errors for rejected values, with the place of each.

A `Place` knows which call and tensor a batch of samples belongs to and turns a position in the
batch into the row that the user counts. The functions build (never raise) the errors; each
carries `tensor`, `row`, `expected` and `actual`. An invalid value rejects its whole call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from tensorlake.errors import (
    CorruptSampleError,
    DTypeMismatchError,
    InvalidInputError,
    ShapeMismatchError,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARGUMENTS",
    "STATEMENTS",
    "Place",
    "damaged_before",
    "describe_value",
    "dtype_mismatch",
    "is_one_of",
    "listed",
    "null_refused",
    "shape_mismatch",
    "unreadable",
]

STATEMENTS = frozenset({"INSERT", "UPDATE"})
"""Calls that were written in TQL: the advice uses TQL."""
ARGUMENTS = frozenset({"add_tensor(fill=)", "default=", "read(null=)"})
"""Calls with one value that is not a row."""
_SHOWN_CHARACTERS = 60


class Declared(Protocol):
    """A sample type, as far as errors need it."""

    @property
    def expected(self) -> str:
        """The valid samples, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """The origin of samples, for errors.

    Attributes:
        positions: Position in the call's samples of each sample kept, when NULLs were left out.
    """

    tensor: str
    declared: Declared
    row_start: int = 0
    rows: int = 1
    call: str = "extend()"
    positions: np.ndarray | None = None

    def row(self, position: int) -> int:
        """Return the row, as the user counts, of the sample at `position`."""
        if self.positions is not None:
            position = int(self.positions[position])
        return self.row_start + position

    def at(self, position: int) -> str:
        """Describe the place of the sample at `position`."""
        return self.call if self.call in ARGUMENTS else f"row {self.row(position)} of {self.call}"

    def without(self, positions: np.ndarray) -> Place:
        """Return the place of the samples at `positions` alone."""
        return replace(self, positions=positions)

    @property
    def expected(self) -> str:
        """The valid samples."""
        return self.declared.expected

    @property
    def advice(self) -> str:
        """The last line of every error."""
        if self.call == "read(null=)":
            return "nothing was read"
        if self.rows == 1 and self.row_start == 0:
            return "nothing was staged"
        rows = "all rows" if self.row_start else f"the {self.rows:,} rows"
        return f"nothing was staged; {rows} of this call were rejected together"


def dtype_mismatch(place: Place, position: int, actual: str, *, hint: str = "") -> Exception:
    """Build the error for a value of a kind or size that the tensor cannot hold."""
    return _mismatch(DTypeMismatchError, place, position, actual, hint)


def shape_mismatch(place: Place, position: int, actual: str, *, hint: str = "") -> Exception:
    """Build the error for a value of another shape."""
    return _mismatch(ShapeMismatchError, place, position, actual, hint)


def null_refused(place: Place, position: int) -> Exception:
    """Build the error for None in a tensor that is not nullable."""
    hint = f"to allow NULL: ds.alter_tensor({place.tensor!r}, nullable=True)"
    return _mismatch(DTypeMismatchError, place, position, "None", hint)


def unreadable(place: Place, position: int, reason: str, *, hint: str = "") -> Exception:
    """Build the error for a file or an encoded sample that cannot be accepted."""
    return InvalidInputError(
        f"{place.at(position)}: {place.tensor!r} {reason}\n{_advice(place, hint)}",
        tensor=place.tensor,
        row=place.row(position),
        expected=place.expected,
        actual=reason,
    )


def is_one_of(value: object, names: Iterable[str]) -> bool:
    """Whether a value is one of some names; arrays and lists are not."""
    return isinstance(value, str) and value in names


def listed(value: object) -> tuple[Any, ...] | None:
    """Return the items of a list of any kind; None for a string and what has no items."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return None
    try:
        return tuple(cast("Iterable[Any]", value))
    except TypeError:  # an array without axes
        return None


def describe_value(value: object) -> str:
    """Describe a value briefly: its dtype and shape, or its type and beginning."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (str, bytes, int, float, complex, np.generic)):
        plain = value.item() if isinstance(value, np.generic) else value
        text = shown(plain) if isinstance(plain, int) else repr(plain)
        text = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        name = value.dtype.name if isinstance(value, np.number) else kind
        return f"{name.removesuffix('_')} {text}"
    try:
        return f"{kind} of {len(value)}" if isinstance(value, Sized) else kind
    except (TypeError, RuntimeError, NotImplementedError):  # an array without axes
        return kind


def _mismatch(
    kind: Callable[..., InvalidInputError], place: Place, position: int, actual: str, hint: str
) -> InvalidInputError:
    facts: dict[str, Any] = {"tensor": place.tensor, "row": place.row(position)}
    return kind(
        f"{place.at(position)}: {place.tensor!r} expects {place.expected}, got {actual}"
        f"\n{_advice(place, hint)}",
        **facts,
        expected=place.expected,
        actual=actual,
    )


def _advice(place: Place, hint: str) -> str:
    return f"{hint}  ({place.advice})" if hint else place.advice


def damaged_before(
    problem: str, reason: str, tensor: str, row: int, *, expected: str | None = None
) -> CorruptSampleError:
    """Build the error for a stored file whose checksum is right and which cannot be decoded.

    Args:
        problem: The predicate of the message, as in ``is not a whole mesh``.
        reason: The decoder's message.
        tensor: The column.
        row: The row that the user counts.
        expected: A description of the valid files; None where ``problem`` names them.
    """
    return CorruptSampleError(
        f"row {row} of {tensor!r} {problem}: {reason}"
        "\n(stored checksum is right: it was damaged before ingestion). To train without it: "
        "on_error='skip'; to find all: ds.check(full=False, decode=True)",
        tensor=tensor,
        row=row,
        expected=expected,
        actual=reason,
    )
