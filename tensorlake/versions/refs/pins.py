"""Pins: temporary references that prevent collection of a version during an operation.

A pin is the object ``tags/pin-<txid>.json``. Collectors keep what pins newer than their fence name,
so between putting a pin and publishing, no sweep deletes the data about to be cited
(``docs/reference/format.md``, "Garbage", rule 2, steps b, c and e):

    put the pin ──► read the cited log again: gone → unpin, error ──► … publish … ──► unpin

Publishing under a pin keeps rule 1 too: the pin's store time is an age, like that of pack 0. A pin
whose owner died is deleted by a collector once it is older than the dataset's grace time.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from tensorlake.errors import (
    AccessError,
    StorageError,
    TransactionExpiredError,
)
from tensorlake.format import PIN_PREFIX, Entry, seal, tag_path
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import expired_error, fence_of, is_expired, microseconds
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.put_once import put_surely

__all__ = ["Pin", "holding", "pinned"]

_log = logging.getLogger("tensorlake.versions")


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned version.

    Attributes:
        branch: The branch whose log has the version.
        entry: The version, as it was read before it was pinned.
        path: The object; its store time is the age of anything published under it.
    """

    branch: str
    entry: Entry
    path: str

    @property
    def version(self) -> str:
        """The pinned version, as ``branch@number``."""
        return f"{self.branch}@{self.entry.seq}"

    async def check_age(self, store: Store, head: Entry) -> None:
        """Rule 1, before publishing on ``head``: a pin older than its fence no longer holds.

        Raises:
            TransactionExpiredError: The pin is, or may be, collected.
        """
        meta = await store.head(self.path)
        if meta is None or microseconds(meta.modified) <= fence_of(head).t:
            raise TransactionExpiredError(
                f"{self.version} of {store.url!r} was pinned longer ago than the dataset's grace"
                " time, so it may be collected; nothing was published\ncall it again",
                version=self.version,
            )


@asynccontextmanager
async def pinned(store: Store, branch: str, entry: Entry, *, txid: str) -> AsyncGenerator[Pin]:
    """Pin a version while an entry that references it is made and published.

    Args:
        store: The dataset's store.
        branch: The branch whose log has the version.
        entry: The version.
        txid: The transaction that will cite it; it has one pin.

    Raises:
        SnapshotExpiredError: The version expired before the pin was stored.
    """
    pin = Pin(branch, entry, tag_path(f"{PIN_PREFIX}{txid}"))
    body = {"branch": branch, "seq": entry.seq, "digest_of": entry.digest, "txid": txid}
    try:
        await put_surely(store, pin.path, seal(body))  # the name is random: it is ours
        newest = await BranchLog(store, branch).newest_from(entry)
        if is_expired(entry.seq, newest=newest):
            raise expired_error(
                pin.version,
                store.url,
                newest=newest,
                consequence="nothing new can be made from it",
                advice="choose a newer version, see ds.log(); or copy all: tl.copy(src, dst)",
            )
        yield pin
    finally:
        await _unpin(store, pin)


@contextmanager
def holding(store: Store, branch: str, entry: Entry, *, txid: str) -> Generator[Pin]:
    """Pin a version for the caller's thread, as ``pinned`` does on the storage loop."""
    context = pinned(store, branch, entry, txid=txid)
    pin = runtime.run(context.__aenter__())
    try:
        yield pin
    except BaseException as error:
        runtime.run(context.__aexit__(type(error), error, error.__traceback__))
        raise
    runtime.run(context.__aexit__(None, None, None))


async def _unpin(store: Store, pin: Pin) -> None:
    """Delete the pin. Failures do not affect published entries: collectors delete stale pins."""
    try:
        await store.delete(pin.path)
    except (StorageError, AccessError) as error:
        # Only collectors need the right to delete: a writer without it has nothing to do.
        level = logging.INFO if isinstance(error, AccessError) else logging.WARNING
        _log.log(level, "%s is left behind; a collection will delete it: %s", pin.path, error)
