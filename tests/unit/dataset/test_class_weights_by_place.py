"""``weights=function``: classes of a view by weights that depend on the place."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError, TensorNotFoundError

NAMES = itertools.count()
SPAN = 1 << 16
CLASSES = ["cat", "dog", "cow"]


def dataset_of(rows, **tensors):
    """Half of the rows are cats, two fifths dogs, a tenth cows."""
    schema = {"label": tl.ClassLabel(CLASSES), "kind": "str", "x": "int64"} | tensors
    made = tl.create(f"memory://class-weights-by-place-{next(NAMES)}", schema)
    codes = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2])[np.arange(rows) % 10]
    made.extend({"label": codes, "kind": [CLASSES[c] for c in codes], "x": np.arange(rows)})
    made.commit("rows")
    return made


def by_place(place):
    return {"label": {"cat": 0, "cow": 4.0}} if place < SPAN else {"label": "balanced"}


def loader_of(rows, weights=by_place, **arguments):
    given = {"batch_size": 500, "columns": ["label", "_row"], "shuffle": True, "seed": 3}
    return rows.loader(weights=weights, **{**given, **arguments})


def rows_of(batches):
    return [*itertools.chain.from_iterable(batch["_row"].tolist() for batch in batches)]


def test_classes_have_the_weights_of_their_place_epoch_after_epoch():
    ds = dataset_of(10_000)
    loader = loader_of(ds)

    epochs = [Counter(itertools.chain(*(b["label"].tolist() for b in loader))) for _ in range(14)]

    # factors are times the rows of a class: 4,000 dogs, and cows as 4 × 1,000
    assert all(abs(one[1] - 5_000) <= 8 and one[0] == 0 for one in epochs[:6])
    assert all(abs(count - 3_333) <= 8 for one in epochs[7:] for count in one.values())
    assert all(one.total() == 10_000 == len(loader) * 500 for one in epochs)


def test_a_class_gives_all_its_rows_before_any_again_and_the_order_is_shuffled():
    ds = dataset_of(1_000)

    rows = rows_of(loader_of(ds, lambda place: {"label": {"cow": 4.0, "cat": 0}}))

    cows = [row for row in rows if row % 10 == 9]
    assert len(cows) == 500
    assert all(sorted(cows[at : at + 100]) == sorted(set(cows)) for at in range(0, 500, 100))
    assert cows[:100] != sorted(cows[:100])


@pytest.mark.parametrize("world", [1, 3])
def test_a_state_goes_on_on_other_ranks_after_the_branch_has_moved_on(world):
    ds = dataset_of(6_000)
    whole = rows_of(loader_of(ds))
    loader = loader_of(ds)
    passed = iter(loader)
    before = rows_of(itertools.islice(passed, 5))
    state = json.loads(json.dumps(loader.state_dict()))
    passed.close()
    ds.extend({"label": [2] * 50, "kind": ["cow"] * 50, "x": range(50)})
    ds.commit("more")

    ranks = [
        loader_of(ds, batch_size=None, global_batch_size=600, rank=rank, world_size=world)
        for rank in range(world)
    ]
    for one in ranks:
        with pytest.warns(tl.NewerVersionWarning):
            one.load_state_dict(state)
    batches = zip(*([batch["_row"].tolist() for batch in one] for one in ranks), strict=True)

    assert [*before, *itertools.chain(*(itertools.chain(*parts) for parts in batches))] == whole
    assert len(json.dumps(state)) < 1024


def test_another_function_is_told_from_that_of_the_state():
    ds = dataset_of(600)
    state = loader_of(ds, lambda place: {"label": "balanced"}).state_dict()

    with pytest.raises(StateMismatchError, match="weights"):
        loader_of(ds).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="recorded 'cat main@1, dog main@1"):
        ds.loader(batch_size=5, shuffle=True, seed=3).load_state_dict(state)


def test_limit_and_repeat_count_places():
    ds = dataset_of(100)

    assert len(rows_of(loader_of(ds, repeat=3))) == 300
    assert len(rows_of(loader_of(ds, repeat=3, limit=130))) == 130
    assert len(rows_of(loader_of(ds.where("x >= 40"), limit=900))) == 60
    assert rows_of(loader_of(ds.where("x < 0"))) == []


def test_classes_are_those_of_any_column_also_of_a_query():
    ds = dataset_of(1_000)
    view = ds.query("SELECT *, x % 4 AS quarter")

    texts = rows_of(loader_of(ds, lambda place: {"kind": {"cat": 0, "dog": 0}}, columns=["_row"]))
    quarters = rows_of(loader_of(view, lambda place: {"quarter": {2: 0}}, columns=["_row"]))

    assert {row % 10 for row in texts} == {9}
    assert {row % 4 for row in quarters} == {0, 1, 3}
    with pytest.raises(InvalidInputError, match=r"'quarter'.* is computed by its query"):
        loader_of(view, lambda place: {"quarter": {2: 0}}, columns=None)


def test_explain_prices_the_pass_over_the_column():
    told = loader_of(dataset_of(10_000)).explain()

    assert "classes of 'label' by a function (a first pass reads up to" in told
    assert "takes 80 kB of memory" in told


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (2.0, "returned 2.0 at place 0"),
        ("x", "returned 'x' at place 0"),
        ([1.0] * 100, "at place 0"),
        ({"label": {"cat": -1}}, "leave a class out with weight 0"),
        ({"label": {"cat": 0, "dog": 0, "cow": 0}}, "all weights"),
        ({"kind": {"pig": 2.0}}, "which no row of the view has"),
    ],
)
def test_what_are_no_weights_of_classes_is_refused(returned, told):
    ds = dataset_of(100)

    with pytest.raises(InvalidInputError) as caught:
        next(iter(loader_of(ds, lambda place: returned)))

    assert told in str(caught.value)
    assert "\n" in str(caught.value)


def test_other_mistakes_are_named():
    ds = dataset_of(100)

    with pytest.raises(tl.UnknownClassError, match="did you mean 'cat'"):
        next(iter(loader_of(ds, lambda place: {"label": {"cad": 2.0}})))
    with pytest.raises(TensorNotFoundError, match="lable"):
        loader_of(ds, lambda place: {"lable": "balanced"})
    with pytest.raises(InvalidInputError, match="ZeroDivisionError at place 0"):
        loader_of(ds, lambda place: {"label": {"cat": 1 / place}})
    with pytest.raises(InvalidInputError, match="different orders"):
        loader_of(ds, stratify="label")
    with pytest.raises(InvalidInputError, match="repeat"):
        loader_of(ds, repeat="twice")
    large = dataset_of(SPAN + 100)
    with pytest.raises(InvalidInputError, match="'label' at place 0, and 'kind' at 65,536"):
        rows_of(
            loader_of(large, lambda place: {"kind" if place else "label": "balanced"}, repeat=2)
        )


def test_a_run_records_the_rows_of_such_an_order():
    ds = dataset_of(200)

    with ds.run("weighted") as run:
        given = {"batch_size": 50, "columns": ["_row"], "shuffle": True}
        batches = [*run.loader(**given, weights=by_place)]

    again = ds.runs["weighted"].of(ds).batch(1, weights=by_place)
    assert np.asarray(again["_row"]).tolist() == batches[1]["_row"].tolist()
