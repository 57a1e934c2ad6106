"""The plan of a mix: place ─► source and its row number ─► that source's own epoch and order.

    place ─► span ─► source s, the j-th row that it yields
                     j // rows of s = its epoch,  j % rows of s = the place in it
                     ─► the source's own AccessPlan ─► position, of all sources end to end

Sources are assigned evenly, so with as many sources of equal weight as a batch has rows, a rank's
share of every batch would always be of the same sources. So version 2 arranges the sources of a
short *stretch* of places at random (``plan/stretches.py``).

Each source has its own seed, so that two of equal size are shuffled differently, and its own
epochs: it yields each of its rows once before any row a second time, also across epochs of the mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.loader.plan.mix_order import Span
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.passes import Tail, check_after_splice
from tensorlake.loader.plan.plan import (
    STREAM_SHIFT,
    AccessPlan,
    PlanKey,
    build_access_plan,
    check_places,
    deal_by_block,
)
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.plan.shuffle import derive_words
from tensorlake.loader.plan.stretches import assign_in_stretches, counts_at, stretch_of
from tensorlake.loader.sources.mix.weights import (
    Spans,
    assign_places,
    count_taken,
    units_of,
)
from tensorlake.versions import distinct

__all__ = [
    "MixPlan",
    "PlannedSource",
    "SplicedMixPlan",
    "first_span",
    "source_seed",
]


SINGLE_ROWS = 64  # of a source that is not windowed, whose reads are planned together


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """One source in the order of a mix."""

    digest: str
    order: Order
    num_rows: int
    first_position: int  # of its rows among those of all sources, end to end


@dataclass(frozen=True, slots=True)
class MixPlan:
    """The order of one epoch of a mix.

    Attributes:
        sources: The sources.
        spans: Their weights.
        seed: The seed of all epochs.
        epoch: The epoch by which places are arranged.
        num_rows: Places of the epoch.
        version: Version of the plan.
        begin: The place at which it begins, of a mix that never stops and has a limit.
        end: The place at which the last stretch ends; None: with the epoch.
    """

    sources: tuple[PlannedSource, ...]
    spans: Spans
    seed: int
    epoch: int
    num_rows: int
    version: int
    begin: int = 0
    end: int | None = None

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position, over all sources end to end, at each of some places."""
        if not len(places):
            return places
        check_places(places, self.num_rows)
        source, given = self.assigned(places)
        positions = np.empty_like(places)
        ranked = np.lexsort((given, source))
        borders = np.searchsorted(source[ranked], np.arange(len(self.sources) + 1))
        for number in np.flatnonzero(np.diff(borders)).tolist():
            own = ranked[borders[number] : borders[number + 1]]
            positions[own] = self._positions_of(number, given[own])
        return positions

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a rank's share of a global batch.

        They are contiguous, unless a source is read by block; then those of a block go to one rank.
        """
        return deal_by_block(self, share)

    @property
    def reads_blocks(self) -> bool:
        """Whether the rows of some source are read block by block."""
        return any(source.order.reads_blocks for source in self.sources)

    def windows_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the window of each place; rows of other sources have windows of 64."""
        source, given = self.assigned(places)
        windows = given // SINGLE_ROWS
        for number in distinct(source).tolist():
            order, rows = self.sources[number].order, self.sources[number].num_rows
            if order.reads_blocks:
                own = source == number
                epochs, inside = np.divmod(given[own], rows)
                span = order.block * order.window
                windows[own] = epochs * -(-rows // span) + inside // span
        return windows + (source << STREAM_SHIFT)

    def blocks_of(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the block of each place, and the row there; rows of other sources are blocks."""
        source, given = self.assigned(places)
        blocks, offsets = given.copy(), np.zeros_like(given)
        for number in distinct(source).tolist():
            own = self.sources[number]
            if not own.order.reads_blocks:
                continue
            epochs, inside = np.divmod(given, own.num_rows)
            for epoch in distinct(epochs[source == number]).tolist():
                here = np.flatnonzero((source == number) & (epochs == epoch))
                slots, offsets[here] = self._epoch_of(number, epoch).blocks_of(inside[here])
                blocks[here] = slots + epoch * -(-own.num_rows // own.order.block)
        return blocks + (source << STREAM_SHIFT), offsets

    def _epoch_of(self, number: int, epoch: int) -> AccessPlan:
        """Return the order of an epoch of a source's own."""
        source = self.sources[number]
        seed = source_seed(self.seed, number, self.version)
        key = PlanKey(source.digest, source.order, seed, epoch)
        return build_access_plan(key, source.num_rows)

    def assigned(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source of each place, and how many rows it has yielded before."""
        source, given = np.empty_like(places), np.empty_like(places)
        if not len(places):
            return source, given
        ranked = np.argsort(places, kind="stable")
        ascending = places[ranked] + self.begin
        last = self.num_rows if self.end is None else self.end
        keys = derive_words(
            2, seed=self.seed, epoch=self.epoch, purpose="places", version=self.version
        )
        for span, start, stop in self.spans.between(int(ascending[0]), int(ascending[-1]) + 1):
            low, high = np.searchsorted(ascending, (start, stop))
            units, inside = units_of(span.weights), ascending[low:high]
            if self.version == 1:
                own, taken = assign_places(units, inside - span.start)
            else:
                end = min(self.spans.end_of(span), last)
                own, taken = assign_in_stretches(
                    units, inside, start=span.start, stop=end, keys=keys
                )
            source[ranked[low:high]] = own
            given[ranked[low:high]] = taken + np.array(span.taken)[own]
        return source, given

    def taken_at(self, place: int) -> tuple[int, ...]:
        """Return how many rows each source has yielded before a place, earlier epochs included."""
        place += self.begin
        span = self.spans.at(place)
        units, inside = units_of(span.weights), place - span.start
        if self.version == 1:
            counts = count_taken(units, inside)
        else:
            start = inside - inside % stretch_of(len(units))
            here, _ = self.assigned(np.arange(start, inside) + span.start - self.begin)
            counts = counts_at(units, np.array([start]))[0] + np.bincount(
                here, minlength=len(units)
            )
        return tuple(int(n) + before for n, before in zip(counts, span.taken, strict=True))

    def tail_of(self, number: int, taken: int) -> Tail[AccessPlan]:
        """Return the rows of a source from one on, by how many it has yielded before."""
        rows = self.sources[number].num_rows
        epoch, place = divmod(taken, rows)
        make = partial(self._epoch_of, number)
        return Tail(make(epoch), place, epoch, make, rows)

    def _positions_of(self, number: int, given: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map ordinals of yielded rows of a source, ascending, to positions."""
        source = self.sources[number]
        positions = np.empty_like(given)
        epochs, places = np.divmod(given, source.num_rows)
        borders = np.flatnonzero(np.diff(epochs)) + 1
        stops = [*borders.tolist(), len(given)] if len(given) else []
        start = 0
        for stop in stops:
            plan = self._epoch_of(number, int(epochs[start]))
            positions[start:stop] = plan.at(places[start:stop])
            start = stop
        return positions + source.first_position


@dataclass(frozen=True, slots=True)
class SplicedMixPlan:
    """The order of an epoch of a mix from a splice on.

    Attributes:
        tails: The passes of each source from there on: of rows, or of units.
        starts: The position of its first row among those of all sources, end to end.
        units: The sources' shares.
        first_place: The place of the splice.
        num_rows: Places of the epoch, those before the splice included.
        end: The place at which the last stretch ends.
        keys: Keys of the hash by which sources are arranged.
    """

    tails: tuple[Tail[Any], ...]
    starts: tuple[int, ...]
    units: tuple[int, ...]
    first_place: int
    num_rows: int
    end: int
    keys: tuple[int, ...]

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the position, over all sources end to end, at each of some places."""
        if not len(places):
            return places
        check_after_splice(places, self.first_place, self.num_rows)
        source, given = self.assigned(places)
        positions = np.empty_like(places)
        for number in distinct(source).tolist():
            own = source == number
            positions[own] = self.tails[number].at(given[own]) + self.starts[number]
        return positions

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a rank's share, which are contiguous."""
        return share.places

    def assigned(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the source of each place, and how many rows it has yielded since the splice."""
        return assign_in_stretches(
            self.units, places, start=self.first_place, stop=self.end, keys=self.keys
        )

    def taken_at(self, place: int) -> tuple[int, ...]:
        """Return how many rows each source has yielded between the splice and a place."""
        inside = place - self.first_place
        start = inside - inside % stretch_of(len(self.units))
        counts = counts_at(self.units, np.array([start]))[0]
        if start < inside:
            here, _ = self.assigned(np.arange(start, inside) + self.first_place)
            counts = counts + np.bincount(here, minlength=len(self.units))
        return tuple(counts.tolist())


def source_seed(seed: int, number: int, version: int) -> int:
    """Return the seed of a source's own orders."""
    return derive_words(1, seed=seed, epoch=0, purpose="source", stream=number, version=version)[0]


def first_span(weights: Sequence[float], places: int, epoch: int) -> Span:
    """Return the first span of an epoch: each epoch continues after the previous one.

    Args:
        weights: The weights at place 0.
        places: Places of every epoch; 0 for the first, or only one.
        epoch: The epoch.
    """
    counts = count_taken(units_of(weights), places)
    return Span(0, tuple(epoch * count for count in counts), tuple(weights))
