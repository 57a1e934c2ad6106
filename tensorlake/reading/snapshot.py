"""One version, ready to be read (its state, its name, its indexes), and selections of its rows.

A snapshot is immutable, and creating one reads nothing: a commit or a refresh creates a new one, so
its cost must not grow with the dataset. The row selection (``RowMap``) and the index of each tensor
(``index/index.py``) read pages on demand; pages read by an earlier snapshot of the same handle are
shared.

A selection is rows × columns of a snapshot: the basis of views, and the input of loaders. A row has
four numbers, never mixed: *position* in the selection, *row* of the version, *physical row* in the
branch's axis, and row id. A selection maps the first to the next two, vectorised, and its digest
identifies it permanently: equal digests mean equal rows of the same version in the same order.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.errors import StaleViewError
from tensorlake.format import (
    Entry,
    Extents,
    PageReader,
    Root,
    RowSegments,
    Schema,
    SegmentKind,
    TensorSpec,
    physical_rows,
    rows_of,
)
from tensorlake.reading.index.index import ChunkIndex, leaf_count, leaves_touched
from tensorlake.storage import runtime
from tensorlake.versions import (
    Hedging,
    NearPacks,
    PackReader,
    State,
    group_state,
    state_of,
    table_of,
    tensor_state,
)

__all__ = ["MATERIALISED_ROWS_MAX", "RowMap", "Selection", "Snapshot", "Zones"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T")

MATERIALISED_ROWS_MAX = 1 << 23
"""Up to this many rows, the map from row to physical row is cached as one array of 64 MiB."""

MATERIALISED_SHARE = 8
"""The array is built once one row in this many was looked up: building takes a step per row."""

LOADED_LEAVES_MAX = 2048
"""A larger selection stays in its tree: these leaves take 256 MiB."""


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
        has_nan: Whether a zone may have a NaN.
    """

    starts: Int64Array
    minimum: npt.NDArray[Any]
    maximum: npt.NDArray[Any]
    null_count: Int64Array
    known: npt.NDArray[np.bool_]
    empty: npt.NDArray[np.bool_]
    has_nan: npt.NDArray[np.bool_]

    def within(self, start: int, stop: int) -> Zones:
        """Return those of rows [start, stop), counted from ``start``."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        some = slice(first, last)
        return Zones(
            starts=np.clip(self.starts[first : last + 1], start, stop) - start,
            minimum=self.minimum[some],
            maximum=self.maximum[some],
            null_count=self.null_count[some],
            known=self.known[some],
            empty=self.empty[some],
            has_nan=self.has_nan[some],
        )


class Snapshot:
    """A version of a dataset, or a transaction's working copy. Thread-safe.

    Attributes:
        state: The version's content, by reference.
        packs: The reader of its chunks and pages.
        version: Its name: ``main@12``.
        digest: The log entry's digest; of a working copy, the base's with the change's number.
        is_staged: Whether it shows staged changes, which may still be discarded.
        schema: The tensors.
        num_rows: The number of rows of the version.
        opened: Indexes opened on it, by name, and on the version that it was opened from.
        kept: Values derived from the schema alone, by name; shared with the version that it was
            opened from, if that has an equal schema.
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
        self.schema: Schema = state.schema
        self.num_rows = state.rows.rows
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
        self.opened: dict[str, Any] = {} if before is None else dict(before.opened)
        is_alike = before is not None and before.schema == self.schema
        self.kept: dict[str, Any] = before.kept if before is not None and is_alike else {}

    @classmethod
    def of_entry(
        cls, entry: Entry, packs: PackReader, *, branch: str, before: Snapshot | None = None
    ) -> Snapshot:
        """Open the version of a log entry, sharing the memory of ``before``, another version."""
        version = f"{branch}@{entry.seq}"
        return cls(state_of(entry), packs, version=version, digest=entry.digest, before=before)

    def through(self, near: NearPacks | None, hedge: Hedging | None = None) -> Snapshot:
        """Return the same version whose chunks are looked for near first, and hedged."""
        snapshot = copy.copy(self)
        snapshot.packs = self.packs.through(near, hedge)
        return snapshot

    @property
    def url(self) -> str:
        """The dataset's URL."""
        return self.packs.store.url

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
        known = self.schema.by_name
        is_known = isinstance(tensor, str) and tensor in known  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        return known[tensor] if is_known else self.schema[tensor]  # which raises

    def physical(self, rows: Int64Array) -> Int64Array:
        """Map rows of the version to physical rows."""
        self.check_alive()
        base = self._row_map.known_base
        if base is None:
            return self._row_map.physical(rows)
        return rows + base if base else rows

    @property
    def first_physical(self) -> int | None:
        """The physical row of row 0, if all others follow consecutively; else None."""
        return self._row_map.base

    def rows_of(self, physical: Int64Array) -> Int64Array:
        """Map physical rows to rows of the version; -1 where the version does not show them."""
        if len(physical) == 0:
            return physical
        base = self._row_map.known_base
        if base is not None:
            self.check_alive()
            rows = physical - base
            return np.where((rows >= 0) & (rows < self.num_rows), rows, -1)
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

    def group(self, name: str) -> Snapshot | None:
        """Return the rows of a column group as a snapshot of their own; None without one."""
        self.check_alive()
        group = self.state.groups.get(name)
        if group is None:
            return None
        return Snapshot(
            group_state(group),
            self.packs,
            version=self.version,
            digest=f"{self.digest}/{name}",
            is_staged=self.is_staged,
            holds=self._holds,
        )

    def cells(self, tensor_id: str, root: Root[Extents]) -> Snapshot:
        """Return a tensor's cells as another tree has them, as a snapshot of their own."""
        self.check_alive()
        spec = self.schema.by_id(tensor_id)
        assert spec is not None, "the version has the tensor"
        return Snapshot(
            tensor_state(spec, root),
            self.packs,
            version=self.version,
            digest=f"{self.digest}/{tensor_id}",
            is_staged=self.is_staged,
            holds=self._holds,
        )

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


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Rows of a snapshot, in an order, and some of its columns.

    Attributes:
        snapshot: The version of the rows.
        columns: Names of tensors; the digest does not depend on them.
        rows: Rows of the version by position, int64, may repeat; None for all rows in order.
    """

    snapshot: Snapshot
    columns: tuple[str, ...]
    rows: Int64Array | None = None

    @property
    def num_rows(self) -> int:
        """The number of selected rows."""
        return self.snapshot.num_rows if self.rows is None else len(self.rows)

    @property
    def is_whole(self) -> bool:
        """Whether positions are row numbers: all rows, in order."""
        return self.rows is None

    @property
    def digest(self) -> str:
        """Digest of (version, rows in order), 40 hex digits."""
        hasher = hashlib.blake2b(self.snapshot.digest.encode(), digest_size=20)
        if self.rows is not None:
            hasher.update(np.ascontiguousarray(self.rows, dtype="<i8").tobytes())
        return hasher.hexdigest()

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions in the selection to rows of the version."""
        return positions if self.rows is None else self.rows[positions]

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions in the selection to physical rows."""
        return self.snapshot.physical(self.row_numbers(positions))

    @property
    def first_physical(self) -> int | None:
        """The physical row of position 0, if all others follow consecutively; else None."""
        return self.snapshot.first_physical if self.rows is None else None

    def all_positions(self) -> Int64Array:
        """List every position, in order."""
        return np.arange(self.num_rows, dtype=np.int64)

    def with_rows(self, positions: Int64Array) -> Selection:
        """Select among the selected rows."""
        return Selection(self.snapshot, self.columns, self.row_numbers(positions))

    def with_columns(self, columns: tuple[str, ...]) -> Selection:
        """Return the same rows with other columns."""
        return Selection(self.snapshot, columns, self.rows)


class RowMap:
    """The row selection of a version: from its rows to physical rows. Thread-safe.

    A version that nothing was deleted from or sorted has one segment, in its log entry: a row and
    its physical row differ by a constant. Any other selection is a tree, and is searched like the
    index of a tensor (``index/index.py``): in the tree first, and in memory once as many leaves
    were requested as it has. A small selection that is used repeatedly becomes one array.

    Attributes:
        root: The root of the row selection.
        known_base: The physical row of row 0, once it is known that all others follow it.
    """

    def __init__(self, root: Root[RowSegments], pages: PageReader) -> None:
        self.root = root
        self.known_base: int | None = None
        self._pages = pages
        self._loaded: RowSegments | None = None
        self._array: Int64Array | None = None
        self._leaves_read = 0
        self._rows_read = 0

    @property
    def num_rows(self) -> int:
        """The number of rows of the version."""
        return self.root.rows

    @property
    def base(self) -> int | None:
        """The physical row of row 0, if all others follow consecutively; else None."""
        if self.known_base is None:
            segments = self._segments
            if segments is not None and _is_run(segments):
                self.known_base = int(segments.base[0])
        return self.known_base

    def physical(self, rows: Int64Array) -> Int64Array:
        """Map rows to physical rows; any order, repeats allowed."""
        if self._array is not None:
            return self._array[rows]
        base = self.base
        if base is not None:
            return rows + base if base else rows
        segments = self._segments
        if segments is None and self._is_loading_due(rows):
            segments = self._loaded = runtime.run(table_of(self.root, self._pages))
        if segments is None:
            return runtime.run(physical_rows(self.root, rows, self._pages))
        self._rows_read += len(rows)
        if self._rows_read * MATERIALISED_SHARE >= self.num_rows <= MATERIALISED_ROWS_MAX:
            parts = [segments.expand(entry) for entry in range(len(segments))]
            self._array = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
            return self._array[rows]
        return _looked_up(segments, rows)

    @property
    def _segments(self) -> RowSegments | None:
        """Return the whole selection if in memory; the tail becomes a table on first use."""
        if self._loaded is None and not self.root.children:
            self._loaded = self.root.tail
        return self._loaded

    def _is_loading_due(self, rows: Int64Array) -> bool:
        leaves = leaf_count(self.root.children)
        if leaves > LOADED_LEAVES_MAX:
            return False
        if len(rows):
            self._leaves_read += leaves_touched(rows, leaves, self.root.body_rows)
        return self._leaves_read >= leaves


def _is_run(segments: RowSegments) -> bool:
    return len(segments) == 1 and segments.kind[0] == SegmentKind.RANGE


def _looked_up(segments: RowSegments, rows: Int64Array) -> Int64Array:
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    entry = np.searchsorted(segments.stops, ordered, side="right")
    starts = segments.stops - segments.rows.astype(np.int64)
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = segments.physical_at(entry, ordered - starts[entry])
    return found


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
        has_nan=np.ones(count, dtype=np.bool_),
    )
    zones.minimum[has_row] = table.minimum
    zones.maximum[has_row] = table.maximum
    zones.null_count[has_row] = table.null_count
    zones.known[has_row] = table.has_minimum & table.has_maximum
    zones.empty[has_row] = table.is_empty & (table.nan_count == 0)  # NaN differs from all values
    zones.has_nan[has_row] = table.nan_count > 0
    return zones
