"""What the loader reads from: a selection's rows, and a reader of chunks.

Declared here, by the layer that needs them, and met by ``tensorlake.reading``. Tests stand a
small in-memory dataset behind the same protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorlake.types import Buffer, Column, SampleType

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
    def type(self) -> SampleType:
        """What its samples are."""
        ...


class Schema(Protocol):
    """The tensors of a version."""

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        """All of them."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether there is a tensor of this name."""
        ...

    def __getitem__(self, name: str) -> TensorSpec:
        """Look a tensor up."""
        ...


class Packs(Protocol):
    """The objects that chunks lie in."""

    async def read_range(self, pack: Any, offset: int, nbytes: int) -> Buffer:
        """Read exactly so many bytes of a pack (its id is the reader's own class)."""
        ...


class Snapshot(Protocol):
    """The version that a selection is of."""

    @property
    def version(self) -> str:
        """Its name, as ``main@12``."""
        ...

    @property
    def url(self) -> str:
        """The dataset's, for messages."""
        ...

    @property
    def is_staged(self) -> bool:
        """Whether it shows staged changes, which nobody else can read, and which may go."""
        ...

    @property
    def packs(self) -> Packs:
        """Where its bytes are."""
        ...

    @property
    def schema(self) -> Schema:
        """Its tensors, those that are not read too."""
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
        """How many rows it has."""
        ...

    @property
    def digest(self) -> str:
        """Name of (version, rows in order)."""
        ...

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions to rows of the version."""
        ...

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions to physical rows."""
        ...


class ChunkKey(Protocol):
    """Where a chunk lies; hashable, and equal for equal bytes."""

    @property
    def nbytes(self) -> int:
        """Stored bytes; 0 for a chunk that is only a value."""
        ...

    @property
    def is_fill(self) -> bool:
        """Whether all its rows have the tensor's fill and nothing is stored."""
        ...

    def __hash__(self) -> int: ...


class Located(Protocol):
    """Where each of some physical rows lies."""

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
    """Bounds of the shapes of chunks' samples, a row a chunk, and how many of them are NULL."""

    @property
    def null_count(self) -> NDArray[np.integer]:
        """At most so many are NULL; 0 means none."""
        ...

    @property
    def has_shapes(self) -> NDArray[np.bool_]:
        """Of which chunks they are known."""
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
    """Where the chunks of one tensor are, as far as a loader asks without rows."""

    @property
    def num_rows(self) -> int:
        """Physical rows."""
        ...

    @property
    def bounds(self) -> ShapeTable | None:
        """What holds for the samples of all chunks, as one row; None where unknown."""
        ...


class Store(Protocol):
    """Where a dataset lies."""

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
        """Where the bytes come from."""
        ...

    def index(self, tensor: str) -> ChunkIndex:
        """Find where the chunks of a tensor are."""
        ...

    def row_nbytes(self, tensors: Sequence[str]) -> Sequence[int]:
        """Return the stored bytes of a row in the mean, rounded down, of each of some tensors."""
        ...

    def is_null(self, tensor: str, physical: Int64Array) -> NDArray[np.bool_]:
        """Tell which samples are NULL, from headers alone."""
        ...

    def shapes(self, tensor: str, physical: Int64Array) -> Int64Array:
        """Return the shape of each of some samples, from headers alone; −1 where NULL."""
        ...

    def look_ahead(self, tensors: Sequence[str], physical: Int64Array) -> None:
        """Read all at once what ``row_nbytes`` and ``locate`` of some rows will need."""
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
        """Turn a chunk's bytes, ``rest`` those that follow ``blob``, into a column as stored."""
        ...

    def salvage_chunk(
        self, tensor: str, key: Any, pieces: Sequence[Buffer] = ()
    ) -> tuple[Column, NDArray[np.bool_]] | None:
        """Return what of a damaged chunk can be verified by itself, and which rows cannot.

        ``pieces`` are its bytes where they were fetched. The other rows are NULL; None where no
        row can be verified.
        """
        ...

    def fill_column(self, tensor: str, rows: int) -> Column:
        """Return the stored samples of rows that have the tensor's fill."""
        ...

    async def fetch(self, tensor: str, physical: Int64Array) -> Callable[[], Column]:
        """Read what rows need, on the storage loop; return what makes them, in the order given.

        They are as stored, media not decoded. What is returned runs in another thread.
        """
        ...
