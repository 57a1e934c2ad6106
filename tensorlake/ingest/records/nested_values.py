"""Lists and dicts in LitData's compact form, which is JSON or begins with the number of a form.

    0 JSON · 1 texts · 2 int64s · 3 float64s · 4 booleans · 5 dict · 6 records of the same keys
    7 text · 8 int64 · 9 float64 · 10 boolean · 11 null

Counts and lengths are u32, little-endian. A value of a record begins with 16 null, 17 text, 18
int64, 19 float64 or 20 boolean.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

__all__ = ["parse_nested"]

_JSON_FROM = 0x21
"""JSON begins with a character from here on."""

_RECORD = 16
_OF_RECORDS = {_RECORD: 11, 17: 7, 18: 8, 19: 9, 20: 10}
"""The form of a value of a record, by the number that it begins with."""

DEPTH_MAX = 100


def parse_nested(content: bytes) -> Any:
    """Return the value.

    Raises:
        ValueError: It is not one, or cut off.
    """
    if not content or content[0] >= _JSON_FROM:
        return json.loads(content)
    reader = _Values(content)
    try:
        value = reader.value(0)
    except struct.error as error:
        raise ValueError("a nested value is cut off") from error
    if reader.at != len(content):
        raise ValueError("bytes follow a nested value")
    return value


class _Values:
    """Values of some bytes, one after another."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise ValueError(f"values are nested deeper than {DEPTH_MAX}")
        form = self._number("<B")
        match form:
            case 0:
                return json.loads(self._bytes(self._number("<I")))
            case 1:
                return [self._text() for _ in range(self._count())]
            case 2:
                return np.frombuffer(self._bytes(8 * self._count()), "<i8").tolist()
            case 3:
                return np.frombuffer(self._bytes(8 * self._count()), "<f8").tolist()
            case 4:
                return [bool(one) for one in self._bytes(self._number("<I"))]
            case 5:
                return {self._text(): self.value(depth + 1) for _ in range(self._count())}
            case 6:
                return self._records()
            case _:
                return self._single(form)

    def _single(self, form: int) -> Any:
        match form:
            case 7:
                return self._text()
            case 8:
                return self._number("<q")
            case 9:
                return self._number("<d")
            case 10:
                return bool(self._number("<B"))
            case 11:
                return None
            case _:
                raise ValueError(f"a nested value has the unknown form {form}")

    def _records(self) -> list[dict[str, Any]]:
        count, num_keys = self._count(), self._number("<I")
        if num_keys > len(self._content):
            raise ValueError("a nested value is cut off")
        keys = [self._text() for _ in range(num_keys)]
        if not keys:
            raise ValueError("records have no keys")
        return [{key: self._of_record() for key in keys} for _ in range(count)]

    def _of_record(self) -> Any:
        form = self._number("<B")
        if form not in _OF_RECORDS:
            raise ValueError(f"a record has a value of the unknown form {form}")
        return self._single(_OF_RECORDS[form])

    def _text(self) -> str:
        return self._bytes(self._number("<I")).decode()

    def _count(self) -> int:
        count = self._number("<I")
        if count > len(self._content):  # each has a byte at least
            raise ValueError("a nested value is cut off")
        return count

    def _number(self, form: str) -> Any:
        (number,) = struct.unpack_from(form, self._content, self.at)
        self.at += struct.calcsize(form)
        return number

    def _bytes(self, nbytes: int) -> bytes:
        if self.at + nbytes > len(self._content):
            raise ValueError("a nested value is cut off")
        self.at += nbytes
        return self._content[self.at - nbytes : self.at]
