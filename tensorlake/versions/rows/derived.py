"""Cells of computed tensors: which of them were made from the cells that a version has.

A tensor with a function in its schema has a column group ``computed/<tensor id>``, which covers its
inputs and itself (``format/coverage.py``). A row is fresh if each of these tensors has the cell
there that the group's state has, and the function is the one that the group was made with:

    state   image ─ ─ A ─ B ─ C ─      version  image ─ ─ A ─ X ─ C ─      fresh: rows of A and C
            vec   ─ ─ a ─ b ─ c ─               vec   ─ ─ a ─ b ─ c ─

The state of a row is about its own cell, so it goes where the cell goes: in a lost race and in a
merge states are combined row by row, and never conflict. A writer that knows nothing of them, or a
value assigned by hand, leaves cells that the state does not have: stale ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ColumnGroup,
    Coverage,
    Extents,
    PageReader,
    PageSink,
    Reads,
    Root,
    Schema,
    TensorSpec,
    carried,
    covering,
)
from tensorlake.storage import runtime
from tensorlake.types import Bool
from tensorlake.versions.log.state import ExtentRoot, State
from tensorlake.versions.rows.ranges import Ranges, intersect, no_ranges

__all__ = [
    "carried_groups",
    "derived_group",
    "derived_ids",
    "derived_tensor",
    "fresh_group",
    "fresh_rows",
    "group_of",
    "is_current",
    "mask_of",
]

KIND = "computed"


def group_of(tensor_id: str) -> str:
    """Return the name of the group of a computed tensor."""
    return f"{KIND}/{tensor_id}"


def derived_tensor(group: ColumnGroup) -> str | None:
    """Return the id of the computed tensor that a group is of; None for other groups."""
    of = group.parameters.get("of")
    return of if group.kind == KIND and isinstance(of, str) and of in group.covers else None


def derived_ids(*schemas: Schema) -> frozenset[str]:
    """Return the ids of the tensors whose samples come from a function."""
    return frozenset(spec.id for schema in schemas for spec in schema.tensors if spec.is_derived)


def derived_group(spec: TensorSpec, schema: Schema) -> ColumnGroup | None:
    """Return the group of a computed tensor without any cell; None where an input is dropped.

    It has a part without rows, since a column group has one at least.
    """
    assert spec.compute is not None
    specs = [schema.by_id(id_) for id_ in (*spec.compute.inputs, spec.id)]
    known = [one for one in specs if one is not None]
    if len(known) < len(specs):
        return None
    parts = Schema((TensorSpec.new("rows", Bool(), tensor_id=spec.id),))
    group = ColumnGroup.empty(KIND, parts, {"of": spec.id, "code": spec.compute.code})
    nothing: ExtentRoot = Root.of(Extents.empty())
    covers = {one.id: Coverage(nothing, Reads.of(one.to_json())) for one in known}
    return replace(group, covers=covers)


def is_current(group: ColumnGroup, spec: TensorSpec, schema: Schema) -> bool:
    """Whether a group is of the function that a schema declares, and of cells as it reads them."""
    if spec.compute is None or group.parameters.get("code") != spec.compute.code:
        return False
    if set(group.covers) != {*spec.compute.inputs, spec.id}:
        return False
    specs = {id_: schema.by_id(id_) for id_ in group.covers}
    return all(
        (found := specs[id_]) is not None and one.is_read_as(found.to_json())
        for id_, one in group.covers.items()
    )


async def fresh_rows(state: State, spec: TensorSpec, pages: PageReader) -> Ranges:
    """Return the physical rows whose cell was made by the function from the cells there are."""
    group = state.groups.get(group_of(spec.id))
    if group is None or not is_current(group, spec, state.schema):
        return no_ranges()
    reads = [
        partial(one.rows, _json(state.schema, id_), state.roots[id_], pages)
        for id_, one in group.covers.items()
    ]
    return reduce(intersect, await runtime.gather_bounded(reads, limit=len(reads)))


def _json(schema: Schema, tensor_id: str) -> dict[str, object]:
    spec = schema.by_id(tensor_id)
    assert spec is not None, "as is_current has seen"
    return spec.to_json()


async def fresh_group(
    group: ColumnGroup, state: State, rows: Ranges, pages: PageReader, sink: PageSink
) -> ColumnGroup:
    """Return a group with the cells that a state has of some rows, and no others."""
    covers = {
        id_: replace(one, state=await covering(state.roots[id_], rows, pages, sink))
        for id_, one in group.covers.items()
    }
    return replace(group, covers=covers)


async def carried_groups(
    before: State,
    roots: dict[str, ExtentRoot],
    unchanged: dict[str, Ranges],
    pages: PageReader,
    sink: PageSink,
) -> dict[str, ColumnGroup]:
    """Return the groups of a state on trees in which cells were written again with their values.

    Args:
        before: The state.
        roots: Its trees by tensor id, as they are now.
        unchanged: By tensor id, rows that have another place there, and the same value.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    groups = dict(before.groups)
    for name, group in before.groups.items():
        if derived_tensor(group) is None:
            continue
        for id_, one in group.covers.items():
            rows, root = unchanged.get(id_, no_ranges()), before.roots.get(id_)
            if len(rows) and root is not None:
                state = await carried(one.state, root, roots[id_], rows, pages, sink)
                covers = {**groups[name].covers, id_: replace(one, state=state)}
                groups[name] = replace(group, covers=covers)
    return groups


def mask_of(ranges: Ranges, rows: int) -> npt.NDArray[np.bool_]:
    """Return a set of rows as a mask of as many rows."""
    edges = np.zeros(rows + 1, np.int8)
    np.add.at(edges, ranges[:, 0], 1)
    np.add.at(edges, ranges[:, 1], -1)
    return np.cumsum(edges[:-1], dtype=np.int8) > 0
