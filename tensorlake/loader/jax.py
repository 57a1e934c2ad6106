"""JAX loaders: dicts of jax arrays, global ones where a sharding is given.

Each process reads the contiguous part of a global batch that is its share by ``process_index``;
``make_array_from_process_local_data`` joins the parts along the sharding. Batches keep their size
when samples are skipped: ``_valid`` says which rows count, so nothing is compiled anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

__all__ = ["JaxConverter"]


@dataclass(frozen=True, slots=True)
class JaxConverter:
    """Turn arrays into jax arrays; lists stay lists."""

    sharding: jax.sharding.Sharding | None = None
    device: Any = None  # jax.Device, as jax.device_put takes it
    name: str = "jax"
    keeps_places: bool = True
    presents: bool = True

    def rank_and_world(self) -> tuple[int, int]:
        """Ask jax which process this is."""
        return jax.process_index(), jax.process_count()

    def agree(self, what: str, plan: dict[str, Any], *, timeout_s: float) -> None:
        """Compare nothing: jax has no store of its own for it."""

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that this process makes every batch."""
        return 0, 1

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Turn a batch's arrays into jax's."""
        return {name: self._array(value) for name, value in batch.items()}

    def _array(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if self.sharding is not None:
            return jax.make_array_from_process_local_data(self.sharding, value)
        return jax.device_put(value, self.device)
