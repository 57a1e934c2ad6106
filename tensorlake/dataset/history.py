"""What happened: commits as a user sees them, and what differs between two versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChangedRows, Changes, Entry, EntryLine
from tensorlake.quantities import human_time, plural
from tensorlake.versions import time_of

if TYPE_CHECKING:
    from tensorlake.dataset.tensor import Tensor
    from tensorlake.dataset.view import View

__all__ = ["Commit", "Diff", "Updated", "tensor_names"]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a branch.

    Attributes:
        version: Its name for ever: ``main@12``.
        digest: Digest of its log entry, 40 hex digits.
        parents: The versions it follows.
        changes: What it changed, as recorded: rows appended, ranges updated and deleted.
    """

    version: str
    digest: str
    message: str
    author: str
    time: dt.datetime
    parents: tuple[str, ...]
    num_rows: int
    changes: Changes
    keys: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tensor_names: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @classmethod
    def of_entry(
        cls,
        entry: Entry | EntryLine,
        branch: str,
        *,
        names: Mapping[str, str] | None = None,
        latest: dt.datetime | None = None,
    ) -> Commit:
        """Show a log entry as a commit.

        Args:
            entry: The entry.
            branch: Whose log it is of.
            names: Names of tensors by id, for an entry whose schema lies in a page of its own.
            latest: When it was published at the latest, as one that followed it shows.
        """
        time = time_of(entry)
        return cls(
            version=f"{branch}@{entry.seq}",
            digest=entry.digest,
            message=entry.message,
            author=entry.author,
            time=time if latest is None else min(time, latest),
            parents=tuple(f"{parent.branch}@{parent.seq}" for parent in entry.parents),
            num_rows=entry.num_rows,
            changes=entry.changes,
            keys=tuple(entry.keys),
            meta=entry.meta,
            tensor_names=tensor_names(entry) or names or {},
        )

    def __repr__(self) -> str:
        when = human_time(self.time)
        told = [f"Commit {self.version} {self.message!r}", f"{self.author or 'nobody'}, {when}"]
        return " · ".join([*told, self.summary()])

    def summary(self) -> str:
        """Say in a few words what it changed.

        ``+1,200 rows``, ``label 214 rows``, ``+vector``. A restored version is recorded as such,
        without its rows, and so is a branch taken over whole: ``all of fix-labels@4``.
        """
        changes = self.changes
        parts: list[str] = ["rows replaced or reordered"] if changes.rewrite else []
        if changes == Changes(rewrite=True) and len(self.parents) > 1:
            parts = [f"all of {self.parents[1]}"]
        if changes.append:
            parts.append(f"+{plural(changes.append, 'row')}")
        for tensor_id, ranges in changes.update.items():
            name = self.tensor_names.get(tensor_id, tensor_id)
            parts.append(f"{name} {_count(ranges)}")
        if changes.delete:
            parts.append(f"-{_count(changes.delete)}")
        parts += [
            SCHEMA_WORDS.get(str(change.get("op")), "schema of {}").format(change.get("name"))
            for change in changes.schema
        ]
        return ", ".join(parts) or "no change"

    def __str__(self) -> str:
        when = human_time(self.time)
        return f"{self.version}  {when}  {self.author}  {self.message}   {self.summary()}"


def tensor_names(entry: Entry | EntryLine) -> dict[str, str]:
    """Names of an entry's tensors by id; none where its schema lies in a page that is not read."""
    return {spec["id"]: spec["name"] for spec in (entry.schema or {}).get("tensors", [])}


SCHEMA_WORDS = {
    "add": "+{}",
    "drop": "-{}",
    "rename": "renamed {}",
    "names": "classes of {}",
    "type": "type of {}",
    "metadata": "metadata of {}",
}


def _count(rows: ChangedRows) -> str:
    if rows == "many":
        return "many rows"
    return plural(sum(stop - start for start, stop in rows), "row")


@dataclass(frozen=True, slots=True)
class Updated:
    """The rows whose value of one tensor differs, before and after.

    Attributes:
        before: The tensor over those rows in the older version.
        after: The same rows, in the same order, in the newer one.
        view_before: Those rows of the older version, with all of its tensors.
        view_after: And of the newer.
    """

    before: Tensor
    after: Tensor
    view_before: View
    view_after: View

    @property
    def rows_before(self) -> npt.NDArray[np.int64]:
        """Their row numbers in the older version."""
        return self.view_before.rows

    @property
    def rows_after(self) -> npt.NDArray[np.int64]:
        """Their row numbers in the newer version, in the same order."""
        return self.view_after.rows

    def __len__(self) -> int:
        return len(self.after)

    def __repr__(self) -> str:
        return f"Updated({plural(len(self), 'row')} of {self.after.name!r})"


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two versions, by row identity.

    Attributes:
        added: A View of rows only the newer version has.
        removed: A View of rows only the older version has.
        updated: Tensors with changed cells, by name.
        schema: Changes of the schema, one line each.
    """

    added: View
    removed: View
    updated: Mapping[str, Updated]
    schema: tuple[str, ...]
    before: str
    after: str

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed) or self.updated or self.schema)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the lines of ``repr``."""
        return iter(repr(self).splitlines())

    def __repr__(self) -> str:
        lines = [f"{self.before} → {self.after}"]
        lines += [f" {change}" for change in self.schema]
        if len(self.added):
            lines.append(f" {plural(len(self.added), 'row')} added")
        if len(self.removed):
            lines.append(f" {plural(len(self.removed), 'row')} removed")
        width = max(map(len, self.updated), default=0)
        for name, updated in self.updated.items():
            count = plural(len(updated), "row")
            lines.append(f" {name:<{width}}  {count} updated{_transitions(updated)}")
        if not self:
            lines.append(" no difference")
        return "\n".join(lines)


TRANSITIONS_SHOWN = 3


def _transitions(updated: Updated) -> str:
    """Say which classes became which, for class labels: ``   puppy → dog 214``."""
    before_names, after_names = updated.before.names_or_none, updated.after.names_or_none
    if before_names is None or after_names is None or updated.after.type.layout != "uniform":
        return ""
    counts: dict[tuple[str, str], int] = {}
    pairs = zip(updated.before.read_codes(), updated.after.read_codes(), strict=True)
    for old, new in pairs:
        pair = (
            "NULL" if old is None else before_names[old],
            "NULL" if new is None else after_names[new],
        )
        counts[pair] = counts.get(pair, 0) + 1
    largest = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(
        f"{old} → {new} {count:,}" for (old, new), count in largest[:TRANSITIONS_SHOWN]
    )
    return f"   {shown}" + (", …" if len(largest) > TRANSITIONS_SHOWN else "")
