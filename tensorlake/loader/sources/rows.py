"""Rows and their order: the input of a loader, one selection or a mix of several.

    OrderedRows ─► choose an order once ─► a plan for each epoch ─► positions, read by the pipeline
                └► the order as recorded in a state, and its restoration from a state

``SelectedRows`` is one selection; ``tensorlake.loader.sources.mix`` has the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from tensorlake.errors import (
    StateMismatchError,
    UncommittedChangesError,
    VersionNotFoundError,
    shown,
)
from tensorlake.loader.plan.mix_order import AnyOrder, MixOrder, SplicedMixOrder
from tensorlake.loader.plan.order import (
    SMALL_NBYTES,
    UNIT_NBYTES,
    Order,
    Shuffle,
    choose_order,
)
from tensorlake.loader.plan.plan import Plan, PlanKey, build_access_plan
from tensorlake.loader.plan.selection import Int64Array, Reader, Selection, Snapshot
from tensorlake.loader.plan.splice import Changes, Edit
from tensorlake.loader.plan.state import LoaderState, NewerVersionWarning, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.remote import BatchServer

__all__ = [
    "Edits",
    "OrderedRows",
    "Repin",
    "SelectedRows",
    "chosen_order",
    "refuse_staged",
    "rows_of_version",
    "state_of",
]

COMPOSED = "+"  # in a recorded selection: what follows says how rows are composed
Repin = Callable[[str], tuple[Selection, Reader]]
Found = TypeVar("Found")


class Edits(Protocol):
    """Finds the rows of a view in other versions, and by other conditions."""

    def rows(self, edit: Edit) -> SelectedRows:
        """Return the rows."""
        ...

    def moved(self, old: Selection, new: Selection) -> Callable[[Int64Array], Int64Array]:
        """Return how positions of rows move from one selection to another; −1 for none."""
        ...

    def changes(self, old: Selection, new: Selection) -> Changes:
        """Compare two selections, row by row, by identity."""
        ...


def refuse_staged(snapshot: Snapshot) -> None:
    """Refuse to resume over rows that are not in a version.

    Raises:
        UncommittedChangesError: They are staged.
    """
    if snapshot.is_staged:
        raise UncommittedChangesError(
            f"a loader over staged changes of {snapshot.url!r} cannot be resumed: they are not in a"
            " version\ncommit them, and make the loader from the new version"
        )


def rows_of_version(repin: Callable[[str], Found], version: str, *, given: Snapshot) -> Found:
    """Return the rows of the version that a state recorded, as they are found there.

    Raises:
        StateMismatchError: The dataset of the given rows has no such version.
        SnapshotExpiredError: The version has expired.
    """
    try:
        return repin(version)
    except VersionNotFoundError as error:
        raise StateMismatchError(
            f"the state was taken at {version}, but {given.url!r} has no such version:"
            f"\n   version  recorded {shown(version)}, given {given.version!r}"
            "\nmake the loader from the dataset that the state was taken of, or start over without"
            " load_state_dict()",
            expected=version,
            actual=given.version,
        ) from error


class OrderedRows(Protocol):
    """Rows that can be ordered and read."""

    @property
    def selection(self) -> Selection:
        """The rows."""
        ...

    @property
    def reader(self) -> Reader:
        """Reader of the rows."""
        ...

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """Columns that are not tensors."""
        ...

    @property
    def source(self) -> Mapping[str, Any] | None:
        """How to find the rows again, for a state; None if only their creator knows."""
        ...

    @property
    def server(self) -> BatchServer | None:
        """The server that can decode batches of the rows; None if there is none."""
        ...

    @property
    def num_places(self) -> int:
        """Number of places of an epoch."""
        ...

    @property
    def is_endless(self) -> bool:
        """Whether an epoch never ends."""
        ...

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Choose the order of all epochs from the versions, the schema and ``prefetch`` alone."""
        ...

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch."""
        ...

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order as a state at a place records it."""
        ...

    def describe(self, order: AnyOrder) -> str:
        """Describe the order of rows in a few words."""
        ...

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> OrderedRows:
        """Return the rows of a state.

        Raises:
            StateMismatchError: It belongs to other rows.
        """
        ...


def chosen_order(
    shuffle: Shuffle,
    selection: Selection,
    reader: Reader,
    tensors: tuple[str, ...],
    *,
    prefetch_nbytes: int,
    units: int | None = None,
) -> Order:
    """Choose the order of a selection's rows, or of units of them, by number and stored bytes."""
    sizes = dict(zip(tensors, reader.row_nbytes(tensors), strict=True))
    by_chunk = [
        tensor
        for tensor, nbytes in sizes.items()
        if nbytes < UNIT_NBYTES and nbytes * reader.index(tensor).num_rows > SMALL_NBYTES
    ]
    rows = selection.num_rows
    targets = [reader.snapshot.spec(tensor).type.chunk_nbytes for tensor in by_chunk]
    return choose_order(
        shuffle,
        num_rows=rows if units is None else units,
        row_nbytes=sum(sizes.values()) * (1 if units is None else rows) // max(1, units or 1),
        chunk_nbytes=max(targets, default=0),
        prefetch_nbytes=prefetch_nbytes,
    )


def state_of(
    rows: OrderedRows,
    order: AnyOrder,
    place: Place,
    *,
    seed: int,
    batches: Mapping[str, Any] | None,
) -> LoaderState:
    """Return the state of a loader at a place: which rows, in which order."""
    # a mix lists the version of each source in its order
    is_mix = isinstance(order, MixOrder | SplicedMixOrder)
    version = "mix" if is_mix else rows.selection.snapshot.version
    return LoaderState(
        version=version,
        selection=rows.selection.digest,
        num_rows=None if rows.is_endless else rows.num_places,
        order=rows.recorded(order, place),
        seed=seed,
        epoch=place.epoch,
        position=place.position,
        skipped=place.skipped,
        source=rows.source,
        batches=batches,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows:
    """The rows of one selection."""

    selection: Selection
    reader: Reader
    virtual: Mapping[str, VirtualColumn] = field(default_factory=dict[str, VirtualColumn])
    repin: Repin | None = None
    source: Mapping[str, Any] | None = None
    is_endless: bool = False
    server: BatchServer | None = None
    edits: Edits | None = None

    @property
    def num_places(self) -> int:
        """Every row once an epoch."""
        return self.selection.num_rows

    def choose(self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int) -> Order:
        """Choose by the number of rows and their stored bytes."""
        return chosen_order(
            shuffle, self.selection, self.reader, tensors, prefetch_nbytes=prefetch_nbytes
        )

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch."""
        assert isinstance(order, Order)
        key = PlanKey(self.selection.digest, order, seed, epoch)
        return build_access_plan(key, self.selection.num_rows)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order, which is the same at every place."""
        del place
        return order

    def describe(self, order: AnyOrder) -> str:
        """Name the kind of shuffle."""
        assert isinstance(order, Order)
        return order.describe()

    def returned_to(
        self, state: LoaderState, *, seed: int | None, shuffle: Shuffle
    ) -> SelectedRows:
        """Return to the version that the state recorded, even if the branch has moved on.

        Raises:
            UncommittedChangesError: These rows show staged changes.
        """
        rows = self.of_version(state)
        is_plain = isinstance(state.order, Order | MixOrder)
        check_state(
            state,
            version=rows.selection.snapshot.version,
            selection=rows.selection.digest,
            num_rows=rows.num_places,
            seed=seed,
            shuffle=shuffle,
            others=None if is_plain else {"order": (state.order.to_json()["rule"], "plain")},
        )
        return rows

    def of_version(self, state: LoaderState) -> SelectedRows:
        """Return the rows of the version that a state recorded.

        Raises:
            StateMismatchError: The state is of sequences or windows of rows.
        """
        refuse_staged(self.selection.snapshot)
        if COMPOSED in state.selection:
            form = state.selection.partition(COMPOSED)[2]
            raise StateMismatchError(
                f"the state belongs to a loader of rows that are composed, {form!r}, and this one"
                " reads the rows themselves\nmake the loader by view.pack(…) or view.windows(…)"
                " as it was, or start over without load_state_dict()",
                expected=form,
                actual=None,
            )
        is_other = state.version != self.selection.snapshot.version
        if is_other and state.selection != self.selection.digest and self.repin is not None:
            return self._returned(state, self.repin)
        return self

    def _returned(self, state: LoaderState, repin: Repin) -> SelectedRows:
        given = self.selection.snapshot.version
        if isinstance(state.order, MixOrder):
            return self  # check_state lists what differs
        selection, reader = rows_of_version(repin, state.version, given=self.selection.snapshot)
        if selection.digest != state.selection:
            raise StateMismatchError(
                f"the state belongs to another selection of {state.version}:"
                f"\n   selection  recorded {state.selection!r}, given {selection.digest!r}"
                "\nmake the loader from the same view, or start over without load_state_dict()",
                expected=state.selection,
                actual=selection.digest,
            )
        warnings.warn(
            f"continuing on {state.version}, which the state recorded, although {given} was given",
            NewerVersionWarning,
            stacklevel=4,
        )
        virtual = {name: column.over(selection) for name, column in self.virtual.items()}
        return replace(self, selection=selection, reader=reader, virtual=virtual)
