"""TFRecord, the format of TensorFlow: shards of records, each a ``tf.train.Example``.

    record   length u64 · CRC u32 of the length · data · CRC u32 of the data
    data     a message of protocol buffers: features by name, each a list of bytes, float32 or int64

(https://www.tensorflow.org/tutorials/load_data/tfrecord). Numbers are little-endian; a CRC is
CRC-32C, masked. Media are written as stored, text as UTF-8, JSON as text, numbers as lists in C
order; an array with several unknown lengths has its shape in the feature ``NAME/shape``. A NULL is
a feature that the record lacks. ``tensorlake-types.json`` has the tensors' types, from which
``tl.ingest.tfrecord`` makes the same tensors again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tensorlake.dataset.export.destinations import new_folder, typed_form
from tensorlake.dataset.export.files import stored_rows, tensor_columns, write_types
from tensorlake.dataset.export.records.sample_bytes import bytes_of
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, missing_extra
from tensorlake.types import SampleType, Timestamp, untiled, widened_dtype

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["SHAPE_FEATURE", "masked_crc", "to_tfrecord"]

SHAPE_FEATURE = "/shape"
"""Suffix of the feature that has the shape of an array."""

FORM = typed_form("tfrecord", r"part-\d{5}\.tfrecord")

_BYTES, _FLOAT, _INT64 = 1, 2, 3  # fields of the message Feature
_MASK_DELTA = 0xA282EAD8
_MARK = 0x80  # of each byte of a varint but its last
_Encoder = Callable[[Any], bytes]


def masked_crc(call: str) -> Callable[[bytes], int]:
    """Return the function that computes TFRecord's checksum: CRC-32C, rotated, plus a constant.

    Args:
        call: The call that needs it, for the error.

    Raises:
        MissingExtraError: ``google-crc32c`` is not installed.
    """
    try:
        from google_crc32c import value
    except ModuleNotFoundError as error:
        raise missing_extra(call, "tfrecord") from error

    def masked(content: bytes) -> int:
        crc: int = value(content)
        return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF

    return masked


def to_tfrecord(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    shard_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into shards of about ``shard_nbytes`` in a folder."""
    crc_of = masked_crc("to_tfrecord()")
    declared = tensor_columns(view, columns, call="to_tfrecord()")
    types = {name: untiled(declared[name]) for name in sorted(declared)}
    encoders = {name: _feature(name, kind) for name, kind in types.items()}
    shaped = {name for name, kind in types.items() if _needs_shape(kind)}
    taken = next((name for name in sorted(shaped) if name + SHAPE_FEATURE in types), None)
    if taken is not None:
        raise UnsupportedFeatureError(
            f"the shapes of {taken!r} would be the feature {taken + SHAPE_FEATURE!r}, which is a"
            " tensor\nleave one of the two out: columns=[…]",
            tensor=taken,
        )
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        write_types(folder, declared)
        shards = _Shards(folder, shard_nbytes, crc_of)
        try:
            for row, values in enumerate(stored_rows(view, [*types])):
                shards.add(_example(encoders, shaped, values, row))
        finally:
            shards.close()


class _Shards:
    """Files of records, each closed when it is large enough; at least one."""

    def __init__(self, folder: Path, nbytes: int, crc_of: Callable[[bytes], int]) -> None:
        self._folder, self._limit, self._crc_of = folder, nbytes, crc_of
        self._count = self._nbytes = 0
        self._file = self._opened()

    def add(self, data: bytes) -> None:
        if self._nbytes and self._nbytes + len(data) > self._limit:
            self._file.close()
            self._file, self._nbytes = self._opened(), 0
        length = struct.pack("<Q", len(data))
        crcs = (struct.pack("<I", self._crc_of(part)) for part in (length, data))
        self._nbytes += self._file.write(b"".join((length, next(crcs), data, next(crcs))))

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> BinaryIO:
        self._count += 1
        return (self._folder / f"part-{self._count - 1:05d}.tfrecord").open("wb")


def _example(
    encoders: Mapping[str, _Encoder], shaped: set[str], values: Mapping[str, Any], row: int
) -> bytes:
    features: list[bytes] = []
    for name, encode in encoders.items():
        value = values[name]
        if value is None:
            continue
        try:
            features.append(_named(name, encode(value)))
        except ValueError as error:
            raise InvalidInputError(
                f"row {row} of {name!r}: {error}\nleave the tensor out: columns=[…]",
                tensor=name,
                row=row,
            ) from error
        if name in shaped:
            features.append(_named(name + SHAPE_FEATURE, _integers(np.asarray(value).shape)))
    return _field(1, b"".join(features))


def _named(name: str, feature: bytes) -> bytes:
    """Return an entry of the map of features."""
    return _field(1, _field(1, name.encode()) + _field(2, feature))


def _feature(name: str, sample_type: SampleType) -> _Encoder:
    """Return the function that encodes a tensor's samples as messages Feature."""
    stored = bytes_of(sample_type)
    if stored is not None:
        encode = stored[1]
        return lambda value: _field(_BYTES, _field(1, encode(value)))
    dtype = None if sample_type.dtype is None else widened_dtype(sample_type.dtype)
    is_numbers = dtype is not None and dtype.kind in "biuf" and not sample_type.is_media
    if not is_numbers or isinstance(sample_type, Timestamp):
        raise UnsupportedFeatureError(
            f"TFRecord does not support {name!r} ({sample_type.describe()})"
            "\nleave it out: columns=[…]",
            tensor=name,
        )
    return _floats if dtype is not None and dtype.kind == "f" else _integers


def _needs_shape(sample_type: SampleType) -> bool:
    """Whether the shape of a sample does not follow from the number of its elements."""
    shape = sample_type.shape or ()
    is_unknown = shape.count(None) > 1 or (None in shape and 0 in shape)
    return is_unknown and not sample_type.is_media


def _floats(value: Any) -> bytes:
    given = np.asarray(value).ravel()
    with np.errstate(over="ignore"):
        floats = given.astype("<f4")
    differs = np.flatnonzero((floats != given) & ~np.isnan(given))
    if len(differs):
        raise ValueError(f"TFRecord has float32, which cannot represent {given[differs[0]]!r}")
    return _field(_FLOAT, _field(1, floats.tobytes()) if len(floats) else b"")


def _integers(value: Any) -> bytes:
    given = np.asarray(value).ravel()
    if given.dtype.kind == "u" and len(given) and int(given.max()) >= 1 << 63:
        raise ValueError(f"TFRecord has int64, which cannot represent {int(given.max())}")
    rest = given.astype(np.int64).view(np.uint64)
    return _field(_INT64, _field(1, _varints(rest)) if len(rest) else b"")


def _varints(values: np.ndarray) -> bytes:
    """Encode integers in groups of seven bits, the lowest first, each but the last marked."""
    shifted = values[:, None] >> np.arange(0, 70, 7, dtype=np.uint64).clip(max=63)
    is_used = np.ones(shifted.shape, bool)
    is_used[:, 1:] = shifted[:, 1:] != 0
    groups = (shifted & np.uint64(0x7F)).astype(np.uint8)
    groups[:, :-1] |= is_used[:, 1:].astype(np.uint8) << 7
    return groups[is_used].tobytes()


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of a message whose length is before its content."""
    rest, length = len(content), bytearray([number << 3 | 2])
    while rest >= _MARK:
        length.append(rest & 0x7F | _MARK)
        rest >>= 7
    length.append(rest)
    return bytes(length) + content
