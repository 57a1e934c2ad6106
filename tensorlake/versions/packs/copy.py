"""Copy packs between stores: several at once, within a memory bound, each verified.

Packs are read and written by one event loop in one process: the stores dominate the time, and the
only computation is one checksum per blob. More processes would not be faster and cost their
start-up; ``workers`` is the number of packs in flight.

Packs are immutable and named once, so a pack that the target has at its full length is done, and a
stopped copy continues where it was. While a pack is copied, its blobs are compared with the
checksums in its own directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tensorlake.errors import CorruptionError, StorageError
from tensorlake.format import PACKS, PackId, checksum_of, directory_nbytes, read_directory
from tensorlake.storage import (
    Buffer,
    MissingObjectError,
    ObjectMeta,
    Store,
    runtime,
)
from tensorlake.versions.log.put_once import put_surely

__all__ = [
    "PACKS_AT_ONCE",
    "PacksCopied",
    "PacksMissingError",
    "copy_packs",
    "packs_in",
    "sizes_of",
]

PACKS_AT_ONCE = 8
"""Default of ``workers=``."""

IN_FLIGHT_NBYTES = 192 << 20
"""Bytes of packs in memory at once; a single pack that is larger goes alone."""

RANGE_NBYTES = 16 << 20
"""Large packs are read in ranges of this size, several at once."""

RANGES_AT_ONCE = 4


class PacksMissingError(Exception):
    """A pack was collected since the plan was made: plan again."""


@dataclass(frozen=True, slots=True)
class PacksCopied:
    """The packs copied, and those present already."""

    copied: int
    nbytes: int
    present: int


class _Budget:
    """Bytes that may be in memory at once."""

    def __init__(self, nbytes: int) -> None:
        self._limit = nbytes
        self._used = 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, nbytes: int) -> AsyncGenerator[None]:
        async with self._freed:
            await self._freed.wait_for(lambda: not self._used or self._used + nbytes <= self._limit)
            self._used += nbytes
        try:
            yield
        finally:
            async with self._freed:
                self._used -= nbytes
                self._freed.notify_all()


async def sizes_of(store: Store) -> dict[PackId, int]:
    """Bytes of every pack in a store."""
    return {pack: meta.nbytes for pack, meta in (await packs_in(store)).items()}


async def packs_in(store: Store) -> dict[PackId, ObjectMeta]:
    """List every pack in a store."""
    return {
        pack: meta
        async for meta in store.list(PACKS)
        if (pack := PackId.from_path(meta.path)) is not None
    }


async def copy_packs(
    source: Store,
    target: Store,
    packs: Iterable[PackId],
    *,
    there: dict[PackId, int],
    here: dict[PackId, int],
    workers: int = PACKS_AT_ONCE,
    progress: Callable[[int], None],
) -> PacksCopied:
    """Copy packs that the target lacks.

    Args:
        source: Store to read from.
        target: Store to write to.
        packs: The packs to copy.
        there: Bytes of each pack of the source.
        here: Bytes of each pack of the target; grows.
        workers: Number of packs in flight.
        progress: Called with bytes as they arrive.

    Raises:
        PacksMissingError: The source no longer has one.
        CorruptionError: A pack of the source is damaged; those before it are copied.
    """
    wanted = sorted(packs)
    if any(pack not in there for pack in wanted):
        raise PacksMissingError
    missing = [pack for pack in wanted if here.get(pack) != there[pack]]
    budget = _Budget(IN_FLIGHT_NBYTES)

    async def one(pack: PackId) -> int:
        nbytes = there[pack]
        async with budget.taken(nbytes):
            await _copy(source, target, pack, nbytes)
        here[pack] = nbytes
        progress(nbytes)
        return nbytes

    copied = await runtime.gather_bounded([partial(one, pack) for pack in missing], limit=workers)
    return PacksCopied(len(copied), sum(copied), len(wanted) - len(copied))


async def _copy(source: Store, target: Store, pack: PackId, nbytes: int) -> None:
    starts = range(0, nbytes, RANGE_NBYTES)
    reads = [
        partial(source.get_range, pack.path, start, min(nbytes, start + RANGE_NBYTES))
        for start in starts
    ]
    try:
        pieces = await runtime.gather_bounded(reads, limit=RANGES_AT_ONCE)
    except MissingObjectError as error:
        raise PacksMissingError from error
    verify_pack(pack, pieces, url=source.url)
    if not await put_surely(target, pack.path, pieces):
        found = await target.head(pack.path)
        if found is None or found.nbytes != nbytes:
            size = "nothing" if found is None else f"{found.nbytes:,} bytes"
            raise StorageError(
                f"pack {pack.path!r} could not be copied to {target.url!r}: the target has {size}"
                f" there instead of {nbytes:,}\nremove that object, and copy again",
                object=pack.path,
            )


def verify_pack(pack: PackId, pieces: Sequence[Buffer], *, url: str) -> None:
    """Compare a pack's blobs with the checksums of its directory, if that is intact.

    Args:
        pack: The pack.
        pieces: All its bytes, in pieces of ``RANGE_NBYTES`` except the last.
        url: URL of the source store, for the error.

    Raises:
        CorruptionError: A blob differs from the bytes written.
    """
    nbytes = sum(len(piece) for piece in pieces)
    start = max(0, nbytes - directory_nbytes(b"".join(_span(pieces, nbytes - 64, nbytes))))
    try:
        directory = read_directory(b"".join(_span(pieces, start, nbytes)), where=pack.path)
    except CorruptionError:
        return  # the indexes have checksums of their own
    for blob in directory:
        if checksum_of(_span(pieces, blob.offset, blob.offset + blob.nbytes)) != blob.checksum:
            raise CorruptionError(
                f"pack {pack.path!r} of {url!r} is damaged: the checksum of {blob.nbytes:,} bytes"
                f" ({blob.what}) is wrong; packs copied before it stay\n"
                "run tensorlake check on the source, restore the pack, and copy again",
                object=pack.path,
                offset=blob.offset,
            )


def _span(pieces: Sequence[Buffer], start: int, stop: int) -> Iterator[memoryview]:
    """View bytes [start, stop) of data in pieces."""
    start = max(start, 0)
    for at in range(start // RANGE_NBYTES, len(pieces)):
        base = at * RANGE_NBYTES
        if base >= stop:
            break
        yield memoryview(pieces[at])[max(start - base, 0) : stop - base]
