"""The text of a ``ConflictError``: concurrent changes, in rows and names of the user."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np

from tensorlake.errors import ConflictError
from tensorlake.format import Changes, Entry, PageReader, row_ids, rows_of, txid_of
from tensorlake.storage import runtime
from tensorlake.versions.log.state import State
from tensorlake.versions.rows.conflict_rules import Conflict, find_conflicts
from tensorlake.versions.rows.ranges import distinct

__all__ = ["conflict_error"]

SHOWN_ROWS = 3
NAMED_ROWS = 1000
"""Rows that the error carries by number and row id; a conflict of millions names the first."""

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def conflict_error(
    conflicts: Sequence[Conflict],
    *,
    base: Entry,
    state: State,
    between: Sequence[Entry],
    changes: Changes,
    reads: Collection[str],
    branch: str,
    url: str,
    pages: PageReader,
    on_conflict: str,
) -> ConflictError:
    """Build the error for staged changes that cannot move onto a newer entry.

    Args:
        conflicts: The reasons; rows are physical rows of ``state``.
        base: The entry they were staged on.
        state: Content of that entry.
        between: The entries that followed, up to the newest.
        changes: The staged changes.
        reads: Ids of tensors they were computed from.
        branch: The branch.
        url: The dataset.
        pages: Reads index pages.
        on_conflict: The requested policy; what it decides is not in ``conflicts``.
    """
    physical = distinct(np.array([row for one in conflicts for row in one.physical], np.int64))
    shown = physical[:NAMED_ROWS]
    numbers = runtime.run(rows_of(state.rows, shown, pages)) if len(shown) else shown
    number_of = dict(zip(shown.tolist(), numbers.tolist(), strict=True))
    names = {spec.id: spec.name for spec in state.schema.tensors}
    first, last = f"{branch}@{base.seq}", f"{branch}@{between[-1].seq}"
    described = "; ".join(_described(one, names, number_of, first) for one in conflicts)
    culprit = _culprit(conflicts, between, changes, reads)
    return ConflictError(
        f"{branch!r} of {url!r} moved from {first} to {last} while this transaction was open;"
        f" {described}\n"
        f"by {culprit.author!r} {_ago(culprit)}, {culprit.message!r}."
        f" {_advice(conflicts, on_conflict)}",
        branch=branch,
        base=first,
        head=last,
        tensor=next((names[one.tensor_id] for one in conflicts if one.tensor_id in names), None),
        rows=tuple(numbers[numbers >= 0].tolist()),  # the others are known by row id alone
        row_ids=_ids(state, shown, pages),
        author=culprit.author,
        commit_message=culprit.message,
        conflicts=tuple(conflicts),
    )


def _advice(conflicts: Sequence[Conflict], on_conflict: str) -> str:
    if any(one.what == "group" for one in conflicts):
        return (
            "No on_conflict decides between two contents of a column group. Your changes are kept:"
            " ds.discard(), and stage them again"
        )
    if any(one.what == "reference" for one in conflicts):
        return (
            "No on_conflict decides this. Your changes are kept: ds.discard(), and stage them again"
            " on the newest version"
        )
    if on_conflict == "error":
        return (
            "Your changes are kept: ds.refresh(keep_staged=True, on_conflict='ours') and commit"
            " again, or ds.discard()"
        )
    return f"on_conflict={on_conflict!r} cannot decide this. Your changes are kept: ds.discard()"


def _described(
    conflict: Conflict, names: dict[str, str], number_of: dict[int, int], base: str
) -> str:
    """Describe a conflict, its first rows by number; -1 for rows hidden by the base."""
    if conflict.description:
        return conflict.description
    tensor = repr(names.get(conflict.tensor_id or "", "?"))
    match conflict.what:
        case "update":
            what = f"both changed {tensor} of"
        case "delete":
            what = "one deleted, the other changed,"
        case "read":
            what = f"{tensor}, which this transaction read, was changed" + (
                " in" if conflict.physical else ""
            )
        case "drop":
            return f"one dropped {tensor}, the other gave it values"
        case "schema":
            return f"both changed the schema of {tensor}, or one what values of the other need"
        case "name":
            return "both gave one name to two tensors"
        case "rewrite":
            return "both reordered rows"
        case "group":
            return "both changed a column group"
        case "reference":
            return f"what reads {tensor} does not fit it"
    if not conflict.physical:
        return what
    count = len(conflict.physical)
    found = [number_of[row] for row in conflict.physical[:SHOWN_ROWS] if row in number_of]
    rows = [str(number) for number in found if number >= 0]
    hidden = [f"not shown in {base}"] * (len(rows) < len(found))
    more = ["…"] * (count > len(found))
    return f"{what} {count:,} row{'s' * (count > 1)} ({', '.join(rows + hidden + more)})"


def _culprit(
    conflicts: Sequence[Conflict],
    between: Sequence[Entry],
    changes: Changes,
    reads: Collection[str],
) -> Entry:
    """The newest commit that alone would conflict; the newest of all where none would."""
    del conflicts
    commits = [entry for entry in between if entry.kind == "commit"] or [between[-1]]
    for entry in reversed(commits):
        if find_conflicts(changes, [entry.changes], reads=reads):
            return entry
    return commits[-1]


def _ago(entry: Entry) -> str:
    seconds = time.time() - entry.published / 1e6
    for unit, length in (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def _ids(state: State, physical: np.ndarray, pages: PageReader) -> tuple[str, ...]:
    if not len(physical):
        return ()
    ids = runtime.run(row_ids(state.row_ids, physical, pages))
    return tuple(f"{txid_of(one)}:{int(one['offset'])}" for one in ids)
