"""Uuid: one 128-bit identifier per row, stored as its 36 characters.

Stored as a string, because queries compare it with strings, and a chunk of hexadecimal digits
compresses to about half.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch
from tensorlake.types.base.mixins import Encoded

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Uuid"]

_NBYTES = 16


@dataclass(frozen=True, slots=True)
class Uuid(Encoded, SampleType):
    """An identifier as RFC 9562 writes it; read as `uuid.UUID`.

    >>> Uuid().convert(["6BA7B810-9DAD-11D1-80B4-00C04FD430C8"], tensor="id").samples
    [b'6ba7b810-9dad-11d1-80b4-00c04fd430c8']
    """

    kind: ClassVar[str] = "uuid"

    def __post_init__(self) -> None:
        if isinstance(self.default, uuid.UUID):
            object.__setattr__(self, "default", str(self.default))
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """A string of 36 characters, in lower case."""
        return "text"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "a UUID, its text or its 16 bytes (Uuid)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept `uuid.UUID`, text in any of its spellings, and 16 bytes."""
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            try:
                encoded.append(str(_parse(sample)).encode())
            except ValueError as error:
                raise dtype_mismatch(place, position, describe_value(sample)) from error
        return EncodedColumn(encoded)

    def present_sample(self, sample: bytes) -> Any:
        """Return the `uuid.UUID`."""
        return uuid.UUID(sample.decode())

    def query_sample(self, sample: bytes) -> Any:
        """Return the identifier's text."""
        return sample.decode()

    def json_value(self, value: Any) -> Any:
        """Return the identifier's text."""
        shown = SampleType.json_value(self, value)
        return None if shown is None else str(shown)


def _parse(sample: Any) -> uuid.UUID:
    if isinstance(sample, uuid.UUID):
        return sample
    if isinstance(sample, str):
        return uuid.UUID(sample)
    if isinstance(sample, bytes) and len(sample) == _NBYTES:
        return uuid.UUID(bytes=sample)
    raise ValueError("no UUID")
