"""Golden orders that need a column, as docs/reference/plan.md prints them: never to change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensorlake.loader.plan.arrangement import (
    ArrangedOrder,
    ClassPlan,
    GroupedPlan,
    WeightedPlan,
    weight_units,
)
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey
from tensorlake.loader.plan.stretches import assign_in_stretches, counts_at, stretch_of
from tensorlake.loader.sources.mix.weights import assign_places, count_taken

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "plan.md"
LISTED = np.array([0, 3, 6, 9, 1, 4, 7, 10, 2, 5])
STARTS = np.array([0, 4, 8, 10])

GOLDEN = {
    # (rule, base, seed, epoch): all positions
    ("weighted", "none", 0, 0): [0, 0, 1, 1, 1, 3, 3, 3, 3, 3, 3, 4],
    ("weighted", "full", 7, 3): [3, 0, 3, 0, 3, 1, 1, 3, 3, 3, 3, 1],
    ("classes", "none", 0, 0): [1, 0, 2, 5, 2, 5, 2, 4, 3, 7, 5, 6],
    ("classes", "full", 7, 3): [7, 5, 2, 10, 9, 5, 3, 2, 4, 6, 5, 2],
    ("stratified", "none", 0, 0): [1, 0, 4, 7, 2, 10, 5, 3, 6, 9],
    ("stratified", "full", 7, 3): [3, 10, 5, 4, 6, 7, 9, 2, 1, 0],
    ("grouped", "none", 0, 0): [0, 3, 6, 9, 1, 4, 7, 10, 2, 5],
    ("grouped", "full", 7, 3): [2, 5, 0, 3, 6, 9, 1, 4, 7, 10],
}


def plan_of(rule, base, seed, epoch):
    key = PlanKey("any", Order(base), seed, epoch)
    match rule:
        case "weighted":
            return WeightedPlan(key, weight_units([1, 2, 0, 4, 0.5]), 12)
        case "classes":
            return ClassPlan(key, LISTED, STARTS, (1, 1, 2), 12)
        case "stratified":
            return ClassPlan(key, LISTED, STARTS, (4, 4, 2), 10)
        case _:
            return GroupedPlan(key, LISTED, STARTS)


@pytest.mark.parametrize(("case", "expected"), GOLDEN.items())
def test_the_order_is_the_golden_one_and_the_reference_page_prints_it(case, expected):
    plan = plan_of(*case)
    line = f"| {' | '.join(map(str, case))} | {' '.join(map(str, expected))} |"

    assert plan.at(np.arange(plan.num_rows)).tolist() == expected
    assert [int(plan.at(np.array([place]))[0]) for place in range(plan.num_rows)] == expected
    assert line in REFERENCE.read_text(encoding="utf-8")


def test_many_rows_are_found_as_few_are():
    weights = np.random.default_rng(0).random(1000)
    key = PlanKey("any", Order("full"), 1, 0)
    plan = WeightedPlan(key, weight_units(weights), 5_000_000)  # too many to list
    places = np.random.default_rng(1).integers(0, 5_000_000, 100_000)

    counts = np.bincount(plan.at(places), minlength=1000)

    assert np.abs(counts - weights / weights.sum() * 1e5).max() < 80  # 5 of its deviations


@pytest.mark.parametrize("units", [(3, 1), (5, 0, 2, 9), (1,) * 40, (7,)])
def test_a_stretch_has_the_counts_of_its_places(units):
    length, stop = stretch_of(len(units)), 5000
    source, given = assign_in_stretches(units, np.arange(stop), start=0, stop=stop, keys=(11, 12))
    evenly, _ = assign_places(units, np.arange(stop))

    for start in range(0, stop, length):
        part = slice(start, start + length)
        assert sorted(source[part]) == sorted(evenly[part])
    for number in range(len(units)):
        assert given[source == number].tolist() == list(range((source == number).sum()))
    assert counts_at(units, np.array([0, 77, stop])).tolist() == [
        list(count_taken(units, count)) for count in (0, 77, stop)
    ]


def test_an_order_comes_back_from_json():
    order = ArrangedOrder(Order("full"), "classes", "label", "ab", {"owl": 2.0}, 10, 3)

    assert ArrangedOrder.from_json(order.to_json()) == order
