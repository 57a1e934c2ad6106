"""Rows that leave a dataset, for exports and for other datasets: pieces of bounded size.

tensor          sample that leaves                              its size, to cut pieces
Link            the linked file, verified                       the file's
in tiles        the array; an image as a PNG file               the array's
media, others   as stored                                       its share of the chunk's
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tensorlake.reading.fetch.links import file_column, opened_links
from tensorlake.reading.reader import Reader
from tensorlake.reading.snapshot import Selection
from tensorlake.types import (
    Array,
    Column,
    EncodedColumn,
    Link,
    SampleType,
    read_record,
    untiled,
    untiled_column,
    widened_dtype,
)

__all__ = ["column_nbytes", "exported_type", "read_exported", "read_links", "row_spans"]

Int64Array = npt.NDArray[np.int64]

WINDOW_ROWS = 1024
"""Rows whose sizes are looked up before a piece is cut; more where pieces turn out longer."""


def exported_type(kind: SampleType) -> SampleType:
    """Return the type of samples that leave: that of the files, where they are links."""
    return kind.file_type if isinstance(kind, Link) else kind


def read_exported(reader: Reader, tensor: str, physical: Int64Array) -> Column:
    """Read samples of physical rows as they leave; see the table above.

    Raises:
        CorruptSampleError: A linked file is gone, or has changed.
        CorruptionError: Stored bytes are damaged.
    """
    kind = reader.snapshot.spec(tensor).type
    if isinstance(kind, Link) and len(physical):
        samples = reader.samples(tensor, physical)
        return file_column(reader.snapshot.packs.links, samples, kind.shape)
    column = reader.read(tensor, physical, decode=isinstance(untiled(kind), Array))
    return untiled_column(kind, column, tensor=tensor)


def read_links(reader: Reader, tensor: str, physical: Int64Array) -> Column:
    """Read the records of links, with the files that they name, which are not read."""
    column = reader.read(tensor, physical, decode=False)
    rows = reader.snapshot.rows_of(physical)
    return opened_links(reader.snapshot.packs.links, column, tensor, rows)


def row_spans(
    reader: Reader, selection: Selection, tensors: Sequence[str], *, rows_max: int, nbytes: int
) -> Iterator[tuple[int, int]]:
    """Cut the rows of a selection into pieces of about `nbytes` of some tensors.

    Args:
        reader: Reads the selection's snapshot.
        selection: The rows.
        tensors: The tensors that count.
        rows_max: Most rows of a piece.
        nbytes: Bytes of a piece; one row may have more.

    Yields:
        Positions [start, stop) of the selection, in order.
    """
    start, window = 0, WINDOW_ROWS
    while start < selection.num_rows:
        end = min(selection.num_rows, start + window, start + rows_max)
        sizes = np.zeros(end - start, np.int64)
        physical = selection.physical(np.arange(start, end)) if tensors else sizes
        for tensor in tensors:
            sizes += _nbytes_of_rows(reader, tensor, physical)
        fitting = int(np.searchsorted(np.cumsum(sizes), nbytes, side="right"))
        stop = start + max(1, min(fitting, len(sizes)))
        yield start, stop
        window = max(WINDOW_ROWS, 2 * (stop - start))
        start = stop


def column_nbytes(reader: Reader, tensor: str, physical: Int64Array) -> int:
    """Return the bytes of memory that rows of a tensor take as they leave, nearly."""
    kind = reader.snapshot.spec(tensor).type
    plain = untiled(kind)
    if plain.layout == "uniform":
        return len(physical) * _fixed_nbytes(plain)
    if isinstance(kind, Link) or plain is not kind:
        return int(_nbytes_of_rows(reader, tensor, physical).sum())
    return reader.stored_nbytes(tensor, physical)


def _nbytes_of_rows(reader: Reader, tensor: str, physical: Int64Array) -> Int64Array:
    """Return the bytes of each row in memory; of encoded samples, their share of the chunk."""
    kind = reader.snapshot.spec(tensor).type
    plain = untiled(kind)
    if isinstance(kind, Link):
        return _nbytes_of_files(reader, tensor, physical)
    if plain.layout == "encoded" or plain.dtype is None:
        located = reader.locate(tensor, physical)
        nbytes = np.array([key.nbytes for key in located.chunks], np.int64)
        return (nbytes // np.maximum(1, located.rows))[located.chunk]
    if plain.layout == "uniform":
        return np.full(len(physical), _fixed_nbytes(plain))
    elements = np.maximum(reader.shapes(tensor, physical), 0).prod(axis=1, dtype=np.int64)
    return elements * widened_dtype(plain.dtype).itemsize


def _nbytes_of_files(reader: Reader, tensor: str, physical: Int64Array) -> Int64Array:
    column = reader.read(tensor, physical, decode=False)
    assert isinstance(column, EncodedColumn), "links are stored encoded"
    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    pairs = zip(column.samples, valid.tolist(), strict=True)
    return np.array([read_record(bytes(one)).nbytes if own else 0 for one, own in pairs], np.int64)


def _fixed_nbytes(kind: SampleType) -> int:
    assert kind.dtype is not None, "uniform samples have elements"
    return widened_dtype(kind.dtype).itemsize * math.prod(length or 0 for length in kind.shape)
