"""Check that a store has an atomic put-if-absent before a dataset relies on it.

Some S3-compatible servers accept `If-None-Match: *` and ignore it: two writers of one branch entry
would both succeed. So a dataset is created only where a second write of one name fails, also when
several arrive concurrently. The probe's objects are deleted at once, so they are not made durable:
of the nineteen fsyncs that creating a dataset in a folder took, twelve were for these objects.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import Final

from tensorlake.errors import UnsupportedStoreError
from tensorlake.storage.api.store import ObjectExistsError, Store
from tensorlake.storage.concurrency.runtime import gather_bounded

WRITERS: Final = 8  # at once: one server was seen to fail only under concurrency


async def probe(store: Store) -> None:
    """Raise `UnsupportedStoreError` unless put-if-absent works; leaves no object behind."""
    path = f"probe-{secrets.token_hex(8)}"
    try:
        await store.put_if_absent(path, b"first", durable=False)
        if await _is_written(store, path, b"second"):
            raise _unsupported(store, "a second write of one name replaced the first")
        if await store.get(path) != b"first":
            raise _unsupported(store, "a refused write changed the object")
    finally:
        await store.delete(path)
    try:
        writes = [partial(_is_written, store, path, b"%d" % writer) for writer in range(WRITERS)]
        winners = sum(await gather_bounded(writes, limit=WRITERS))
        if winners != 1:
            raise _unsupported(store, f"of {WRITERS} writers of one name {winners} succeeded")
    finally:
        await store.delete(path)


async def _is_written(store: Store, path: str, data: bytes) -> bool:
    try:
        await store.put_if_absent(path, data, durable=False)
    except ObjectExistsError:
        return False
    return True


def _unsupported(store: Store, reason: str) -> UnsupportedStoreError:
    return UnsupportedStoreError(
        f"{store.url!r} cannot hold a dataset that is written to: {reason},"
        " so two commits could overwrite each other;\n"
        "write to a folder or another store, then tl.copy the dataset here to read it",
        url=store.url,
        reason=reason,
    )
