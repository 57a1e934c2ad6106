"""Bytes: one string of arbitrary bytes per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch
from tensorlake.types.base.file import given_bytes
from tensorlake.types.base.mixins import Encoded

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Bytes"]


@dataclass(frozen=True, slots=True)
class Bytes(Encoded, SampleType):
    r"""Opaque bytes, given as bytes, a Path, a `tl.File` or an open binary file.

    >>> Bytes().convert([b"\x00\x01"], tensor="blob").samples
    [b'\x00\x01']
    """

    kind: ClassVar[str] = "bytes"

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """Bytes; a query sees their length."""
        return "bytes"

    @property
    def codec_default(self) -> Literal["raw"]:
        """Raw: the content is unknown, and often compressed already."""
        return "raw"

    @property
    def media_type(self) -> str:
        """Unknown."""
        return "application/octet-stream"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "bytes (Bytes)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept bytes and files; a str is an error, since it could be either."""
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            if isinstance(sample, str):
                hint = "give tl.File(path) for a file's content, or value.encode()"
                raise dtype_mismatch(place, position, describe_value(sample), hint=hint)
            content = given_bytes(sample, place, position)
            if content is None:
                raise dtype_mismatch(place, position, describe_value(sample))
            encoded.append(content)
        return EncodedColumn(encoded)
