"""How many rows ranks load where their caches hold a part of the dataset: a simulation, no clock.

placement   ``Homes`` against a shuffled sampler whose ranks keep what they read last (LRU), as
            torch's ``DistributedSampler`` over a cache does: rows loaded by the slowest rank over
            an epoch, and step by step. *C* is the share that all caches hold together
windows     blocks read by the slowest rank in a windowed order: places dealt by block, as the plan
            does, against contiguous shares of each batch

A contender's figure is rows of an epoch per row (or block) that its slowest rank loads, so that a
ratio of two is how many times fewer loads there are.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import partial

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.placement import Homes, Ring
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import Sharding

__all__ = ["BENCHMARKS"]

ROWS, ROW_NBYTES = 200_000, 110_000
ROWS_A_RANK = 64
EPOCHS = 3  # after one that fills the caches
SEED = 7
SETTINGS = {  # ranks, C, at least so many times fewer: by rows of an epoch
    "home-w1": (1, 0.8, 2.5),
    "home-w8-c40": (8, 0.4, 1.5),
    "home-w2-c80": (2, 0.8, 4.0),
    "home-w8-c80": (8, 0.8, 4.0),
    "home-w64-c80": (64, 0.8, 4.0),
}
HOME, LRU = 'placement="home"', "sampler and LRU"
DEALT, CONTIGUOUS = "dealt by block", "contiguous shares"
BLOCK, WINDOW = 16, 819  # of rows of 20 kB, as the loader chooses them
WINDOW_ROWS = 400_000


def homes(world: int, together: float, workspace: Workspace) -> Measurement:
    del workspace
    own = Homes((Ring.of(ROWS, ROW_NBYTES, together / world),))
    batch = ROWS_A_RANK * world
    loads, steps, seconds, batches = np.zeros((EPOCHS, world)), 0.0, 0.0, 0
    for epoch in range(EPOCHS):
        plan = build_access_plan(PlanKey("", Order("full"), SEED, epoch + 1), ROWS)
        for start in range(0, ROWS, batch):
            positions = plan.positions(start, min(start + batch, ROWS))
            started = time.perf_counter()
            ranks = own.ranks(positions, world)
            seconds, batches = seconds + time.perf_counter() - started, batches + 1
            missed = np.array(
                [(~own.holds(r, world, positions[ranks == r])).sum() for r in range(world)]
            )
            loads[epoch] += missed
            steps += missed.max()
    facts = {"ms a batch": 1000 * seconds / batches, "steps": EPOCHS * ROWS / world / steps}
    return Measurement(float(loads.max(axis=1).sum()), EPOCHS * ROWS / world, 0.0, facts)


def lru(world: int, together: float, workspace: Workspace) -> Measurement:
    del workspace
    capacity = int(ROWS * together / world)
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(world)]
    loads, steps = np.zeros((EPOCHS, world)), 0.0
    for epoch in range(EPOCHS + 1):
        order = np.random.default_rng(epoch).permutation(ROWS)
        missed = [np.array([], np.int64)] * world
        for rank, cache in enumerate(caches):
            found: list[bool] = []
            for row in order[rank::world].tolist():
                found.append(row not in cache)
                cache[row] = None
                cache.move_to_end(row)
                if len(cache) > capacity:
                    cache.popitem(last=False)
            missed[rank] = np.array(found)
        if not epoch:
            continue
        loads[epoch - 1] = [one.sum() for one in missed]
        size = min(map(len, missed)) // ROWS_A_RANK * ROWS_A_RANK
        each = np.stack([one[:size].reshape(-1, ROWS_A_RANK).sum(axis=1) for one in missed])
        steps += each.max(axis=0).sum()
    facts = {"steps": EPOCHS * ROWS / world / steps}
    return Measurement(float(loads.max(axis=1).sum()), EPOCHS * ROWS / world, 0.0, facts)


def blocks(world: int, workspace: Workspace, *, is_dealt: bool) -> Measurement:
    del workspace
    plan = build_access_plan(PlanKey("", Order("window", BLOCK, WINDOW), SEED, 0), WINDOW_ROWS)
    read: list[set[int]] = [set() for _ in range(world)]
    for rank in range(world):
        sharding = Sharding(rank, world, ROWS_A_RANK * world)
        for number in range(sharding.num_batches(WINDOW_ROWS)):
            share = sharding.share(number, WINDOW_ROWS)
            places = plan.deal(share) if is_dealt else share.places
            read[rank].update(plan.blocks_of(places)[0].tolist())
    slowest = max(map(len, read))
    return Measurement(slowest, WINDOW_ROWS / BLOCK / world, 0.0)


BENCHMARKS = (
    *(
        Benchmark(
            name,
            f"Rows of an epoch per row that the slowest of {world} ranks loads, caches of"
            f" {together:.0%} of the dataset together.",
            "rows a load",
            (
                Contender(HOME, partial(homes, world, together)),
                Contender(LRU, partial(lru, world, together)),
            ),
            (Goal(HOME, LRU, at_least=goal),),
        )
        for name, (world, together, goal) in SETTINGS.items()
    ),
    *(
        Benchmark(
            f"home-windows-w{world}",
            f"Blocks of a rank's part of a windowed epoch per block that the slowest of {world}"
            " ranks reads, without a cache.",
            "blocks a read",
            (
                Contender(DEALT, partial(blocks, world, is_dealt=True)),
                Contender(CONTIGUOUS, partial(blocks, world, is_dealt=False)),
            ),
        )
        for world in (2, 8, 32)
    ),
)
