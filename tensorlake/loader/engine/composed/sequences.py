"""Sequences: which parts of which documents are in each sequence of one length.

    cut      documents of an epoch's order, end to end, are cut at multiples of the length: sequence
             s has tokens [s · length, (s + 1) · length); found by the running sum of lengths in the
             order of the plan. Only the last sequence of an epoch is padded
    whole    documents are placed into sequences by best fit, inside spans of 2¹⁶ documents of the
             selection; the order of an epoch permutes sequences. A document longer than a sequence
             is cut into full sequences and a rest, which is placed like a document

Lengths come from the headers of chunks, once a loader: 8 bytes a document, and 16 more for an
epoch of cut ones, or 8 once for whole ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError
from tensorlake.loader.engine.composed.best_fit import best_fit
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey, build_access_plan
from tensorlake.loader.sources.rows import chosen_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.order import Shuffle
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = [
    "SPAN_ROWS",
    "Parts",
    "TokenSequences",
    "cut_sequences",
    "token_counts",
    "whole_sequences",
]

SPAN_ROWS = 1 << 16  # documents placed together, and whose lengths are looked up together


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
    def joined(cls, parts: Sequence[Parts], source: Int64Array) -> Parts:
        """Return the parts of several sources, in the order of the sequences that have them."""
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
            f" tokens\npack the others: ds.query('WHERE \"{name}\" IS NOT NULL').pack(…)",
            tensor=name,
        )
    return lengths + has_eos


# ---- cut


def cut_sequences(rows: SelectedRows, tokens: str, length: int, *, has_eos: bool) -> CutSequences:
    """Find the sequences of documents that are cut where a sequence ends."""
    return CutSequences(
        rows, tokens, length, token_counts(rows, tokens, has_eos=has_eos), has_eos=has_eos
    )


@dataclass(frozen=True, slots=True, eq=False)
class CutSequences:
    """Documents end to end, cut at multiples of a length (``Units``)."""

    rows: SelectedRows
    tokens: str
    length: int
    lengths: Int64Array  # by position
    has_eos: bool

    @property
    def count(self) -> int:
        """Sequences of an epoch."""
        return -(-int(self.lengths.sum()) // self.length)

    @property
    def mean(self) -> float:
        """Tokens of a sequence, but for the last of an epoch."""
        return float(self.length)

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Choose the order of documents."""
        return self.rows.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> CutEpoch:
        """Return the sequences of one epoch."""
        return CutEpoch(self, self.rows.plan(order, seed=seed, epoch=epoch))

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of documents and the sequences."""
        return (
            f"{self.rows.describe(order)}, packed into {self.count:,} sequences of"
            f" {self.length:,} tokens of {self.tokens!r}"
        )


@dataclass(frozen=True, eq=False)
class CutEpoch:
    """The sequences of one epoch (``EpochUnits``)."""

    sequences: CutSequences
    documents: Plan

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        ends, length = self._ends, self.sequences.length
        begin = places * length
        end = np.minimum(begin + length, ends[-1])
        first = np.searchsorted(ends, begin, "right")
        counts = np.searchsorted(ends, end, "left") - first + 1
        unit = np.repeat(np.arange(len(places)), counts)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = first[unit] + within
        positions = self._positions[place]
        whole = self.sequences.lengths[positions]
        origins = ends[place] - whole
        start = np.maximum(begin[unit] - origins, 0)
        stop = np.minimum(end[unit] - origins, whole)
        spans = start, stop, whole
        return Parts.of(unit, positions, spans, has_eos=self.sequences.has_eos)

    @cached_property
    def _positions(self) -> Int64Array:
        """The documents of the epoch, in its order: one permutation for all batches."""
        count = len(self.sequences.lengths)
        positions = np.empty(count, dtype=np.int64)
        for start in range(0, count, SPAN_ROWS):
            places = np.arange(start, min(start + SPAN_ROWS, count))
            positions[places] = self.documents.at(places)
        return positions

    @cached_property
    def _ends(self) -> Int64Array:
        """Where each document ends in the tokens of the epoch."""
        return np.cumsum(self.sequences.lengths[self._positions])


# ---- whole


def whole_sequences(
    rows: SelectedRows, tokens: str, length: int, *, has_eos: bool
) -> WholeSequences:
    """Place documents into sequences by best fit, span by span."""
    lengths = token_counts(rows, tokens, has_eos=has_eos)
    listed: list[Int64Array] = []
    counts: list[Int64Array] = []
    for first in range(0, len(lengths), SPAN_ROWS):
        own = lengths[first : first + SPAN_ROWS]
        pieces = np.repeat(np.arange(len(own)), -(-own // length))
        before = np.arange(len(pieces)) - np.searchsorted(pieces, pieces)
        sizes = np.minimum(own[pieces] - before * length, length)
        bins = best_fit(sizes, length)
        ranked = np.argsort(bins, kind="stable")
        listed.append(first + pieces[ranked] + (before[ranked] << PIECE_SHIFT))
        counts.append(np.bincount(bins))
    starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
    members = np.concatenate([np.empty(0, np.int64), *listed])
    return WholeSequences(rows, tokens, length, lengths, members, starts, has_eos=has_eos)


PIECE_SHIFT = 40  # a member is a position, and above it the number of its piece


@dataclass(frozen=True, slots=True, eq=False)
class WholeSequences:
    """Documents placed into sequences by best fit (``Units``)."""

    rows: SelectedRows
    tokens: str
    length: int
    lengths: Int64Array  # by position
    members: Int64Array  # pieces of documents, sequence by sequence
    starts: Int64Array  # of each sequence in them, and the end
    has_eos: bool

    @property
    def count(self) -> int:
        """Sequences of an epoch."""
        return len(self.starts) - 1

    @property
    def mean(self) -> float:
        """Mean tokens of a sequence, without padding."""
        return int(self.lengths.sum()) / max(1, self.count)

    def choose(self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int) -> Order:
        """Choose the order of sequences."""
        selection, reader = self.rows.selection, self.rows.reader
        return chosen_order(
            shuffle,
            selection,
            reader,
            tensors,
            prefetch_nbytes=prefetch_nbytes,
            units=self.count,
        )

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> WholeEpoch:
        """Return the sequences of one epoch."""
        assert isinstance(order, Order), "of sequences"
        key = PlanKey(self.rows.selection.digest, order, seed, epoch)
        return WholeEpoch(self, build_access_plan(key, self.count))

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of sequences, their padding, and documents that are cut."""
        ordered = self.rows.describe(order)
        return (
            f"whole documents packed into {self.count:,} sequences of {self.length:,} tokens of"
            f" {self.tokens!r}, {self.filled}; sequences {ordered}"
        )

    @property
    def filled(self) -> str:
        """How full the sequences are, and how many documents are cut, in words."""
        cut = int((self.lengths > self.length).sum())
        return f"{self.mean / self.length:.1%} filled{f', {cut:,} longer ones cut' if cut else ''}"


@dataclass(frozen=True, eq=False)
class WholeEpoch:
    """The sequences of one epoch (``EpochUnits``)."""

    sequences: WholeSequences
    order: Plan

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        own = self.sequences
        numbers = self._numbers[places]
        first = own.starts[numbers]
        counts = own.starts[numbers + 1] - first
        unit = np.repeat(np.arange(len(places)), counts)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        member = own.members[first[unit] + within]
        positions = member & ((1 << PIECE_SHIFT) - 1)
        whole = own.lengths[positions]
        start = (member >> PIECE_SHIFT) * own.length
        stop = np.minimum(start + own.length, whole)
        return Parts.of(unit, positions, (start, stop, whole), has_eos=own.has_eos)

    @cached_property
    def _numbers(self) -> Int64Array:
        """The sequences in the order of the epoch: one permutation for all batches."""
        return self.order.at(np.arange(self.sequences.count))


TokenSequences: TypeAlias = CutSequences | WholeSequences
"""The sequences of a selection (``Units``)."""
