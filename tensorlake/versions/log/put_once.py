"""Putting an object that is this writer's alone, however often a store does not say how it went.

    put-if-absent ──► stored
         │  ▲
         │  └── nobody knows, and nothing is there: again
         └────► something is there: ours, of a try that nobody heard of, or the caller compares

For names that are drawn at random, and objects that have the same bytes whoever writes them. An
entry of a log is neither (``BranchLog.publish``), and a pack of a transaction takes another name
(``PackStage``).
"""

from __future__ import annotations

import asyncio

from tensorlake.storage import Data, ObjectExistsError, Store, UnknownOutcomeError, runtime

__all__ = ["put_surely"]

TRIES = 4
FIRST_PAUSE_S = 0.05


async def put_surely(store: Store, path: str, data: Data) -> bool:
    """Put an object, durably; tell whether an answer said so.

    Returns:
        False when it was found there: of this call, or of another writer. It is durable then.

    Raises:
        UnknownOutcomeError: Each time nobody said whether it was stored, and it was not to be seen.
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
    await store.sync([path])  # who put it may have been stopped between its being seen and that
    return False
