"""Rows uploaded as an Arrow stream: their size, computed before they are unpacked.

    message   0xFFFFFFFF · i32 length · flatbuffer: Message ─► RecordBatch ─► buffers, compression
    body      each buffer: i64 unpacked length (−1: it is not packed) · packed bytes

A few kilobytes of Zstandard unpack to gigabytes, and the length that a buffer states is what Arrow
allocates. So the lengths are read from the messages' headers first, and their sum is bounded.
Values that are stored once and referred to many times (dictionaries, views, NULLs) are counted at
each use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake_server.bodies.json import too_many_values
from tensorlake_server.http.problems import Problem

__all__ = ["MAX_ARROW_VALUES", "read_arrow"]

MAX_ARROW_VALUES = 16_000_000
"""Values that become objects of Python, of 32 bytes and more each; plain numbers do not."""

RECORD_BATCH, DICTIONARY_BATCH = 3, 2  # MessageHeader, in Arrow's Message.fbs
LENGTH = struct.Struct("<q")
STATED_NBYTES = LENGTH.size


def read_arrow(body: bytes, *, most_nbytes: int, hold: Callable[[int], None]) -> Any:
    """Read an Arrow stream as a table.

    Args:
        body: The stream.
        most_nbytes: That its rows may take, unpacked.
        hold: Told of how many they take before they do; may refuse.

    Raises:
        Problem: 413, they take more.
        InvalidInputError: It is not a complete stream, or has columns of unbounded size.
    """
    import pyarrow as pa

    try:
        nbytes = sum(_unpacked_nbytes(body))
        if nbytes > most_nbytes:
            raise _too_large(nbytes, most_nbytes)
        hold(nbytes)
        table = pa.ipc.open_stream(body).read_all()
        table.validate()  # that buffers are as long as they must be
        _check_weight(table, most_nbytes)
        table.validate(full=True)  # every text: of a million views of one, for minutes
    except (pa.ArrowException, struct.error, ValueError, OSError, IndexError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"the body is not a complete Arrow stream: {error}") from error
    return table


def _check_weight(table: Any, most_nbytes: int) -> None:
    weight = _Weight()
    for column in table.columns:
        for chunk in column.chunks:
            weight.add(chunk, is_plain=column.null_count == 0)
    if weight.values > MAX_ARROW_VALUES:
        raise too_many_values("values other than plain numbers as Arrow", MAX_ARROW_VALUES)
    if weight.nbytes > most_nbytes:
        raise _too_large(weight.nbytes, most_nbytes)


def _too_large(nbytes: int, most: int) -> Problem:
    return Problem(
        413,
        "content-too-large",
        f"the rows of the Arrow stream take {nbytes:,} bytes unpacked, and {most:,} are allowed"
        "\nsend them in several transactions",
    )


def _unpacked_nbytes(body: bytes) -> Iterator[int]:
    """Yield what the buffers of each message take once they are unpacked."""
    import pyarrow as pa

    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    for message in messages:
        root = _Flat.root(memoryview(message.metadata))
        kind, header = root.scalar("<B", 1), root.table(2)
        if kind == DICTIONARY_BATCH and header is not None:
            header = header.table(1)
        if header is None or kind not in (RECORD_BATCH, DICTIONARY_BATCH):
            continue
        is_packed = header.table(3) is not None
        data = memoryview(message.body or b"")
        for offset, nbytes in header.pairs(2):
            if not is_packed or not nbytes:
                yield nbytes
                continue
            (stated,) = LENGTH.unpack_from(data, offset)
            if stated < -1:
                raise ValueError(f"a buffer states {stated} bytes")
            yield nbytes - STATED_NBYTES if stated == -1 else stated


@dataclass(frozen=True, slots=True)
class _Flat:
    """A table of a flatbuffer: its fields are found by their number."""

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> _Flat:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def scalar(self, kind: str, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else struct.unpack_from(kind, self.data, place)[0]

    def table(self, field: int) -> _Flat | None:
        place = self._place(field)
        return None if place is None else _Flat(self.data, self._target(place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the structs of two i64 of a vector."""
        place = self._place(field)
        if place is None:
            return
        start = self._target(place)
        (count,) = struct.unpack_from("<I", self.data, start)
        yield from struct.iter_unpack("<qq", self.data[start + 4 : start + 4 + 16 * count])

    def _target(self, place: int) -> int:
        return place + struct.unpack_from("<I", self.data, place)[0]

    def _place(self, field: int) -> int | None:
        fields = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        (nbytes,) = struct.unpack_from("<H", self.data, fields)
        entry = 4 + 2 * field
        if entry >= nbytes:
            return None
        (offset,) = struct.unpack_from("<H", self.data, fields + entry)
        return self.at + offset if offset else None


class _Weight:
    """The memory of columns where each value is a Python object.

    Attributes:
        values: Objects, those in lists too.
        nbytes: The size of strings and bytes that are stored once and read many times.
    """

    def __init__(self) -> None:
        self.values = 0
        self.nbytes = 0

    def add(self, array: Any, *, is_plain: bool = False) -> None:
        """Count an array and its nested arrays."""
        import pyarrow.types as pt

        kind = array.type
        if is_plain and (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)):
            return
        self.values += len(array)
        if hasattr(array, "storage"):
            self.add(array.storage)
        elif pt.is_dictionary(kind):
            self.add(array.dictionary)
            self.nbytes += len(array) * _longest(array.dictionary)
        elif pt.is_string_view(kind) or pt.is_binary_view(kind):
            self.nbytes += int(_view_lengths(array).sum(dtype=np.int64))
        elif pt.is_struct(kind):
            for number in range(kind.num_fields):
                self.add(array.field(number))
        elif pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
            first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
            self.add(_items(array).slice(first, last - first))
        elif pt.is_fixed_size_list(kind):
            self.add(array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size))
        elif pt.is_nested(kind) or pt.is_run_end_encoded(kind):
            raise InvalidInputError(
                f"the Arrow stream has a column of {kind}, whose unpacked size is unbounded"
                "\nsend plain columns: lists, structs, dictionaries of texts"
            )


def _items(array: Any) -> Any:
    import pyarrow as pa

    if isinstance(array, pa.MapArray):
        return pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return array.values


def _longest(dictionary: Any) -> int:
    """How many bytes the longest entry of a dictionary has; 8 unless it is a string."""
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.types as pt

    kind, compute = dictionary.type, cast("Any", pyarrow.compute)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return int(_view_lengths(dictionary).max(initial=0))
    if (
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
    ):
        return int(compute.max(compute.binary_length(dictionary)).as_py() or 0)
    if pt.is_nested(kind) or pt.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        raise InvalidInputError(
            f"the Arrow stream has a dictionary of {kind}, whose unpacked size is unbounded"
            "\nsend plain columns: lists, structs, dictionaries of texts"
        )
    return 8


def _view_lengths(array: Any) -> Any:
    """The lengths of texts that are views: the first of the four numbers of each."""
    words = np.frombuffer(array.buffers()[1] or b"", np.int32)[::4]
    lengths = words[array.offset : array.offset + len(array)]
    if len(lengths) != len(array) or lengths.min(initial=0) < 0:
        raise ValueError("a text has a length below none")
    return lengths
