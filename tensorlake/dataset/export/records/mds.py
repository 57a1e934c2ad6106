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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.files import new_folder, stored_rows, tensor_columns, write_types
from tensorlake.dataset.export.records.sample_bytes import bytes_of
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
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

_U32 = np.dtype("<u4")
_SHARD_NBYTES_MAX = (1 << 32) - 1  # offsets are u32
_SHAPE_DTYPES = ("u1", "<u2", "<u4", "<u8")
_DTYPES = "uint8 int8 uint16 int16 float16 uint32 int32 float32 uint64 int64 float64".split()  # noqa: SIM905 - the format's list


@dataclass(frozen=True, slots=True)
class _Column:
    """How one tensor is written.

    Attributes:
        name: Its name.
        encoding: The format's name of the encoding.
        nbytes: Bytes of each value, where all have the same.
        encode: From a value to its bytes.
    """

    name: str
    encoding: str
    nbytes: int | None
    encode: Callable[[Any], bytes]


def to_mds(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    shard_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into shards of about ``shard_nbytes`` in a folder."""
    if not 0 < shard_nbytes <= _SHARD_NBYTES_MAX:
        message = f"a shard of {shard_nbytes:,} bytes\ngive at most 4GiB: offsets have 32 bits"
        raise InvalidInputError(message, actual=shard_nbytes)
    types = tensor_columns(view, columns, call="to_mds()")
    written = [_column(name, untiled(types[name])) for name in sorted(types)]
    with new_folder(dst, overwrite=overwrite) as folder:
        shards: list[dict[str, Any]] = []
        samples: list[bytes] = []
        nbytes = 0
        for row, values in enumerate(stored_rows(view, [*types])):
            sample = _sample(written, values, row)
            if samples and nbytes + len(sample) > shard_nbytes:
                shards.append(_write_shard(folder, len(shards), written, samples, shard_nbytes))
                samples, nbytes = [], 0
            samples.append(sample)
            nbytes += len(sample) + _U32.itemsize
        if samples or not shards:
            shards.append(_write_shard(folder, len(shards), written, samples, shard_nbytes))
        index = {"version": 2, "shards": shards}
        (folder / "index.json").write_text(json.dumps(index, sort_keys=True))
        write_types(folder, types)


def _sample(columns: Sequence[_Column], values: dict[str, Any], row: int) -> bytes:
    encoded: list[bytes] = []
    for column in columns:
        value = values[column.name]
        if value is None:
            raise InvalidInputError(
                f"row {row} of {column.name!r} is NULL, which MDS does not support"
                f'\nwrite rows that have it: ds.where("{column.name} IS NOT NULL"), or leave the'
                " tensor out: columns=[…]",
                tensor=column.name,
                row=row,
            )
        encoded.append(column.encode(value))
    varying = [len(one) for one, how in zip(encoded, columns, strict=True) if how.nbytes is None]
    return np.array(varying, dtype=_U32).tobytes() + b"".join(encoded)


def _write_shard(
    folder: Path, number: int, columns: Sequence[_Column], samples: Sequence[bytes], limit: int
) -> dict[str, Any]:
    name = f"shard.{number:05d}.mds"
    described = {
        "column_encodings": [one.encoding for one in columns],
        "column_names": [one.name for one in columns],
        "column_sizes": [one.nbytes for one in columns],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": limit,
        "version": 2,
    }
    header = json.dumps(described, sort_keys=True).encode()
    begin = _U32.itemsize * (2 + len(samples)) + len(header)
    offsets = begin + np.cumsum([0, *map(len, samples)])
    if int(offsets[-1]) > _SHARD_NBYTES_MAX:
        message = f"a row takes {int(offsets[-1]):,} bytes, and a shard of MDS has at most 4 GiB"
        raise UnsupportedFeatureError(message, actual=int(offsets[-1]))
    with (folder / name).open("wb") as shard:
        shard.write(np.array(len(samples), dtype=_U32).tobytes())
        shard.write(offsets.astype(_U32).tobytes())
        shard.write(header)
        shard.writelines(samples)
    raw = {"basename": name, "bytes": int(offsets[-1]), "hashes": {}}
    return {**described, "raw_data": raw, "samples": len(samples), "zip_data": None}


def _column(name: str, sample_type: SampleType) -> _Column:
    if isinstance(sample_type, Dicom):
        return _voxels(name, sample_type)
    stored = bytes_of(sample_type)
    if stored is not None:
        encoding, encode = stored
        codec = sample_type.codec if isinstance(sample_type, Image) else None
        return _Column(name, codec if codec in {"jpeg", "png"} else encoding, None, encode)
    if isinstance(sample_type, ClassLabel) and not sample_type.is_many:
        return _Column(name, "int64", 8, lambda value: np.array(value, "<i8").tobytes())
    dtype = None if sample_type.dtype is None else widened_dtype(sample_type.dtype)
    if dtype is not None and dtype.kind == "b":
        dtype = np.dtype(np.uint8)
    is_array = dtype is not None and dtype.name in _DTYPES and not sample_type.is_media
    if dtype is None or not is_array or isinstance(sample_type, Timestamp):
        raise UnsupportedFeatureError(
            f"MDS does not support {name!r} ({sample_type.describe()})\nleave it out: columns=[…]",
            tensor=name,
        )
    elements = dtype.newbyteorder("<")

    def plain(value: Any) -> bytes:
        return np.asarray(value).astype(elements).tobytes()

    if not sample_type.shape:
        return _Column(name, dtype.name, dtype.itemsize, plain)
    if all(sample_type.shape):
        fixed = [length or 0 for length in sample_type.shape]
        encoding = f"ndarray:{dtype.name}:{','.join(map(str, fixed))}"
        return _Column(name, encoding, dtype.itemsize * math.prod(fixed), plain)
    return _Column(name, f"ndarray:{dtype.name}", None, lambda value: _shape(value) + plain(value))


def _voxels(name: str, sample_type: Dicom) -> _Column:
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

    return _Column(name, f"ndarray:{elements.name}", None, encode)


def _shape(value: Any) -> bytes:
    """Number of axes and width of the lengths in one byte, then the lengths."""
    shape = np.asarray(value).shape
    width = next(at for at in range(4) if max(shape) < 1 << (8 << at))
    return bytes([len(shape) << 2 | width]) + np.array(shape, _SHAPE_DTYPES[width]).tobytes()
