"""Plans of queries seen before: kept where they say the same, made again where they may not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
import tensorlake_query
from tensorlake.dataset.query import compiled
from tensorlake.errors import QueryWarning


@pytest.fixture
def ds(request: pytest.FixtureRequest) -> tl.Dataset:
    made = tl.create(
        f"memory://kept-{request.node.name}",
        {"x": "float64", "kind": tl.ClassLabel(["cat", "dog"]), "t": tl.Text()},
    )
    made.extend({"x": [0.0, 1.0, 2.0], "kind": [0, 1, 0], "t": ["a", "b", "c"]})
    made.commit("rows")
    return made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every text that is planned, in order."""
    planned: list[object] = []
    plan = tensorlake_query.compile_query

    def counted(query, *args, **given):
        planned.append(query)
        return plan(query, *args, **given)

    monkeypatch.setattr(compiled.tql, "compile_query", counted)
    return planned


def test_equal_queries_are_planned_once_also_of_views_and_later_versions(
    ds: tl.Dataset, made: list[object]
) -> None:
    for _ in range(3):
        assert ds.query("WHERE kind = 'cat'")["x"][:].tolist() == [0, 2]
        assert ds.where("x > 0.5")["t"][:] == ["b", "c"]
    assert len(made) == 2
    assert ds[1:].query("WHERE kind = 'cat'")["x"][:].tolist() == [2]  # other rows, one plan
    ds.extend({"x": [3.0], "kind": [0], "t": ["d"]})
    assert ds.query("WHERE kind = 'cat'")["x"][:].tolist() == [0, 2, 3]
    ds.commit("more")
    assert ds.query("WHERE kind = 'cat'")["x"][:].tolist() == [0, 2, 3]
    assert len(made) == 2
    reordered = ds[["t", "kind", "x"]]
    assert list(reordered.query("SELECT *").schema) == ["t", "kind", "x"]
    assert list(ds.query("SELECT *").schema) == ["x", "kind", "t"]
    with pytest.raises(tl.QueryNameError):
        ds[["t", "kind"]].query("WHERE x > 0.5")


def test_another_schema_and_other_values_are_planned_again(
    ds: tl.Dataset, made: list[object]
) -> None:
    assert len(ds.query("WHERE kind = 'dog'")) == 1
    ds["kind"].rename("dog", "wolf")
    with pytest.raises(tl.QueryNameError):
        ds.query("WHERE kind = 'dog'")
    assert len(ds.query("WHERE kind = 'wolf'")) == 1
    values = [1, 1.0, True, 0.0, -0.0, float("nan"), None, "1"]
    shown = [
        ds.query("SELECT $v AS v LIMIT 1", v=value).to_arrow()["v"][0].as_py() for value in values
    ]
    again = [
        ds.query("SELECT $v AS v LIMIT 1", v=value).to_arrow()["v"][0].as_py() for value in values
    ]
    assert list(map(repr, shown)) == list(map(repr, again))
    assert [*map(repr, shown)][:5] == ["1", "1.0", "True", "0.0", "-0.0"]
    assert len(ds.query("WHERE x IN $many", many=np.array([0.0, 2.0]))) == 2
    assert len(ds.query("WHERE x IN $many", many=np.array([1.0]))) == 1


def test_what_may_differ_is_planned_each_time(ds: tl.Dataset) -> None:
    names = {ds.query("SELECT RANDOM() AS r").tql for _ in range(4)}
    assert len(names) == 4
    other = tl.create(f"{ds.url}-other", {"y": "int64"})
    for number in (1, 2):
        other.extend({"y": [number]})
        other.commit(f"{number}")
        assert ds.query(f'SELECT COUNT(*) AS n FROM "{other.url}"').item() == number
        assert ds.query("SELECT COUNT(*) AS n FROM $d", d=other).item() == number
    for factor in (2, 3):
        tl.udf("kept_plans_times", lambda x, factor=factor: x * factor, dtype="float64")
        assert ds.query("SELECT kept_plans_times(x) AS y").to_arrow()["y"].to_pylist() == [
            0,
            factor,
            2 * factor,
        ]


def test_warnings_come_each_time_and_few_plans_are_kept(
    ds: tl.Dataset, made: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with pytest.warns(QueryWarning, match="LIKE"):
            ds.query("WHERE t LIKE '*.jpg'")
    monkeypatch.setattr(compiled, "KEPT_PLANS", 3)
    made.clear()
    for number, _ in itertools.product(range(5), range(2)):
        ds.query(f"WHERE x = {number}")
    assert len(made) == 5
    # a warning is an error in this suite
    ds.query("WHERE x = 4")
    assert len(made) == 5
    ds.query("WHERE x = 0")  # the oldest was forgotten
    assert len(made) == 6
