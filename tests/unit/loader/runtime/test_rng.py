"""A sample's random numbers depend on seed, epoch, place and stream, and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.loader.runtime.rng import sample_generator, step_stream

ADDRESS = {"seed": 7, "epoch": 3, "place": 41, "stream": 5}


def test_equal_addresses_draw_equal_numbers():
    first = sample_generator(**ADDRESS).random(8)

    assert np.array_equal(first, sample_generator(**ADDRESS).random(8))


@pytest.mark.parametrize("name", ["seed", "epoch", "place", "stream"])
def test_each_part_of_the_address_changes_the_draws(name):
    other = ADDRESS | {name: ADDRESS[name] + 1}

    assert not np.array_equal(
        sample_generator(**ADDRESS).random(8), sample_generator(**other).random(8)
    )


def test_generator_is_numpys_philox_with_the_documented_key_and_counter():
    words = np.random.Philox(
        key=np.array([7, 3], dtype=np.uint64), counter=np.array([0, 0, 41, 5], dtype=np.uint64)
    )

    assert np.array_equal(
        sample_generator(**ADDRESS).random(8), np.random.Generator(words).random(8)
    )


def test_drawing_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global generator is the subject

    sample_generator(**ADDRESS).random(100)

    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002 - as above


def test_streams_differ_by_tensor_and_step_and_never_are_the_transforms():
    streams = {step_stream(name, step) for name in ("a", "b", "a1") for step in range(20)}

    assert len(streams) == 60
    assert 0 not in streams
