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


class HotRows:
    """A column of uniform samples without NULLs among the rows that are read. Thread-safe."""

    def __init__(self, reader: Reader, column: str) -> None:
        self._reader = reader
        self._column = column
        self._is_local = reader.store.is_local
        stops = reader.snapshot.extents(reader.snapshot.spec(column).id).stops
        self._stops = np.asarray(stops, np.int64)
        self._reads = np.zeros(len(self._stops), np.int64)
        self._mapped: dict[int, npt.NDArray[Any]] = {}

    def read(self, rows: Int64Array) -> npt.NDArray[Any]:
        """Read rows, in any order."""
        if not self._is_local or not len(rows):
            return self._values(self._reader.read(self._column, rows))
        chunks = np.searchsorted(self._stops, rows, side="right")
        self._reads[chunks] += 1  # once for each chunk: repeats do not add up
        found: npt.NDArray[Any] | None = None
        is_left = np.ones(len(rows), np.bool_)
        for chunk in dict.fromkeys(chunks.tolist()):
            mapped = self._mapping(chunk)
            if mapped is None:
                continue
            if found is None:
                found = np.empty((len(rows), *mapped.shape[1:]), mapped.dtype)
            own = chunks == chunk
            found[own] = mapped[rows[own] - self._start(chunk)]
            is_left[own] = False
        if found is None:
            return self._values(self._reader.read(self._column, rows))
        if is_left.any():
            found[is_left] = self._values(self._reader.read(self._column, rows[is_left]))
        return found

    def _mapping(self, chunk: int) -> npt.NDArray[Any] | None:
        mapped = self._mapped.get(chunk)
        if mapped is None and self._reads[chunk] > HOT:
            start, stop = self._start(chunk), int(self._stops[chunk])
            mapped = self._values(self._reader.read_run(self._column, start, stop))
            if _is_view(mapped):
                self._mapped[chunk] = mapped
            else:
                self._reads[chunk] = -(1 << 40)  # stored otherwise: a copy would stay in memory
        return mapped

    def _start(self, chunk: int) -> int:
        return int(self._stops[chunk - 1]) if chunk else 0

    @staticmethod
    def _values(column: object) -> npt.NDArray[Any]:
        return cast("UniformColumn", column).values


def _is_view(values: npt.NDArray[Any]) -> bool:
    return values.base is not None and not values.flags.writeable
