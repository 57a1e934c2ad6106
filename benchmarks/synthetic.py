"""A dataset of 10⁹ rows that was never ingested: its trees grown by the writer's own code.

The parts that reading one sample, opening, committing and planning touch are real, in real size.
The trees are made by ``tree.append`` and ``tree.concat``, as commits make them, commit by commit;
so inner pages, merges and roots are those that a writer leaves. The tensors:

    sample   100 rows per chunk with units; 7,634 leaves
    vector   as many chunks without units: what planning reads
    label    chunks of 131,072 rows, as bulk ingestion writes them

The rest is synthetic: the bytes of chunks are missing, but for the last chunk of each leaf's worth
of ``sample``, so some rows can be read. ``TEMPLATES`` leaves of each large tensor are written; all
later commits place these same bytes anew, each page in a place of its own, which no cache takes for
another. ``SharedMemoryStore`` holds such bytes once. The log has ``commits`` entries, which all
show the finished trees, and row ids have as many runs. The sizes in ``extents_of_pictures`` are
those of 8 MiB chunks of 100 kB JPEGs in packs of 64 MiB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from xxhash import xxh3_64_intdigest

import tensorlake as tl
from tensorlake.format import (
    LIMITS,
    ChunkBlob,
    Entry,
    Extents,
    PackId,
    PackWriter,
    PageRef,
    Parent,
    PlacedChunk,
    PlacedChunks,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    Statistics,
    StatisticsTable,
    Summaries,
    TensorSpec,
    UnitTable,
    encode_chunk,
    entry_path,
    head_path,
    new_txid,
    tree,
)
from tensorlake.storage import Buffer, MemoryStore, Store, runtime
from tensorlake.types import EncodedColumn
from tensorlake.versions import create_dataset

__all__ = [
    "FULL",
    "SAMPLE_NBYTES",
    "SMALL",
    "LakePacks",
    "Scale",
    "SharedMemoryStore",
    "extents_of_labels",
    "extents_of_pictures",
    "readable_rows",
    "write_lake",
]

PACK_NBYTES = 60 << 20
SAMPLE_NBYTES = 8192
PICTURE_NBYTES = 100_000
LABEL_ROWS = 131_072
TEMPLATES = 16
"""Different leaves of a tensor, which one commit appends: as many as 8 GiB of 4 KiB rows fill."""

PUTS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a lake is."""

    chunks: int
    rows_a_chunk: int
    commits: int

    @property
    def rows(self) -> int:
        return self.chunks * self.rows_a_chunk

    @property
    def chunks_a_leaf(self) -> int:
        """The number for ``sample``, whose leaves are filled by units."""
        return min(LIMITS.leaf_entries, LIMITS.leaf_units // self.rows_a_chunk)


FULL = Scale(chunks=10_000_000, rows_a_chunk=100, commits=10_000)
SMALL = Scale(chunks=40_000, rows_a_chunk=100, commits=100)


def extents_of_pictures(
    chunks: int, rows: int, *, seed: int = 0, has_units: bool = True, pack_start: int = 0
) -> Extents:
    """Make extents as the ingestion of JPEGs of 100 kB does, statistics and units too."""
    random = np.random.default_rng(seed)
    lengths = random.lognormal(np.log(PICTURE_NBYTES), 0.4, (chunks, rows)).astype(np.uint32)
    columns = 2.2 * rows + random.integers(0, 20, chunks)  # lengths, heights, widths
    header = (64 + np.ceil((columns + 2 * rows + 64) / 64) * 64).astype(np.uint32)
    nbytes = header + lengths.sum(axis=1, dtype=np.uint64)
    padded = -(-nbytes.astype(np.int64) // 64) * 64
    chunks_a_pack = max(1, PACK_NBYTES // int(padded.mean()))
    pack = (np.arange(chunks) // chunks_a_pack).astype(np.uint32)
    ends = np.cumsum(padded)
    first = np.searchsorted(pack, pack)
    txid = new_txid()
    shapes = np.sort(random.integers(200, 600, (chunks, 2, 2)), axis=1)
    statistics = StatisticsTable.of(
        [Statistics(shape_min=(*low, 3), shape_max=(*high, 3)) for low, high in shapes.tolist()]
    )
    counts = np.full(chunks, rows, np.uint32)
    units = UnitTable(
        counts,
        lengths.reshape(-1),
        random.integers(0, 2**32, chunks * rows, dtype=np.uint32),
    )
    return Extents(
        rows=counts,
        skip=np.zeros(chunks, np.uint32),
        kind=np.full(chunks, 3, np.uint8),
        read_as=np.zeros(chunks, np.uint16),
        pack=pack,
        offset=(64 + ends - padded - (ends - padded)[first]).astype(np.uint64),
        nbytes=nbytes.astype(np.uint64),
        header_nbytes=header,
        checksum=random.integers(0, 2**64, chunks, dtype=np.uint64),
        packs=tuple(PackId(txid, pack_start + n) for n in range(int(pack[-1]) + 1)),
        statistics=Summaries[StatisticsTable].of(statistics),
        units=units if has_units else UnitTable.none(chunks),
    )


def write_lake(store: Store, scale: Scale, *, seed: int = 0) -> list[bytes]:
    """Write a lake into an empty store; return the samples of the chunk that exists."""
    runtime.run(create_dataset(store, schema_of().to_json(), grace_s=86_400, exist_ok=False))
    first = runtime.run(store.get(entry_path("main", 0)))
    assert first is not None
    entry = Entry.from_bytes(first, where="entry 0")
    packs = LakePacks(store, new_txid())
    samples = _samples(scale, seed)
    entry = _with_index(entry, scale, packs, samples, seed)
    packs.send()
    _write_log(store, entry, scale.commits)
    return samples


def schema_of() -> Schema:
    """Return the schema of every lake."""
    return Schema.new({"sample": tl.Bytes(), "vector": tl.Bytes(), "label": "int64"})


def readable_rows(scale: Scale, count: int, *, seed: int = 0) -> np.ndarray:
    """Draw rows of ``sample`` that have bytes: those of the last chunk of some leaf."""
    random = np.random.default_rng(seed)
    leaves = -(-scale.chunks // scale.chunks_a_leaf)
    last = np.minimum(
        (1 + random.integers(0, leaves - 1, count)) * scale.chunks_a_leaf, scale.chunks
    )
    return last * scale.rows_a_chunk - 1 - random.integers(0, scale.rows_a_chunk, count)


def _with_index(
    entry: Entry, scale: Scale, packs: LakePacks, samples: list[bytes], seed: int
) -> Entry:
    specs = {spec.name: spec for spec in Schema.from_json(entry.schema or {}).tensors}

    def sample_leaf(number: int) -> Extents:
        missing = extents_of_pictures(
            scale.chunks_a_leaf - 1, scale.rows_a_chunk, seed=seed + number
        )
        return Extents.concat([missing, _stored(packs, specs["sample"], samples)])

    def vector_leaf(number: int) -> Extents:
        return extents_of_pictures(
            LIMITS.leaf_entries, scale.rows_a_chunk, seed=seed + number, has_units=False
        )

    empty = Root.of(Extents.empty())
    label = runtime.run(tree.append(empty, extents_of_labels(scale.rows, seed), packs, packs))
    runs = RowIdRuns.concat(
        [
            RowIdRuns.run(len(rows), new_txid())
            for rows in _shares(scale.rows, min(scale.commits, scale.rows))
        ]
    )
    row_ids = runtime.run(tree.append(Root.of(RowIdRuns.empty()), runs, packs, packs))
    return entry.changed(
        roots={
            specs["sample"].id: _grown(sample_leaf, scale.chunks, packs),
            specs["vector"].id: _grown(vector_leaf, scale.chunks, packs),
            specs["label"].id: label,
        },
        rows=Root.of(RowSegments.range(0, scale.rows)),
        row_ids=row_ids,
        physical=scale.rows,
    )


def _samples(scale: Scale, seed: int) -> list[bytes]:
    random = np.random.default_rng(seed)
    return [random.bytes(SAMPLE_NBYTES) for _ in range(scale.rows_a_chunk)]


def _stored(packs: LakePacks, spec: TensorSpec, samples: list[bytes]) -> Extents:
    blob: ChunkBlob = encode_chunk(EncodedColumn(list[Buffer](samples), None), spec.layout)
    pack, offset = packs.place(blob.pieces)
    return PlacedChunks((PlacedChunk.of(blob, pack, offset),)).to_table()


def _grown(leaf_of: Callable[[int], Extents], chunks: int, packs: LakePacks) -> Root[Extents]:
    """Grow a tree of that many chunks, commit by commit; see the module for what is repeated."""
    empty: Root[Extents] = Root.of(Extents.empty())
    leaves = [leaf_of(number) for number in range(TEMPLATES)]
    if chunks <= sum(map(len, leaves)):
        first = Extents.concat(leaves).take(np.arange(chunks))
        return runtime.run(tree.append(empty, first, packs, packs))
    root = commit = runtime.run(tree.append(empty, Extents.concat(leaves), packs, packs))
    pages = [runtime.run(packs.read(ref)) for ref in commit.children]
    whole, rest = divmod(chunks, sum(map(len, leaves)))
    for _ in range(whole - 1):
        again = tuple(
            packs.again(ref, page) for ref, page in zip(commit.children, pages, strict=True)
        )
        root = runtime.run(tree.concat(root, Root(again, commit.newest), packs, packs))
    if rest:
        last = Extents.concat(leaves).take(np.arange(rest))
        root = runtime.run(tree.append(root, last, packs, packs))
    return root


def extents_of_labels(rows: int, seed: int) -> Extents:
    """Extents of int64 labels of ten classes in no order."""
    chunks = -(-rows // LABEL_ROWS)
    random = np.random.default_rng(seed)
    counts = np.full(chunks, LABEL_ROWS, np.uint32)
    counts[-1] = rows - (chunks - 1) * LABEL_ROWS
    nbytes = random.integers(70_000, 70_400, chunks).astype(np.uint64)
    txid = new_txid()
    statistics = Statistics(domain="int64", minimum=0, maximum=9, labels=tuple(range(10)))
    return Extents(
        rows=counts,
        skip=np.zeros(chunks, np.uint32),
        kind=np.full(chunks, 1, np.uint8),
        read_as=np.zeros(chunks, np.uint16),
        pack=np.arange(chunks, dtype=np.uint32),
        offset=np.full(chunks, 64, np.uint64),
        nbytes=nbytes,
        header_nbytes=np.full(chunks, 64, np.uint32),
        checksum=random.integers(0, 2**64, chunks, dtype=np.uint64),
        packs=tuple(PackId(txid, number) for number in range(chunks)),
        statistics=Summaries[StatisticsTable].of(StatisticsTable.of([statistics] * chunks)),
        units=UnitTable.none(chunks),
    )


def _shares(rows: int, parts: int) -> Iterator[range]:
    borders = [rows * part // parts for part in range(parts + 1)]
    for start, stop in pairwise(borders):
        yield range(start, stop)


class SharedMemoryStore(MemoryStore):
    """A store in memory that keeps packs in the pieces they were given in: equal pages are one."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[str, tuple[list[int], list[Buffer]]] = {}

    def share(self, path: str, pieces: Sequence[Buffer]) -> None:
        """Take a pack's pieces, without copying them."""
        starts = list(accumulate((memoryview(one).nbytes for one in pieces), initial=0))
        self._shared[path] = starts, list(pieces)

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        """Read a range, of one piece as it is."""
        if path not in self._shared:
            return await super().get_range(path, start, stop)
        starts, pieces = self._shared[path]
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, stop - 1) - 1
        parts = [memoryview(piece).cast("B") for piece in pieces[first : last + 1]]
        whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return whole[start - starts[first] : stop - starts[first]]


class LakePacks:
    """The packs of the transaction that writes a lake: page sink and source."""

    def __init__(self, store: Store, txid: str) -> None:
        self._store = store
        self._txid = txid
        self._writer = PackWriter(txid, 0)
        self._full: list[tuple[PackId, list[Buffer]]] = []
        self._unsent: dict[tuple[PackId, int], Buffer] = {}  # pages that are not stored yet

    def place(self, pieces: Sequence[Buffer]) -> tuple[PackId, int]:
        """Place a blob; packs that are full are stored, if this is not the storage loop."""
        if self._writer.nbytes > PACK_NBYTES:
            self._end_pack()
            if not runtime.is_loop_thread():
                self._store_full()
        return self._writer.id, self._writer.add(pieces, what="synthetic")

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Place a page (the ``PageSink`` of ``tensorlake.format``)."""
        pack, offset = self.place([page])
        self._unsent[pack, offset] = page
        nbytes = memoryview(page).nbytes
        return PageRef(pack, offset, nbytes, xxh3_64_intdigest(page), rows, entries, height)

    def again(self, ref: PageRef, page: Buffer) -> PageRef:
        """Place a page that was written before in another place."""
        pack, offset = self.place([page])
        return replace(ref, pack=pack, offset=offset)

    async def read(self, ref: PageRef, /) -> Buffer:
        """Read a page, sent or not (the ``PageSource`` of ``tensorlake.format``)."""
        unsent = self._unsent.get((ref.pack, ref.offset))
        if unsent is not None:
            return unsent
        return await self._store.get_range(ref.pack.path, ref.offset, ref.offset + ref.nbytes)

    def send(self) -> None:
        """Store all packs, and begin the next."""
        self._end_pack()
        self._store_full()

    def _end_pack(self) -> None:
        self._full.append((self._writer.id, self._writer.finish()))
        self._writer = PackWriter(self._txid, self._writer.id.n + 1)

    def _store_full(self) -> None:
        for pack, pieces in self._full:
            if isinstance(self._store, SharedMemoryStore):
                self._store.share(pack.path, pieces)
            else:
                runtime.run(self._store.put_if_absent(pack.path, pieces))
        gone = {pack for pack, _ in self._full}
        self._full.clear()
        self._unsent = {at: page for at, page in self._unsent.items() if at[0] not in gone}


def _write_log(store: Store, entry: Entry, commits: int) -> None:
    """Write entries 1 … ``commits``, which all show the same, and the hint."""

    async def put(path: str, data: bytes) -> None:
        await store.put_if_absent(path, data)

    before = runtime.run(store.get(entry_path("main", 0)))
    assert before is not None
    digest = Entry.from_bytes(before, where="entry 0").digest
    batch: list[tuple[str, bytes]] = []
    data = before
    for number in range(1, commits + 1):
        entry = entry.changed(
            seq=number,
            prev=digest,
            time=entry.time + 1_000_000,
            txid=new_txid(),
            parents=(Parent("main", number - 1, digest),),
            message=f"synthetic commit {number}",
        )
        data, entry = entry.sealed()
        digest = entry.digest
        batch.append((entry_path("main", number), data))
        if len(batch) >= PUTS_IN_FLIGHT or number == commits:
            factories = [lambda one=one: put(*one) for one in batch]
            runtime.run(runtime.gather_bounded(factories, limit=PUTS_IN_FLIGHT))
            batch = []
    runtime.run(store.put(head_path("main"), data))
