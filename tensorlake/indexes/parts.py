"""The parts of an index, read by row.

Parts are columns of a group, all of its length: those that are shorter end in a fill, and the
group's parameters have the length of each. Values that every search uses, such as the
boundaries of a sorted part, are kept with the reader, for as long as versions have that index.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.hot import HotRows
from tensorlake.reading import ChunkIndex, Reader
from tensorlake.storage import runtime
from tensorlake.types import Column, SampleType, UniformColumn, concat, slice_rows, take

__all__ = ["SMALL_CHUNK_NBYTES", "Built", "GroupParts", "MemoryParts", "Part", "PartsReader"]

Int64Array = npt.NDArray[np.int64]
T = TypeVar("T")

READS_AT_ONCE = 64


SMALL_CHUNK_NBYTES = 64 << 10
"""Size of chunks of which a search reads few: one is read whole, without its header before, by one
request that takes no longer than the round trip."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column of an index.

    Attributes:
        type: The type of its samples.
        pieces: Its samples, in order; stored piece by piece.
        chunk_nbytes: Bytes of a chunk; None: the type's default.
        codecs: How chunks are compressed: "raw", so that rows are read alone, and mapped where the
            store is local; None: the type's default.
    """

    type: SampleType
    pieces: Iterable[Column]
    chunk_nbytes: int | None = None
    codecs: str | None = "raw"


@dataclass(frozen=True, slots=True)
class Built:
    """The content of an index.

    Attributes:
        parts: Its columns by name; they may differ in length.
        parameters: JSON of up to 3 KiB: the options, and measurements.
    """

    parts: Mapping[str, Part]
    parameters: Mapping[str, Any]


class PartsReader(Protocol):
    """Reads the parts of an index."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON that it was built with."""
        ...

    def rows(self, part: str) -> int:
        """Return the length of a part."""
        ...

    def read(self, wanted: Mapping[str, Int64Array]) -> dict[str, Column]:
        """Read rows of parts, in any order, by as few bytes as possible: all concurrently."""
        ...

    def hot(self, part: str, rows: Int64Array) -> npt.NDArray[Any]:
        """Read rows of a uniform part that is read often, in any order (``hot``)."""
        ...

    def run(self, part: str, start: int, stop: int) -> Column:
        """Read rows ``start`` … ``stop`` - 1 of a part by whole chunks."""
        ...

    def whole(self, part: str) -> Column:
        """Read all of a part, and keep it."""
        ...

    @property
    def is_distant(self) -> bool:
        """Whether a read takes requests."""
        ...

    def load(
        self, parts: Sequence[str], places: Sequence[str] = (), *, cells: bool = False
    ) -> None:
        """Read all of some parts, for ``whole``, and where others are stored, concurrently.

        Args:
            parts: These.
            places: The others.
            cells: Whether to read where the indexed cells are, too.
        """
        ...

    def keep(self, key: str, make: Callable[[], T]) -> T:
        """Return what was made from the parts at the first call with this key."""
        ...


@dataclass(slots=True)
class GroupParts:
    """The parts of a stored index. Thread-safe: at worst something is made twice."""

    reader: Reader
    parameters: Mapping[str, Any]
    lengths: Mapping[str, int]
    cells: ChunkIndex
    _kept: dict[str, Any] = field(default_factory=dict[str, Any])

    def rows(self, part: str) -> int:
        """Return the length of a part."""
        return self.lengths[part]

    def read(self, wanted: Mapping[str, Int64Array]) -> dict[str, Column]:
        """Read rows of parts, concurrently."""
        if self.reader.store.is_local:
            return {part: self.reader.read(part, rows) for part, rows in wanted.items()}
        return self._read(wanted)

    def _read(
        self,
        wanted: Mapping[str, Int64Array],
        beside: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> dict[str, Column]:
        some = {part: rows for part, rows in wanted.items() if len(rows)}
        fetches = [partial(self.reader.fetch, part, rows) for part, rows in some.items()]
        made: list[Any] = runtime.run(
            runtime.gather_bounded([*fetches, *beside], limit=READS_AT_ONCE)
        )
        found = {part: make() for part, make in zip(some, made, strict=False)}
        return {
            part: found[part] if part in found else self.reader.read(part, rows)
            for part, rows in wanted.items()
        }

    def hot(self, part: str, rows: Int64Array) -> npt.NDArray[Any]:
        """Read rows of a uniform part that is read often, in any order."""
        return self.keep(f"hot {part}", lambda: HotRows(self.reader, part)).read(rows)

    def run(self, part: str, start: int, stop: int) -> Column:
        """Read rows ``start`` … ``stop`` - 1 of a part by whole chunks."""
        return self.reader.read_run(part, start, stop)

    def whole(self, part: str) -> Column:
        """Read all of a part, and keep it."""
        return self.keep(f"whole {part}", partial(self.run, part, 0, self.rows(part)))

    @property
    def is_distant(self) -> bool:
        """Whether a read takes requests."""
        return not self.reader.store.is_local

    def load(
        self, parts: Sequence[str], places: Sequence[str] = (), *, cells: bool = False
    ) -> None:
        """Read all of some parts, for ``whole``, and where others are stored, concurrently."""
        if self.is_distant:
            pages = [self.reader.index(part).load for part in places]
            pages += [self.cells.load] if cells else []
            read = self._read({part: np.arange(self.rows(part)) for part in parts}, pages)
            self._kept.update((f"whole {part}", column) for part, column in read.items())

    def keep(self, key: str, make: Callable[[], T]) -> T:
        """Return what was made from the parts at the first call with this key."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])


@dataclass(slots=True)
class MemoryParts:
    """The parts of an index that is not stored."""

    parameters: Mapping[str, Any]
    columns: Mapping[str, Column]
    _kept: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, built: Built) -> MemoryParts:
        """Hold all pieces of the parts."""
        columns = {name: concat(list(part.pieces)) for name, part in built.parts.items()}
        return cls(built.parameters, columns)

    def rows(self, part: str) -> int:
        """Return the length of a part."""
        return len(self.columns[part])

    def read(self, wanted: Mapping[str, Int64Array]) -> dict[str, Column]:
        """Take rows of parts."""
        return {part: take(self.columns[part], rows) for part, rows in wanted.items()}

    def hot(self, part: str, rows: Int64Array) -> npt.NDArray[Any]:
        """Take rows of a uniform part."""
        return cast("UniformColumn", self.columns[part]).values[rows]

    def run(self, part: str, start: int, stop: int) -> Column:
        """Return rows ``start`` … ``stop`` - 1 of a part."""
        return slice_rows(self.columns[part], start, stop)

    def whole(self, part: str) -> Column:
        """Return a part."""
        return self.columns[part]

    @property
    def is_distant(self) -> bool:
        """Whether a read takes requests."""
        return False

    def load(
        self, parts: Sequence[str], places: Sequence[str] = (), *, cells: bool = False
    ) -> None:
        """Do nothing: they are in memory."""

    def keep(self, key: str, make: Callable[[], T]) -> T:
        """Return what was made from the parts at the first call with this key."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast("T", self._kept[key])
