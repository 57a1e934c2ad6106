"""The process group of ``jax.distributed``, with its coordination service as the board."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from tensorlake.loader.config.rank_check import Group

__all__ = ["jax_group"]

READ_TIMEOUT_MS = 60_000  # of a key that is posted
_counted: Counter[str] = Counter()  # per process: its service may not have counters


def jax_group(*, starts: bool = False) -> Group | None:
    """Return the processes of this program, if they have joined.

    Args:
        starts: Whether JAX may start its devices, as a pass does anyway, if only they know of other
            processes. ``jax.distributed.initialize()`` is refused after that.
    """
    # neither has a public name
    from jax._src.distributed import global_state
    from jax._src.xla_bridge import backends_are_initialized

    if global_state.client is not None:
        board = ServiceBoard(global_state.client)
        return Group(global_state.process_id, global_state.num_processes, board)
    if not (starts or backends_are_initialized()) or jax.process_count() == 1:
        return None
    return Group(jax.process_index(), jax.process_count())


@dataclass(frozen=True, slots=True)
class ServiceBoard:
    """Strings in JAX's coordination service."""

    client: Any  # jaxlib's DistributedRuntimeClient, which has no public name

    def post(self, key: str, text: str) -> None:
        """Post a string."""
        self.client.key_value_set(key, text, allow_overwrite=True)

    def wait(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until all keys are posted or the timeout expires."""
        deadline = time.monotonic() + timeout_s
        for key in keys:
            left_ms = max(1, int(1000 * (deadline - time.monotonic())))
            try:
                self.client.blocking_key_value_get(key, left_ms)
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise

    def has(self, key: str) -> bool:
        """Return whether a key is posted now."""
        folder, _, name = key.rpartition("/")
        found = self.client.key_value_dir_get(f"{folder}/")
        return any(one.rpartition("/")[2] == name for one, _ in found)

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return the strings posted under some keys."""
        return [self.client.blocking_key_value_get(key, READ_TIMEOUT_MS) for key in keys]

    def delete(self, key: str) -> None:
        """Delete a key, if it is posted."""
        self.client.key_value_delete(key)

    def count(self, key: str) -> int:
        """Return the number of earlier calls for a key."""
        _counted[key] += 1
        return _counted[key] - 1
