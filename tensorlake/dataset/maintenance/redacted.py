"""Versions whose rows are forgotten, without these: under names of their own.

    main@4, with the row ─► a branch from it ─► the row deleted, its packs left ─► tag v1.forgotten
                                                                              └─► view ben.forgotten
    a run that read main@4 ─► its rows as numbers of that version, −1 where one was forgotten

All other rows have the values of then, so runs are replayed with holes in the places of those that
are gone. Everything is named before anything changes: a call that was stopped is continued with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import physical_of, rows_of_ids
from tensorlake.dataset.core.rowset import HasViews, RowSet
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.saved_views import open_saved, save
from tensorlake.dataset.runs.places import Runs
from tensorlake.dataset.runs.replay import PLAIN_ORDERS
from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.format import tag_path
from tensorlake.reading import Selection, Snapshot
from tensorlake.storage import Store, runtime
from tensorlake.versions import BranchLog, is_expired

__all__ = ["keep_redacted", "names_of", "redact_runs"]

Ids = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]
PREFIX = "forgotten-"
SUFFIX = re.compile(r"\.forgotten(-[0-9]+)?$")


def names_of(session: Session, names: list[str]) -> dict[str, str]:
    """Choose a name for each tag and saved view that is deleted: one that was never used.

    Those of expired versions have none, as on deleted branches: nothing new can begin there.
    """
    named = {**versioning.views(session), **versioning.tags(session)}
    return {
        name: _free_name(session.store, name)
        for name in names
        if not _has_expired(session.store, named[name].version)
    }


def _has_expired(store: Store, version: str) -> bool:
    branch, _, number = version.rpartition("@")
    head = runtime.run(BranchLog(store, branch).head())
    return head is None or is_expired(int(number), newest=head)


def _free_name(store: Store, name: str) -> str:
    base = SUFFIX.sub("", name) + ".forgotten"
    for number in range(1, 10_000):
        chosen = base if number == 1 else f"{base}-{number}"
        if runtime.run(store.head(tag_path(chosen))) is None:
            return chosen
    raise InvalidInputError(f"{store.url!r} has had 10,000 names like {base!r}")


def redact_runs(session: Session, dataset: HasViews[Any], ids: Ids) -> dict[str, str]:
    """Store which rows the runs read of versions that have some, by the numbers without them.

    Returns:
        The tag of what is left of each of these versions.
    """
    tags = dict[str, str]()
    named = {one.version: name for name, one in versioning.tags(session).items()}
    for run in Runs(session.store, dataset).values():
        history = run.history
        for segment in history.record.segments():
            state = segment.state
            if state["order"]["kind"] not in PLAIN_ORDERS or segment.is_staged:
                continue
            try:
                rows, snapshot = history.replay.rows_of(segment)
            except TensorlakeError:  # it could not be replayed before either; the report says why
                continue
            physical = physical_of(ids, snapshot)
            if not (physical >= 0).any() or _has_expired(session.store, snapshot.version):
                continue
            gone = snapshot.rows_of(physical[physical >= 0])
            gone = np.sort(gone[gone >= 0])
            kept = rows - np.searchsorted(gone, rows)
            kept[np.isin(rows, gone) | (rows < 0)] = -1
            version = snapshot.version
            if version not in tags:
                own = version.replace("@", "-")  # of what was left before: the name of then
                name = named.get(version, own) if version.startswith(PREFIX) else own
                tags[version] = _free_name(session.store, name)
            history.record.put_redacted(state["selection"], tags[version], kept)
    return tags


def keep_redacted(
    session: Session,
    ids: Ids,
    key: str,
    renamed: Mapping[str, str],
    tags: Mapping[str, str],
    clean: Callable[[Session], None],
) -> set[str]:
    """Make the versions without rows that names and runs continue with.

    Args:
        session: A session of the dataset.
        ids: The rows.
        key: A word that no other call has, for branches.
        renamed: The new name of each tag and saved view.
        tags: The tag of each version that runs read.
        clean: Deletes the rows from a branch's newest version.

    Returns:
        The branches that these versions are on.
    """
    saved, tagged = versioning.views(session), versioning.tags(session)
    named = {name: one.version for name, one in {**saved, **tagged}.items() if name in renamed}
    branches = set[str]()
    for number, version in enumerate(sorted({*named.values(), *tags})):
        there = _branch_at(session, version, f"{PREFIX}{key}-{number}")
        if there is None:  # it expired after it was named
            continue
        branches.add(there.branch)
        clean(there)
        wanted = [renamed[name] for name, of in named.items() if of == version and name in tagged]
        wanted += [tags[version]] if version in tags else []
        for name in wanted:
            if runtime.run(session.store.head(tag_path(name))) is None:
                versioning.tag(there, name, None)
        for name in (name for name, of in named.items() if of == version and name in saved):
            _save(session, there, ids, name, renamed[name])
    return branches


def _branch_at(session: Session, version: str, name: str) -> Session | None:
    """Open a branch for what is left of a version: its own, if that is such a branch.

    Returns:
        None if it has none yet and none can begin there, because it has expired.
    """
    own = version.rpartition("@")[0]
    if own.startswith(PREFIX):
        return versioning.at(session, own)
    head = runtime.run(BranchLog(session.store, name).head())
    if head is not None and head.has_body:
        return versioning.at(session, name)
    return (
        None if _has_expired(session.store, version) else versioning.branch(session, name, version)
    )


def _save(session: Session, there: Session, ids: Ids, name: str, chosen: str) -> None:
    """Save the rows of a saved view that are left, in their order."""
    if runtime.run(session.store.head(tag_path(chosen))) is not None:
        return
    view = open_saved(session, name)
    old, new = view.selection.snapshot, there.committed
    rows = view.selection.row_numbers(view.selection.all_positions())
    gone = rows_of_ids(ids, old)
    gone = np.sort(gone[gone >= 0])
    left = rows[~np.isin(rows, gone)]
    left = left - np.searchsorted(gone, left)
    columns = tuple(one for one in view.selection.columns if one in _names(new))
    save(RowSet(there, Selection(new, columns, left)), chosen, "")


def _names(snapshot: Snapshot) -> tuple[str, ...]:
    return snapshot.schema.names
