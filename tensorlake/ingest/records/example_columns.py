"""Examples of ``tf.train.Example`` that have one form, parsed together.

The records of a file have the same features, most often in the same order and each with one value
or with a packed list. Then a step of the parser is taken for all records at once, each at a place
of its own: the tags and the names have to be the same, the lengths may differ. Records of any other
form are left to `examples.py`, one by one, which also has the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.ingest.records.examples import varints
from tensorlake.ingest.records.parts import FieldParts
from tensorlake.ingest.records.values import value_of
from tensorlake.types import SampleType, Sequence

__all__ = ["FeatureParts", "columns_of", "parse_together"]

Int64Array = npt.NDArray[np.int64]

_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A  # keys of fields 1, 2 and 3 of bytes
_KINDS = {_FIRST: "bytes", _SECOND: "float32", _THIRD: "int64"}
_MARK = 0x80  # of each byte of a varint but its last
_LENGTH_NBYTES_MAX = 4
_NAME_NBYTES_MAX = 256
_FLOAT_NBYTES = 4


@dataclass(frozen=True, slots=True)
class FeatureParts:
    """A feature in each of some records.

    Attributes:
        kind: "bytes", of one value in each; "float32" or "int64", packed.
        parts: The bytes of the value or of the packed list, in each record.
        counts: The number of values in each record.
    """

    kind: str
    parts: FieldParts
    counts: Int64Array

    def numbers(self) -> np.ndarray:
        """Return the numbers of all records, one record after another; ValueError as `varints`."""
        content = _joined(self.parts)
        return varints(content) if self.kind == "int64" else np.frombuffer(content, "<f4")


def parse_together(
    content: bytes, starts: Int64Array, stops: Int64Array
) -> dict[str, FeatureParts] | None:
    """Return the features of records by name; None where the records are not of one form.

    Args:
        content: Bytes of all records.
        starts: Where each record begins.
        stops: Where it ends.
    """
    if not len(starts):
        return None
    try:
        return _features(_Cursor(content, starts), stops)
    except _OtherFormError:
        return None


def columns_of(
    features: Mapping[str, FeatureParts], rows: int, types: Mapping[str, SampleType]
) -> dict[str, Any] | None:
    """Return the values of records of one form; None where rows are made one by one."""
    if features.keys() != types.keys():
        return None
    made: dict[str, Any] = {}
    try:
        for name, kind in types.items():
            values = _column(features[name], rows, kind)
            if values is None:
                return None
            made[name] = values
    except (ValueError, RecursionError):
        return None  # read again record by record, which names the one
    return made


def _column(feature: FeatureParts, rows: int, kind: SampleType) -> Any:
    """Return the values of a feature as rows have them, each of one shape; None for others."""
    if isinstance(kind, Sequence) or kind.dtype == np.bool_:
        return None
    own = () if kind.is_media else kind.shape or ()
    if feature.kind == "bytes":
        return None if own else [value_of(kind, one) for one in feature.parts.each()]
    counts = feature.counts
    if not bool((counts == counts[0]).all()) or own.count(None) > 1 or 0 in own:
        return None
    lengths = [-1 if one is None else one for one in own]
    values = feature.numbers().reshape(rows, *lengths)
    has_same = kind.dtype is not None and kind.dtype == values.dtype.newbyteorder("=")
    return values if own or has_same else [*values]


class _OtherFormError(Exception):
    """Records differ in form, or have one that programs do not write."""


class _Cursor:
    """A place in each record."""

    def __init__(self, content: bytes, at: Int64Array) -> None:
        self.content, self.at = content, at
        self._bytes = np.frombuffer(content, np.uint8)

    def tag(self) -> int:
        """Return the next byte of the first record."""
        return int(self._byte(self.at[:1])[0])

    def enter(self, tag: int) -> Int64Array:
        """Step into a field of bytes; return where it ends."""
        _require(self._byte(self.at) == tag)
        first = self._byte(self.at + 1)
        lengths, size = (first & 0x7F).astype(np.int64), np.ones(len(first), np.int64)
        more = first >= _MARK
        for place in range(1, _LENGTH_NBYTES_MAX):
            if not more.any():
                break
            group = self._byte(self.at + 1 + place)
            lengths += np.where(more, (group & 0x7F).astype(np.int64) << 7 * place, 0)
            size += more
            more &= group >= _MARK
        _require(~more)
        self.at = self.at + 1 + size
        return self.at + lengths

    def name(self, stops: Int64Array) -> str:
        """Step over a text that all records have."""
        nbytes = int(stops[0] - self.at[0])
        _require(stops - self.at == nbytes)
        if not 0 < nbytes < _NAME_NBYTES_MAX:
            raise _OtherFormError
        names = self._byte(self.at[:, None] + np.arange(nbytes))
        _require(names == names[0])
        self.at = stops
        try:
            return names[0].tobytes().decode()
        except UnicodeDecodeError as error:
            raise _OtherFormError from error

    def _byte(self, at: np.ndarray) -> np.ndarray:
        return self._bytes.take(at, mode="clip")  # a length beyond the record is refused later


def _require(holds: np.ndarray) -> None:
    if not bool(holds.all()):
        raise _OtherFormError


def _features(cursor: _Cursor, stops: Int64Array) -> dict[str, FeatureParts]:
    features: dict[str, FeatureParts] = {}
    _require(cursor.enter(_FIRST) == stops)
    while not bool((cursor.at == stops).all()):
        stop = cursor.enter(_FIRST)
        _require(stop <= stops)
        name_stop = cursor.enter(_FIRST)
        _require(name_stop < stop)
        name = cursor.name(name_stop)
        if name in features:
            raise _OtherFormError
        _require(cursor.enter(_SECOND) == stop)
        _require(cursor.at < stop)
        tag = cursor.tag()
        if tag not in _KINDS:
            raise _OtherFormError
        _require(cursor.enter(tag) == stop)
        _require(cursor.at < stop)
        _require(cursor.enter(_FIRST) == stop)
        if tag != _FIRST:
            _require(cursor.at < stop)
        parts = FieldParts(cursor.content, cursor.at, stop)
        features[name] = FeatureParts(_KINDS[tag], parts, _counts(tag, parts))
        cursor.at = stop
    return features


def _counts(tag: int, parts: FieldParts) -> Int64Array:
    """Return the number of values in each record; a list that is cut off is another form."""
    lengths = parts.stops - parts.starts
    if tag == _FIRST:
        return np.ones(len(lengths), np.int64)
    if tag == _SECOND:
        _require(lengths % _FLOAT_NBYTES == 0)
        return lengths // _FLOAT_NBYTES
    is_last = np.frombuffer(_joined(parts), np.uint8) < _MARK
    stops = np.cumsum(lengths)
    _require(is_last[stops - 1])
    before = np.concatenate([[0], np.cumsum(is_last)])
    return before[stops] - before[stops - lengths]


def _joined(parts: FieldParts) -> bytes:
    content = parts.together()
    return b"".join(parts.each()) if content is None else content
