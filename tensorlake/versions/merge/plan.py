"""What a merge will do to ours, as a value: made by ``merge/planner.py`` from three versions.

    base ──► ours      the branch merged into: its axis stays, its rows keep their order
      └────► theirs    its new rows come after ours, its updates go to ours' rows by row id;
                       of both the extents are cited, no chunk is copied

Conflicts are in the plan, whoever decided them; whether that is enough is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

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
        base: A version and its physical rows of the cells; None where no base has them.
        ours: Likewise of the branch merged into.
        theirs: Likewise of the branch merged.
    """

    tensor: CombinedTensor
    base: tuple[Version, Int64Array] | None
    ours: tuple[Version, Int64Array]
    theirs: tuple[Version, Int64Array]


OnConflict = Literal["error", "ours", "theirs"] | Callable[[DisputedCells], Column]
"""Who decides cells that both changed: nobody, a side, or a function that gives their values."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What a merge is to do.

    Attributes:
        on_conflict: Who decides where both changed the same.
        tensors: Ids of theirs' tensors of which only the updates are taken; None: everything.
    """

    on_conflict: OnConflict = "error"
    tensors: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RowConflict:
    """A conflict, with the version that its rows are of."""

    conflict: Conflict
    base: Version


@dataclass(frozen=True, slots=True)
class MergePlan:
    """All that a merge does to ours.

    Attributes:
        ours: The branch merged into.
        theirs: The branch merged.
        bases: Where they went apart, newest first.
        merged: The schema.
        conflicts: What both changed of rows, decided or not.
        taken: By tensor id, cells of ours (``one``) that become theirs' (``other``).
        updated: By tensor id, those of them whose value changes.
        disputed: Cells that a function is to decide; their rows are ours'.
        deleted: Rows of ours that are no longer shown.
        added: Rows of theirs that come after ours, as starts and stops in theirs' order.
        revived: Dead rows of ours whose row ids are among the added.
        order: Rows of ours in another order, as starts and stops; None: they stay.
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

    @property
    def added_rows(self) -> int:
        """How many rows theirs adds."""
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
        """What the merge's entry records, by physical rows of ours."""
        return Changes(
            append=self.added_rows,
            update={id_: _recorded(rows) for id_, rows in self.updated.items() if len(rows)},
            delete=_recorded(self.deleted),
            schema=self.merged.changes,
            rewrite=self.order is not None,
        )

    @property
    def undecided(self) -> bool:
        """Whether a side was preferred in vain: what both changed cannot be decided so."""
        return any(not clash.can_be_preferred for clash in self.merged.clashes) or any(
            one.conflict.what == "schema" for one in self.conflicts
        )


def _recorded(rows: Ranges) -> ChangedRows:
    return unite_rows(listed(rows), ())  # "many" where there are too many to record


def listed(rows: Ranges) -> ChangedRows:
    """Write ranges as a log entry's changes have them, however many there are."""
    return tuple((int(start), int(stop)) for start, stop in rows)
