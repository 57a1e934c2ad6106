"""LitData, the format of Lightning's streaming: `shards.py` draws a chunk, without a header.

    index.json   chunks: filename, rows, bytes · config: formats of the leaves, and their tree

(https://github.com/Lightning-AI/litData, ``streaming/writer.py``.) A row is a dict; each tensor is
a leaf of it, in the order of the tensors, with its size in each row. JPEG images are ``jpeg``,
other media and bytes ``bytes``; text and JSON are ``str``; integers and class labels ``int``,
floats ``float``; arrays of one axis ``no_header_numpy`` of a dtype, others ``numpy`` with shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.destinations import new_folder, typed_form
from tensorlake.dataset.export.files import tensor_columns, write_types
from tensorlake.dataset.export.records.sample_bytes import bytes_of
from tensorlake.dataset.export.records.shards import (
    ShardColumn,
    shards_of,
    unsupported,
    write_shard,
)
from tensorlake.types import ClassLabel, Image, SampleType, Timestamp, untiled, widened_dtype

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["LITDATA_DTYPES", "to_litdata"]

FORM = typed_form("litdata", r"index\.json|chunk-0-\d+\.bin")

LITDATA_DTYPES = (  # noqa: SIM905 - the format's list
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
    " complex128 bool"
).split()
"""Dtypes of NumPy's arrays, by their numbers in the format."""

LEAF = {"type": None, "context": None, "children_spec": []}
"""A value in the tree of a row."""


def to_litdata(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    chunk_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into chunks of about ``chunk_nbytes`` in a folder."""
    types = tensor_columns(view, columns, call="to_litdata()")
    written = [_column(name, untiled(one)) for name, one in types.items()]
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        chunks: list[dict[str, Any]] = []
        for rows in shards_of(view, written, chunk_nbytes, "LitData"):
            if not rows:
                break  # its reader refuses a chunk of none
            name = f"chunk-0-{len(chunks)}.bin"
            nbytes = write_shard(folder / name, rows, b"", "LitData")
            about = {"chunk_bytes": nbytes, "chunk_size": len(rows), "dim": None, "filename": name}
            chunks.append(about)
        index = {"chunks": chunks, "config": _config(written, chunk_nbytes)}
        (folder / "index.json").write_text(json.dumps(index, sort_keys=True))
        write_types(folder, types)


def _config(columns: Sequence[ShardColumn], chunk_nbytes: int) -> Mapping[str, Any]:
    context = json.dumps([one.name for one in columns])
    tree = {"type": "builtins.dict", "context": context, "children_spec": [LEAF] * len(columns)}
    return {
        "chunk_bytes": chunk_nbytes,
        "chunk_size": None,
        "compression": None,
        "data_format": [one.encoding for one in columns],
        "data_spec": json.dumps([1, tree]),
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }


def _column(name: str, sample_type: SampleType) -> ShardColumn:
    stored = bytes_of(sample_type)
    if stored is not None:
        kind, encode = stored
        is_jpeg = isinstance(sample_type, Image) and sample_type.codec == "jpeg"
        encoding = "jpeg" if is_jpeg else {"bytes": "bytes"}.get(kind, "str")
        return ShardColumn(name, encoding, None, encode)
    if isinstance(sample_type, ClassLabel) and not sample_type.is_many:
        return ShardColumn(name, "int", None, _number("<i8"))
    dtype = None if sample_type.dtype is None else widened_dtype(sample_type.dtype)
    is_array = dtype is not None and dtype.name in LITDATA_DTYPES and not sample_type.is_media
    if dtype is None or not is_array or isinstance(sample_type, Timestamp):
        raise unsupported(name, sample_type, "LitData")
    if not sample_type.shape:
        kinds = {"b": ("bool", "?"), "f": ("float", "<f8")}
        kinds |= {} if dtype.name == "uint64" else dict.fromkeys("iu", ("int", "<i8"))
        if dtype.kind not in kinds:
            raise unsupported(name, sample_type, "LitData")
        encoding, stored_as = kinds[dtype.kind]
        return ShardColumn(name, encoding, None, _number(stored_as))
    number = LITDATA_DTYPES.index(dtype.name)
    elements = dtype.newbyteorder("<")

    def plain(value: Any) -> bytes:
        return np.asarray(value).astype(elements).tobytes()

    if len(sample_type.shape) == 1:
        return ShardColumn(name, f"no_header_numpy:{number}", None, plain)

    def shaped(value: Any) -> bytes:
        shape = np.asarray(value).shape
        return np.array([number, len(shape), *shape], "<u4").tobytes() + plain(value)

    return ShardColumn(name, "numpy", None, shaped)


def _number(dtype: str) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        return np.asarray(value).astype(dtype).tobytes()

    return encode
