"""The table of packs of a page: 20 bytes each, decoded on access.

A leaf of images names five hundred packs, an index of ten million chunks more than a million. A
look-up needs a few of them, so a table keeps the bytes that it was read from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.spec import PackId

__all__ = ["PACK_NBYTES", "PackTable", "pack_column"]

PACK_NBYTES = 20


class PackTable(Sequence[PackId]):
    """Packs by number. Equal to any sequence of the same packs."""

    __slots__ = ("_column", "_last")

    def __init__(self, column: npt.NDArray[np.uint8]) -> None:
        self._column = column
        self._last: tuple[int, PackId] | None = None  # chunks beside each other are of one pack

    @classmethod
    def concat(cls, tables: Sequence[Sequence[PackId]]) -> PackTable:
        """Join tables, or other sequences of packs, in order."""
        return cls(np.concatenate([pack_column(table) for table in tables]))

    @property
    def column(self) -> npt.NDArray[np.uint8]:
        """The packs as stored in a page: (packs, 20)."""
        return self._column

    def __len__(self) -> int:
        return len(self._column)

    def names(self) -> list[str]:
        """Name the packs, without making one of each."""
        numbers = np.ascontiguousarray(self._column[:, 16:]).view("<u4")[:, 0].tolist()
        text = self._column.tobytes().hex()
        starts = range(0, len(text), 2 * PACK_NBYTES)
        return [f"{text[at : at + 32]}-{n}" for at, n in zip(starts, numbers, strict=True)]

    @overload
    def __getitem__(self, at: int) -> PackId: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[PackId, ...]: ...

    def __getitem__(self, at: int | slice) -> PackId | tuple[PackId, ...]:
        if isinstance(at, slice):
            return tuple(PackTable(self._column[at]))
        last = self._last
        if last is None or last[0] != at:
            last = self._last = at, PackId.from_bytes(self._column[at].tobytes())
        return last[1]

    def __iter__(self) -> Iterator[PackId]:
        data = self._column.tobytes()
        for start in range(0, len(data), PACK_NBYTES):
            yield PackId.from_bytes(data[start : start + PACK_NBYTES])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackTable):
            return np.array_equal(self._column, other._column)
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - a table is compared, never a key


def pack_column(packs: Sequence[PackId]) -> npt.NDArray[np.uint8]:
    """Return the column that names packs: 20 bytes each."""
    if isinstance(packs, PackTable):
        return packs.column
    data = b"".join(pack.to_bytes() for pack in packs)
    return np.frombuffer(data, np.uint8).reshape(-1, PACK_NBYTES)
