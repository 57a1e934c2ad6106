"""The plan of a merge into ours, as a value: made by ``merge/planner.py`` from three versions.

    base ──► ours      the branch merged into: its axis stays, its rows keep their order
      └────► theirs    its new rows come after ours, its updates go to ours' rows by row id;
                       extents of both are referenced, no chunk is copied

The plan includes decided and undecided conflicts; the caller decides whether it is acceptable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChangedRows, Changes, RowIdRuns, unite_rows
from tensorlake.types import Column
from tensorlake.versions.merge.base import Version
from tensorlake.versions.merge.side import Side
from tensorlake.versions.rows.alignment import Matched
from tensorlake.versions.rows.conflict_rules import Conflict
from tensorlake.versions.rows.ranges import Ranges, no_ranges
from tensorlake.versions.rows.schema_rules import CombinedSchema, CombinedTensor

__all__ = [
    "DisputedCells",
    "DisputedRows",
    "MergePlan",
    "MergeRequest",
    "OnConflict",
    "RowConflict",
    "listed",
]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DisputedCells:
    """Cells that both sides changed, to different values: for a function to decide.

    Attributes:
        tensor: The tensor, as the result has it.
        base: A version and its physical rows of the cells; None if no base has them.
        ours: The same for the branch merged into.
        theirs: The same for the branch merged.
    """

    tensor: CombinedTensor
    base: tuple[Version, Int64Array] | None
    ours: tuple[Version, Int64Array]
    theirs: tuple[Version, Int64Array]

    def first(self, count: int) -> Self:
        """Return the first `count` cells."""
        base, ours, theirs = (
            None if side is None else (side[0], side[1][:count])
            for side in (self.base, self.ours, self.theirs)
        )
        assert ours is not None
        assert theirs is not None
        return replace(self, base=base, ours=ours, theirs=theirs)


@dataclass(frozen=True, slots=True)
class DisputedRows:
    """Rows that one side deleted and the other changed.

    Attributes:
        base: The version at which the sides diverged.
        physical: The physical rows there.
        deleted_by: The side that deleted them.
        shown: The version that still shows them, and their physical rows there.
        ids: Their row ids, ``<txid>:<offset>``.
        tensors: By row, the names of the tensors that the other side changed.
    """

    base: Version
    physical: Int64Array
    deleted_by: Literal["ours", "theirs"]
    shown: tuple[Version, Int64Array]
    ids: tuple[str, ...]
    tensors: tuple[tuple[str, ...], ...]


OnConflict = Literal["error", "ours", "theirs"] | Callable[[DisputedCells], Column]
"""The decision of cells that both changed: none, a side, or a function that returns values."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The request of a merge.

    Attributes:
        on_conflict: The decision of changes by both sides.
        tensors: Ids of the tensors whose updates by theirs are taken, and nothing else; None:
            everything.
        rows: By row id, the side that decides a row that one side deleted and the other changed;
            ``on_conflict`` decides the others. If it is given, the cells of tensors that are
            ``per`` one another are disputed together: where one is, all that differ are.
    """

    on_conflict: OnConflict = "error"
    tensors: frozenset[str] | None = None
    rows: Mapping[str, Literal["ours", "theirs"]] | None = None


@dataclass(frozen=True, slots=True)
class RowConflict:
    """A conflict, with the version of its rows."""

    conflict: Conflict
    base: Version


@dataclass(frozen=True, slots=True)
class MergePlan:
    """All changes of a merge to ours.

    Attributes:
        ours: The branch merged into.
        theirs: The branch merged.
        bases: The versions at which they diverged, newest first.
        merged: The schema.
        conflicts: Row conflicts, decided or not.
        taken: By tensor id, cells of ours (``one``) that become theirs' (``other``).
        updated: By tensor id, those cells whose value changes.
        disputed: Cells for a function to decide; their rows are those of ours.
        deleted: Rows of ours that are no longer shown.
        added: Rows of theirs placed after ours, as starts and stops in theirs' order.
        revived: Dead rows of ours whose row ids are among the added.
        order: Rows of ours in a new order, as starts and stops; None: unchanged.
        disputed_rows: Rows that one side deleted and the other changed, if the request decides
            rows.
    """

    ours: Side
    theirs: Side
    bases: tuple[Version, ...]
    merged: CombinedSchema
    conflicts: tuple[RowConflict, ...] = ()
    taken: Mapping[str, Matched] = field(default_factory=dict[str, Matched])
    updated: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    disputed: tuple[DisputedCells, ...] = ()
    deleted: Ranges = field(default_factory=no_ranges)
    added: tuple[Int64Array, Int64Array] = field(
        default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.int64))
    )
    revived: Ranges = field(default_factory=no_ranges)
    order: tuple[Int64Array, Int64Array] | None = None
    disputed_rows: tuple[DisputedRows, ...] = ()

    @property
    def added_rows(self) -> int:
        """Number of rows that theirs adds."""
        starts, stops = self.added
        return int((stops - starts).sum())

    @property
    def added_ids(self) -> RowIdRuns:
        """Their row ids, in theirs' order."""
        pairs = zip(*(column.tolist() for column in self.added), strict=True)
        runs = [self.theirs.ids.slice_rows(start, stop) for start, stop in pairs]
        return RowIdRuns.concat(runs).united()

    @property
    def changes(self) -> Changes:
        """The changes recorded in the merge's entry, by physical rows of ours."""
        return Changes(
            append=self.added_rows,
            update={id_: _recorded(rows) for id_, rows in self.updated.items() if len(rows)},
            delete=_recorded(self.deleted),
            schema=self.merged.changes,
            rewrite=self.order is not None,
        )

    @property
    def undecided(self) -> bool:
        """Whether a preferred side cannot decide some changes by both."""
        return any(not clash.can_be_preferred for clash in self.merged.clashes) or any(
            one.conflict.what == "schema" for one in self.conflicts
        )


def _recorded(rows: Ranges) -> ChangedRows:
    return unite_rows(listed(rows), ())  # "many" if there are too many to record


def listed(rows: Ranges) -> ChangedRows:
    """Convert ranges to the form of a log entry's changes, without a limit."""
    return tuple((int(start), int(stop)) for start, stop in rows)
