"""Chunks just placed in packs, before they become extents.

A commit of a row creates a chunk for each tensor, writes its address into the log entry, and does
not use it again. So the tail's JSON is written from plain numbers; the table, with its dozen
arrays, is parsed from the same JSON on demand, as a reader of the entry would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensorlake.format.index.extents import Extents
from tensorlake.format.index.units import UnitTable
from tensorlake.format.pages.statistics import Statistics, statistics_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format.chunk.chunk import ChunkBlob
    from tensorlake.format.chunk.units import Units
    from tensorlake.format.spec.spec import PackId

__all__ = ["PlacedChunk", "PlacedChunks"]


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk's address and statistics, without its bytes."""

    rows: int
    kind: int
    read_as: int
    pack: PackId
    offset: int
    nbytes: int
    header_nbytes: int
    checksum: int
    statistics: Statistics
    units: Units | None

    @classmethod
    def of(cls, blob: ChunkBlob, pack: PackId, offset: int, *, read_as: int = 0) -> Self:
        """Describe a chunk that was placed in a pack."""
        return cls(
            blob.rows,
            int(blob.kind),
            read_as,
            pack,
            offset,
            blob.nbytes,
            blob.header_nbytes,
            blob.checksum,
            blob.statistics,
            blob.units,
        )


@dataclass(frozen=True, slots=True)
class PlacedChunks:
    """Chunks of one tensor, in the order of their rows, to be added to its tail."""

    chunks: tuple[PlacedChunk, ...]

    def __len__(self) -> int:
        return len(self.chunks)

    @property
    def num_rows(self) -> int:
        """Rows of all chunks."""
        return sum(chunk.rows for chunk in self.chunks)

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join chunks in order."""
        return cls(tuple(chunk for table in tables for chunk in table.chunks))

    def united(self) -> Self:
        """Return them unchanged: no two are windows of one chunk."""
        return self

    def to_table(self) -> Extents:
        """Return the extents of whole chunks, with their units."""
        extents = Extents.from_json(self.to_json(), where="chunks just made")
        if all(chunk.units is None for chunk in self.chunks):
            return extents
        none = np.zeros(0, np.uint32)
        units = [
            (one.lengths, one.checksums) if (one := chunk.units) else (none, none)
            for chunk in self.chunks
        ]
        return replace(extents, units=UnitTable.of(units))

    def to_json(self) -> dict[str, Any]:
        """Write the extents of a tail, as ``Extents.to_json`` would."""
        chunks = self.chunks
        value: dict[str, Any] = {"rows": [chunk.rows for chunk in chunks]}
        if not chunks:
            return value
        packs = list(dict.fromkeys(chunk.pack for chunk in chunks))
        value["packs"] = [str(pack) for pack in packs]
        value["offset"] = [chunk.offset for chunk in chunks]
        value["nbytes"] = [chunk.nbytes for chunk in chunks]
        value["checksum"] = "".join([f"{chunk.checksum:016x}" for chunk in chunks])
        value["kind"] = [chunk.kind for chunk in chunks]
        value["header_nbytes"] = [chunk.header_nbytes for chunk in chunks]
        if len(packs) > 1:
            number = {pack: at for at, pack in enumerate(packs)}
            value["pack"] = [number[chunk.pack] for chunk in chunks]
        if any(chunk.read_as for chunk in chunks):
            value["read_as"] = [chunk.read_as for chunk in chunks]
        value["statistics"] = statistics_json([chunk.statistics for chunk in chunks])
        return value
