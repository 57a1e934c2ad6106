"""The number of rows of a page: those requested, up to a number of bytes of their samples.

Rows are read in parts and measured, until the page is full or whole. The first part is what is
likely to fit: samples of one shape are known, media are as long as they are stored, text and lists
can have been packed a hundredfold; of images of numbers (an empty mask is packed to nothing) and
of what a query computes a few are tried. So nearly every page is read at once:

    asked for    ├───────────────────────────────────┤
    parts        ├ likely ┤ by what those are ┤       then by what these are, and so on
    the page     ├──────────────────────┤ a row that would be too much begins the next one

At least one row is in a page, however large it is. Samples count as they are in memory; in JSON a
number counts eight times: its digits, and an object of Python's while they are written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tensorlake.dataset import rowset_of
from tensorlake.errors import CorruptionError
from tensorlake.types import EncodedColumn, RaggedColumn, UniformColumn, concat, take
from tensorlake_server.bodies.cells import elements_shown
from tensorlake_server.bodies.columns import (
    HandleColumn,
    TypedColumn,
    column_type,
    is_summarized,
    read_column,
    read_handles,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tensorlake.types import SampleType
    from tensorlake_server.lake.lake import Readable

    Positions = npt.NDArray[np.int64]
    Sizes = npt.NDArray[np.float64]

__all__ = ["JSON_WEIGHT", "Part", "join_parts", "read_parts"]

JSON_WEIGHT = 8
MOST_PACKED = 100  # of real text and lists; what is more is found when it is measured
TRIED = 4
SUMMARY_NBYTES = 256  # of a cell that describes a file
GROWTH = 16


PartColumn: TypeAlias = TypedColumn | HandleColumn | CorruptionError


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a page; for a damaged column, its error."""

    positions: Positions
    columns: dict[str, PartColumn]


def read_parts(
    readable: Readable,
    names: Sequence[str],
    positions: Positions,
    nbytes: int,
    *,
    weight: int = 1,
    as_cells: bool = False,
) -> list[Part]:
    """Read as many of the first rows as have samples of ``nbytes`` at most; at least one.

    Args:
        readable: The rows that the positions index.
        names: The page's columns.
        positions: The requested rows.
        nbytes: The most.
        weight: How many bytes a byte of an array counts for that is shown whole.
        as_cells: Whether the page describes media; those with handles are then not read.
    """
    described = {
        name
        for name in names
        if as_cells and name in readable.schema and is_summarized(column_type(readable, name))
    }
    read = [name for name in names if name not in described]
    likely = np.cumsum(
        _likely_sizes(readable, read, positions, weight) + SUMMARY_NBYTES * len(described)
    )
    count = max(1, int(np.searchsorted(likely, nbytes, side="right")))
    parts: list[Part] = []
    taken, left = 0, float(nbytes)
    while taken < len(positions):
        part = _read(readable, names, positions[taken : taken + count], described)
        sizes = _sizes(part, weight)
        fitting = int(np.searchsorted(np.cumsum(sizes), left, side="right"))
        if fitting < len(sizes):
            fitting = max(fitting, 0 if parts else 1)
            return [*parts, _first_rows(part, fitting)] if fitting else parts
        parts.append(part)
        taken += len(sizes)
        left -= float(sizes.sum())
        count = max(1, min(GROWTH * count, int(left / 2 / max(1.0, float(sizes.mean())))))
    return parts or [_read(readable, names, positions, described)]


def join_parts(parts: Sequence[Part]) -> dict[str, TypedColumn]:
    """Put the columns of a page together.

    Raises:
        CorruptionError: One is damaged.
    """
    joined: dict[str, TypedColumn] = {}
    for name in parts[0].columns:
        read: list[TypedColumn] = []
        for part in parts:
            column = part.columns[name]
            if isinstance(column, CorruptionError):
                raise column
            assert isinstance(column, TypedColumn), "pages that are joined are not cells"
            read.append(column)
        whole = read[0].column if len(read) == 1 else concat([one.column for one in read])
        joined[name] = TypedColumn(read[0].type, whole)
    return joined


def _read(
    readable: Readable, names: Sequence[str], positions: Positions, described: set[str]
) -> Part:
    columns: dict[str, PartColumn] = {}
    for name in names:
        try:
            columns[name] = (
                HandleColumn(column_type(readable, name), read_handles(readable, name, positions))
                if name in described
                else read_column(readable, name, positions)
            )
        except CorruptionError as error:
            columns[name] = error
    return Part(positions, columns)


def _first_rows(part: Part, count: int) -> Part:
    rows = np.arange(count)
    return Part(
        part.positions[:count], {name: _taken(read, rows) for name, read in part.columns.items()}
    )


def _taken(read: PartColumn, rows: Positions) -> PartColumn:
    match read:
        case CorruptionError():
            return read
        case HandleColumn():
            return HandleColumn(read.type, read.handles[: len(rows)])
        case TypedColumn():
            return TypedColumn(read.type, take(read.column, rows))


def _likely_sizes(
    readable: Readable, names: Sequence[str], positions: Positions, weight: int
) -> Sizes:
    """Guess what each row is at most; where nothing tells, that only a few fit."""
    sizes = np.zeros(len(positions))
    for name in names:
        kind = column_type(readable, name)
        sides = kind.shape if kind.dtype is not None and not kind.is_media else (None,)
        if None not in sides:
            assert kind.dtype is not None
            elements = math.prod(side for side in sides if side is not None)
            sizes += elements * kind.dtype.itemsize * _weight(kind, elements, weight)
        elif name not in readable.schema or sides.count(None) > 1:
            sizes[TRIED:] = np.inf
        else:
            packed = 1 if kind.is_media else MOST_PACKED * weight
            sizes += packed * _stored_sizes(readable, name, positions)
    return sizes


def _stored_sizes(readable: Readable, name: str, positions: Positions) -> Sizes:
    """Return how many stored bytes each row has, in the mean of its chunk."""
    rows = rowset_of(readable)
    located = rows.reader().locate(name, rows.selection.physical(positions))
    means = [key.nbytes / rows for key, rows in zip(located.chunks, located.rows, strict=True)]
    return np.asarray(means, dtype=np.float64)[located.chunk]


def _sizes(part: Part, weight: int) -> Sizes:
    """Measure the rows of a part; damage becomes a short message."""
    sizes = np.zeros(len(part.positions))
    for read in part.columns.values():
        if isinstance(read, HandleColumn):
            sizes += SUMMARY_NBYTES
        elif not isinstance(read, CorruptionError):
            sizes += _column_sizes(read, weight)
    return sizes


def _column_sizes(read: TypedColumn, weight: int) -> Sizes:
    kind, column = read.type, read.column
    match column:
        case UniformColumn(values=values):
            elements = math.prod(values.shape[1:])
            return np.full(
                len(values), elements * values.itemsize * _weight(kind, elements, weight)
            )
        case RaggedColumn():
            lengths, itemsize = column.lengths.astype(np.float64), column.values.itemsize
        case EncodedColumn(samples=samples):
            lengths = np.fromiter(map(len, samples), np.float64, len(samples))
            if kind.dtype is None or kind.is_media:  # in JSON a part of it, or its length
                return lengths
            lengths, itemsize = lengths / kind.dtype.itemsize, kind.dtype.itemsize
    return lengths * itemsize * np.where(lengths <= elements_shown(kind), weight, 1)


def _weight(kind: SampleType, elements: int, weight: int) -> int:
    return weight if elements <= elements_shown(kind) else 1
