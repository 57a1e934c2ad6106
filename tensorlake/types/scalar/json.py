"""Json: one JSON value per row, stored as canonical UTF-8 (sorted keys, no spaces).

Only values that JSON can represent are accepted: a NaN, a key that is not a string or a Python
object is an error rather than changed. Tuples and arrays become lists, NumPy's numbers become
numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import shown
from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn
from tensorlake.types.base.errors import dtype_mismatch, unreadable
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.mixins import Encoded

if TYPE_CHECKING:
    from tensorlake.types.base.errors import Place

__all__ = ["Json", "StoredJson"]

_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_SCALARS = {str, int, float, bool, type(None)}


@dataclass(frozen=True, slots=True)
class StoredJson:
    """One row's value as stored, by code that made it so: canonical JSON."""

    sample: bytes


@dataclass(frozen=True, slots=True)
class Json(Encoded, SampleType):
    """One JSON value per row. A str is a JSON string; only a `tl.File` reads a file.

    >>> Json().convert([{"b": 1, "a": [True]}], tensor="meta").samples
    [b'{"a":[true],"b":1}']
    """

    kind: ClassVar[str] = "json"

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """A JSON value."""
        return "json"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "a value that JSON can hold (Json)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept dicts, lists, strings, numbers and bools, and files of JSON."""
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            if isinstance(sample, StoredJson):
                encoded.append(sample.sample)
                continue
            value = _read_json(sample, place, position) if isinstance(sample, File) else sample
            try:
                plain = value if _is_plain(value) else _plain(value)
                encoded.append(_encoder.encode(plain).encode())
            except (ValueError, RecursionError) as error:  # ValueError: NaN, lone surrogates
                raise dtype_mismatch(place, position, _reason(error)) from error
        return EncodedColumn(encoded)

    def present_sample(self, sample: bytes) -> Any:
        """Return the value."""
        return json.loads(sample)


def _reason(error: Exception) -> str:
    if str(error).startswith("Out of range float"):  # the message of Python's encoder
        return "a number that it cannot represent: NaN or infinity"
    return str(error)


def _is_plain(value: Any) -> bool:
    """Whether a value has JSON's own types only; one call per container, and no copies."""
    kind = type(value)
    if kind is dict:
        if not all(type(key) is str for key in value):
            return False
        items = value.values()
    elif kind is list:
        items = value
    else:
        return kind in _SCALARS
    return all(type(item) in _SCALARS or _is_plain(item) for item in items)


def _plain(value: Any) -> Any:
    """Return the value in JSON's own types; ValueError names a value without one."""
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.names is not None:
            raise ValueError("a structured array, whose names a list would lose")
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"a dict with the key {shown(key)}, not str")  # noqa: TRY004 -- as JSON's
        return {key: _plain(item) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} {shown(value)}")


def _read_json(sample: File, place: Place, position: int) -> Any:
    content = given_bytes(sample, place, position)
    assert isinstance(content, bytes)  # as a File's is
    try:
        return json.loads(content)
    except ValueError as error:
        reason = f"cannot take {str(sample.path)!r}: not JSON: {error}"
        raise unreadable(place, position, reason) from error
