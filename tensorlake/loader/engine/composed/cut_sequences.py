"""Sequences of documents that are cut: those of an epoch's order, end to end.

Sequence s has tokens [s · length, (s + 1) · length), found by the running sum of lengths in the
order of the plan: 16 bytes per document for an epoch. Only the last sequence of an epoch is padded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.loader.engine.composed.drawn_documents import DrawnDocuments
from tensorlake.loader.engine.composed.parts import (
    Parts,
    RepeatedSequences,
    listed,
    token_counts,
)
from tensorlake.loader.sources.arrangement import Arranger

if TYPE_CHECKING:
    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.engine.composed.rows import EpochUnits
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["CutSequences", "cut_sequences"]


def cut_sequences(
    rows: SelectedRows, arrangement: Arrangement, tokens: str, length: int, *, has_eos: bool
) -> CutSequences:
    """Find the sequences of documents that are cut where a sequence ends.

    Raises:
        InvalidInputError: A document is NULL, or weights draw no tokens.
    """
    lengths = token_counts(rows, tokens, has_eos=has_eos)
    arranger = Arranger(rows, arrangement, len(lengths), "document")
    drawn, total = None, int(lengths.sum())
    count = -(-total // length)
    if arrangement.is_drawn and total:
        drawn = DrawnDocuments.of(arranger, lengths)
        count = max(1, drawn.tokens // length)
        total = min(drawn.tokens, count * length)
    return CutSequences(arranger, tokens, length, lengths, has_eos, drawn, count, total)


@dataclass(frozen=True, slots=True, eq=False)
class CutSequences:
    """Documents end to end, cut at multiples of a length (``Units``)."""

    arranger: Arranger
    tokens: str
    length: int
    lengths: Int64Array  # by position
    has_eos: bool
    drawn: DrawnDocuments | None  # by weights; None: each document comes once
    once: int  # sequences of an epoch that is not repeated
    total: int  # its tokens

    @property
    def count(self) -> int:
        """Sequences of an epoch."""
        return self.once * self.arranger.arrangement.repeat

    @property
    def mean(self) -> float:
        """Tokens of a sequence, but for the last of an epoch."""
        return float(self.length)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> EpochUnits:
        """Return the sequences of one epoch."""
        repeat = self.arranger.arrangement.repeat

        def make(number: int) -> CutEpoch:
            return CutEpoch(self, partial(self._positions, order, seed, number))

        if repeat == 1:
            return make(epoch)
        return RepeatedSequences(make, epoch * repeat, max(1, self.once))

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of documents and the sequences."""
        return (
            f"{self.arranger.describe(order)}, packed into {self.count:,} sequences of"
            f" {self.length:,} tokens of {self.tokens!r}"
        )

    def _positions(self, order: AnyOrder, seed: int, epoch: int) -> Int64Array:
        """Return the documents of an epoch in its order, of which the first have its tokens."""
        if self.drawn is None:
            return listed(self.arranger.once(order, seed=seed, epoch=epoch))
        rounds: list[Int64Array] = []
        tokens = 0
        for positions in self.drawn.rounds(order, seed=seed, epoch=epoch):
            rounds.append(positions)
            tokens += int(self.lengths[positions].sum())
            if tokens >= self.total:
                break
        return np.concatenate(rounds)


@dataclass(frozen=True, eq=False)
class CutEpoch:
    """The sequences of one epoch (``EpochUnits``), or of the rest of one.

    Attributes:
        sequences: How documents are cut.
        list_documents: Returns the documents, in order.
        first_place: The first sequence: that of a splice.
        offset: Tokens of the first document that came before it.
    """

    sequences: CutSequences
    list_documents: Callable[[], Int64Array]
    first_place: int = 0
    offset: int = 0

    @property
    def num_rows(self) -> int:
        """Number of sequences, those before a splice included."""
        return self.first_place + -(-self._total // self.sequences.length)

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        ends, length = self._ends, self.sequences.length
        begin = (places - self.first_place) * length
        end = np.minimum(begin + length, self._total)
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

    def reached(self, place: int) -> tuple[int, int, int]:
        """Return which document a sequence begins in: its number, position, and tokens before."""
        token = (place - self.first_place) * self.sequences.length
        number = int(np.searchsorted(self._ends, token, "right"))
        if number == len(self._ends):
            return number, -1, 0
        position = int(self._positions[number])
        begin = int(self._ends[number] - self.sequences.lengths[position])
        return number, position, token - begin

    @cached_property
    def _positions(self) -> Int64Array:
        """The documents of the epoch, in its order: one permutation for all batches."""
        return self.list_documents()

    @cached_property
    def _ends(self) -> Int64Array:
        """Where each document ends in the tokens of the epoch."""
        return np.cumsum(self.sequences.lengths[self._positions]) - self.offset

    @property
    def _total(self) -> int:
        """Tokens of all sequences."""
        if self.sequences.drawn is not None:
            return self.sequences.total
        return int(self._ends[-1]) if len(self._ends) else 0
