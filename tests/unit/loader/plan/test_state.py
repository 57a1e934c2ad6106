"""Loader states: small, parsed at the border, refused where another order is meant."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError, StateMismatchError, UnsupportedFeatureError
from tensorlake.loader.plan.order import Order, choose_order
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
    with pytest.raises(UnsupportedFeatureError, match=r"plan version 3; .* versions 1, 2"):
        LoaderState.from_json(STATE.to_json() | {"plan": 3})


def test_a_state_of_version_1_stays_one():
    state = LoaderState.from_json(STATE.to_json() | {"plan": 1})

    assert state.order == Order("window", 19, 63, version=1)
    assert state.to_json()["plan"] == 1


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


@pytest.mark.parametrize(
    ("row_nbytes", "chunk_nbytes", "block", "window"),
    [
        (110_000, 0, 2, 1220),  # 256 MiB, of which half is held
        (107_000, 0, 3, 557),
        (8192, 0, 40, 409),  # all but a few of its blocks are held: 128 MiB
        (200_000, 0, 1, 1342),
        (1024, 1 << 20, 2048, 42),  # blocks of 2 MiB pin chunks of 3 MiB
        (3200, 8 << 20, 5242, 5),
    ],
)
def test_a_window_holds_half_of_prefetch(row_nbytes, chunk_nbytes, block, window):
    order = choose_order("window", num_rows=10**9, row_nbytes=row_nbytes, chunk_nbytes=chunk_nbytes)

    assert order == Order("window", block, window)


def test_a_smaller_prefetch_makes_windows_of_fewer_blocks():
    order = choose_order("window", num_rows=10**9, row_nbytes=8192, prefetch_nbytes=64 << 20)

    assert order == Order("window", 40, 102)


def test_blocks_of_one_row_are_a_full_shuffle():
    large, larger = (
        choose_order(True, num_rows=10**7, row_nbytes=nbytes)  # noqa: FBT003 - the argument under test
        for nbytes in (160 << 10, (160 << 10) + 1)
    )

    assert (large.kind, larger.kind) == ("window", "full")


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
