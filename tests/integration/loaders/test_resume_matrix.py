"""The matrix of exact resume: our row, and that the comparison sees lost and repeated rows."""

from __future__ import annotations

import pytest

from benchmarks.resume_matrix import CASES, Case, tensorlake, verdict


@pytest.mark.parametrize("name", CASES)
def test_ours_is_exact(name):
    assert verdict(tensorlake, CASES[name]) == "exact"


def test_lost_repeated_and_reordered_rows_are_seen():
    def stream(changed):
        def made(_case, _rank, _world, state, most):
            rows = [[0, 1], [2, 3], [4, 5]]
            return (rows[:1] if most else rows if state is None else changed), 1

        return made

    assert verdict(stream([[2, 3], [4, 5]]), Case()) == "exact"
    assert verdict(stream([[2, 3], [3, 5]]), Case()) == "− 1, + 1"
    assert verdict(stream([[4, 5], [2, 3]]), Case()) == "other order"
    assert verdict(stream([[2, 3], [5]]), Case()) == "− 1, + 0"


def test_an_error_of_a_library_is_shown():
    def fails(*_given):
        raise ValueError("no such state")

    assert verdict(fails, Case()) == "refused: ValueError: no such state"
