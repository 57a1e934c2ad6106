"""One version, ready to be read: its state, its name, and its indexes.

A snapshot is immutable, and creating one reads nothing: a commit or a refresh creates a new one, so
its cost must not grow with the dataset. The row selection (``index/row_map.py``) and the index of
each tensor (``index/index.py``) read pages on demand; pages read by an earlier snapshot of the same
handle are shared.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.errors import StaleViewError
from tensorlake.format import Entry, Extents, Schema, TensorSpec, rows_of
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.reading.index.row_map import MATERIALISED_ROWS_MAX, RowMap
from tensorlake.storage import runtime
from tensorlake.versions import PackReader, State, state_of

__all__ = ["Snapshot", "Zones"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Bounds of a tensor's values for runs of consecutive rows within one chunk.

    Attributes:
        starts: First row of each zone, and the end of the last: n + 1 numbers.
        minimum: Lower bound of each zone's values.
        maximum: Upper bound of each zone's values.
        null_count: Upper bound of the NULLs in each zone.
        known: Whether a zone's bounds are known.
        empty: Whether a zone has no value: only NULLs, and samples without elements.
    """

    starts: Int64Array
    minimum: npt.NDArray[Any]
    maximum: npt.NDArray[Any]
    null_count: Int64Array
    known: npt.NDArray[np.bool_]
    empty: npt.NDArray[np.bool_]


class Snapshot:
    """A version of a dataset, or a transaction's working copy. Thread-safe.

    Attributes:
        state: The version's content, by reference.
        packs: The reader of its chunks and pages.
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
        before: Snapshot | None = None,
    ) -> None:
        self.state = state
        self.packs = packs
        packs.read_for(version)
        self.version = version
        self.digest = digest
        self.is_staged = is_staged
        self._holds = holds  # keeps a transaction's unsent packs readable
        self._is_retired = False
        # Pages that an earlier version has in memory are not read again.
        known = None if before is None else before._row_map  # noqa: SLF001 its own class
        is_same = known is not None and known.root is state.rows
        self._row_map = known if known and is_same else RowMap(state.rows, packs.pages)
        self._earlier = {} if before is None else before._indexes(of=state)  # noqa: SLF001 the same
        self._chunk_indexes: dict[str, ChunkIndex] = {}

    @classmethod
    def of_entry(
        cls, entry: Entry, packs: PackReader, *, branch: str, before: Snapshot | None = None
    ) -> Snapshot:
        """Open the version of a log entry, sharing the memory of ``before``, another version."""
        version = f"{branch}@{entry.seq}"
        return cls(state_of(entry), packs, version=version, digest=entry.digest, before=before)

    @property
    def schema(self) -> Schema:
        """The tensors."""
        return self.state.schema

    @property
    def url(self) -> str:
        """The dataset's URL."""
        return self.packs.store.url

    @property
    def num_rows(self) -> int:
        """The number of rows of the version."""
        return self.state.num_rows

    def retire(self) -> None:
        """Make later reads fail: the staged changes it shows were discarded."""
        self._is_retired = True

    def check_alive(self) -> None:
        """Raise an error if its staged changes are gone.

        Raises:
            StaleViewError: They were discarded.
        """
        if self._is_retired:
            raise StaleViewError(
                f"this view shows staged changes of {self.url!r} that were discarded\n"
                "create the view again from the dataset"
            )

    def spec(self, tensor: str) -> TensorSpec:
        """Look a tensor up.

        Raises:
            TensorNotFoundError: No tensor has this name; the message suggests a similar one.
        """
        return self.schema[tensor]

    def physical(self, rows: Int64Array) -> Int64Array:
        """Map rows of the version to physical rows."""
        self.check_alive()
        return self._row_map.physical(rows)

    @property
    def first_physical(self) -> int | None:
        """The physical row of row 0, if all others follow consecutively; else None."""
        return self._row_map.base

    def rows_of(self, physical: Int64Array) -> Int64Array:
        """Map physical rows to rows of the version; -1 where the version does not show them."""
        if len(physical) == 0:
            return physical
        return self._load(rows_of(self.state.rows, physical, self.packs.pages))

    def extents(self, tensor_id: str) -> Extents:
        """Load the extents of all of a tensor's chunks, with their statistics."""
        self.check_alive()
        return self.chunk_index(tensor_id).extents

    def chunk_index(self, tensor_id: str) -> ChunkIndex:
        """Return the index of a tensor, which reads pages on demand."""
        found = self._chunk_indexes.get(tensor_id)
        if found is None:
            made = ChunkIndex(
                self.state.roots[tensor_id],
                self.packs.pages,
                is_local=self.packs.store.is_local,
                before=self._earlier.pop(tensor_id, None),
            )
            found = self._chunk_indexes.setdefault(tensor_id, made)
        return found

    def zones(self, tensor: str) -> Zones | None:
        """Return bounds of values by run of rows; None where rows are not in physical order."""
        base = self._row_map.base
        if base is not None:
            self.check_alive()
            extents = self.extents(self.spec(tensor).id)
            return _zones(extents, np.clip(extents.stops - base, 0, self.num_rows))
        if self.num_rows > MATERIALISED_ROWS_MAX:
            return None
        physical = self.physical(np.arange(self.num_rows, dtype=np.int64))
        if len(physical) and bool(np.any(np.diff(physical) <= 0)):
            return None
        return zones_of(self.extents(self.spec(tensor).id), physical)

    def _indexes(self, *, of: State) -> dict[str, ChunkIndex]:
        """Return the newest index in memory of each tensor that another state has too."""
        known = {**self._earlier, **self._chunk_indexes}
        return {id_: index for id_, index in known.items() if id_ in of.roots}

    def _load(self, read: Coroutine[Any, Any, T]) -> T:
        if self._is_retired:
            read.close()
        self.check_alive()
        return runtime.run(read)


def zones_of(extents: Extents, physical: Int64Array) -> Zones | None:
    """Divide rows (ascending physical rows) by the extents that contain them."""
    return _zones(extents, np.searchsorted(physical, extents.stops))


def _zones(extents: Extents, stops: Int64Array) -> Zones | None:
    """Return the bounds of extents, each of which ends before one of the rows `stops`."""
    table, has_row = extents.statistics.table, extents.statistics.known
    if table is None or table.minimum is None or table.maximum is None or table.domain == "bytes":
        return None
    count = len(extents)
    zones = Zones(
        starts=np.concatenate(([0], stops)).astype(np.int64),
        minimum=np.zeros(count, dtype=table.minimum.dtype),
        maximum=np.zeros(count, dtype=table.maximum.dtype),
        null_count=np.zeros(count, dtype=np.int64),
        known=np.zeros(count, dtype=np.bool_),
        empty=np.zeros(count, dtype=np.bool_),
    )
    zones.minimum[has_row] = table.minimum
    zones.maximum[has_row] = table.maximum
    zones.null_count[has_row] = table.null_count
    zones.known[has_row] = table.has_minimum & table.has_maximum
    zones.empty[has_row] = table.is_empty & (table.nan_count == 0)  # NaN differs from all values
    return zones
