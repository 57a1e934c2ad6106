"""The last steps of a batch, in the thread that asks for it: arrays become the framework's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tensorlake.loader.config.batch_schema import channels_first

if TYPE_CHECKING:
    from tensorlake.loader.config.converter import Converter

__all__ = ["Finish"]


@dataclass(slots=True)
class Finish:
    """Converts batches, and counts the time that this takes.

    Attributes:
        converter: Makes the framework's arrays.
        batch_transform: The user's function of a batch.
        channels_first: The images whose channels come first.
        convert_s: Seconds spent in the converter.
        batch_transform_s: Seconds spent in the user's function.
    """

    converter: Converter
    batch_transform: Callable[[dict[str, Any]], Any] | None
    channels_first: frozenset[str] = frozenset()
    convert_s: float = 0.0
    batch_transform_s: float = 0.0

    def __call__(self, batch: dict[str, Any]) -> Any:
        """Return the batch as the user's loop gets it."""
        began = perf_counter()
        for name in self.channels_first & batch.keys():
            batch[name] = channels_first(batch[name])
        finished = self.converter.convert(batch)
        converted = perf_counter()
        self.convert_s += converted - began
        if self.batch_transform is not None:
            finished = self.batch_transform(finished)
            self.batch_transform_s += perf_counter() - converted
        return finished
