"""Arguments of orders that do not fit the rows: refused when the loader is made."""

from __future__ import annotations

import datetime as dt
import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, TensorNotFoundError, UnknownClassError

NAMES = itertools.count()


@pytest.fixture(scope="module")
def dataset():
    schema = {
        "c": tl.ClassLabel(["a", "b", "c", "rare"]),
        "s": "str",
        "at": tl.Timestamp("s"),
        "w": "float32",
        "ok": "bool",
        "pair": tl.Array("int64", (2,)),
        "n": "int64",
    }
    with tl.create(f"memory://refused-{next(NAMES)}", schema) as made:
        made.extend(
            {
                "c": [0, 0, 0, 1, 1, 2],
                "s": list("xxyyzz"),
                "at": [dt.datetime(2026, 1, 1)] * 6,  # noqa: DTZ001 - the tensor has no zone
                "w": [1, 2, 3, 4, 5, 6],
                "ok": [True] * 6,
                "pair": np.zeros((6, 2), np.int64),
                "n": [0, 0, 0, 7, 7, 9],
            }
        )
        made.commit("six")
        yield made


def loader_of(rows, **arguments):
    return rows.loader(batch_size=6, columns=["_row"], shuffle=True, **arguments)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ("c", "{'c': 'balanced'}"),
        ("at", "{'at': 'balanced'}"),
        ("s", "{'s': 'balanced'}"),
        ("pair", "a weight is a number"),
        ("balanced", "{'label': 'balanced'}"),
        (3, "the name of a column of numbers"),
        (np.ones(3), "the view 6 rows"),
        ([1, 2, 3, float("nan"), 5, 6], "is nan at place 3"),
        (np.zeros(6), "give one of them a weight above 0"),
        (np.ones((6, 1)), "of one axis"),
        ([[1], [2, 3]], "give a list or NumPy array"),
        (["1"] * 6, "give a list or NumPy array"),
        ({"c": {0: 2.0, "a": 3}}, "one class twice"),
        ({"n": {"zero": 2.0}}, None),
        ({"c": {"cat": -1}}, "leave a class out with weight 0"),
        ({"c": "weighted"}, "write {'label'"),
    ],
)
def test_weights_that_do_not_fit_are_refused_when_the_loader_is_made(dataset, weights, told):
    if told is None:  # known from the values alone
        loader = loader_of(dataset, weights=weights)
        with pytest.raises(InvalidInputError, match="which no row of the view has") as caught:
            next(iter(loader))
        told = "leave it out"
    else:
        with pytest.raises(InvalidInputError) as caught:
            loader_of(dataset, weights=weights)
    assert told in str(caught.value)
    assert "\n" in str(caught.value)


def test_a_class_that_the_view_lacks_may_have_a_weight_but_not_one_that_is_not_declared(dataset):
    view = dataset.where("c < 2")

    rows = next(iter(loader_of(view, weights={"c": {"rare": 9.0, "c": 0, "b": 3.0}})))["_row"]

    assert set(rows) <= set(range(5))
    with pytest.raises(UnknownClassError, match="did you mean 'rare'"):
        loader_of(dataset, weights={"c": {"rar": 2.0}})


@pytest.mark.parametrize("name", ["weights", "stratify", "group"])
def test_a_column_that_there_is_not_is_refused_when_the_loader_is_made(dataset, name):
    with pytest.raises(TensorNotFoundError, match="lable"):
        loader_of(dataset, **{name: "lable"})


def test_computed_codes_of_classes_are_no_weights(dataset):
    view = dataset.query("SELECT *, c AS kind, w * 2 AS double")

    with pytest.raises(InvalidInputError, match="class codes"):
        loader_of(view, weights="kind")
    assert len(next(iter(loader_of(view, weights="double")))["_row"]) == 6


@pytest.mark.parametrize(
    "arguments",
    [
        {"weights": "w"},
        {"weights": []},
        {"weights": {"c": "balanced"}},
        {"weights": {"c": {"a": 2.0}}},
        {"stratify": "c"},
        {"group": "s"},
        {"repeat": 2**62, "weights": "w"},
        {"limit": 3},
    ],
)
def test_an_empty_view_has_no_batch_in_any_order(dataset, arguments):
    loader = loader_of(dataset.where("w > 100"), **arguments)

    assert len(loader) == 0
    assert list(loader) == []
    assert "plan" in loader.explain()


def test_an_array_of_weights_belongs_to_the_loader(dataset):
    weights = np.ones(6)
    loader = loader_of(dataset, weights=weights)
    weights[:] = 0
    weights[3] = 1

    assert sorted(next(iter(loader))["_row"]) == list(range(6))


def test_a_torch_tensor_of_weights_is_an_array(dataset):
    torch = pytest.importorskip("torch")
    given = [0.0, 0, 0, 0, 0, 1]

    rows = [
        next(iter(loader_of(dataset, weights=weights)))["_row"].tolist()
        for weights in (torch.tensor(given), given)
    ]

    assert rows == [[5] * 6] * 2
    with pytest.raises(InvalidInputError, match="give a list or NumPy array"):
        loader_of(dataset, weights=torch.ones(6, requires_grad=True))


def test_repeat_has_a_limit_and_names_it(dataset):
    most = 2**62 // 6

    assert len(loader_of(dataset, repeat=most)) == most
    with pytest.raises(InvalidInputError, match=f"repeat at most {most} times"):
        loader_of(dataset, repeat=2**62)


@pytest.mark.parametrize(
    "arguments",
    [
        {"weights": "w"},
        {"weights": {"c": "balanced"}},
        {"weights": {"c": {"b": 3.0}}},
        {"stratify": "c", "repeat": 3},
        {"group": "s", "limit": 5},
        {"repeat": 2, "limit": 9},
    ],
)
def test_a_state_alone_restores_the_order(dataset, arguments):
    loader = dataset.loader(batch_size=2, columns=["_row"], shuffle=True, seed=3, **arguments)
    passed = iter(loader)
    next(passed)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch["_row"].tolist() for batch in passed]

    again = tl.loader_from_state(state, batch_size=2, columns=["_row"])

    assert [batch["_row"].tolist() for batch in again] == rest
    assert len(json.dumps(state)) < 1024


def test_a_state_of_an_array_of_weights_tells_that_it_lacks_them(dataset):
    state = loader_of(dataset, weights=[1, 2, 3, 4, 5, 6]).state_dict()

    with pytest.raises(InvalidInputError, match="weights= is an array"):
        tl.loader_from_state(state, batch_size=2)


def test_rows_that_no_int64_holds_are_not_wrapped(dataset):
    with pytest.raises(InvalidInputError, match="below 2\\*\\*63"):
        loader_of(dataset).plan.position_of([2**63])


def test_nearly_unique_classes_take_no_quadratic_time():
    rows = 40_000  # took 4 s
    with tl.create(f"memory://refused-{next(NAMES)}", {"u": "int64"}) as made:
        made.extend({"u": np.arange(rows)})
        made.commit("unique")
        loader = made.loader(batch_size=500, columns=["_row"], shuffle=True, stratify="u")
        plan = loader.plan.plan

        seen = np.concatenate([batch["_row"] for batch in loader])
        plan.at(np.arange(100))

    assert len(np.unique(seen)) == rows
    assert len(plan._known) <= 2  # borders of stretches, counted once
