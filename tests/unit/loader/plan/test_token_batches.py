"""Golden batches by tokens, as docs/reference/plan.md prints them; the balance of ranks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.plan.balance import BalancedShares, deal_evenly
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import RowBatches, Sharding
from tensorlake.loader.plan.token_batches import Borders, Padding, PlaceLengths, TokenBatches

REFERENCE = (Path(__file__).parents[4] / "docs" / "reference" / "plan.md").read_text("utf-8")
LENGTHS = np.maximum(np.tile([5, 3, 0, 9, 4, 4, 1, 2, 6, 8], 2), 1)
COSTS = np.array([9, 3, 1, 30, 4, 4, 1, 2, 6, 8])

BORDERS = {
    "sum": (None, [0, 4, 9, 13, 18, 20]),
    "padded": (Padding(), [0, 3, 5, 8, 10, 13, 15, 18, 20]),
    "padded, multiple of 4": (Padding(4), [0, 2, 3, 4, 8, 10, 12, 13, 14, 18, 20]),
}
RANKS = {
    "tokens": ([1, 1, 0, 0, 1, 0, 1, 2, 2, 2], [1, 2, 2, 0, 1, 1, 2, 1, 2, 2]),
    "squares": ([1, 1, 0, 0, 1, 0, 2, 2, 2, 2], [1, 2, 1, 0, 1, 1, 2, 2, 2, 2]),
}


def batches_of(lengths, budget, *, start=0, padding=None, sharding=None, squares=None):
    plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), len(lengths))
    places = PlaceLengths(plan, np.asarray(lengths))
    sharding = sharding or Sharding(0, 1, budget)
    borders = Borders(
        places,
        start,
        len(lengths),
        budget=sharding.global_batch_size,
        padding=padding,
        drop_last=sharding.drop_last,
    )
    balanced = None
    if squares is not None:
        balanced = balanced_by(places, squares=squares, equal_rows=False)
    return TokenBatches(sharding, borders, balanced=balanced)


def balanced_by(places, *, squares, equal_rows, rows_per_batch=10):
    balance = "squares" if squares else "tokens"
    return BalancedShares(places, balance, equal_rows=equal_rows, rows_per_batch=rows_per_batch)


def dealt_one_by_one(costs, world, *, equal_rows):
    """The rank of each row of a batch, as docs/reference/plan.md says it."""
    ranked = sorted(range(len(costs)), key=lambda row: -costs[row])
    sums, ranks = [0] * world, [0] * len(costs)
    for start in range(0, len(costs), world if equal_rows else 1):
        by_sum = sorted(range(world), key=sums.__getitem__)
        rows = ranked[start : start + world] if equal_rows else [ranked[start]]
        for row, rank in zip(rows, by_sum, strict=False):
            ranks[row] = rank
            sums[rank] += costs[row]
    return ranks


def borders_of(batches):
    start = batches.borders.until(0)[batches.first]
    return [start, *(batches.stop(number) for number in range(batches.count))]


@pytest.mark.parametrize("name", BORDERS)
def test_the_batches_are_the_golden_ones_and_the_reference_page_prints_them(name):
    padding, expected = BORDERS[name]

    assert borders_of(batches_of(LENGTHS, 20, padding=padding)) == expected
    assert f"| {name} | {' '.join(map(str, expected))} |" in REFERENCE


@pytest.mark.parametrize("name", RANKS)
def test_the_ranks_are_the_golden_ones_and_the_reference_page_prints_them(name):
    costs = COSTS[None] ** (2 if name == "squares" else 1)

    dealt = [deal_evenly(costs, 3, equal_rows=equal)[0].tolist() for equal in (True, False)]

    assert dealt == [*RANKS[name]]
    by_rows, by_tokens = (" ".join(map(str, ranks)) for ranks in dealt)
    assert f"| {name} | {by_rows} | {by_tokens} |" in REFERENCE


lengths_of = st.lists(st.integers(1, 40), min_size=1, max_size=120)


@given(lengths_of, st.integers(40, 300), st.booleans(), st.data())
def test_batches_from_any_border_on_are_the_same(lengths, budget, is_padded, data):
    padding = Padding(data.draw(st.integers(1, 9))) if is_padded else None
    budget += 9  # that the longest takes when it is rounded up
    whole = batches_of(lengths, budget, padding=padding)
    borders = borders_of(whole)

    start = data.draw(st.sampled_from(borders))
    rest = borders_of(batches_of(lengths, budget, start=start, padding=padding))

    assert rest == [place for place in borders if place >= start]
    first = whole.borders.index(start)
    assert rest == borders_of(TokenBatches(whole.sharding, whole.borders, first))
    assert {whole.borders.index(place) for place in {*range(start)} - {*borders}} <= {None}
    for begin, end in itertools.pairwise(borders):
        rows = np.array(lengths[begin:end])
        more = np.array(lengths[begin : end + 1])
        costs = [
            one.sum() if padding is None else padding.padded(one).max() * len(one)
            for one in (rows, more)
        ]
        assert costs[0] <= budget
        assert end == len(lengths) or costs[1] > budget


costs_of_batches = st.lists(
    st.lists(st.integers(1, 40) | st.integers(1, 1 << 61), min_size=1, max_size=60),
    min_size=1,
    max_size=6,
)


@given(costs_of_batches, st.integers(1, 6), st.booleans())
def test_batches_dealt_together_are_dealt_as_one_by_one(batches, world, equal_rows):
    batches = [[*costs, *[1] * world] for costs in batches]
    costs = np.zeros((len(batches), max(map(len, batches))), np.int64)
    for row, batch in zip(costs, batches, strict=True):
        row[: len(batch)] = batch

    dealt = deal_evenly(costs, world, equal_rows=equal_rows)

    for padded, batch in zip(dealt.tolist(), batches, strict=True):
        ranks = padded[: len(batch)]
        assert ranks == dealt_one_by_one(batch, world, equal_rows=equal_rows)
        sums, rows = [0] * world, [0] * world
        for cost, rank in zip(batch, ranks, strict=True):
            sums[rank], rows[rank] = sums[rank] + cost, rows[rank] + 1
        assert max(sums) - min(sums) <= max(batch)
        assert min(rows) >= 1
        assert not equal_rows or max(rows) - min(rows) <= 1


@given(
    lengths_of | st.integers(1, 60).map(lambda rows: [7] * rows),
    st.integers(40, 200),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 10, 1 << 15, 1 << 30]),
)
def test_the_ranks_shares_are_the_batch(lengths, size, world, by_tokens, squares, rows_per_batch):
    shares = []
    for rank in range(world):
        if by_tokens:
            sharding = Sharding(rank, world, max(size, world))
            batches = batches_of(lengths, size, sharding=sharding, squares=squares)
        else:
            sharding = Sharding(rank, world, max(size // 8, world))
            plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), len(lengths))
            balanced = balanced_by(
                PlaceLengths(plan, np.array(lengths)),
                squares=squares,
                equal_rows=True,
                rows_per_batch=rows_per_batch,
            )
            batches = RowBatches(sharding, len(lengths), balanced=balanced)
        shares.append([batches.share(number) for number in range(batches.count)])

    for parts in zip(*shares, strict=True):
        start, stop = parts[0].batch_start, parts[0].next_place
        if stop - start < world:
            assert all(part.dealt is None for part in parts)
            continue
        costs = [length ** (2 if squares else 1) for length in lengths[start:stop]]
        ranks = np.array(dealt_one_by_one(costs, world, equal_rows=not by_tokens))
        for rank, part in enumerate(parts):
            assert (part.places - start).tolist() == np.flatnonzero(ranks == rank).tolist()
            assert part.valid == len(part) or world == 1


def test_squares_of_very_long_rows_do_not_overflow():
    plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), 4)
    lengths = PlaceLengths(plan, np.array([1, 1 << 40, (1 << 40) + 1, 2]))
    balanced = balanced_by(lengths, squares=True, equal_rows=True)

    shares = [RowBatches(Sharding(rank, 2, 4), 4, balanced=balanced).share(0) for rank in (0, 1)]

    assert [share.places.tolist() for share in shares] == [[0, 2], [1, 3]]


@given(st.lists(st.integers(0, 300_000), min_size=2, max_size=2).map(sorted), st.integers(0, 9999))
def test_lengths_between_places_are_those_of_the_rows(between, first):
    lengths = np.arange(1, 300_001 + first)
    plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), len(lengths))
    start, stop = (first + place for place in between)

    found = PlaceLengths(plan, lengths, first).between(start, min(stop, len(lengths)))

    assert np.array_equal(found, lengths[start:stop])


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=200),
    st.integers(1, 8),
    st.integers(0, 60),
    st.sampled_from([None, Padding(), Padding(4)]),
)
def test_batches_of_equal_parts_hold_as_many_such_parts_as_fit(lengths, parts, more, padding):
    budget = parts * 32 + more
    plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), len(lengths))
    places = PlaceLengths(plan, np.asarray(lengths))
    made = Borders(places, 0, len(lengths), budget=budget, padding=padding, parts=parts)

    found = [*made.until(len(lengths))]

    def cost(start: int, stop: int) -> int:
        own = np.asarray(lengths[start:stop])
        return int(own.sum() if padding is None else padding.padded(own).max() * len(own))

    assert found[-1] == len(lengths) // parts * parts
    assert all(size % parts == 0 for size in np.diff(found))
    for start, stop in itertools.pairwise(found):
        assert cost(start, stop) <= budget
        assert stop == found[-1] or cost(start, stop + parts) > budget


def test_no_batch_is_counted_twice_where_the_short_one_is_dropped():
    sharding = Sharding(0, 1, 20, drop_last=True)

    assert borders_of(batches_of(LENGTHS, 20, sharding=sharding)) == BORDERS["sum"][1][:-1]
    assert batches_of([10, 10, 20], 20, sharding=sharding).count == 2  # the last one is full
    assert batches_of([10, 10, 19], 20, sharding=sharding).count == 1
    assert batches_of([], 20).count == 0
