"""The processes that torch.distributed has joined, and its store as their board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch.utils.data import get_worker_info

from tensorlake.loader.config.rank_board import parent_board
from tensorlake.loader.config.rank_check import Group

__all__ = ["torch_group"]


def torch_group() -> Group | None:
    """Return the processes that ``init_process_group`` has joined; None before, or without it."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    # the store that the process group was made with has no public name
    store = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    worker, board = get_worker_info(), None
    if worker is None and store is not None:
        board = StoreBoard(store)
    elif worker is not None and worker.id == 0:  # it must not use its parent's connection
        board = parent_board()
    return Group(distributed.get_rank(), distributed.get_world_size(), board)


@dataclass(frozen=True, slots=True)
class StoreBoard:
    """Texts in a store of torch.distributed."""

    store: Any  # torch.distributed.Store

    def post(self, key: str, text: str) -> None:
        """Put a text."""
        self.store.set(key, text)

    def wait(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until texts are there, or until the time is up."""
        try:
            self.store.wait(list(keys), timedelta(seconds=timeout_s))
        except RuntimeError:  # stores have no error of their own for it: who asks looks again
            self.store.check(list(keys))  # raises where the store itself is gone

    def has(self, key: str) -> bool:
        """Tell whether a text is there now."""
        return self.store.check([key])

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return texts that are there."""
        return [text.decode() for text in self.store.multi_get(list(keys))]

    def delete(self, key: str) -> None:
        """Take a text away, if it is there."""
        self.store.delete_key(key)

    def count(self, key: str) -> int:
        """Return how often this was called for a key before."""
        return self.store.add(key, 1) - 1
