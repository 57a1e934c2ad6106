"""Text: one string per row, stored as UTF-8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np

from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, PackedSamples
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch, unreadable
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.mixins import Encoded

__all__ = ["Text"]

_MANY = 1 << 16  # of fewer, the strings are made in less time than pyarrow takes to import


@dataclass(frozen=True, slots=True)
class Text(Encoded, SampleType):
    r"""One string per row; ``"str"`` in a schema is short for it. Only a `tl.File` reads a file.

    >>> Text().convert(["grün"], tensor="caption").samples
    [b'gr\xc3\xbcn']
    """

    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """A string."""
        return "text"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "a str (Text)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept strings, and files of UTF-8 text."""
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            if isinstance(sample, str):
                encoded.append(_encode(sample, place, position))
            elif isinstance(sample, File):
                encoded.append(_read_text(sample, place, position))
            else:
                raise dtype_mismatch(place, position, describe_value(sample), hint=_hint(sample))
        return EncodedColumn(encoded)

    def present_sample(self, sample: bytes) -> Any:
        """Return the string."""
        return sample.decode()

    def present_samples(self, samples: Sequence[Buffer]) -> list[Any]:
        """Return the strings; of those that are end to end, many by pyarrow."""
        if not isinstance(samples, PackedSamples):
            return SampleType.present_samples(self, samples)
        if len(samples) >= _MANY:
            return _decoded(samples)
        first = int(samples.offsets[0])
        whole = samples.content[first : int(samples.offsets[-1])]
        bounds = pairwise((samples.offsets - first).tolist())
        if whole.isascii():
            text = whole.decode("ascii")
            return [text[start:stop] for start, stop in bounds]
        return [whole[start:stop].decode() for start, stop in bounds]


def _decoded(samples: PackedSamples) -> list[Any]:
    import pyarrow as pa

    array = cast("Any", pa.LargeStringArray)  # Any: pyarrow ships no types
    offsets = np.ascontiguousarray(samples.offsets, np.int64)
    content = pa.py_buffer(samples.content)
    strings = array.from_buffers(len(samples), pa.py_buffer(offsets), content)
    return strings.to_numpy(zero_copy_only=False).tolist()


def _encode(sample: str, place: Place, position: int) -> bytes:
    try:
        return sample.encode()
    except UnicodeEncodeError as error:
        shown = f"a str with {sample[error.start]!r}, which is not a character"
        raise dtype_mismatch(place, position, shown) from error


def _read_text(sample: File, place: Place, position: int) -> bytes:
    content = given_bytes(sample, place, position)
    assert isinstance(content, bytes)  # as a File's is
    try:
        content.decode()
    except UnicodeDecodeError as error:
        reason = f"cannot take {str(sample.path)!r}: not UTF-8 from byte {error.start}"
        raise unreadable(place, position, reason) from error
    return content


def _hint(sample: object) -> str:
    if isinstance(sample, bytes):
        return "give a str: value.decode()"
    return ""
