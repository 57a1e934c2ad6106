"""The error for a column that is not there, named from what is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tensorlake.errors import TensorNotFoundError

__all__ = ["unknown_column"]


def unknown_column(name: object, known: Sequence[str]) -> TensorNotFoundError:
    """Build the error, with the nearest known name."""
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return TensorNotFoundError(
        f"no column {name!r}{hint}\ncolumns: {', '.join(known) or 'none'}",
        tensor=name,
        expected=tuple(known),
    )
