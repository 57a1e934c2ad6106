"""Put an object owned by this writer, retrying while the store's answer is unknown.

    put-if-absent ──► stored
         │  ▲
         │  └── unknown, and nothing is there: again
         └────► an object is there: ours, from a try without an answer, or the caller compares

For random names, and for objects that have the same bytes from any writer. A log entry is neither
(``BranchLog.publish``), and a transaction's pack takes another name (``PackStage``).
"""

from __future__ import annotations

import asyncio

from tensorlake.storage import Data, ObjectExistsError, Store, UnknownOutcomeError, runtime

__all__ = ["put_surely"]

TRIES = 4
FIRST_PAUSE_S = 0.05


async def put_surely(store: Store, path: str, data: Data) -> bool:
    """Put an object durably; return whether the store confirmed it.

    Returns:
        False when it was found there: from this call or another writer. It is durable then.

    Raises:
        UnknownOutcomeError: Every try had an unknown outcome, and the object was not found.
    """
    for attempt in range(TRIES):
        try:
            await store.put_if_absent(path, data)
        except ObjectExistsError:
            break
        except UnknownOutcomeError:
            if await store.head(path) is not None:
                break
            if attempt == TRIES - 1:
                raise
            await runtime.to_loop()
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
        else:
            return True
    await store.sync([path])  # its writer may have been stopped between visibility and durability
    return False
