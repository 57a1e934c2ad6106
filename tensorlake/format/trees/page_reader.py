"""Reads and checks pages, many at once, and keeps the decoded ones.

A ``PageReader`` connects the trees and a ``PageSource``: it verifies length, checksum and counts
against the reference, decodes only the requested columns, and caches decoded pages up to a size,
least recently used first out. Pages are immutable, so nothing is ever
invalidated. One reader may be used from several threads; concurrent misses share one read, except
for threads that read a local folder themselves.
"""

from __future__ import annotations

import asyncio
from enum import Flag, auto
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xxhash import xxh3_64_intdigest

from tensorlake.format.pages.pages import PageTable, decode_json_page, decode_page, read_table
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.trees.inline_tail import LeafTable
from tensorlake.format.trees.nodes import (
    Inner,
    PageRef,
    PageSource,
    PageStartSource,
    read_inner,
)
from tensorlake.storage import LruCache, SingleFlight, runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from tensorlake.errors import CorruptionError
    from tensorlake.storage import Buffer

MAX_CACHED_NBYTES = 256 * 1024 * 1024
# Reads in flight at once: a first batch of 64 rows asks for as many leaves in one trip.
MAX_READS = 64
# Locations and statistics of a leaf of 4096 extents take at most 128 KiB and a half of that.
START_NBYTES_OF_ENTRY = 48
START_NBYTES_MIN = 16 * 1024  # names of packs and bounds of few extents may be longer


class Parts(Flag):
    """Which columns of a leaf are decoded."""

    LOCATIONS = 0
    STATISTICS = auto()
    UNITS = auto()
    ALL = STATISTICS | UNITS


# What was decoded with more columns than asked for serves too, and is preferred.
_ANY = (Parts.ALL, Parts.UNITS, Parts.STATISTICS, Parts.LOCATIONS)
_CONTAINING = {parts: tuple(known for known in _ANY if parts in known) for parts in _ANY}

T = TypeVar("T", bound=LeafTable)
A = TypeVar("A")
B = TypeVar("B")


class PageReader:
    """Reads the pages of trees through a cache of decoded pages."""

    def __init__(
        self,
        source: PageSource,
        *,
        max_cached_nbytes: int = MAX_CACHED_NBYTES,
        max_reads: int = MAX_READS,
        is_folder: bool = False,
    ) -> None:
        self._source = source
        self._is_folder = is_folder
        self._max_reads = max_reads
        self._cache = LruCache[tuple[PageRef, Parts], object](max_cached_nbytes)
        self._under_way = SingleFlight[tuple[PageRef, Parts], object]()

    async def inners(self, refs: Sequence[PageRef], table: type[LeafTable]) -> list[Inner]:
        """Read some inner pages, at once."""

        async def inner(ref: PageRef) -> Inner:
            cached = self._cached(ref, Parts.ALL)
            if cached is None:
                read = partial(self._read_inner, ref, table)
                cached = await self._shared((ref, Parts.ALL), read)
            return cast("Inner", cached)

        return await self._all(inner, refs)

    async def _read_inner(self, ref: PageRef, table: type[LeafTable]) -> Inner:
        data, sections = await self._verified(ref)
        inner = read_inner(data, table, where=str(ref), sections=sections)
        if inner.height_of_children >= ref.height:
            raise _damaged_page(ref, "it lies above a child of no lower height")
        _check_stored(ref, inner.stored_nbytes)
        self._keep(ref, Parts.ALL, inner, sections)
        return inner

    async def leaves(
        self, refs: Sequence[PageRef], table: type[T], parts: Parts = Parts.ALL
    ) -> list[T]:
        """Read some leaf pages, at once."""

        async def leaf(ref: PageRef) -> T:
            cached = self._cached(ref, parts)
            if cached is None:
                read = partial(self._read_leaf, ref, table, parts)
                cached = await self._shared((ref, parts), read)
            return cast("T", cached)

        return await self._all(leaf, refs)

    async def _read_leaf(self, ref: PageRef, table: type[T], parts: Parts) -> T:
        data, sections = await self._start_of(ref, parts) or await self._verified(ref)
        leaf = _decoded_leaf(data, sections, ref, table, parts)
        self._keep(ref, parts, leaf, sections)
        return leaf

    async def _shared(
        self, key: tuple[PageRef, Parts], read: Callable[[], Coroutine[Any, Any, object]]
    ) -> object:
        """Share a concurrent read of a page on the loop; in the caller's own thread read it again.

        Reading a page of a folder twice costs less than a hop to the loop and back.
        """
        if self._reads_here():
            return await read()
        return await self._under_way.read(key, read)

    def _reads_here(self) -> bool:
        """Whether this is the caller's own thread, which may read here."""
        return self._is_folder and runtime.runs_here()

    async def _start_of(self, ref: PageRef, parts: Parts) -> tuple[Buffer, PageTable] | None:
        """Read a large leaf without its units, which come last and are most of it.

        Header and sections have checksums of their own, so the whole need not be there.
        """
        source = self._source
        start_nbytes = max(START_NBYTES_MIN, START_NBYTES_OF_ENTRY * ref.entries)
        if Parts.UNITS in parts or ref.nbytes <= start_nbytes:
            return None
        if not isinstance(source, PageStartSource):
            return None
        data = await source.read_start(ref, start_nbytes)
        table = _checked_table(data, ref)
        stops = [
            section.offset + section.stored_nbytes
            for section in table.sections
            if not section.name.startswith(_unwanted(parts))
        ]
        return (data, table) if max(stops, default=0) <= start_nbytes else None

    async def _verified(self, ref: PageRef) -> tuple[Buffer, PageTable]:
        data = await self._source.read(ref)
        if memoryview(data).nbytes != ref.nbytes or xxh3_64_intdigest(data) != ref.checksum:
            raise _damaged_page(ref, "its bytes do not match the checksum of its reference")
        return data, _checked_table(data, ref)

    async def _all(self, read: Callable[[A], Awaitable[B]], items: Sequence[A]) -> list[B]:
        found: list[B] = []
        for start in range(0, len(items), self._max_reads):
            batch = items[start : start + self._max_reads]
            if len(batch) == 1 or self._reads_here():
                found.extend([await read(item) for item in batch])
            else:
                await runtime.to_loop()
                found.extend(await asyncio.gather(*(read(item) for item in batch)))
        return found

    def _cached(self, ref: PageRef, parts: Parts) -> object | None:
        for known in _CONTAINING[parts]:
            cached = self._cache.get((ref, known))
            if cached is not None:
                return cached
        return None

    def _keep(self, ref: PageRef, parts: Parts, decoded: object, table: PageTable) -> None:
        unwanted = _unwanted(parts)
        nbytes = sum(
            section.raw_nbytes
            for section in table.sections
            if not section.name.startswith(unwanted)
        )
        self._cache.put((ref, parts), decoded, nbytes)


def as_page_reader(pages: PageSource | PageReader) -> PageReader:
    """Return a reader of these pages, with a cache of its own where none was given."""
    return pages if isinstance(pages, PageReader) else PageReader(pages)


async def read_json_pages(refs: Sequence[PageRef], pages: PageSource) -> list[Any]:
    """Read some JSON pages, at once, checking each against its reference."""

    async def read(ref: PageRef) -> Any:
        data = await pages.read(ref)
        if memoryview(data).nbytes != ref.nbytes or xxh3_64_intdigest(data) != ref.checksum:
            raise _damaged_page(ref, "its bytes do not match the checksum of its reference")
        return decode_json_page(data, where=str(ref))

    await runtime.to_loop()
    return list(await asyncio.gather(*(read(ref) for ref in refs)))


def _unwanted(parts: Parts) -> tuple[str, ...]:
    prefixes = ((Parts.STATISTICS, "statistics."), (Parts.UNITS, "units."))
    return tuple(prefix for part, prefix in prefixes if part not in parts)


def _checked_table(data: Buffer, ref: PageRef) -> PageTable:
    table = read_table(data, where=str(ref))
    if (table.rows, table.entries) != (ref.rows, ref.entries):
        raise _damaged_page(ref, f"it holds {table.rows} rows, its reference has {ref.rows}")
    return table


def _decoded_leaf(
    data: Buffer, sections: PageTable, ref: PageRef, table: type[T], parts: Parts
) -> T:
    unwanted = _unwanted(parts)
    where = str(ref)
    names = [section.name for section in sections.sections]
    wanted = [name for name in names if not name.startswith(unwanted)]
    page = decode_page(data, where=where, wanted=wanted, table=sections)
    if page.kind != table.PAGE_KIND:
        raise _damaged_page(ref, f"it is of kind {page.kind}, not {table.PAGE_KIND.name}")
    leaf = table.from_page(page, where=where)
    if int(leaf.rows.sum(dtype="int64")) != ref.rows:
        raise _damaged_page(ref, f"its entries do not hold the {ref.rows} rows that it states")
    _check_stored(ref, leaf.stored_nbytes)
    return leaf


def _check_stored(ref: PageRef, stored_nbytes: int | None) -> None:
    if ref.stored_nbytes is not None and stored_nbytes not in (None, ref.stored_nbytes):
        why = f"its chunks weigh {stored_nbytes} bytes, its reference has {ref.stored_nbytes}"
        raise _damaged_page(ref, why)


def _damaged_page(ref: PageRef, why: str) -> CorruptionError:
    return damaged(str(ref), why, path=ref.pack.path, offset=ref.offset)
