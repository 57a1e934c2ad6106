"""The bytes of a field in many rows, and what reads those of one dtype together.

A row at a time costs some calls of Python a field; numbers, and arrays of one length, are read by
NumPy for all rows of a piece. Whatever does not fit is read row by row, where an error names it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.ingest.records.values import array_of
from tensorlake.types import Bytes, ClassLabel, SampleType, Text

__all__ = ["FieldParts", "PackedNumbers", "read_together"]

GATHERED_NBYTES_MAX = 64 << 10
"""Largest value that is copied by an index for each byte; larger ones are joined."""

_FORMS = dict(zip("u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split(), "BbHhIiQqefd", strict=True))  # noqa: SIM905 - pairs
"""Forms of the module struct, by dtype."""


@dataclass(frozen=True, slots=True)
class FieldParts:
    """The bytes of a field in each of some rows.

    Attributes:
        content: Bytes of all rows.
        starts: Where those of each row begin, int64.
        stops: Where they end.
    """

    content: bytes
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    def each(self) -> list[bytes]:
        """Return the bytes of each row."""
        content = self.content
        pairs = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return [content[start:stop] for start, stop in pairs]

    def together(self) -> bytes | None:
        """Return the bytes of all rows, one after another; None where they differ in length."""
        lengths = self.stops - self.starts
        if not len(lengths) or bool((lengths != lengths[0]).any()):
            return None
        nbytes = int(lengths[0])
        if not 0 < nbytes <= GATHERED_NBYTES_MAX:
            return b"".join(self.each())
        whole = np.frombuffer(self.content, np.uint8)
        return np.lib.stride_tricks.sliding_window_view(whole, nbytes)[self.starts].tobytes()


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """Reads values of one dtype in C order.

    >>> PackedNumbers(np.dtype("<i8"), ())(bytes([7, 0, 0, 0, 0, 0, 0, 0]))
    7

    Attributes:
        dtype: Dtype of the elements.
        shape: Shape of a value: () of a number, (None,) of an array of any length.
    """

    dtype: np.dtype
    shape: tuple[int | None, ...]
    _form: struct.Struct | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not self.shape:
            form = _FORMS[self.dtype.newbyteorder("<").str[1:]]
            object.__setattr__(self, "_form", struct.Struct(f"<{form}"))

    def __call__(self, content: bytes) -> Any:
        """Return one value.

        Raises:
            ValueError: The bytes are not that.
        """
        if self._form is not None:
            if len(content) != self._form.size:
                raise ValueError(f"{len(content):,} bytes are not {self.dtype}")
            return self._form.unpack(content)[0]
        if None in self.shape:
            return array_of(content, self.dtype, (len(content) // self.dtype.itemsize,))
        return array_of(content, self.dtype, [one or 0 for one in self.shape])

    def of(self, parts: FieldParts) -> np.ndarray | None:
        """Return the values of all rows; None where they are not of one length, or not that."""
        content = parts.together()
        if content is None or len(content) % self.dtype.itemsize:
            return None
        values, rows = np.frombuffer(content, self.dtype), len(parts.starts)
        if None in self.shape:
            nbytes = len(content) // rows
            return None if nbytes % self.dtype.itemsize else values.reshape(rows, -1)
        shape = [one or 0 for one in self.shape]
        return values.reshape(rows, *shape) if len(values) == rows * math.prod(shape) else None


def read_together(kind: SampleType, decode: Any) -> Callable[[FieldParts], Any] | None:
    """Return what reads a field of all rows for a type; None: it is read row by row."""
    if isinstance(decode, PackedNumbers):
        is_code = isinstance(kind, ClassLabel) and not kind.is_many
        has_same = kind.dtype is not None and kind.dtype == decode.dtype.newbyteorder("=")
        return decode.of if (has_same and kind.dtype != np.bool_) or is_code else None
    if decode is not bytes:
        return None
    if isinstance(kind, Text):
        return lambda parts: [one.decode() for one in parts.each()]
    is_ours = type(kind).__module__.startswith("tensorlake.")
    return FieldParts.each if isinstance(kind, Bytes) or (kind.is_media and is_ours) else None
