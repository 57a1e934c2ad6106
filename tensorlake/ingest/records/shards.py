"""Shards of rows with a table of offsets, as MDS and LitData have them.

    shard   rows u32 · offsets u32 (rows + 1), from the start of the file · … · row 0 · row 1 · …
    row     sizes u32, of the fields whose size varies · values, one after another

Rows are known by position, or by a key. A shard is read in pieces, a compressed one whole.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import PurePath
from typing import Any, Protocol, cast

import numpy as np

from tensorlake.dataset import Dataset, SkippedItem
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.options import IngestOptions
from tensorlake.ingest.engine.source import LoadedRows, Refused, given_settings
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.index import written_types
from tensorlake.ingest.records.parts import FieldParts, read_together
from tensorlake.ingest.records.values import array_of, booleans, pil_pixels, value_of
from tensorlake.ingest.tables.arrow import check_pieces, ingest_pieces
from tensorlake.ingest.tables.line_files import PIECE_NBYTES
from tensorlake.storage import public_url
from tensorlake.types import Bytes, Image, SampleType, as_type
from tensorlake.types import Sequence as SequenceType

__all__ = [
    "Decoder",
    "Shard",
    "ShardReader",
    "image_list",
    "ingest_shards",
]

COMPRESSED_NBYTES_MAX = 2 << 30
"""Largest shard that is decompressed in memory."""

_U32 = np.dtype("<u4")


class RowReader(Protocol):
    """Reads the rows of shards."""

    def rows(self, shard: Shard, start: int, stop: int) -> Iterator[list[Any] | str]:
        """Yield the fields of rows [start, stop); a reason where one is damaged."""
        ...

    def columns(self, shard: Shard, start: int, stop: int) -> Sequence[FieldParts | Any] | None:
        """Return the fields of these rows, or their values; None where one is damaged."""
        ...


Decoder = Callable[[Any], Any]
"""Returns the value of a field, or raises ValueError."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of rows.

    Attributes:
        path: The file.
        rows: Number of rows, as the index has it.
        nbytes: Its size in bytes, decompressed where that is known.
        codec: Name of the codec that the whole file is compressed with.
    """

    path: str
    rows: int
    nbytes: int
    codec: str | None = None


class ShardReader:
    """Reads the rows of shards.

    Args:
        files: Opens the files.
        sizes: Size of each field, where all rows have the same.
        written: Positions of the fields whose sizes each row begins with; one that is not among
            them, and has no size, is the rest of the row.
    """

    def __init__(
        self, files: SourceFiles, sizes: Sequence[int | None], written: Sequence[int]
    ) -> None:
        self._files, self._sizes, self._written = files, sizes, written
        self._head = struct.Struct(f"<{len(written)}I")

    def rows(self, shard: Shard, start: int, stop: int) -> Iterator[list[bytes] | str]:
        """Yield rows [start, stop) as the bytes of each field; as a reason where one is damaged.

        Raises:
            InvalidInputError: The shard is damaged.
        """
        place = public_url(shard.path)
        try:
            first, content, offsets = self._read(shard, start, stop)
            if bool((np.diff(offsets) < 0).any()) or offsets[0] < first:
                raise ValueError("its offsets do not ascend")  # noqa: TRY301 - told below
            if int(offsets[-1]) - first > len(content):
                raise ValueError("it is cut off")  # noqa: TRY301 - told below
        except (ValueError, OSError) as error:
            message = f"{place!r} is damaged: {error}"
            raise InvalidInputError(message, src=place) from error
        cuts = (offsets - first).tolist()
        for low, high in pairwise(cuts):
            yield self._fields(content, low, high)

    def columns(self, shard: Shard, start: int, stop: int) -> list[FieldParts] | None:
        """Return the bytes of each field of rows [start, stop); None where `rows` has an error."""
        try:
            first, content, offsets = self._read(shard, start, stop)
        except (ValueError, OSError):
            return None
        cuts, count = offsets - first, len(self._written)
        lows, highs = cuts[:-1] + self._head.size, cuts[1:]
        if cuts[0] < 0 or highs[-1] > len(content) or bool((lows > highs).any()):
            return None
        sizes = np.zeros((len(lows), len(self._sizes)), np.int64)
        if count:
            places = cuts[:-1, None] + np.arange(self._head.size)
            heads = np.frombuffer(content, np.uint8)[places].view(_U32)
            sizes[:, self._written] = heads
        for at, size in enumerate(self._sizes):
            if size is not None:
                sizes[:, at] = size
            elif at not in self._written:  # the rest of the row
                sizes[:, at] = highs - lows - sizes.sum(axis=1)
        stops = lows[:, None] + np.cumsum(sizes, axis=1)
        if bool((sizes < 0).any()) or bool((stops[:, -1] != highs).any()):
            return None
        starts = stops - sizes
        return [FieldParts(content, starts[:, at], stops[:, at]) for at in range(sizes.shape[1])]

    def _read(self, shard: Shard, start: int, stop: int) -> tuple[int, bytes, np.ndarray]:
        """Return the place of some bytes in a shard, the bytes, and the rows' places."""
        count = stop - start + 1
        if shard.codec is not None:
            content = _decompressed(self._files.content(shard.path), shard)
            _check_rows(content[:4], shard)
            offsets = _numbers(content[4 * (1 + start) : 4 * (1 + start + count)], count)
            return 0, content, offsets
        with self._files.open(shard.path) as file:
            _check_rows(file.read(4), shard)
            file.seek(4 * (1 + start))
            offsets = _numbers(file.read(4 * count), count)
            begin, end = int(offsets[0]), int(offsets[-1])
            size = self._files.nbytes(shard.path) or 0
            if not begin <= end <= size:
                raise ValueError("it is cut off, or its offsets do not ascend")
            file.seek(begin)
            return begin, file.read(end - begin), offsets

    def _fields(self, content: bytes, low: int, high: int) -> list[bytes] | str:
        """Cut a row, bytes [low, high), into its fields; a reason where they do not fill it."""
        stop = low + self._head.size
        if stop > high:
            return "the row is cut off"
        sizes = [*self._sizes]
        for at, size in zip(self._written, self._head.unpack_from(content, low), strict=True):
            sizes[at] = size
        parts: list[bytes] = []
        for size in sizes:
            start, stop = stop, high if size is None else stop + size
            parts.append(content[start:stop])
        if stop != high:
            return f"its fields have {stop - low:,} bytes, and the row {high - low:,}"
        return parts


def _check_rows(head: bytes, shard: Shard) -> None:
    rows = int(_numbers(head, 1)[0])
    if rows != shard.rows:
        raise ValueError(f"it has {rows:,} rows, and {shard.rows:,} in the index")


def _numbers(content: bytes, count: int) -> np.ndarray:
    if len(content) < 4 * count:
        raise ValueError("it is cut off")
    return np.frombuffer(content, _U32, count).astype(np.int64)


def _decompressed(content: bytes, shard: Shard) -> bytes:
    """Decompress a shard; ValueError where it is damaged, or a bomb."""
    import pyarrow as pa

    limit = min(shard.nbytes, COMPRESSED_NBYTES_MAX) if shard.nbytes else COMPRESSED_NBYTES_MAX
    if shard.nbytes > COMPRESSED_NBYTES_MAX:
        raise ValueError(
            f"it is {shard.nbytes:,} bytes when decompressed, at most {COMPRESSED_NBYTES_MAX:,}"
        )
    if shard.codec == "snappy":
        done: bytes = pa.decompress(content, shard.nbytes, codec="snappy", asbytes=True)
    else:
        with pa.CompressedInputStream(pa.BufferReader(content), shard.codec) as stream:
            done = stream.read(limit + 1)
    if len(done) > limit:
        raise ValueError(f"it is more than {limit:,} bytes when decompressed")
    return done


def ingest_shards(
    kind: str,
    shards: Sequence[Shard],
    reader: RowReader,
    formats: Mapping[str, str],
    field: Callable[[str, str, bytes], tuple[SampleType, Decoder]],
    dst: str | PathLike[str],
    options: IngestOptions,
    *,
    files: SourceFiles,
    src: object,
    folder: str,
    schema: Mapping[str, Any] | None,
    key: str | None,
) -> Dataset:
    """Ingest the rows of shards.

    Args:
        kind: Name of the format.
        shards: The shards.
        reader: Reads them.
        formats: The encoding of each field, in the order of the rows' fields.
        field: Returns type and decoder of a field, given its name, its encoding, and a value for
            what the encoding leaves open; b"" if there is none.
        dst: Path or URL of the dataset.
        options: See `IngestOptions`.
        files: Opens files.
        src: The source, as given.
        folder: Its folder, in which an export wrote the tensors' types.
        schema: Types in place of the fields' own.
        key: The field that names a row; None: rows are known by position.
    """
    shards = [shard for shard in shards if shard.rows]
    is_strict = options.get("on_error", "raise") == "raise"
    first = _first_row(shards, reader, is_strict=is_strict)
    written = written_types(folder, files)
    fields: dict[str, tuple[SampleType, Decoder]] = {}
    for at, (name, encoding) in enumerate(formats.items()):
        inferred, decode = field(name, encoding, b"" if first is None else first[at])
        fields[name] = (written.get(name, inferred), decode)
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    unknown = next((name for name in given if name not in fields), None)
    if unknown is not None:
        message = f"schema names the unknown field {unknown!r}\nfields: {', '.join(fields)}"
        raise InvalidInputError(message, tensor=unknown)
    types = {name: given.get(name, one) for name, (one, _) in fields.items()}
    decoders = [(name, _decoder(name, types[name], decode)) for name, (_, decode) in fields.items()]
    together = [read_together(types[name], decode) for name, (_, decode) in fields.items()]
    by_path = {shard.path: shard for shard in shards}
    pieces = [piece for shard in shards for piece in _pieces(shard)]
    check_pieces(kind, pieces, types)

    def load(items: Sequence[Piece]) -> LoadedRows:
        columns: dict[str, list[Any]] = {name: [] for name in types}
        refused: list[Refused] = []
        places: list[tuple[Piece, int]] = []
        for piece in items:
            shard = by_path[piece.path]
            found = reader.columns(shard, piece.start, piece.stop)
            whole = None if found is None else _columns(found, decoders, together)
            if whole is not None:
                places += [(piece, number) for number in range(piece.start, piece.stop)]
                for column, values in whole.items():
                    columns[column].append(values)
                continue
            own: dict[str, list[Any]] = {name: [] for name in types}
            rows = reader.rows(by_path[piece.path], piece.start, piece.stop)
            for number, parts in enumerate(rows, start=piece.start):
                row = parts if isinstance(parts, str) else _row(decoders, parts)
                if not isinstance(row, str):
                    places.append((piece, number))
                    for column, value in row.items():
                        own[column].append(value)
                    continue
                name = _name(piece, number)
                if is_strict:
                    place = public_url(piece.path)
                    raise InvalidInputError(f"{name}: {row}", src=place, item=name)
                refused.append((SkippedItem(name, row), {}))
            for column, values in own.items():
                columns[column].append(values)
        joined = {name: _joined(parts) for name, parts in columns.items()}
        return LoadedRows(joined, refused, lambda row: _name(*places[row]))

    return ingest_pieces(
        kind,
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=given_settings(schema, key=key),
        key=key,
        names_classes=False,
        src=src,
    )


def _first_row(
    shards: Sequence[Shard], reader: RowReader, *, is_strict: bool
) -> Sequence[Any] | None:
    """Return the fields of the first row, or of the first that can be read; None without any."""
    for shard in shards:
        try:
            row = next(reader.rows(shard, 0, 1))
        except InvalidInputError:
            if is_strict:
                raise
            continue
        if not isinstance(row, str):
            return row
        if is_strict:
            return None  # its rows are refused by number when they are read
    return None


def _pieces(shard: Shard) -> Iterator[Piece]:
    step = max(1, shard.rows)
    if shard.codec is None:
        step = max(1, shard.rows * PIECE_NBYTES // max(1, shard.nbytes))
    for start in range(0, shard.rows, step):
        stop = min(start + step, shard.rows)
        yield Piece(shard.path, start, stop, shard.nbytes * (stop - start) // shard.rows)


def _name(piece: Piece, number: int) -> str:
    return f"row {number} of {PurePath(piece.path).name}"


def _columns(
    found: Sequence[FieldParts | Any],
    decoders: Sequence[tuple[str, Decoder]],
    together: Sequence[Callable[[FieldParts], Any] | None],
) -> dict[str, Any] | None:
    """Return the values of rows by field; None where one cannot be read."""
    made: dict[str, Any] = {}
    try:
        for parts, (name, decode), read in zip(found, decoders, together, strict=True):
            if not isinstance(parts, FieldParts):  # values of Arrow
                made[name] = parts
                continue
            values = None if read is None else read(parts)
            made[name] = [decode(one) for one in parts.each()] if values is None else values
    except (ValueError, RecursionError, OverflowError):
        return None  # read again row by row, which names the one
    return made


def _joined(parts: Sequence[Any]) -> Any:
    """Return the values of pieces as those of one."""
    if len(parts) == 1:
        return parts[0]
    shapes = {one.shape[1:] if isinstance(one, np.ndarray) else None for one in parts}
    if len(shapes) == 1 and None not in shapes:
        return np.concatenate(parts)
    return [one for part in parts for one in part]


def _row(decoders: Sequence[tuple[str, Decoder]], parts: Sequence[Any]) -> dict[str, Any] | str:
    """Return the values of a row, or why there are none."""
    row: dict[str, Any] = {}
    for (name, decode), part in zip(decoders, parts, strict=True):
        try:
            row[name] = decode(part) if isinstance(part, bytes) else part
        except (ValueError, RecursionError, OverflowError) as error:
            return f"{name!r}: {error}"
    return row


def _decoder(name: str, kind: SampleType, decode: Decoder) -> Decoder:
    """Return the decoder of a field whose bytes and 0 and 1 are what the type makes of them."""
    elements = kind.dtype
    if elements is not None and elements == np.bool_ and not kind.is_media:

        def booleans_of(content: bytes) -> Any:
            value = decode(content)
            if isinstance(value, bytes):
                value = array_of(value, elements, None)
            plain = booleans(name, np.atleast_1d(np.asarray(value)))
            return plain.reshape(np.shape(value))

        return booleans_of
    is_ours = type(kind).__module__.startswith("tensorlake.")
    if isinstance(kind, Bytes) or (kind.is_media and is_ours):
        return decode  # they take bytes as they are
    of_bytes = _elements if elements is not None and not kind.is_media else value_of

    def decoded(content: bytes) -> Any:
        value = decode(content)
        return of_bytes(kind, value) if isinstance(value, bytes) else value

    return decoded


def _elements(kind: SampleType, content: bytes) -> np.ndarray:
    """Return the array whose memory the bytes are; one length may be unknown."""
    assert kind.dtype is not None
    shape = kind.shape
    if shape.count(None) == 1:
        known = math.prod(one for one in shape if one is not None) * kind.dtype.itemsize
        shape = tuple(len(content) // max(1, known) if one is None else one for one in shape)
    if None in shape:
        raise ValueError(f"{len(content):,} bytes may have any of the shapes of {kind.describe()}")
    return array_of(content, kind.dtype, [one or 0 for one in shape])


def image_list(item: str, start: int) -> tuple[SampleType, Decoder]:
    """Return type and decoder of lists of images: a number u32 after ``start`` bytes, sizes."""

    def decode(content: bytes) -> list[Any]:
        if len(content) < start + 4:
            raise ValueError("a list of images is cut off")
        count = int(np.frombuffer(content, "<u4", 1, start)[0])
        begin = start + 4 * (1 + count)
        if begin > len(content):
            raise ValueError("a list of images is cut off")
        sizes: Sequence[int] = np.frombuffer(content, "<u4", count, start + 4).tolist()
        if begin + sum(sizes) != len(content):
            raise ValueError("a list of images has other sizes than its images")
        made: list[Any] = []
        for size in sizes:
            image = content[begin : begin + size]
            made.append(pil_pixels(image)[1] if item == "pil" else image)
            begin += size
        return made

    return SequenceType(Image("png" if item == "pil" else cast("Any", item))), decode
