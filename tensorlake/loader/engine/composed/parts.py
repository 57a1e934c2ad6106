"""Parts of documents: the content of packed sequences, however these are made.

A document may be in several parts, of one sequence after another, and a sequence has several parts.
Lengths come from the headers of chunks, once a loader: 8 bytes per document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.collate import quoted
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import EpochUnits
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["SPAN_ROWS", "Parts", "RepeatedSequences", "listed", "token_counts"]

SPAN_ROWS = 1 << 16  # documents placed together, and whose lengths are looked up together
KEPT_EPOCHS = 2  # a batch may have the end of one and the start of the next


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of documents, in the order of the sequences that have them."""

    unit: Int64Array  # the sequence, counted from 0 in what was asked for
    row: Int64Array  # the document, an index of the positions found with it
    start: Int64Array  # tokens, eos included
    stop: Int64Array
    has_eos: NDArray[np.bool_]  # whether its last token is eos
    source: Int64Array | None = None  # of each sequence, in a mix

    @classmethod
    def of(
        cls,
        unit: Int64Array,
        positions: Int64Array,
        spans: tuple[Int64Array, Int64Array, Int64Array],
        *,
        has_eos: bool,
    ) -> tuple[Int64Array, Parts]:
        """Return the positions and the parts, without empty ones.

        Args:
            unit: The sequence of each part.
            positions: Its document.
            spans: Its start, its stop and the length of the whole document, eos included.
            has_eos: Whether documents end with eos.
        """
        start, stop, whole = spans
        kept = stop > start  # an empty document without eos has no token
        if not kept.all():
            unit, positions = unit[kept], positions[kept]
            start, stop, whole = start[kept], stop[kept], whole[kept]
        is_next = np.diff(positions, prepend=-1) != 0  # else it goes on in the next sequence
        ends = (stop == whole) & has_eos
        return positions[is_next], cls(unit, np.cumsum(is_next) - 1, start, stop, ends)

    @classmethod
    def together(
        cls,
        found: Iterable[tuple[Int64Array, tuple[Int64Array, Parts]]],
        source: Int64Array | None = None,
    ) -> tuple[Int64Array, Parts]:
        """Return the positions and the parts of sequences that are found in several places.

        Args:
            found: The numbers of some sequences among all, with their documents and parts.
            source: The source of each sequence, of a mix.
        """
        positions: list[Int64Array] = [np.empty(0, np.int64)]
        parts: list[Parts] = []
        before = 0
        for at, (rows, own) in found:
            parts.append(replace(own, unit=at[own.unit], row=own.row + before))
            positions.append(rows)
            before += len(rows)
        return np.concatenate(positions), cls._joined(parts, source)

    @classmethod
    def _joined(cls, parts: Sequence[Parts], source: Int64Array | None) -> Parts:
        names = ("unit", "row", "start", "stop")
        arrays = [
            np.concatenate([np.empty(0, np.int64), *(getattr(one, name) for one in parts)])
            for name in names
        ]
        has_eos = np.concatenate([np.empty(0, np.bool_), *(one.has_eos for one in parts)])
        ranked = np.argsort(arrays[0], kind="stable")
        unit, row, start, stop = (one[ranked] for one in arrays)
        return cls(unit, row, start, stop, has_eos[ranked], source)


def token_counts(rows: SelectedRows, name: str, *, has_eos: bool) -> Int64Array:
    """Return the tokens of each document by position, eos included.

    Raises:
        InvalidInputError: A document is NULL.
    """
    selection = rows.selection
    lengths = np.empty(selection.num_rows, dtype=np.int64)
    for start in range(0, len(lengths), SPAN_ROWS):
        positions = np.arange(start, min(start + SPAN_ROWS, len(lengths)))
        lengths[positions] = rows.reader.shapes(name, selection.physical(positions))[:, 0]
    if bool((lengths < 0).any()):
        raise InvalidInputError(
            f"{name!r} is NULL at position {int(np.argmax(lengths < 0))}, and NULL has no"
            f" tokens\npack the others: ds.query('WHERE {quoted(name)} IS NOT NULL').pack(…)",
            tensor=name,
        )
    return lengths + has_eos


def listed(plan: Plan) -> Int64Array:
    """Return the position at each place of an epoch."""
    positions = np.empty(plan.num_rows, dtype=np.int64)
    for start in range(0, len(positions), SPAN_ROWS):
        places = np.arange(start, min(start + SPAN_ROWS, len(positions)))
        positions[places] = plan.at(places)
    return positions


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedSequences:
    """Several epochs of sequences one after another, as one epoch (``EpochUnits``)."""

    make: Callable[[int], EpochUnits]  # by the number of an epoch
    first: int  # the number of the first
    length: int  # sequences of each
    kept: dict[int, EpochUnits] = field(default_factory=dict[int, "EpochUnits"])

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        numbers, inside = np.divmod(places, self.length)
        owners = [(number, np.flatnonzero(numbers == number)) for number in distinct(numbers)]
        return Parts.together(
            (own, self._epoch(int(number)).find(inside[own])) for number, own in owners
        )

    def _epoch(self, number: int) -> EpochUnits:
        if number not in self.kept:
            if len(self.kept) == KEPT_EPOCHS:
                del self.kept[next(iter(self.kept))]
            self.kept[number] = self.make(self.first + number)
        return self.kept[number]
