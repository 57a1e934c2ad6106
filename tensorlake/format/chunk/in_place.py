"""Decode chunks of one shape directly into their destination.

    result    [rows of c0 ......][rows of c1 ......][rows of c2 ......]     one array
    raw       header aside, payload read from the file into its rows       `check_in_place`
    else      payload decompressed into its rows                           `decode_chunk_into`

No intermediate buffer is as large as a chunk. Both functions get bytes whose checksum was verified,
and still trust no size in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.format.chunk.codec import decode_into
from tensorlake.format.chunk.header import ChunkHeader, ChunkKind, read_header
from tensorlake.format.spec.integrity import damaged

if TYPE_CHECKING:
    import numpy as np

    from tensorlake.format.chunk.layout import ChunkLayout
    from tensorlake.types import Buffer

__all__ = ["check_in_place", "decode_chunk_into"]


def decode_chunk_into(
    values: np.ndarray, blob: Buffer, *, header_nbytes: int, layout: ChunkLayout, where: str
) -> np.ndarray | None:
    """Decode all rows of a uniform chunk into an existing array.

    Args:
        values: The destination: C-contiguous, little-endian, as many rows as the chunk has.
        blob: The chunk's bytes, verified.
        header_nbytes: Length of its header, as the index has it.
        layout: How it was encoded.
        where: The object's name, for errors.

    Returns:
        A mask of rows that are not NULL; None if none is NULL.

    Raises:
        CorruptionError: The blob differs from the encoded one, or in its number of rows.
    """
    view = memoryview(blob)
    header = _header_of(values, view, header_nbytes=header_nbytes, where=where)
    payload = view[header_nbytes:]
    if payload.nbytes != header.payload_nbytes:
        found = f"{payload.nbytes:,} bytes of samples instead of {header.payload_nbytes:,}"
        raise damaged(where, found)
    codecs = layout.codecs[:1] if header.is_stored else layout.codecs
    try:
        decode_into(payload, codecs, values)
    except ValueError as error:
        raise damaged(where, str(error)) from error
    return header.valid


def check_in_place(
    values: np.ndarray, header_bytes: Buffer, *, header_nbytes: int, where: str
) -> np.ndarray | None:
    """Check the header of a raw uniform chunk whose payload was read into an array.

    Returns:
        A mask of rows that are not NULL; None if none is NULL.

    Raises:
        CorruptionError: The header is damaged, or does not match the array.
    """
    header = _header_of(values, header_bytes, header_nbytes=header_nbytes, where=where)
    if header.payload_nbytes != values.nbytes:
        found = f"{values.nbytes:,} bytes of samples instead of {header.payload_nbytes:,}"
        raise damaged(where, found)
    return header.valid


def _header_of(
    values: np.ndarray, header_bytes: Buffer, *, header_nbytes: int, where: str
) -> ChunkHeader:
    header = read_header(header_bytes, header_nbytes=header_nbytes, rows=len(values), where=where)
    if header.kind is not ChunkKind.UNIFORM:
        raise damaged(where, f"it is {header.kind.name.lower()}, not uniform")
    if header.decoded_nbytes != values.nbytes:
        found = f"{header.decoded_nbytes:,} bytes are not {values.shape} of {values.dtype}"
        raise damaged(where, found)
    return header
