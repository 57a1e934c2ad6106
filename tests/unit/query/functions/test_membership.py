"""`IN $ids`: a list is one argument, however long, and means what the same values written mean."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, compile_query
from tests.unit.query.array_source import ArraySource
from tests.unit.query.pets import pets

DTYPES = ["int8", "uint8", "int64", "uint64", "float32", "float64"]


def rows(condition, source=None, **params):
    source = source or pets()
    return compile_query(f"WHERE {condition}", source.schema, params=params).run(source).rows


def one_column(values, dtype):
    return ArraySource({"x": (ColumnType("number", dtype, ()), values)}, zone_rows=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "wanted",
    [
        [3],
        [-128, 127, 0],
        [0, 255, 256, -1],
        [2**62, -(2**62), 5],
        [2**63 - 1, 2**63, 2**64 - 1],
        [0.5, 3.0, float("nan"), float("inf")],
        list(range(-300, 300, 3)),
    ],
)
def test_numbers_are_found_as_by_equality(dtype, wanted):
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    values = [each for each in (-128, -1, 0, 3, 5, 127, 255, 2**62) if each >= limits.min]
    values = np.array([each for each in values if each <= limits.max], dtype)
    source = one_column(values, dtype)

    expected = [row for row, value in enumerate(values.tolist()) if value in wanted]

    assert rows("x IN $ids", source, ids=wanted).tolist() == expected
    assert rows("x IN $ids", source, ids=np.array(wanted)).tolist() == expected
    others = sorted({*range(len(values))} - {*expected})
    assert rows("x NOT IN $ids", source, ids=wanted).tolist() == others


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("label", ["cat", "bird"]),
        ("label", [0, 2]),
        ("caption", ["a cat", "it's", "none"]),
        ("count", [7, 12]),
        ("score", [0.05, 0.25]),
        ("meta['iso']", [100, 200.5]),
        ("meta['iso']", ["high"]),
        ("meta", [{"iso": None}]),
        ("ok", [True]),
        ("count", [7, None]),
        ("count", [7, 2**70 // 2**10]),
    ],
)
@pytest.mark.parametrize("form", [list, tuple])
def test_a_list_means_what_its_values_mean(column, wanted, form):
    each = {f"p{number}": value for number, value in enumerate(wanted)}
    written = f"{column} {{}} ({', '.join(f'${name}' for name in each)})"

    for word in ("IN", "NOT IN"):
        found = rows(f"{column} {word} $ids", ids=form(wanted))

        assert found.tolist() == rows(written.format(word), **each).tolist()


def test_a_list_of_another_kind_is_an_error():
    for column, wanted in (("score", ["a"]), ("caption", [1]), ("label", ["zebra"])):
        with pytest.raises(QueryError, match=r"cannot compare|no class"):
            rows(f"{column} IN $ids", ids=wanted)


def test_zones_without_a_value_are_not_read():
    source = one_column(np.arange(30), "int64")

    found = compile_query("WHERE x IN $ids", source.schema, params={"ids": [4, 28]}).run(source)

    assert found.rows.tolist() == [4, 28]
    assert found.rows_read == {"x": 6}


def test_the_text_of_a_query_names_its_list_once():
    text = compile_query(
        "WHERE count IN $ids", pets().schema, params={"ids": list(range(1000))}
    ).text

    assert text == "WHERE count IN ($ids)"
