"""A transform that draws from a generator of the whole process is found, and no other one."""

# ruff: noqa: NPY002 - the generator of the whole process is what is tested

from __future__ import annotations

import random
import sys
import threading
from random import choice

import numpy as np
import pytest
from numpy.random import permutation

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.stages.rng_guard import DrawWatch

torch = pytest.importorskip("torch")


def nested():
    return helper()


def helper():
    return np.random.uniform(0, 1)


def imported_inside():
    import numpy.random as drawing

    return drawing.rand()


DRAWS = {
    "random": [random.random, lambda: random.randint(0, 9), lambda: choice([1, 2])],
    "numpy.random": [helper, nested, imported_inside, lambda: permutation(4)],
    "torch": [
        lambda: torch.rand(2),
        lambda: torch.empty(2).uniform_(),
        lambda: torch.nn.functional.dropout(torch.ones(3)),
        lambda: torch.nn.Dropout()(torch.ones(3)),
    ],
}
HARMLESS = [
    lambda: np.random.default_rng(3).random(),
    lambda: random.Random(3).random(),
    lambda: torch.rand(2, generator=torch.Generator().manual_seed(1)),
    lambda: np.random.Generator(np.random.Philox(1)).integers(9),
    lambda: (random.getstate(), np.random.get_state(), torch.get_rng_state()),
    lambda: np.sort(np.ones(4)),
]


@pytest.mark.parametrize(
    ("generator", "draw"), [(name, one) for name, draws in DRAWS.items() for one in draws]
)
def test_a_draw_from_a_global_generator_is_named(generator, draw):
    with pytest.raises(InvalidInputError, match="deterministic=False") as caught:
        DrawWatch().call(draw)

    assert caught.value.actual == [generator]


@pytest.mark.parametrize("call", HARMLESS)
def test_generators_of_ones_own_are_let_be(call):
    DrawWatch().call(call)


def test_draws_of_other_threads_are_not_the_transforms():
    def transform():
        others = threading.Thread(
            target=lambda: (random.random(), np.random.rand(), torch.rand(2)), name="a trainer"
        )
        others.start()
        others.join()
        return np.add(1, 2)

    assert DrawWatch().call(transform) == 3


def test_one_call_is_watched_and_a_profiler_is_not_put_out():
    watch = DrawWatch()
    assert watch.call(lambda: 1) == 1
    watch.call(random.random)  # the second is not watched

    seen = []
    sys.setprofile(lambda *event: seen.append(event[1]))
    try:
        DrawWatch().call(random.random)
        profiler = sys.getprofile()
    finally:
        sys.setprofile(None)

    assert profiler is not None
    assert "c_call" in seen


def test_what_a_transform_raises_is_raised_and_the_watch_ends():
    with pytest.raises(ZeroDivisionError):
        DrawWatch().call(lambda: 1 // 0)

    assert sys.getprofile() is None


@pytest.fixture(scope="module")
def numbers():
    with tl.create("memory://loader-global-draws", {"x": tl.Array("float64", ())}) as ds:
        ds.extend({"x": np.zeros(20)})
        ds.commit("rows")
        yield ds


def test_a_loader_refuses_such_a_transform_and_names_what_to_do(numbers):
    loader = numbers.loader(batch_size=5, transform=lambda row: {"x": row["x"] + random.random()})

    with pytest.raises(InvalidInputError) as caught:
        list(loader)

    assert "transform= draws from random" in str(caught.value)
    assert "a parameter rng" in str(caught.value)


def test_it_is_allowed_by_deterministic_false_and_not_needed_with_rng(numbers):
    def of_rows_own(row, rng):
        return {"x": row["x"] + rng.random()}

    def of_all(row):
        return {"x": row["x"] + random.random()}

    allowed = list(numbers.loader(batch_size=5, transform=of_all, deterministic=False))
    first = list(numbers.loader(batch_size=5, transform=of_rows_own))
    second = list(numbers.loader(batch_size=5, transform=of_rows_own))

    assert len(allowed) == 4
    assert [batch["x"].tolist() for batch in first] == [batch["x"].tolist() for batch in second]
    assert len({one for batch in first for one in batch["x"].tolist()}) == 20
