"""``SplicedRows``: rows that were changed while a loader reads them; ``loader.advance()``.

    advanced    the rows of an edit ─► a cut at the loader's place ─► SplicedRows
    returned    a state ─► the rows of each of its edits ─► the same SplicedRows

Only the epoch under way has cuts. The next one is an epoch of the new rows, as any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeGuard

from tensorlake.errors import InvalidInputError, StateMismatchError, shown
from tensorlake.loader.plan.arrangement import ArrangedOrder
from tensorlake.loader.plan.mix_order import AnyOrder
from tensorlake.loader.plan.order import Order, Shuffle
from tensorlake.loader.plan.passes import PassesPlan, Tail
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.selection import Reader, Selection
from tensorlake.loader.plan.splice import BaseOrder, Cut, Edit, SplicedOrder
from tensorlake.loader.plan.state import LoaderState, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.arrangement.items import (
    Given,
    Items,
    RowItems,
    SpliceKey,
    edits_of,
    tail_of,
)
from tensorlake.loader.sources.arrangement.rows import ArrangedRows, arranged
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows, refuse_staged

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.arrangement import Arrangement
    from tensorlake.loader.sources.remote import BatchServer

__all__ = [
    "CUTS_NBYTES_MAX",
    "GivenRows",
    "SplicedRows",
    "UnitRows",
    "advanced_rows",
    "check_digest",
    "edited",
    "items_of",
    "returned_rows",
]

CUTS_NBYTES_MAX = 4096
"""The most bytes of the edits and cuts in a state."""


class UnitRows(OrderedRows, Protocol):
    """Rows of one selection that are made into units: packed sequences and windows."""

    @property
    def rows(self) -> SelectedRows:
        """The rows."""
        ...

    @property
    def form(self) -> Any:
        """How they become units."""
        ...

    @property
    def arrangement(self) -> Arrangement:
        """The order of units."""
        ...

    @property
    def items(self) -> Items:
        """The items of a pass."""
        ...

    def of(self, rows: SelectedRows) -> Self:
        """Return the same units of other rows."""
        ...


GivenRows: TypeAlias = SelectedRows | ArrangedRows | UnitRows


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
    _plans: dict[int, tuple[Plan, int]] = field(default_factory=dict[int, tuple[Plan, int]])

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
        """The server that can decode batches of the rows now; None if there is none."""
        return self.rows.server

    @property
    def form(self) -> Any:
        """How rows become units; None: they are not made into units."""
        return getattr(self.rows, "form", None)

    @property
    def num_places(self) -> int:
        """Places of the loader's epoch: those before a splice, and the rest."""
        return self.places_of(self.place.epoch)

    def places_of(self, epoch: int) -> int:
        """Return the number of places of an epoch."""
        if not self.order.at(epoch).cuts:
            return self.rows.num_places
        return self._found(self.seed, epoch)[1]

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
        return self._found(seed, epoch)[0]

    def _found(self, seed: int, epoch: int) -> tuple[Plan, int]:
        if seed not in self._plans:
            self._plans[seed] = self._spliced(seed, epoch)
        return self._plans[seed]

    def pass_of(self, number: int) -> Any:
        """Return a pass by its number, where an epoch is one pass: a plan of rows, or of units."""
        if not self.order.at(number).cuts:
            return items_of(self.rows).once(self.order.base, seed=self.seed, epoch=number)
        return self._under_way(self.seed, number)[1].plan

    def _spliced(self, seed: int, epoch: int) -> tuple[Plan, int]:
        """Return the plan of the spliced epoch, and its places."""
        repeat, limit = self._length
        start, tail, items = self._under_way(seed, epoch)
        num_rows = start + tail.left + ((epoch + 1) * repeat - tail.number - 1) * tail.length
        is_one = repeat == 1 and (limit is None or num_rows <= limit)
        num_rows = num_rows if limit is None else min(limit, num_rows)
        return items.plan(PassesPlan(start, tail, num_rows), is_one=is_one), num_rows

    @property
    def _length(self) -> tuple[int, int | None]:
        """Passes of an epoch, and the most places."""
        own = _arrangement(self.given)
        return (1, None) if own is None else (own.repeat, own.limit)

    def _under_way(self, seed: int, epoch: int) -> tuple[int, Tail[Any], Items]:
        """Return the last splice of an epoch: its place, the passes from there on, their items."""
        repeat, _ = self._length
        cuts, following = self.order.cuts, (*self.before[1:], self.rows)
        orders = [*(cut.order for cut in cuts[1:]), self.order.base]
        given, items = list[Given](), items_of(self.before[0])
        tail = tail_of(items, cuts[0].order, seed=seed, number=epoch * repeat)
        start = begun = 0  # places at which the tail, and what the pass gave from one plan, begin
        for number, (cut, old, new) in enumerate(zip(cuts, self.before, following, strict=True)):
            under_way, plan, inside = tail.after(cut.place - start)
            if under_way != tail.number:
                given, begun, items = [], 0, items_of(old)
            later = tail_of(items_of(new), orders[number], seed=seed, number=under_way)
            if inside:
                given.append(Given(items, plan, range(begun, inside)))
                here = replace(cut, place=inside, num_rows=plan.num_rows)
                key = SpliceKey(number, seed, under_way)
                items, plan = items_of(new).rest(given, here, key)
            else:
                items, plan = items_of(new), later.plan
            tail = replace(later, plan=plan, place=inside)
            start, begun = cut.place, inside
        return start, tail, items

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


def edited(edit: Edit, *, version: Any = None, where: Any = None, without: Any = None) -> Edit:
    """Return the edit that the arguments of ``advance()`` ask for.

    Raises:
        InvalidInputError: They are not strings, or none is given.
    """
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


def advanced_rows(
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


def returned_rows(
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
        check_digest(cut.edit, cut.selection, old.selection.digest)
    check_digest(order.edit, state.selection, now.selection.digest)
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
        InvalidInputError: They are drawn by weights.
    """
    assert isinstance(rows, SelectedRows | ArrangedRows) or _has_units(rows), "of one selection"
    own = _arrangement(rows)
    if own is not None and own.is_drawn:
        raise InvalidInputError(
            "advance(): rows that weights= draws may come again, so no rest of them could continue"
            " with others\nbegin its next epoch with a new loader, at loader.epoch",
            argument="weights",
        )
    return rows


def _has_units(rows: OrderedRows) -> TypeGuard[UnitRows]:
    """Whether rows are made into units; not by a check of the protocol, which would find them."""
    return hasattr(type(rows), "items") and hasattr(rows, "form")


def _arrangement(rows: GivenRows) -> Arrangement | None:
    if isinstance(rows, SelectedRows):
        return None
    return rows.arranger.arrangement if isinstance(rows, ArrangedRows) else rows.arrangement


def items_of(rows: GivenRows) -> Items:
    """Return the items of a pass over rows."""
    if isinstance(rows, SelectedRows):
        return RowItems(rows)
    return RowItems(rows.rows, rows.arranger) if isinstance(rows, ArrangedRows) else rows.items


def _rows_of(edit: Edit, given: GivenRows, arguments: LoaderArguments) -> GivenRows:
    """Return the rows of an edit, in the order that a loader's arguments ask for."""
    selected = given if isinstance(given, SelectedRows) else given.rows
    found = edits_of(selected).rows(edit)
    if _has_units(given):
        return given.of(found)
    rows = arranged(found, arguments)
    assert isinstance(rows, SelectedRows | ArrangedRows), "as the rows that were given"
    return rows


def _of_kind(chosen: BaseOrder, base: BaseOrder) -> BaseOrder:
    """Return an order of the version of the plan by which the epoch began."""
    if isinstance(chosen, ArrangedOrder):
        return replace(chosen, base=replace(chosen.base, version=base.version))
    return replace(chosen, version=base.version)


def check_digest(edit: Edit, recorded: str, found: str) -> None:
    """Refuse another selection than the one that a state recorded.

    Raises:
        StateMismatchError: It is another one.
    """
    if recorded != found:
        raise StateMismatchError(
            f"the state belongs to another selection of {edit.version}:"
            f"\n   selection  recorded {recorded!r}, given {found!r}"
            "\nmake the loader from the same view, or start over without load_state_dict()",
            expected=recorded,
            actual=found,
        )
