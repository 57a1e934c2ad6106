"""Ranks agree: before its first pass each compares what it is about to stream with rank 0.

Two ranks that opened a branch a moment apart read different versions, and would train on other
rows than they think. Each rank puts its plan into the store that torch.distributed keeps anyway
and reads rank 0's. It is no collective call: rank 0 waits for nobody, and the others for rank 0.

    key    tensorlake/<what is read>/<how often this rank has asked>/<rank>
    value  the loader's state, world and global batch, as JSON
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any, Protocol

from tensorlake.errors import StateMismatchError, StorageTimeoutError

__all__ = ["KeyValueStore", "compare_with_rank_0"]

_asked: Counter[str] = Counter()  # of this process: ranks make the same loaders in the same order


class KeyValueStore(Protocol):
    """What is used of a store of torch.distributed."""

    def set(self, key: str, value: str, /) -> None:
        """Put a value."""
        ...

    def get(self, key: str, /) -> bytes:
        """Return a value that is there."""
        ...

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Wait until keys are there."""
        ...


def compare_with_rank_0(
    store: KeyValueStore, *, what: str, rank: int, plan: dict[str, Any], timeout_s: float
) -> None:
    """Put this rank's plan into the store, and compare it with rank 0's.

    Raises:
        StateMismatchError: They differ; the message lists in what.
        StorageTimeoutError: Rank 0 has not started such a loader in time.
    """
    number = _asked[what]
    _asked[what] += 1
    prefix = f"tensorlake/{what}/{number}"
    store.set(f"{prefix}/{rank}", json.dumps(plan))
    if rank == 0:
        return
    try:
        store.wait([f"{prefix}/0"], timedelta(seconds=timeout_s))
    except RuntimeError as error:  # torch's stores have no error of their own for it
        raise StorageTimeoutError(
            f"rank 0 did not start its loader of {what!r} within {timeout_s:g} s of rank {rank}"
            "\nstart the loaders of all ranks in the same order; one for this rank alone is made"
            " with rank=0, world_size=1",
            timeout_s=timeout_s,
        ) from error
    first: dict[str, Any] = json.loads(store.get(f"{prefix}/0"))
    differing = [name for name in plan if first.get(name) != plan[name]]
    if differing:
        rows = "\n".join(
            f"   {name}  rank 0 {first.get(name)!r}, rank {rank} {plan[name]!r}"
            for name in differing
        )
        raise StateMismatchError(
            f"rank {rank} would stream another order than rank 0: {', '.join(differing)} differ"
            f"\n{rows}\nopen one version on all ranks (tl.open(url, version='main@12')), and give"
            " all the same arguments and state",
            expected={name: first.get(name) for name in differing},
            actual={name: plan[name] for name in differing},
        )
