"""Compatibility of two sets of changes: one pure function, for a rebase and for a merge.

The rules (docs/reference/format.md, "Combine"). Rows are physical rows of the common axis:

- appends combine with anything but a drop of a tensor they fill;
- updates of different rows or tensors, and deletes with deletes, combine; an update conflicts with
  an update or a delete of the same cell;
- schema changes combine, except that two of one tensor, or one name given to two tensors, conflict
  (two drops, or two renames to the same name, are the same change and do not conflict);
- one reordering combines with anything: rows are followed by row id. Two conflict;
- a type that was checked against every row (NULL or a class removed) conflicts with values that the
  other side adds to the tensor;
- columns that were only read (``reads``) conflict with any change of the data read.

If a commit recorded only "many" rows, the conflict has no rows: it is suspected. Callers with the
trees compare them (``versions/transaction/rebase.py``); others must treat it as a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensorlake.format import Changes
from tensorlake.versions.rows.ranges import Ranges, intersect, known_ranges, known_union, rows_in

__all__ = ["Conflict", "ConflictKind", "find_conflicts"]

ConflictKind = Literal[
    "update", "delete", "drop", "schema", "name", "rewrite", "read", "group", "reference"
]


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why two sets of changes are incompatible.

    Attributes:
        what: "update" (of one cell by both), "delete" (of a row that the other updated), "drop" (of
            a tensor the other wrote), "schema" (of one tensor by both), "name" (given to two
            tensors), "rewrite" (two reorderings), "read" (of data that the other changed),
            "group" (one column group changed by both) or "reference" (a check or a computed column
            of one, that does not fit the tensors as the other has them).
        tensor_id: The tensor both changed, if the conflict is about one.
        physical: Physical rows both changed, in order; empty if they are unknown, or if the
            conflict is not about rows.
        description: Description of both changes, if more is known than the tensor.
    """

    what: ConflictKind
    tensor_id: str | None = None
    physical: tuple[int, ...] = ()
    description: str = ""


def find_conflicts(
    mine: Changes, theirs: Sequence[Changes], *, reads: Collection[str] = ()
) -> list[Conflict]:
    """List the conflicts of applying ``mine`` after ``theirs``; empty when they combine.

    Args:
        mine: Changes to apply.
        theirs: Changes made since, oldest first; each against the one before it.
        reads: Ids of tensors that ``mine`` was computed from.

    Example:
        >>> mine = Changes(update={"a1": ((3, 5),)})
        >>> find_conflicts(mine, [Changes(update={"a1": ((4, 9),)}), Changes(append=2)])
        [Conflict(what='update', tensor_id='a1', physical=(4,), description='')]
    """
    found: list[Conflict] = []
    for other in theirs:
        if mine.rewrite and other.rewrite:
            found.append(Conflict("rewrite"))
        found += _schema_conflicts(mine, other)
        found += [*_drop_conflicts(mine, other), *_drop_conflicts(other, mine)]
        found += [*_checked_conflicts(mine, other), *_checked_conflicts(other, mine)]
        found += _cell_conflicts(mine, other)
        found += _read_conflicts(reads, other)
    return found


def _schema_conflicts(mine: Changes, other: Changes) -> Iterator[Conflict]:
    ours, theirs = _by_tensor(mine), _by_tensor(other)
    for tensor_id in ours.keys() & theirs.keys():
        if ours[tensor_id] != theirs[tensor_id] or not _is_complete(ours[tensor_id]):
            yield Conflict("schema", tensor_id)
    our_names, their_names = _names_given(ours), _names_given(theirs)
    for name in our_names.keys() & their_names.keys():
        if our_names[name] != their_names[name]:
            yield Conflict("name", our_names[name])


def _by_tensor(changes: Changes) -> dict[str, list[tuple[Any, Any]]]:
    """Return the schema changes of each tensor, in order: (op, name) pairs."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for change in changes.schema:
        found.setdefault(str(change["tensor"]), []).append((change["op"], change["name"]))
    return found


def _is_complete(ops: list[tuple[Any, Any]]) -> bool:
    """Return whether equal records mean equal changes; type changes are recorded as facts only."""
    return all(op in ("drop", "rename") for op, _ in ops)


def _names_given(by_tensor: dict[str, list[tuple[Any, Any]]]) -> dict[Any, str]:
    """Return names that are new to tensors, or belong to new tensors."""
    given: dict[Any, str] = {}
    for tensor_id, ops in by_tensor.items():
        last = next((op for op in reversed(ops) if op[0] in ("add", "rename", "drop")), None)
        if last is not None and last[0] != "drop":
            given[last[1]] = tensor_id
    return given


def _drop_conflicts(dropping: Changes, other: Changes) -> list[Conflict]:
    """Find drops of a tensor whose new values, appended or updated, would be lost silently.

    Not if the other dropped it too: its new rows have no value for it.
    """
    gone = {change["tensor"] for change in other.schema if change["op"] == "drop"}
    return [
        Conflict("drop", change["tensor"])
        for change in dropping.schema
        if change["op"] == "drop"
        and change["tensor"] not in gone
        and (other.append or change["tensor"] in other.update)
    ]


def _checked_conflicts(checking: Changes, other: Changes) -> list[Conflict]:
    """Find types validated against every row that conflict with new, unvalidated rows."""
    return [
        Conflict("schema", change["tensor"])
        for change in checking.schema
        if change.get("checked") and (other.append or change["tensor"] in other.update)
    ]


def _cell_conflicts(mine: Changes, other: Changes) -> list[Conflict]:
    found: list[Conflict] = []
    for tensor_id in sorted(mine.update.keys() & other.update.keys()):
        ours, theirs = mine.update[tensor_id], other.update[tensor_id]
        both = _both(known_ranges(ours), known_ranges(theirs))
        if both is not None:
            found.append(Conflict("update", tensor_id, both))
    for updating, deleting in ((mine, other), (other, mine)):
        both = _both(known_union(updating.update.values()), known_ranges(deleting.delete))
        if both is not None:
            found.append(Conflict("delete", None, both))
    return found


def _read_conflicts(reads: Collection[str], other: Changes) -> Iterator[Conflict]:
    """Find columns that changed after being read: cells, rows, type or order."""
    changed_schema = {change["tensor"] for change in other.schema}
    rows_moved = bool(other.append or len(other.delete) or other.rewrite)
    for tensor_id in sorted(reads):
        if rows_moved or tensor_id in changed_schema:
            yield Conflict("read", tensor_id)
        elif tensor_id in other.update:
            known = known_ranges(other.update[tensor_id])
            yield Conflict("read", tensor_id, () if known is None else _listed(known))


def _both(a: Ranges | None, b: Ranges | None) -> tuple[int, ...] | None:
    """Return the rows in both sets, None if there are none. A set that is None has unknown rows."""
    if (a is not None and len(a) == 0) or (b is not None and len(b) == 0):
        return None
    if a is None or b is None:
        return ()
    common = intersect(a, b)
    return _listed(common) if len(common) else None


def _listed(ranges: Ranges) -> tuple[int, ...]:
    return tuple(rows_in(ranges).tolist())
