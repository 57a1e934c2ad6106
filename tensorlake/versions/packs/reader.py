"""Read bytes of packs: from a transaction's memory while unsent, from the store otherwise.

``PackReader`` is the single access to pack bytes of a dataset handle, and the ``PageSource`` of its
index trees. Transactions attach their unsent packs to it; these are weak references, so unused
transactions are freed.

A missing pack has one of two causes, which only the logs distinguish: a version that is read here
has expired and was collected, or data of a live version is missing. A fork's packs may be in its
bases (``packs/places.py``), which entries name: `use` is called with each entry that is read.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol, Self

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError, SnapshotExpiredError, TransactionExpiredError
from tensorlake.format import Entry, PackId, PageReader, PageRef
from tensorlake.storage import (
    Buffer,
    LinkStore,
    LocalStore,
    MissingObjectError,
    Store,
    calls_of,
    gather_bounded,
    is_counted,
    merge_ranges,
    note_read,
    scatter,
)
from tensorlake.versions.log.entries import is_expired
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.packs.places import PackPlaces

__all__ = ["Hedging", "NearPacks", "PackOverlay", "PackReader", "ScratchPages", "loaded"]


CALLS_AT_ONCE: Final = 256
"""Hedged calls of one read; the store bounds the requests of all reads."""

VERSIONS_MAX = 256
"""Number of versions that a reader remembers being used for: the newest explain a missing pack."""


class PackOverlay(Protocol):
    """Packs that are not in the store, or not yet."""

    @property
    def txid(self) -> str:
        """The transaction they belong to."""
        ...

    def read(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """Read bytes of a pack; None when the store has it."""
        ...

    def final_id(self, pack: PackId) -> PackId:
        """Return the name under which a pack was finally stored."""
        ...


class NearPacks(Protocol):
    """Bytes of packs that are kept nearer than the store."""

    async def read(
        self,
        path: str,
        ranges: Sequence[tuple[int, int]],
        fetch: Callable[[Sequence[tuple[int, int]]], Awaitable[list[Buffer]]],
        /,
    ) -> list[Buffer]:
        """Return ranges [start, stop) of a pack; `fetch` reads ranges from the store."""
        ...

    def forget(self, path: str, /) -> None:
        """Drop a pack's bytes: they are damaged, as they came from the store."""
        ...


class Hedging(Protocol):
    """Repeats requests to a store that take unusually long."""

    async def read(
        self,
        ask: Callable[[Sequence[tuple[int, int]]], Awaitable[list[Buffer]]],
        ranges: Sequence[tuple[int, int]],
        /,
    ) -> list[Buffer]:
        """Return ranges [start, stop), each of which is a request; `ask` makes them by one call."""
        ...


class PackReader:
    """Reader of pack ranges; ``pages`` reads index pages through a cache. Thread-safe."""

    def __init__(self, store: Store, links: LinkStore | None = None) -> None:
        self.store = store
        self.links = links or LinkStore.of(store)
        self.places = PackPlaces(store, self.links)
        self.pages = PageReader(self, is_folder=isinstance(store, LocalStore))
        self._overlays: tuple[weakref.ref[PackOverlay], ...] = ()
        self._versions: tuple[str, ...] = ()
        self._near: NearPacks | None = None
        self._hedge: Hedging | None = None

    def through(self, near: NearPacks | None, hedge: Hedging | None = None) -> Self:
        """Return a reader of the same packs for their bytes, not for pages.

        Args:
            near: Where they are looked for first.
            hedge: Repeats slow requests to a store that is not local.
        """
        reader = copy.copy(self)
        reader._near = near  # noqa: SLF001 - of its own class
        reader._hedge = None if self.store.is_local else hedge  # noqa: SLF001 - as above
        return reader

    def read_for(self, version: str) -> None:
        """Record a version, ``main@12``, that is read here."""
        if version not in self._versions:
            self._versions = (*self._versions[1 - VERSIONS_MAX :], version)

    def use(self, entry: Entry) -> None:
        """Also read packs in the bases of an entry that is read here."""
        if entry.bases:
            self.places.add(entry.bases)

    def attach(self, overlay: PackOverlay) -> None:
        """Also read a transaction's unsent packs, for as long as it is referenced."""
        alive = [ref for ref in self._overlays if ref() is not None]
        self._overlays = (*alive, weakref.ref(overlay))

    def distrust(self, path: str) -> None:
        """Drop the bytes of a damaged pack that are kept near, so that its repair is seen."""
        if self._near is not None:
            self._near.forget(path)

    async def read_range(self, pack: PackId, offset: int, nbytes: int) -> Buffer:
        """Read exactly ``nbytes`` of a pack.

        Raises:
            SnapshotExpiredError: The version expired, and the pack was collected.
            CorruptionError: The pack is missing although it is needed.
        """
        unsent, pack = self._unsent(pack, offset, nbytes)
        if unsent is not None:
            return unsent
        try:
            span = offset, offset + nbytes
            if self._near is not None:
                return (await self._near.read(pack.path, [span], partial(self._stored, pack)))[0]
            return (await self._stored(pack, [span]))[0]
        except MissingObjectError as error:
            raise await self._gone(pack) from error

    async def read_ranges(self, pack: PackId, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read several ranges [start, stop) of a stored pack.

        Raises:
            SnapshotExpiredError: The version expired, and the pack was collected.
            CorruptionError: The pack is missing although it is needed.
        """
        pack = self._final_id(pack)
        try:
            if self._near is not None:
                return await self._near.read(pack.path, ranges, partial(self._stored, pack))
            return await self._stored(pack, ranges)
        except MissingObjectError as error:
            raise await self._gone(pack) from error

    async def _stored(self, pack: PackId, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        if is_counted():
            requests = ranges if self.store.is_local else _requests_of(ranges)
            nbytes = sum(stop - start for start, stop in requests)
            note_read(nbytes, requests=len(requests))
        ask = partial(self._asked, pack)
        if self._hedge is None:
            return await ask(ranges)
        if len(ranges) == 1:
            return await self._hedge.read(ask, ranges)
        merged = merge_ranges(ranges)
        reads = [partial(self._hedge.read, ask, call) for call in calls_of(merged)]
        found = await gather_bounded(reads, limit=CALLS_AT_ONCE)
        return scatter(merged, [*chain.from_iterable(found)], ranges)

    async def _asked(self, pack: PackId, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        if len(ranges) == 1:
            start, stop = ranges[0]
            return [
                await self.places.read(pack, lambda store: store.get_range(pack.path, start, stop))
                if self.places.bases
                else await self.store.get_range(pack.path, start, stop)
            ]
        if not self.places.bases:
            return await self.store.get_ranges(pack.path, ranges)
        return await self.places.read(pack, lambda store: store.get_ranges(pack.path, ranges))

    def is_stored_here(self, pack: PackId, offset: int) -> bool:
        """Return whether the pack of a blob, which begins at ``offset``, is a file of a folder."""
        is_folder = isinstance(self.store, LocalStore) and not self.places.bases
        return is_folder and self._unsent(pack, offset, nbytes=1)[0] is None

    def read_in_turn(self, pack: PackId, ranges: Sequence[tuple[int, int]]) -> Generator[bytes]:
        """Read ranges of a pack that is stored here, each when it is requested.

        Raises:
            MissingObjectError: The pack is gone; `read_range` raises the cause.
        """
        assert isinstance(self.store, LocalStore), "is_stored_here() comes first"
        if is_counted():
            note_read(sum(stop - start for start, stop in ranges), requests=len(ranges))
        return self.store.read_in_turn(self._final_id(pack).path, ranges)

    def map_range(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """View bytes without I/O: unsent ones, or a memory map of a local folder's pack."""
        unsent, pack = self._unsent(pack, offset, nbytes)
        if unsent is not None:
            return unsent
        try:
            mapped = self.store.map_range(pack.path, offset, offset + nbytes)
        except MissingObjectError:
            return None  # reading it raises the cause
        if mapped is not None:
            note_read(nbytes, requests=0)
        return mapped

    def read_into(self, pack: PackId, offset: int, pieces: Sequence[memoryview]) -> bool:
        """Read bytes of a local folder's pack into memory; False if they are elsewhere."""
        nbytes = sum(piece.nbytes for piece in pieces)
        unsent, pack = self._unsent(pack, offset, nbytes)
        if unsent is not None:
            return False
        try:
            is_here = self.store.read_into(pack.path, offset, pieces)
        except MissingObjectError:
            return False  # reading it otherwise raises the cause
        if is_here:
            note_read(nbytes, requests=0)
        return is_here

    async def read(self, ref: PageRef, /) -> Buffer:
        """Read an index page (the ``PageSource`` of ``tensorlake.format``)."""
        return await self.read_range(ref.pack, ref.offset, ref.nbytes)

    async def read_start(self, ref: PageRef, nbytes: int, /) -> Buffer:
        """Read the first bytes of an index page (a ``PageStartSource``)."""
        return await self.read_range(ref.pack, ref.offset, nbytes)

    def _unsent(self, pack: PackId, offset: int, nbytes: int) -> tuple[Buffer | None, PackId]:
        for ref in self._overlays:
            overlay = ref()
            if overlay is None:
                continue
            found = overlay.read(pack, offset, nbytes)
            if found is not None:
                return found, pack
            pack = overlay.final_id(pack)
        return None, pack

    def _final_id(self, pack: PackId) -> PackId:
        for ref in self._overlays:
            overlay = ref()
            pack = pack if overlay is None else overlay.final_id(pack)
        return pack

    async def _gone(
        self, pack: PackId
    ) -> SnapshotExpiredError | TransactionExpiredError | CorruptionError:
        """Return the error for a missing pack, from the logs of the versions read here."""
        if any((overlay := ref()) and overlay.txid == pack.txid for ref in self._overlays):
            return TransactionExpiredError(
                f"pack {pack.path!r} of {self.store.url!r} is gone: transaction {pack.txid} was"
                " open for longer than the dataset's grace time, and its chunks were collected"
                "\nds.discard(), and stage the changes again",
                txid=pack.txid,
                object=pack.path,
            )
        expired = [version for version in self._versions if await self._has_expired(version)]
        if expired:
            return SnapshotExpiredError(
                f"{', '.join(expired[-3:])} of {self.store.url!r} has expired, and its data"
                f" was collected: pack {pack.path!r} is gone\nopen a newer version, see ds.log()",
                version=expired[-1],
                object=pack.path,
            )
        if self.places.bases:
            listed = " or ".join(repr(base.url) for base in self.places.bases)
            return CorruptionError(
                f"pack {pack.path!r} is neither in the fork {self.store.url!r} nor in its base"
                f" {listed}: the base was deleted, moved, or has collected the forked version"
                "\nrun tensorlake check, and restore the base where it was; a fork that must"
                " outlive its base needs ds.absorb() in time",
                object=pack.path,
            )
        return CorruptionError(
            f"pack {pack.path!r} of {self.store.url!r} is missing, but no version read here"
            " has expired\nrun tensorlake check, and restore the pack from a copy",
            object=pack.path,
        )

    async def _has_expired(self, version: str) -> bool:
        branch, _, number = version.rpartition("@")
        log = BranchLog(self.store, branch)
        newest = await log.newest_from(await log.existing(int(number)))
        return is_expired(int(number), newest=newest)


def _requests_of(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the requests to a remote store."""
    return [(request.start, request.stop) for request in merge_ranges(ranges)]


class ScratchPages:
    """Index pages of a transaction's working trees, which are read but never published."""

    def __init__(self, txid: str) -> None:
        self.txid = txid
        self._pack = PackId(txid, SCRATCH_NUMBER)
        self._pages: list[Buffer] = []

    @property
    def is_empty(self) -> bool:
        """Whether it has no page."""
        return not self._pages

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Add a page (the ``PageSink`` of ``tensorlake.format``)."""
        self._pages.append(page)
        return PageRef(
            pack=self._pack,
            offset=len(self._pages) - 1,
            nbytes=len(page),
            checksum=xxh3_64_intdigest(page),
            rows=rows,
            entries=entries,
            height=height,
        )

    def read(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """Read a page stored here; None for any other."""
        return self._pages[offset][:nbytes] if pack == self._pack else None

    def final_id(self, pack: PackId) -> PackId:
        """Return the id itself: scratch pages are never stored."""
        return pack


SCRATCH_NUMBER = 2**32 - 1
"""The pack number of scratch pages: larger than any that a transaction stores."""


async def loaded(entry: Entry, packs: PackReader) -> Entry:
    """Read the spilled parts of an entry, whose bases are read from then on."""
    packs.use(entry)
    return await entry.load(packs, where=f"entry {entry.seq}") if entry.spilled else entry
