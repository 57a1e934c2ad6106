"""One version, ready to be read: its state, its name, and where its rows lie.

A snapshot is immutable. What it loads lazily (the row selection, the extents of a tensor) is kept,
so that opening costs only the log entry and each column's index is read once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.errors import StaleViewError
from tensorlake.format import Entry, Extents, RowSegments, Schema, SegmentKind, TensorSpec, rows_of
from tensorlake.reading.chunks import ChunkIndex
from tensorlake.storage import ForkLock, runtime
from tensorlake.versions import PackReader, State, state_of, table_of

__all__ = ["Snapshot", "Zones"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T")

MATERIALISED_ROWS_MAX = 1 << 23
"""Up to so many rows the map from row to physical row is kept as one array of 64 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Bounds of a tensor's values for runs of consecutive rows that lie in one chunk.

    Attributes:
        starts: Rows where a zone begins, and the end of the last: n + 1 numbers.
        minimum: Smallest value of each zone, or less.
        maximum: Largest value of each zone, or more.
        null_count: NULLs in each zone, at most.
        known: Whether a zone's bounds are known.
    """

    starts: Int64Array
    minimum: npt.NDArray[Any]
    maximum: npt.NDArray[Any]
    null_count: Int64Array
    known: npt.NDArray[np.bool_]


class Snapshot:
    """A version of a dataset, or a transaction's working copy. Thread-safe.

    Attributes:
        state: The version's content, by reference.
        packs: Where its chunks and pages are read.
        version: Its name: ``main@12``.
        digest: The log entry's digest; of a working copy, the base's with the change's number.
        is_staged: Whether it shows staged changes, which may still be discarded.
    """

    def __init__(
        self,
        state: State,
        packs: PackReader,
        *,
        version: str,
        digest: str,
        is_staged: bool = False,
        holds: object = None,
    ) -> None:
        self.state = state
        self.packs = packs
        self.version = version
        self.digest = digest
        self.is_staged = is_staged
        self._holds = holds  # keeps a transaction's unsent packs readable
        self._is_retired = False
        self._lock = ForkLock()
        self._segments: RowSegments | None = None
        self._physical: Int64Array | None = None
        self._extents: dict[str, Extents] = {}
        self._chunk_indexes: dict[str, ChunkIndex] = {}

    @classmethod
    def of_entry(cls, entry: Entry, packs: PackReader, *, branch: str) -> Snapshot:
        """Open the version that a log entry is."""
        return cls(state_of(entry), packs, version=f"{branch}@{entry.seq}", digest=entry.digest)

    @property
    def schema(self) -> Schema:
        """The tensors."""
        return self.state.schema

    @property
    def url(self) -> str:
        """Where the dataset is."""
        return self.packs.store.url

    @property
    def num_rows(self) -> int:
        """How many rows the version shows."""
        return self.state.num_rows

    def retire(self) -> None:
        """Let reads fail from now on: the staged changes it shows were discarded."""
        self._is_retired = True

    def check_alive(self) -> None:
        """Refuse to read staged changes that are gone.

        Raises:
            StaleViewError: They were discarded.
        """
        if self._is_retired:
            raise StaleViewError(
                f"this view shows staged changes of {self.url!r} that were discarded\n"
                "make the view again from the dataset"
            )

    def spec(self, tensor: str) -> TensorSpec:
        """Look a tensor up.

        Raises:
            TensorNotFoundError: There is none of this name; the message names a near one.
        """
        return self.schema[tensor]

    def physical(self, rows: Int64Array) -> Int64Array:
        """Map rows of the version to physical rows."""
        if self._physical is not None:
            return self._physical[rows]
        segments = self._row_segments()
        if len(segments) == 1 and segments.kind[0] == SegmentKind.RANGE:
            return rows + int(segments.base[0])
        if self.num_rows <= MATERIALISED_ROWS_MAX:
            parts = [segments.expand(entry) for entry in range(len(segments))]
            self._physical = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
            return self._physical[rows]
        order = np.argsort(rows, kind="stable")
        entry = np.searchsorted(segments.stops, rows[order], side="right")
        starts = segments.stops - segments.rows.astype(np.int64)
        found = np.empty(len(rows), dtype=np.int64)
        found[order] = segments.physical_at(entry, rows[order] - starts[entry])
        return found

    def rows_of(self, physical: Int64Array) -> Int64Array:
        """Map physical rows to rows of the version; -1 where the version does not show them."""
        if len(physical) == 0:
            return physical
        return self._load(rows_of(self.state.rows, physical, self.packs.pages))

    def extents(self, tensor_id: str) -> Extents:
        """Load where a tensor's chunks are."""
        found = self._extents.get(tensor_id)
        if found is None:
            loaded = self._load(table_of(self.state.roots[tensor_id], self.packs.pages))
            with self._lock:
                found = self._extents.setdefault(tensor_id, loaded)
        return found

    def chunk_index(self, tensor_id: str) -> ChunkIndex:
        """A tensor's extents, ready to be searched; made once."""
        found = self._chunk_indexes.get(tensor_id)
        if found is None:
            made = ChunkIndex(self.extents(tensor_id))
            found = self._chunk_indexes.setdefault(tensor_id, made)
        return found

    def zones(self, tensor: str) -> Zones | None:
        """Bounds of a tensor's values by run of rows; None where rows are not in physical order."""
        if self.num_rows > MATERIALISED_ROWS_MAX:
            return None
        physical = self.physical(np.arange(self.num_rows, dtype=np.int64))
        if len(physical) and bool(np.any(np.diff(physical) <= 0)):
            return None
        return zones_of(self.extents(self.spec(tensor).id), physical)

    def _row_segments(self) -> RowSegments:
        if self._segments is None:
            loaded = self._load(table_of(self.state.rows, self.packs.pages))
            with self._lock:
                self._segments = self._segments or loaded
        return self._segments

    def _load(self, read: Coroutine[Any, Any, T]) -> T:
        if self._is_retired:
            read.close()
        self.check_alive()
        return runtime.run(read)


def zones_of(extents: Extents, physical: Int64Array) -> Zones | None:
    """Cut rows (ascending physical rows) by the extents they lie in."""
    table, has_row = extents.statistics.table, extents.statistics.known
    if table is None or table.minimum is None or table.maximum is None or table.domain == "bytes":
        return None
    count = len(extents)
    zones = Zones(
        starts=np.concatenate(([0], np.searchsorted(physical, extents.stops))).astype(np.int64),
        minimum=np.zeros(count, dtype=table.minimum.dtype),
        maximum=np.zeros(count, dtype=table.maximum.dtype),
        null_count=np.zeros(count, dtype=np.int64),
        known=np.zeros(count, dtype=np.bool_),
    )
    zones.minimum[has_row] = table.minimum
    zones.maximum[has_row] = table.maximum
    zones.null_count[has_row] = table.null_count
    zones.known[has_row] = table.has_minimum & table.has_maximum
    return zones
