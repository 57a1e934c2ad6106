"""Commits as users see them, and the changes between two versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorlake.format import ChangedRows, Changes, Entry, EntryLine
from tensorlake.quantities import human_time, plural
from tensorlake.versions import time_of

__all__ = ["Commit", "index_words", "tensor_names"]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a branch.

    Attributes:
        version: Its permanent name: ``main@12``.
        digest: Digest of its log entry, 40 hex digits.
        parents: The versions it is based on.
        changes: Changes, as recorded: rows appended, ranges updated and deleted.
        is_expired: Whether the version had expired when the log was read.
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
    is_expired: bool = field(default=False, compare=False)

    @classmethod
    def of_entry(
        cls,
        entry: Entry | EntryLine,
        branch: str,
        *,
        names: Mapping[str, str] | None = None,
        latest: dt.datetime | None = None,
        is_expired: bool = False,
    ) -> Commit:
        """Show a log entry as a commit.

        Args:
            entry: The entry.
            branch: The branch whose log has it.
            names: Names of tensors by id, for an entry whose schema is stored in a page of its own.
            latest: When it was published at the latest, as one that followed it shows.
            is_expired: Whether it has expired.
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
            is_expired=is_expired,
        )

    def __repr__(self) -> str:
        when = human_time(self.time)
        described = [
            f"Commit {self.version} {self.message!r}",
            f"{self.author or 'nobody'}, {when}",
        ]
        return " · ".join([*described, self.summary()])

    def summary(self) -> str:
        """Summarise its changes in a few words.

        ``+1,200 rows``, ``label 214 rows``, ``+vector``, ``+index label (bitmap)``. A restored
        version is recorded as such, without its rows, and so is a branch adopted completely:
        ``all of fix-labels@4``.
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
        parts += schema_words(changes.schema, self.tensor_names)
        parts += index_words(changes.indexes)
        return ", ".join(parts) or "no change"

    def __str__(self) -> str:
        when = human_time(self.time)
        expired = "   (expired)" if self.is_expired else ""
        return f"{self.version}  {when}  {self.author}  {self.message}   {self.summary()}{expired}"


def tensor_names(entry: Entry | EntryLine) -> dict[str, str]:
    """Return the names of an entry's tensors by id; none if its schema's page was not read."""
    return {spec["id"]: spec["name"] for spec in (entry.schema or {}).get("tensors", [])}


SCHEMA_WORDS = {
    "add": "+{}",
    "drop": "-{}",
    "rename": "renamed {}",
    "names": "classes of {}",
    "type": "type of {}",
    "metadata": "metadata of {}",
}


def schema_words(changes: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[str]:
    """Describe changes of a schema, given its tensors' names by id, a few words each.

    A change of a check is one of the metadata of a tensor that it reads, under the check's name.
    """
    renamed = {one.get("tensor") for one in changes if one.get("op") == "rename"}
    for one in changes:
        tensor, name, op = one.get("tensor"), one.get("name"), str(one.get("op"))
        known = names.get(str(tensor), name)
        if op == "metadata" and name != known and tensor not in renamed:
            yield f"check {name}"
        else:
            yield SCHEMA_WORDS.get(op, "schema of {}").format(name)


INDEX_WORDS = {"add": "+index {} ({})", "drop": "-index {}", "update": "updated index {}"}


def index_words(changes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe changes of indexes, a few words each."""
    return [
        INDEX_WORDS.get(str(one.get("op")), "index {}").format(one.get("name"), one.get("kind"))
        for one in changes
    ]


def _count(rows: ChangedRows) -> str:
    if rows == "many":
        return "many rows"
    return plural(sum(stop - start for start, stop in rows), "row")
