"""Kinds of indexes: what each must provide, and what it is given.

    Rows (physical rows, their samples) ── build ──► Built (parts: columns; parameters: JSON)
    PartsReader, new Rows, rows to keep ── merge ──► Built
    PartsReader, a question of the kind ── search ─► physical rows (and scores)

A kind is three pure functions over columns: its parts are stored as any tensor's samples are, so it
knows nothing of chunks, commits and branches. It is asked only about rows whose cells are as they
were (``tensorlake/format/coverage.py``); rows that it has entries of, and that were changed since,
are dropped from its answers by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.format import TensorSpec
from tensorlake.indexes.parts import Built, PartsReader
from tensorlake.reading import Reader
from tensorlake.types import Column, SampleType

__all__ = ["Batches", "Hits", "IndexKind", "RowRanges", "Rows", "known_options"]

Int64Array = npt.NDArray[np.int64]
RowRanges = npt.NDArray[np.int64]
"""Physical rows as ranges [start, stop), shape (n, 2): ascending, and apart from each other."""

Batches = Iterable[tuple[Int64Array, Column]]
"""Physical rows, ascending over all batches, and their samples."""

BATCH_ROWS = 1 << 17
BATCH_NBYTES = 32 << 20
"""Rows and bytes of a batch, about."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one tensor that an index is built of.

    Attributes:
        spec: The tensor.
        ranges: Its physical rows; some of them may be deleted ones.
        reader: Reads them.
    """

    spec: TensorSpec
    ranges: RowRanges
    reader: Reader

    @property
    def count(self) -> int:
        """The number of rows."""
        return int((self.ranges[:, 1] - self.ranges[:, 0]).sum())

    def batches(self) -> Iterator[tuple[Int64Array, Column]]:
        """Read all rows, in order; each call reads them again."""
        (nbytes,) = self.reader.row_nbytes([self.spec.name])
        step = max(1, min(BATCH_ROWS, BATCH_NBYTES // max(nbytes, 1)))
        for first, last in self.ranges.tolist():
            for start in range(first, last, step):
                stop = min(start + step, last)
                yield np.arange(start, stop), self.reader.read_run(self.spec.name, start, stop)

    def sample(self, count: int, seed: int) -> tuple[Int64Array, Column]:
        """Read at most ``count`` rows drawn at random, without repetition."""
        total = self.count
        chosen = np.random.default_rng(seed).choice(total, min(count, total), replace=False)
        chosen = np.sort(chosen).astype(np.int64)
        lengths = self.ranges[:, 1] - self.ranges[:, 0]
        stops = np.cumsum(lengths)
        which = np.searchsorted(stops, chosen, side="right")
        physical = self.ranges[which, 0] + chosen - (stops - lengths)[which]
        return physical, self.reader.read(self.spec.name, physical)


@dataclass(frozen=True, slots=True)
class Hits:
    """The result of a search: physical rows and, where the kind has them, their scores."""

    rows: Int64Array
    scores: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A kind of index.

    Attributes:
        name: Its name, as in ``create_index(column, kind)``.
        suits: Whether a tensor of a type may have such an index.
        options: Checks the options that the user gave for a tensor, and completes them.
        build: Makes an index of rows, given such options.
        merge: Makes an index of another one's parts, of new rows, and of the physical rows whose
            entries in these parts still hold.
        wants: Its purpose in words, for errors.
    """

    name: str
    suits: Callable[[SampleType], bool]
    options: Callable[[TensorSpec, Mapping[str, Any]], dict[str, Any]]
    build: Callable[[Rows, Mapping[str, Any]], Built]
    merge: Callable[[PartsReader, Rows, RowRanges], Built]
    wants: str


def known_options(
    kind: str, given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Complete options by their defaults.

    Raises:
        InvalidInputError: One is unknown.
    """
    for name in given:
        if name not in defaults:
            known = f"it has {', '.join(map(repr, defaults))}" if defaults else "it has none"
            raise InvalidInputError(
                f"an index of the kind {kind!r} has no option {name!r}"
                f"{did_you_mean(name, defaults)}\n{known}",
                option=name,
            )
    return {**defaults, **given}
