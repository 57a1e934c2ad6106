"""A dataset of 10⁹ rows that was never ingested: index pages and log entries, written directly.

Everything that reading one sample, opening, committing and planning touch is real and of its real
size; only chunk bytes are missing. The tensors:

    sample   100 rows a chunk with units. One leaf page is referred to as often as there are
             leaves, so 10⁷ chunks take a megabyte; the last chunk of each leaf exists, so some
             rows can be read
    vector   as many chunks without units, each leaf a page of its own: what planning reads
    label    chunks of 131,072 rows, as bulk ingestion writes them

The log has ``commits`` entries, and so have the row ids runs. The sizes in ``extents_of_pictures``
are those of 8 MiB chunks of 100 kB JPEGs in packs of 64 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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
    encode_page,
    entry_path,
    head_path,
    new_txid,
    tree,
)
from tensorlake.format.nodes import write_inner
from tensorlake.storage import Buffer, Store, runtime
from tensorlake.types import EncodedColumn
from tensorlake.versions import create_dataset

__all__ = [
    "FULL",
    "SAMPLE_NBYTES",
    "SMALL",
    "LakePacks",
    "Scale",
    "extents_of_labels",
    "extents_of_pictures",
    "folded",
    "readable_rows",
    "write_lake",
]

PACK_NBYTES = 60 << 20
SAMPLE_NBYTES = 8192
PICTURE_NBYTES = 100_000
LABEL_ROWS = 131_072
TEMPLATES = 16
"""Different pages among the leaves of ``vector``: the rest are the same bytes in other places."""

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
        """Of ``sample``: units fill its leaves."""
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
    leaf = extents_of_pictures(scale.chunks_a_leaf - 1, scale.rows_a_chunk, seed=seed)
    leaf = Extents.concat([leaf, _stored(packs, specs["sample"], samples)])
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
            specs["sample"].id: _repeated(leaf, scale.chunks, packs),
            specs["vector"].id: _distinct(scale, packs, seed),
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


def _repeated(leaf: Extents, chunks: int, packs: LakePacks) -> Root[Extents]:
    """A tree of so many chunks whose whole leaves are all the same page."""
    whole, rest = divmod(chunks, len(leaf))
    page = packs.leaf(leaf)
    refs = [page] * whole
    if rest:
        refs.append(packs.leaf(leaf.take(np.arange(len(leaf) - rest, len(leaf)))))
    return Root.of(Extents.empty(), children=folded(refs, packs))


def _distinct(scale: Scale, packs: LakePacks, seed: int) -> Root[Extents]:
    """A tree of full leaves, each a page of its own."""
    whole, rest = divmod(scale.chunks, LIMITS.leaf_entries)
    templates: list[tuple[bytes, Extents]] = []
    for number in range(min(TEMPLATES, whole)):
        leaf = extents_of_pictures(
            LIMITS.leaf_entries, scale.rows_a_chunk, seed=seed + number, has_units=False
        )
        templates.append((_page_of(leaf), leaf))
    refs = [packs.leaf(leaf, page) for page, leaf in _cycled(templates, whole)]
    if rest:
        last = extents_of_pictures(rest, scale.rows_a_chunk, seed=seed, has_units=False)
        refs.append(packs.leaf(last))
    return Root.of(Extents.empty(), children=folded(refs, packs))


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


def _cycled(
    templates: Sequence[tuple[bytes, Extents]], count: int
) -> Iterator[tuple[bytes, Extents]]:
    for number in range(count):
        yield templates[number % len(templates)]


def _shares(rows: int, parts: int) -> Iterator[range]:
    borders = [rows * part // parts for part in range(parts + 1)]
    for start, stop in pairwise(borders):
        yield range(start, stop)


def _page_of(leaf: Extents) -> bytes:
    return encode_page(leaf.PAGE_KIND, leaf.to_columns(), entries=len(leaf), rows=leaf.num_rows)


def folded(refs: list[PageRef], packs: LakePacks) -> tuple[PageRef, ...]:
    """Put pages under inner pages until a root can hold them."""
    while len(refs) > LIMITS.root_children:
        refs = [
            write_inner(refs[start : start + LIMITS.fan_out], packs)
            for start in range(0, len(refs), LIMITS.fan_out)
        ]
    return tuple(refs)


class LakePacks:
    """The packs of the transaction that writes a lake: page sink and source."""

    def __init__(self, store: Store, txid: str) -> None:
        self._store = store
        self._txid = txid
        self._writer = PackWriter(txid, 0)
        self._summaries: dict[int, Summaries[StatisticsTable]] = {}

    def place(self, pieces: Sequence[Buffer]) -> tuple[PackId, int]:
        """Place a blob; the pack before is sent when it is full."""
        if self._writer.nbytes > PACK_NBYTES:
            self.send()
        return self._writer.id, self._writer.add(pieces, what="synthetic")

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Place a page (the ``PageSink`` of ``tensorlake.format``)."""
        pack, offset = self.place([page])
        nbytes = memoryview(page).nbytes
        return PageRef(pack, offset, nbytes, xxh3_64_intdigest(page), rows, entries, height)

    def leaf(self, table: Extents, page: bytes | None = None) -> PageRef:
        """Place a leaf page, encoded before or not."""
        data = _page_of(table) if page is None else page
        ref = self.add(data, rows=table.num_rows, entries=len(table), height=0)
        known = self._summaries.get(ref.checksum)
        if known is None:
            known = self._summaries[ref.checksum] = table.summary()
        return replace(ref, stored_nbytes=table.stored_nbytes, summary=known)

    async def read(self, ref: PageRef, /) -> Buffer:
        """Read a page that was sent."""
        return await self._store.get_range(ref.pack.path, ref.offset, ref.offset + ref.nbytes)

    def send(self) -> None:
        """Store the pack, and begin the next."""
        pack = self._writer.id
        runtime.run(self._store.put_if_absent(pack.path, self._writer.finish()))
        self._writer = PackWriter(self._txid, pack.n + 1)


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
