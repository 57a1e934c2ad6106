"""Random numbers of a sample: NumPy's Philox, addressed by (seed, epoch, place, stream).

    key      [seed, epoch]                  two 64-bit words
    counter  [0, 0, place, stream]          four; the generator itself increments the first two

A place names a sample of the epoch's order, not a row, so a repeated row gets new numbers, and
a resumed epoch gets the same numbers as an uninterrupted one. Stream 0 is the user's transform,
``TORCH_STREAM`` is for torch's functions in it, ``GLOBAL_STREAM`` seeds the generators of a worker
process; step i of the decode spec of a tensor has stream
``step_stream(tensor, i)``.
No global generator is read or advanced.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "GLOBAL_STREAM",
    "TORCH_STREAM",
    "TRANSFORM_STREAM",
    "sample_generator",
    "step_stream",
    "takes_rng",
]

TRANSFORM_STREAM = 0


def sample_generator(*, seed: int, epoch: int, place: int, stream: int) -> np.random.Generator:
    """Return the generator of one sample and stream; equal arguments give equal draws."""
    return np.random.Generator(
        np.random.Philox(key=seed | epoch << 64, counter=place << 128 | stream << 192)
    )


def takes_rng(transform: Callable[..., Any] | None) -> bool:
    """Return whether a user function has a parameter ``rng``.

    >>> takes_rng(lambda row, rng: row), takes_rng(dict)  # which shows no parameters
    (True, False)
    """
    if transform is None:
        return False
    try:
        return "rng" in inspect.signature(transform).parameters
    except ValueError:
        return False


def step_stream(tensor: str, step: int) -> int:
    """Return the stream of a decode step: blake2b-64 of the tensor's name and the step's number.

    The name is used, not the column's index, so adding a column does not change the others'
    numbers.
    """
    name = tensor.encode() + b"\0" + str(step).encode()
    digest = hashlib.blake2b(name, digest_size=8, person=b"tl-step-1").digest()
    return max(1, int.from_bytes(digest, "little"))


TORCH_STREAM = step_stream("", 0)  # no tensor has this name
GLOBAL_STREAM = step_stream("", 1)
