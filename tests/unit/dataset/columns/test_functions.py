"""Which functions are the one that a computed column declares."""

import functools

from tensorlake.dataset.columns.functions import code_of


def code(function):
    return code_of(function, "1", ["x"])


def scaled(factor):
    return lambda row: row["x"] * factor


def scale(factor, row):
    return row["x"] * factor


def test_values_that_a_function_is_bound_to_are_part_of_it():
    assert code(scaled(2)) == code(scaled(2)) != code(scaled(3))
    assert code(functools.partial(scale, 5)) == code(functools.partial(scale, 5))
    assert code(functools.partial(scale, 5)) != code(functools.partial(scale, 6))
    assert code(functools.partial(scale, factor=5)) != code(functools.partial(scale, 5))
    assert code(scaled(2)) != code(scaled(2.0))
    assert code(scaled((1, "a"))) != code(scaled((1, "b")))


def test_defaults_are_part_of_a_function():
    made = []
    for value in (1, 2):

        def more(row, by=value):
            return row["x"] + by

        made.append(code(more))

    assert made[0] != made[1]


def test_lambdas_of_one_line_differ_and_are_known_again():
    first, second = (lambda row: 1), (lambda row: 2)

    assert code(first) != code(second)
    assert code(first) == code(lambda row: 1)


def test_what_changes_with_each_call_is_not_part_of_a_function():
    calls, count, kept = [], 0, {}

    def counted(row, cache=kept):
        nonlocal count
        count += 1
        calls.append(row["x"])
        cache[count] = row["x"]
        return count

    before = code(counted)
    counted({"x": 1})

    assert code(counted) == before


def test_objects_and_methods_have_the_source_of_their_call():
    class Plus:
        def __init__(self, by):
            self.by = by

        def __call__(self, row):
            return row["x"] + self.by

    class Minus(Plus):
        def __call__(self, row):
            return row["x"] - self.by

    assert code(Plus(1)) == code(Plus(2)) != code(Minus(1))
    assert code(Plus(1).__call__) == code(Plus(1))
    assert code(len) == code(abs)
