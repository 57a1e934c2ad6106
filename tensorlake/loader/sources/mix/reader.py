"""Several sources as one selection and one reader, so that the pipeline reads a mix like a view.

    position   of all sources' rows, end to end        [ web 0 … n-1 | code n … n+m-1 ]
    physical   source << 48 | its own physical row     (an axis has fewer than 2⁴⁸ rows)
    chunk      (source, its own key)

A batch's ``_row`` is the row of the source's version, its ``_source`` the source's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError
from tensorlake.loader.plan.selection import Int64Array, Reader, Schema, Selection, TensorSpec
from tensorlake.loader.plan.virtual_columns import VirtualColumn, VirtualValues
from tensorlake.loader.sources.remote import BatchServer
from tensorlake.storage import runtime
from tensorlake.types import (
    Buffer,
    Column,
    LinkOpener,
    SampleMap,
    UniformColumn,
    as_ragged,
    concat,
    take,
)
from tensorlake.versions import distinct

__all__ = ["MixReader", "MixSelection", "MixSource", "MixedColumn", "SourceColumn", "SourceKey"]

SOURCE_SHIFT = 48
PHYSICAL_MASK = (1 << SOURCE_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class MixSource:
    """One source of a mix: a dataset or view.

    Attributes:
        name: Its name.
        selection: Its rows.
        reader: Their reader.
        repin: Opens another version of them.
        edits: An ``Edits``; rows.py imports plans of mixes.
        server: A server that can decode batches of them, or of rows that have them among others.
        virtual: Their computed columns, by name.
        among: Their positions among the rows of the server; None: they are the same rows.
    """

    name: str
    selection: Selection
    reader: Reader
    repin: Callable[[str], tuple[Selection, Reader]] | None = None
    edits: Any = None
    server: BatchServer | None = None
    among: Int64Array | None = None
    virtual: Mapping[str, VirtualColumn] = field(default_factory=dict[str, VirtualColumn])

    def served(self, positions: Int64Array) -> Int64Array:
        """Return the positions of rows among those of the server."""
        return positions if self.among is None else self.among[positions]


@dataclass(frozen=True, slots=True)
class SourcePack:
    """A pack of one source."""

    source: int
    pack: Any  # the source's own class

    @property
    def path(self) -> str:
        """Its path in the source, for messages."""
        return self.pack.path

    def __str__(self) -> str:
        return f"{self.source}:{self.pack}"


@dataclass(frozen=True, slots=True)
class SourceKey:
    """A chunk of one source."""

    source: int
    key: Any  # the source's own class

    @property
    def pack(self) -> SourcePack:
        """The pack in which it is stored."""
        return SourcePack(self.source, self.key.pack)

    @property
    def offset(self) -> int:
        """Its offset in the pack."""
        return self.key.offset

    @property
    def nbytes(self) -> int:
        """Its length."""
        return self.key.nbytes

    @property
    def checksum(self) -> int:
        """Checksum of all its bytes."""
        return self.key.checksum

    @property
    def is_fill(self) -> bool:
        """Whether nothing is stored."""
        return self.key.is_fill

    def __str__(self) -> str:
        return str(self.key)


@dataclass(frozen=True, slots=True, eq=False)
class MixLocated:
    """The locations of rows of several sources."""

    chunk: NDArray[np.integer]
    row_in_chunk: NDArray[np.integer]
    chunks: tuple[SourceKey, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MixSnapshot:
    """The versions of all sources, as one snapshot."""

    sources: tuple[MixSource, ...]

    @property
    def version(self) -> str:
        """The sources and their versions."""
        return ", ".join(f"{one.name} {one.selection.snapshot.version}" for one in self.sources)

    @property
    def url(self) -> str:
        """The URLs of all sources, for messages."""
        urls = dict.fromkeys(one.selection.snapshot.url for one in self.sources)
        return ", ".join(urls)

    @property
    def is_staged(self) -> bool:
        """Whether any source shows staged changes."""
        return any(one.selection.snapshot.is_staged for one in self.sources)

    @property
    def packs(self) -> MixSnapshot:
        """Itself: it finds the source of a pack."""
        return self

    @property
    def links(self) -> LinkOpener:
        """Refuse handles of linked files: each source reads its own.

        Raises:
            InvalidInputError: Always.
        """
        raise InvalidInputError(
            "a mix gives parts of linked files, and no handles of them"
            "\ngive decode= a step for the tensor, such as tl.decode.Clip(16); or leave it out of"
            " columns="
        )

    async def read_range(self, pack: SourcePack, offset: int, nbytes: int) -> Buffer:
        """Read bytes of a pack of its source."""
        packs = self.sources[pack.source].reader.snapshot.packs
        return await packs.read_range(pack.pack, offset, nbytes)

    def distrust(self, path: str) -> None:
        """Drop copies of a damaged object."""
        for one in self.sources:
            one.reader.snapshot.packs.distrust(path)

    @property
    def schema(self) -> Schema:
        """The schema of the first source; the columns read are the same in the others."""
        return self.sources[0].selection.snapshot.schema

    def spec(self, tensor: str) -> TensorSpec:
        """Look a tensor up; all sources have it with the same type."""
        return self.sources[0].selection.snapshot.spec(tensor)


@dataclass(frozen=True, slots=True, eq=False)
class MixSelection:
    """The rows of all sources, end to end."""

    sources: tuple[MixSource, ...]
    columns: tuple[str, ...]
    digest: str

    @property
    def snapshot(self) -> MixSnapshot:
        """The versions."""
        return MixSnapshot(self.sources)

    @property
    def num_rows(self) -> int:
        """Number of rows of all sources."""
        return self.starts[-1]

    @property
    def is_whole(self) -> bool:
        """No: sources have row numbers of their own."""
        return False

    @property
    def starts(self) -> list[int]:
        """Position of the first row of each source, and the end of the last."""
        return [0, *accumulate(one.selection.num_rows for one in self.sources)]

    def source_of(self, positions: Int64Array) -> Int64Array:
        """Return the source of the row at each position."""
        return np.searchsorted(self.starts[1:], positions, side="right").astype(np.int64)

    def row_numbers(self, positions: Int64Array) -> Int64Array:
        """Map positions to rows of their source's version."""
        return self._by_source(positions, lambda one, own: one.selection.row_numbers(own))

    def physical(self, positions: Int64Array) -> Int64Array:
        """Map positions to physical rows that include the source."""
        physical = self._by_source(positions, lambda one, own: one.selection.physical(own))
        return physical | self.source_of(positions) << SOURCE_SHIFT

    def _by_source(
        self, positions: Int64Array, ask: Callable[[MixSource, Int64Array], Int64Array]
    ) -> Int64Array:
        source = self.source_of(positions)
        mapped = np.empty_like(positions)
        for number, (one, start) in enumerate(zip(self.sources, self.starts[:-1], strict=True)):
            own = np.flatnonzero(source == number)
            if len(own):
                mapped[own] = ask(one, positions[own] - start)
        return mapped


@dataclass(frozen=True, slots=True, eq=False)
class SourceColumn:
    """``_source``: the number of each row's source, in the order of the mix."""

    selection: MixSelection

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the numbers."""
        return np.dtype(np.int64)

    @property
    def shape(self) -> tuple[()]:
        """Shape of one value."""
        return ()

    def over(self, selection: Selection) -> SourceColumn:
        """Return itself: a mix restores the versions of its sources."""
        del selection
        return self

    def take(self, positions: Int64Array) -> UniformColumn:
        """Return the sources of some rows."""
        return UniformColumn(self.selection.source_of(positions))


@dataclass(frozen=True, slots=True, eq=False)
class MixedColumn:
    """A column that is computed in all sources."""

    selection: MixSelection
    name: str

    @property
    def dtype(self) -> np.dtype | None:
        """Dtype of its numbers; None for strings and objects."""
        return self._of(0).dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of one value; None where lengths differ."""
        return self._of(0).shape

    def over(self, selection: Selection) -> MixedColumn:
        """Return itself: a mix restores the versions of its sources."""
        del selection
        return self

    def take(self, positions: Int64Array) -> VirtualValues:
        """Return the values of some rows, computed in the source of each."""
        source, starts = self.selection.source_of(positions), self.selection.starts
        numbers = cast("list[int]", distinct(source).tolist())
        owned = [np.flatnonzero(source == number) for number in numbers]
        taken = [
            self._of(number).take(positions[own] - starts[number])
            for number, own in zip(numbers, owned, strict=True)
        ]
        if not taken:
            return self._of(0).take(positions)
        columns = [one for one in taken if not isinstance(one, list)]
        if not columns:
            values = np.empty(len(positions), object)
            for own, some in zip(owned, taken, strict=True):
                values[own] = np.fromiter(cast("list[object]", some), object, len(own))
            return [*values]
        if None in self.shape:
            columns = [as_ragged(one) for one in columns]
        made: list[Callable[[], Column]] = [partial(_itself, one) for one in columns]
        return cast("VirtualValues", _joined(made, owned))

    def _of(self, number: int) -> VirtualColumn:
        return self.selection.sources[number].virtual[self.name]


@dataclass(frozen=True, slots=True)
class MixStore:
    """The stores of the sources."""

    is_local: bool  # all of them


@dataclass(frozen=True, slots=True)
class MixIndex:
    """The chunks of a tensor in all sources."""

    num_rows: int
    bounds: None = None  # each source has its own


@dataclass(frozen=True, slots=True, eq=False)
class MixReader:
    """Reads chunks of all sources."""

    sources: tuple[MixSource, ...]

    @property
    def snapshot(self) -> MixSnapshot:
        """The versions."""
        return MixSnapshot(self.sources)

    @property
    def store(self) -> MixStore:
        """The stores; local if all sources are."""
        return MixStore(all(one.reader.store.is_local for one in self.sources))

    def through(self, near: Any, hedge: Any = None) -> Any:
        """Refuse: the readers of the sources look near."""
        raise NotImplementedError

    def index(self, tensor: str) -> MixIndex:
        """Return the sizes of a tensor's chunk index."""
        return MixIndex(sum(self._rows_of(tensor)))

    def row_nbytes(self, tensors: Sequence[str]) -> list[int]:
        """Return the mean stored bytes per row over all sources."""
        sizes = [one.reader.row_nbytes(tensors) for one in self.sources]
        return [
            _mean(row_nbytes, self._rows_of(tensor))
            for tensor, row_nbytes in zip(tensors, zip(*sizes, strict=True), strict=True)
        ]

    def is_null(self, tensor: str, physical: Int64Array) -> NDArray[np.bool_]:
        """Return which rows of any source are NULL."""
        found = np.zeros(len(physical), np.bool_)
        for number, own in self._parts(physical):
            reader = self.sources[number].reader
            found[own] = reader.is_null(tensor, physical[own] & PHYSICAL_MASK)
        return found

    def shapes(self, tensor: str, physical: Int64Array) -> Int64Array:
        """Return the shapes of rows of any source."""
        parts = self._parts(physical)
        found = [
            self.sources[number].reader.shapes(tensor, physical[own] & PHYSICAL_MASK)
            for number, own in parts
        ]
        order = np.concatenate([own for _, own in parts])
        return np.concatenate(found)[np.argsort(order)]

    def look_ahead(self, tensors: Sequence[str], physical: Int64Array) -> None:
        """Read the index pages for row sizes and for some rows, source by source."""
        for number, own in self._parts(physical):
            self.sources[number].reader.look_ahead(tensors, physical[own] & PHYSICAL_MASK)

    def locate(self, tensor: str, physical: Int64Array) -> MixLocated:
        """Find the chunk of each row in its source."""
        chunk = np.empty(len(physical), dtype=np.int64)
        row_in_chunk = np.empty(len(physical), dtype=np.int64)
        chunks: list[SourceKey] = []
        for number, own in self._parts(physical):
            found = self.sources[number].reader.locate(tensor, physical[own] & PHYSICAL_MASK)
            chunk[own] = found.chunk + np.int64(len(chunks))
            row_in_chunk[own] = found.row_in_chunk
            chunks += [SourceKey(number, key) for key in found.chunks]
        return MixLocated(chunk, row_in_chunk, tuple(chunks))

    def map_chunk(self, key: SourceKey) -> Buffer | None:
        """Return a chunk of a local source without reading it."""
        return self.sources[key.source].reader.map_chunk(key.key)

    def decode_chunk(
        self, tensor: str, key: SourceKey, blob: Buffer, rest: Sequence[Buffer] = ()
    ) -> Column:
        """Turn a chunk's bytes into a column."""
        return self.sources[key.source].reader.decode_chunk(tensor, key.key, blob, rest)

    def salvage_chunk(
        self, tensor: str, key: SourceKey, pieces: Sequence[Buffer] = ()
    ) -> tuple[Column, NDArray[np.bool_]] | None:
        """Return the verifiable rows of a damaged chunk."""
        return self.sources[key.source].reader.salvage_chunk(tensor, key.key, pieces)

    def fill_column(self, tensor: str, rows: int) -> Column:
        """Return the fill of the first source; ``fill_of`` uses the chunk's source."""
        return self.sources[0].reader.fill_column(tensor, rows)

    def fill_of(self, tensor: str, key: SourceKey) -> Column:
        """Return the one stored sample of a fill chunk."""
        return self.sources[key.source].reader.fill_column(tensor, 1)

    async def fetch(self, tensor: str, physical: Int64Array) -> Callable[[], Column]:
        """Read the bytes of rows of all sources; return a function that makes them, in order."""
        parts = self._parts(physical)
        reads = [
            partial(self.sources[number].reader.fetch, tensor, physical[own] & PHYSICAL_MASK)
            for number, own in parts
        ]
        made = await runtime.gather_bounded(reads, limit=len(reads))
        return partial(_joined, made, [own for _, own in parts])

    async def fetch_parts(
        self,
        tensor: str,
        physical: Int64Array,
        wanted: Sequence[Callable[[SampleMap, tuple[int, ...] | None], Int64Array]],
    ) -> Callable[[], Column]:
        """Read the wanted parts of rows of all sources; return a function that makes them."""
        parts = self._parts(physical)
        reads = [
            partial(
                self.sources[number].reader.fetch_parts,
                tensor,
                physical[own] & PHYSICAL_MASK,
                [wanted[at] for at in own.tolist()],
            )
            for number, own in parts
        ]
        made = await runtime.gather_bounded(reads, limit=len(reads))
        return partial(_joined, made, [own for _, own in parts])

    def _rows_of(self, tensor: str) -> list[int]:
        return [one.reader.index(tensor).num_rows for one in self.sources]

    def _parts(self, physical: Int64Array) -> Sequence[tuple[int, NDArray[np.intp]]]:
        source = physical >> SOURCE_SHIFT
        numbers = cast("list[int]", distinct(source).tolist())
        return [(number, np.flatnonzero(source == number)) for number in numbers]


def _itself(column: Column) -> Column:
    return column


def _joined(made: Sequence[Callable[[], Column]], owned: Sequence[NDArray[np.intp]]) -> Column:
    """Make the rows of each source, and arrange them in the requested order."""
    columns = [make() for make in made]
    if len(columns) == 1:
        return columns[0]
    order = np.concatenate(owned)
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.arange(len(order))
    return take(concat(columns), inverse)


def _mean(row_nbytes: Sequence[int], rows: Sequence[int]) -> int:
    stored = sum(size * count for size, count in zip(row_nbytes, rows, strict=True))
    return stored // max(1, sum(rows))
