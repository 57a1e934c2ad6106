"""Packing: documents of tokens, end to end, as sequences of one length.

    documents    d0 d0 d0 ¶ d1 ¶ d2 d2 d2 d2 d2 ¶ d3 …        ¶ = eos
    sequences    d0 d0 d0 ¶ │ d1 ¶ d2 d2 │ d2 d2 d2 ¶ │ …      4 tokens each
    segments      0  0  0 0 │  0 0  1  1 │  0  0  0 0
    positions     0  1  2 3 │  0 1  0  1 │  0  1  2 3

Which parts of documents a sequence has is decided elsewhere (``cut_sequences.py``); here a batch of
documents becomes a batch of sequences. All steps are arithmetic on arrays with a number for each
part; only the copy of tokens has one call in C for each (``stages/sample_ranges.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import VALID, ColumnPlan
from tensorlake.loader.decode.step import cast_exactly
from tensorlake.loader.engine.composed.cut_sequences import cut_sequences
from tensorlake.loader.engine.composed.sequence_items import sequence_items
from tensorlake.loader.engine.composed.whole_sequences import whole_sequences
from tensorlake.loader.sources.column_values import row_lengths
from tensorlake.loader.sources.mix import SOURCE
from tensorlake.loader.stages.sample_ranges import blocks_of

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.cut_sequences import CutSequences
    from tensorlake.loader.engine.composed.parts import Parts
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.engine.composed.whole_sequences import DrawnSequences, WholeSequences
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement import Items
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.rows import SelectedRows
    from tensorlake.loader.stages.sample_ranges import SampleRanges

__all__ = ["Packing", "TokenSequences"]

TokenSequences: TypeAlias = "CutSequences | WholeSequences | DrawnSequences"
"""The sequences of a selection (``Units``)."""

PADDING = -1  # the segment of padding
FILL, ZERO = -1, -2  # constants of a join


@dataclass(frozen=True, slots=True)
class Packing:
    """How documents become sequences (``Form``).

    Attributes:
        tokens: The column of tokens, one array per document.
        length: Tokens of a sequence.
        eos: The token after each document; None: none.
        mask: A column of one number per token, packed alike; None: none.
        split: Whether documents are cut where a sequence ends; else each is in one sequence.
        stored: Dtype of the tokens as they are stored.
        dtype: Dtype of packed tokens; None: as stored.
        is_flat: Whether sequences come end to end, with ``cu_seqlens``.
        has_sources: Whether batches have ``_source``: they are of a mix.
    """

    tokens: str
    length: int
    eos: int | None
    mask: str | None
    split: bool
    stored: np.dtype
    dtype: np.dtype | None = None
    is_flat: bool = False
    has_sources: bool = False

    made, noun = "packed", "packed sequences"
    place_bits = 0
    growth = extent = 1

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which tokens a sequence has."""
        whole = "" if self.split else " whole"
        return f"+pack {self.tokens} {self.length} eos={self.eos}{whole}"

    @property
    def is_cut(self) -> bool:
        """Whether documents are cut where a sequence ends."""
        return self.split

    def members(self, uses: Parts) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each part of sequences its sequence, its document, and its tokens."""
        return uses.unit, uses.row, uses.stop - uses.start

    @property
    def joins(self) -> frozenset[str]:
        """The columns of which it takes ranges."""
        return frozenset(name for name in (self.tokens, self.mask) if name is not None)

    def shown(self, columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
        """Describe the entries of a batch of sequences."""
        shape = (None,) if self.is_flat else (self.length,)
        dtypes = {one.name: one.dtype for one in columns}
        dtypes[self.tokens] = self.dtype or dtypes[self.tokens]
        numbers = ["segments", "positions", *(["cu_seqlens"] if self.is_flat else [])]
        dtypes |= dict.fromkeys(numbers, np.dtype(np.int32))
        shown = [ColumnPlan(name, None, "row", shape, own) for name, own in dtypes.items()]
        if self.has_sources:
            shown.append(
                ColumnPlan(SOURCE, None, "row", (None,) if self.is_flat else (), np.dtype(np.int64))
            )
        return tuple(shown)

    def units(self, rows: SelectedRows, arrangement: Arrangement = AS_GIVEN) -> TokenSequences:
        """Find the sequences of a selection.

        Raises:
            InvalidInputError: A document is NULL, or a mask does not have one number per token.
        """
        if self.mask is not None:
            self._compare_lengths(rows, self.mask)
        find = cut_sequences if self.split else whole_sequences
        has_eos = self.eos is not None
        return find(rows, arrangement, self.tokens, self.length, has_eos=has_eos)

    def items(self, rows: SelectedRows, units: TokenSequences) -> Items:
        """Return the items of a pass: documents, or pieces of them."""
        return sequence_items(self, rows, units)

    def _compare_lengths(self, rows: SelectedRows, mask: str) -> None:
        """Refuse a mask that does not have one number per token."""
        selection, reader = rows.selection, rows.reader
        tokens, numbers = (row_lengths(selection, reader, name) for name in (self.tokens, mask))
        wrong = np.flatnonzero(tokens != numbers)
        if len(wrong):
            at = wrong[:1]
            raise InvalidInputError(
                f"mask={mask!r} has {int(numbers[at[0]])} numbers in row"
                f" {int(selection.row_numbers(at)[0])}, whose document has {int(tokens[at[0]])}"
                f" tokens of {self.tokens!r}\nstore one number per token",
                tensor=mask,
                expected=int(tokens[at[0]]),
                actual=int(numbers[at[0]]),
            )

    def combine(
        self, share: ComposedShare, batch: Mapping[str, Any], slabs: SlabPool
    ) -> dict[str, Any]:
        """Make the batch of a share's sequences from its documents.

        Raises:
            CorruptionError: A chunk does not have the lengths that its header lists.
            InvalidInputError: A token is not one of the requested dtype.
        """
        parts: Parts = share.uses
        documents: SampleRanges = batch[self.tokens]
        self._check_lengths(self.tokens, parts, documents)
        layout = _Layout.of(parts, share.units, self.length, is_flat=self.is_flat)

        def array(dtype: np.dtype | type[np.generic]) -> NDArray[Any]:
            return slabs.array((layout.total,), np.dtype(dtype))

        dtype = self.dtype or documents.dtype
        is_wider = np.can_cast(documents.dtype, dtype)  # then the join casts
        tokens = array(dtype if is_wider else documents.dtype)
        packed: dict[str, NDArray[Any]]
        packed = {self.tokens: tokens, "segments": array(np.int32), "positions": array(np.int32)}
        layout.join(documents, self.eos, tokens)
        if not is_wider:
            packed[self.tokens] = cast_exactly(tokens, dtype)
        layout.number(packed["segments"], packed["positions"])
        if self.mask is not None:
            masks: SampleRanges = batch[self.mask]
            self._check_lengths(self.mask, parts, masks)
            packed[self.mask] = array(masks.dtype)
            layout.join(masks, self.eos, packed[self.mask], is_mask=True)
        if self.is_flat:
            packed["cu_seqlens"] = layout.borders()
        else:
            shape = (share.units, self.length)
            packed = {name: values.reshape(shape) for name, values in packed.items()}
        if parts.source is not None:
            packed[SOURCE] = parts.source
        if VALID in batch:
            packed[VALID] = np.full(share.units, share.valid > 0)
        return packed

    def leave_out(self, share: ComposedShare, batch: dict[str, Any]) -> None:
        """Make holes of documents: eos, of segment −1 and mask 0. Others stay where they were."""
        assert share.holes is not None, "asked for then"
        layout = _Layout.of(share.uses, share.units, self.length, is_flat=self.is_flat)
        is_hole = (layout.row >= 0) & share.holes[layout.row]
        values = {self.tokens: self.eos or 0, "segments": PADDING, "positions": 0}
        values |= {} if self.mask is None else {self.mask: 0}
        for at in np.flatnonzero(is_hole).tolist():
            begin = int(layout.begins[at])
            for name, value in values.items():
                batch[name].reshape(-1)[begin : begin + int(layout.lengths[at])] = value

    def filled(self, share: ComposedShare) -> dict[str, int]:
        """Count the tokens and the padding of a share's sequences, as ``LoaderStats`` names them.

        A sequence that is repeated, on a rank that has none left, is not counted.
        """
        parts: Parts = share.uses
        tokens = int((parts.stop - parts.start).sum()) if share.valid else 0
        return {"packed_tokens": tokens, "padding_tokens": share.valid * self.length - tokens}

    def _check_lengths(self, name: str, parts: Parts, documents: SampleRanges) -> None:
        """Refuse documents whose lengths differ from the headers of their chunks."""
        lengths = documents.lengths[parts.row]
        ends = parts.stop - parts.has_eos
        wrong = (ends > lengths) | (parts.has_eos & (ends != lengths))
        if bool(wrong.any()):
            at = int(np.argmax(wrong))
            raise CorruptionError(
                f"a chunk of {name!r} has a document of {int(lengths[at])} tokens, and"
                f" {int(ends[at])} in its header\nthe dataset is damaged: run ds.check()",
                tensor=name,
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """The parts of a batch and its padding, in order; one number for each in every array."""

    row: Int64Array  # of the batch; FILL for padding
    start: Int64Array
    stop: Int64Array
    has_eos: NDArray[np.bool_]
    segment: NDArray[np.int32]
    lengths: Int64Array
    begins: Int64Array  # the place of its first token
    total: int  # tokens with padding
    padding: Int64Array  # the numbers of the parts that are padding

    @classmethod
    def of(cls, parts: Parts, units: int, length: int, *, is_flat: bool) -> _Layout:
        """Lay the parts of some sequences out, each followed by its padding.

        Flat sequences are followed by the padding of all.
        """
        lengths = parts.stop - parts.start
        counts = np.bincount(parts.unit, minlength=units)
        segment = np.arange(len(lengths)) - np.repeat(np.cumsum(counts) - counts, counts)
        filled = np.bincount(parts.unit, weights=lengths, minlength=units).astype(np.int64)
        at, room = np.cumsum(counts), length - filled
        if is_flat:
            at, room = at[-1:], room.sum(keepdims=True)
        at, room = at[room > 0], room[room > 0]  # where parts of padding are inserted
        laid = _Spread.of(len(lengths), at)
        lengths = laid.out(lengths, room)
        return cls(
            row=laid.out(parts.row, FILL),
            start=laid.out(parts.start, 0),
            stop=laid.out(parts.stop, room),
            has_eos=laid.out(parts.has_eos, False),  # noqa: FBT003 - a value of the array
            segment=laid.out(segment, PADDING).astype(np.int32),
            lengths=lengths,
            begins=np.cumsum(lengths) - lengths,
            total=units * length,
            padding=laid.others,
        )

    def join(
        self,
        documents: SampleRanges,
        eos: int | None,
        out: NDArray[np.generic],
        *,
        is_mask: bool = False,
    ) -> None:
        """Copy the parts of documents, with eos and padding.

        In a mask, the number at eos is that of the last token, and padding is 0.
        """
        fill = 0 if eos is None or is_mask else eos
        longest = int(self.lengths[self.padding].max(initial=1))
        constants = np.full(longest, fill, documents.dtype), np.zeros(1, documents.dtype)
        row, start, stop = self.row, self.start, self.stop
        ends = np.flatnonzero(self.has_eos)
        # eos is written over the element after the document, which is copied with it: half as many
        # parts. It is a part of its own after the last document of a chunk
        alone = ends[documents.is_last[row[ends]] | (is_mask & (stop[ends] - start[ends] == 1))]
        if len(alone):
            stop = stop.copy()
            stop[alone] -= 1
            first, one = np.int64(0), FILL
            if is_mask:
                last = stop[alone] - 1
                first, one = np.maximum(last, 0), np.where(last < 0, ZERO, row[alone])
            laid = _Spread.of(len(row), alone + 1)
            row, start, stop = laid.out(row, one), laid.out(start, first), laid.out(stop, first + 1)
        documents.join(row, start, stop, constants, out)
        if len(alone) < len(ends):
            places = (self.begins + self.lengths - 1)[np.setdiff1d(ends, alone)]
            out[places] = out[places - 1] if is_mask else fill

    def number(self, segments: NDArray[np.int32], positions: NDArray[np.int32]) -> None:
        """Write the document of each token, counted in its sequence, and its place in its part.

        Padding has segment −1 and position 0.
        """
        counted = _counted(self.total)
        begins = self.begins.astype(np.int32)
        for low, high, begin, end in blocks_of(self.lengths):
            lengths = self.lengths[low:high]
            segments[begin:end] = np.repeat(self.segment[low:high], lengths)
            starts = np.repeat(begins[low:high], lengths)
            np.subtract(counted[begin:end], starts, out=positions[begin:end])
        for at in self.padding.tolist():  # at most one for a sequence
            begin = int(self.begins[at])
            positions[begin : begin + int(self.lengths[at])] = 0

    def borders(self) -> NDArray[np.int32]:
        """Return where parts start, and the end of the last."""
        starts = np.append(self.begins, self.total)
        return np.delete(starts, self.padding + 1).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """Items with room for others between them."""

    own: Int64Array  # the new place of each item
    others: Int64Array  # the places in between

    @classmethod
    def of(cls, count: int, at: Int64Array) -> _Spread:
        """Make room before some of the items, in ascending order; ``count`` is after the last."""
        own = np.arange(count)
        if len(at):
            own += np.searchsorted(at, own, "right")
        return cls(own, at + np.arange(len(at)))

    def out(self, items: NDArray[Any], others: Any) -> NDArray[Any]:
        """Return the items and the others, each in its place."""
        if not len(self.others):
            return items
        spread = np.empty(len(self.own) + len(self.others), items.dtype)
        spread[self.own] = items
        spread[self.others] = others
        return spread


@lru_cache(maxsize=2)
def _counted(count: int) -> NDArray[np.int32]:
    """Return 0 … count - 1, which every batch subtracts from."""
    numbers = np.arange(count, dtype=np.int32)
    numbers.flags.writeable = False
    return numbers
