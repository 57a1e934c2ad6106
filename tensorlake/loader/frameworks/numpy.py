"""NumPy loaders: batches as they are assembled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NumpyConverter"]


@dataclass(frozen=True, slots=True)
class NumpyConverter:
    """Pass batches through.

    Attributes:
        turns: N, to make every N-th batch from the state's place on: a server does, for a client.
        keeps_places: Whether batches keep their size when samples are skipped.
        presents: Whether text, JSON and similar samples are values, not as stored.
        lists_null: Whether a list may hold NULL, as None.
    """

    turns: int = 1
    keeps_places: bool = False
    presents: bool = True
    lists_null: bool = True
    name: str = "numpy"
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that every ``turns``-th batch is made, from the first on."""
        return 0, self.turns

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch."""
        return batch
