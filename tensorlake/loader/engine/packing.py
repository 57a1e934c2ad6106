"""Packing: documents of an epoch's order, end to end, cut into sequences of one length.

    documents    d0 d0 d0 ¶ d1 ¶ d2 d2 d2 d2 d2 ¶ d3 …        in the order of the plan, ¶ = eos
    sequences    d0 d0 d0 ¶ │ d1 ¶ d2 d2 │ d2 d2 d2 ¶ │ …      4 tokens each
    segments      0  0  0 0 │  0 0  1  1 │  0  0  0 0
    positions     0  1  2 3 │  0 1  0  1 │  0  1  2 3

A place of a packed epoch is a sequence, so batches, ranks and states count sequences: a state is
exact on any number of ranks, and names (document, offset) by the running sum of lengths in the
order of the plan. A rank reads the documents that its sequences cut; two ranks both read one that
lies across their border. No token is lost or doubled; the last sequence of an epoch is padded.

Lengths come from the headers of chunks, once a loader: 8 bytes a document, and 8 more an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, StateMismatchError
from tensorlake.loader.config.batch_schema import VALID
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.sources.rows import SelectedRows, rows_of_version

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.order import Order, Shuffle
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection, Snapshot
    from tensorlake.loader.plan.state import LoaderState
    from tensorlake.loader.plan.virtual_columns import VirtualColumn

__all__ = ["PackedPlan", "PackedRows", "PackedShare", "Packing"]

BLOCK_ROWS = 1 << 16  # documents whose lengths are looked up together
PADDING = -1  # the segment of padding


@dataclass(frozen=True, slots=True)
class Packing:
    """How documents become sequences.

    Attributes:
        tokens: The column of tokens, one array per document.
        length: Tokens of a sequence.
        eos: The token after each document; None: none.
        mask: A column of one number per token, packed alike; None: none.
        dtype: Dtype of packed tokens; None: as stored.
        is_flat: Whether sequences come end to end, with ``cu_seqlens``.
    """

    tokens: str
    length: int
    eos: int | None
    mask: str | None
    dtype: np.dtype | None = None
    is_flat: bool = False

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides which tokens a sequence has."""
        return f"+pack {self.tokens} {self.length} eos={self.eos}"

    def pack(self, share: Share, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Make the batch of a share's sequences from its documents.

        Raises:
            InvalidInputError: A mask does not have one number per token.
        """
        assert isinstance(share, PackedShare)
        kept = share.stops > share.starts  # an empty document without eos has no token
        taken = (share.stops - share.starts)[kept]
        shape = (share.sequences, self.length)
        total = share.sequences * self.length
        # of each token: its document, the document's first token here, and the sequence's
        document = np.repeat(np.arange(len(taken), dtype=np.int32), taken)
        first = np.repeat(np.cumsum(taken) - taken, taken)
        index = np.arange(len(document))
        segments = np.full(total, PADDING, dtype=np.int32)
        segments[: len(document)] = document - document[index - index % self.length]
        positions = np.zeros(total, dtype=np.int32)
        positions[: len(document)] = index - np.maximum(first, index - index % self.length)
        tokens = self._joined(share, batch[self.tokens], total)
        packed: dict[str, NDArray[Any]] = {}
        packed[self.tokens] = tokens if self.dtype is None else tokens.astype(self.dtype)
        if self.mask is not None:
            self._check_mask(batch[self.tokens], batch[self.mask])
            packed[self.mask] = self._joined(share, batch[self.mask], total, is_mask=True)
        packed |= {"segments": segments, "positions": positions}
        if self.is_flat:
            starts = np.flatnonzero(positions[: len(document)] == 0)
            packed["cu_seqlens"] = np.append(starts, len(document)).astype(np.int32)
        else:
            packed = {name: values.reshape(shape) for name, values in packed.items()}
        if VALID in batch:
            packed[VALID] = np.full(share.sequences, share.valid > 0)
        return packed

    def _joined(
        self,
        share: PackedShare,
        documents: Sequence[NDArray[Any]],
        total: int,
        *,
        is_mask: bool = False,
    ) -> NDArray[Any]:
        """Return the share's part of documents, each followed by eos, padded to a size.

        In a mask, the number at eos is that of the last token.
        """
        dtype = np.asarray(documents[0]).dtype if len(documents) else np.dtype("int64")
        fill = np.full(1, 0 if self.eos is None or is_mask else self.eos, dtype=dtype)
        parts: list[NDArray[Any]] = []
        ranges = zip(documents, share.starts.tolist(), share.stops.tolist(), strict=True)
        for document, start, stop in ranges:
            parts.append(document[start:stop])
            if stop > len(document):  # only where there is an eos
                parts.append(document[-1:] if is_mask and len(document) else fill)
        joined = np.concatenate([np.empty(0, dtype), *parts])
        return np.concatenate([joined, np.repeat(fill, total - len(joined))])

    def _check_mask(self, tokens: Sequence[NDArray[Any]], masks: Sequence[NDArray[Any]]) -> None:
        for one, mask in zip(tokens, masks, strict=True):
            if len(one) != len(mask):
                raise InvalidInputError(
                    f"mask={self.mask!r} has {len(mask)} numbers for a document of {len(one)}"
                    f" tokens of {self.tokens!r}\nstore one number per token",
                    tensor=self.mask,
                    expected=len(one),
                    actual=len(mask),
                )


@dataclass(frozen=True, slots=True)
class PackedShare(Share):
    """The documents of one rank's sequences: places, and tokens [start, stop) of each.

    ``start``, ``stop`` and all that a state counts are of sequences.
    """

    documents: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    starts: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    stops: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def sequences(self) -> int:
        """Number of sequences."""
        return self.stop - self.start

    @property
    def places(self) -> Int64Array:
        """The places of its documents."""
        return self.documents

    def __len__(self) -> int:
        return len(self.documents)


@dataclass(frozen=True)
class PackedPlan:
    """The documents of one epoch, in order, and the sequences that they make."""

    documents: Plan
    lengths: Int64Array  # by position, eos included
    packing: Packing

    @property
    def num_rows(self) -> int:
        """Number of documents."""
        return self.documents.num_rows

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position of each of some documents."""
        return self.documents.at(places)

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a share's documents."""
        return share.places

    def unpack(self, share: Share) -> PackedShare:
        """Find the documents of a share of sequences."""
        ends = self._ends
        begin = share.start * self.packing.length
        end = min(share.stop * self.packing.length, int(ends[-1]))
        first = int(np.searchsorted(ends, begin, "right"))
        last = int(np.searchsorted(ends, end, "left")) + 1
        documents = np.arange(first, last)
        origins = ends[first:last] - self.lengths[self.documents.at(documents)]
        starts = np.maximum(begin - origins, 0)
        stops = np.minimum(end, ends[first:last]) - origins
        own = {one.name: getattr(share, one.name) for one in fields(Share)}
        return PackedShare(**own, documents=documents, starts=starts, stops=stops)

    @cached_property
    def _ends(self) -> Int64Array:
        """Where each document ends in the tokens of the epoch."""
        ends = np.empty(self.num_rows, dtype=np.int64)
        for start in range(0, self.num_rows, BLOCK_ROWS):
            places = np.arange(start, min(start + BLOCK_ROWS, self.num_rows))
            ends[places] = self.lengths[self.documents.at(places)]
        return np.cumsum(ends, out=ends)


@dataclass(frozen=True, slots=True)
class PackedSelection:
    """A selection of documents under another digest: places of its states are sequences."""

    documents: Selection
    suffix: str

    @property
    def snapshot(self) -> Snapshot:
        """The version."""
        return self.documents.snapshot

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its tensors."""
        return self.documents.columns

    @property
    def num_rows(self) -> int:
        """Number of documents."""
        return self.documents.num_rows

    @property
    def digest(self) -> str:
        """Digest of the documents and the packing."""
        return self.documents.digest + self.suffix

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions to rows of the version."""
        return self.documents.row_numbers(positions)

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions to physical rows."""
        return self.documents.physical(positions)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """The documents of a selection, packed (``OrderedRows``)."""

    rows: SelectedRows
    packing: Packing
    source: None = None
    server: None = None
    is_endless: bool = False

    @property
    def selection(self) -> Selection:
        """The documents."""
        return PackedSelection(self.rows.selection, self.packing.suffix)

    @property
    def reader(self) -> Reader:
        """Reader of the documents."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """None: a batch has tokens alone."""
        return {}

    @property
    def num_places(self) -> int:
        """Number of sequences."""
        return -(-self._tokens // self.packing.length)

    @cached_property
    def _tokens(self) -> int:
        return int(self.lengths.sum())

    @cached_property
    def lengths(self) -> Int64Array:
        """Tokens of each document by position, eos included.

        Raises:
            InvalidInputError: A document is NULL.
        """
        selection, name = self.rows.selection, self.packing.tokens
        lengths = np.empty(selection.num_rows, dtype=np.int64)
        for start in range(0, len(lengths), BLOCK_ROWS):
            positions = np.arange(start, min(start + BLOCK_ROWS, len(lengths)))
            lengths[positions] = self.reader.shapes(name, selection.physical(positions))[:, 0]
        if bool((lengths < 0).any()):
            raise InvalidInputError(
                f"{name!r} is NULL at position {int(np.argmax(lengths < 0))}, and NULL has no"
                f" tokens\npack the others: ds.query('WHERE \"{name}\" IS NOT NULL').pack(…)",
                tensor=name,
            )
        return lengths + (self.packing.eos is not None)

    def choose(self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int) -> Order:
        """Choose the order of documents."""
        return self.rows.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> PackedPlan:
        """Return the plan of one epoch."""
        documents = self.rows.plan(order, seed=seed, epoch=epoch)
        return PackedPlan(documents, self.lengths, self.packing)

    def recorded(self, order: AnyOrder, position: int) -> AnyOrder:
        """Return the order, which is the same at every position."""
        return self.rows.recorded(order, position)

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of documents and the sequences."""
        packing = self.packing
        return (
            f"{self.rows.describe(order)}, packed into {self.num_places:,} sequences of"
            f" {packing.length:,} tokens of {packing.tokens!r}"
        )

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> PackedRows:
        """Return to the version that a state recorded.

        Raises:
            StateMismatchError: It is of other documents, or they were packed in another way.
        """
        inner, plus, suffix = state.selection.partition("+")
        if plus + suffix != self.packing.suffix:
            recorded = suffix or "not packed"
            raise StateMismatchError(
                "the state belongs to sequences that were packed in another way:"
                f"\n   pack  recorded {recorded!r}, given {self.packing.suffix[1:]!r}"
                "\npack with the recorded arguments, or start over without load_state_dict()",
                expected=recorded,
                actual=self.packing.suffix[1:],
            )
        own = self.rows.selection
        if inner != own.digest and self.rows.repin is not None:
            own, _ = rows_of_version(self.rows.repin, state.version, given=own.snapshot)
        documents = replace(state, selection=inner, num_rows=own.num_rows)
        rows = self.rows.returned_to(documents, seed=seed, shuffle=shuffle)
        return self if rows is self.rows else PackedRows(rows, self.packing)
