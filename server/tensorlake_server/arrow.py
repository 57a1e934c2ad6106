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
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorlake.types import ClassLabel, EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.types import Column, SampleType
    from tensorlake_server.columns import TypedColumn

__all__ = ["ARROW_TYPE", "NPZ_TYPE", "write_arrow", "write_npz"]

ARROW_TYPE = "application/vnd.apache.arrow.stream"
NPZ_TYPE = "application/x-npz"

PyarrowArray: TypeAlias = Any  # pyarrow ships no types


def write_arrow(columns: Mapping[str, TypedColumn]) -> bytes:
    """Write a page as an Arrow IPC stream."""
    import pyarrow as pa

    arrays = {name: _arrow_array(read.type, read.column) for name, read in columns.items()}
    batch = pa.record_batch(arrays)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def write_npz(columns: Mapping[str, TypedColumn]) -> bytes:
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
    return out.getvalue()


def _encoded_arrays(name: str, kind: SampleType, column: EncodedColumn) -> dict[str, np.ndarray]:
    if kind.query_kind in ("text", "json"):
        return {name: np.array([str(bytes(one), "utf-8") for one in column.samples], dtype=np.str_)}
    lengths = np.array([len(one) for one in column.samples], dtype=np.int64)
    return {
        name: np.frombuffer(b"".join(column.samples), dtype=np.uint8),
        f"{name}.lengths": lengths,
    }


def _arrow_array(kind: SampleType, column: Column) -> PyarrowArray:
    import pyarrow as pa

    mask = None if column.valid is None else ~column.valid
    match column:
        case EncodedColumn():
            is_text = kind.query_kind in ("text", "json")
            type_ = pa.string() if is_text else pa.binary()
            null = np.zeros(len(column), np.bool_) if mask is None else mask
            samples = [
                None if is_null else str(bytes(one), "utf-8") if is_text else bytes(one)
                for one, is_null in zip(column.samples, null.tolist(), strict=True)
            ]
            return pa.array(samples, type_)
        case UniformColumn(values=values) if values.ndim == 1:
            flat = pa.array(np.ascontiguousarray(values), mask=mask)
            return _named(kind, flat)
        case UniformColumn(values=values):
            if mask is None:
                tensor: Any = pa.FixedShapeTensorArray
                return tensor.from_numpy_ndarray(np.ascontiguousarray(values))
            inner = values.reshape(len(values), -1).tolist()
            return pa.array(inner, pa.list_(pa.from_numpy_dtype(values.dtype)), mask=mask)
        case RaggedColumn():
            offsets = pa.array(column.offsets.astype(np.int64))
            values = _named(kind, pa.array(np.ascontiguousarray(column.values)))
            nulls = None if mask is None else pa.array(mask)
            lists = pa.LargeListArray.from_arrays(offsets, values, mask=nulls)
            if column.shapes.shape[1] == 1:
                return lists
            shapes = pa.array(column.shapes.tolist(), pa.list_(pa.int64()))
            return pa.StructArray.from_arrays([lists, shapes], ["values", "shape"])


def _named(kind: SampleType, codes: PyarrowArray) -> PyarrowArray:
    """Give class labels their names."""
    import pyarrow as pa

    if not isinstance(kind, ClassLabel):
        return codes
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), pa.array(list(kind.names)))
