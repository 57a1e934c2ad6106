"""The header of a chunk: everything of its samples that is not their bytes.

A stored chunk (uniform, ragged, encoded) is a header and a payload. Numbers are little-endian.

    offset size
      0     4   magic "TLC1"
      4     1   kind: 1 uniform, 2 ragged, 3 encoded
      5     1   flags: 1 validity · 2 unit checksums · 4 shapes · 8 payload stored uncompressed
                although the layout compresses (it was too large for the codec) · 16 parts, of raw
                encoded chunks; a chunk with any other flag is of a newer version
      6     2   ndim u16: number of shape columns (0 without flag 4)
      8     4   rows u32
     12     4   header_nbytes u32, a multiple of 64: where the payload starts
     16     8   payload_nbytes u64; the chunk is header_nbytes + payload_nbytes long
     24     8   decoded_nbytes u64: what the payload decodes to
     32     4   units u32: number of unit checksums (0 without flag 2), with flag 16 of parts
     36    12   zero
     48     8   xxh3-64 of the payload
     56     8   xxh3-64 of the header without these eight bytes
     64         sections, in this order, without gaps:
                validity    flag 1: ceil(rows / 8) bytes; row i is valid (not NULL) when bit i mod 8
                            of byte i div 8 is set, the lowest bit being 0
                lengths     kind encoded: column of each sample's length in bytes
                shapes      flag 4: ndim columns, each of one axis of every sample's shape
                parts       flag 16: column of each sample's number of parts, column of `units`
                            items of each part's length, column of the length of each sample's
                            head, the heads end to end
                checksums   flag 2: u32 a unit, the low 32 bits of its xxh3-64
                zeros up to header_nbytes

A column of `rows` integers:

      0     8   base i64
      8     1   width: 0, 1, 2, 4 or 8
      9     1   coding: 0 as they are, 1 one Zstandard frame that states its content size
     10     2   zero
     12     4   n u32: bytes that follow
     16     n   item − base as unsigned integers of `width` bytes; nothing when all equal base

The header's own checksum is verified whenever it is read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.format.chunk.codec import decode, encode
from tensorlake.format.chunk.parts import PartTable
from tensorlake.format.spec.integrity import damaged
from tensorlake.types import Buffer, offsets_of

__all__ = [
    "MAX_CHUNK_ROWS",
    "ChunkHeader",
    "ChunkKind",
    "header_rows",
    "read_header",
    "write_header",
]

# A chunk of one-byte samples at the largest pack size; bounds the sizes in a damaged header.
MAX_CHUNK_ROWS = 1 << 26

_MAGIC = b"TLC1"
_FIXED = struct.Struct("<4sBBHIIQQI12xQQ")
_FIXED_NBYTES = 64
_CHECKSUM_START = 56
_ALIGNMENT = 64
_VALIDITY, _UNITS, _SHAPES, _STORED, _PARTS = 1, 2, 4, 8, 16
_FLAGS = _VALIDITY | _UNITS | _SHAPES | _STORED | _PARTS
_COLUMN = struct.Struct("<qBBHI")
_AS_IS, _ZSTD = 0, 1
_COMPRESS_FROM_NBYTES = 64
_WIDTHS = (0, 1, 2, 4, 8)
_COLUMN_CODECS: tuple[dict[str, Any], ...] = (
    {"name": "bytes"},
    {"name": "zstd", "configuration": {"level": 3}},
)


class ChunkKind(IntEnum):
    """The kind of an extent; the numbers are the format's."""

    UNIFORM = 1
    RAGGED = 2
    ENCODED = 3
    TILED = 4
    FILL = 5
    HOLE = 6
    EXTERNAL = 7


STORED_KINDS = frozenset((ChunkKind.UNIFORM, ChunkKind.RAGGED, ChunkKind.ENCODED))


@dataclass(frozen=True, slots=True, eq=False)
class ChunkHeader:
    """A header, read or to be written.

    Attributes:
        lengths: Byte length of each sample of an encoded chunk.
        shapes: Shape of each sample, int64 (rows, ndim).
        unit_checksums: u32 of each unit.
        is_stored: Whether the payload is uncompressed regardless of the layout.
        parts: The parts of its samples, in place of units.
    """

    kind: ChunkKind
    rows: int
    payload_nbytes: int
    decoded_nbytes: int
    payload_checksum: int
    valid: np.ndarray | None = None
    lengths: np.ndarray | None = None
    shapes: np.ndarray | None = None
    unit_checksums: np.ndarray | None = None
    is_stored: bool = False
    parts: PartTable | None = None


def write_header(header: ChunkHeader) -> bytes:
    """Write a header, padded so that the payload is aligned."""
    flags = _STORED if header.is_stored else 0
    sections: list[bytes] = []
    if header.valid is not None:
        flags |= _VALIDITY
        sections.append(np.packbits(header.valid, bitorder="little").tobytes())
    if header.lengths is not None:
        sections.append(_write_column(header.lengths))
    ndim = 0
    if header.shapes is not None:
        flags |= _SHAPES
        ndim = header.shapes.shape[1]
        sections.extend(_write_column(header.shapes[:, axis]) for axis in range(ndim))
    checksums = header.unit_checksums
    if header.parts is not None:
        flags |= _PARTS
        checksums = header.parts.checksums
        sections.extend(_write_parts(header.parts))
    units = 0
    if checksums is not None:
        flags |= _UNITS
        units = len(checksums)
        sections.append(checksums.astype("<u4").tobytes())
    body = b"".join(sections)
    body += bytes(-len(body) % _ALIGNMENT)
    fixed = _FIXED.pack(
        _MAGIC,
        header.kind,
        flags,
        ndim,
        header.rows,
        _FIXED_NBYTES + len(body),
        header.payload_nbytes,
        header.decoded_nbytes,
        units,
        header.payload_checksum,
        0,
    )[:_CHECKSUM_START]
    return fixed + struct.pack("<Q", xxhash.xxh3_64_intdigest(fixed + body)) + body


def read_header(data: Buffer, *, header_nbytes: int, rows: int, where: str) -> ChunkHeader:
    """Read and verify the header at the start of `data`.

    Args:
        data: At least the whole header.
        header_nbytes: Its length, as the index has it.
        rows: The chunk's rows, as the index has it.
        where: The object's name, for errors.

    Raises:
        CorruptionError: It is damaged, or not the header that the index refers to.
        UnsupportedFeatureError: It is of a newer version.
    """
    header = memoryview(data)[:header_nbytes]
    if len(header) < header_nbytes or header_nbytes < _FIXED_NBYTES:
        raise damaged(where, f"{len(header):,} bytes of a header of {header_nbytes:,}")
    magic, kind, flags, ndim, own_rows, own_nbytes, payload, decoded, units, digest, checksum = (
        _FIXED.unpack(header[:_FIXED_NBYTES])
    )
    hasher = xxhash.xxh3_64(header[:_CHECKSUM_START])
    hasher.update(header[_FIXED_NBYTES:])
    if magic != _MAGIC or hasher.intdigest() != checksum:
        raise damaged(where, "the checksum of its header is wrong")
    if (own_rows, own_nbytes) != (rows, header_nbytes) or kind not in STORED_KINDS:
        found = f"a header of {own_rows:,} rows and {own_nbytes:,} bytes"
        raise damaged(where, f"{found}, where {rows:,} and {header_nbytes:,} should be")
    if rows > MAX_CHUNK_ROWS:
        raise damaged(where, f"{rows:,} rows in one chunk")
    if flags & ~_FLAGS:
        raise UnsupportedFeatureError(
            f"{where} has the flags {flags & ~_FLAGS:#x}, which this tensorlake does not know"
            "\ninstall a newer tensorlake",
            object=where,
            actual=flags & ~_FLAGS,
        )
    try:
        return _read_sections(
            header, ChunkKind(kind), flags, ndim, rows, payload, decoded, units, digest
        )
    except (ValueError, struct.error) as error:
        raise damaged(where, f"its header is not well-formed ({error})") from error


def header_rows(data: Buffer) -> int:
    """Return the number of rows in a chunk's header; `read_header` verifies it.

    An index entry may be a window of a chunk, so only the chunk records its number of rows.
    """
    return int.from_bytes(memoryview(data)[8:12], "little")


def _read_sections(
    header: memoryview,
    kind: ChunkKind,
    flags: int,
    ndim: int,
    rows: int,
    payload_nbytes: int,
    decoded_nbytes: int,
    units: int,
    payload_checksum: int,
) -> ChunkHeader:
    position = _FIXED_NBYTES
    valid: np.ndarray | None = None
    if flags & _VALIDITY:
        nbytes = (rows + 7) // 8
        bits = np.frombuffer(_part(header, position, nbytes), dtype=np.uint8)
        valid = np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)
        position += nbytes
    lengths: np.ndarray | None = None
    if kind is ChunkKind.ENCODED:
        lengths, position = _read_column(header, position, rows)
    shapes: np.ndarray | None = None
    if flags & _SHAPES:
        columns: list[np.ndarray] = []
        for _ in range(ndim):
            column, position = _read_column(header, position, rows)
            columns.append(column)
        shapes = np.stack(columns, axis=1) if columns else np.zeros((rows, 0), dtype=np.int64)
    if units > len(header) // 4:
        raise ValueError(f"{units:,} units")
    table = None
    if flags & _PARTS:
        table, position = _read_parts(header, position, rows, units)
    checksums: np.ndarray | None = None
    if flags & _UNITS:
        checksums = np.frombuffer(_part(header, position, 4 * units), dtype="<u4")
    if table is not None:
        if lengths is None or checksums is None:
            raise ValueError("parts of samples without lengths or checksums")
        table.check(lengths)
        table, checksums = replace(table, checksums=checksums), None
    return ChunkHeader(
        kind,
        rows,
        payload_nbytes,
        decoded_nbytes,
        payload_checksum,
        valid,
        lengths,
        shapes,
        checksums,
        bool(flags & _STORED),
        table,
    )


def _write_parts(table: PartTable) -> list[bytes]:
    nbytes = np.fromiter(map(len, table.heads), np.int64, len(table.heads))
    columns = [_write_column(one) for one in (table.counts, table.lengths, nbytes)]
    return [*columns, *table.heads]


def _read_parts(header: memoryview, position: int, rows: int, parts: int) -> tuple[PartTable, int]:
    """Read the parts without their checksums, which follow."""
    counts, position = _read_column(header, position, rows)
    lengths, position = _read_column(header, position, parts)
    nbytes, position = _read_column(header, position, rows)
    if rows and not 0 <= int(nbytes.min()) <= int(nbytes.max()) <= len(header):
        raise ValueError("the head of a sample ends outside")
    ends = (offsets_of(nbytes) + position).tolist()
    heads = [bytes(_part(header, start, stop - start)) for start, stop in pairwise(ends)]
    return PartTable(counts, lengths, np.zeros(0, np.uint32), heads), ends[-1]


def _part(header: memoryview, start: int, nbytes: int) -> memoryview:
    part = header[start : start + nbytes]
    if len(part) != nbytes:
        raise ValueError("a section ends outside")
    return part


def _write_column(items: np.ndarray) -> bytes:
    base = int(items.min()) if len(items) else 0
    spread = int(items.max()) - base if len(items) else 0
    width = next(width for width in _WIDTHS if spread < 1 << 8 * width)
    if not width:
        return _COLUMN.pack(base, 0, _AS_IS, 0, 0)
    data = (items - base).astype(f"<u{width}")
    plain, coding = bytes(encode(data, _COLUMN_CODECS[:1])), _AS_IS
    if len(plain) >= _COMPRESS_FROM_NBYTES:
        smaller = bytes(encode(data.view(np.uint8), _COLUMN_CODECS))
        if len(smaller) < len(plain):
            plain, coding = smaller, _ZSTD
    return _COLUMN.pack(base, width, coding, 0, len(plain)) + plain


def _read_column(header: memoryview, start: int, rows: int) -> tuple[np.ndarray, int]:
    base, width, coding, _, nbytes = _COLUMN.unpack(_part(header, start, _COLUMN.size))
    start += _COLUMN.size
    data = _part(header, start, nbytes)
    if width not in _WIDTHS or coding not in (_AS_IS, _ZSTD):
        raise ValueError(f"a column of width {width} and coding {coding}")
    codecs = _COLUMN_CODECS if coding == _ZSTD else _COLUMN_CODECS[:1]
    if not width:
        return np.full(rows, base, dtype=np.int64), start + nbytes
    raw = decode(data, codecs, np.dtype(np.uint8), (rows * width,))
    return raw.view(f"<u{width}").astype(np.int64) + base, start + nbytes
