"""Integers given as arguments: one check, one form of message."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.quantities import checked_integer


@pytest.mark.parametrize("value", [0, 3, np.int8(3), np.uint64(3), 1 << 70])
def test_an_integer_of_any_kind_becomes_pythons(value):
    checked = checked_integer(value, name="count")

    assert (checked, type(checked)) == (int(value), int)


@pytest.mark.parametrize("value", [-1, True, 3.0, "3", None, np.float64(3), [3]])
def test_what_is_not_an_integer_or_too_small_is_named_with_its_value(value):
    with pytest.raises(InvalidInputError, match=r"^count must be an integer >= 0, got ") as caught:
        checked_integer(value, name="count")

    assert (caught.value.argument, caught.value.actual) == ("count", value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"least": 1}, "n must be an integer >= 1, got 'x'"),
        ({"most": 65_536}, "n must be an integer from 0 to 65536, got 'x'"),
        ({"most": (1 << 64) - 1}, "n must be an integer from 0 to 2**64 - 1, got 'x'"),
        ({"least": None}, "n must be an integer, got 'x'"),
        ({"advice": "give one"}, "n must be an integer >= 0, got 'x'\ngive one"),
    ],
)
def test_the_message_about_an_integer_has_one_form(bounds, message):
    with pytest.raises(InvalidInputError) as caught:
        checked_integer("x", name="n", **bounds)

    assert str(caught.value) == message


@pytest.mark.parametrize("value", [0, 9, -3])
def test_both_bounds_of_an_integer_are_held(value):
    assert checked_integer(value, name="n", least=None) == value
    with pytest.raises(InvalidInputError, match="from 1 to 8"):
        checked_integer(value, name="n", least=1, most=8)
