"""Composed rows: a place of the epoch is a *unit* made of several rows, or of parts of them.

    shares of places   ─► units ─► the rows that they need, each once ─► read as any other rows
    a batch of rows    ─► the batch of units

Batches, ranks and states count units, so they are exact for units on any number of ranks, and the
stages between read, decode and order rows as they always do. A form (``Form``) defines the units:
``Packing`` makes sequences of tokens from documents, ``Windowing`` windows of consecutive rows.

A state records units under the digest of the rows and the form's arguments (``Form.suffix``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Never, Protocol, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, StateMismatchError
from tensorlake.loader.config.arrangement import AS_GIVEN, Arrangement
from tensorlake.loader.config.column_plan import ColumnPlan, valid_column
from tensorlake.loader.plan.placement import leading_rows
from tensorlake.loader.plan.sharding import Share
from tensorlake.loader.plan.state import check_state
from tensorlake.loader.sources.arrangement import Arranger, check_arrangement, check_repeat
from tensorlake.loader.sources.epoch_order import EpochOrder
from tensorlake.quantities import checked_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.order import Shuffle
    from tensorlake.loader.plan.placement import Homes
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection, Snapshot
    from tensorlake.loader.plan.state import LoaderState, Place
    from tensorlake.loader.plan.virtual_columns import VirtualColumn
    from tensorlake.loader.sources.arrangement import Items
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.remote import BatchServer
    from tensorlake.loader.sources.rows import OrderedRows, SelectedRows

__all__ = [
    "ComposedPlan",
    "ComposedRows",
    "ComposedShare",
    "EpochUnits",
    "Form",
    "ShownOrder",
    "UnitOrder",
    "Units",
    "epoch_order",
    "form_of",
    "inner_digest",
    "positions_left_out",
    "shown_columns",
]


class EpochUnits(Protocol):
    """The units of one epoch, in order."""

    def find(self, places: Int64Array) -> tuple[Int64Array, Any]:
        """Return the positions of the rows that some places need, and how units use them.

        The second is passed to ``Form.combine``; its numbers of rows are indices of the first.
        """
        ...


class Units(Protocol):
    """The units of a selection; found once a loader."""

    @property
    def count(self) -> int:
        """Units of an epoch: the same in every epoch."""
        ...

    @property
    def arranger(self) -> Arranger:
        """The order of units, or of the rows that they are made of."""
        ...

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> EpochUnits:
        """Return the units of one epoch."""
        ...

    def describe(self, order: AnyOrder) -> str:
        """Describe the order and the units in a few words."""
        ...


class Form(Protocol):
    """How rows become units."""

    @property
    def suffix(self) -> str:
        """The end of a state's selection: all that decides what a unit is, after a ``+``."""
        ...

    @property
    def made(self) -> str:
        """A word for rows of this form, for errors: ``packed``."""
        ...

    @property
    def noun(self) -> str:
        """Words for its units: ``packed sequences``."""
        ...

    @property
    def is_flat(self) -> bool:
        """Whether the units of a batch come end to end, without an axis of their own."""
        ...

    @property
    def place_bits(self) -> int:
        """Bits of a row's place below its position: the number of the part that a unit has."""
        ...

    @property
    def growth(self) -> int:
        """The memory of a batch over that of its rows, about."""
        ...

    @property
    def extent(self) -> int:
        """Adjacent rows that a unit has, from its first to its last, about."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether rows are cut where a unit ends, which is elsewhere in every epoch."""
        ...

    def members(self, uses: Any) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return, for each part of units its unit, its row, and how many elements it has.

        Both are numbers, in what ``EpochUnits.find`` was asked for and has found.
        """
        ...

    @property
    def joins(self) -> frozenset[str]:
        """Columns that ``combine`` gets as ranges of samples (``SampleRanges``)."""
        ...

    def shown(self, columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
        """Describe the entries of a batch, which is made of some columns of rows."""
        ...

    def units(self, rows: SelectedRows, arrangement: Arrangement = AS_GIVEN) -> Units:
        """Find the units of a selection: reads lengths or a column, when they are first needed.

        Args:
            rows: The selection.
            arrangement: The order of units, or of rows; without a limit.
        """
        ...

    def items(self, rows: SelectedRows, units: Any) -> Items:
        """Return the items of a pass over the units of some rows, for splices."""
        ...

    def combine(
        self, share: ComposedShare, batch: Mapping[str, Any], slabs: SlabPool
    ) -> dict[str, Any]:
        """Make the batch of a share's units from its rows."""
        ...

    def leave_out(self, share: ComposedShare, batch: dict[str, Any]) -> None:
        """Make holes in the batch of a share's units, of those rows that are left out."""
        ...

    def filled(self, share: ComposedShare) -> dict[str, int]:
        """Count the tokens and the padding of a share's units, as ``LoaderStats`` names them."""
        ...


@dataclass(frozen=True, slots=True)
class ComposedShare(Share):
    """The rows of one rank's units: their positions, and how the units use them.

    ``start``, ``stop`` and all that a state counts are of units.
    """

    rows: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    uses: Any = None
    holes: NDArray[np.bool_] | None = None  # which of the rows are left out; None: none
    kept: NDArray[np.bool_] | None = None  # which of them the disk of the rank keeps; None: all

    @property
    def units(self) -> int:
        """Number of units."""
        return self.stop - self.start

    @property
    def places(self) -> Int64Array:
        """The positions of its rows, which are the places that the pipeline reads."""
        return self.rows

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class ComposedPlan:
    """The units of one epoch; the pipeline reads their rows by position (``Plan``)."""

    num_rows: int
    units: EpochUnits
    form: Form
    left_out: Int64Array | None = None  # positions of rows that become holes
    homes: Homes | None = None  # of rows; None: any rank keeps them

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions that places name: a share lists them."""
        return places >> self.form.place_bits

    def deal(self, share: Share) -> NDArray[np.int64]:
        """Return the places of a share's rows: their positions, and which part of each."""
        return share.places

    def unpack(self, share: Share) -> ComposedShare:
        """Find the rows of a share of units."""
        rows, uses = self.units.find(share.places)
        kept = None if self.homes is None else self._kept(self.homes, share, rows, uses)
        holes = None if self.left_out is None else np.isin(rows, self.left_out)
        if self.form.place_bits:
            rows = (rows << self.form.place_bits) | uses.numbers
        own = {one.name: getattr(share, one.name) for one in fields(Share)}
        return ComposedShare(**own, rows=rows, uses=uses, holes=holes, kept=kept)

    def leads(self, places: Int64Array) -> Int64Array:
        """Return the position of the row that leads the unit at each of some places.

        It is the one that the unit has most elements of, the first of equal ones.
        """
        rows, uses = self.units.find(places)
        return leading_rows(rows, self.form.members(uses), len(places))

    def _kept(self, homes: Homes, share: Share, rows: Int64Array, uses: Any) -> NDArray[np.bool_]:
        """Return which rows come back to the rank of a share: those of units that it holds."""
        holds = partial(homes.holds, share.rank, share.world_size)
        units, members, _ = found = self.form.members(uses)
        kept = np.zeros(len(rows), np.bool_)
        kept[members[holds(leading_rows(rows, found, len(share)))[units]]] = True
        return kept


@dataclass(frozen=True, slots=True, eq=False)
class UnitOrder:
    """The order of one epoch of units: ``loader.plan`` of packed rows and of windows."""

    units: EpochUnits
    count: int
    selection: Selection

    def __len__(self) -> int:
        return self.count

    def rows_at(self, positions: Sequence[int] | Int64Array) -> list[Int64Array]:
        """Return the rows, int64, that are used by the unit at each of some positions.

        Raises:
            InvalidInputError: A position is not within the epoch.
        """
        places = [checked_integer(one, name="a position", most=self.count - 1) for one in positions]
        found = [self.units.find(np.array([place], dtype=np.int64))[0] for place in places]
        return [self.selection.row_numbers(one) for one in found]

    def position_of(self, rows: object) -> Never:
        """Refuse: a row may be in several units, or in parts."""
        del rows
        raise InvalidInputError(
            "position_of(): a position of this loader has several rows, or parts of them"
            "\nuse loader.plan.rows_at(positions)"
        )

    places_with = position_of

    def refuse_mix(self, what: str) -> None:
        """Refuse rows of a mix, whose numbers do not identify them."""
        if not hasattr(self.selection, "snapshot"):
            raise InvalidInputError(f"{what}: a row number does not identify a row of a mix")


ShownOrder: TypeAlias = EpochOrder | UnitOrder
"""The order of an epoch as ``loader.plan`` shows it."""


@dataclass(frozen=True, slots=True)
class ComposedSelection:
    """A selection of rows under another digest: places of its states are units."""

    rows: Selection
    suffix: str

    @property
    def snapshot(self) -> Snapshot:
        """The version."""
        return self.rows.snapshot

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its tensors."""
        return self.rows.columns

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.rows.num_rows

    @property
    def is_whole(self) -> bool:
        """Whether positions are row numbers."""
        return self.rows.is_whole

    @property
    def digest(self) -> str:
        """Digest of the rows and the form."""
        return self.rows.digest + self.suffix

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions to rows of the version."""
        return self.rows.row_numbers(positions)

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions to physical rows."""
        return self.rows.physical(positions)


@dataclass(frozen=True, eq=False)
class ComposedRows:
    """The rows of a selection, composed into units (``OrderedRows``)."""

    rows: SelectedRows
    form: Form
    arrangement: Arrangement = AS_GIVEN
    source: None = None
    is_endless: bool = False

    @property
    def server(self) -> BatchServer | None:
        """The server that can decode batches of the rows; None if there is none."""
        return self.rows.server

    @property
    def selection(self) -> Selection:
        """The rows."""
        return ComposedSelection(self.rows.selection, self.form.suffix)

    @property
    def reader(self) -> Reader:
        """Reader of the rows."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """Columns of the rows that are not tensors."""
        return self.rows.virtual

    @property
    def num_places(self) -> int:
        """Number of units."""
        count, limit = self.units.count, self.arrangement.limit
        return count if limit is None else min(count, limit)

    def arranged(self, arrangement: Arrangement) -> ComposedRows:
        """Return the same rows, of which units come in the order that arguments ask for.

        Raises:
            InvalidInputError: The arguments do not fit the rows.
            TensorNotFoundError: They have no such column.
        """
        check_arrangement(self.rows, arrangement)
        return replace(self, arrangement=arrangement)

    @cached_property
    def units(self) -> Units:
        """The units of the selection."""
        own = replace(self.arrangement, limit=None)
        made = self.form.units(self.rows, own)
        check_repeat(own.repeat, made.count // own.repeat, "unit")
        return made

    @cached_property
    def items(self) -> Items:
        """The items of a pass."""
        return self.form.items(self.rows, self.units)

    def of(self, rows: SelectedRows) -> ComposedRows:
        """Return the same units of other rows."""
        check_arrangement(rows, self.arrangement)
        return replace(self, rows=replace(rows, source=None))

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Choose the order of units, or of the rows that they are made of."""
        return self.units.arranger.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> ComposedPlan:
        """Return the plan of one epoch."""
        made = self.units.plan(order, seed=seed, epoch=epoch)
        return ComposedPlan(self.rows.selection.num_rows, made, self.form)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order, which is the same at every place."""
        del place
        return order

    def describe(self, order: AnyOrder) -> str:
        """Describe the order and the units."""
        return self.units.describe(order)

    def returned_to(
        self, state: LoaderState, *, seed: int | None, shuffle: Shuffle
    ) -> ComposedRows:
        """Return to the version that a state recorded.

        Raises:
            StateMismatchError: It is of other rows, or they were composed in another way.
        """
        of_rows = replace(state, selection=inner_digest(state, self.form))
        moved = self.rows.of_version(of_rows)
        composed = self if moved is self.rows else replace(self, rows=moved)
        check_state(
            of_rows,
            version=moved.selection.snapshot.version,
            selection=moved.selection.digest,
            num_rows=composed.num_places,
            seed=seed,
            shuffle=shuffle,
            others=composed.units.arranger.differences(state.order),
        )
        return composed


def inner_digest(state: LoaderState, form: Form) -> str:
    """Return the digest of the rows that a state of units recorded.

    Raises:
        StateMismatchError: They were composed in another way.
    """
    inner, plus, suffix = state.selection.partition("+")
    if plus + suffix != form.suffix:
        recorded = suffix or f"not {form.made}"
        raise StateMismatchError(
            f"the state belongs to rows that are not {form.made} in this way:"
            f"\n   recorded {recorded!r}, given {form.suffix[1:]!r}"
            "\ngive the recorded arguments, or start over without load_state_dict()",
            expected=recorded,
            actual=form.suffix[1:],
        )
    return inner


def form_of(rows: OrderedRows) -> Form | None:
    """Return the form of composed rows, of a selection or a mix; None for plain rows."""
    return getattr(rows, "form", None)


def positions_left_out(rows: OrderedRows, left_out: Sequence[Int64Array] | None) -> Any:
    """Return the positions of the rows that become holes, in all sources end to end, or None."""
    if left_out is None:
        return None
    selection: Any = rows.selection
    sources = [one.selection for one in getattr(selection.rows, "sources", ())]
    found, start = [np.zeros(0, np.int64)], 0
    for own, numbers in zip(sources or [selection], left_out, strict=True):
        positions = np.arange(own.num_rows)
        found.append(start + positions[np.isin(own.row_numbers(positions), numbers)])
        start += own.num_rows
    return np.concatenate(found)


def epoch_order(rows: OrderedRows, plan: Plan) -> ShownOrder:
    """Return the order of one epoch, of rows or of units, for a user."""
    if isinstance(plan, ComposedPlan):
        return UnitOrder(plan.units, rows.num_places, rows.selection)
    return EpochOrder(plan, rows.selection)


def shown_columns(
    rows: OrderedRows, columns: tuple[ColumnPlan, ...], *, with_valid: bool = False
) -> tuple[ColumnPlan, ...]:
    """Describe the entries of a batch that is made of some columns of rows."""
    form = form_of(rows)
    shown = columns if form is None else form.shown(columns)
    return (*shown, valid_column()) if with_valid else shown
