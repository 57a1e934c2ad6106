"""Parts of samples: what a type needs to read a piece of a stored sample without the rest.

    ds["clip"][5, 10:42:2]
      request       (slice(10, 42, 2),)         the indices, or an object that the type knows
      map           head · cuts                 from the chunk's header
      wanted_parts  [3, 4]                      before anything is fetched
      parts         {3: bytes, 4: bytes}        fetched and verified alone
      decode_parts  uint8 (16, H, W, 3)

A type with parts makes the maps of its samples at ingestion. All of this is pure: where the bytes
of a sample are is known to a `PartSource`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tensorlake.types.base.column import (
    Column,
    EncodedColumn,
    RaggedColumn,
    SampleMap,
    UniformColumn,
    offsets_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tensorlake.errors import InvalidInputError
    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.file import FileView

__all__ = [
    "Each",
    "MemorySample",
    "PartSource",
    "Parted",
    "SampleHandle",
    "SampleParts",
    "read_request",
]

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
_IN_TURN: Each = map

_ITERATED_NUMBERS = 1 << 22  # decoded at once where a sample is iterated


@dataclass(frozen=True, slots=True, eq=False)
class SampleParts:
    """Some parts of a stored sample.

    Attributes:
        map: The sample's map.
        parts: The bytes of each part by its number.
        each: Applies a function to independent pieces, as `map` does; in several threads where the
            reader has them.
    """

    map: SampleMap
    parts: Mapping[int, Buffer]
    each: Each = _IN_TURN

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the sample; a view where they are in one part.

        Raises:
            ValueError: They are beyond the sample, or in a part that was not fetched.
        """
        if start >= stop:
            return memoryview(b"")
        pieces: list[memoryview] = []
        if start < 0 or stop > self.map.nbytes:
            raise ValueError(f"bytes {start:,} to {stop:,} of a sample of {self.map.nbytes:,}")
        for number in self.map.parts_between(start, stop).tolist():
            part = self.parts.get(number)
            if part is None:
                raise ValueError(f"bytes {start:,} to {stop:,} are in part {number}, not fetched")
            first, last = self.map.span(number)
            pieces.append(memoryview(part)[max(start, first) - first : min(stop, last) - first])
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


class PartSource(Protocol):
    """One stored sample, somewhere."""

    @property
    def tensor(self) -> str:
        """Name of its tensor, for errors."""
        ...

    @property
    def row(self) -> int:
        """Its row, for errors."""
        ...

    @property
    def map(self) -> SampleMap:
        """Its map."""
        ...

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the decoded sample, where recorded."""
        ...

    @property
    def each(self) -> Each:
        """How independent pieces are decoded; see `SampleParts`."""
        ...

    def fetch(self, parts: np.ndarray) -> Mapping[int, Buffer]:
        """Read and verify parts."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MemorySample:
    """A sample in memory, as a source of its parts."""

    sample: Buffer
    map: SampleMap
    shape: tuple[int, ...] | None = None
    tensor: str = ""
    row: int = 0

    @classmethod
    def of(
        cls, kind: Parted, column: EncodedColumn, position: int, *, tensor: str = "", row: int = 0
    ) -> MemorySample:
        """View a sample of a column; a map that is not there is made again."""
        sample = column.samples[position]
        known = None if column.maps is None else column.maps[position]
        if known is None:
            known = kind.map_of(sample, tensor=tensor, row=row)
        shape = None if column.shapes is None else tuple(column.shapes[position].tolist())
        return cls(sample, known, shape, tensor, row)

    @property
    def each(self) -> Each:
        """Pieces are decoded one after another."""
        return map

    def fetch(self, parts: np.ndarray) -> Mapping[int, Buffer]:
        """View parts."""
        view = memoryview(self.sample)
        spans = ((number, self.map.span(number)) for number in parts.tolist())
        return {number: view[start:stop] for number, (start, stop) in spans}

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (bytes(self.sample), self.map, self.shape, self.tensor, self.row)
        return MemorySample, parts


class Parted:
    """How a type reads parts of its samples; by default its samples are read whole.

    A type with parts sets `has_parts` or `is_lazy`, gives each sample a map in `convert_values`,
    and implements `map_of`, `wanted_parts` and `decode_parts`.
    """

    __slots__ = ()

    is_lazy: ClassVar[bool] = False
    """Whether reading a row gives a `SampleHandle`, which decodes when it is asked."""

    @property
    def keeps_files(self) -> bool:
        """Whether the bytes of a given file are the stored sample, so that `Link` can leave it."""
        return False

    @property
    def has_parts(self) -> bool:
        """Whether stored samples carry maps, and can be read in parts."""
        return self.is_lazy

    @property
    def handle_class(self) -> type[SampleHandle]:
        """Class of the handles of samples, of a type that is lazy."""
        return SampleHandle

    @property
    def handle_type(self) -> Parted:
        """The type as which handles decode: a link's is that of the file."""
        return self

    def map_file(
        self, file: FileView, place: Place, position: int
    ) -> tuple[SampleMap, tuple[int, ...]] | None:
        """Check a file as a sample, without loading it; return its map and its shape.

        Returns:
            None, if samples of the type are checked in memory; `Link` then loads the file.

        Raises:
            InvalidInputError: It is not a sample of the type.
        """
        del file, place, position
        return None

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored sample from its bytes.

        Raises:
            CorruptSampleError: They are not a sample of the type.
        """
        raise NotImplementedError(f"{type(self).__name__} has no parts")

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the numbers of the parts that a request needs, int64, ascending.

        Args:
            sample_map: The sample's map.
            request: () for the whole, indices as after the row in brackets, or an object that
                methods of the type's handle or steps of a loader make.
            tensor: Name of the tensor, for errors.
            row: Row of the sample, for errors.

        Raises:
            InvalidInputError: The sample does not have what is requested.
        """
        del request, tensor, row
        return np.arange(sample_map.num_parts)

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        """Decode what a request asks for from the parts that `wanted_parts` named.

        Raises:
            InvalidInputError: The sample does not have what is requested.
            CorruptSampleError: The parts cannot be decoded.
        """
        raise NotImplementedError(f"{type(self).__name__} has no parts")

    def refusal(self, tensor: str, row: int) -> Callable[[str], InvalidInputError]:
        """Return a function that builds the error for a region that a sample does not have."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the type and its main parameters."""
        return type(self).__name__


def read_request(kind: Parted, source: PartSource, request: Any) -> Any:
    """Fetch the parts of a sample that a request needs, and decode it.

    Raises:
        InvalidInputError: The sample does not have what is requested.
        CorruptSampleError: The parts cannot be decoded.
    """
    tensor, row = source.tensor, source.row
    parts = source.fetch(kind.wanted_parts(source.map, request, tensor=tensor, row=row))
    sample = SampleParts(source.map, parts, source.each)
    return kind.decode_parts(sample, request, tensor=tensor, row=row)


def decode_whole(
    kind: Parted,
    column: EncodedColumn,
    dtype: np.dtype,
    shape: tuple[int | None, ...],
    *,
    tensor: str,
    rows: Sequence[int] | np.ndarray | None,
) -> Column:
    """Decode all samples of a column into arrays; NULL has no element.

    Raises:
        CorruptSampleError: A sample cannot be decoded, or has another shape than the type.
    """
    arrays: list[np.ndarray] = []
    nothing = np.zeros(tuple(length or 0 for length in shape), dtype)
    for position in range(len(column)):
        if column.valid is not None and not column.valid[position]:
            arrays.append(nothing)
            continue
        row = position if rows is None else int(rows[position])
        source = MemorySample.of(kind, column, position, tensor=tensor, row=row)
        arrays.append(np.asarray(read_request(kind, source, ()), dtype))
    if None not in shape:
        stacked = np.stack(arrays) if arrays else np.zeros((0, *nothing.shape), dtype)
        return UniformColumn(stacked, column.valid)
    shapes = np.array([one.shape for one in arrays], np.int64).reshape(-1, len(shape))
    values = np.empty(int(sum(one.size for one in arrays)), dtype)
    ends = offsets_of(np.array([one.size for one in arrays], np.int64)).tolist()
    for one, start in zip(arrays, ends[:-1], strict=True):
        values[start : start + one.size] = one.reshape(-1)
    return RaggedColumn(values, shapes, column.valid)


class SampleHandle:
    """A stored sample that is decoded when it is asked: whole, or the parts that are needed.

    ``handle[10:42:2]`` decodes a region, ``np.asarray(handle)`` everything, and ``content`` is the
    sample as stored. A pickled handle holds the sample's bytes.

    Attributes:
        type: The type of the sample.
        tensor: Name of its tensor.
        row: Its row.
    """

    __slots__ = ("_source", "row", "tensor", "type")

    def __init__(self, sample_type: Parted, source: PartSource) -> None:
        self.type = sample_type
        self.tensor = source.tensor
        self.row = source.row
        self._source = source

    @property
    def map(self) -> SampleMap:
        """The map of the sample: its type's head, and where its parts end."""
        return self._source.map

    @property
    def head(self) -> bytes:
        """The bytes that the type recorded of the sample at ingestion."""
        return self._source.map.head

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded sample."""
        shape = self._source.shape
        return np.asarray(self).shape if shape is None else shape

    @property
    def ndim(self) -> int:
        """Number of axes of the decoded sample."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the decoded sample, as an empty region of it has; few parts are read."""
        return np.asarray(self[:0] if self.shape else self.read()).dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the sample as stored."""
        return self._source.map.nbytes

    @property
    def content(self) -> bytes:
        """The sample as stored, whole."""
        number = self._source.map.num_parts
        parts = self._source.fetch(np.arange(number))
        return b"".join(parts[at] for at in range(number))

    def content_between(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of the sample as stored; only their parts are read."""
        parts = self._source.fetch(self.map.parts_between(start, stop))
        return bytes(SampleParts(self.map, parts).read(start, stop))

    def read(self, request: Any = ()) -> Any:
        """Decode what is requested; only the parts that it needs are read.

        Args:
            request: Indices, or an object that the type knows; () is the whole sample.

        Raises:
            InvalidInputError: The sample does not have it.
            CorruptSampleError: The sample cannot be decoded.
        """
        return read_request(self.type, self._source, request)

    def __getitem__(self, region: Any) -> Any:
        return self.read(region if isinstance(region, tuple) else (region,))

    def blocks(self) -> Iterator[Any]:
        """Decode all of the sample, in blocks along its first axis, or as its type is iterated."""
        count = len(self)
        block = max(1, _ITERATED_NUMBERS // max(1, math.prod(self.shape[1:])))
        for start in range(0, count, block):
            yield self[start : start + block]

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError(f"a sample of {self.type.describe()} has no length")
        return shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 - NumPy's protocol
        if copy is False:
            raise ValueError("a sample is decoded into a new array: copy=False cannot be kept")
        return np.asarray(self.read(), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        own = self._source
        sample = MemorySample(self.content, own.map, own.shape, own.tensor, own.row)
        return type(self), (self.type, sample)

    def __repr__(self) -> str:
        shape = self._source.shape
        sides = "" if shape is None else f"{' × '.join(map(str, shape))} · "
        what = f"row {self.row} of {self.tensor!r}" if self.tensor else "a sample"
        return f"{type(self).__name__} {sides}{self.nbytes:,} bytes, {what}, not decoded"
