"""Loader states: small, parsed at the border, refused where another order is meant."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError, StateMismatchError, UnsupportedFeatureError
from tensorlake.loader.plan.plan import Order, choose_order
from tensorlake.loader.plan.state import LoaderState, check_state, checked_epoch

STATE = LoaderState(
    version="main@12",
    selection="ab" * 20,
    num_rows=10**9,
    order=Order("window", 19, 63),
    seed=2**64 - 1,
    epoch=89,
    position=10**9 - 1,
    skipped=512,
)


def given_of(state: LoaderState = STATE, **changes):
    given = {
        "version": state.version,
        "selection": state.selection,
        "num_rows": state.num_rows,
        "seed": state.seed,
        "shuffle": True,
    }
    return given | changes


def test_state_is_under_a_kilobyte_of_json_and_comes_back_equal():
    text = json.dumps(STATE.to_json())

    assert len(text) < 1024
    assert LoaderState.from_json(json.loads(text)) == STATE


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"seed": "7"},
        {"epoch": -1},
        {"epoch": 2**64},
        {"seed": 2**64},
        {"position": True},
        {"order": {"kind": "sorted"}},
        {"order": {"kind": "window", "block": 0, "window": 4}},
        {"order": {"kind": "window", "block": 1 << 63, "window": 4}},
        {"order": "full"},
        {"version": None},
        {"position": 10**9 + 1},
    ],
)
def test_a_damaged_state_is_refused(changes):
    with pytest.raises(InvalidInputError):
        LoaderState.from_json(STATE.to_json() | changes)


def test_a_state_of_another_plan_version_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="plan version 2"):
        LoaderState.from_json(STATE.to_json() | {"plan": 2})


@pytest.mark.parametrize("changes", [{}, {"shuffle": "window"}, {"seed": None}])
def test_a_state_of_the_same_order_is_accepted(changes):
    check_state(STATE, **given_of(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 3}, "seed"),
        ({"shuffle": "full"}, "shuffle"),
        ({"shuffle": False}, "shuffle"),
        ({"selection": "cd" * 20}, "selection"),
        ({"num_rows": 5}, "num_rows"),
    ],
)
def test_another_order_is_refused_listing_recorded_and_given(changes, named):
    with pytest.raises(StateMismatchError, match=r"recorded .*, given") as caught:
        check_state(STATE, **given_of(**changes))

    assert list(caught.value.expected) == [named]
    assert caught.value.actual[named] == changes[named]


@pytest.mark.parametrize(
    ("num_rows", "row_nbytes", "kind"),
    [
        (1000, 110_000, "full"),
        (10**9, 1, "full"),
        (10**9, 1024, "window"),
        (10**6, 110_000, "window"),
        (10**6, 5 << 20, "full"),
        (0, 0, "full"),
    ],
)
def test_shuffle_true_chooses_by_rows_and_bytes_alone(num_rows, row_nbytes, kind):
    assert choose_order(True, num_rows=num_rows, row_nbytes=row_nbytes).kind == kind  # noqa: FBT003 - the argument under test


def test_a_window_holds_about_128_mib_of_blocks_of_2_mib():
    order = choose_order("window", num_rows=10**9, row_nbytes=1024)

    assert order == Order("window", 2048, 64)


def test_an_unknown_shuffle_is_refused():
    with pytest.raises(InvalidInputError, match="'sorted'"):
        choose_order("sorted", num_rows=1, row_nbytes=1)


@pytest.mark.parametrize("state", [None, "main@1", [1], 3])
def test_what_is_no_dict_is_no_state(state):
    with pytest.raises(InvalidInputError, match="a loader's state is a dict, got"):
        LoaderState.from_json(state)


@pytest.mark.parametrize("epoch", [-1, 1.5, True, "a", float("nan"), 2**64])
def test_an_epoch_is_a_whole_number(epoch):
    with pytest.raises(InvalidInputError, match="epoch must be an integer"):
        checked_epoch(epoch)


def test_an_epoch_may_be_numpys_and_is_a_plain_number_then():
    assert type(checked_epoch(np.int64(3))) is int
