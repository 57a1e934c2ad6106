"""Recovery of chunk locations when the index pages with them are lost.

Two sources, the more reliable one first:

    older versions   their pages and tails name the same rows, unless a commit since updated them
    directories      each pack ends with a list of its chunks; a transaction that only appended to a
                     tensor wrote them in the order of its rows, which the row ids name

Nothing is guessed: if a transaction's chunks do not contain exactly the rows that it appended, they
cannot be placed, and the rows stay lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from tensorlake.errors import CorruptionError, SnapshotExpiredError
from tensorlake.format import (
    ChunkKind,
    Entry,
    Extents,
    LeafTable,
    PackedBlob,
    PackId,
    PageRef,
    Root,
    RowIdRuns,
    Schema,
    header_rows,
    read_header,
)
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.state import table_of
from tensorlake.versions.packs.directory import stored_directory
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.rows.ranges import Ranges, intersect, known_union, no_ranges

__all__ = [
    "Found",
    "chunks_written",
    "covering",
    "lost_rows",
    "rows_updated_since",
    "salvage_from_packs",
    "without",
]

FIXED_HEADER_NBYTES = 64
READS_AT_ONCE = 16

L = TypeVar("L", bound=LeafTable)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Physical rows [start, stop) of a tensor whose chunks were recovered."""

    start: int
    stop: int
    extents: Extents


async def lost_rows(root: Root[L], packs: PackReader) -> Ranges:
    """Return the rows of a tree below unreadable pages: one range per page, in order."""
    table = root.leaf_type
    lost: list[tuple[int, int]] = []
    level: list[tuple[int, PageRef]] = _placed(root.children, 0)
    while level:
        below: list[tuple[int, PageRef]] = []
        for base, ref in level:
            try:
                if ref.height == 0:
                    await packs.pages.leaves([ref], table)
                else:
                    (inner,) = await packs.pages.inners([ref], table)
                    below += _placed(inner.refs(), base)
            except (CorruptionError, SnapshotExpiredError):
                lost.append((base, base + ref.rows))
        level = below
    return np.array(sorted(lost), np.int64) if lost else no_ranges()


def _placed(refs: Sequence[PageRef], base: int) -> list[tuple[int, PageRef]]:
    placed: list[tuple[int, PageRef]] = []
    for ref in refs:
        placed.append((base, ref))
        base += ref.rows
    return placed


def covering(pages: Ranges, found: Sequence[Found]) -> list[Found]:
    """Join the recovered parts by page; pages not recovered completely are left out.

    An unreadable page cannot be replaced in part.
    """
    whole: list[Found] = []
    for start, stop in pages.tolist():
        inside = sorted(
            (one for one in found if start <= one.start and one.stop <= stop),
            key=lambda one: one.start,
        )
        if sum(one.stop - one.start for one in inside) == stop - start:
            whole.append(Found(start, stop, Extents.concat([one.extents for one in inside])))
    return whole


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """Return the parts of the first set that the second does not cover.

    >>> without(np.array([[0, 9]]), np.array([[2, 4]])).tolist()
    [[0, 2], [4, 9]]
    """
    if not len(ranges) or not len(removed):
        return ranges
    edges = [0, *removed.reshape(-1).tolist(), int(ranges[-1, 1])]
    gaps = np.array(edges, np.int64).reshape(-1, 2)
    return intersect(ranges, gaps[gaps[:, 1] > gaps[:, 0]])


def rows_updated_since(newer: Sequence[Entry], tensor_id: str) -> Ranges | None:
    """Return the rows of a tensor that some commits updated; None if unknown."""
    since = [entry.changes for entry in newer]
    for changes in since:
        touched = any(change.get("tensor") == tensor_id for change in changes.schema)
        if changes.rewrite or touched:
            return None
    return known_union(changes.update.get(tensor_id, ()) for changes in since)


async def salvage_from_packs(
    tensor_id: str,
    wanted: Ranges,
    row_ids: Root[RowIdRuns],
    commits: Sequence[Entry],
    packs: PackReader,
) -> list[Found]:
    """Place chunks by the directories of the packs that the rows were first written to.

    Args:
        tensor_id: The tensor.
        wanted: Physical rows that no index references any more, and that were never updated.
        row_ids: The origin of each physical row.
        commits: The branch's commits; rows of other transactions are left out.
        packs: Reads packs.
    """
    by_txid = {entry.txid: entry for entry in commits}
    chunks: dict[str, Extents | None] = {}
    found: list[Found] = []
    for start, stop in wanted.tolist():
        runs = await table_of(row_ids, packs.pages, start, stop)
        at = start
        for rows, high, low, offset in zip(
            runs.rows.tolist(),
            runs.txid_high.tolist(),
            runs.txid_low.tolist(),
            runs.offset.tolist(),
            strict=True,
        ):
            txid = f"{high:016x}{low:016x}"
            if txid not in chunks:
                born = by_txid.get(txid)
                chunks[txid] = (
                    None if born is None else await _chunks_appended(tensor_id, born, packs)
                )
            extents = chunks[txid]
            if extents is not None:
                found.append(Found(at, at + rows, extents.slice_rows(offset, offset + rows)))
            at += rows
    return found


async def _chunks_appended(tensor_id: str, born: Entry, packs: PackReader) -> Extents | None:
    """Return the chunks that a transaction wrote for its appended rows; None unless they match."""
    spec = Schema.from_json(born.schema or {}).by_id(tensor_id)
    if spec is None:
        return None
    return await chunks_written(
        tensor_id, born.changes.append, txid=born.txid, read_as=spec.read_as, packs=packs
    )


async def chunks_written(
    what: str, rows: int, *, txid: str, read_as: int, packs: PackReader
) -> Extents | None:
    """The chunks that one transaction wrote for a tensor or a part; None unless they have ``rows``.

    Args:
        what: Id of the tensor, or of the part of a column group.
        rows: How many rows the transaction added.
        txid: The transaction.
        read_as: The encoding of its chunks.
        packs: Reads packs.
    """
    parts: list[Extents] = []
    for pack in await _packs_of_transaction(txid, packs.store):
        directory = await _directory(pack, packs.store)
        if directory is None:
            return None
        blobs = [blob for blob in directory if blob.what == what]
        read = [partial(_extent, pack, blob, packs, read_as) for blob in blobs]
        for one in await runtime.gather_bounded(read, limit=READS_AT_ONCE):
            if one is None:
                return None
            parts.append(one)
    extents = Extents.concat(parts)
    return extents if extents.num_rows == rows else None


async def _packs_of_transaction(txid: str, store: Store) -> list[PackId]:
    found: list[PackId] = []
    async for meta in store.list(f"packs/{txid[-2:]}/{txid}-"):
        pack = PackId.from_path(meta.path)
        if pack is not None:
            found.append(pack)
    return sorted(found, key=lambda pack: pack.n)


async def _directory(pack: PackId, store: Store) -> tuple[PackedBlob, ...] | None:
    meta = await store.head(pack.path)
    if meta is None:
        return None
    try:
        return await stored_directory(store, pack, meta.nbytes)
    except CorruptionError:
        return None


async def _extent(
    pack: PackId, blob: PackedBlob, packs: PackReader, read_as: int
) -> Extents | None:
    """Return the extent of a whole chunk from its header; None if that is damaged."""
    try:
        fixed = memoryview(
            await packs.store.get_range(pack.path, blob.offset, blob.offset + FIXED_HEADER_NBYTES)
        )
        header_nbytes = int.from_bytes(fixed[12:16], "little")
        if not FIXED_HEADER_NBYTES <= header_nbytes <= blob.nbytes:
            return None
        data = await packs.store.get_range(pack.path, blob.offset, blob.offset + header_nbytes)
        header = read_header(
            data, header_nbytes=header_nbytes, rows=header_rows(data), where=pack.path
        )
    except CorruptionError:
        return None
    return Extents.chunk(
        rows=header.rows,
        kind=ChunkKind(header.kind),
        pack=pack,
        offset=blob.offset,
        nbytes=blob.nbytes,
        header_nbytes=header_nbytes,
        checksum=blob.checksum,
        read_as=read_as,
    )
