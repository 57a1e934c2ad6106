"""Settings that would be faster: as few changes as make the loader reach what it can reach.

workers     as many as the other ceilings can use: a transform that sleeps takes more threads
            than there are cores, one that computes does not
engine      "processes" for a transform that holds the interpreter's lock, with a worker a core
prefetch    twice the bytes that arrive during the latency of a request, at the rate aimed at
cache       the stored bytes of an epoch, where the store is the limit and memory has room
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.model import Model, StoreFigures

__all__ = ["Resources", "faster"]

WORTH = 1.1  # a smaller gain is not worth a change
SPARE = 1.25  # more workers than needed on average: samples differ
MOST_WORKERS = 256
MIB = 1 << 20
DEFAULT_PREFETCH = 256 * MIB


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of the settings.

    Attributes:
        cores: Cores that this process may use.
        memory_nbytes: Memory that a cache or the prefetch may take.
        prefetch_nbytes: The prefetch, and ``cache_nbytes``: the cache, as they are.
        row_nbytes: Bytes of a row in a batch.
        epoch_nbytes: Stored bytes of an epoch.
        can_fork: Whether the transform can run in processes.
    """

    cores: int
    memory_nbytes: int
    prefetch_nbytes: int
    cache_nbytes: int
    row_nbytes: float
    epoch_nbytes: float
    can_fork: bool


def faster(model: Model, resources: Resources) -> tuple[dict[str, Any], Model]:
    """Return arguments of the loader that raise its rate, and the model with them.

    Nothing is proposed that the model does not expect to gain a tenth by.
    """
    settings: dict[str, Any] = {}
    changed = model
    limit = model.limit
    if limit is None:
        return settings, model
    store = model.store
    if limit.resource == "store" and store is not None and store.own is not None:
        changed, settings = _with_reads(model, store, resources)
    if _is_locked(changed) and resources.can_fork and resources.cores > 1:
        by_processes = replace(changed, by_processes=True, workers=resources.cores)
        if _is_worth(by_processes, changed):
            changed = by_processes
            settings |= {"engine": "processes", "workers": resources.cores}
    workers = _workers(changed, resources)
    with_workers = replace(changed, workers=workers)
    if workers > changed.workers and _is_worth(with_workers, changed):
        changed, settings = with_workers, settings | {"workers": workers}
    return settings, changed


def _with_reads(
    model: Model, store: StoreFigures, resources: Resources
) -> tuple[Model, dict[str, Any]]:
    """Return the model with a larger prefetch, or a cache, where the store is the limit."""
    settings: dict[str, Any] = {}
    changed = model
    most = store.most
    if store.cause == "prefetch" and most is not None:
        changed = replace(model, store=replace(store, own=most))
        rows = changed.rate.value * store.latency_s
        needed = 2 * rows * (store.row_nbytes + resources.row_nbytes)
        nbytes = max(needed, 2 * resources.prefetch_nbytes, DEFAULT_PREFETCH)
        nbytes = min(nbytes, max(resources.memory_nbytes, DEFAULT_PREFETCH))
        if nbytes > resources.prefetch_nbytes and _is_worth(changed, model):
            settings["prefetch"] = f"{math.ceil(nbytes / MIB)}MiB"
        else:
            changed = model
    fits = resources.cache_nbytes < resources.epoch_nbytes <= resources.memory_nbytes
    if fits and changed.limit is not None and changed.limit.resource == "store":
        settings["cache"] = f"{math.ceil(resources.epoch_nbytes * WORTH / MIB)}MiB"
    return changed, settings


def _is_locked(model: Model) -> bool:
    limit = model.limit
    is_threads = limit is not None and limit.resource in ("lock", "threads", "cores")
    is_transform = limit is not None and limit.stage == "transform"
    return is_threads and is_transform and model.transform.kind == "holds the lock"


def _workers(model: Model, resources: Resources) -> int:
    """Return the threads that the other ceilings can use, on a machine without other programs."""
    alone = replace(model, cores=Estimate.exactly(max(resources.cores, model.cores.value)))
    row_s = model.decode.wall.plus(model.collate.wall).plus(model.transform.wall).value
    others = [one.rate.value for one in alone.ceilings if one.resource != "threads"]
    if not others or row_s <= 0:
        return model.workers
    aim = min(others)
    return max(model.workers, min(math.ceil(aim * row_s * SPARE), MOST_WORKERS))


def _is_worth(changed: Model, before: Model) -> bool:
    return changed.rate.value >= WORTH * before.rate.value
