"""``ArrangedRows``: rows by ``weights=``, ``stratify=``, ``group=``, ``limit=``, ``repeat=``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tensorlake.loader.config.arrangement import Arrangement, arrangement_of
from tensorlake.loader.plan.mix_order import AnyOrder, MixOrder
from tensorlake.loader.plan.order import Shuffle
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.selection import Reader, Selection
from tensorlake.loader.plan.state import LoaderState, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.arrangement.arranger import Arranger
from tensorlake.loader.sources.arrangement.checks import check_arrangement
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.sources.remote import BatchServer

__all__ = ["ArrangedRows", "arranged"]


@runtime_checkable
class ArrangeableRows(Protocol):
    """Rows that have orders of their own: mixes, packed sequences and windows."""

    def arranged(self, arrangement: Arrangement) -> OrderedRows:
        """Return the same rows in the order that arguments ask for.

        Raises:
            InvalidInputError: They do not have this order.
        """
        ...


def arranged(rows: OrderedRows, arguments: LoaderArguments) -> OrderedRows:
    """Return the rows in the order that a loader's arguments ask for.

    Raises:
        InvalidInputError: The arguments do not fit them.
        TensorNotFoundError: They have no such column.
    """
    given = arguments.weights, arguments.stratify, arguments.group, arguments.limit
    own = arrangement_of(*given, arguments.repeat)
    if own.is_plain:
        return rows
    if isinstance(rows, ArrangeableRows):
        return rows.arranged(own)
    assert isinstance(rows, SelectedRows), "all others have orders of their own"
    check_arrangement(rows, own)
    return ArrangedRows(rows, Arranger(rows, own, rows.selection.num_rows))


@dataclass(frozen=True, eq=False)
class ArrangedRows:
    """The rows of one selection, arranged."""

    rows: SelectedRows
    arranger: Arranger
    is_endless: bool = False

    @property
    def server(self) -> BatchServer | None:
        """The server that can decode batches of the rows; None if there is none."""
        return self.rows.server

    @property
    def selection(self) -> Selection:
        """The rows."""
        return self.rows.selection

    @property
    def reader(self) -> Reader:
        """Reader of the rows."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """Columns that are not tensors."""
        return self.rows.virtual

    @property
    def source(self) -> Mapping[str, Any] | None:
        """How to find the rows again, with the arguments of their order, if both are brief."""
        source, arguments = self.rows.source, self.arranger.arrangement.arguments
        return None if source is None or arguments is None else {**source, "order": arguments}

    @property
    def num_places(self) -> int:
        """Places of an epoch: repeated, then limited."""
        return self.arranger.num_places

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Choose the order of the rows, or of places, classes and groups."""
        return self.arranger.choose(shuffle, tensors, prefetch_nbytes=prefetch_nbytes)

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch."""
        return self.arranger.plan(order, seed=seed, epoch=epoch)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order, which is the same at every place."""
        del place
        return order

    def describe(self, order: AnyOrder) -> str:
        """Describe the order, and the pass over a column that it needs."""
        return self.arranger.describe(order)

    def returned_to(
        self, state: LoaderState, *, seed: int | None, shuffle: Shuffle
    ) -> ArrangedRows:
        """Return to the version that the state recorded, even if the branch has moved on."""
        rows = self if isinstance(state.order, MixOrder) else self._returned(state)
        check_state(
            state,
            version=rows.selection.snapshot.version,
            selection=rows.selection.digest,
            num_rows=rows.num_places,
            seed=seed,
            shuffle=shuffle,
            others=rows.arranger.differences(state.order),
        )
        return rows

    def _returned(self, state: LoaderState) -> ArrangedRows:
        rows = self.rows.of_version(state)
        if rows is self.rows:
            return self
        arranger = replace(self.arranger, rows=rows, count=rows.selection.num_rows)
        return replace(self, rows=rows, arranger=arranger)
