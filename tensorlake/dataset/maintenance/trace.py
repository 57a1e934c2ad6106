"""Where rows are held: the versions, tags, saved views and runs that have them.

    row ids ─► each version of each branch that can be read ─► those that show a row
            ─► each tag and saved view
            ─► each run recorded beside the dataset ─► the steps whose batches had a row

Versions with equal row selections are looked up once. Copies elsewhere are not known to a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import (
    id_of_text,
    ids_of,
    matched_ids,
    rows_of_ids,
    text_of_id,
)
from tensorlake.dataset.core.rowset import HasViews, rowset_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.saved_views import open_saved
from tensorlake.dataset.runs.places import Runs
from tensorlake.errors import (
    SnapshotExpiredError,
    TensorlakeError,
)
from tensorlake.format import ROW_ID, Entry
from tensorlake.quantities import checked_integer, plural
from tensorlake.reading import Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import (
    BranchLog,
    fence_of,
    forgotten_before,
    loaded,
    readable_branch_names,
)

__all__ = [
    "Trace",
    "VersionRange",
    "held_by",
    "merged_ranges",
    "readable_versions",
    "trace",
]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Consecutive versions of a branch.

    Attributes:
        branch: The branch.
        first: Number of the first.
        last: Number of the last.
    """

    branch: str
    first: int
    last: int

    def __str__(self) -> str:
        first = f"{self.branch}@{self.first}"
        return first if self.first == self.last else f"{first} … {self.branch}@{self.last}"


@dataclass(frozen=True, slots=True)
class Trace:
    """Where rows are held.

    Attributes:
        row_ids: The rows.
        versions: Versions that can be read and show one of them.
        tags: Tags of such versions.
        views: Saved views that have one of them.
        runs: By name of a run, the steps whose batches had one of them, ascending.
        unknown: By name of a run, why its steps are not known.
    """

    row_ids: tuple[str, ...]
    versions: tuple[VersionRange, ...]
    tags: tuple[str, ...]
    views: tuple[str, ...]
    runs: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        count = len(self.row_ids)
        rows = plural(count, "row") if count == 1 else f"any of {count:,} rows"
        lines = [
            f"versions with {rows}: {', '.join(map(str, self.versions)) or 'none'}",
            f"tags: {', '.join(self.tags) or 'none'}",
            f"saved views: {', '.join(self.views) or 'none'}",
        ]
        for name, steps in self.runs.items():
            lines.append(f"run {name!r}: {plural(len(steps), 'step')}, {steps[0]} to {steps[-1]}")
        lines += [f"run {name!r}: not known: {why}" for name, why in self.unknown.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def trace(dataset: HasViews[Any], row: int | str) -> Trace:
    """Find all that holds a row; see ``ds.trace``."""
    rows = rowset_of(dataset)
    if isinstance(row, str):
        ids = id_of_text(row)
    else:
        advice = "or give a row id, as ds.row_ids lists them"
        number = checked_integer(row, name="row", least=None, advice=advice)
        position = rows.position(number, what=lambda: repr(rows.url))
        ids = ids_of(rows.selection.snapshot, rows.selection.physical(np.array([position])))
    return held_by(dataset, ids)


def held_by(dataset: HasViews[Any], ids: npt.NDArray[Any], *, with_ended: bool = False) -> Trace:
    """Find all that holds one of some rows, also on deleted branches if these are asked for."""
    session = rowset_of(dataset).session
    listed = readable_versions(session, with_ended=with_ended)
    versions = tuple(_ranges(listed, lambda snapshot: _shows(snapshot, ids)))
    tags = [
        name
        for name in versioning.tags(session)
        if _shows(versioning.snapshot_at(session, name), ids)
    ]
    views = [
        name
        for name in versioning.views(session)
        if len(matched_ids(ids, open_saved(session, name).selection)[0])
    ]
    steps, unknown = dict[str, tuple[int, ...]](), dict[str, str]()
    for name, run in Runs(session.store, dataset).items():
        try:
            found = run.history.steps_with(ids)
        except TensorlakeError as error:
            unknown[name] = str(error).splitlines()[0]
            continue
        if found:
            steps[name] = tuple(found)
    texts = tuple(map(text_of_id, ids))
    return Trace(texts, versions, tuple(tags), tuple(views), steps, unknown)


def readable_versions(
    session: Session, *, with_ended: bool = False
) -> Iterator[tuple[Entry, Snapshot]]:
    """List the versions of all branches that have not expired, oldest first.

    Args:
        session: A session of the dataset.
        with_ended: Also those of deleted branches, as far as they have not been collected.
    """
    for branch in runtime.run(readable_branch_names(session.store)):
        for entry in _entries(session, branch, with_ended=with_ended):
            try:
                full = runtime.run(loaded(entry, session.packs))
                snapshot = Snapshot.of_entry(full, session.packs, branch=branch)
                if with_ended:
                    rows_of_ids(np.zeros(1, ROW_ID), snapshot)
            except SnapshotExpiredError:  # of a deleted branch, and collected
                continue
            yield full, snapshot


def _entries(session: Session, branch: str, *, with_ended: bool) -> list[Entry]:
    log = BranchLog(session.store, branch)

    async def read() -> list[Entry]:
        head = await log.head()
        if head is None or not head.has_body or (head.kind == "end" and not with_ended):
            return []
        first = fence_of(head).expired_before
        if head.kind == "end":  # its versions are not opened any more if rows were forgotten
            first = max(first, min(await forgotten_before(session.store, branch), head.seq))
        return [one async for one in log.entries(first, head.seq + 1) if one.kind == "commit"]

    return runtime.run(read())


def _ranges(
    versions: Iterator[tuple[Entry, Snapshot]], shows: Callable[[Snapshot], bool]
) -> Iterator[VersionRange]:
    known: list[tuple[Any, bool]] = []  # of the version before

    def is_held(snapshot: Snapshot) -> bool:
        state = snapshot.state
        key = state.rows, state.row_ids
        if not known or known[0][0] != key:
            known[:] = [(key, shows(snapshot))]
        return known[0][1]

    held = ((one.version, is_held(one)) for _, one in versions)
    split = ((*version.rsplit("@", 1), is_in) for version, is_in in held)
    for (branch, is_in), group in groupby(split, key=lambda one: (str(one[0]), one[2])):
        numbers = [int(number) for _, number, _ in group]
        if is_in:
            yield VersionRange(branch, numbers[0], numbers[-1])


def _shows(snapshot: Snapshot, ids: npt.NDArray[Any]) -> bool:
    return bool((rows_of_ids(ids, snapshot) >= 0).any())


def merged_ranges(ranges: Iterable[VersionRange]) -> tuple[VersionRange, ...]:
    """Return ranges of versions as few that do not overlap, sorted.

    >>> merged_ranges([VersionRange("main", 1, 5), VersionRange("main", 3, 7)])
    (VersionRange(branch='main', first=1, last=7),)
    """
    merged: list[VersionRange] = []
    for one in sorted(ranges, key=lambda one: (one.branch, one.first)):
        last = merged[-1] if merged else None
        if last is not None and last.branch == one.branch and one.first <= last.last + 1:
            merged[-1] = replace(last, last=max(last.last, one.last))
        else:
            merged.append(one)
    return tuple(merged)
