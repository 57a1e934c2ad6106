"""Planning of a merge, before anything is written: only reads, and returns a ``MergePlan``.

Rows are compared with the newest base that shows them (``merge/side.py``). Conflicts of rows and
cells are found by the same function as in a rebase (``rows/conflict_rules.py``), from both sides'
changes on the base's axis; so are those of schemas (``rows/schema_rules.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.format import ChangedRows, Changes, row_ids, txid_of
from tensorlake.storage import runtime
from tensorlake.versions.merge.base import Version
from tensorlake.versions.merge.plan import (
    DisputedCells,
    DisputedRows,
    MergePlan,
    MergeRequest,
    RowConflict,
    listed,
)
from tensorlake.versions.merge.side import (
    CellReader,
    Codes,
    Comparison,
    Side,
    TensorChanges,
    compare_sides,
    narrows,
)
from tensorlake.versions.rows.alignment import Matched, SharedRows, match, shared_rows, subtract
from tensorlake.versions.rows.class_names import codes_in
from tensorlake.versions.rows.conflict_rules import find_conflicts
from tensorlake.versions.rows.derived import derived_ids
from tensorlake.versions.rows.ranges import (
    Ranges,
    intersect,
    no_ranges,
    ranges_of,
    rows_in,
    union,
)
from tensorlake.versions.rows.schema_rules import (
    CombinedSchema,
    CombinedTensor,
    CombineRule,
    SchemaSide,
    combine_schemas,
)

__all__ = ["plan_merge"]

Int64Array = npt.NDArray[np.int64]

Reordered = Callable[[Version, Version], bool]
"""Returns whether a commit between a base and a side reordered rows."""


def plan_merge(
    bases: Sequence[Side],
    ours: Side,
    theirs: Side,
    request: MergeRequest,
    *,
    cells: CellReader,
    was_reordered: Reordered,
) -> MergePlan:
    """Plan a merge. The plan includes decided and undecided conflicts."""
    return _Planner(bases, ours, theirs, request, cells, was_reordered).plan()


@dataclass(frozen=True, slots=True)
class _Planner:
    bases: Sequence[Side]
    ours: Side
    theirs: Side
    request: MergeRequest
    cells: CellReader
    was_reordered: Reordered

    def plan(self) -> MergePlan:
        """Compare, find conflicts, decide."""
        compared = list(self._compared(self._codes(self._merged())))
        news = self._new_rows(compared)
        conflicts = list(self._conflicts(compared, news))
        drops = [one.conflict.tensor_id or "" for one in conflicts if one.conflict.what == "drop"]
        merged = self._merged(drops)
        if self.request.tensors is not None:
            return self._decided(compared, merged, conflicts)
        deleted = list[Ranges]()
        revived = list[Ranges]()
        disputed = list[DisputedRows]()
        for one in compared:
            if self.request.rows is None:
                as_theirs = one.domain if self.request.on_conflict == "theirs" else no_ranges()
            else:
                found = list(self._disputed_rows(one))
                as_theirs = self._as_theirs(found, self.request.rows)
                disputed += found
            gone, lives = _survivors(one, self._assigned(one), as_theirs=as_theirs)
            deleted.append(one.to_ours.images(gone))
            revived.append(one.to_theirs.images(lives))
        new = union([news[1], *revived])
        plan = self._decided(compared, merged, conflicts, new=new, deleted=union(deleted))
        return replace(plan, disputed_rows=tuple(disputed))

    def _disputed_rows(self, one: Comparison) -> Iterator[DisputedRows]:
        """Return rows of a base that one side deleted and the other changed."""
        sides: tuple[tuple[Literal["ours", "theirs"], Ranges, Side, SharedRows], ...] = (
            ("ours", one.deleted_by_ours, self.theirs, one.to_theirs),
            ("theirs", one.deleted_by_theirs, self.ours, one.to_ours),
        )
        for deleted_by, deleted, other, to_other in sides:
            changed = {
                id_: intersect(deleted, changes.theirs if deleted_by == "ours" else changes.ours)
                for id_, changes in self._assigned(one).items()
            }
            rows = union(list(changed.values()))
            if not len(rows):
                continue
            at, _, shown = (
                match(SharedRows.identity(one.base.physical), to_other).within(rows).rows()
            )
            ids = runtime.run(row_ids(one.base.version.state.row_ids, at, one.base.pages))
            inside = {id_: frozenset(rows_in(some).tolist()) for id_, some in changed.items()}
            names = {id_: spec.name for id_ in inside if (spec := other.spec(id_)) is not None}
            yield DisputedRows(
                one.base.version,
                at,
                deleted_by,
                (other.version, shown),
                tuple(f"{txid_of(row_id)}:{int(row_id['offset'])}" for row_id in ids),
                tuple(
                    tuple(name for id_, name in names.items() if row in inside[id_])
                    for row in at.tolist()
                ),
            )

    def _as_theirs(
        self, disputed: Sequence[DisputedRows], decided: Mapping[str, Literal["ours", "theirs"]]
    ) -> Ranges:
        """Return those that are decided as theirs have them."""
        other = self.request.on_conflict
        chosen = [
            rows.physical[[decided.get(id_, other) == "theirs" for id_ in rows.ids]]
            for rows in disputed
        ]
        return union([ranges_of(np.sort(physical)) for physical in chosen])

    def _derived(self) -> frozenset[str]:
        """Return the computed tensors: their values make no conflict, ours stay."""
        return derived_ids(self.ours.version.state.schema, self.theirs.version.state.schema)

    def _assigned(self, one: Comparison) -> dict[str, TensorChanges]:
        """Return the changes of all tensors but computed ones."""
        derived = self._derived()
        return {id_: changed for id_, changed in one.tensors.items() if id_ not in derived}

    def _merged(self, disputed: Sequence[str] = ()) -> CombinedSchema:
        """Combine both schemas; ``disputed`` tensors, dropped by one, are the preferred side's."""
        prefer: SchemaSide = "incoming" if self.request.on_conflict == "theirs" else "current"
        ours, theirs = self.ours.version, self.theirs.version
        rule = CombineRule(
            prefer=prefer,
            branches=(ours.branch, theirs.branch),
            misfits=self.cells.misfits,
            wanted=dict.fromkeys(disputed, prefer),
            only=self.request.tensors,
        )
        bases = [base.version.state.schema for base in self.bases]
        return combine_schemas(bases, ours.state.schema, theirs.state.schema, rule)

    def _codes(self, merged: CombinedSchema) -> dict[Side, dict[str, Codes]]:
        """Map class codes of theirs and of the bases to the result; those of ours stay."""
        found: dict[Side, dict[str, Codes]] = {}
        for id_, tensor in merged.tensors.items():
            mine = self.ours.spec(id_)
            if tensor.read_as.codes is not None:
                found.setdefault(self.theirs, {})[id_] = tensor.read_as.codes
            for base in self.bases:
                old = base.spec(id_)
                if mine is None or old is None:
                    continue
                codes = codes_in(mine, old)
                if codes != tuple(range(len(codes))):
                    found.setdefault(base, {})[id_] = codes
        return found

    def _compared(self, codes: Mapping[Side, Mapping[str, Codes]]) -> Iterator[Comparison]:
        """Compare rows with the newest base that shows them, and rows without a base separately."""
        wanted = self.request.tensors
        sides = (*self.bases, self.ours, self.theirs)
        ids = [spec.id for side in sides for spec in side.version.state.schema.tensors]
        asked = [
            id_
            for id_ in dict.fromkeys(ids)
            if (wanted is None or id_ in wanted)
            and (self.ours.spec(id_) is not None or self.theirs.spec(id_) is not None)
        ]
        for number, base in enumerate(self.bases):
            known = [
                newer.shared_with(base).images(newer.shown.ranges) for newer in self.bases[:number]
            ]
            yield compare_sides(
                base,
                self.ours,
                self.theirs,
                domain=subtract(base.shown.ranges, union(known)),
                tensor_ids=asked,
                cells=self.cells,
                codes=codes,
                crossed=[other for other in self.bases if other is not base],
                together=self._together(),
            )
        known = [base.shared_with(self.ours).images(base.shown.ranges) for base in self.bases]
        domain = subtract(
            shared_rows(self.ours.ids, self.theirs.ids)
            .within(self.ours.shown.ranges)
            .within_other(self.theirs.shown.ranges)
            .ranges,
            union(known),
        )
        if len(domain):
            yield compare_sides(
                self.ours,
                self.ours,
                self.theirs,
                domain=domain,
                tensor_ids=asked,
                cells=self.cells,
                codes=codes,
                together=self._together(),
                has_base=False,
            )

    def _together(self) -> list[set[str]]:
        """Return the groups of tensors whose cells of a row are decided together."""
        if self.request.rows is None:
            return []
        schema = self.ours.version.state.schema
        ids = {spec.name: spec.id for spec in schema.tensors}
        groups: dict[str, set[str]] = {}
        for spec in schema.tensors:
            owner = getattr(spec.type, "per", None)
            if owner in ids:
                groups.setdefault(owner, {ids[owner]}).add(spec.id)
        return list(groups.values())

    def _new_rows(self, compared: Sequence[Comparison]) -> tuple[Ranges, Ranges]:
        """Return the rows that no base shows: of ours, and of theirs."""
        known = [
            union([one.base.shared_with(side).images(one.domain) for one in compared])
            for side in (self.ours, self.theirs)
        ]
        return (
            subtract(self.ours.shown.ranges, known[0]),
            subtract(self.theirs.shown.ranges, known[1]),
        )

    def _conflicts(
        self, compared: Sequence[Comparison], news: tuple[Ranges, Ranges]
    ) -> Iterator[RowConflict]:
        for number, one in enumerate(compared):
            mine, other = self._changes(one, news if number == 0 else (no_ranges(), no_ranges()))
            for conflict in find_conflicts(other, [mine]):
                yield RowConflict(conflict, one.base.version)

    def _changes(self, one: Comparison, news: tuple[Ranges, Ranges]) -> tuple[Changes, Changes]:
        """Return both sides' changes on the base's axis, without equal bytes."""
        is_partial = self.request.tensors is not None
        mine: dict[str, ChangedRows] = {}
        other: dict[str, ChangedRows] = {}
        for tensor_id, changed in self._assigned(one).items():
            alike = subtract(intersect(changed.ours, changed.theirs), changed.conflicts)
            mine[tensor_id] = listed(subtract(changed.ours, alike))
            other[tensor_id] = listed(subtract(changed.theirs, alike))
        drops = [
            (*self._drops(one, side, beside), *self._checked(one, side, beside))
            for side, beside in ((self.ours, self.theirs), (self.theirs, self.ours))
        ]
        ours_rewrites, theirs_rewrites = self._reordered(one)
        return (
            Changes(
                append=_length(news[0]),
                update={id_: rows for id_, rows in mine.items() if rows},
                delete=listed(one.deleted_by_ours),
                schema=drops[0],
                rewrite=ours_rewrites,
            ),
            Changes(
                append=0 if is_partial else _length(news[1]),
                update={id_: rows for id_, rows in other.items() if rows},
                delete=() if is_partial else listed(one.deleted_by_theirs),
                schema=() if is_partial else drops[1],
                rewrite=theirs_rewrites and not is_partial,
            ),
        )

    def _drops(self, one: Comparison, side: Side, beside: Side) -> list[Mapping[str, Any]]:
        """Return tensors that one side dropped; tensors that both dropped do not conflict.

        Computed ones do neither: their values can be made again, or are not stored at all.
        """
        return [
            {"op": "drop", "tensor": spec.id, "name": spec.name}
            for spec in one.base.version.state.schema.tensors
            if side.spec(spec.id) is None and beside.spec(spec.id) is not None
            if spec.compute is None
        ]

    def _checked(self, one: Comparison, side: Side, beside: Side) -> list[Mapping[str, Any]]:
        """Return types that one side narrowed after checking all of its rows."""
        return [
            {"op": "type", "tensor": spec.id, "name": spec.name, "checked": True}
            for spec in one.base.version.state.schema.tensors
            if narrows(one.base, side, spec.id) and not narrows(one.base, beside, spec.id)
        ]

    def _reordered(self, one: Comparison) -> tuple[bool, bool]:
        if one.base is self.ours:
            return False, False
        return (
            self._differs_in_order(one, one.to_ours, self.ours),
            self._differs_in_order(one, one.to_theirs, self.theirs),
        )

    def _differs_in_order(self, one: Comparison, shared: SharedRows, side: Side) -> bool:
        # Merges in both directions give each side an order of its own, which no user requested.
        return not one.base.shown.keeps_order(shared, side.shown) and self.was_reordered(
            one.base.version, side.version
        )

    def _decided(
        self,
        compared: Sequence[Comparison],
        merged: CombinedSchema,
        conflicts: Sequence[RowConflict],
        *,
        new: Ranges | None = None,
        deleted: Ranges | None = None,
    ) -> MergePlan:
        """Assemble the plan; without new rows, only cells are taken."""
        gone = no_ranges() if deleted is None else deleted
        added = no_ranges() if new is None else new
        both = shared_rows(self.ours.ids, self.theirs.ids)
        taken: dict[str, Matched] = {}
        updated: dict[str, Ranges] = {}
        disputed: list[DisputedCells] = []
        for tensor_id, tensor in merged.tensors.items():
            if tensor.source == "incoming":
                shown = both.within(self.ours.shown.ranges)
                taken[tensor_id] = Matched(shown.at, shown.at, shown.other, shown.count)
            elif tensor.source == "both":
                cells, rows, asked = self._cells_of(tensor_id, tensor, compared)
                taken[tensor_id], updated[tensor_id] = cells, subtract(rows, gone)
                disputed += asked
        return MergePlan(
            self.ours,
            self.theirs,
            tuple(base.version for base in self.bases),
            merged,
            tuple(conflicts),
            taken,
            updated,
            tuple(disputed),
            gone,
            self.theirs.shown.in_order(added),
            both.within_other(added).ranges,
            None if new is None else self._order(compared, new, gone),
        )

    def _cells_of(
        self, tensor_id: str, tensor: CombinedTensor, compared: Sequence[Comparison]
    ) -> tuple[Matched, Ranges, list[DisputedCells]]:
        """Return cells that become theirs', rows of ours with new values, and cells to decide."""
        how = self.request.on_conflict
        parts: list[Matched] = []
        changed_rows: list[Ranges] = []
        disputed: list[DisputedCells] = []
        for one in compared:
            changed = one.tensors.get(tensor_id)
            if changed is None:
                continue
            both = match(one.to_ours, one.to_theirs)
            conflicts = changed.conflicts if how == "theirs" else no_ranges()
            wanted = union((subtract(changed.theirs, changed.ours), conflicts))
            parts.append(both.within(union((changed.moved, wanted))))
            changed_rows.append(one.to_ours.images(wanted))
            if callable(how) and len(changed.conflicts) and tensor_id not in self._derived():
                at, rows, other_rows = both.within(changed.conflicts).rows()
                has_base = one.base is not self.ours
                disputed.append(
                    DisputedCells(
                        tensor,
                        (one.base.version, at) if has_base else None,
                        (self.ours.version, rows),
                        (self.theirs.version, other_rows),
                    )
                )
                changed_rows.append(one.to_ours.images(changed.conflicts))
        return Matched.joined(parts), union(changed_rows), disputed

    def _order(
        self, compared: Sequence[Comparison], new: Ranges, deleted: Ranges
    ) -> tuple[Int64Array, Int64Array] | None:
        """Return theirs' order of the rows that both have, if only theirs reordered them."""
        if not compared or compared[0].base is self.ours:
            return None
        ours_rewrites, theirs_rewrites = self._reordered(compared[0])
        if not theirs_rewrites or (ours_rewrites and self.request.on_conflict != "theirs"):
            return None
        kept = subtract(self.ours.shown.ranges, deleted)
        both = shared_rows(self.theirs.ids, self.ours.ids).within_other(kept)
        both = both.within(subtract(self.theirs.shown.ranges, new))
        moved = both.along(*self.theirs.shown.in_order(both.ranges))
        own = self.ours.shown.in_order(subtract(kept, both.other_ranges))
        return np.concatenate((moved[0], own[0])), np.concatenate((moved[1], own[1]))


def _survivors(
    one: Comparison, tensors: Mapping[str, TensorChanges], *, as_theirs: Ranges
) -> tuple[Ranges, Ranges]:
    """Return rows of a base that ours loses, and rows that come back from theirs.

    ``as_theirs`` are rows that one side deleted and the other changed, and theirs decide.
    """
    by_ours = union([changed.ours for changed in tensors.values()])
    by_theirs = union([changed.theirs for changed in tensors.values()])
    gone = subtract(one.deleted_by_theirs, one.deleted_by_ours)
    revived = intersect(intersect(one.deleted_by_ours, by_theirs), as_theirs)
    return subtract(gone, subtract(by_ours, as_theirs)), revived


def _length(rows: Ranges) -> int:
    return int((rows[:, 1] - rows[:, 0]).sum())
