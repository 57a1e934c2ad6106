"""``SplicedRows``: rows that were changed while a loader reads them; ``loader.advance()``.

    advanced    the rows of an edit ─► a cut at the loader's place ─► SplicedRows
    returned    a state ─► the rows of each of its edits ─► the same SplicedRows

Only the epoch under way has cuts. The next one is an epoch of the new rows, as any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, StateMismatchError, shown
from tensorlake.loader.plan.arrangement import ArrangedOrder
from tensorlake.loader.plan.mix_order import AnyOrder
from tensorlake.loader.plan.order import Order, Shuffle
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
from tensorlake.loader.plan.splice import BaseOrder, Cut, Edit, SplicedOrder, splice_plan
from tensorlake.loader.plan.state import LoaderState, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.arrangement.rows import ArrangedRows, arranged
from tensorlake.loader.sources.rows import Edits, OrderedRows, SelectedRows, refuse_staged

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.sources.remote import BatchServer

__all__ = ["SplicedRows", "advanced", "edited", "returned"]

CUTS_NBYTES_MAX = 4096
"""The most bytes of the edits and cuts in a state."""
LISTED = 1 << 20
GivenRows = SelectedRows | ArrangedRows


@dataclass(frozen=True, eq=False)
class SplicedRows:
    """Rows of a view by an edit, and those that the epoch under way read before.

    Attributes:
        given: The rows that the loader was made of.
        rows: The rows now.
        before: The rows before each cut.
        order: The order, with the edit and the cuts.
        seed: The seed.
        place: The loader's place: in other epochs there are no cuts.
    """

    given: GivenRows
    rows: GivenRows
    before: tuple[GivenRows, ...]
    order: SplicedOrder
    seed: int
    place: Place
    is_endless: bool = False
    _plans: dict[int, Plan] = field(default_factory=dict[int, Plan])

    @property
    def selection(self) -> Selection:
        """The rows now."""
        return self.rows.selection

    @property
    def reader(self) -> Reader:
        """Reader of the rows now."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """Columns that are not tensors."""
        return self.rows.virtual

    @property
    def source(self) -> Mapping[str, Any] | None:
        """How to find the rows that the loader was made of."""
        return self.given.source

    @property
    def server(self) -> BatchServer | None:
        """None: a server does not know what was read before."""
        return None

    @property
    def num_places(self) -> int:
        """Places of the loader's epoch: those before a splice, and the rest."""
        return self.places_of(self.place.epoch)

    def places_of(self, epoch: int) -> int:
        """Return the number of places of an epoch."""
        if not self.order.at(epoch).cuts:
            return self.rows.num_places
        return self.plan(self.order, seed=self.seed, epoch=epoch).num_rows

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Return the order, which was chosen by the splice."""
        del shuffle, tensors, prefetch_nbytes
        return self.order

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch; of the spliced one it is found once."""
        del order  # of a loader that has these rows it is theirs
        if not self.order.at(epoch).cuts:
            return self.rows.plan(self.order.base, seed=seed, epoch=epoch)
        if seed not in self._plans:
            self._plans[seed] = self._spliced(seed, epoch)
        return self._plans[seed]

    def _spliced(self, seed: int, epoch: int) -> Plan:
        plan = self.before[0].plan(self.order.cuts[0].order, seed=seed, epoch=epoch)
        edits, given = _edits_of(self.given), list[tuple[Selection, Plan, range]]()
        following, start = (*self.before[1:], self.rows), 0
        pairs = zip(self.order.cuts, self.before, following, strict=True)
        for number, (cut, old, new) in enumerate(pairs):
            changes = edits.changes(old.selection, new.selection)
            if len(changes.added) and given:  # rows that come back may have been given already
                seen = [_given(edits, *one, new.selection) for one in given]
                added = np.setdiff1d(changes.added, np.concatenate(seen))
                changes = replace(changes, added=added)
            given.append((old.selection, plan, range(start, cut.place)))
            start = cut.place
            plan = splice_plan(plan, changes, cut, number=number, seed=seed, epoch=epoch)
        return plan

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order as it is at a place."""
        del order
        return self.order.at(place.epoch)

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of the rows now, and where the epoch was spliced."""
        del order
        described = self.rows.describe(self.order.base)
        cuts = self.order.at(self.place.epoch).cuts
        where = ", ".join(f"{cut.place:,}" for cut in cuts)
        return f"{described}; spliced at place {where} of this epoch" if cuts else described

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> OrderedRows:
        """Return to a state of the rows that the loader was made of."""
        return self.given.returned_to(state, seed=seed, shuffle=shuffle)


def edited(
    edit: Edit, *, version: Any = None, mix: Any = None, where: Any = None, without: Any = None
) -> Edit:
    """Return the edit that the arguments of ``advance()`` ask for.

    Raises:
        InvalidInputError: They are not strings, or none is given.
    """
    if mix is not None:
        raise InvalidInputError(
            "advance(mix=…) is not implemented yet\nbegin the next epoch with a loader of the new"
            " mix; a mix that changes at known places is tl.mix(…, stages=[(place, mix), …])",
            argument="mix",
        )
    for name, value in (("version", version), ("where", where), ("without", without)):
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(
                f"advance(): {name} is a string, got {shown(value)}", argument=name, actual=value
            )
    if version is None and where is None and without is None:
        raise InvalidInputError(
            "advance() is given neither a version nor a condition"
            "\nwrite loader.advance('main@57'), or loader.advance(where='label != 3')"
        )
    if version is not None:
        edit = replace(edit, version=version)
    if without is not None:
        edit = replace(edit, without=(*edit.without, without))
    return edit if where is None else replace(edit, where=where.strip() or None)


def advanced(
    rows: OrderedRows,
    change: Callable[[Edit], Edit],
    arguments: LoaderArguments,
    order: AnyOrder,
    seed: int,
    place: Place,
) -> SplicedRows:
    """Return the rows with which a loader continues at its place.

    Args:
        rows: Its rows.
        change: Returns the new edit for the one in force.
        arguments: The loader's arguments.
        order: Its order.
        seed: Its seed.
        place: Its place.

    Raises:
        InvalidInputError: Rows of this order cannot be spliced.
    """
    given, now = (rows.given, rows.rows) if isinstance(rows, SplicedRows) else (rows, rows)
    given, now = _checked(given), _checked(now)
    refuse_staged(now.selection.snapshot)
    version = now.selection.snapshot.version
    old = order.edit if isinstance(order, SplicedOrder) else Edit(version)
    base = order.base if isinstance(order, SplicedOrder) else order
    assert isinstance(base, Order | ArrangedOrder), "of one selection"
    cuts = order.at(place.epoch).cuts if isinstance(order, SplicedOrder) else ()
    before = rows.before[: len(cuts)] if isinstance(rows, SplicedRows) else ()
    edit = change(old)
    new = _rows_of(edit, given, arguments)
    edit = replace(edit, version=new.selection.snapshot.version)
    if place.position:
        cuts = (
            *cuts,
            Cut(place.position, rows.num_places, old, now.selection.digest, base),
        )
        before = (*before, now)
    tensors = tuple(name for name in new.selection.columns)
    chosen = new.choose(arguments.shuffle, tensors, prefetch_nbytes=arguments.prefetch_nbytes)
    assert isinstance(chosen, Order | ArrangedOrder), "of one selection"
    spliced = SplicedOrder(_of_kind(chosen, base), edit, place.epoch if cuts else 0, cuts)
    if len(json.dumps(spliced.to_json())) > CUTS_NBYTES_MAX:
        raise InvalidInputError(
            f"advance(): the {len(cuts)} splices of this epoch would take more than"
            f" {CUTS_NBYTES_MAX:,} bytes of a state\nadvance again when the epoch is over:"
            " loader.set_epoch(loader.epoch + 1)"
        )
    return SplicedRows(given, new, before, spliced, seed, place)


def returned(
    rows: OrderedRows, state: LoaderState, arguments: LoaderArguments, place: Place
) -> OrderedRows:
    """Return the rows of a state, which may be spliced.

    Raises:
        StateMismatchError: It belongs to other rows.
    """
    order = state.order
    if not isinstance(order, SplicedOrder):
        return rows.returned_to(state, seed=arguments.seed, shuffle=arguments.shuffle)
    given = _checked(rows.given if isinstance(rows, SplicedRows) else rows)
    refuse_staged(given.selection.snapshot)
    now = _rows_of(order.edit, given, arguments)
    before = tuple(_rows_of(cut.edit, given, arguments) for cut in order.cuts)
    for cut, old in zip(order.cuts, before, strict=True):
        _check_digest(cut.edit, cut.selection, old.selection.digest)
    _check_digest(order.edit, state.selection, now.selection.digest)
    spliced = SplicedRows(given, now, before, order, state.seed, place)
    check_state(
        state,
        version=now.selection.snapshot.version,
        selection=now.selection.digest,
        num_rows=spliced.places_of(state.epoch),
        seed=arguments.seed,
        shuffle=arguments.shuffle,
    )
    return spliced


def _checked(rows: OrderedRows) -> GivenRows:
    """Refuse rows whose order has no rest that could go on.

    Raises:
        InvalidInputError: They are of a mix, composed, drawn by weights, grouped, or repeated.
    """
    if not isinstance(rows, SelectedRows | ArrangedRows):
        raise InvalidInputError(
            "advance() is for the rows of one dataset or view, and this loader reads a mix, packed"
            " rows or windows\nbegin its next epoch with a new loader, at loader.epoch"
        )
    own = rows.arranger.arrangement if isinstance(rows, ArrangedRows) else None
    if own is not None and (own.is_drawn or own.rule == "grouped"):
        raise InvalidInputError(
            f"advance(): an order by {own.argument}= has no rest that could continue with others"
            "\nbegin its next epoch with a new loader, at loader.epoch",
            argument=own.argument,
        )
    if own is not None and (own.repeat > 1 or own.limit is not None):
        name = "limit" if own.repeat == 1 else "repeat"
        raise InvalidInputError(
            f"advance(): with {name}= a row may still come in an epoch, or not at all"
            f"\nmake the loader without {name}=",
            argument=name,
        )
    return rows


def _rows_of(edit: Edit, given: GivenRows, arguments: LoaderArguments) -> GivenRows:
    """Return the rows of an edit, in the order that a loader's arguments ask for."""
    rows = arranged(_edits_of(given).rows(edit), arguments)
    assert isinstance(rows, SelectedRows | ArrangedRows), "as the rows that were given"
    return rows


def _edits_of(rows: GivenRows) -> Edits:
    edits = (rows.rows if isinstance(rows, ArrangedRows) else rows).edits
    if edits is None:
        raise InvalidInputError(
            "advance() is for loaders that ds.torch(), ds.jax() or ds.loader() made in this process"
        )
    return edits


def _of_kind(chosen: BaseOrder, base: BaseOrder) -> BaseOrder:
    """Return an order of the version of the plan by which the epoch began."""
    if isinstance(chosen, ArrangedOrder):
        return replace(chosen, base=replace(chosen.base, version=base.version))
    return replace(chosen, version=base.version)


def _given(edits: Edits, old: Selection, plan: Plan, places: range, new: Selection) -> Int64Array:
    """Return the positions in a new selection of the rows that some places gave."""
    moved, found = edits.moved(old, new), [np.zeros(0, np.int64)]
    for start in range(places.start, places.stop, LISTED):
        some = np.arange(start, min(start + LISTED, places.stop))
        positions = moved(plan.at(some))
        found.append(positions[positions >= 0])
    return np.concatenate(found)


def _check_digest(edit: Edit, recorded: str, found: str) -> None:
    if recorded != found:
        raise StateMismatchError(
            f"the state belongs to another selection of {edit.version}:"
            f"\n   selection  recorded {recorded!r}, given {found!r}"
            "\nmake the loader from the same view, or start over without load_state_dict()",
            expected=recorded,
            actual=found,
        )
