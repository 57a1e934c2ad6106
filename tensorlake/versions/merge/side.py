"""One version prepared for comparison: its rows by identity, its indexes and its changes.

``Comparison`` is a merge base with the two sides derived from it. It has the exact changes of each
side as ``Changes`` on the base's axis of physical rows: a cell counts as changed if its value
differs, regardless of rewrites around it. Only cells whose chunk differs are read, and of ours only
those that theirs changed too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tensorlake.format import (
    ChunkKind,
    Extents,
    PageReader,
    Parts,
    RowIdRuns,
    Schema,
    TensorSpec,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.versions.log.state import ExtentRoot, State, table_of
from tensorlake.versions.merge.base import Version
from tensorlake.versions.rows.alignment import (
    Matched,
    SharedRows,
    Shown,
    differing_places,
    match,
    shared_rows,
    subtract,
)
from tensorlake.versions.rows.ranges import Ranges, intersect, no_ranges, ranges_of, union
from tensorlake.versions.rows.schema_rules import CombinedTensor, Misfit, takes_values_away

__all__ = [
    "CellReader",
    "Codes",
    "Comparison",
    "Side",
    "TensorChanges",
    "compare_sides",
    "differing_cells",
    "narrows",
]

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]

Codes = Sequence[int]
"""The class code in the merge's result for each class code of a version."""

COMPARED_AT_ONCE = 1 << 20
"""Cells listed individually at a time: their row numbers take 24 MiB."""

SMALL_GAP = 4096
"""Maximum gap between rows that are read together: an index leaf has this many extents."""

MAX_READS = 16
"""Ranges of an index that are read at once."""


class CellReader(Protocol):
    """Compares cells of two versions by value; implemented by a layer above, which can read."""

    def differs(
        self,
        tensor_id: str,
        one: tuple[Version, Int64Array],
        other: tuple[Version, Int64Array],
        *,
        codes: tuple[Codes | None, Codes | None],
    ) -> BoolArray:
        """Return for pairs of physical rows whether their stored values differ.

        Args:
            tensor_id: The tensor, which both versions have.
            one: A version and some of its physical rows.
            other: Another version, and the same number of rows.
            codes: The class codes in the merge's result for those of both versions; None: the same.
        """
        ...

    def misfits(self, schema: Schema, /) -> Sequence[Misfit]:
        """Return the checks and computed columns that do not fit a schema's tensors."""
        ...

    def verify(
        self,
        state: State,
        changed: Mapping[str, Int64Array],
        touched: Mapping[str, Ranges],
        before: Schema,
    ) -> None:
        """Refuse content in which values from two versions are inconsistent.

        Args:
            state: The state to publish.
            changed: By tensor id, physical rows that got values of the other version, where
                tensors must be consistent.
            touched: By tensor id, physical rows that got such values; of "", all new rows.
            before: The schema of ours.
        """
        ...


class Side:
    """A version with its tables, each read once."""

    def __init__(self, version: Version, pages: PageReader) -> None:
        self.version = version
        self.pages = pages
        state = version.state
        self.ids: RowIdRuns = runtime.run(table_of(state.row_ids, pages))
        self.shown = Shown(runtime.run(table_of(state.rows, pages)))

    @property
    def physical(self) -> int:
        """Number of physical rows of its axis."""
        return self.version.state.physical

    def spec(self, tensor_id: str) -> TensorSpec | None:
        """Look a tensor up by id; None when the version does not have it."""
        return self.version.state.schema.by_id(tensor_id)

    def extents(self, tensor_id: str, ranges: Ranges, *, parts: Parts = Parts.ALL) -> Extents:
        """Read a tensor's index for some rows; other rows become holes."""
        root = self.version.state.roots[tensor_id]
        return runtime.run(_index_of(root, ranges, self.pages, parts))

    def shared_with(self, other: Side) -> SharedRows:
        """Match the rows of two axes by row id."""
        if self.version is other.version:
            return SharedRows.identity(self.physical)
        return shared_rows(self.ids, other.ids)


@dataclass(frozen=True, slots=True)
class TensorChanges:
    """Changes by two sides to the cells of one tensor; rows are the base's.

    Attributes:
        ours: Rows whose value ours changed, among those that matter: rows that theirs changed or
            deleted, or all rows if theirs dropped the tensor or narrowed its type.
        theirs: Rows whose value theirs changed.
        conflicts: Rows that both changed, to different values.
        moved: Rows whose sample is in another place in theirs, and in the base's place in ours:
            they can be taken from theirs, changed or not, in whole chunks.
    """

    ours: Ranges = field(default_factory=no_ranges)
    theirs: Ranges = field(default_factory=no_ranges)
    conflicts: Ranges = field(default_factory=no_ranges)
    moved: Ranges = field(default_factory=no_ranges)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A base and the changes of two sides; ranges are physical rows of the base.

    Attributes:
        base: The version compared with.
        to_ours: Its rows that ours shows, on ours' axis.
        to_theirs: Its rows that theirs shows, on theirs' axis.
        domain: The compared rows of the base.
        deleted_by_ours: Rows of the domain that ours no longer shows.
        deleted_by_theirs: The same for theirs.
        tensors: Changes of cells, by tensor id.
    """

    base: Side
    to_ours: SharedRows
    to_theirs: SharedRows
    domain: Ranges
    deleted_by_ours: Ranges
    deleted_by_theirs: Ranges
    tensors: Mapping[str, TensorChanges]


def compare_sides(
    base: Side,
    ours: Side,
    theirs: Side,
    *,
    domain: Ranges,
    tensor_ids: Sequence[str],
    cells: CellReader,
    codes: Mapping[Side, Mapping[str, Codes]],
    crossed: Sequence[Side] = (),
    together: Collection[Collection[str]] = (),
    has_base: bool = True,
) -> Comparison:
    """Return the changes of both sides to some rows of a base.

    Args:
        base: The version compared with.
        ours: One side.
        theirs: The other.
        domain: Physical rows of the base.
        tensor_ids: Tensors that the base and a side have, or both sides.
        cells: Compares values.
        codes: For each side and tensor id, its class codes in the result, if they differ.
        crossed: Other bases: cells differing between them and this one were changed on both sides.
        together: Groups of tensors of which all that differ in a row conflict where one does.
        has_base: False when ``base`` is ours, because there is no base: differences were changed
            by both.
    """
    to_ours = base.shared_with(ours).within(domain).within_other(ours.shown.ranges)
    to_theirs = base.shared_with(theirs).within(domain).within_other(theirs.shown.ranges)
    in_ours, in_theirs = to_ours.ranges, to_theirs.ranges
    found = Comparison(
        base,
        to_ours,
        to_theirs,
        domain,
        deleted_by_ours=subtract(domain, in_ours),
        deleted_by_theirs=subtract(domain, in_theirs),
        tensors={},
    )
    differing = _Differing(cells, codes)
    here = SharedRows.identity(base.physical)
    tensors: dict[str, TensorChanges] = {}
    for tensor_id in tensor_ids:
        both = match(to_ours, to_theirs)
        if not has_base or base.spec(tensor_id) is None:
            apart = differing(tensor_id, ours, theirs, both)
            tensors[tensor_id] = TensorChanges(apart, apart, apart)
            continue
        moved = differing.places(tensor_id, base, theirs, match(here, to_theirs))
        their_cells = match(here, to_theirs).within(moved)
        theirs_changed = differing.values(tensor_id, base, theirs, their_cells)
        at_ours = differing.places(tensor_id, base, ours, match(here, to_ours))
        asked = at_ours
        if theirs.spec(tensor_id) is not None and not narrows(base, theirs, tensor_id):
            asked = intersect(at_ours, union((theirs_changed, found.deleted_by_theirs)))
        ours_changed = differing.values(tensor_id, base, ours, match(here, to_ours).within(asked))
        disputed = intersect(theirs_changed, ours_changed)
        for other in crossed:
            shared = base.shared_with(other).within(domain).within_other(other.shown.ranges)
            disputed = union((disputed, differing(tensor_id, base, other, match(here, shared))))
        conflicts = differing(tensor_id, ours, theirs, both.within(disputed))
        tensors[tensor_id] = TensorChanges(
            ours=union((ours_changed, conflicts)),
            theirs=union((theirs_changed, conflicts)),
            conflicts=conflicts,
            moved=subtract(intersect(moved, in_ours), at_ours),
        )
    for group in together:
        members = [id_ for id_ in group if id_ in tensors]
        rows = union([tensors[id_].conflicts for id_ in members])
        for id_ in members if len(rows) else ():
            apart = differing(id_, ours, theirs, match(to_ours, to_theirs).within(rows))
            tensors[id_] = _disputed_too(tensors[id_], apart)
    return Comparison(
        base,
        to_ours,
        to_theirs,
        domain,
        found.deleted_by_ours,
        found.deleted_by_theirs,
        tensors,
    )


def _disputed_too(changes: TensorChanges, rows: Ranges) -> TensorChanges:
    return replace(
        changes,
        ours=union((changes.ours, rows)),
        theirs=union((changes.theirs, rows)),
        conflicts=union((changes.conflicts, rows)),
        moved=subtract(changes.moved, rows),
    )


def differing_cells(
    tensor: CombinedTensor, ours: Side, theirs: Side, matched: Matched, cells: CellReader
) -> Ranges:
    """Return rows of ours, matched with theirs, in which a tensor has another value there.

    Args:
        tensor: The tensor, which both have.
        ours: The branch merged into.
        theirs: The branch merged.
        matched: Rows of both, at those of ours.
        cells: Compares values.
    """
    id_, codes = tensor.spec.id, tensor.read_as.codes
    known: dict[Side, dict[str, Codes]] = {} if codes is None else {theirs: {id_: codes}}
    return _Differing(cells, known)(id_, ours, theirs, matched)


def narrows(base: Side, side: Side, tensor_id: str) -> bool:
    """Return whether a side narrowed a type, after checking all rows or by a restore."""
    before, after = base.spec(tensor_id), side.spec(tensor_id)
    return before is not None and after is not None and takes_values_away(after, before)


@dataclass(frozen=True, slots=True)
class _Differing:
    """Differing cells of two versions, first by place, then by value."""

    cells: CellReader
    codes: Mapping[Side, Mapping[str, Codes]]

    def __call__(self, tensor_id: str, one: Side, other: Side, matched: Matched) -> Ranges:
        """Return where values differ; at equal places only where class codes differ in meaning."""
        if self._codes(one, tensor_id) == self._codes(other, tensor_id):
            matched = matched.within(self.places(tensor_id, one, other, matched))
        return self.values(tensor_id, one, other, matched)

    def places(self, tensor_id: str, one: Side, other: Side, matched: Matched) -> Ranges:
        """Return where samples are stored in different places."""
        spec, other_spec = one.spec(tensor_id), other.spec(tensor_id)
        if spec is None or other_spec is None or not len(matched.at):
            return no_ranges()
        _, numbers = other_spec.with_encodings_of(spec)
        same_fill = spec.fill == other_spec.fill
        if same_fill and numbers == tuple(range(len(numbers))):
            matched = _without_shared_pages(matched, tensor_id, one, other)
        return differing_places(
            matched,
            one.extents(tensor_id, matched.of_one, parts=Parts.LOCATIONS),
            other.extents(tensor_id, matched.of_other, parts=Parts.LOCATIONS),
            numbers=np.array(numbers, dtype=np.int64),
            same_fill=same_fill,
        )

    def values(self, tensor_id: str, one: Side, other: Side, matched: Matched) -> Ranges:
        """Return where values differ, regardless of places."""
        found: list[Ranges] = []
        if one.spec(tensor_id) is None or other.spec(tensor_id) is None:
            return no_ranges()
        codes = (self._codes(one, tensor_id), self._codes(other, tensor_id))
        at, rows, other_rows = matched.rows()
        for start in range(0, len(at), COMPARED_AT_ONCE):
            part = slice(start, start + COMPARED_AT_ONCE)
            differs = self.cells.differs(
                tensor_id,
                (one.version, rows[part]),
                (other.version, other_rows[part]),
                codes=codes,
            )
            found.append(ranges_of(at[part][differs]))
        return union(found)

    def _codes(self, side: Side, tensor_id: str) -> Codes | None:
        return self.codes.get(side, {}).get(tensor_id)


def _without_shared_pages(matched: Matched, tensor_id: str, one: Side, other: Side) -> Matched:
    """Drop rows that both versions have in one place of one page: their samples are equal.

    So the index of a tensor is read only where a side changed it.
    """
    mine, others = (side.version.state.roots[tensor_id] for side in (one, other))
    apart = union([runtime.run(tree.differing_rows(mine, others, one.pages))])
    is_in_place = matched.one == matched.other
    return Matched.joined(
        [
            matched.chosen(is_in_place).within_one(apart),
            matched.chosen(~is_in_place),
        ]
    )


async def _index_of(root: ExtentRoot, ranges: Ranges, pages: PageReader, parts: Parts) -> Extents:
    """Read the extents of some rows, with a hole for every range between them."""
    wanted = _without_small_gaps(ranges)

    async def read(start: int, stop: int) -> Extents:
        found = [table async for _, table in tree.scan(root, pages, start, stop, parts=parts)]
        return Extents.concat(found)

    pairs: list[tuple[int, int]] = [(start, stop) for start, stop in wanted.tolist()]
    tables = await runtime.gather_bounded([partial(read, *pair) for pair in pairs], limit=MAX_READS)
    pieces: list[Extents] = []
    done = 0
    for (start, stop), table in zip(pairs, tables, strict=True):
        pieces += [Extents.without_bytes(ChunkKind.HOLE, start - done), table]
        done = stop
    pieces.append(Extents.without_bytes(ChunkKind.HOLE, root.rows - done))
    return Extents.concat(pieces)


def _without_small_gaps(ranges: Ranges) -> Ranges:
    """Unite ranges so close that they are nearly always in one leaf."""
    if len(ranges) < 2:  # noqa: PLR2004 - a gap is between two
        return ranges
    is_first = np.concatenate(([True], ranges[1:, 0] - ranges[:-1, 1] > SMALL_GAP))
    is_last = np.concatenate((is_first[1:], [True]))
    return np.stack((ranges[is_first, 0], ranges[is_last, 1]), axis=1)
