"""Whether two sets of changes can both stand: a pure function, used when a commit lost its race.

The rules (docs/reference/format.md, "Combine"), each conservative: what cannot be told apart is a
conflict, never a lost update.

- appends and updates combine with anything but a drop of their tensor;
- updates of different rows or tensors, and deletes with deletes, combine;
- an update conflicts with an update or a delete of the same row;
- two changes of the schema, and a reordering beside anything but appends, conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorlake.format import ChangedRows, Changes
from tensorlake.versions.ranges import Ranges, intersect, rows_in, union

__all__ = ["Conflict", "find_conflicts"]


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why two sets of changes cannot both stand.

    Attributes:
        what: "update", "delete", "drop", "schema" or "rewrite".
        tensor_id: The tensor both changed, where it is one.
        physical: Physical rows both changed, in order; empty where they are not known.
    """

    what: str
    tensor_id: str | None = None
    physical: tuple[int, ...] = ()


def find_conflicts(mine: Changes, theirs: Sequence[Changes]) -> list[Conflict]:
    """List what keeps ``mine`` from standing after ``theirs``; empty when they combine."""
    found: list[Conflict] = []
    for other in theirs:
        if mine.rewrite or other.rewrite:
            if not mine.is_append_only:
                found.append(Conflict("rewrite"))
            continue
        if mine.schema and other.schema:
            found.append(Conflict("schema"))
        found += [*_drop_conflicts(mine, other), *_drop_conflicts(other, mine)]
        found += _cell_conflicts(mine, other)
    return found


def _drop_conflicts(dropping: Changes, other: Changes) -> list[Conflict]:
    """A dropped tensor's new values, appended or updated, would be lost without a word."""
    return [
        Conflict("drop", change["tensor"])
        for change in dropping.schema
        if change["op"] == "drop" and (other.append or change["tensor"] in other.update)
    ]


def _cell_conflicts(mine: Changes, other: Changes) -> list[Conflict]:
    found = [
        Conflict("update", tensor_id, both)
        for tensor_id in mine.update.keys() & other.update.keys()
        if (both := _both(_known(mine.update[tensor_id]), _known(other.update[tensor_id])))
        is not None
    ]
    my_updates, their_updates = _all_updates(mine), _all_updates(other)
    for updates, deletes in (
        (my_updates, _known(other.delete)),
        (their_updates, _known(mine.delete)),
    ):
        both = _both(updates, deletes)
        if both is not None:
            found.append(Conflict("delete", None, both))
    return found


def _all_updates(changes: Changes) -> Ranges | None:
    known = [_known(rows) for rows in changes.update.values()]
    if any(ranges is None for ranges in known):
        return None
    return union([ranges for ranges in known if ranges is not None])


def _known(rows: ChangedRows) -> Ranges | None:
    """The rows as ranges; None where only "many" was recorded."""
    return None if rows == "many" else np.array(rows, dtype=np.int64).reshape(-1, 2)


def _both(a: Ranges | None, b: Ranges | None) -> tuple[int, ...] | None:
    """Rows in both sets, None when there is none. A set that is None holds unknown rows."""
    if (a is not None and len(a) == 0) or (b is not None and len(b) == 0):
        return None
    if a is None or b is None:
        return ()
    common = intersect(a, b)
    return tuple(rows_in(common).tolist()) if len(common) else None
