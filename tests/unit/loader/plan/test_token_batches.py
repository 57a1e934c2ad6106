"""Golden batches by tokens, as docs/reference/plan.md prints them; the balance of ranks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import Sharding
from tensorlake.loader.plan.token_batches import (
    Borders,
    Padding,
    PlaceLengths,
    TokenBatches,
    balanced,
    deal_evenly,
)

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


def batches_of(lengths, budget, *, start=0, padding=None, sharding=None, deal=None):
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
    return TokenBatches(sharding, borders, deal=deal)


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
    costs = COSTS**2 if name == "squares" else COSTS

    dealt = [deal_evenly(costs, 3, equal_rows=equal).tolist() for equal in (True, False)]

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


@given(lengths_of, st.integers(1, 6), st.booleans())
def test_every_row_has_a_rank_and_sums_are_close(lengths, world, equal_rows):
    lengths = [*lengths, *[1] * world]
    costs = np.array(lengths)

    ranks = deal_evenly(costs, world, equal_rows=equal_rows)

    sums = np.bincount(ranks, costs, minlength=world)
    rows = np.bincount(ranks, minlength=world)
    assert np.ptp(sums) <= costs.max()
    assert rows.min() >= 1
    assert not equal_rows or np.ptp(rows) <= 1


@given(lengths_of, st.integers(40, 200), st.integers(1, 5), st.booleans())
def test_the_ranks_shares_are_the_batch(lengths, budget, world, equal_rows):
    def deal(share):
        return balanced(share, batches.borders.lengths, "squares", equal_rows=equal_rows)

    shares = []
    for rank in range(world):
        batches = batches_of(
            lengths, budget, sharding=Sharding(rank, world, max(budget, world)), deal=deal
        )
        shares.append([batches.share(number) for number in range(batches.count)])

    for parts in zip(*shares, strict=True):
        whole = parts[0].next_place - parts[0].batch_start
        places = np.concatenate([part.places[: part.valid] for part in parts])
        assert sorted(places) == list(range(parts[0].batch_start, parts[0].next_place))
        assert all(part.valid for part in parts) or whole < world


@given(st.lists(st.integers(0, 300_000), min_size=2, max_size=2).map(sorted), st.integers(0, 9999))
def test_lengths_between_places_are_those_of_the_rows(between, first):
    lengths = np.arange(1, 300_001 + first)
    plan = build_access_plan(PlanKey("any", Order("none"), 0, 0), len(lengths))
    start, stop = (first + place for place in between)

    found = PlaceLengths(plan, lengths, first).between(start, min(stop, len(lengths)))

    assert np.array_equal(found, lengths[start:stop])


def test_no_batch_is_counted_twice_where_the_short_one_is_dropped():
    sharding = Sharding(0, 1, 20, drop_last=True)

    assert borders_of(batches_of(LENGTHS, 20, sharding=sharding)) == BORDERS["sum"][1][:-1]
    assert batches_of([10, 10, 20], 20, sharding=sharding).count == 2  # the last one is full
    assert batches_of([10, 10, 19], 20, sharding=sharding).count == 1
    assert batches_of([], 20).count == 0
