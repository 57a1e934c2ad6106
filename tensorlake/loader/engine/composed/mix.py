"""Composed mixes: the sequences of several sources in one order, by weights.

    place ─► the source, and how many of its sequences came before (``MixPlan.assigned``)
          ─► its own epoch and sequence ─► the documents of the source

A sequence has documents of one source. Weights are shares of tokens: of sequences that are cut,
equal numbers; of whole documents, each weight is divided by the mean tokens of a sequence of its
source. A place of any epoch is found without the lengths before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.engine.composed.parts import Parts
from tensorlake.loader.engine.composed.rows import (
    ComposedPlan,
    ComposedRows,
    ComposedSelection,
    inner_digest,
)
from tensorlake.loader.engine.composed.whole_sequences import WholeSequences
from tensorlake.loader.plan.mix_order import MixOrder, SourceOrder
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.passes import check_after_splice
from tensorlake.loader.sources.mix import MixNode, MixRows, MixSource, source_seed
from tensorlake.loader.sources.rows import SelectedRows
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.engine.composed.packing import Packing, TokenSequences
    from tensorlake.loader.engine.composed.rows import EpochUnits
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.order import Shuffle
    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
    from tensorlake.loader.plan.state import LoaderState, Place
    from tensorlake.loader.plan.virtual_columns import VirtualColumn
    from tensorlake.loader.sources.mix import MixPlan
    from tensorlake.loader.sources.mix.plan import SplicedMixPlan

__all__ = ["ComposedMix"]

KEPT_EPOCHS = 2  # of a source: a batch may have the end of one and the start of the next


@dataclass(frozen=True, slots=True)
class _UnitSelection(ComposedSelection):
    """The documents of a source, counted in sequences."""

    count: int
    mean: float  # tokens of a sequence

    @classmethod
    def of(cls, documents: Selection, units: TokenSequences, form: Packing) -> _UnitSelection:
        """Count the documents of a source in sequences."""
        return cls(documents, form.suffix, units.count, units.mean)

    @property
    def num_rows(self) -> int:
        """Number of sequences."""
        return self.count


@dataclass(frozen=True, eq=False)
class ComposedMix:
    """The documents of a mix, packed (``OrderedRows``).

    Attributes:
        documents: The mix.
        form: How documents become sequences.
        by_sequences: Whether weights are shares of sequences, however full, as states recorded
            before decision 0120.
    """

    documents: MixRows
    form: Packing
    by_sequences: bool = False
    source: None = None
    server: None = None
    _composed: dict[str, ComposedRows] = field(default_factory=dict[str, ComposedRows])

    @property
    def selection(self) -> Selection:
        """The documents of all sources, under the digest of their sequences."""
        digest = self.sequences.selection.digest
        return _MixedDocuments(self.documents.selection, self.form.suffix, digest)

    @property
    def reader(self) -> Reader:
        """Reader of the documents."""
        return self.documents.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """None: batches have tokens alone."""
        return {}

    @property
    def num_places(self) -> int:
        """Number of sequences."""
        return self.sequences.num_places

    @property
    def is_endless(self) -> bool:
        """Whether the mix never stops."""
        return self.documents.is_endless

    @cached_property
    def units(self) -> tuple[TokenSequences, ...]:
        """The sequences of each source."""
        found = [self.units_of(_rows_of(one)).units for one in self.documents.sources]
        return cast("tuple[TokenSequences, ...]", tuple(found))

    def units_of(self, rows: SelectedRows) -> ComposedRows:
        """Return the sequences of the rows of a source, whose lengths are read once."""
        digest = rows.selection.digest
        if digest not in self._composed:
            self._composed[digest] = ComposedRows(rows, self.form)
        return self._composed[digest]

    def of(self, documents: MixRows) -> ComposedMix:
        """Return the same sequences of other documents."""
        return replace(self, documents=documents)

    def weighed(self, weights: tuple[float, ...]) -> ComposedMix:
        """Return the same sequences by the weights that a state recorded, if an older one did."""
        older = replace(self, by_sequences=True)
        return older if weights == older.sequences.weights else self

    def spliced(self, plan: SplicedMixPlan) -> ComposedPlan:
        """Return the plan of sequences, whose sources are those of a plan of places."""
        rows = self.documents.selection.num_rows
        return ComposedPlan(rows, SplicedSequences(plan), self.form)

    @cached_property
    def sequences(self) -> MixRows:
        """The mix of sequences.

        Raises:
            InvalidInputError: A source has no tokens.
        """
        for source, units in zip(self.documents.sources, self.units, strict=True):
            if not units.count:
                raise InvalidInputError(
                    f"source {source.name!r} of the mix has no tokens in {self.form.tokens!r}"
                    "\nleave the source out"
                )
        sources = [
            replace(
                source,
                selection=_UnitSelection.of(source.selection, units, self.form),
                repin=None if source.repin is None else _Repin(source, self.form),
            )
            for source, units in zip(self.documents.sources, self.units, strict=True)
        ]
        documents, given = self.documents, tuple(sources)
        root, mean = _by_units(documents.root), None
        if not self.form.split and not self.by_sequences:  # cut ones are full, but for the last
            root, mean = documents.root, _mean_of
        return MixRows(given, root, first=documents.first, mean=mean, limit=documents.limit)

    def arranged(self, arrangement: Arrangement) -> ComposedMix:
        """Return the same sequences with at most ``limit`` of them per epoch.

        Raises:
            InvalidInputError: Another order is requested.
        """
        return replace(self, documents=self.documents.arranged(arrangement))

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Choose the order of each source."""
        mixed = self.sequences.choose(False, tensors, prefetch_nbytes=prefetch_nbytes)  # noqa: FBT003 - a value of shuffle
        sources: list[SourceOrder] = []
        for one, units in zip(mixed.sources, self.units, strict=True):
            order = units.arranger.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)
            assert isinstance(order, Order), "of the rows of one selection"
            sources.append(SourceOrder(one.name, one.version, order))
        return replace(mixed, sources=tuple(sources))

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> ComposedPlan:
        """Return the plan of one epoch."""
        assert isinstance(order, MixOrder), "of a mix"
        mixed = self.sequences.plan(order, seed=seed, epoch=epoch)
        starts = self.documents.selection.starts
        made = MixedEpoch(mixed, self.units, tuple(starts[:-1]))
        return ComposedPlan(self.documents.selection.num_rows, made, self.form)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order with the weights at a place."""
        return self.sequences.recorded(order, place)

    def describe(self, order: AnyOrder) -> str:
        """List the sources, their weights and orders."""
        form = self.form
        packed = f"packed into sequences of {form.length:,} tokens of {form.tokens!r}"
        counts: list[str] = []
        for source, units in zip(self.documents.sources, self.units, strict=True):
            filled = f", {units.filled}" if isinstance(units, WholeSequences) else ""
            counts.append(f"{units.count:,} of {source.name}{filled}")
        return f"{self.sequences.describe(order)}; {packed}: {'; '.join(counts)}"

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> ComposedMix:
        """Return to the versions that a state recorded, even if branches have moved on."""
        inner = replace(state, selection=inner_digest(state, self.form))
        older = replace(self, by_sequences=True)
        is_older = isinstance(state.order, MixOrder) and not older.sequences.differences(inner)
        sequences = (older if is_older else self).sequences
        moved = sequences.returned_to(inner, seed=seed, shuffle=shuffle)
        sources = tuple(_documents_of(one, own) for one, own in _pairs(moved, self.documents))
        documents = replace(self.documents, sources=sources, first=moved.first)
        return ComposedMix(documents, self.form, is_older)


@dataclass(frozen=True, slots=True)
class _MixedDocuments(ComposedSelection):
    """The documents of all sources, under the digest of their sequences."""

    of_sequences: str

    @property
    def digest(self) -> str:
        """Digest of the sequences and the form."""
        return self.of_sequences + self.suffix


@dataclass(frozen=True, eq=False)
class MixedEpoch:
    """The sequences of one epoch of a mix (``EpochUnits``)."""

    mixed: MixPlan
    units: tuple[TokenSequences, ...]
    starts: tuple[int, ...]  # of each source's documents among those of all
    epochs: OrderedDict[tuple[int, int], EpochUnits] = field(
        default_factory=OrderedDict[tuple[int, int], "EpochUnits"]
    )

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        source, given = self.mixed.assigned(places)
        found: list[tuple[Int64Array, tuple[Int64Array, Parts]]] = []
        for number in distinct(source).tolist():
            epochs, sequences = np.divmod(given, self.units[number].count)
            own = source == number
            for epoch in distinct(epochs[own]).tolist():
                at = np.flatnonzero(own & (epochs == epoch))
                rows, parts = self._epoch(number, epoch).find(sequences[at])
                found.append((at, (rows + self.starts[number], parts)))
        return Parts.together(found, source)

    def _epoch(self, number: int, epoch: int) -> EpochUnits:
        """Return the sequences of an epoch of a source, which are found once."""
        made = self.epochs.get((number, epoch))
        if made is None:
            plan = self.mixed
            seed = source_seed(plan.seed, number, plan.version)
            made = self.units[number].plan(plan.sources[number].order, seed=seed, epoch=epoch)
            self.epochs[number, epoch] = made
            if len(self.epochs) > KEPT_EPOCHS * len(self.units):
                self.epochs.popitem(last=False)
        return made


@dataclass(frozen=True, eq=False)
class SplicedSequences:
    """The sequences of an epoch of a mix from a splice on (``EpochUnits``)."""

    mixed: SplicedMixPlan

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        if len(places):
            check_after_splice(places, self.mixed.first_place, self.mixed.num_rows)
        source, given = self.mixed.assigned(places)
        found: list[tuple[Int64Array, tuple[Int64Array, Parts]]] = []
        for number in distinct(source).tolist():
            own, start = np.flatnonzero(source == number), self.mixed.starts[number]
            for which, one, inside in self.mixed.tails[number].passes(given[own]):
                rows, parts = one.find(inside)
                found.append((own[which], (rows + start, parts)))
        return Parts.together(found, source)


@dataclass(frozen=True, slots=True, eq=False)
class _Repin:
    """Opens another version of a source, counted in sequences."""

    source: MixSource
    form: Packing

    def __call__(self, version: str) -> tuple[Selection, Reader]:
        assert self.source.repin is not None, "only then"
        selection, reader = self.source.repin(version)
        units = self.form.units(SelectedRows(selection, reader))
        return _UnitSelection.of(selection, units, self.form), reader


def _mean_of(source: MixSource) -> float:
    assert isinstance(source.selection, _UnitSelection), "made here"
    return source.selection.mean


def _rows_of(source: MixSource) -> SelectedRows:
    return SelectedRows(source.selection, source.reader, edits=source.edits)


def _pairs(moved: MixRows, documents: MixRows) -> Any:
    return zip(moved.sources, documents.sources, strict=True)


def _documents_of(moved: MixSource, given: MixSource) -> MixSource:
    """Return a source of documents from one of sequences."""
    assert isinstance(moved.selection, ComposedSelection), "made here"
    return replace(given, selection=moved.selection.rows, reader=moved.reader)


def _by_units(node: MixNode) -> MixNode:
    """Return a mix by tokens as one by rows of equal numbers of tokens."""
    parts = [one if isinstance(one, int) else _by_units(one) for one in node.parts]
    stages = tuple((place, _by_units(one)) for place, one in node.stages)
    return replace(node, parts=tuple(parts), by_tokens=False, stages=stages)
