"""A loader of a query's view returns to the version that its state recorded."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import NewerVersionWarning, StateMismatchError

NAMES = itertools.count()


@pytest.fixture
def dataset():
    with tl.create(f"memory://versions-{next(NAMES)}", {"x": "int64"}) as made:
        made.extend({"x": range(60)})
        made.commit("sixty")
        yield made


VIEWS = {
    "where": lambda ds: ds.where("x >= 10"),
    "order": lambda ds: ds.query("ORDER BY x DESC"),
    "take": lambda ds: ds.where("x % 2 = 0").take(20),
    "columns": lambda ds: ds.query("SELECT x, x * 2 AS twice WHERE x >= 10"),
}


def values(batches):
    return [batch[name].tolist() for batch in batches for name in sorted(batch)]


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("arguments", [{}, {"weights": {"x": "balanced"}}, {"limit": 17}])
def test_a_query_is_asked_of_the_recorded_version_again(dataset, name, arguments):
    make = {"batch_size": 4, "shuffle": True, "seed": 2, **arguments}
    loader = VIEWS[name](dataset).loader(**make)
    passed = iter(loader)
    next(passed)
    state = loader.state_dict()
    rest = values(passed)
    dataset.delete([12, 30])
    dataset["x"][20] = 1000
    dataset.commit("others")

    again = VIEWS[name](dataset).loader(**make)
    with pytest.warns(NewerVersionWarning, match="main@1"):
        again.load_state_dict(state)

    assert values(again) == rest


def test_a_query_in_a_mix_is_asked_of_the_recorded_version_again(dataset):
    def mixed():
        return tl.mix({"a": (VIEWS["where"](dataset), 1), "b": (VIEWS["order"](dataset), 1)})

    loader = mixed().loader(batch_size=4, shuffle=True)
    passed = iter(loader)
    next(passed)
    state = loader.state_dict()
    rest = values(passed)
    dataset.delete([12])
    dataset.commit("fewer")

    again = mixed().loader(batch_size=4, shuffle=True)
    with pytest.warns(NewerVersionWarning):
        again.load_state_dict(state)

    assert values(again) == rest


def test_rows_chosen_by_hand_need_the_recorded_version_and_the_error_tells_how(dataset):
    loader = dataset[5:40].loader(batch_size=4)
    state = loader.state_dict()
    dataset.delete([12])
    dataset.commit("fewer")

    with pytest.raises(StateMismatchError) as caught:
        dataset[5:40].loader(batch_size=4).load_state_dict(state)
    assert "tl.open(url, version='main@1')" in str(caught.value)

    again = tl.open(dataset.url, version="main@1")[5:40].loader(batch_size=4)
    again.load_state_dict(state)
    assert np.concatenate([batch["x"] for batch in again]).tolist() == list(range(5, 40))


def test_another_query_is_another_selection(dataset):
    state = dataset.where("x >= 10").loader(batch_size=4).state_dict()
    dataset.delete([12])
    dataset.commit("fewer")

    with pytest.raises(StateMismatchError, match="another selection of main@1"):
        dataset.where("x >= 11").loader(batch_size=4).load_state_dict(state)
