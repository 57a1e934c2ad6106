"""What makes a loader torch's, JAX's or NumPy's: its arrays, and its worker processes."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Converter"]


class Converter(Protocol):
    """What a framework adds: its own arrays, and its worker processes."""

    @property
    def name(self) -> str:
        """The framework's, for messages."""
        ...

    @property
    def keeps_places(self) -> bool:
        """Whether batches must keep their size when samples are skipped."""
        ...

    @property
    def presents(self) -> bool:
        """Whether text, JSON and the like come as values, not as they are stored."""
        ...

    @property
    def placed(self) -> tuple[int, int] | None:
        """Which part of a batch this process's devices hold, and of how many; None: any may."""
        ...

    @property
    def equal_parts(self) -> int:
        """How many equal parts a global batch must have."""
        ...

    def turn_and_turns(self) -> tuple[int, int]:
        """Return which batches a worker process makes: turn, turn + turns, …; (0, 1) for all."""
        ...

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Turn a batch of NumPy arrays into the framework's."""
        ...
