"""Where rows are held: the versions, tags, saved views and runs that have them.

    row ids ─► each version of each branch that can be read ─► those that show a row
            ─► each tag and saved view
            ─► each run recorded beside the dataset ─► the steps whose batches had a row

Versions with equal row selections are looked up once. Copies elsewhere are not known to a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import ids_of, matched_ids, rows_of_ids
from tensorlake.dataset.core.rowset import HasViews, rowset_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.saved_views import open_saved
from tensorlake.dataset.runs.places import Runs
from tensorlake.errors import InvalidInputError, TensorlakeError, shown
from tensorlake.format import ROW_ID, Entry, txid_of
from tensorlake.quantities import checked_integer, plural
from tensorlake.reading import Snapshot
from tensorlake.storage import runtime
from tensorlake.versions import BranchLog, fence_of, loaded, readable_branch_names

__all__ = [
    "Trace",
    "VersionRange",
    "held_by",
    "id_of_text",
    "readable_versions",
    "text_of_id",
    "trace",
]

TXID_DIGITS = 32
WORD_DIGITS = 16


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
        rows = plural(len(self.row_ids), "row")
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


def held_by(dataset: HasViews[Any], ids: npt.NDArray[Any]) -> Trace:
    """Find all that holds one of some rows."""
    session = rowset_of(dataset).session
    versions = tuple(_ranges(session, lambda snapshot: _shows(snapshot, ids)))
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
            found = run.steps_with(ids)
        except TensorlakeError as error:
            unknown[name] = str(error).splitlines()[0]
            continue
        if found:
            steps[name] = tuple(found)
    texts = tuple(map(text_of_id, ids))
    return Trace(texts, versions, tuple(tags), tuple(views), steps, unknown)


def readable_versions(session: Session) -> Iterator[tuple[Entry, Snapshot]]:
    """List the versions of all branches that have not expired, oldest first."""
    for branch in runtime.run(readable_branch_names(session.store)):
        for entry in _entries(session, branch):
            full = runtime.run(loaded(entry, session.packs))
            yield full, Snapshot.of_entry(full, session.packs, branch=branch)


def _entries(session: Session, branch: str) -> list[Entry]:
    log = BranchLog(session.store, branch)

    async def read() -> list[Entry]:
        head = await log.head()
        if head is None or not head.has_body or head.kind == "end":
            return []
        first = fence_of(head).expired_before
        return [one async for one in log.entries(first, head.seq + 1) if one.kind == "commit"]

    return runtime.run(read())


def _ranges(session: Session, shows: Callable[[Snapshot], bool]) -> Iterator[VersionRange]:
    known: list[tuple[Any, bool]] = []  # of the version before

    def is_held(snapshot: Snapshot) -> bool:
        state = snapshot.state
        key = state.rows, state.row_ids
        if not known or known[0][0] != key:
            known[:] = [(key, shows(snapshot))]
        return known[0][1]

    held = ((one.version, is_held(one)) for _, one in readable_versions(session))
    split = ((*version.rsplit("@", 1), is_in) for version, is_in in held)
    for (branch, is_in), group in groupby(split, key=lambda one: (str(one[0]), one[2])):
        numbers = [int(number) for _, number, _ in group]
        if is_in:
            yield VersionRange(branch, numbers[0], numbers[-1])


def _shows(snapshot: Snapshot, ids: npt.NDArray[Any]) -> bool:
    return bool((rows_of_ids(ids, snapshot) >= 0).any())


def text_of_id(row_id: Any) -> str:
    """Return a row id as text ``<txid>:<offset>``."""
    return f"{txid_of(row_id)}:{int(row_id['offset'])}"


def id_of_text(text: str) -> npt.NDArray[Any]:
    """Return the row id of its text ``<txid>:<offset>``, as ``view.row_ids`` lists it.

    Raises:
        InvalidInputError: It is not one.
    """
    txid, colon, offset = text.partition(":")
    ids = np.zeros(1, ROW_ID)
    try:
        if len(txid) != TXID_DIGITS or not colon:
            raise ValueError(text)  # noqa: TRY301 - as of the digits below
        words = int(txid[:WORD_DIGITS], 16), int(txid[WORD_DIGITS:], 16), int(offset)
        ids["txid_high"], ids["txid_low"], ids["offset"] = words
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"trace() takes a row number, or a row id as row_ids lists them, got {shown(text)}",
            actual=text,
        ) from error
    return ids
