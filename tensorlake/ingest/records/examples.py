"""``tf.train.Example``, parsed without TensorFlow.

    Example    1 Features              Features   1 map: string → Feature
    Feature    1 BytesList, 2 FloatList or 3 Int64List, each with its values in field 1

(https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto). Lists
of numbers are packed or not, as each program writes them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["Values", "parse_example", "varints"]

Values = np.ndarray | list[bytes]
"""The values of a feature: int64, float32, or bytes."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_VARINT_NBYTES_MAX = 10
_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A  # keys of fields 1, 2 and 3 of bytes
_MARK = 0x80  # of each byte of a varint but its last
_FEATURE_LISTS = 2  # a field of SequenceExample


def parse_example(data: bytes) -> dict[str, Values | None]:
    """Return the features of a record, by name; None for one without a list.

    Args:
        data: The message.

    Raises:
        ValueError: It is not a ``tf.train.Example``.
    """
    try:
        return _parse_usual(data)
    except (IndexError, _UnusualError):  # another order or form, or damaged: field by field
        return _parse_any(data)


class _UnusualError(Exception):
    """A message is not of the form that programs write."""


def _parse_usual(data: bytes) -> dict[str, Values | None]:
    """Parse an example as all programs write it: one message of features, their lists packed.

    No message is copied, and each length of one byte, which most are, is an index.
    """
    end = len(data)
    features: dict[str, Values | None] = {}
    if not end:
        return features
    _, at = _length(data, 0, end)
    while at < end:
        stop, at = _length(data, at, end)
        name_stop, at = _length(data, at, stop)
        name, at = data[at:name_stop].decode(), name_stop
        feature_stop, at = _length(data, at, stop, tag=_SECOND)
        if feature_stop != stop or name in features:
            raise _UnusualError
        if at == stop:
            features[name] = None
            continue
        tag = data[at]
        list_stop, at = _length(data, at, stop, tag=tag)
        if list_stop != stop:
            raise _UnusualError
        if tag == _FIRST:
            values: list[bytes] = []
            while at < stop:
                one, at = _length(data, at, stop)
                values.append(data[at:one])
                at = one
            features[name] = values
            continue
        if at < stop:
            packed_stop, at = _length(data, at, stop)
            if packed_stop != stop:
                raise _UnusualError
        if tag == _SECOND and not (stop - at) % 4:
            features[name] = np.frombuffer(data, "<f4", (stop - at) // 4, at)
        elif tag == _THIRD:
            features[name] = varints(data[at:stop])
        else:
            raise _UnusualError
        at = stop
    return features


def _length(data: bytes, at: int, end: int, tag: int = 0x0A) -> tuple[int, int]:
    """Return where a field of bytes ends and begins, in a message that ends at ``end``."""
    if data[at] != tag:
        raise _UnusualError
    length, at = data[at + 1], at + 2
    if length >= _MARK:
        if data[at] < _MARK:  # of two bytes, up to 16 KiB
            length, at = length & 0x7F | data[at] << 7, at + 1
        else:
            length, at = _varint(data, at - 1)
    if at + length > end:
        raise _UnusualError
    return at + length, at


def _parse_any(data: bytes) -> dict[str, Values | None]:
    features: dict[str, Values | None] = {}
    for number, content in _messages(data, "an Example"):
        if number != 1:
            message = "it has fields that a tf.train.Example has not"
            hint = ", and may be a SequenceExample" if number == _FEATURE_LISTS else ""
            raise ValueError(message + hint)
        for _, entry in _messages(content, "its features"):
            parts = dict(_messages(entry, "an entry of its features"))
            features[parts.get(1, b"").decode()] = _values(parts.get(2, b""))
    return features


def _messages(data: bytes, what: str) -> Iterator[tuple[int, bytes]]:
    for number, _, content in _fields(data):
        if not isinstance(content, bytes):
            raise ValueError(f"{what} has a number where a message belongs")  # noqa: TRY004 - of the file
        yield number, content


def _values(feature: bytes) -> Values | None:
    values: Values | None = None
    for number, content in _messages(feature, "a feature"):
        match number:
            case 1:
                values = [one for _, one in _messages(content, "a list of bytes")]
            case 2:
                values = _floats(content)
            case 3:
                values = _integers(content)
            case _:
                raise ValueError(f"a feature has the unknown field {number}")
    return values


def _floats(content: bytes) -> np.ndarray:
    parts: list[bytes] = []
    for _, wire, one in _fields(content):
        if not isinstance(one, bytes) or wire not in {_BYTES, _FIXED32} or len(one) % 4:
            raise ValueError("a list of floats has other values")
        parts.append(one)
    return np.frombuffer(b"".join(parts), "<f4")


def _integers(content: bytes) -> np.ndarray:
    parts: list[np.ndarray] = []
    for _, _, one in _fields(content):
        is_packed = isinstance(one, bytes)
        parts.append(varints(one) if is_packed else np.array([one], np.uint64).view(np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def varints(packed: bytes) -> np.ndarray:
    """Decode integers of seven bits per byte, the lowest first, each byte but the last marked."""
    if len(packed) == 1 and packed[0] < _MARK:
        return np.array([packed[0]], np.int64)
    groups = np.frombuffer(packed, np.uint8)
    stops = np.flatnonzero(groups < _MARK) + 1
    if not len(groups):
        return np.zeros(0, np.int64)
    if not len(stops) or stops[-1] != len(groups):
        raise ValueError("a list of integers is cut off")
    lengths = np.diff(stops, prepend=0)
    if lengths.max() > _VARINT_NBYTES_MAX:
        raise ValueError("an integer has more than 64 bits")
    places = np.arange(len(groups)) - np.repeat(stops - lengths, lengths)
    bits = (groups & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, stops - lengths).view(np.int64)


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Yield number, wire type and content of each field of a message; of a varint its value."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"a field has the unknown wire type {wire}")
        if at + length > end:
            raise ValueError("a field is cut off")
        yield number, wire, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, group in enumerate(data[at : at + _VARINT_NBYTES_MAX]):
        value |= (group & 0x7F) << 7 * place
        if group < _MARK:
            return value & (1 << 64) - 1, at + place + 1
    raise ValueError("a number is cut off, or has more than 64 bits")
