"""Queries built as trees: the same answers as text, no grammar needed, errors that still point."""

import subprocess
import sys

import numpy as np
import pytest

from tensorlake_query import QueryNameError, QueryTypeError, ast, compile_query, parse_predicate
from tests.unit.query.array_source import NUMBER, ArraySource
from tests.unit.query.pets import pets


def rows_of(tree):
    source = pets()
    return compile_query(tree, source.schema).run(source).rows.tolist()


def where(expr):
    return ast.Query(where=expr)


def test_a_tree_selects_what_its_text_selects():
    is_cat = ast.Compare("=", ast.Column("label"), ast.Literal("cat"))
    is_low = ast.Compare("<", ast.Column("score"), ast.Literal(0.5))

    assert rows_of(where(is_cat)) == [0, 3, 5]
    assert rows_of(where(ast.And((is_cat, is_low)))) == [0, 3]
    assert rows_of(where(ast.Or((is_cat, ast.IsNull(ast.Column("count")))))) == [0, 1, 3, 5, 6]
    assert rows_of(where(ast.Not(is_cat))) == [1, 2, 4, 6, 7]
    assert rows_of(where(ast.InList(ast.Column("tiny"), (ast.Literal(3), ast.Literal(7))))) == [
        2,
        4,
    ]
    assert rows_of(None) == list(range(8))


def test_a_tree_without_text_loads_no_grammar():
    code = (
        "import sys; from tensorlake_query import ast, compile_query, ColumnType\n"
        "tree = ast.Query(where=ast.Compare('>', ast.Column('x'), ast.Literal(1)))\n"
        "compiled = compile_query(tree, {'x': ColumnType('number', 'int64', ())})\n"
        "print(compiled.text, 'lark' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "query"},
    )

    assert done.stdout == "WHERE x > 1 False\n"


@pytest.mark.parametrize(
    ("expr", "kind", "place"),
    [
        (ast.Compare("=", ast.Column("label"), ast.Literal("dgo")), QueryNameError, "'dgo'"),
        (ast.Compare("=", ast.Column("lable"), ast.Literal(1)), QueryNameError, "lable"),
        (ast.Compare(">", ast.Column("boxes"), ast.Literal(1)), QueryTypeError, "boxes > 1"),
        (parse_predicate("score>1   and lable = 1"), QueryNameError, "lable"),
    ],
)
def test_an_error_in_a_tree_points_at_its_canonical_text(expr, kind, place):
    with pytest.raises(kind) as caught:
        compile_query(where(expr), pets().schema)

    error = caught.value
    assert error.text[error.span.start : error.span.stop] == place


@pytest.mark.slow  # test_parsing.py parses the longest list, and the next test runs one
def test_a_list_of_very_many_values_is_fine():
    source = ArraySource({"x": (NUMBER, [float(i) for i in range(100)])}, zone_rows=10)
    many = tuple(ast.Literal(value) for value in range(50, 60_000))

    result = compile_query(where(ast.InList(ast.Column("x"), many)), source.schema).run(source)

    assert result.rows.tolist() == list(range(50, 100))
    assert result.rows_read == {"x": 50}


def test_a_list_of_very_many_values_is_fine_as_a_parameter():
    source = ArraySource({"x": (NUMBER, [float(i) for i in range(100)])}, zone_rows=10)
    many = np.arange(50, 60_000)

    result = compile_query("WHERE x IN $many", source.schema, params={"many": many}).run(source)

    assert result.rows.tolist() == list(range(50, 100))
