"""A user's transform, called row by row in threads, with random numbers of the row's own.

    rng                    a NumPy generator, if the function has such a parameter
    torch.rand(…) …        torch's functions, and methods that fill: a torch generator of the row
    random, numpy.random   all threads draw from them in no order: refused, or allowed

torchvision's transforms draw by torch's functions without a generator, that is, from torch's global
one. A torch function mode, which applies to one thread, passes them the row's generator: the global
one is neither read nor advanced, so training code in the process draws the same numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorlake.loader.decode.rng import TORCH_STREAM, TRANSFORM_STREAM, sample_generator
from tensorlake.loader.stages.stack import checked_row

if TYPE_CHECKING:
    import numpy as np

    from tensorlake.loader.stages.rng_guard import DrawWatch
    from tensorlake.loader.stages.stack import Outputs

__all__ = ["RowTransform", "Transform"]

# A user function: a row (name -> value) in, a row out; with a parameter `rng` for random numbers.
Transform: TypeAlias = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RowTransform:
    """The transformation of an epoch's rows.

    Attributes:
        function: The user's function.
        seed: Seed of the loader.
        epoch: Epoch of the rows.
        outputs: How its results become a batch.
        takes_rng: Whether it has a parameter ``rng``.
        watch: Detects draws from process-wide generators; None: any draws are allowed, and torch's
            functions draw from torch's own generator.
    """

    function: Transform
    seed: int
    epoch: int
    outputs: Outputs
    takes_rng: bool
    watch: DrawWatch | None

    def call(self, values: Mapping[str, Any], *, row: int, place: int) -> Mapping[str, Any]:
        """Transform a row at its place in the epoch.

        Raises:
            InvalidInputError: It did not return a row, or drew from a generator that all threads
                share.
        """
        own: dict[str, Any] = {}
        if self.takes_rng:
            own["rng"] = self._generator(place, TRANSFORM_STREAM)
        call = partial(self.function, values, **own)
        try:
            with self._torch_draws(place):
                made = call() if self.watch is None else self.watch.call(call)
        except Exception as error:
            error.add_note(f"in transform= of row {row}")
            raise
        return checked_row(made, row)

    def _generator(self, place: int, stream: int) -> np.random.Generator:
        return sample_generator(seed=self.seed, epoch=self.epoch, place=place, stream=stream)

    def _torch_draws(self, place: int) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or self.watch is None:
            return nullcontext()
        return _mode_of(torch)(partial(self._generator, place, TORCH_STREAM))


@cache
def _mode_of(torch: Any) -> Any:
    """Make the mode class that passes torch's functions a generator; does not import torch."""
    from tensorlake.loader.stages.torch_rng import RowDraws

    del torch
    return RowDraws
