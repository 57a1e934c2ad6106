"""Batches as Arrow record batches, as sent by a decoding server and read by a client.

    form      entry of the batch                           Arrow column
    tensor    one array of rows of one shape               numbers, or a fixed-shape tensor
    samples   a list of arrays of any shape, None: NULL    struct(values: large_list, shape: list)
    stored    text, JSON, bytes …, as stored               large_binary
    values    computed values that are not arrays          large_binary: MessagePack

Dtypes that Arrow lacks (bool as bytes, complex numbers) are sent as bytes along the last axis.
Samples of different shapes are collated by the client, so that every form of batch has one schema.
Each record batch carries ``state``, the loader's state after it, and, if ``on_error="skip"`` left
out rows, ``skipped``: their number and the reasons. A batch that reports an error carries ``error``
instead and has no rows. One with ``slab`` has none either: it stands for a batch that comes in
memory of this host.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import StorageError, missing_extra
from tensorlake.loader.config.column_plan import VALID

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan

__all__ = [
    "BatchBytes",
    "BatchMemory",
    "StreamError",
    "WireColumn",
    "arrow_schema",
    "read_batches",
    "wire_columns",
    "write_batch",
    "write_error",
    "write_reference",
    "write_schema",
]

STATE, SKIPPED, ERROR, SLAB = b"state", b"skipped", b"error", b"slab"
END_NBYTES = 8  # of Arrow's end-of-stream marker
BYTE = np.dtype(np.uint8)
NUMBERS = "iuf"  # kinds of dtypes that Arrow represents as NumPy does
Arrow: TypeAlias = Any  # pyarrow ships no types


class BatchBytes(Protocol):
    """The bytes of a stream: a file that is read once."""

    closed: bool

    def read(self, nbytes: int = -1) -> bytes:
        """Wait for ``nbytes`` bytes; fewer at the end."""
        ...


class BatchMemory(Protocol):
    """Batches that come beside the bytes of their stream."""

    def next(self) -> NDArray[np.uint8]:
        """Return the next one behind a schema, in memory that may be written."""
        ...


class StreamError(Exception):
    """The server reported an error in its stream."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class WireColumn:
    """The sent form of one entry of a batch.

    Attributes:
        name: Name of the entry.
        form: See above.
        dtype: Dtype of arrays.
        shape: Shape of a row of a tensor.
    """

    name: str
    form: Literal["tensor", "samples", "stored", "values"]
    dtype: np.dtype = BYTE
    shape: tuple[int, ...] = ()


def wire_columns(columns: Sequence[ColumnPlan], *, with_valid: bool) -> tuple[WireColumn, ...]:
    """Return the sent form of each column of a loader's batches."""
    found = [_wire_column(column) for column in columns]
    if with_valid:
        found.append(WireColumn(VALID, "tensor", np.dtype(np.bool_)))
    return tuple(found)


def arrow_schema(columns: Sequence[WireColumn]) -> Arrow:
    """Return the schema of a stream."""
    pa = _arrow()
    return pa.schema([(column.name, _arrow_type(column)) for column in columns])


def write_schema(columns: Sequence[WireColumn]) -> bytes:
    """Write the beginning of a stream."""
    return arrow_schema(columns).serialize().to_pybytes()


def write_batch(
    columns: Sequence[WireColumn],
    batch: Mapping[str, Any],
    state: Mapping[str, Any],
    skipped: Mapping[str, Any] | None = None,
) -> bytes:
    """Write one batch, the loader's state after it, and what it lacks: ``rows``, ``reasons``."""
    arrays = [_to_arrow(column, batch[column.name]) for column in columns]
    metadata = {STATE: json.dumps(state).encode()}
    if skipped is not None:
        metadata[SKIPPED] = json.dumps(skipped).encode()
    return _message(columns, arrays, metadata)


def write_error(columns: Sequence[WireColumn], problem: Mapping[str, Any]) -> bytes:
    """Write an error, the last message of a stream."""
    return _message(columns, _no_rows(columns), {ERROR: json.dumps(problem).encode()})


def write_reference(columns: Sequence[WireColumn]) -> bytes:
    """Write what stands for a batch that comes in memory of this host."""
    return _message(columns, _no_rows(columns), {SLAB: b""})


def read_batches(
    stream: BatchBytes, columns: Sequence[WireColumn], slabs: BatchMemory | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]]:
    """Read batches, each with the state after it and what it lacks (None: nothing).

    The stream may end between any two batches.

    Raises:
        StreamError: The server could not continue.
        StorageError: It sends other columns than requested.
        OSError: The stream ends within a batch.
    """
    pa = _arrow()
    with _cut_is_oserror():
        reader = pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))
    expected = arrow_schema(columns)
    if reader.schema != expected:
        raise StorageError(
            f"the server streams other columns than requested: {reader.schema}, not"
            f" {expected}\nuse the same version of tensorlake on both sides"
        )
    while True:
        try:
            with _cut_is_oserror():
                read = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        metadata = dict(read.custom_metadata or {})
        memory = None
        if SLAB in metadata and slabs is not None:
            memory = slabs.next()
            read = pa.ipc.open_stream(pa.py_buffer(memory)).read_next_batch_with_custom_metadata()
            metadata = dict(read.custom_metadata)
        if ERROR in metadata:
            raise StreamError(json.loads(metadata[ERROR]))
        batch = {
            column.name: _from_arrow(column, read.batch.column(number), memory)
            for number, column in enumerate(columns)
        }
        skipped = json.loads(metadata[SKIPPED]) if SKIPPED in metadata else None
        yield batch, json.loads(metadata[STATE]), skipped


@contextmanager
def _cut_is_oserror() -> Generator[None]:
    """Raise OSError for any truncation: Arrow does for a body, but ArrowInvalid elsewhere."""
    try:
        yield
    except _arrow().ArrowInvalid as error:
        raise OSError(str(error)) from error


def _wire_column(column: ColumnPlan) -> WireColumn:
    if column.kind == "encoded":
        return WireColumn(column.name, "stored")
    if column.dtype is None:
        return WireColumn(column.name, "values")
    if column.collate is not None:
        return WireColumn(column.name, "samples", column.dtype)
    shape = tuple(length or 0 for length in column.shape)
    return WireColumn(column.name, "tensor", column.dtype, shape)


def _message(
    columns: Sequence[WireColumn], arrays: list[Arrow], metadata: dict[bytes, bytes]
) -> bytes:
    """Write one record batch, without the stream's schema and end marker."""
    pa = _arrow()
    sink = pa.BufferOutputStream()
    schema = arrow_schema(columns)
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(
            pa.RecordBatch.from_arrays(arrays, schema=schema), custom_metadata=metadata
        )
    return memoryview(sink.getvalue())[schema.serialize().size : -END_NBYTES].tobytes()


def _no_rows(columns: Sequence[WireColumn]) -> list[Arrow]:
    return [_arrow().array([], one.type) for one in arrow_schema(columns)]


def _arrow_type(column: WireColumn) -> Arrow:
    pa = _arrow()
    match column.form:
        case "stored" | "values":
            return pa.large_binary()
        case "samples":
            inner = pa.from_numpy_dtype(_sent_dtype(column.dtype))
            return pa.struct([("values", pa.large_list(inner)), ("shape", pa.list_(pa.int64()))])
        case "tensor":
            inner = pa.from_numpy_dtype(_sent_dtype(column.dtype))
            shape = _sent_shape(column)
            if 0 in shape:
                return pa.null()
            return pa.fixed_shape_tensor(inner, shape) if shape else inner


def _sent_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if _is_arrows(dtype) else BYTE


def _is_arrows(dtype: np.dtype) -> bool:
    """Return whether Arrow supports it; bfloat16 and similar dtypes are not NumPy's own either."""
    return dtype.kind in NUMBERS and dtype.isbuiltin == 1


def _sent_shape(column: WireColumn) -> tuple[int, ...]:
    itemsize = column.dtype.itemsize
    has_bytes = not _is_arrows(column.dtype) and itemsize > 1
    return (*column.shape, itemsize) if has_bytes else column.shape


def _to_arrow(column: WireColumn, entry: Any) -> Arrow:
    pa = _arrow()
    kind = _arrow_type(column)
    match column.form:
        case "stored":
            return pa.array(entry, kind)
        case "values":
            return pa.array([msgspec.msgpack.encode(_plain(one)) for one in entry], kind)
        case "samples":
            return _samples_to_arrow(column, entry, kind)
        case "tensor":
            shape = _sent_shape(column)
            values = np.ascontiguousarray(entry).view(_sent_dtype(column.dtype))
            if 0 in shape:
                return pa.nulls(len(entry))
            if not shape:
                return pa.array(values.reshape(len(entry)), kind)
            flat = pa.array(values.reshape(-1), kind.value_type)
            lists = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(shape)))
            return pa.ExtensionArray.from_storage(kind, lists)


def _samples_to_arrow(column: WireColumn, samples: Sequence[Any], kind: Arrow) -> Arrow:
    pa = _arrow()
    arrays = [None if one is None else np.asarray(one, column.dtype) for one in samples]
    parts = [np.ascontiguousarray(one).reshape(-1) for one in arrays if one is not None]
    flat = np.concatenate([np.empty(0, column.dtype), *parts]).view(_sent_dtype(column.dtype))
    scale = column.dtype.itemsize // flat.dtype.itemsize
    sizes = [0 if one is None else one.size * scale for one in arrays]
    dimensions = [() if one is None else one.shape for one in arrays]
    lists = pa.LargeListArray.from_arrays(_offsets(sizes), pa.array(flat))
    lengths = np.array([length for shape in dimensions for length in shape], dtype=np.int64)
    offsets = _offsets([len(shape) for shape in dimensions]).astype(np.int32)
    shapes = pa.ListArray.from_arrays(offsets, pa.array(lengths))
    null = pa.array([one is None for one in arrays], pa.bool_())
    return pa.StructArray.from_arrays([lists, shapes], ["values", "shape"], mask=null).cast(kind)


def _from_arrow(column: WireColumn, array: Arrow, memory: NDArray[np.uint8] | None = None) -> Any:
    """Return an entry of a batch; its arrays are part of ``memory`` if that is given."""
    match column.form:
        case "stored":
            return array.to_pylist()
        case "values":
            return [msgspec.msgpack.decode(one) for one in array.to_pylist()]
        case "samples":
            return _samples_from_arrow(column, array, memory)
        case "tensor":
            shape = _sent_shape(column)
            if 0 in shape:
                return np.empty((len(array), *column.shape), column.dtype)
            values = array if not shape else array.storage.flatten()
            flat = _numbers(values, memory)
            return flat.view(column.dtype).reshape(len(array), *column.shape)


def _numbers(values: Arrow, memory: NDArray[np.uint8] | None) -> NDArray[Any]:
    """Return numbers that may be written: torch refuses others."""
    found = values.to_numpy(zero_copy_only=True)
    if memory is None:
        return found.copy()
    start = found.ctypes.data - memory.ctypes.data
    return memory[start : start + found.nbytes].view(found.dtype)


def _samples_from_arrow(
    column: WireColumn, array: Arrow, memory: NDArray[np.uint8] | None
) -> list[Any]:
    valid = array.is_valid().to_numpy(zero_copy_only=False).tolist()
    lists, shapes = array.field("values"), array.field("shape")
    values = _numbers(lists.values, memory).view(column.dtype)
    scale = column.dtype.itemsize // _sent_dtype(column.dtype).itemsize
    offsets = (lists.offsets.to_numpy() // scale).tolist()
    lengths, borders = shapes.values.to_numpy().tolist(), shapes.offsets.to_numpy().tolist()
    samples: list[Any] = []
    for at, known in enumerate(valid):
        shape = lengths[borders[at] : borders[at + 1]]
        own = values[offsets[at] : offsets[at + 1]]
        samples.append(None if not known else own.reshape(shape) if shape else own[0])
    return samples


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _arrow() -> Arrow:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing_extra("decode_on='server'", "arrow") from error
    return pa
