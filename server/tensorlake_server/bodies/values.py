"""Values that clients send, as the SDK takes them.

    {"$base64": "…"}              bytes: an encoded image, or opaque bytes
    "NaN" "Infinity" "-Infinity"  numbers that JSON lacks
    "(1+2j)"                      a complex number
    a text                        of text, JSON, class labels, tags, times and UUIDs: the value

To the SDK a string given for an image is a *path*, to be read from the disk: the server's disk.
Texts are therefore refused for every type but those of which a text is a value; so are Arrow
columns of texts.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tensorlake.errors import DTypeMismatchError
from tensorlake.types import ClassLabel, Json, Sequence, Tags, Text, Timestamp, Uuid, holds_floats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.types import SampleType

__all__ = ["check_arrow_columns", "parse_columns", "parse_value"]

OF_TEXT = (Text, Json, ClassLabel, Tags, Timestamp, Uuid)
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
BASE64 = "$base64"


def parse_columns(
    columns: Mapping[str, list[Any]], schema: Mapping[str, SampleType]
) -> dict[str, list[Any]]:
    """Parse columns by tensor; what the schema does not know is left for the SDK to refuse.

    Raises:
        DTypeMismatchError: A string is given where none is a value.
    """
    return {
        name: [parse_value(value, name, schema) for value in values]
        for name, values in columns.items()
    }


def parse_value(value: Any, name: str, schema: Mapping[str, SampleType]) -> Any:
    """Parse one value of a tensor.

    Raises:
        DTypeMismatchError: A string is given where none is a value.
    """
    kind = schema.get(name)
    if kind is None:
        return value  # the SDK refuses it: there is none, or an expression computes it
    return value if _takes_texts(kind) else _parse(value, name, kind)


def check_arrow_columns(table: Any, schema: Mapping[str, SampleType]) -> None:
    """Refuse columns of strings for tensors whose values are not strings.

    Args:
        table: An Arrow table; pyarrow ships no types.
        schema: The dataset's schema.

    Raises:
        DTypeMismatchError: There is such a column.
    """
    for field in table.schema:
        kind = schema.get(field.name)
        if kind is not None and not _takes_texts(kind) and _holds_texts(field.type):
            raise _no_text(field.name, kind, str(field.type))


def _parse(value: Any, name: str, kind: SampleType) -> Any:
    if isinstance(value, list):
        return [_parse(item, name, kind) for item in value]
    if isinstance(value, str):
        if value in NUMBERS and kind.dtype is not None and holds_floats(kind.dtype):
            return NUMBERS[value]
        if kind.dtype is not None and kind.dtype.kind == "c":
            with suppress(ValueError):
                return complex(value)
        raise _no_text(name, kind, repr(value[:40]))
    if isinstance(value, dict):
        if set(value) != {BASE64} or not isinstance(value[BASE64], str):
            raise _no_text(name, kind, f"an object with {', '.join(map(repr, value))}")
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (binascii.Error, ValueError) as error:
            raise _no_text(name, kind, "what is not base64") from error
    return value


def _takes_texts(kind: SampleType) -> bool:
    return _takes_texts(kind.item) if isinstance(kind, Sequence) else isinstance(kind, OF_TEXT)


def _holds_texts(arrow_type: Any) -> bool:
    import pyarrow.types as pt

    if pt.is_string(arrow_type) or pt.is_large_string(arrow_type) or pt.is_string_view(arrow_type):
        return True
    if pt.is_dictionary(arrow_type):
        return _holds_texts(arrow_type.value_type)
    if pt.is_nested(arrow_type):
        return any(_holds_texts(arrow_type.field(i).type) for i in range(arrow_type.num_fields))
    return isinstance(arrow_type, _extension_type()) and _holds_texts(arrow_type.storage_type)


def _extension_type() -> Any:
    import pyarrow as pa

    return pa.BaseExtensionType


def _no_text(name: str, kind: SampleType, given: str) -> DTypeMismatchError:
    return DTypeMismatchError(
        f"{name!r} is {kind.describe()} and cannot be {given}"
        f'\ngive numbers, or bytes as {{"{BASE64}": "…"}}; a server reads no files for its clients',
        tensor=name,
        expected=kind.describe(),
        actual=given,
    )
