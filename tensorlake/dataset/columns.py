"""The error for a column that is not there, named from what is."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlake.errors import TensorNotFoundError, did_you_mean

__all__ = ["unknown_column"]


def unknown_column(name: object, known: Sequence[str]) -> TensorNotFoundError:
    """Build the error, with the nearest known name."""
    hint = did_you_mean(name, known)
    return TensorNotFoundError(
        f"no column {name!r}{hint}\ncolumns: {', '.join(known) or 'none'}",
        tensor=name,
        expected=tuple(known),
    )
