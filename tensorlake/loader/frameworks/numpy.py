"""NumPy loaders: batches as they are assembled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NumpyConverter"]


@dataclass(frozen=True, slots=True)
class NumpyConverter:
    """Pass batches through."""

    name: str = "numpy"
    keeps_places: bool = False
    presents: bool = True
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that this process makes every batch."""
        return 0, 1

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch."""
        return batch
