"""Which functions are the one that a computed column declares."""

import functools
from collections.abc import Callable
from typing import Any

from tensorlake.dataset.columns.functions import code_of

Row = dict[str, Any]


def code(function: Callable[..., Any]) -> str:
    return code_of(function, "1", ["x"])


def scaled(factor: Any) -> Callable[[Row], Any]:
    return lambda row: row["x"] * factor


def scale(factor: Any, row: Row) -> Any:
    return row["x"] * factor


def test_values_that_a_function_is_bound_to_are_part_of_it() -> None:
    assert code(scaled(2)) == code(scaled(2)) != code(scaled(3))
    assert code(functools.partial(scale, 5)) == code(functools.partial(scale, 5))
    assert code(functools.partial(scale, 5)) != code(functools.partial(scale, 6))
    assert code(functools.partial(scale, factor=5)) != code(functools.partial(scale, 5))
    assert code(scaled(2)) != code(scaled(2.0))
    assert code(scaled((1, "a"))) != code(scaled((1, "b")))


def test_defaults_are_part_of_a_function() -> None:
    made: list[str] = []
    for value in (1, 2):

        def more(row: Row, by: int = value) -> Any:
            return row["x"] + by

        made.append(code(more))

    assert made[0] != made[1]


def test_lambdas_of_one_line_differ_and_are_known_again() -> None:
    first, second = (lambda _: 1), (lambda _: 2)  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType] - lambdas are what is tested

    assert code(first) != code(second)  # pyright: ignore[reportUnknownArgumentType] - likewise
    assert code(first) == code(lambda _: 1)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType] - likewise


def test_what_changes_with_each_call_is_not_part_of_a_function() -> None:
    calls: list[Any] = []
    kept: dict[int, Any] = {}
    count = 0

    def counted(row: Row, cache: dict[int, Any] = kept) -> int:
        nonlocal count
        count += 1
        calls.append(row["x"])
        cache[count] = row["x"]
        return count

    before = code(counted)
    counted({"x": 1})

    assert code(counted) == before


def test_objects_and_methods_have_the_source_of_their_call() -> None:
    class Plus:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, row: Row) -> Any:
            return row["x"] + self.by

    class Minus(Plus):
        def __call__(self, row: Row) -> Any:
            return row["x"] - self.by

    assert code(Plus(1)) == code(Plus(2)) != code(Minus(1))
    assert code(Plus(1).__call__) == code(Plus(1))
    assert code(len) == code(abs)
