"""Placement: each global batch as it was, in equal parts, to ranks that hold its rows."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.placement import Homes, HomeShares, Ring
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import RowBatches, Sharding
from tests.support.examples import examples


@st.composite
def mixed_homes(draw, most=4):
    capacity = draw(st.floats(0.001, 1))
    rings = st.builds(
        Ring,
        num_rows=st.integers(1, 3000),
        capacity=st.just(capacity),
        rows_per_unit=st.integers(1, 50),
    )
    return Homes(tuple(draw(st.lists(rings, min_size=1, max_size=most))))


homes = mixed_homes()
orders = st.sampled_from([Order("none"), Order("full"), Order("window", 5, 7)])


def rows_of(own: Homes) -> int:
    return sum(one.num_rows for one in own.rings)


def most_hits(own: Homes, positions: np.ndarray, world: int) -> int:
    """The most rows that can go to ranks that hold them, by augmenting paths."""
    quotas = np.diff(np.arange(world + 1) * len(positions) // world)
    holds = [own.holds(rank, world, positions) for rank in range(world)]
    seats: list[list[int]] = [[] for _ in range(world)]
    for row in range(len(positions)):
        came: dict[int, tuple[int, int] | None] = {r: None for r in range(world) if holds[r][row]}
        queue = deque(came)
        while queue:
            rank = queue.popleft()
            if len(seats[rank]) < quotas[rank]:
                while True:  # back along the path, each row to the rank after its own
                    before = came[rank]
                    if before is None:
                        seats[rank].append(row)
                        break
                    other, moved = before
                    seats[other].remove(moved)
                    seats[rank].append(moved)
                    rank = other
                break
            for seated in seats[rank]:
                for further in range(world):
                    if holds[further][seated] and further not in came:
                        came[further] = rank, seated
                        queue.append(further)
    return sum(map(len, seats))


def hits(own: Homes, positions: np.ndarray, ranks: np.ndarray, world: int) -> int:
    return sum(int(own.holds(rank, world, positions[ranks == rank]).sum()) for rank in range(world))


@given(homes, st.integers(1, 40), st.integers(1, 300), st.integers(0, 2**32))
@examples(60)
def test_every_row_has_one_rank_and_every_rank_its_part(own, world, count, seed):
    positions = np.random.default_rng(seed).integers(0, rows_of(own), count)

    ranks = own.ranks(positions, world)

    quotas = np.diff(np.arange(world + 1) * count // world)
    assert np.array_equal(np.bincount(ranks, minlength=world), quotas)
    assert np.array_equal(ranks, own.ranks(positions, world))


@given(homes, st.integers(1, 12), st.lists(st.integers(0, 30), min_size=1), st.integers(0, 2**32))
@examples(60)
def test_parts_of_a_batch_are_dealt_together_as_each_alone(own, world, sizes, seed):
    positions = np.random.default_rng(seed).integers(0, rows_of(own), sum(sizes))

    together = own.ranks(positions, world, sizes)

    each = [own.ranks(one, world) for one in np.split(positions, np.cumsum(sizes)[:-1])]
    assert np.array_equal(together, np.concatenate(each))


@given(homes, st.integers(1, 12), st.integers(1, 60), st.integers(0, 2**32))
@examples(40)
def test_a_source_of_a_mix_has_the_homes_that_it_has_alone(own, world, count, seed):
    rng, first = np.random.default_rng(seed), 0
    for ring in own.rings:
        positions = rng.integers(0, ring.num_rows, count)
        alone = Homes((ring,))
        for rank in range(world):
            held = own.holds(rank, world, positions + first)
            assert np.array_equal(held, alone.holds(rank, world, positions))
        assert np.array_equal(own.ranks(positions + first, world), alone.ranks(positions, world))
        first += ring.num_rows


@given(homes, st.integers(1, 40))
def test_a_rank_may_cache_exactly_its_capacity(own, world):
    first = 0
    for ring in own.rings:
        units = first + np.arange(ring.num_units) * ring.rows_per_unit
        first += ring.num_rows
        for rank in range(world):
            assert own.holds(rank, world, units).sum() == int(ring.capacity * ring.num_units)


@given(
    st.sampled_from([0.05, 0.1, 0.15, 0.2, 0.3, 0.6, 1.0]),
    st.integers(2, 6),
    st.integers(6, 40),
    st.integers(0, 2**32),
)
@examples(25)
def test_nearly_as_many_rows_are_held_as_can_be(capacity, world, count, seed):
    own = Homes((Ring(10_000, capacity, 1),))
    positions = np.random.default_rng(seed).integers(0, rows_of(own), count)

    found = hits(own, positions, own.ranks(positions, world), world)

    best = most_hits(own, positions, world)
    assert found <= best
    assert found >= best - max(2, 0.15 * count)
    if capacity * world <= 1 or capacity == 1:  # arcs are apart, or everything is held
        assert found == best


@given(orders, st.integers(1, 400), st.integers(1, 9), st.integers(1, 40), st.integers(0, 99))
@examples(15)
def test_a_global_batch_is_the_same_for_any_world(order, rows, world, batch, seed):
    size = max(batch, world)
    plan = build_access_plan(PlanKey("selection", order, seed, 3), rows)
    shares = HomeShares(Homes((Ring(rows, 0.3, 4),)), plan.at)
    starts = {}
    for rank in range(world):
        batches = RowBatches(Sharding(rank, world, size), rows, 0, balanced=shares)
        for number in range(batches.count):
            share = batches.share(number)
            starts.setdefault(number, []).append(plan.deal(share)[: share.valid])
    for number, parts in starts.items():
        found = np.sort(np.concatenate(parts))
        stop = min((number + 1) * size, rows)
        assert np.array_equal(np.unique(found), np.arange(number * size, stop))
        if stop - number * size >= world:
            assert len(found) == stop - number * size
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_row_goes_to_the_same_rank_in_every_epoch_where_there_is_room():
    own = Homes((Ring.of(50_000, 100_000, 0.25),))
    found = np.zeros((3, 50_000), np.int64)
    for epoch in range(3):
        plan = build_access_plan(PlanKey("selection", Order("full"), 7, epoch), 50_000)
        for start in range(0, 50_000, 1000):
            positions = plan.positions(start, start + 1000)
            found[epoch, positions] = own.ranks(positions, 4)

    assert (found == found[0]).all(axis=0).mean() > 0.85


@pytest.mark.parametrize(
    ("rows", "row_nbytes", "unit"),
    [(10**9, 100_000, 167), (10**6, 100_000, 167), (10**5, 100_000, 24), (100, 10, 1), (0, 0, 1)],
)
def test_units_are_chunks_of_many_rows_and_parts_of_few(rows, row_nbytes, unit):
    assert Ring.of(rows, row_nbytes, 0.5).rows_per_unit == unit


def test_golden_ranks():
    own = Homes((Ring(100, 0.3, 2),))

    ring = own.rings[0].places(np.arange(0, 24, 2)).tolist()
    assert ring == [
        8,
        18,
        39,
        49,
        12,
        7,
        24,
        28,
        47,
        27,
        20,
        43,
    ]
    ranks = "0 0 1 1 2 2 3 3 0 0 0 0 1 1 2 2 3 3 2 2 1 1 3 3"
    assert own.ranks(np.arange(24), 4).tolist() == [*map(int, ranks.split())]
