"""The rest of an epoch of packed rows, at a splice.

    cut      tokens until the splice ─► the document under way, from its next token on
                                     ─► the others in their order, as rows are spliced
    whole    pieces of documents that came ─► all other pieces, placed again by best fit

Values are those of the new version. The document under way continues at the token that comes next;
if it is gone, or is shorter now, it ends where it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.loader.engine.composed.cut_sequences import CutEpoch, CutSequences
from tensorlake.loader.engine.composed.parts import Parts, listed
from tensorlake.loader.engine.composed.rows import ComposedPlan
from tensorlake.loader.engine.composed.whole_sequences import (
    POSITION,
    Placed,
    WholeEpoch,
    WholeSequences,
)
from tensorlake.loader.plan.arrangement import ArrangedOrder, GroupedPlan
from tensorlake.loader.plan.passes import GroupsPlan, check_after_splice, group_rest
from tensorlake.loader.sources.arrangement import Given, RowItems, SpliceKey, edits_of
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.engine.composed.rows import Form
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.passes import PassesPlan
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.splice import Cut
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["CutItems", "WholeItems", "sequence_items"]


def sequence_items(form: Form, rows: SelectedRows, units: Any) -> CutItems | WholeItems:
    """Return the items of a pass over sequences, which are not drawn by weights."""
    if isinstance(units, CutSequences):
        return CutItems(form, rows, units)
    assert isinstance(units, WholeSequences), "weights are refused"
    return WholeItems(form, rows, units)


@dataclass(frozen=True, eq=False)
class CutPass:
    """A pass of sequences of documents that are cut, or the rest of one.

    Attributes:
        epoch: Its sequences.
        documents: The order of documents.
        first: The first document of that order that begins in it.
    """

    epoch: CutEpoch
    documents: Plan
    first: int = 0

    @property
    def num_rows(self) -> int:
        """Number of sequences, those before a splice included."""
        return self.epoch.num_rows

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        return self.epoch.find(places)

    def begun(self, place: int) -> int:
        """Return the place, among documents, of the first that begins at a sequence or later."""
        number, _, before = self.epoch.reached(place)
        return self.first + number - (self.epoch.offset > 0) + (before > 0)


@dataclass(frozen=True, eq=False)
class CutItems:
    """Documents that are cut into sequences (``Items``)."""

    form: Form
    rows: SelectedRows
    units: CutSequences

    @property
    def length(self) -> int:
        """Sequences of a pass."""
        return self.units.once

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> CutPass:
        """Return the sequences of a pass."""
        documents = self._documents.once(order, seed=seed, epoch=epoch)
        return CutPass(CutEpoch(self.units, partial(listed, documents)), documents)

    def rest(self, given: Sequence[Given], cut: Cut, key: SpliceKey) -> tuple[CutItems, CutPass]:
        """Return the rest of a pass: the document under way, then all that have not begun."""
        own = [_documents_of(one) for one in given]
        items, old = given[-1].items, given[-1].plan
        first = old.begun(cut.place)
        here = replace(cut, place=first, num_rows=old.documents.num_rows)
        _, documents = self._documents.rest(own, here, key)
        positions = documents.at(np.arange(first, documents.num_rows))
        _, position, offset = old.epoch.reached(cut.place)
        if offset:
            moved = edits_of(self.rows).moved(items.rows.selection, self.rows.selection)
            now = moved(np.array([position]))
            if now[0] >= 0 and self.units.lengths[now[0]] > offset:
                positions = np.concatenate([now, positions])
            else:
                offset = 0
        epoch = CutEpoch(self.units, lambda: positions, cut.place, offset)
        return self, CutPass(epoch, documents, first)

    def plan(self, passes: PassesPlan, *, is_one: bool) -> ComposedPlan:
        """Return the plan of an epoch from a splice on."""
        del is_one
        return ComposedPlan(self.rows.selection.num_rows, SequencePasses(passes), self.form)

    @property
    def _documents(self) -> RowItems:
        return RowItems(self.rows, self.units.arranger)


def _documents_of(given: Given) -> Given:
    """Return the documents that had begun in some sequences."""
    plan: CutPass = given.plan
    places = range(plan.first, plan.begun(given.places.stop))
    return Given(RowItems(given.items.rows), plan.documents, places)


@dataclass(frozen=True, eq=False)
class WholePass:
    """A pass of sequences of whole documents, or the rest of one.

    Attributes:
        placed: The sequences.
        order: The order in which they come.
        form: The documents.
        first_place: The place of the first.
    """

    placed: Placed
    order: Plan
    epoch: WholeEpoch
    first_place: int = 0

    @property
    def num_rows(self) -> int:
        """Number of sequences, those before a splice included."""
        return self.first_place + self.order.num_rows

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        return self.epoch.find(places - self.first_place)

    def pieces(self, start: int, stop: int) -> Int64Array:
        """Return the pieces at some places, in order."""
        places = np.arange(start, stop) - self.first_place
        return self.placed.of(self.order.at(places))[1]

    def group_end(self, place: int) -> int | None:
        """Return where the group of a place ends; None: the order has no groups."""
        if not isinstance(self.order, GroupedPlan | GroupsPlan):
            return None
        return self.first_place + self.order.group_end(place - self.first_place)


@dataclass(frozen=True, eq=False)
class WholeItems:
    """Documents that are placed into sequences whole (``Items``)."""

    form: Form
    rows: SelectedRows
    units: WholeSequences

    @property
    def length(self) -> int:
        """Sequences of a pass."""
        return self.units.placed.count

    def once(self, order: AnyOrder, *, seed: int, epoch: int) -> WholePass:
        """Return the sequences of a pass."""
        return _whole_pass(self.units, self.units.arranger.once(order, seed=seed, epoch=epoch))

    def rest(
        self, given: Sequence[Given], cut: Cut, key: SpliceKey
    ) -> tuple[WholeItems, WholePass]:
        """Return the rest of a pass: all pieces that it has not given, placed again."""
        seen = [
            self._moved(one, one.plan.pieces(one.places.start, one.places.stop)) for one in given
        ]
        left = self.units.without(self.rows, distinct(np.concatenate(seen)))
        old: WholePass = given[-1].plan
        end, order = old.group_end(cut.place - 1), cut.order
        if end is None:
            plan = left.arranger.once(order, seed=key.seed, epoch=key.epoch)
        else:
            assert isinstance(order, ArrangedOrder), "grouped"
            under_way = self._moved(given[-1], old.pieces(cut.place, end))
            shuffle = (key.seed, key.epoch, key.number) if order.base.is_shuffled else None
            numbers, none = _sequences_with(left.placed, under_way), np.zeros(0, np.int64)
            plan = group_rest(left.arranger.groups, none, numbers, place=0, shuffle=shuffle)
        return self, _whole_pass(left, plan, cut.place)

    def plan(self, passes: PassesPlan, *, is_one: bool) -> ComposedPlan:
        """Return the plan of an epoch from a splice on."""
        del is_one
        return ComposedPlan(self.rows.selection.num_rows, SequencePasses(passes), self.form)

    def _moved(self, given: Given, pieces: Int64Array) -> Int64Array:
        """Return pieces of earlier items by the positions that their documents have now."""
        moved = edits_of(self.rows).moved(given.items.rows.selection, self.rows.selection)
        positions = moved(pieces & POSITION)
        is_there = positions >= 0
        return positions[is_there] + (pieces[is_there] & ~POSITION)


def _whole_pass(units: WholeSequences, order: Plan, first_place: int = 0) -> WholePass:
    epoch = WholeEpoch(units.form, lambda: (units.placed, listed(order)))
    return WholePass(units.placed, order, epoch, first_place)


def _sequences_with(placed: Placed, pieces: Int64Array) -> Int64Array:
    """Return the sequence of the first of some pieces that is there; none if none is."""
    there = pieces[np.isin(pieces, placed.members)]
    at = np.flatnonzero(placed.members == there[0]) if len(there) else np.zeros(0, np.int64)
    return np.searchsorted(placed.starts, at, "right") - 1


@dataclass(frozen=True, eq=False)
class SequencePasses:
    """The sequences of an epoch from a splice on (``EpochUnits``)."""

    passes: PassesPlan

    def find(self, places: Int64Array) -> tuple[Int64Array, Parts]:
        """Return the documents that some sequences need, and their parts."""
        own = self.passes
        if len(places):
            check_after_splice(places, own.first_place, own.num_rows)
        divided = own.tail.passes(places - own.first_place)
        return Parts.together((which, one.find(inside)) for which, one, inside in divided)
