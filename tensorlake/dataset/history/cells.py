"""Cells of versions, read and compared for merges and restores; and how a user decides them.

Cells are compared as they are stored, and decoded only where a function of the user decides. Codes
of classes are compared after they were converted to those of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.cells import samples_differ
from tensorlake.dataset.core.item_counts import check_rows
from tensorlake.dataset.core.session import Session
from tensorlake.format import ChunkKind, Schema, TensorSpec, row_ids, rows_of, txid_of
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import runtime
from tensorlake.types import Column, RaggedColumn, UniformColumn, in_same_terms
from tensorlake.versions import DisputedCells, DisputedRows, Misfit, Ranges, State, Version

__all__ = ["Cells", "DisputedRow", "MergeConflict", "with_codes"]

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]

COMPARED_NBYTES = 16 << 20
"""Bytes of samples of one shape that are read together from each side."""

COMPARED_CELLS = 4096
"""Number of other samples, whose size is not known in advance."""


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """One cell that both branches changed to different values, passed to a function that decides.

    Attributes:
        tensor: Name of the tensor.
        row: The row's number in the version merged into.
        row_id: Its identity, ``<txid>:<offset>``.
        has_base: Whether the row and tensor existed where the branches diverged.
        base: The value there; None if there was none.
        ours: The value on the branch merged into.
        theirs: The value on the branch merged.
    """

    tensor: str
    row: int
    row_id: str
    has_base: bool
    base: Any
    ours: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class DisputedRow:
    """A row that one branch deleted and the other changed.

    Attributes:
        row_id: Its identity, ``<txid>:<offset>``.
        deleted_by: The side that deleted it.
        version: The version that still has it.
        row: Its number there.
        tensors: The tensors that were changed.
    """

    row_id: str
    deleted_by: Literal["ours", "theirs"]
    version: str
    row: int
    tensors: tuple[str, ...]


class Cells:
    """Reads and compares cells of versions for a merge (the ``CellReader`` of ``versions``)."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._readers: dict[str, Reader] = {}

    def differs(
        self,
        tensor_id: str,
        one: tuple[Version, Int64Array],
        other: tuple[Version, Int64Array],
        *,
        codes: tuple[Sequence[int] | None, Sequence[int] | None],
    ) -> BoolArray:
        """Return for pairs of physical rows whether their stored values differ."""
        count, step = len(one[1]), _cells_at_once(self._spec(one[0], tensor_id))
        found = np.zeros(count, dtype=np.bool_)
        for start in range(0, count, step):
            part = slice(start, min(count, start + step))
            left, right = (
                with_codes(self.read(version, tensor_id, rows[part], decode=False), table)
                for (version, rows), table in zip((one, other), codes, strict=True)
            )
            declared = self._spec(one[0], tensor_id).type
            same = in_same_terms(left, declared, right, declared)
            found[part] = samples_differ(*same)
        return found

    def read(
        self, version: Version, tensor_id: str, rows: Int64Array, *, decode: bool = True
    ) -> Column:
        """Read samples of physical rows."""
        name = self._spec(version, tensor_id).name
        return self._reader(version).read(name, rows, decode=decode)

    def misfits(self, schema: Schema, /) -> Sequence[Misfit]:
        """Return the checks and computed columns that do not fit a schema's tensors."""
        return self._session.misfits(self._session, schema)

    def verify(
        self,
        state: State,
        changed: Mapping[str, Int64Array],
        touched: Mapping[str, Ranges],
        before: Schema,
    ) -> None:
        """Refuse a row that breaks a constraint, or has labels of one version, boxes of another."""
        snapshot = Snapshot(state, self._session.packs, version="the merge", digest="")
        if state.schema.constraints:
            self._session.constraints(self._session, snapshot, touched, before)
        if not changed:
            return
        check_rows(
            self._session.reader(snapshot),
            changed,
            call="merge()",
            advice="the branches gave {name!r} and {items!r} of it: assign them alike on one of"
            " the branches, and merge again; nothing was published",
        )

    def decider(
        self, function: Callable[[MergeConflict], Any]
    ) -> Callable[[DisputedCells], Column]:
        """Convert a function of one cell to one that returns the stored values of many."""

        def decide(disputed: DisputedCells) -> Column:
            spec = disputed.tensor.spec
            sides = (disputed.base, disputed.ours, disputed.theirs)
            values = [self._values(side, spec.id, len(disputed.ours[1])) for side in sides]
            version, physical = disputed.ours
            pages = self._session.packs.pages
            ids = runtime.run(row_ids(version.state.row_ids, physical, pages))
            rows = runtime.run(rows_of(version.state.rows, physical, pages))
            answers = [
                function(
                    MergeConflict(
                        tensor=spec.name,
                        row=int(row),
                        row_id=f"{txid_of(row_id)}:{int(row_id['offset'])}",
                        has_base=disputed.base is not None,
                        base=base,
                        ours=ours,
                        theirs=theirs,
                    )
                )
                for row, row_id, base, ours, theirs in zip(rows, ids, *values, strict=True)
            ]
            return spec.type.convert(answers, tensor=spec.name, call="merge(on_conflict=)")

        return decide

    def rows(self, disputed: DisputedRows) -> Iterator[DisputedRow]:
        """Name rows that one side deleted, in the version that still has them."""
        version, physical = disputed.shown
        numbers = runtime.run(rows_of(version.state.rows, physical, self._session.packs.pages))
        for row_id, row, tensors in zip(disputed.ids, numbers, disputed.tensors, strict=True):
            yield DisputedRow(row_id, disputed.deleted_by, version.name, int(row), tensors)

    def _values(
        self, side: tuple[Version, Int64Array] | None, tensor_id: str, count: int
    ) -> list[Any]:
        if side is None or side[0].state.schema.by_id(tensor_id) is None:
            return [None] * count
        version, rows = side
        column = self.read(version, tensor_id, rows)
        declared = self._spec(version, tensor_id).type
        return [declared.present_one(column, at) for at in range(count)]

    def _reader(self, version: Version) -> Reader:
        found = self._readers.get(version.name)
        if found is None:
            snapshot = Snapshot(
                version.state,
                self._session.packs,
                version=version.name,
                digest=version.entry.digest,
            )
            found = self._readers[version.name] = self._session.reader(snapshot)
        return found

    def _spec(self, version: Version, tensor_id: str) -> TensorSpec:
        spec = version.state.schema.by_id(tensor_id)
        assert spec is not None  # only tensors that both sides have are compared
        return spec


def _cells_at_once(spec: TensorSpec) -> int:
    if spec.layout.kind is not ChunkKind.UNIFORM:
        return COMPARED_CELLS
    return max(1, COMPARED_NBYTES // max(1, spec.layout.row_nbytes))


def with_codes(column: Column, codes: Sequence[int] | None) -> Column:
    """Convert a column of class codes to those of the merge's result."""
    if codes is None or not isinstance(column, UniformColumn | RaggedColumn):
        return column
    return replace(column, values=np.asarray(codes, dtype=column.values.dtype)[column.values])
