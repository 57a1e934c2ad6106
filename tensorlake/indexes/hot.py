"""Rows of a column that are read again and again, a few at a time, from chunks mapped into memory.

On a local disk a read of single rows costs some ten microseconds a chunk: it is located, and only
its units are verified. A chunk that was read from several times is instead mapped and verified
whole, once, and its rows are then taken from the mapping. Remote stores are read as ever.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.reading import Reader
from tensorlake.types import UniformColumn

__all__ = ["HotRows"]

Int64Array = npt.NDArray[np.int64]

HOT = 4  # reads after which a chunk is mapped
SMALL_NBYTES = 128 << 10  # of a chunk that is mapped at its first read
ROWS_IN_LOOP = 8  # of a chunk: fewer are copied one by one, in less time than by an index array


class HotRows:
    """A column of uniform samples without NULLs among the rows that are read. Thread-safe."""

    def __init__(self, reader: Reader, column: str) -> None:
        self._reader = reader
        self._column = column
        self._is_local = reader.store.is_local
        stops = reads = np.zeros(0, np.int64)
        if self._is_local:  # elsewhere it takes a page of the chunk index, which reads take again
            extents = reader.snapshot.extents(reader.snapshot.spec(column).id)
            stops = np.asarray(extents.stops, np.int64)
            reads = np.where(extents.nbytes <= SMALL_NBYTES, HOT, 0)
        self._stops = stops
        self._starts: list[int] = [0, *stops.tolist()]
        self._reads = reads
        self._mapped: list[npt.NDArray[Any] | None] = [None] * len(stops)

    def read(self, rows: Int64Array) -> npt.NDArray[Any]:
        """Read rows, in any order."""
        if not self._is_local or not len(rows):
            return self._values(self._reader.read(self._column, rows))
        own = self._stops.searchsorted(rows, side="right")
        chunks = own.tolist()
        distinct = dict.fromkeys(chunks)
        if any(self._mapped[chunk] is None for chunk in distinct):
            self._reads[own] += 1  # once for each chunk: repeats do not add up
        mappings = {chunk: self._mapping(chunk) for chunk in distinct}
        known = next((mapped for mapped in mappings.values() if mapped is not None), None)
        if known is None:
            return self._values(self._reader.read(self._column, rows))
        found = np.empty((len(rows), *known.shape[1:]), known.dtype)
        missing: list[int] = []
        if len(distinct) * ROWS_IN_LOOP > len(rows):
            starts = self._starts
            for at, (chunk, row) in enumerate(zip(chunks, rows.tolist(), strict=True)):
                mapped = mappings[chunk]
                if mapped is None:
                    missing.append(at)
                else:
                    found[at] = mapped[row - starts[chunk]]
        else:
            for chunk, mapped in mappings.items():
                here = np.flatnonzero(own == chunk)
                if mapped is None:
                    missing += here.tolist()
                else:
                    found[here] = mapped[rows[here] - self._starts[chunk]]
        if missing:
            found[missing] = self._values(self._reader.read(self._column, rows[missing]))
        return found

    def _mapping(self, chunk: int) -> npt.NDArray[Any] | None:
        mapped = self._mapped[chunk]
        if mapped is None and self._reads[chunk] > HOT:
            start, stop = self._starts[chunk], self._starts[chunk + 1]
            mapped = self._values(self._reader.read_run(self._column, start, stop))
            if not _is_view(mapped):
                self._reads[chunk] = -(1 << 40)  # stored otherwise: a copy would stay in memory
                return None
            self._mapped[chunk] = mapped
        return mapped

    @staticmethod
    def _values(column: object) -> npt.NDArray[Any]:
        return cast("UniformColumn", column).values


def _is_view(values: npt.NDArray[Any]) -> bool:
    return values.base is not None and not values.flags.writeable
