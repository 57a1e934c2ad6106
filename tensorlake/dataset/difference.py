"""What differs between two snapshots: rows by identity, cells by value.

Only cells whose chunk differs are candidates, so what two versions share is never read; a candidate
counts as updated when its stored value differs, whatever was rewritten around it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.cells import places_of, samples_differ
from tensorlake.dataset.history import Diff, Updated
from tensorlake.dataset.identity import ids_of, physical_of
from tensorlake.dataset.session import Session
from tensorlake.dataset.tensor import Tensor
from tensorlake.dataset.view import View
from tensorlake.format import TensorSpec
from tensorlake.reading import Selection, Snapshot
from tensorlake.types import ClassLabel, in_same_terms
from tensorlake.versions import codes_in

__all__ = ["diff_snapshots"]

Int64Array = npt.NDArray[np.int64]

COMPARED_AT_ONCE = 4096
"""Candidate rows read together from both sides."""


def diff_snapshots(
    session: Session, before: Snapshot, after: Snapshot, *, after_name: str | None = None
) -> Diff:
    """Compare two snapshots of one dataset."""
    old = before.physical(np.arange(before.num_rows, dtype=np.int64))
    new = after.physical(np.arange(after.num_rows, dtype=np.int64))
    old_in_after = physical_of(ids_of(before, old), after)
    is_kept = np.isin(old_in_after, new) & (old_in_after >= 0)
    is_added = ~np.isin(new, old_in_after[is_kept])
    kept_old, kept_new = old[is_kept], old_in_after[is_kept]
    updated: dict[str, Updated] = {}
    for spec in after.schema.tensors:
        old_spec = next((s for s in before.schema.tensors if s.id == spec.id), None)
        if old_spec is None:
            continue
        changed = _changed(session, (before, old_spec), (after, spec), kept_old, kept_new)
        if len(changed):
            view_before = _view(session, before, kept_old[changed])
            view_after = _view(session, after, kept_new[changed])
            updated[spec.name] = Updated(
                Tensor(view_before, old_spec.name),
                Tensor(view_after, spec.name),
                view_before,
                view_after,
            )
    return Diff(
        added=_view(session, after, new[is_added]),
        removed=_view(session, before, old[~is_kept]),
        updated=updated,
        schema=tuple(_schema_changes(before, after)),
        before=before.version,
        after=after_name or after.version,
    )


def _view(session: Session, snapshot: Snapshot, physical: Int64Array) -> View:
    columns = tuple(spec.name for spec in snapshot.schema.tensors)
    return View(session, Selection(snapshot, columns, snapshot.rows_of(physical)))


def _changed(
    session: Session,
    before: tuple[Snapshot, TensorSpec],
    after: tuple[Snapshot, TensorSpec],
    old: Int64Array,
    new: Int64Array,
) -> Int64Array:
    """Positions among the kept rows whose value of one tensor differs."""
    places = [
        places_of(snapshot, spec.id, physical)
        for (snapshot, spec), physical in ((before, old), (after, new))
    ]
    candidates = np.flatnonzero(np.any(places[0] != places[1], axis=1))
    changed: list[Int64Array] = []
    for start in range(0, len(candidates), COMPARED_AT_ONCE):
        rows = candidates[start : start + COMPARED_AT_ONCE]
        columns = [
            session.reader(snapshot).read(spec.name, physical[rows], decode=False)
            for (snapshot, spec), physical in ((before, old), (after, new))
        ]
        same = in_same_terms(columns[0], before[1].type, columns[1], after[1].type)
        changed.append(rows[samples_differ(*same)])
    return np.concatenate(changed) if changed else np.empty(0, dtype=np.int64)


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
    """What became of a type; of class names, each that came, went, or was renamed."""
    if old.type == new.type:
        return []
    if not isinstance(old.type, ClassLabel) or not isinstance(new.type, ClassLabel):
        return [f"{old.type.describe()} → {new.type.describe()}"]
    names, changes, known = new.type.names, list[str](), set[int]()
    for name, code in zip(old.type.names, codes_in(new, old), strict=True):
        now = names[code] if code < len(names) else ""
        known.add(code)
        if name and not now:
            changes.append(f"-class {name!r}")
        elif now != name:
            changes.append(f"class {name!r} → {now!r}" if name else f"+class {now!r}")
    added = [name for code, name in enumerate(names) if code not in known and name]
    changes += [f"+class {name!r}" for name in added]
    return changes or [f"{old.type.describe()} → {new.type.describe()}"]
