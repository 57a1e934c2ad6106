"""MDS, the format of MosaicML's streaming: shards of rows, and an index.

    shard   rows u32 · offsets u32 (rows + 1) · header, JSON · row 0 · row 1 · …
    row     sizes u32, of the columns without a fixed size · values, one after another
    index   index.json: the shards, with the columns' names, encodings and sizes

(https://docs.mosaicml.com/projects/streaming, "Dataset format".) Numbers are little-endian, columns
in the order of their names. An image is written as stored: ``jpeg`` or ``png`` where it is
one, else ``bytes``; arrays are ``ndarray`` of a dtype, and of a shape where that is fixed. Other
media are ``bytes``: the files, of point clouds ``.npz``, of NIfTI ``.nii``; DICOM is ``ndarray``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
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
from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import (
    ClassLabel,
    Dicom,
    Image,
    MemorySample,
    SampleType,
    Timestamp,
    untiled,
    widened_dtype,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_mds"]

FORM = typed_form("mds", r"index\.json|shard\.\d{5}\.mds")

_SHAPE_DTYPES = ("u1", "<u2", "<u4", "<u8")
_DTYPES = "uint8 int8 uint16 int16 float16 uint32 int32 float32 uint64 int64 float64".split()  # noqa: SIM905 - the format's list


def to_mds(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    shard_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into shards of about ``shard_nbytes`` in a folder."""
    types = tensor_columns(view, columns, call="to_mds()")
    written = [_column(name, untiled(types[name])) for name in sorted(types)]
    described = {
        "column_encodings": [one.encoding for one in written],
        "column_names": [one.name for one in written],
        "column_sizes": [one.nbytes for one in written],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": shard_nbytes,
        "version": 2,
    }
    header = json.dumps(described, sort_keys=True).encode()
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        shards: list[dict[str, Any]] = []
        for rows in shards_of(view, written, shard_nbytes, "MDS"):
            name = f"shard.{len(shards):05d}.mds"
            nbytes = write_shard(folder / name, rows, header, "MDS")
            raw = {"basename": name, "bytes": nbytes, "hashes": {}}
            shards.append({**described, "raw_data": raw, "samples": len(rows), "zip_data": None})
        index = {"version": 2, "shards": shards}
        (folder / "index.json").write_text(json.dumps(index, sort_keys=True))
        # The arrays of a series do not become the series again
        write_types(folder, {n: one for n, one in types.items() if not isinstance(one, Dicom)})


def _column(name: str, sample_type: SampleType) -> ShardColumn:
    if isinstance(sample_type, Dicom):
        return _voxels(name, sample_type)
    stored = bytes_of(sample_type)
    if stored is not None:
        encoding, encode = stored
        codec = sample_type.codec if isinstance(sample_type, Image) else None
        return ShardColumn(name, codec if codec in {"jpeg", "png"} else encoding, None, encode)
    if isinstance(sample_type, ClassLabel) and not sample_type.is_many:
        return ShardColumn(name, "int64", 8, lambda value: np.array(value, "<i8").tobytes())
    dtype = None if sample_type.dtype is None else widened_dtype(sample_type.dtype)
    if dtype is not None and dtype.kind == "b":
        dtype = np.dtype(np.uint8)
    is_array = dtype is not None and dtype.name in _DTYPES and not sample_type.is_media
    if dtype is None or not is_array or isinstance(sample_type, Timestamp):
        raise unsupported(name, sample_type, "MDS")
    elements = dtype.newbyteorder("<")

    def plain(value: Any) -> bytes:
        return np.asarray(value).astype(elements).tobytes()

    if not sample_type.shape:
        return ShardColumn(name, dtype.name, dtype.itemsize, plain)
    if all(sample_type.shape):
        fixed = [length or 0 for length in sample_type.shape]
        encoding = f"ndarray:{dtype.name}:{','.join(map(str, fixed))}"
        return ShardColumn(name, encoding, dtype.itemsize * math.prod(fixed), plain)
    return ShardColumn(
        name, f"ndarray:{dtype.name}", None, lambda value: _shape(value) + plain(value)
    )


def _voxels(name: str, sample_type: Dicom) -> ShardColumn:
    """Write series as arrays: the stored form is read by tensorlake alone."""
    if sample_type.dtype is None or sample_type.dtype.name not in _DTYPES:
        raise UnsupportedFeatureError(
            f"MDS does not support {name!r} ({sample_type.describe()}): its series have any dtype"
            '\nleave it out: columns=[…], or give the tensor a dtype: tl.Dicom(dtype="int16")',
            tensor=name,
        )
    elements = sample_type.dtype.newbyteorder("<")

    def encode(sample: bytes) -> bytes:
        own = sample_type.map_of(sample, tensor=name, row=0)
        voxels = np.asarray(sample_type.handle_class(sample_type, MemorySample(sample, own)))
        return _shape(voxels) + voxels.astype(elements).tobytes()

    return ShardColumn(name, f"ndarray:{elements.name}", None, encode)


def _shape(value: Any) -> bytes:
    """Number of axes and width of the lengths in one byte, then the lengths."""
    shape = np.asarray(value).shape
    width = next(at for at in range(4) if max(shape) < 1 << (8 << at))
    return bytes([len(shape) << 2 | width]) + np.array(shape, _SHAPE_DTYPES[width]).tobytes()
