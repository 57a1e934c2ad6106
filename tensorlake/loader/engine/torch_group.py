"""The process group of ``torch.distributed``, with its store as the board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch.utils.data import get_worker_info

from tensorlake.errors import InvalidStateError
from tensorlake.loader.config.rank_board import parent_board
from tensorlake.loader.config.rank_check import Group

__all__ = ["torch_group"]


def torch_group() -> Group | None:
    """Return the processes joined by ``init_process_group``; None before, or without it."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    # the store that the process group was made with has no public name
    store = distributed.distributed_c10d._get_default_store()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    worker, board = get_worker_info(), None
    if worker is None and store is not None:
        board = StoreBoard(store)
    elif worker is not None and worker.id == 0:  # a worker must not use its parent's connection
        board = parent_board()
    return Group(distributed.get_rank(), distributed.get_world_size(), board)


def _gone() -> InvalidStateError:
    return InvalidStateError(
        "the store of torch's process group does not answer while ranks are compared: the process"
        " that keeps it, rank 0, has ended\nlook for the error of rank 0"
    )


@dataclass(frozen=True, slots=True)
class StoreBoard:
    """Strings in a store of ``torch.distributed``."""

    store: Any  # torch.distributed.Store

    def post(self, key: str, text: str) -> None:
        """Post a string."""
        self.store.set(key, text)

    def wait(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until all keys are posted or the timeout expires."""
        try:
            self.store.wait(list(keys), timedelta(seconds=timeout_s))
        except RuntimeError:  # stores have no error of their own for a timeout: the caller checks
            try:
                self.store.check(list(keys))
            except RuntimeError as error:
                raise _gone() from error

    def has(self, key: str) -> bool:
        """Return whether a key is posted now."""
        return self.store.check([key])

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return the strings posted under some keys."""
        return [text.decode() for text in self.store.multi_get(list(keys))]

    def delete(self, key: str) -> None:
        """Delete a key, if it is posted."""
        self.store.delete_key(key)

    def count(self, key: str) -> int:
        """Return the number of earlier calls for a key."""
        return self.store.add(key, 1) - 1
