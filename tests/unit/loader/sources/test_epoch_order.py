"""``loader.plan``: the rows of an epoch's positions, and the positions of rows, without reading."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

NAMES = itertools.count()


@pytest.fixture
def numbers():
    with tl.create(f"memory://plan-{next(NAMES)}", {"x": "int64"}) as dataset:
        dataset.extend({"x": range(500)})
        dataset.commit("five hundred")
        yield dataset


@pytest.mark.parametrize("shuffle", [False, "full", "window"])
def test_rows_of_positions_and_positions_of_rows_are_those_that_come(numbers, shuffle):
    loader = numbers.loader(batch_size=64, shuffle=shuffle, seed=5, columns=["_row"])
    for _ in range(2):
        plan = loader.plan
        rows = np.concatenate([batch["_row"] for batch in loader])

        assert len(plan) == 500
        assert np.array_equal(plan.rows_at(np.arange(500)), rows)
        assert np.array_equal(plan.position_of(rows), np.arange(500))
        assert plan.position_of([]).tolist() == plan.rows_at([]).tolist() == []


def test_rows_of_a_view_are_rows_of_the_version(numbers):
    view = numbers.query("WHERE x % 3 = 0 ORDER BY x DESC")
    loader = view.loader(batch_size=10, shuffle=True, seed=1, columns=["_row"])
    plan = loader.plan
    rows = np.concatenate([batch["_row"] for batch in loader])

    assert np.array_equal(plan.position_of(rows), np.arange(len(view)))
    with pytest.raises(InvalidInputError, match="row 4 is not one of the 167 rows"):
        plan.position_of([3, 4])


def test_a_row_that_is_listed_twice_has_its_first_position(numbers):
    loader = numbers[[7, 3, 7, 9, 7]].loader(batch_size=5, shuffle=True, columns=["_row"])
    plan = loader.plan
    (batch,) = loader

    rows = batch["_row"].tolist()
    assert plan.position_of([3, 7, 9]).tolist() == [rows.index(3), rows.index(7), rows.index(9)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scanned", [7, 1 << 20])
def test_rows_that_are_listed_and_drawn_any_number_of_times_have_their_first(
    numbers, monkeypatch, scanned, seed
):
    monkeypatch.setattr("tensorlake.loader.sources.epoch_order.SCANNED_ROWS", scanned)
    listed = np.random.default_rng(seed).integers(0, 12, 30)
    view = numbers[listed.tolist()]
    loader = view.loader(batch_size=5, weights="x", shuffle=True, seed=seed, columns=["_row"])
    plan = loader.plan

    rows = plan.rows_at(np.arange(len(plan)))
    places = {row: np.flatnonzero(rows == row).tolist() for row in range(12)}

    asked = np.unique(listed)
    found = plan.position_of(asked)
    which, at = plan.places_with(asked)
    assert found.tolist() == [(places[row] or [-1])[0] for row in asked.tolist()]
    assert sorted(zip(asked[which].tolist(), at.tolist(), strict=True)) == sorted(
        (row, place) for row, own in places.items() for place in own
    )


@pytest.mark.parametrize("wrong", [["a"], 3, [1.5], [500], [-1]])
def test_what_is_not_within_is_refused(numbers, wrong):
    plan = numbers.loader(batch_size=5).plan

    with pytest.raises(InvalidInputError):
        plan.rows_at(wrong)
    with pytest.raises(InvalidInputError):
        plan.position_of(wrong)


def test_rows_of_a_mix_have_positions_only_with_their_source(numbers):
    loader = tl.mix({"a": (numbers, 1), "b": (numbers, 1)}).loader(batch_size=5)

    assert len(loader.plan.rows_at([0, 1, 2])) == 3
    with pytest.raises(InvalidInputError, match="of a mix"):
        loader.plan.position_of([3])
