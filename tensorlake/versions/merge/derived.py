"""Computed tensors in a merge: rows that are fresh in the result, whichever side computed them.

A row is fresh in the result if it is on a side with whose cells, its own and those of the inputs,
the result agrees by value. So what one branch computed stays fresh where the other changed none of
the inputs, and each row of either needs computing again where it did.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tensorlake.format import ColumnGroup, PageReader, PageSink, TensorSpec
from tensorlake.storage import runtime
from tensorlake.versions.log.state import State
from tensorlake.versions.merge.plan import MergePlan
from tensorlake.versions.merge.side import CellReader, Side, differing_cells
from tensorlake.versions.rows.alignment import Matched, SharedRows, shared_rows, subtract
from tensorlake.versions.rows.derived import (
    derived_group,
    fresh_group,
    fresh_rows,
    group_of,
    is_current,
)
from tensorlake.versions.rows.ranges import Ranges, no_ranges, ranges_of, union

__all__ = ["FreshRows", "fresh_after", "merged_cells"]

FreshRows = Mapping[str, Ranges]
"""The fresh rows of a merge's result, by id of each computed tensor: physical rows."""


def fresh_after(plan: MergePlan, cells: CellReader, *, takes_all: bool) -> FreshRows:
    """Find the rows that are fresh in a merge's result; call it in the caller's thread.

    Args:
        plan: The plan.
        cells: Compares values.
        takes_all: Whether all of theirs is merged; else no row is fresh because of theirs.
    """
    found: dict[str, Ranges] = {}
    for spec in plan.merged.schema.tensors:
        if not spec.has_function or derived_group(spec, plan.merged.schema) is None:
            continue
        changed = union([_updated(plan, id_) for id_ in _ids(spec)])
        kept = subtract(_fresh(plan, spec, plan.ours), changed)
        taken = _of_theirs(plan, spec, kept, cells) if takes_all else no_ranges()
        found[spec.id] = union((kept, taken))
    return found


async def merged_cells(
    fresh: FreshRows, state: State, pages: PageReader, sink: PageSink
) -> dict[str, ColumnGroup]:
    """Return the groups of the computed tensors of a merge's result, by name."""
    groups: dict[str, ColumnGroup] = {}
    for tensor_id, rows in fresh.items():
        spec = state.schema.by_id(tensor_id)
        empty = None if spec is None else derived_group(spec, state.schema)
        assert empty is not None, "as fresh_after has seen"
        groups[group_of(tensor_id)] = await fresh_group(empty, state, rows, pages, sink)
    return groups


def _ids(spec: TensorSpec) -> tuple[str, ...]:
    assert spec.compute is not None
    return (*spec.compute.inputs, spec.id)


def _fresh(plan: MergePlan, spec: TensorSpec, side: Side) -> Ranges:
    """Return the fresh rows of a side, if the result reads its cells as it does."""
    state, own = side.version.state, side.spec(spec.id)
    group = state.groups.get(group_of(spec.id))
    if own is None or group is None or not is_current(group, spec, plan.merged.schema):
        return no_ranges()
    return runtime.run(fresh_rows(state, own, side.pages))


def _updated(plan: MergePlan, tensor_id: str) -> Ranges:
    """Return the rows of ours that have another value in the result."""
    return union((plan.updated.get(tensor_id, no_ranges()), _disputed(plan, tensor_id)))


def _of_theirs(plan: MergePlan, spec: TensorSpec, kept: Ranges, cells: CellReader) -> Ranges:
    """Return rows of the result that are fresh because they are in theirs."""
    theirs = _fresh(plan, spec, plan.theirs)
    if not len(theirs):
        return theirs
    shared = shared_rows(plan.ours.ids, plan.theirs.ids).within_other(theirs)
    rows = subtract(shared.ranges, kept)
    for id_ in _ids(spec):
        rows = subtract(rows, _disputed(plan, id_))
        rows = subtract(rows, _differing(plan, id_, shared.within(rows), cells))
    return union((rows, _added(plan, theirs)))


def _disputed(plan: MergePlan, tensor_id: str) -> Ranges:
    """Return the rows of ours whose value a function decides."""
    asked = [one.ours[1] for one in plan.disputed if one.tensor.spec.id == tensor_id]
    return union([ranges_of(np.sort(physical)) for physical in asked])


def _differing(plan: MergePlan, tensor_id: str, shared: SharedRows, cells: CellReader) -> Ranges:
    """Return the rows of ours whose value in the result is not that of theirs."""
    tensor, taken = plan.merged.tensors[tensor_id], plan.taken.get(tensor_id)
    if tensor.source != "both":
        return no_ranges()  # it is theirs': none of ours' cells is in the result
    left = shared.ranges if taken is None else subtract(shared.ranges, taken.of_one)
    shared = shared.within(left)
    matched = Matched(shared.at, shared.at, shared.other, shared.count)
    return differing_cells(tensor, plan.ours, plan.theirs, matched, cells)


def _added(plan: MergePlan, theirs: Ranges) -> Ranges:
    """Return the places of those rows of theirs that come after ours."""
    starts, stops = plan.added
    counts = stops - starts
    places = plan.ours.physical + np.cumsum(counts) - counts
    order = np.argsort(starts, kind="stable")
    added = SharedRows(starts[order], places[order], counts[order])
    return added.images(theirs)
