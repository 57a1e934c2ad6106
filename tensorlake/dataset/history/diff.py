"""Differences between two snapshots: rows by identity, cells by value.

Rows are matched by ranges of row ids, and only cells whose extent differs are candidates, so data
shared by two versions is neither listed nor read; a candidate counts as updated if its value
differs, regardless of rewrites around it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.cells import samples_differ
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.commit import index_words
from tensorlake.errors import shown
from tensorlake.format import RowIdRuns, TensorSpec, index_changes
from tensorlake.reading import Selection, Snapshot
from tensorlake.storage import runtime
from tensorlake.types import ClassLabel, UniformColumn, in_same_terms
from tensorlake.versions import (
    Matched,
    SharedRows,
    Shown,
    codes_in,
    differing_places,
    match,
    rows_in,
    shared_rows,
    subtract,
    table_of,
)

__all__ = ["Difference", "UpdatedRows", "diff_snapshots", "transitions"]

Int64Array = npt.NDArray[np.int64]

COMPARED_AT_ONCE = 4096
"""Candidate rows read together from both sides."""


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """Rows in which the value of one tensor differs, in the same order, and the tensor's names."""

    name_before: str
    name_after: str
    before: RowSet
    after: RowSet


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between two versions; users see them as `Diff`."""

    added: RowSet
    removed: RowSet
    updated: Mapping[str, UpdatedRows]
    schema: tuple[str, ...]
    before: str
    after: str


def diff_snapshots(
    session: Session,
    before: Snapshot,
    after: Snapshot,
    *,
    after_name: str | None = None,
    names: Collection[str] | None = None,
) -> Difference:
    """Compare two snapshots of one dataset.

    Args:
        session: A session of the dataset.
        before: The older one.
        after: The newer one.
        after_name: Its name in the result; None: its version.
        names: The tensors of it that are compared; None: all.
    """
    (old_ids, old_shown), (new_ids, new_shown) = _rows_of(before), _rows_of(after)
    shared = shared_rows(old_ids, new_ids).within(old_shown.ranges)
    shared = shared.within_other(new_shown.ranges)
    both = match(SharedRows.identity(before.state.physical), shared)
    updated: dict[str, UpdatedRows] = {}
    for spec in after.schema.tensors:
        old_spec = before.schema.by_id(spec.id)
        if old_spec is None or (names is not None and spec.name not in names):
            continue
        old, new = _changed(session, (before, old_spec), (after, spec), both)
        if len(old):
            updated[spec.name] = UpdatedRows(
                old_spec.name,
                spec.name,
                _rows_at(session, before, old),
                _rows_at(session, after, new),
            )
    added = new_shown.in_order(subtract(new_shown.ranges, shared.other_ranges))
    removed = old_shown.in_order(subtract(old_shown.ranges, shared.ranges))
    return Difference(
        added=_rows_at(session, after, rows_in(np.stack(added, axis=1))),
        removed=_rows_at(session, before, rows_in(np.stack(removed, axis=1))),
        updated=updated,
        schema=(*_schema_changes(before, after), *_index_changes(before, after)),
        before=before.version,
        after=after_name or after.version,
    )


def _index_changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Describe the indexes that only one version has; an updated one is left out."""
    old, new = (
        {name: group.to_json() for name, group in one.state.groups.items()}
        for one in (before, after)
    )
    return index_words(one for one in index_changes(old, new) if one["op"] != "update")


def _rows_of(snapshot: Snapshot) -> tuple[RowIdRuns, Shown]:
    """A version's row ids as runs, and the rows that it shows."""
    state, pages = snapshot.state, snapshot.packs.pages
    ids = runtime.run(table_of(state.row_ids, pages))
    return ids, Shown(runtime.run(table_of(state.rows, pages)))


def _rows_at(session: Session, snapshot: Snapshot, physical: Int64Array) -> RowSet:
    return RowSet(session, Selection(snapshot, snapshot.schema.stored, snapshot.rows_of(physical)))


def _changed(
    session: Session,
    before: tuple[Snapshot, TensorSpec],
    after: tuple[Snapshot, TensorSpec],
    both: Matched,
) -> tuple[Int64Array, Int64Array]:
    """Return physical rows of both in which one tensor differs, in the older version's order."""
    (old, old_spec), (new, new_spec) = before, after
    _, numbers = new_spec.with_encodings_of(old_spec)
    moved = differing_places(
        both,
        old.extents(old_spec.id),
        new.extents(new_spec.id),
        numbers=np.array(numbers, dtype=np.int64),
        same_fill=old_spec.fill == new_spec.fill,
    )
    _, *sides = both.within(moved).rows()
    changed: list[Int64Array] = []
    for start in range(0, len(sides[0]), COMPARED_AT_ONCE):
        part = slice(start, start + COMPARED_AT_ONCE)
        columns = [
            session.reader(snapshot).read(spec.name, physical[part], decode=False)
            for (snapshot, spec), physical in zip((before, after), sides, strict=True)
        ]
        same = in_same_terms(columns[0], old_spec.type, columns[1], new_spec.type)
        changed.append(start + np.flatnonzero(samples_differ(*same)))
    which = np.concatenate([np.empty(0, dtype=np.int64), *changed])
    which = which[np.argsort(old.rows_of(sides[0][which]), kind="stable")]
    return sides[0][which], sides[1][which]


def _schema_changes(before: Snapshot, after: Snapshot) -> list[str]:
    old = {spec.id: spec for spec in before.schema.tensors}
    new = {spec.id: spec for spec in after.schema.tensors}
    lines = [f"-{spec.name}  {spec.type.describe()}" for id_, spec in old.items() if id_ not in new]
    lines += [
        f"+{spec.name}  {spec.type.describe()}" for id_, spec in new.items() if id_ not in old
    ]
    for id_ in old.keys() & new.keys():
        if old[id_].name != new[id_].name:
            lines.append(f"{old[id_].name} → {new[id_].name}")
        lines += [f"{new[id_].name}  {change}" for change in _type_changes(old[id_], new[id_])]
    return sorted(lines)


def _type_changes(old: TensorSpec, new: TensorSpec) -> list[str]:
    """Describe changes of a type; for classes, the names added, dropped and renamed."""
    if old.type == new.type:
        return []
    if not isinstance(old.type, ClassLabel) or not isinstance(new.type, ClassLabel):
        return [f"{old.type.describe()} → {new.type.describe()}"]
    names, changes, known = new.type.names, list[str](), set[int]()
    for name, code in zip(old.type.names, codes_in(new, old), strict=True):
        now = names[code] if code < len(names) else ""
        known.add(code)
        if name and not now:
            changes.append(f"-class {shown(name)}")
        elif now != name:
            changes.append(
                f"class {shown(name)} → {shown(now)}" if name else f"+class {shown(now)}"
            )
    added = [name for code, name in enumerate(names) if code not in known and name]
    changes += [f"+class {shown(name)}" for name in added]
    before, after = (
        {key: value for key, value in one.to_json().items() if key not in ("names", "dropped")}
        for one in (old.type, new.type)
    )
    # Codes of dropped classes are not a change: a restored version has them, too.
    return changes + ([] if before == after else [f"{old.type.describe()} → {new.type.describe()}"])


TRANSITIONS_SHOWN = 3


def transitions(updated: UpdatedRows) -> str:
    """List the changes of class labels: ``   puppy → dog 214``."""
    before = updated.before.schema[updated.name_before]
    after = updated.after.schema[updated.name_after]
    if not isinstance(before, ClassLabel) or not isinstance(after, ClassLabel):
        return ""
    if after.layout != "uniform":
        return ""
    counts: dict[tuple[str, str], int] = {}
    old_codes = _codes(updated.before, updated.name_before)
    new_codes = _codes(updated.after, updated.name_after)
    for old, new in zip(old_codes, new_codes, strict=True):
        pair = (
            "NULL" if old is None else before.names[old],
            "NULL" if new is None else after.names[new],
        )
        counts[pair] = counts.get(pair, 0) + 1
    largest = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(
        f"{old} → {new} {count:,}" for (old, new), count in largest[:TRANSITIONS_SHOWN]
    )
    return f"   {shown}" + (", …" if len(largest) > TRANSITIONS_SHOWN else "")


def _codes(rows: RowSet, name: str) -> list[int | None]:
    """Return the codes of all rows; None for NULL."""
    column = rows.read(name)
    assert isinstance(column, UniformColumn), "labels have one code per row"
    codes: list[int | None] = column.values.tolist()
    if column.valid is not None:
        for position in np.flatnonzero(~column.valid).tolist():
            codes[position] = None
    return codes
