"""Pages of rows for programs: an Arrow stream, or NumPy's .npz.

    column                 Arrow                                   .npz
    numbers                numbers                                 <name>
    arrays of one shape    fixed-shape tensor                      <name>
    arrays of any shape    struct(values: list, shape: list)       <name>, <name>.shapes
    class labels           dictionary of names, or list of it      <name> (codes)
    text, JSON             string                                  <name>
    media, bytes           binary, as stored                       <name> (uint8), <name>.lengths

NULLs are Arrow's own; in .npz they are False in <name>.valid.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import ClassLabel, EncodedColumn, RaggedColumn, UniformColumn, offsets_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from tensorlake.types import Buffer, Column, SampleType
    from tensorlake_server.bodies.columns import TypedColumn

__all__ = ["ARROW_TYPE", "NPZ_TYPE", "write_arrow", "write_npz"]

ARROW_TYPE = "application/vnd.apache.arrow.stream"
NPZ_TYPE = "application/x-npz"
MAX_OFFSET = 2**31 - 1  # beyond it Arrow's lists are "large" ones

PyarrowArray: TypeAlias = Any  # pyarrow ships no types


def write_arrow(columns: Mapping[str, TypedColumn]) -> list[Buffer]:
    """Write a page as an Arrow IPC stream, in pieces: samples are sent from where they lie.

    Raises:
        UnsupportedFeatureError: A column holds what Arrow does not know.
    """
    import pyarrow as pa

    for name, read in columns.items():
        if read.type.dtype is not None and read.type.dtype.kind == "c":
            raise UnsupportedFeatureError(
                f"{name!r} holds {read.type.dtype} and Arrow has no complex numbers"
                f"\nask for {NPZ_TYPE}, or for other columns",
                tensor=name,
            )
    arrays = {name: _arrow_array(read.type, read.column) for name, read in columns.items()}
    batch = pa.record_batch(arrays)
    parts = _Parts()
    with pa.PythonFile(parts, "w") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return parts.written


def write_npz(columns: Mapping[str, TypedColumn]) -> list[Buffer]:
    """Write a page as .npz; nothing in it needs pickle."""
    arrays: dict[str, np.ndarray] = {}
    for name, read in columns.items():
        column = read.column
        match column:
            case UniformColumn():
                arrays[name] = column.values
            case RaggedColumn():
                arrays[name] = column.values
                arrays[f"{name}.shapes"] = column.shapes
            case EncodedColumn():
                arrays |= _encoded_arrays(name, read.type, column)
        if column.valid is not None:
            arrays[f"{name}.valid"] = column.valid
    out = io.BytesIO()
    write: Any = np.savez  # its stub takes no names that are not identifiers
    write(out, **arrays)
    # uncopied, and not getbuffer(): while a buffer is held, its stream cannot be collected
    return [out.getvalue()]


def _encoded_arrays(name: str, kind: SampleType, column: EncodedColumn) -> dict[str, np.ndarray]:
    if kind.query_kind in ("text", "json"):
        return {name: np.array([str(bytes(one), "utf-8") for one in column.samples], dtype=np.str_)}
    lengths = np.array([len(one) for one in column.samples], dtype=np.int64)
    return {
        name: np.frombuffer(b"".join(column.samples), dtype=np.uint8),
        f"{name}.lengths": lengths,
    }


class _Parts:
    """A file that keeps what is written to it: an array's memory is not copied."""

    closed = False  # asked by pyarrow

    def __init__(self) -> None:
        self.written: list[Buffer] = []

    def write(self, data: Any) -> int:
        """Keep bytes, or a buffer of Arrow's."""
        view = memoryview(data)
        self.written.append(view)
        return view.nbytes

    def flush(self) -> None:
        """Do nothing: all is written."""

    def close(self) -> None:
        """Do nothing: the bytes written stay."""


def _arrow_array(kind: SampleType, column: Column) -> PyarrowArray:
    import pyarrow as pa

    match column:
        case EncodedColumn():
            return _encoded_array(kind, column)
        case UniformColumn(values=values) if values.ndim == 1:
            mask = None if column.valid is None else ~column.valid
            return _named(kind, pa.array(np.ascontiguousarray(values), mask=mask))
        case UniformColumn():
            return _tensor_array(column)
        case RaggedColumn():
            return _ragged_array(kind, column)


def _encoded_array(kind: SampleType, column: EncodedColumn) -> PyarrowArray:
    """Lay samples end to end: their lengths and bytes, with nothing done for each in Python."""
    import pyarrow as pa

    is_text = kind.query_kind in ("text", "json")
    lengths = np.fromiter(map(len, column.samples), np.int64, len(column))
    offsets = offsets_of(lengths)
    is_long = int(offsets[-1]) > MAX_OFFSET
    if is_text:
        type_ = pa.large_string() if is_long else pa.string()
    else:
        type_ = pa.large_binary() if is_long else pa.binary()
    offsets = offsets if is_long else offsets.astype(np.int32)
    data = b"".join(column.samples)
    buffers = [_validity(column.valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(type_, len(column), buffers)
    if is_text:
        array.validate(full=True)  # that it is UTF-8
    return array


def _tensor_array(column: UniformColumn) -> PyarrowArray:
    """Hand samples of one shape over as they are in memory."""
    import pyarrow as pa

    values = np.ascontiguousarray(column.values)
    shape = values.shape[1:]
    flat = pa.array(values.reshape(-1))
    storage = pa.list_(flat.type, math.prod(shape))
    lists = pa.Array.from_buffers(storage, len(column), [_validity(column.valid)], children=[flat])
    if 0 in shape:  # a tensor of no elements is none to Arrow
        return lists
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), lists)


def _ragged_array(kind: SampleType, column: RaggedColumn) -> PyarrowArray:
    import pyarrow as pa

    offsets = pa.array(column.offsets)
    values = _named(kind, pa.array(np.ascontiguousarray(column.values)))
    nulls = None if column.valid is None else pa.array(~column.valid)
    lists = pa.LargeListArray.from_arrays(offsets, values, mask=nulls)
    ndim = column.shapes.shape[1]
    if ndim == 1:
        return lists
    ends = pa.array(np.arange(len(column) + 1, dtype=np.int32) * np.int32(ndim))
    sizes = pa.array(np.ascontiguousarray(column.shapes, dtype=np.int64).reshape(-1))
    shapes = pa.ListArray.from_arrays(ends, sizes)
    return pa.StructArray.from_arrays([lists, shapes], ["values", "shape"])


def _validity(valid: npt.NDArray[np.bool_] | None) -> Any:
    """Arrow's bitmap of the samples that are not NULL; None for all."""
    import pyarrow as pa

    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _named(kind: SampleType, codes: PyarrowArray) -> PyarrowArray:
    """Give class labels their names."""
    import pyarrow as pa

    if not isinstance(kind, ClassLabel):
        return codes
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), pa.array(list(kind.names)))
