"""The ``ConflictError`` of a merge: changes by both sides, in rows and names of the user."""

from __future__ import annotations

import numpy as np

from tensorlake.errors import ConflictError
from tensorlake.format import row_ids, rows_of, txid_of
from tensorlake.storage import runtime
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.merge.base import Version
from tensorlake.versions.merge.plan import MergePlan, OnConflict, RowConflict

__all__ = ["describe_conflicts", "merge_conflict_error"]

SHOWN_ROWS = 3
NAMED_ROWS = 1000
"""Rows that the error lists by number and row id; a conflict of millions lists the first."""


def describe_conflicts(plan: MergePlan) -> list[str]:
    """Describe the changes by both sides in each conflict of a plan, one line each."""
    described = [clash.description for clash in plan.merged.clashes]
    described += [
        _described(one, _names(plan, one.base), _row_numbers(plan, one)) for one in plan.conflicts
    ]
    return list(dict.fromkeys(described))


def merge_conflict_error(
    plan: MergePlan, log: BranchLog, how: OnConflict, *, what: str | None = None
) -> ConflictError:
    """Make the error of an undecided merge; ``what`` names another operation."""
    ours, theirs = plan.ours.version, plan.theirs.version
    base = plan.bases[0]
    cells = next((one for one in plan.conflicts if one.conflict.physical), None)
    names = _names(plan, base)
    concerned = [one.conflict.tensor_id for one in plan.conflicts]
    concerned += [clash.tensor_id for clash in plan.merged.clashes]
    doing = f"merging {theirs.name} into {ours.name}" if what is None else what
    advice = "resolve it by hand, or ds.restore() a whole version" if what else _advice(plan, how)
    return ConflictError(
        f"{doing} of {log.store.url!r} conflicts (both began at {base.name}):"
        f" {'; '.join(describe_conflicts(plan))}\nnothing was published; {advice}",
        branch=log.branch,
        base=base.name,
        head=ours.name,
        theirs=theirs.name,
        tensor=next((names[id_] for id_ in concerned if id_ in names), None),
        rows=() if cells is None else tuple(_row_numbers(plan, cells)),
        row_ids=() if cells is None else _ids(plan, cells),
        conflicts=tuple(one.conflict for one in plan.conflicts),
    )


def _advice(plan: MergePlan, how: OnConflict) -> str:
    branch = plan.theirs.version.branch
    if plan.undecided:
        return (
            "neither side can be preferred here: make the two agree with a commit on one of the"
            " branches, then merge again"
        )
    is_of_base = plan.theirs.version.origin is not None
    call = "ds.pull(" if is_of_base else f"ds.merge({branch!r}, "
    preferring = f"{call}on_conflict='ours') or 'theirs'"
    if any(one.conflict.what == "delete" for one in plan.conflicts) and plan.disputed_rows:
        return (
            "decide the rows that one deleted and the other changed, too: preview the merge again"
        )
    if callable(how):
        return f"a function decides cells only: {preferring} decides everything"
    return f"{preferring} prefers a side, a function decides cell by cell"


def _described(one: RowConflict, names: dict[str, str], numbers: list[int]) -> str:
    conflict = one.conflict
    name = names.get(conflict.tensor_id or "", conflict.tensor_id)
    match conflict.what:
        case "update":
            what = f"both changed {name!r}"
        case "delete":
            what = "one deleted what the other changed:"
        case "drop":
            return f"one dropped {name!r}, the other gave it new values"
        case "rewrite":
            return "both reordered the rows"
        case _:
            return f"one removed NULL from {name!r}, or narrowed its type, the other gave it values"
    count = len(conflict.physical)
    shown = ", ".join(map(str, numbers[:SHOWN_ROWS])) + (", …" if count > SHOWN_ROWS else "")
    of = "of" if conflict.what == "update" else ""
    rows = f"{count:,} {'row' if count == 1 else 'rows'}"
    return f"{what} {of} {rows} ({shown} of {one.base.name})".replace("  ", " ")


def _names(plan: MergePlan, base: Version) -> dict[str, str]:
    sides = (plan.theirs.version, plan.ours.version, base)
    return {spec.id: spec.name for side in sides for spec in side.state.schema.tensors}


def _row_numbers(plan: MergePlan, one: RowConflict) -> list[int]:
    physical = np.array(one.conflict.physical[:NAMED_ROWS], dtype=np.int64)
    if not len(physical):
        return []
    return runtime.run(rows_of(one.base.state.rows, physical, plan.ours.pages)).tolist()


def _ids(plan: MergePlan, one: RowConflict) -> tuple[str, ...]:
    physical = np.array(one.conflict.physical[:NAMED_ROWS], dtype=np.int64)
    found = runtime.run(row_ids(one.base.state.row_ids, physical, plan.ours.pages))
    return tuple(f"{txid_of(row)}:{int(row['offset'])}" for row in found)
