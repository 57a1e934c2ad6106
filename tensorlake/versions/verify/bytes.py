"""Verify ranges of packs: that they exist, and that their bytes are those that were written.

References are read in batches, in the order in which a version lists them, so only one batch is in
memory. A range is read once per check, as long as the bounded set of ranges seen contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from xxhash import xxh3_64, xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import PackId
from tensorlake.storage import MissingObjectError, Store, runtime
from tensorlake.versions.log.findings import Findings
from tensorlake.versions.packs.places import PackPlaces
from tensorlake.versions.reachability import Reference

__all__ = ["MissingPack", "RangeVerifier"]

BATCH_NBYTES = 32 << 20
BATCH_RANGES = 256
READS_AT_ONCE = 16

PIECE_NBYTES = 8 << 20
"""Larger ranges are read and hashed piece by piece."""

SEEN_MAX = 1 << 20
"""Ranges remembered as verified; at this number they are forgotten, and may be read again."""


@dataclass(frozen=True, slots=True)
class MissingPack:
    """A pack that a version needs and that the store does not have."""

    pack: PackId
    version: str
    what: str


@dataclass(slots=True)
class RangeVerifier:
    """Verifies the ranges that references name.

    Attributes:
        store: The store of the packs.
        reads_chunks: Whether chunks are read; otherwise only the length of their pack is checked.
        sizes: Bytes of each pack seen so far.
        findings: Damage found.
        places: Where packs are looked for that the store does not have.
        borrowed: Packs that are in a base: their length is compared, their bytes are the base's to
            check.
        missing: Missing packs, with the first version that needs each.
        damaged: The owners of the damaged ranges, by the path and offset of their findings.
        verified: Number of ranges read, and their bytes.
    """

    store: Store
    findings: Findings
    reads_chunks: bool
    sizes: dict[PackId, int]
    progress: Callable[[int], None]
    places: PackPlaces | None = None
    borrowed: set[PackId] = field(default_factory=set[PackId])
    missing: dict[PackId, MissingPack] = field(default_factory=dict[PackId, MissingPack])
    damaged: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    chunks: int = 0
    pages: int = 0
    nbytes_read: int = 0
    _seen: set[tuple[PackId, int]] = field(default_factory=set[tuple[PackId, int]])
    _batch: list[tuple[Reference, str]] = field(default_factory=list[tuple[Reference, str]])
    _batch_nbytes: int = 0

    async def add(self, reference: Reference, version: str, *, is_read: bool) -> None:
        """Add a reference of a version; ``is_read`` means that its bytes were verified already."""
        key = (reference.pack, reference.offset)
        if key in self._seen:
            return
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen.add(key)
        self.pages += reference.kind == "page"
        self.chunks += reference.kind == "chunk"
        if is_read:
            self.nbytes_read += reference.nbytes
            return
        if not await self._is_there(reference, version) or reference.pack in self.borrowed:
            return
        if reference.kind == "chunk" and not self.reads_chunks:
            return
        self._batch.append((reference, version))
        self._batch_nbytes += reference.nbytes
        if self._batch_nbytes >= BATCH_NBYTES or len(self._batch) >= BATCH_RANGES:
            await self.flush()

    async def flush(self) -> None:
        """Verify the pending references."""
        batch, self._batch, self._batch_nbytes = self._batch, [], 0
        reads = [partial(self._verify, *one) for one in batch]
        await runtime.gather_bounded(reads, limit=READS_AT_ONCE)

    async def _is_there(self, reference: Reference, version: str) -> bool:
        size = self.sizes.get(reference.pack)
        if size is None:
            size = await self._size(reference.pack)
            if size is None:
                self._miss(reference, version)
                return False
            self.sizes[reference.pack] = size
        if reference.offset + reference.nbytes > size:
            self.findings.add(
                reference.pack.path,
                f"it has {size:,} bytes, {describe(reference)} of {version} ends at byte"
                f" {reference.offset + reference.nbytes:,}",
                offset=size,
            )
            return False
        return True

    async def _size(self, pack: PackId) -> int | None:
        meta = await self.store.head(pack.path)
        if meta is not None or self.places is None:
            return None if meta is None else meta.nbytes
        found = await self.places.nbytes_in_bases(pack)
        if found is None:
            return None
        self.borrowed.add(pack)
        return found[1]

    def _miss(self, reference: Reference, version: str) -> None:
        self.missing.setdefault(
            reference.pack, MissingPack(reference.pack, version, describe(reference))
        )

    async def _verify(self, reference: Reference, version: str) -> None:
        try:
            checksum = await self._checksum(reference)
        except MissingObjectError:
            self._miss(reference, version)
            return
        except CorruptionError as error:
            self.findings.add_error(reference.pack.path, error)
            return
        if checksum != reference.checksum:
            self.damaged[reference.pack.path, reference.offset] = reference.what
            self.findings.add(
                reference.pack.path,
                f"{describe(reference)} of {version} is damaged: the checksum of its"
                f" {reference.nbytes:,} bytes is wrong",
                offset=reference.offset,
            )

    async def _checksum(self, reference: Reference) -> int:
        path, end = reference.pack.path, reference.offset + reference.nbytes
        self.nbytes_read += reference.nbytes
        self.progress(reference.nbytes)
        if reference.nbytes <= PIECE_NBYTES:
            return xxh3_64_intdigest(await self.store.get_range(path, reference.offset, end))
        hasher = xxh3_64()
        for start in range(reference.offset, end, PIECE_NBYTES):
            hasher.update(await self.store.get_range(path, start, min(end, start + PIECE_NBYTES)))
        return hasher.intdigest()


def describe(reference: Reference) -> str:
    """Describe the content of a range."""
    stop = reference.row_start + reference.rows
    rows = f" for physical rows {reference.row_start:,} … {stop - 1:,}" if reference.rows else ""
    what = "a chunk" if reference.kind == "chunk" else "an index page"
    return f"{what} of {reference.what!r}{rows}"
