"""The changes of a commit, so that another commit can be combined with it without reading data.

Rows are physical rows of the branch, as ranges [start, stop). Above 64 ranges the value is "many",
and the exact rows require comparing the trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.spec import MAX_CHANGED_RANGES

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_CHANGES = frozenset({"add", "drop", "rename", "names", "type", "metadata"})
"""Names of schema changes, as ``op``."""

Ranges = tuple[tuple[int, int], ...]
ChangedRows = Ranges | Literal["many"]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one commit against the one before it.

    Attributes:
        append: Rows added at the end.
        update: By tensor id, the physical rows whose cells were written.
        delete: Physical rows that are no longer shown.
        schema: Changes of the schema in order, each {"op": …, "tensor": id, …}.
        rewrite: Whether physical rows mean something else than before (restore, reordering).
        indexes: Indexes added, updated and dropped, each {"op": …, "name": …, "kind": …}. They are
            recorded for readers of the log alone: changes of values are equal without them.
    """

    append: int = 0
    update: Mapping[str, ChangedRows] = field(default_factory=dict[str, ChangedRows])
    delete: ChangedRows = ()
    schema: tuple[Mapping[str, Any], ...] = ()
    rewrite: bool = False
    indexes: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)

    @property
    def is_append_only(self) -> bool:
        """Whether nothing but rows at the end changed."""
        return not (self.update or self.delete or self.schema or self.rewrite)

    def to_json(self) -> dict[str, Any]:
        """Write the changes for a log entry."""
        indexes = [dict(change) for change in self.indexes]
        return {
            "append": self.append,
            "update": {tensor: _to_json(rows) for tensor, rows in self.update.items()},
            "delete": _to_json(self.delete),
            "schema": [dict(change) for change in self.schema],
            "rewrite": self.rewrite,
            **({"indexes": indexes} if indexes else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what ``to_json`` wrote; KeyError, TypeError or ValueError for anything else."""
        append = value["append"]
        if not isinstance(append, int) or append < 0:
            raise ValueError(f"append is {append!r}, not a number of rows")
        return cls(
            append,
            {str(tensor): _from_json(rows) for tensor, rows in value["update"].items()},
            _from_json(value["delete"]),
            tuple(dict(change) for change in value["schema"]),
            bool(value["rewrite"]),
            tuple(dict(change) for change in value.get("indexes", ())),
        )


def changed_rows(physical: npt.NDArray[np.int64]) -> ChangedRows:
    """Return the ranges of some physical rows in any order, or "many".

    >>> changed_rows(np.array([7, 3, 4]))
    ((3, 5), (7, 8))
    """
    if not len(physical):
        return ()
    rows = np.unique(physical)
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(breaks) >= MAX_CHANGED_RANGES:
        return "many"
    parts = np.split(rows, breaks)
    return tuple((int(part[0]), int(part[-1]) + 1) for part in parts)


def unite_rows(one: ChangedRows, other: ChangedRows) -> ChangedRows:
    """Return the rows that either changed."""
    if one == "many" or other == "many":
        return "many"
    united: list[tuple[int, int]] = []
    for start, stop in sorted([*one, *other]):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(stop, united[-1][1]))
        else:
            united.append((start, stop))
    return tuple(united) if len(united) <= MAX_CHANGED_RANGES else "many"


def _to_json(rows: ChangedRows) -> Any:
    return rows if rows == "many" else [list(row) for row in rows]


def _from_json(value: Any) -> ChangedRows:
    if value == "many":
        return "many"
    ranges = tuple((int(start), int(stop)) for start, stop in cast("list[list[int]]", value))
    if any(not 0 <= start < stop for start, stop in ranges):
        raise ValueError(f"{value!r} are not ranges of rows")
    return ranges
