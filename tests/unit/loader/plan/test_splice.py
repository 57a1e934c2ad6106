"""Splices as arithmetic: random ones, and one that must never change."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.passes import group_rest
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.plan.splice import Changes, Cut, Edit, splice_plan


def _plan(num_rows, order, seed, epoch):
    return build_access_plan(PlanKey("", order, seed, epoch), num_rows)


def _changes(old, new):
    """Compare two lists of distinct numbers, as rows are compared by identity."""
    at = {row: position for position, row in enumerate(new.tolist())}
    moved = np.array([at.get(row, -1) for row in old.tolist()], dtype=np.int64)
    back = np.full(len(new), -1)
    back[moved[moved >= 0]] = np.flatnonzero(moved >= 0)
    return Changes(
        np.flatnonzero(moved < 0),
        np.flatnonzero(back < 0),
        lambda some: moved[some],
        lambda some: back[some],
    )


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_random_splices_give_each_row_once(count):
    random = np.random.default_rng(3)
    for _ in range(count):
        orders = [Order("none"), Order("full"), Order("window", 3, 4)]
        order, seed, epoch = orders[random.integers(3)], int(random.integers(99)), 2
        rows = np.arange(random.integers(1, 80))
        plan, start, given = _plan(len(rows), order, seed, epoch), 0, []
        for number in range(random.integers(1, 4)):
            place = int(random.integers(start, plan.num_rows + 1))
            given += rows[plan.at(np.arange(start, place))].tolist()
            kept = rows[random.random(len(rows)) < random.random()]
            fresh = 1000 * (number + 1) + np.arange(random.integers(0, 30))
            new = np.concatenate([fresh, kept]) if random.random() < 0.5 else np.append(kept, fresh)
            cut = Cut(place, plan.num_rows, Edit("main@1"), "", order)
            changes = _changes(rows, new)
            plan = splice_plan(plan, changes, cut, number=number, seed=seed, epoch=epoch)
            rows, start = new, place
        rest = rows[plan.at(np.arange(start, plan.num_rows))].tolist()

        assert sorted(rest) == sorted(set(rows.tolist()) - set(given))
        places = np.arange(start, plan.num_rows)
        assert plan.places_of(plan.at(places)).tolist() == places.tolist()
        is_given = np.isin(rows, given)
        assert (plan.places_of(np.flatnonzero(is_given)) == -1).all()
        assert len(set(given)) == len(given)


def test_added_rows_are_mixed_evenly_with_the_rest():
    changes = _changes(np.arange(8000), np.arange(10000))
    cut = Cut(4000, 8000, Edit("main@1"), "", Order("full"))

    plan = splice_plan(_plan(8000, Order("full"), 1, 0), changes, cut, number=0, seed=1, epoch=0)

    is_new = plan.at(np.arange(4000, 10000)) >= 8000
    in_windows = is_new.reshape(-1, 60).sum(axis=1)
    assert in_windows.min() >= 12
    assert in_windows.max() <= 28  # a third of 60, to within a few rows


def test_the_order_after_a_splice_never_changes():
    old, new = np.arange(12), np.append(np.arange(3, 12), [20, 21, 22, 23])
    cut = Cut(4, 12, Edit("main@1"), "", Order("full"))

    plan = splice_plan(
        _plan(12, Order("full"), 7, 3), _changes(old, new), cut, number=0, seed=7, epoch=3
    )

    assert new[plan.at(np.arange(4, plan.num_rows))].tolist() == GOLDEN

    again = np.append(new[new != 7], [30, 31, 32, 33])
    cut = Cut(7, plan.num_rows, Edit("main@2"), "", Order("full"))
    plan = splice_plan(plan, _changes(new, again), cut, number=1, seed=7, epoch=3)

    assert plan.at(np.arange(7, plan.num_rows)).tolist() == GOLDEN_AGAIN


def test_places_before_a_splice_are_refused():
    cut = Cut(4, 12, Edit("main@1"), "", Order("full"))
    changes = _changes(np.arange(12), np.arange(12))
    plan = splice_plan(_plan(12, Order("full"), 7, 3), changes, cut, number=0, seed=7, epoch=3)

    with pytest.raises(InvalidInputError, match="place 2 of this epoch comes before its splice"):
        plan.at(np.array([2, 5]))


GOLDEN = [6, 4, 3, 5, 21, 20, 7, 23, 9, 22, 8]
GOLDEN_AGAIN = [
    2,
    12,
    9,
    8,
    11,
    5,
    13,
    15,
    10,
    14,
    4,
]  # positions, as docs/reference/plan.md prints them


@pytest.mark.parametrize("place", [0, 13, -1, 4.0, None])
def test_a_recorded_cut_is_inside_its_epoch(place):
    value = Cut(4, 12, Edit("main@1"), "", Order("full")).to_json()
    assert Cut.from_json(value, 2).place == 4

    with pytest.raises(InvalidInputError, match="is not part of a spliced order"):
        Cut.from_json(value | {"place": place}, 2)


def test_the_group_under_way_comes_first_and_ends_where_its_rows_do():
    groups = np.arange(6), np.array([0, 2, 4, 6])

    plan = group_rest(groups, np.array([2]), np.array([3]), place=1, shuffle=None)

    assert plan.at(np.arange(1, 6)).tolist() == [3, 0, 1, 4, 5]
    assert [plan.group_end(place) for place in range(1, 6)] == [2, 4, 4, 6, 6]
