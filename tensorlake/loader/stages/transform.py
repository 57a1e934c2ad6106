"""A user's transform, called row by row in threads: with random numbers of the row's own.

    rng                    a NumPy generator, where the function has such a parameter
    torch.rand(…) …        torch's functions, and methods that fill: a torch generator of the row
    random, numpy.random   all threads draw from them in no order: refused, or allowed

torchvision's transforms draw by torch's functions without a generator, which means torch's one
global one. A torch function mode, which holds for the thread alone, gives them the row's: the
global one is neither read nor moved, so training beside it draws what it would have drawn.
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

# The user's: a row (name -> value) in, a row out; takes `rng` if it wants random numbers.
Transform: TypeAlias = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RowTransform:
    """How the rows of an epoch are transformed.

    Attributes:
        function: The user's.
        seed: Of the loader.
        epoch: Whose rows they are.
        outputs: How what it returns becomes a batch.
        takes_rng: Whether it wants a generator.
        watch: Finds draws from generators of the whole process; None: it may draw as it likes,
            and torch's functions draw from torch's own generator.
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
            InvalidInputError: It returned no row, or drew from a generator that all threads share.
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
    """Make the class of modes that give torch's functions a generator; torch is not imported."""
    from tensorlake.loader.stages.torch_rng import RowDraws

    del torch
    return RowDraws
