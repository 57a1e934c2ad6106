"""The order of an epoch: a permutation, shared out exactly once, the same for every world."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import AccessPlan, PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import Sharding
from tensorlake.loader.plan.shuffle import permutation_of
from tests.support.examples import examples

seeds = st.integers(0, 2**64 - 1)
epochs = st.integers(0, 1000)
sizes = st.one_of(st.integers(0, 20), st.integers(0, 3000))
orders = st.one_of(
    st.just(Order("none")),
    st.just(Order("full")),
    st.builds(Order, st.just("window"), st.integers(1, 40), st.integers(1, 9)),
)


def plan_of(order: Order, num_rows: int, seed: int = 7, epoch: int = 0) -> AccessPlan:
    return build_access_plan(PlanKey("selection", order, seed, epoch), num_rows)


@given(sizes, seeds, epochs, orders)
def test_an_epoch_holds_every_position_exactly_once(n, seed, epoch, order):
    positions = plan_of(order, n, seed, epoch).positions(0, n)

    assert np.array_equal(np.sort(positions), np.arange(n))


@examples(25)
@given(st.integers(1, 2000), seeds, epochs, orders, st.sampled_from([1, 2]))
def test_the_inverse_finds_every_place(n, seed, epoch, order, version):
    plan = plan_of(replace(order, version=version), n, seed, epoch)
    positions = plan.positions(0, n)

    assert np.array_equal(plan.places_of(positions), np.arange(n))
    assert np.array_equal(plan.places_of(np.arange(n)), np.argsort(positions))


def test_a_million_places_of_a_billion_rows_are_found_and_found_again():
    n = 10**9
    plan = plan_of(Order("window", 2, 1220), n)
    places = np.random.default_rng(0).integers(0, n, 10**6)

    positions = plan.at(places)

    assert np.array_equal(plan.places_of(positions), places)


@pytest.mark.slow
@given(st.integers(1, 3000), st.integers(1, 9), st.integers(1, 40), st.integers(1, 60), st.data())
def test_ranks_of_a_windowed_order_divide_every_batch(n, world, block, batch_size, data):
    order = Order("window", block, data.draw(st.integers(1, 9)))
    start = data.draw(st.integers(0, n - 1))
    plan = plan_of(order, n)
    shardings = [Sharding(rank, world, batch_size * world) for rank in range(world)]

    for number in range(min(3, shardings[0].num_batches(n, start))):
        shares = [sharding.share(number, n, start) for sharding in shardings]
        dealt = [plan.deal(share) for share in shares]
        given = [one for one, share in zip(dealt, shares, strict=True) if share.valid]

        first, stop = shares[0].batch_start, shares[0].next_place
        assert sorted(np.concatenate(given).tolist()) == list(range(first, stop))
        assert [len(one) for one in dealt] == [len(share) for share in shares]
        assert all((np.diff(one) > 0).all() for one in dealt)


def test_a_block_is_given_to_one_rank_but_for_a_few_rows():
    n, world, batch = 100_000, 4, 1024
    plan = plan_of(Order("window", 4, 500), n)
    ranks_of_blocks: dict[int, set[int]] = {}
    for number in range(n // batch):
        for rank in range(world):
            share = Sharding(rank, world, batch).share(number, n)
            for block in plan.blocks_of(plan.deal(share))[0].tolist():
                ranks_of_blocks.setdefault(block, set()).add(rank)

    reads = sum(map(len, ranks_of_blocks.values()))

    assert reads / len(ranks_of_blocks) < 1.15  # contiguous shares: 2.7


@given(st.integers(1, 2**62), seeds)
def test_a_permutation_of_any_size_stays_within_it_and_is_injective(n, seed):
    values = np.unique(np.linspace(0, n - 1, 100).astype(np.int64).clip(0, n - 1))

    images = permutation_of(n, seed=seed, epoch=0, purpose="order").apply(values)

    assert images.min() >= 0
    assert images.max() < n
    assert len(np.unique(images)) == len(values)


@given(st.integers(1, 140), seeds, st.integers(0, 9), st.integers(1, 9))
def test_a_small_permutation_is_the_same_alone_and_among_others(size, seed, number, others):
    own = permutation_of(size, seed=seed, epoch=0, purpose="window")
    values = np.tile(np.arange(size), 1 + others)
    numbers = np.repeat(number + np.arange(1 + others), size)

    among = own.apply(values, numbers)[:size]

    alone = own.apply(np.arange(size), np.full(size, number))
    assert alone.tolist() == among.tolist()
    assert own.inverse(alone, np.full(size, number)).tolist() == list(range(size))
    assert own.inverse(own.apply(values, numbers), numbers).tolist() == values.tolist()


@given(sizes, orders, st.data())
def test_any_part_of_an_epoch_equals_that_part_of_the_whole(n, order, data):
    plan = plan_of(order, n)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))

    assert np.array_equal(plan.positions(start, stop), plan.positions(0, n)[start:stop])


def test_two_places_at_the_ends_of_an_epoch_cost_what_two_neighbours_cost():
    n = 10**12
    plan = plan_of(Order("window", 1, 1), n)  # as many windows as rows

    first, last = plan.at(np.array([0, n - 1])).tolist()

    assert first == plan.positions(0, 1)[0]
    assert last == plan.positions(n - 1, n)[0]


@given(st.integers(1, 500), st.integers(1, 12), st.integers(1, 8), st.integers(0, 500))
def test_ranks_share_out_every_place_once_in_equally_many_batches(n, batch_size, world, start):
    start = min(start, n)
    shardings = [Sharding(rank, world, batch_size * world) for rank in range(world)]

    counts = {sharding.num_batches(n, start) for sharding in shardings}
    taken = [
        place
        for number in range(counts.pop())
        for sharding in shardings
        for share in [sharding.share(number, n, start)]
        for place in range(share.start, share.start + share.valid)
    ]

    assert not counts
    assert taken == list(range(start, n))


@given(st.integers(1, 500), st.integers(1, 40), st.integers(1, 8))
def test_no_rank_is_ever_given_an_empty_batch_and_padding_is_announced(n, extra, world):
    shardings = [Sharding(rank, world, world + extra - 1) for rank in range(world)]
    shares = [s.share(k, n) for s in shardings for k in range(s.num_batches(n))]

    assert all(len(share) >= 1 for share in shares)
    assert any(share.valid == 0 for share in shares) == shardings[0].needs_padding(n)


@given(st.integers(1, 400), st.integers(1, 9), st.integers(1, 6))
def test_dropping_the_last_batch_leaves_only_whole_ones(n, batch_size, world):
    sharding = Sharding(world - 1, world, batch_size * world, drop_last=True)

    shares = [sharding.share(k, n) for k in range(sharding.num_batches(n))]

    assert all(len(share) == share.valid == batch_size for share in shares)
    assert len(shares) == n // (batch_size * world)


@pytest.mark.slow
@given(
    st.integers(1, 400),
    orders,
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 4)), min_size=2),
)
def test_changing_the_world_between_batches_continues_the_same_global_order(n, order, worlds):
    whole = plan_of(order, n).positions(0, n).tolist()
    seen: list[int] = []
    place = 0
    for world, batch_size, steps in [*worlds, (1, n, 1)]:
        shardings = [Sharding(rank, world, batch_size * world) for rank in range(world)]
        for number in range(min(steps, shardings[0].num_batches(n, place))):
            shares = [sharding.share(number, n, place) for sharding in shardings]
            for share in shares:
                rows = plan_of(order, n).positions(share.start, share.start + share.valid)
                seen += rows.tolist()
        if steps and shardings[0].num_batches(n, place):
            last = min(steps, shardings[0].num_batches(n, place)) - 1
            place = shardings[0].share(last, n, place).next_place

    assert seen == whole


@given(st.integers(2, 50), st.integers(1, 9), seeds)
def test_a_window_draws_only_from_its_own_blocks(block, window, seed):
    n = block * window * 5
    positions = plan_of(Order("window", block, window), n, seed).positions(0, n)

    for start in range(0, n, block * window):
        rows = np.sort(positions[start : start + block * window])
        runs = np.flatnonzero(np.diff(rows) != 1)
        assert len(runs) <= window  # rotation may cut one block in two at the end


@pytest.mark.parametrize("order", [Order("full"), Order("window", 16, 8)])
def test_epochs_and_seeds_give_unrelated_orders(order):
    n = 4096
    first = plan_of(order, n, seed=1, epoch=0).positions(0, n)

    for seed, epoch in [(1, 1), (2, 0)]:
        other = plan_of(order, n, seed=seed, epoch=epoch).positions(0, n)
        assert np.count_nonzero(first == other) < 12  # one is expected
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.1


@pytest.mark.parametrize("n", [2, 3, 5, 100, 1000])
def test_each_row_comes_first_about_equally_often(n):
    trials = 60 * min(n, 100)
    firsts = [plan_of(Order("full"), n, seed).positions(0, 1)[0] for seed in range(trials)]
    buckets = min(n, 10)

    counts = np.bincount(np.asarray(firsts) * buckets // n, minlength=buckets)
    expected = np.bincount(np.arange(n) * buckets // n, minlength=buckets) * trials / n

    assert ((counts - expected) ** 2 / expected).sum() < 35  # chi-square, 9 degrees: p < 0.0001


def test_a_full_shuffle_keeps_no_neighbours_together():
    positions = plan_of(Order("full"), 10_000).positions(0, 10_000)

    near = sum(abs(a - b) <= 2 for a, b in pairwise(positions.tolist()))

    assert near < 20  # four are expected


def test_all_orders_of_three_rows_occur():
    seen = {tuple(plan_of(Order("full"), 3, seed).positions(0, 3)) for seed in range(200)}

    assert len(seen) == 6
