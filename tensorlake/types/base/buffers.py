"""Join buffers that are adjacent in memory.

Files that were read into one block are many samples in one stretch of memory. Hashing or writing
them all in one call is faster: each long call releases the interpreter, and then waits to get it
back from other threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.types.base.file import OwnedBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.column import Buffer

__all__ = ["join_adjoining"]


def join_adjoining(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the same bytes in as few buffers as possible without copying.

    >>> block = np.arange(6, dtype=np.uint8).view(OwnedBlock)
    >>> [len(one) for one in join_adjoining([block.data[:2], block.data[2:5], b"xy"])]
    [5, 2]
    """
    joined: list[Buffer] = []
    block: OwnedBlock | None = None
    base = start = stop = 0  # of the block, and of the stretch of it that is last in the list
    for buffer in buffers:
        owner = buffer.obj if isinstance(buffer, memoryview) else None
        if not isinstance(owner, OwnedBlock) or not len(buffer):
            block = None
            joined.append(buffer)
            continue
        if owner is not block:
            block, base, stop = owner, _address(owner), -1
        at = _address(buffer) - base
        if at == stop:
            joined.pop()
        else:
            start = at
        stop = at + len(buffer)
        joined.append(owner.data[start:stop])
    return joined


def _address(buffer: Any) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)
