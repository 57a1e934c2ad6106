"""Compare cells: where samples are stored, and whether two columns have the same ones.

Samples stored in the same place are equal, so data shared by two versions is never read.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tensorlake.reading import ChunkCache, Reader, Snapshot
from tensorlake.types import (
    Column,
    EncodedColumn,
    RaggedColumn,
    SampleType,
    UniformColumn,
    in_same_terms,
)
from tensorlake.versions import Misfits, PackReader, State

__all__ = ["CellComparison", "places_of", "samples_differ"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

COMPARED_AT_ONCE = 4096
"""Cells read together from both sides."""


class CellComparison:
    """Compares cells of states of one dataset, the ``CellsDiffer`` of a rebase.

    It keeps a snapshot of each state compared, so create one for each comparison of versions.
    """

    def __init__(self, packs: PackReader, chunks: ChunkCache, misfits: Misfits) -> None:
        self.misfits = misfits
        self._packs = packs
        self._chunks = chunks
        self._snapshots: list[Snapshot] = []

    def __call__(
        self, tensor_id: str, a: State, a_rows: Int64Array, b: State, b_rows: Int64Array
    ) -> BoolArray:
        """Return for each pair of physical rows whether its two values differ."""
        differs = np.zeros(len(a_rows), dtype=np.bool_)
        if not len(a_rows):
            return differs
        sides = [(self._snapshot(a), a_rows), (self._snapshot(b), b_rows)]
        places = [places_of(snapshot, tensor_id, rows) for snapshot, rows in sides]
        candidates = np.flatnonzero(np.any(places[0] != places[1], axis=1))
        for start in range(0, len(candidates), COMPARED_AT_ONCE):
            some = candidates[start : start + COMPARED_AT_ONCE]
            (left, left_type), (right, right_type) = [
                self._column(snapshot, tensor_id, rows[some]) for snapshot, rows in sides
            ]
            differs[some] = samples_differ(*in_same_terms(left, left_type, right, right_type))
        return differs

    def _snapshot(self, state: State) -> Snapshot:
        for snapshot in self._snapshots:
            if snapshot.state is state:
                return snapshot
        made = Snapshot(state, self._packs, version="", digest="")
        self._snapshots.append(made)
        return made

    def _column(
        self, snapshot: Snapshot, tensor_id: str, rows: Int64Array
    ) -> tuple[Column, SampleType]:
        spec = snapshot.schema.by_id(tensor_id)
        assert spec is not None  # only tensors of both sides are compared
        reader = Reader(snapshot, self._chunks)
        return reader.read(spec.name, rows, decode=False), spec.type


def places_of(snapshot: Snapshot, tensor_id: str, physical: Int64Array) -> Int64Array:
    """Return the place of each row's sample: (pack, offset, row in the chunk, read_as)."""
    extents = snapshot.extents(tensor_id)
    at = np.searchsorted(extents.stops, physical, side="right")
    starts = extents.stops - extents.rows.astype(np.int64)
    packs = np.array([hash(pack) for pack in extents.packs] + [0], dtype=np.int64)
    pack = np.minimum(extents.pack[at], len(extents.packs))
    return np.stack(
        (
            packs[pack],
            extents.offset[at].astype(np.int64),
            np.where(extents.nbytes[at] == 0, 0, physical - starts[at] + extents.skip[at]),
            extents.read_as[at].astype(np.int64),
        ),
        axis=1,
    )


def samples_differ(a: Column, b: Column) -> BoolArray:
    """Compare two columns sample by sample, as stored."""
    count = len(a)
    valid_a = np.ones(count, np.bool_) if a.valid is None else a.valid
    valid_b = np.ones(count, np.bool_) if b.valid is None else b.valid
    differs = valid_a != valid_b
    match a, b:
        case UniformColumn(values=x), UniformColumn(values=y) if x.shape == y.shape:
            bytes_x = np.ascontiguousarray(x).reshape(count, -1).view(np.uint8)
            bytes_y = np.ascontiguousarray(y).reshape(count, -1).view(np.uint8)
            if x.dtype == y.dtype and x.size:
                differs |= np.any(bytes_x != bytes_y, axis=1)
        case EncodedColumn(samples=x), EncodedColumn(samples=y):
            pairs = zip(x, y, strict=True)
            differs |= np.fromiter((bytes(p) != bytes(q) for p, q in pairs), np.bool_, count)
        case RaggedColumn(), RaggedColumn():
            differs |= np.any(a.shapes != b.shapes, axis=1)
            starts_a, starts_b = a.offsets, b.offsets
            for row in np.flatnonzero(~differs).tolist():
                x = a.values[starts_a[row] : starts_a[row + 1]]
                y = b.values[starts_b[row] : starts_b[row + 1]]
                differs[row] = x.tobytes() != y.tobytes()
        case _:
            differs[:] = True
    return differs & (valid_a | valid_b)
