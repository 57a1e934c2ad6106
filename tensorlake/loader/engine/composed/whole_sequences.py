"""Sequences of whole documents, placed by best fit inside spans of 2¹⁶ documents.

    plain               spans of the selection, placed once; an epoch permutes the sequences
    stratified, grouped  the same for the documents of each class or group: a sequence has documents
                        of one, and sequences are stratified or grouped
    drawn by weights    spans of each round of an epoch, placed when the epoch begins

A document longer than a sequence is cut into full sequences and a rest, which is placed like a
document. 16 bytes per document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.loader.engine.composed.best_fit import best_fit
from tensorlake.loader.engine.composed.drawn_documents import DrawnDocuments
from tensorlake.loader.engine.composed.parts import (
    SPAN_ROWS,
    Parts,
    RepeatedSequences,
    listed,
    token_counts,
)
from tensorlake.loader.plan.shuffle import permutation_of
from tensorlake.loader.sources.arrangement import Arranger, class_numbers, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.engine.composed.rows import EpochUnits
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = [
    "POSITION",
    "DrawnSequences",
    "Placed",
    "WholeEpoch",
    "WholeSequences",
    "whole_sequences",
]

PIECE_SHIFT = 40  # a member is a position, and above it the number of its piece
POSITION = (1 << PIECE_SHIFT) - 1
NONE = np.empty(0, dtype=np.int64)
SEQUENCES = 1  # the stream of the permutation of drawn sequences; that of documents has 0


def whole_sequences(
    rows: SelectedRows, arrangement: Arrangement, tokens: str, length: int, *, has_eos: bool
) -> WholeSequences | DrawnSequences:
    """Find the sequences of documents that are cut only if they are longer than one.

    Raises:
        InvalidInputError: A document is NULL, or weights draw no tokens.
    """
    lengths = token_counts(rows, tokens, has_eos=has_eos)
    made = _arranged(rows, arrangement, _Form(tokens, length, lengths, has_eos), NONE)
    if arrangement.is_drawn and made.placed.count:
        drawn = DrawnDocuments.of(Arranger(rows, arrangement, len(lengths), "document"), lengths)
        count = max(1, made.placed.count * drawn.tokens // int(lengths.sum()))
        return DrawnSequences(made.form, drawn, count)
    return made


def _arranged(
    rows: SelectedRows, arrangement: Arrangement, form: _Form, given: Int64Array
) -> WholeSequences:
    """Place documents into sequences, but for some pieces, and arrange these."""
    values = None
    if arrangement.rule in ("stratified", "grouped") and len(form.lengths):
        values = values_of(rows, arrangement)
        placed = _placed_by_group(form, class_numbers(values)[0], given)
    else:
        placed = _placed(form, _spans(np.arange(len(form.lengths))), given)

    def values_of_sequences() -> NDArray[Any]:
        assert values is not None, "only for these rules"
        return values[placed.members[placed.starts[:-1]] & POSITION]

    arranger = Arranger(
        rows, arrangement, placed.count, "sequence", values_of_sequences, placed.members
    )
    return WholeSequences(arranger, form, placed)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The documents, and the length of a sequence."""

    tokens: str
    length: int
    lengths: Int64Array  # of documents, by position
    has_eos: bool


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Pieces of documents, sequence by sequence."""

    members: Int64Array
    starts: Int64Array  # of each sequence in them, and the end

    @property
    def count(self) -> int:
        """Number of sequences."""
        return len(self.starts) - 1

    def of(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the pieces of some sequences: which of these has each, and the piece."""
        first = self.starts[numbers]
        counts = self.starts[numbers + 1] - first
        unit = np.repeat(np.arange(len(numbers)), counts)
        within = np.arange(len(unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        return unit, self.members[first[unit] + within]


def _placed_by_group(form: _Form, groups: Int64Array, given: Int64Array) -> Placed:
    """Place the documents of each class or group by themselves, in the order of groups."""
    fits = np.bincount(groups, form.lengths)[groups] <= form.length  # in one sequence: most do
    alone = np.flatnonzero(fits & (form.lengths > 0))
    alone = alone[~np.isin(alone, given)]
    others = np.flatnonzero(~fits)
    ranked = others[np.argsort(groups[others], kind="stable")]
    borders = np.flatnonzero(np.diff(groups[ranked])) + 1
    spans = (span for own in np.split(ranked, borders) for span in _spans(own))
    placed = _placed(form, spans, given)
    members = np.concatenate([alone, placed.members])
    numbers = np.repeat(np.arange(placed.count), np.diff(placed.starts))
    numbers = np.concatenate([np.zeros_like(alone), numbers])
    own = groups[members & POSITION]
    order = np.lexsort((numbers, own))
    is_first = np.diff(own[order], prepend=-1) | np.diff(numbers[order], prepend=-1)
    return Placed(members[order], np.append(np.flatnonzero(is_first), len(members)))


def _spans(documents: Int64Array) -> Iterator[Int64Array]:
    """Return spans of some documents."""
    return (documents[one : one + SPAN_ROWS] for one in range(0, len(documents), SPAN_ROWS))


def _placed(form: _Form, spans: Iterable[Int64Array], given: Int64Array) -> Placed:
    """Place documents into sequences by best fit, span by span, but for pieces that were given."""
    length = form.length
    members: list[Int64Array] = [np.empty(0, np.int64)]
    counts: list[Int64Array] = []
    for span in spans:
        own = form.lengths[span]
        pieces = np.repeat(np.arange(len(own)), -(-own // length))
        before = np.arange(len(pieces)) - np.searchsorted(pieces, pieces)
        if len(given):
            is_left = ~np.isin(span[pieces] + (before << PIECE_SHIFT), given)
            pieces, before = pieces[is_left], before[is_left]
        sizes = np.minimum(own[pieces] - before * length, length)
        bins = best_fit(sizes, length)
        ranked = np.argsort(bins, kind="stable")
        members.append(span[pieces[ranked]] + (before[ranked] << PIECE_SHIFT))
        counts.append(np.bincount(bins))
    starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
    return Placed(np.concatenate(members), starts)


@dataclass(frozen=True, slots=True, eq=False)
class WholeSequences:
    """Documents placed into sequences once, by best fit (``Units``)."""

    arranger: Arranger  # of sequences
    form: _Form
    placed: Placed

    @property
    def count(self) -> int:
        """Sequences of an epoch."""
        return self.arranger.num_places

    @property
    def mean(self) -> float:
        """Mean tokens of a sequence, without padding."""
        return int(self.form.lengths.sum()) / max(1, self.placed.count)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> WholeEpoch:
        """Return the sequences of one epoch."""
        plan = self.arranger.plan(order, seed=seed, epoch=epoch)
        return WholeEpoch(self.form, lambda: (self.placed, listed(plan)))

    def without(self, rows: SelectedRows, given: Int64Array) -> WholeSequences:
        """Return the sequences of all pieces but some, which are members."""
        return _arranged(rows, self.arranger.arrangement, self.form, given)

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of sequences, their padding, and documents that are cut."""
        own = self.form
        return (
            f"whole documents packed into {self.placed.count:,} sequences of {own.length:,} tokens"
            f" of {own.tokens!r}, {self.filled}; sequences {self.arranger.describe(order)}"
        )

    @property
    def filled(self) -> str:
        """How full the sequences are, and how many documents are cut, in words."""
        cut = int((self.form.lengths > self.form.length).sum())
        longer = f", {cut:,} longer ones cut" if cut else ""
        return f"{self.mean / self.form.length:.1%} filled{longer}"


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSequences:
    """Documents drawn by weights, and placed into sequences in every epoch (``Units``).

    An epoch has the sequences that its documents fill on average.
    """

    form: _Form
    drawn: DrawnDocuments
    once: int  # sequences of an epoch that is not repeated

    @property
    def arranger(self) -> Arranger:
        """The order of documents."""
        return self.drawn.arranger

    @property
    def count(self) -> int:
        """Sequences of an epoch."""
        return self.once * self.arranger.arrangement.repeat

    @property
    def mean(self) -> float:
        """Mean tokens of a sequence, about."""
        return self.drawn.tokens / self.once

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> EpochUnits:
        """Return the sequences of one epoch."""
        repeat = self.arranger.arrangement.repeat

        def make(number: int) -> WholeEpoch:
            return WholeEpoch(self.form, partial(self._made, order, seed, number))

        return make(epoch) if repeat == 1 else RepeatedSequences(make, epoch * repeat, self.once)

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of documents, and how they become sequences."""
        own = self.form
        return (
            f"{self.arranger.describe(order)}, in every epoch packed whole into {self.count:,}"
            f" sequences of {own.length:,} tokens of {own.tokens!r}"
        )

    def _made(self, order: AnyOrder, seed: int, epoch: int) -> tuple[Placed, Int64Array]:
        """Return an epoch's sequences, and which of them come in which order."""
        parts: list[Placed] = []
        count = 0
        for positions in self.drawn.rounds(order, seed=seed, epoch=epoch):
            parts.append(_placed(self.form, _spans(positions), NONE))
            count += parts[-1].count
            if count >= self.once:
                break
        sizes = [np.diff(one.starts) for one in parts]
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        placed = Placed(np.concatenate([one.members for one in parts]), starts)
        numbers = np.arange(self.once)
        if order.is_shuffled and getattr(order, "base", order).is_shuffled:
            own = permutation_of(count, seed=seed, epoch=epoch, purpose="order", stream=SEQUENCES)
            numbers = own.apply(numbers)
        return placed, numbers


@dataclass(frozen=True, eq=False)
class WholeEpoch:
    """The sequences of one epoch (``EpochUnits``)."""

    form: _Form
    make: Callable[[], tuple[Placed, Int64Array]]

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        placed, numbers = self._made
        unit, member = placed.of(numbers[places])
        positions = member & POSITION
        whole = self.form.lengths[positions]
        start = (member >> PIECE_SHIFT) * self.form.length
        stop = np.minimum(start + self.form.length, whole)
        return Parts.of(unit, positions, (start, stop, whole), has_eos=self.form.has_eos)

    @cached_property
    def _made(self) -> tuple[Placed, Int64Array]:
        """The sequences, and their order: one permutation for all batches."""
        return self.make()
