"""Decode many chunks whose headers are alike at once: those that commits of a row or two leave.

    a header of each   magic kind flags ndim rows nbytes │ sizes … │ validity │ lengths │ shapes
                       └──── the same in all (LIKE) ────┘ └─── an array of them, read at once ──┘

A tiny chunk takes much longer to decode than its bytes need. Here only its checksum, and its codec
if it has one, are run for each chunk. Any other chunk is left to `decode_chunk`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from xxhash import xxh3_64_intdigest

from tensorlake.format.chunk.chunk import decode_payload
from tensorlake.format.chunk.codec import decode
from tensorlake.format.chunk.header import read_header
from tensorlake.types import RaggedColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format.chunk.header import ChunkHeader
    from tensorlake.format.chunk.layout import ChunkLayout
    from tensorlake.types import Buffer, Column

__all__ = ["decode_alike", "likeness"]

_FLAGS, _STORED, _PARTS = 5, 8, 16
_LIKE = slice(0, 16)
_DECODED = slice(24, 32)
_SIZES_START = 16
_FIXED_NBYTES = 64
_SIZES = np.dtype([("payload", "<u8"), ("decoded", "<u8")])
_COLUMN = np.dtype([("base", "<i8"), ("width", "u1"), ("rest", "V7")])

MAX_NBYTES = 4096
"""Bytes of such a chunk, stored and decoded."""


def likeness(blob: Buffer) -> bytes | None:
    """Return what the headers of chunks have in common that are decoded together.

    Returns:
        Kind, flags, axes, rows and the header's length; None for a chunk that is large, or has
        parts of samples.
    """
    view = memoryview(blob)
    if (
        view[_FLAGS] & _PARTS
        or len(view) > MAX_NBYTES
        or int.from_bytes(view[_DECODED], "little") > MAX_NBYTES
    ):
        return None
    like = bytearray(view[_LIKE])
    like[_FLAGS] &= ~_STORED
    return bytes(like)


def decode_alike(
    blobs: Sequence[Buffer],
    *,
    header_nbytes: int,
    rows: int,
    layout: ChunkLayout,
    verify: Sequence[int],
    where: str,
) -> Column | None:
    """Decode chunks of the same `likeness`, one after another, into one column.

    Args:
        blobs: The bytes of each chunk.
        header_nbytes: Length of the header of each.
        rows: Number of samples of each.
        layout: How they were encoded.
        verify: xxh3-64 of each blob, as the index has it.
        where: The first one's name, for errors.

    Returns:
        The samples of all; None where one is damaged, or its sections have a more general form:
        then `decode_chunk` decodes each, or raises what is wrong with it.

    Raises:
        CorruptionError: The header of the first is damaged.
    """
    if [xxh3_64_intdigest(blob) for blob in blobs] != list(verify):
        return None
    views = [memoryview(blob) for blob in blobs]
    first = read_header(views[0], header_nbytes=header_nbytes, rows=rows, where=where)
    heads = np.frombuffer(b"".join([view[:header_nbytes] for view in views]), np.uint8)
    heads = heads.reshape(len(views), header_nbytes)
    sizes = _fields(heads, _SIZES_START, _SIZES)
    decoded = sizes["decoded"].astype(np.int64)
    payloads = [view[header_nbytes:] for view in views]
    if sizes["payload"].tolist() != [len(payload) for payload in payloads]:
        return None
    header = _joined_header(first, heads, int(decoded.sum()))
    if header is None:
        return None
    try:
        if not layout.is_raw:
            is_stored = (heads[:, _FLAGS] & _STORED).tolist()
            payloads = _decompressed(payloads, is_stored, decoded.tolist(), layout)
        plain = memoryview(b"".join(payloads))
        column = decode_payload([plain], header, layout, is_compressed=False)
    except ValueError:
        return None
    return column if _sizes_fit(column, header, decoded) else None


def _fields(heads: np.ndarray, start: int, dtype: np.dtype) -> np.ndarray:
    """View the same bytes of all headers as a record each."""
    return np.ascontiguousarray(heads[:, start : start + dtype.itemsize]).view(dtype)[:, 0]


def _joined_header(first: ChunkHeader, heads: np.ndarray, decoded: int) -> ChunkHeader | None:
    """Make the header of one chunk of all samples; None where samples of a chunk differ in size."""
    chunks, rows = len(heads), first.rows
    at = _FIXED_NBYTES
    valid = None
    if first.valid is not None:
        nbytes = (rows + 7) // 8
        bits = np.unpackbits(heads[:, at : at + nbytes], axis=1, count=rows, bitorder="little")
        valid = bits.reshape(-1).view(np.bool_)
        at += nbytes
    axes = 0 if first.shapes is None else first.shapes.shape[1]
    columns: list[np.ndarray] = []
    for _ in range((first.lengths is not None) + axes):
        fields = _fields(heads, at, _COLUMN)
        if fields["width"].any():
            return None
        columns.append(np.repeat(fields["base"].astype(np.int64), rows))
        at += _COLUMN.itemsize
    lengths = None if first.lengths is None else columns.pop(0)
    shapes = None
    if first.shapes is not None:
        shapes = np.stack(columns, axis=1) if columns else np.zeros((chunks * rows, 0), np.int64)
    return replace(
        first,
        rows=chunks * rows,
        payload_nbytes=decoded,
        decoded_nbytes=decoded,
        valid=valid,
        lengths=lengths,
        shapes=shapes,
        unit_checksums=None,
    )


def _decompressed(
    payloads: Sequence[Buffer],
    is_stored: Sequence[int],
    decoded: Sequence[int],
    layout: ChunkLayout,
) -> list[Buffer]:
    plain = np.dtype(np.uint8)
    return [
        data if is_plain else decode(data, layout.codecs, plain, (nbytes,)).data
        for data, is_plain, nbytes in zip(payloads, is_stored, decoded, strict=True)
    ]


def _sizes_fit(column: Column, header: ChunkHeader, decoded: np.ndarray) -> bool:
    """Whether the samples of each chunk, not only of all together, have the bytes it states."""
    if isinstance(column, RaggedColumn):
        sizes = column.lengths * column.values.dtype.itemsize
    elif header.lengths is not None:
        sizes = header.lengths
    else:
        sizes = np.full(len(column), decoded.sum() // max(1, len(column)))
    return bool((sizes.reshape(len(decoded), -1).sum(axis=1) == decoded).all())
