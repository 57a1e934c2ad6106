"""Arguments: ours are checked, neighbours' are translated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.arguments import parse_arguments


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("num_workers", "workers="),
        ("collate_fn", "collate="),
        ("sampler", "shuffle="),
        ("pin_memory", "device="),
        ("prefetch_factor", "prefetch="),
    ],
)
def test_words_of_other_loaders_name_ours(name: Any, ours: Any) -> None:
    with pytest.raises(InvalidInputError, match=ours) as caught:
        parse_arguments("torch", {"batch_size": 4, name: 2})

    assert name in str(caught.value)


def test_their_defaults_are_accepted() -> None:
    defaults = {"mesh": None, "engine": "threads", "cache_decoded": False}

    assert parse_arguments("torch", {"batch_size": 4, **defaults}).batch_size == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_sise": 4},
        {"batch_size": 0},
        {"batch_size": "8"},
        {"batch_size": True},
        {"workers": 0},
        {"rank": -1},
        {"seed": 1.5},
        {"shuffle": "sorted"},
        {"layout": "CHW"},
        {"engine": "fibres"},
        {"on_error": "ignore"},
        {"timeout": 0},
        {"transform": 3},
        {"columns": "image"},
        {"prefetch": "lots"},
        {"sharding": object()},
        {"device": "cpu"},
        {"cache_dir": 3},
        {"cache_dir": ""},
        {"cache_dir": "s3://bucket/cache"},
        {"cache": {"disk": "1GB"}},
        {"cache": {"memory": "1GB", "tape": 1}},
        {"cache": {"disk": "lots"}, "cache_dir": "/nvme"},
    ],
)
def test_impossible_values_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidInputError):
        parse_arguments("numpy", {"batch_size": 4} | arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", 3),
        ("columns", [1]),
        ("decode", [1]),
        ("decode", "resize"),
        ("collate", "pad"),
        ("drop_last", "no"),
        ("drop_last", None),
        ("deterministic", "no"),
        ("timeout", "3"),
        ("timeout", None),
        ("timeout", True),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("workers", 10**6),
        ("seed", 2**64),
        ("shuffle", 1),
        ("shuffle", np.array([True, False])),
        ("layout", np.array(["NHWC", "NCHW"])),
    ],
)
def test_a_value_of_another_kind_is_refused_by_the_name_it_was_given(name: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name}[ =]") as caught:
        parse_arguments("numpy", {"batch_size": 4, name: value})

    assert caught.value.argument == name
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("name", ["drop_last", "deterministic", "shuffle"])
def test_a_truth_value_may_be_numpys_and_is_pythons_then(name: Any) -> None:
    assert getattr(parse_arguments("numpy", {"batch_size": 4, name: np.True_}), name) is True


@pytest.mark.parametrize(
    "name", ["batch_size", "global_batch_size", "workers", "rank", "world_size", "seed"]
)
def test_a_count_may_be_numpy_s_and_is_a_plain_number_then(name: Any) -> None:
    """A state is JSON, which has no word for NumPy's."""
    found = parse_arguments("numpy", {"batch_size": 4} | {name: np.int64(3)})

    assert type(getattr(found, name)) is int
    assert getattr(found, name) == 3


def test_threads_follow_the_cores_unless_said_otherwise() -> None:
    assert parse_arguments("numpy", {"batch_size": 4}).worker_count >= 1
    assert parse_arguments("numpy", {"batch_size": 4, "workers": 7}).worker_count == 7
