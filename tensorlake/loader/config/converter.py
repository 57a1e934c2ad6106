"""The interface of a framework (torch, JAX, TensorFlow, NumPy): its arrays and its workers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tensorlake.errors import InvalidInputError

__all__ = ["Converter", "no_such_dtype"]


class Converter(Protocol):
    """A framework's own arrays and worker processes."""

    @property
    def name(self) -> str:
        """Name of the framework, for messages."""
        ...

    @property
    def keeps_places(self) -> bool:
        """Whether batches must keep their size when samples are skipped."""
        ...

    @property
    def presents(self) -> bool:
        """Whether text, JSON and similar samples are delivered as values, not as stored."""
        ...

    @property
    def lists_null(self) -> bool:
        """Whether a column that is a list may hold NULL, as None."""
        ...

    @property
    def placed(self) -> tuple[int, int] | None:
        """This process's part of a batch by its devices, and the number of parts; None: any."""
        ...

    @property
    def equal_parts(self) -> int:
        """Number of equal parts a global batch must have."""
        ...

    def turn_and_turns(self) -> tuple[int, int]:
        """Return which batches a worker process makes: turn, turn + turns, …; (0, 1) for all."""
        ...

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Convert a batch of NumPy arrays to the framework's."""
        ...


def no_such_dtype(name: str, dtype: np.dtype, framework: str) -> InvalidInputError:
    """Build the error for an entry, of a function of the user, that a framework cannot hold."""
    if dtype.kind in "Mm":
        instead = "its .astype('int64')"
    elif dtype.kind in "SUO":
        instead = "its .tolist(): text and objects are listed"
    else:
        instead = "it as float32 or float64"
    return InvalidInputError(
        f"{name!r} of a batch is an array of {dtype}, for which {framework} has no dtype"
        f"\nreturn {instead}",
        tensor=name,
        actual=str(dtype),
    )
