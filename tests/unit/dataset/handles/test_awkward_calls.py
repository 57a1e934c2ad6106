"""Calls that look right, and once raised bare errors of Python: answered, or refused in words."""

import numpy as np
import pytest

import tensorlake as tl


@pytest.fixture
def ds(request):
    schema = {"x": "int64", "y": "float32", "outline": tl.Polygon()}
    with tl.create(f"memory://awkward-{request.node.name}", schema) as made:
        square, corner = [[0, 0], [1, 1], [1, 0]], [[0, 0], [2, 2], [2, 0]]
        outlines = [[square], [corner], [square], []]
        made.extend({"x": [3, 1, 2, 0], "y": [1, 2, 3, 4], "outline": outlines})
        made.commit("four")
        yield made


def test_select_and_order_by_take_names_one_by_one_or_as_a_list(ds):
    assert ds.select(["x", "y"]).tql == ds.select("x", "y").tql
    assert ds.select(["x"], twice="x * 2")["twice"].tolist() == [6, 2, 4, 0]
    assert ds.order_by(["x DESC"])["x"][:].tolist() == [3, 2, 1, 0]
    assert ds.order_by(("y", "x"))["x"][:].tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("wrong", [3, None, [3], ["x", None], {"x": 1}, np.array(["x"]), ("x", 3)])
@pytest.mark.parametrize("call", ["select", "order_by"])
def test_what_is_no_name_is_refused_with_an_example(ds, call, wrong):
    with pytest.raises(tl.InvalidInputError, match=rf"{call}\(\) takes strings.*\n{call}\('"):
        getattr(ds, call)(wrong)


@pytest.mark.parametrize("call", ["select", "order_by"])
def test_an_empty_list_names_nothing(ds, call):
    with pytest.raises(tl.InvalidInputError, match="names no"):
        getattr(ds, call)([])


def test_a_computed_column_is_a_text(ds):
    with pytest.raises(tl.InvalidInputError, match=r"select\(twice=…\) takes a TQL expression"):
        ds.select(twice=3)


@pytest.mark.parametrize("condition", [3, None, ["x > 1"], lambda row: row["x"], np.ones(4, bool)])
def test_where_takes_conditions_alone(ds, condition):
    with pytest.raises(tl.InvalidInputError, match=r"where\(\) takes TQL text or a Predicate"):
        ds.where(condition)


def test_a_mix_of_wrong_sources_shows_what_they_are_on_one_line(ds):
    for wrong in ([ds], {"a": [ds]}, {"a": (ds, 1, 2)}, {"a": ds}, {3: (ds, 1)}, {"a": (3, ds)}):
        with pytest.raises(tl.InvalidInputError) as raised:
            tl.mix(wrong)

        lines = str(raised.value).splitlines()
        assert len(lines) == 2
        assert len(lines[0]) < 200
        assert lines[1].startswith("write tl.mix({")


def test_polygons_are_told_apart_by_their_points(ds):
    assert len(ds.query("SELECT DISTINCT outline")) == 3
    assert ds.query("SELECT COUNT(DISTINCT outline)").item() == 3
    assert len(ds.query("SELECT outline UNION SELECT outline")) == 3


def test_nan_among_numbers_of_json_groups_as_one():
    with tl.create("memory://awkward-nan", {"j": tl.Sequence(tl.Scalar("float64"))}) as ds:
        ds.extend({"j": [[float("nan")], [float("nan")], [1.0]]})

        assert len(ds.query("SELECT DISTINCT j")) == 2
        ds.discard()


def test_a_chain_of_named_queries_that_no_stack_holds_is_a_limit(ds):
    steps = ["a0 AS (SELECT x FROM this)"]
    steps += [f"a{n} AS (SELECT x FROM a{n - 1})" for n in range(1, 700)]

    with pytest.raises(
        tl.QueryLimitError, match=r"too many queries.*\nsave or materialize"
    ) as raised:
        ds.query(f"WITH {', '.join(steps)} SELECT x FROM a699")

    assert raised.value.__cause__ is None
    assert ds.query(f"WITH {', '.join(steps[:100])} SELECT x FROM a99").count() == 4


def test_from_of_a_name_that_is_nothing_says_that_it_is_not_needed(ds):
    with pytest.raises(tl.QueryNameError, match=r"FROM is not needed.*FROM this"):
        ds.query("SELECT x FROM ds WHERE x > 1")

    assert ds.query("SELECT x FROM this WHERE x > 1").count() == 2
