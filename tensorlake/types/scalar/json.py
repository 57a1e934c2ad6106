"""Json: one JSON value per row, stored as canonical UTF-8 (sorted keys, no spaces).

Only values that JSON can represent are accepted: a NaN, a key that is not a string or a Python
object is an error rather than changed. Tuples and arrays become lists, NumPy's numbers become
numbers.

With an Arrow type, values are that type's: decimals, dates, structs, maps, lists with NULLs. They
are stored as JSON (`nested.py`), which queries see, and read and exported as Arrow has them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.types.base.base import NO_DEFAULT, QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn
from tensorlake.types.base.errors import dtype_mismatch, unreadable
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.mixins import Encoded
from tensorlake.types.scalar.nested import (
    arrow_type_text,
    decode_rows,
    encode_rows,
    first_misfit,
    parse_arrow_type,
)

if TYPE_CHECKING:
    from tensorlake.types.base.errors import Place

__all__ = ["Json", "StoredJson"]

_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_REFUSALS = (ValueError, TypeError, KeyError, NotImplementedError, OverflowError)
"""Arrow raises these, or errors that derive from them, for values that are not of a type."""
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
    >>> import datetime
    >>> when = Json(arrow="struct<day: date32[day]>")
    >>> when.present(when.convert([{"day": datetime.date(2026, 3, 1)}], tensor="when"))
    [{'day': datetime.date(2026, 3, 1)}]

    Attributes:
        arrow: The Arrow type of the values, as its text or a ``pyarrow.DataType``; None for any
            value that JSON can hold.
    """

    kind: ClassVar[str] = "json"

    arrow: Any = None

    def __post_init__(self) -> None:
        if self.arrow is not None:
            object.__setattr__(self, "arrow", _checked_arrow(self.arrow))
        check_default(self)

    def describe(self) -> str:
        """Show the Arrow type, where there is one: ``Json(struct<day: date32[day]>)``."""
        return "Json" if self.arrow is None else f"Json({self.arrow})"

    @property
    def arrow_type(self) -> Any:
        """The values' type as a ``pyarrow.DataType``; None if there is none."""
        return None if self.arrow is None else parse_arrow_type(self.arrow)

    @property
    def query_kind(self) -> QueryKind:
        """A JSON value."""
        return "json"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        if self.arrow is not None:
            return f"a value of the Arrow type {self.arrow} (Json)"
        return "a value that JSON can hold (Json)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept dicts, lists, strings, numbers and bools, and files of JSON.

        With an Arrow type, whatever ``pyarrow.array`` accepts for it.
        """
        if self.arrow is not None:
            return self._of_arrow(samples, place)
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

    def _of_arrow(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        if all(type(one) is StoredJson for one in samples):
            return EncodedColumn([one.sample for one in samples])
        values = samples.tolist() if isinstance(samples, np.ndarray) else samples
        for position, value in enumerate(values):
            reason = first_misfit(value, self.arrow_type)
            if reason is not None:
                raise dtype_mismatch(place, position, reason)
        try:
            return EncodedColumn(_encoded(values, self.arrow_type))
        except _REFUSALS:
            for position, value in enumerate(values):
                try:
                    _encoded([value], self.arrow_type)
                except _REFUSALS as error:
                    reason = f"{shown(value)}: {error}"
                    raise dtype_mismatch(place, position, reason) from error
            raise

    def present(self, column: Column, *, tensor: str = "", null: Any = NO_DEFAULT) -> Any:
        """Return the values; of an Arrow type those of ``pyarrow.Array.to_pylist``."""
        column = self.without_nulls(column, tensor=tensor, null=null)
        if self.arrow is None or not isinstance(column, EncodedColumn):
            return SampleType.present(self, column, tensor=tensor)
        rows = decode_rows(column.samples, self.arrow_type)
        return rows.to_pylist(maps_as_pydicts="strict")

    def present_sample(self, sample: bytes) -> Any:
        """Return the value."""
        if self.arrow is None:
            return json.loads(sample)
        return decode_rows([sample], self.arrow_type).to_pylist(maps_as_pydicts="strict")[0]

    def query_sample(self, sample: bytes) -> Any:
        """Return the value as JSON has it."""
        return json.loads(sample)

    def json_value(self, value: Any) -> Any:
        """Return the value as JSON has it."""
        column = replace(self, default=NO_DEFAULT, nullable=True).convert([value], tensor="value")
        assert isinstance(column, EncodedColumn)
        return None if column.valid is not None else json.loads(bytes(column.samples[0]))


def _checked_arrow(given: Any) -> str:
    """Return the canonical text of an Arrow type."""
    import pyarrow as pa

    try:
        kind = parse_arrow_type(given) if isinstance(given, str) else given
        text = arrow_type_text(kind) if isinstance(kind, pa.DataType) else None
    except (ValueError, AttributeError) as error:
        message = f"Json(arrow={shown(given)}): {error}\nwrite it as Arrow does: 'list<int64>'"
        raise SchemaError(message, actual=given) from error
    if text is None:
        raise SchemaError(
            f"Json cannot hold the Arrow type {shown(given)}"
            "\nunions, calendar intervals and structs without fields have no form in JSON",
            actual=given,
        )
    return text


def _encoded(values: list[Any], kind: Any) -> list[Buffer]:
    import pyarrow as pa

    return [one or b"" for one in encode_rows(pa.array(values, kind))]


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
