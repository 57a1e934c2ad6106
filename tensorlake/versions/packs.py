"""Reading bytes of packs: from a transaction's memory while unsent, from the store otherwise.

``PackReader`` is the one door to pack bytes of a dataset handle, and the ``PageSource`` of its
index trees. Transactions attach their unsent packs to it; they are held weakly, so what nobody
reads any more is forgotten.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

from tensorlake.errors import SnapshotExpiredError
from tensorlake.format import PackId, PageReader, PageRef
from tensorlake.storage import Buffer, MissingObjectError, Store

__all__ = ["PackOverlay", "PackReader", "ScratchPages"]


class PackOverlay(Protocol):
    """Packs that are not in the store (yet)."""

    def read(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """Read bytes of a pack; None when the store has it."""
        ...

    def final_id(self, pack: PackId) -> PackId:
        """Tell under which name a pack was stored in the end."""
        ...


class PackReader:
    """Reads ranges of packs; ``pages`` reads index pages through a cache. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pages = PageReader(self)
        self._overlays: tuple[weakref.ref[PackOverlay], ...] = ()

    def attach(self, overlay: PackOverlay) -> None:
        """Read a transaction's unsent packs too, for as long as someone holds it."""
        alive = [ref for ref in self._overlays if ref() is not None]
        self._overlays = (*alive, weakref.ref(overlay))

    async def read_range(self, pack: PackId, offset: int, nbytes: int) -> Buffer:
        """Read exactly ``nbytes`` of a pack.

        Raises:
            SnapshotExpiredError: The pack was collected.
        """
        unsent, pack = self._unsent(pack, offset, nbytes)
        if unsent is not None:
            return unsent
        try:
            return await self.store.get_range(pack.path, offset, offset + nbytes)
        except MissingObjectError as error:
            raise self._gone(pack) from error

    async def read_ranges(self, pack: PackId, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read several ranges [start, stop) of a pack that is stored.

        Raises:
            SnapshotExpiredError: The pack was collected.
        """
        for ref in self._overlays:
            overlay = ref()
            pack = pack if overlay is None else overlay.final_id(pack)
        try:
            return await self.store.get_ranges(pack.path, ranges)
        except MissingObjectError as error:
            raise self._gone(pack) from error

    def map_range(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """View bytes without I/O: unsent ones, or a memory map of a local folder's."""
        unsent, pack = self._unsent(pack, offset, nbytes)
        if unsent is not None:
            return unsent
        try:
            return self.store.map_range(pack.path, offset, offset + nbytes)
        except MissingObjectError as error:
            raise self._gone(pack) from error

    async def read(self, ref: PageRef, /) -> Buffer:
        """Read an index page (the ``PageSource`` of ``tensorlake.format``)."""
        return await self.read_range(ref.pack, ref.offset, ref.nbytes)

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

    def _gone(self, pack: PackId) -> SnapshotExpiredError:
        return SnapshotExpiredError(
            f"pack {pack.path!r} of {self.store.url!r} is gone: this version was given up and"
            " collected; open a newer one (if none was: run tensorlake check)",
            object=pack.path,
        )


class ScratchPages:
    """Index pages of a transaction's working trees, which are read but never published."""

    def __init__(self, txid: str) -> None:
        self._pack = PackId(txid, SCRATCH_NUMBER)
        self._pages: list[Buffer] = []

    @property
    def is_empty(self) -> bool:
        """Whether no page was needed."""
        return not self._pages

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Keep a page (the ``PageSink`` of ``tensorlake.format``)."""
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
        """Read a page kept here; None for anything else."""
        return self._pages[offset][:nbytes] if pack == self._pack else None

    def final_id(self, pack: PackId) -> PackId:
        """Scratch pages are never stored."""
        return pack


SCRATCH_NUMBER = 2**32 - 1
"""The pack number of scratch pages: none that a transaction stores reaches it."""
