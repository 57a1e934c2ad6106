"""The loader's input: a selection's rows, and a reader of chunks.

Declared here, by the layer that needs them, and implemented by ``tensorlake.reading``. Tests
implement the same protocols with a small in-memory dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorlake.types import Buffer, Column, LinkOpener, SampleMap, SampleType

__all__ = [
    "ChunkIndex",
    "ChunkKey",
    "Int64Array",
    "Located",
    "Packs",
    "Reader",
    "Schema",
    "Selection",
    "ShapeTable",
    "Snapshot",
    "TensorSpec",
]

Int64Array: TypeAlias = NDArray[np.int64]


class TensorSpec(Protocol):
    """A tensor of the schema."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def type(self) -> SampleType:
        """Type of its samples."""
        ...


class Schema(Protocol):
    """The tensors of a version."""

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        """All tensors."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether there is a tensor of this name."""
        ...

    def __getitem__(self, name: str) -> TensorSpec:
        """Look a tensor up."""
        ...


class Packs(Protocol):
    """The objects in which chunks are stored."""

    @property
    def links(self) -> LinkOpener:
        """Reads the files that links name."""
        ...

    async def read_range(self, pack: Any, offset: int, nbytes: int) -> Buffer:
        """Read exactly ``nbytes`` bytes of a pack (its id is the reader's own class)."""
        ...

    def distrust(self, path: str) -> None:
        """Drop copies of a damaged object that are kept near."""
        ...


class Snapshot(Protocol):
    """The version of a selection."""

    @property
    def version(self) -> str:
        """Its name, as ``main@12``."""
        ...

    @property
    def url(self) -> str:
        """URL of the dataset, for messages."""
        ...

    @property
    def is_staged(self) -> bool:
        """Whether it shows staged changes, which are private and may be discarded."""
        ...

    @property
    def packs(self) -> Packs:
        """The source of its bytes."""
        ...

    @property
    def schema(self) -> Schema:
        """Its tensors, including those that are not read."""
        ...

    def spec(self, tensor: str) -> TensorSpec:
        """Look a tensor up; raises TensorNotFoundError."""
        ...


class Selection(Protocol):
    """Rows of a version in an order, and columns."""

    @property
    def snapshot(self) -> Snapshot:
        """The version."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its tensors."""
        ...

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether positions are row numbers: all rows of one version, in order."""
        ...

    @property
    def digest(self) -> str:
        """Digest of (version, rows in order)."""
        ...

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions to rows of the version."""
        ...

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions to physical rows."""
        ...


class ChunkKey(Protocol):
    """The location of a chunk; hashable, and equal for equal bytes."""

    @property
    def nbytes(self) -> int:
        """Stored bytes; 0 if the chunk is only a value."""
        ...

    @property
    def is_fill(self) -> bool:
        """Whether all its rows have the tensor's fill value and nothing is stored."""
        ...

    def __hash__(self) -> int: ...


class Located(Protocol):
    """The locations of some physical rows."""

    @property
    def chunk(self) -> NDArray[np.integer]:
        """Per row, an index into ``chunks``."""
        ...

    @property
    def row_in_chunk(self) -> NDArray[np.integer]:
        """Per row, its number inside the chunk."""
        ...

    @property
    def chunks(self) -> Sequence[Any]:
        """ChunkKeys; Any, because the reader's own key class goes back to the reader."""
        ...


class ShapeTable(Protocol):
    """Bounds of the shapes of chunks' samples, one row per chunk, and bounds of NULL counts."""

    @property
    def null_count(self) -> NDArray[np.integer]:
        """Maximum number of NULLs; 0 means none."""
        ...

    @property
    def has_shapes(self) -> NDArray[np.bool_]:
        """Chunks whose shapes are known."""
        ...

    @property
    def shape_min(self) -> NDArray[np.integer] | None:
        """Smallest length along each axis."""
        ...

    @property
    def shape_max(self) -> NDArray[np.integer] | None:
        """Largest length along each axis."""
        ...


class ChunkIndex(Protocol):
    """The parts of one tensor's chunk index that a loader uses without rows."""

    @property
    def num_rows(self) -> int:
        """Physical rows."""
        ...

    @property
    def bounds(self) -> ShapeTable | None:
        """Bounds over the samples of all chunks, as one row; None if unknown."""
        ...


class Store(Protocol):
    """The store of a dataset."""

    @property
    def is_local(self) -> bool:
        """Whether chunks are mapped rather than fetched."""
        ...


class Reader(Protocol):
    """Reads chunks of one version; safe to use from many threads."""

    @property
    def snapshot(self) -> Snapshot:
        """The version."""
        ...

    @property
    def store(self) -> Store:
        """The store of the bytes."""
        ...

    def through(self, near: Any, hedge: Any = None) -> Any:
        """Make a reader that looks for chunks near first, and repeats slow requests.

        Both are of its own protocols, ``NearPacks`` and ``Hedging``, or None.
        """
        ...

    def index(self, tensor: str) -> ChunkIndex:
        """Return the chunk index of a tensor."""
        ...

    def row_nbytes(self, tensors: Sequence[str]) -> Sequence[int]:
        """Return the mean stored bytes per row, rounded down, of each of some tensors."""
        ...

    def is_null(self, tensor: str, physical: Int64Array) -> NDArray[np.bool_]:
        """Return which samples are NULL, from headers alone."""
        ...

    def shapes(self, tensor: str, physical: Int64Array) -> Int64Array:
        """Return the shape of each of some samples, from headers alone; −1 where NULL."""
        ...

    def look_ahead(self, tensors: Sequence[str], physical: Int64Array) -> None:
        """Read at once the pages that ``row_nbytes`` and ``locate`` of some rows will need."""
        ...

    def locate(self, tensor: str, physical: Int64Array) -> Located:
        """Find the chunk of each physical row, in any order."""
        ...

    def map_chunk(self, key: Any) -> Buffer | None:
        """Return a chunk of a local dataset without reading it; None elsewhere."""
        ...

    def decode_chunk(
        self, tensor: str, key: Any, blob: Buffer, rest: Sequence[Buffer] = ()
    ) -> Column:
        """Decode a chunk's bytes, ``blob`` followed by ``rest``, into a column as stored."""
        ...

    def salvage_chunk(
        self, tensor: str, key: Any, pieces: Sequence[Buffer] = ()
    ) -> tuple[Column, NDArray[np.bool_]] | None:
        """Return the rows of a damaged chunk that verify individually, and which do not.

        ``pieces`` are its bytes if they were fetched. The other rows are NULL; None if no row can
        be verified.
        """
        ...

    def fill_column(self, tensor: str, rows: int) -> Column:
        """Return stored samples for rows that have the tensor's fill value."""
        ...

    async def fetch(self, tensor: str, physical: Int64Array) -> Callable[[], Column]:
        """Read the bytes of rows on the storage loop; return a function that makes them, in order.

        Rows are as stored, media not decoded. The function runs in another thread.
        """
        ...

    async def fetch_parts(
        self,
        tensor: str,
        physical: Int64Array,
        wanted: Sequence[Callable[[SampleMap, tuple[int, ...] | None], Int64Array]],
    ) -> Callable[[], Column]:
        """Read parts of samples; return a function that makes them, joined, with whole maps."""
        ...
