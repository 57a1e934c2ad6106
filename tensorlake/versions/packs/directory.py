"""Read the directory at the end of a stored pack.

No reader of data needs it: indexes have addresses. ``check`` verifies it, and ``repair`` finds the
chunks of a lost index by it.
"""

from __future__ import annotations

from tensorlake.format import PackedBlob, PackId, directory_nbytes, read_directory
from tensorlake.storage import Store

__all__ = ["stored_directory"]

FIRST_READ_NBYTES = 64 << 10
"""Most directories are shorter: one request."""


async def stored_directory(store: Store, pack: PackId, nbytes: int) -> tuple[PackedBlob, ...]:
    """Read the directory of a pack of ``nbytes``, in one request or two.

    Raises:
        CorruptionError: It is damaged.
        MissingObjectError: The pack is gone.
    """
    start = max(0, nbytes - FIRST_READ_NBYTES)
    tail = await store.get_range(pack.path, start, nbytes)
    start_of_all = max(0, nbytes - directory_nbytes(tail))
    if start_of_all < start:
        tail = await store.get_range(pack.path, start_of_all, nbytes)
    return read_directory(tail, where=pack.path)
