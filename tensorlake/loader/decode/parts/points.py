"""PointSample: points of each cloud, chosen at random, as one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import check_choice
from tensorlake.loader.decode.step import PartStep
from tensorlake.quantities import checked_integer
from tensorlake.types import PointCloud, PointRequest, level_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader.decode.step import Known
    from tensorlake.types import SampleType

__all__ = ["PointSample"]

_SHORT = ("repeat", "error")
MOST_POINTS = 1 << 22
"""Points of a sample: 50 MB of x, y and z."""


@dataclass(frozen=True, slots=True)
class PointSample(PartStep):
    """Points of each cloud, chosen at random: float32 (n, fields).

    Points come from the fewest levels of detail that have ``n`` of them, which are a random part of
    the cloud; only these are read. x, y and z are relative to the cloud's ``origin``.

    Args:
        n: Number of points, up to 4,194,304.
        fields: The fields of a point, in this order.
        level: Choose from the points of this level: 2 is all of them. None: the lowest that has
            ``n`` points. With the lowest, epochs differ little where ``n`` is most of a level.
        short: For a cloud of fewer points: "repeat" repeats points, each nearly as often as any
            other; "error" raises. A cloud without points raises.

    >>> PointSample(1024).fields
    ('x', 'y', 'z')
    """

    n: int
    fields: tuple[str, ...] = ("x", "y", "z")
    level: int | None = None
    short: Literal["repeat", "error"] = "repeat"

    def __post_init__(self) -> None:
        advice = "write tl.decode.PointSample(1024)"
        number = checked_integer(
            self.n, name="PointSample: n", least=1, most=MOST_POINTS, advice=advice
        )
        object.__setattr__(self, "n", number)
        fields = self.fields
        if (
            isinstance(fields, str)
            or not isinstance(fields, tuple | list)
            or not fields
            or not all(isinstance(one, str) for one in fields)
            or len(set(fields)) < len(fields)
        ):
            raise InvalidInputError(
                f"PointSample: fields are names, each once, got {shown(fields)}"
                '\nwrite fields=("x", "y", "z", "intensity")',
                argument="fields",
                actual=fields,
            )
        object.__setattr__(self, "fields", tuple(fields))
        if self.level is not None:
            most = len(level_counts(0)) - 1
            level = checked_integer(self.level, name="PointSample: level", least=0, most=most)
            object.__setattr__(self, "level", level)
        check_choice(self, "short", _SHORT)

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse other types than point clouds, and fields that the type leaves out."""
        if not isinstance(sample_type, PointCloud):
            raise InvalidInputError(
                f"decode of {tensor!r}: PointSample is for tl.PointCloud, and {tensor!r} is"
                f" {sample_type.describe()}\nleave {tensor!r} out of decode",
                tensor=tensor,
            )
        missing = sample_type.missing_fields(self.fields)
        if missing:
            raise InvalidInputError(
                f"decode of {tensor!r}: {shown(self)} names {missing[0]!r}, which"
                f" {sample_type.describe()} does not have",
                tensor=tensor,
            )

    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> Any:
        """Return the numbers of the points, in random order."""
        del others
        points = 0 if sample.shape is None else sample.shape[0]
        if not points or (points < self.n and self.short == "error"):
            raise InvalidInputError(
                f"PointSample of {self.n:,} points, from a cloud of {points:,}",
                least=self.n if points else 1,
                otherwise="short='repeat'" if points else None,
            )
        counts = level_counts(points)
        enough = [count for count in counts if count >= self.n]
        count = counts[self.level] if self.level is not None else [*enough, points][0]
        if count >= self.n:
            numbers = rng.choice(count, self.n, replace=False)
        else:
            rounds, rest = divmod(self.n, count)
            extra = rng.choice(count, rest, replace=False)
            numbers = np.concatenate([np.tile(np.arange(count), rounds), extra])
            rng.shuffle(numbers)
        return PointRequest(region=(numbers,), fields=self.fields, stacked=True)

    def output_dtype(self, sample_type: SampleType) -> np.dtype:
        """Return float32, whatever the fields are."""
        del sample_type
        return np.dtype("float32")

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return the shape of the points of a sample."""
        del sample_type
        return (self.n, len(self.fields))
