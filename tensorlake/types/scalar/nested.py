"""Values of Arrow types without a tensor type of their own, as JSON and back, none of them changed.

    Arrow                                    JSON
    bool, integers, floats, strings          as JSON; NaN and infinities "NaN", "Infinity"
    decimals, dates, times, timestamps       text: "12.50", "2026-03-01", "12:30:00.000"
    durations                                the count of their units
    binary                                   text in base64
    struct                                   object, each field present
    map                                      object; keys that are not strings as text
    list, fixed-size list                    array

A type is written as Arrow writes it, without names of list items, and field names that are not
words in quotes: ``struct<id: int64, "a b": list<decimal128(10, 2)>>``. Large and view layouts,
dictionaries, RLE and extensions are not part of it: they do not change values.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["arrow_type_text", "decode_rows", "encode_rows", "first_misfit", "parse_arrow_type"]

Arrow = Any  # pyarrow ships no types
Change = Callable[[Any, Any], Any]

_TOKEN = re.compile(
    r"""\s*("(?:[^"\\]|\\.)*"|decimal\d+\(\d+,\ -?\d+\)|fixed_size_binary\[\d+\]
    |(?:timestamp|duration|time32|time64|date32|date64)\[[^\]]*\]|\w+|[<>:,]|\[\d+\])""",
    re.VERBOSE,
)
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}
_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_DEPTH_MAX = 64


def arrow_type_text(kind: Arrow) -> str | None:
    """Write an Arrow type; None if its values cannot be kept (unions, calendar intervals)."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return arrow_type_text(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return arrow_type_text(kind.value_type)
    if types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [arrow_type_text(field.type) for field in kind]
        if not names or len(set(names)) < len(names) or None in parts:
            return None
        shown = [one if re.fullmatch(r"\w+", one) else json.dumps(one) for one in names]
        return f"struct<{', '.join(map('{}: {}'.format, shown, parts))}>"
    if types.is_map(kind):
        key, item = arrow_type_text(kind.key_type), arrow_type_text(kind.item_type)
        is_nested = types.is_nested(kind.key_type)
        return None if key is None or item is None or is_nested else f"map<{key}, {item}>"
    if types.is_nested(kind):
        if not hasattr(kind, "value_type"):  # a union
            return None
        item = arrow_type_text(kind.value_type)
        size = f"[{kind.list_size}]" if types.is_fixed_size_list(kind) else ""
        return None if item is None else f"list<{item}>{size}"
    if types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return "binary"
    return None if types.is_interval(kind) else str(kind)


@lru_cache(maxsize=256)
def parse_arrow_type(text: str) -> Arrow:
    """Return the Arrow type that `arrow_type_text` wrote.

    Raises:
        ValueError: It is not the text of a type.
    """
    tokens = [one[1] for one in _TOKEN.finditer(text)]
    if "".join(tokens).replace(" ", "") != text.replace(" ", ""):
        raise ValueError(f"{text!r} is not an Arrow type")
    left = iter([*tokens, ""])
    kind, rest = _parsed(left, next(left), 0)
    if rest:
        raise ValueError(f"{text!r} is not an Arrow type: {rest!r} follows its end")
    return kind


def _parsed(tokens: Iterator[str], word: str, depth: int) -> tuple[Arrow, str]:
    """Parse a type that begins with a word; return it and the token behind it."""
    import pyarrow as pa

    if depth > _DEPTH_MAX:
        raise ValueError("an Arrow type that is nested too deeply")
    if word not in ("struct", "list", "map"):
        return _leaf(word), next(tokens, "")
    if next(tokens, "") != "<":
        raise ValueError(f"{word} without <…>")
    parts: list[Any] = []
    end = ","
    while end == ",":
        name = next(tokens, "")
        if word == "struct":
            if next(tokens, "") != ":":
                raise ValueError(f"the field {name!r} has no type")
            own, end = _parsed(tokens, next(tokens, ""), depth + 1)
            parts.append((json.loads(name) if name.startswith('"') else name, own))
        else:
            own, end = _parsed(tokens, name, depth + 1)
            parts.append(own)
    rest = next(tokens, "")
    if end != ">" or (word != "struct" and len(parts) != 1 + (word == "map")):
        raise ValueError(f"{word}<…> has {len(parts)} types, or no end")
    if word == "struct":
        return pa.struct(parts), rest
    if word == "map":
        return pa.map_(*parts), rest
    if re.fullmatch(r"\[\d+\]", rest):
        return pa.list_(parts[0], int(rest[1:-1])), next(tokens, "")
    return pa.list_(parts[0]), rest


def _leaf(token: str) -> Arrow:
    import pyarrow as pa

    match re.fullmatch(r"(\w+?)(\d*)[\[(](.*)[\])]", token):
        case re.Match() as found if found[1] == "decimal":
            precision, scale = found[3].split(",")
            return getattr(pa, f"decimal{found[2]}")(int(precision), int(scale))
        case re.Match() as found if found[1] == "fixed_size_binary":
            return pa.binary(int(found[3]))
        case re.Match() as found if found[1] == "timestamp" and ", tz=" in found[3]:
            return pa.timestamp(*found[3].split(", tz="))
        case _:
            return pa.type_for_alias(token)


def encode_rows(rows: Arrow) -> list[bytes | None]:
    """Return an Arrow array as one JSON text per row; None is NULL.

    Raises:
        KeyError: A map has a key twice.
    """
    import pyarrow as pa

    array = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = array.type
    floats = _Floats()
    values = _rebuilt(array, _plain_kind(kind), floats.look).to_pylist(maps_as_pydicts="strict")
    if floats.has_others:
        values = [_changed(one, kind, _named) for one in values]
    return [None if one is None else _text(one) for one in values]


def decode_rows(texts: Sequence[Any], kind: Arrow) -> Arrow:
    """Return JSON texts, None among them, as an Arrow array of a type."""
    import pyarrow as pa

    values = [None if one is None else _value(bytes(one), kind) for one in texts]
    plain = pa.array(values, _plain_kind(kind))
    return _rebuilt(plain, kind, _restored)


def first_misfit(value: Any, kind: Arrow) -> str | None:
    """Describe what Arrow's conversion of a Python value would drop or shift; None if nothing."""
    import pyarrow as pa

    if isinstance(value, dict) and pa.types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        other = next((one for one in value if one not in fields), None)
        if other is not None:
            return f"a field {other!r}, which {', '.join(map(repr, fields))} does not have"
        found = (first_misfit(one, fields[name]) for name, one in value.items())
        return next((one for one in found if one is not None), None)
    if isinstance(value, list | tuple) and pa.types.is_nested(kind) and hasattr(kind, "value_type"):
        found = (first_misfit(one, kind.value_type) for one in value)
        return next((one for one in found if one is not None), None)
    if pa.types.is_timestamp(kind) and isinstance(value, dt.datetime):
        is_aware = value.tzinfo is not None
        if is_aware is (kind.tz is None):
            return f"{value!r} {'with' if is_aware else 'without'} a time zone"
    return None


class _Floats:
    """The leaves of an array as JSON has them; remembers whether a number was not finite."""

    has_others = False

    def look(self, leaf: Arrow, kind: Arrow) -> Arrow:
        import pyarrow as pa
        import pyarrow.compute

        pc: Arrow = pyarrow.compute
        if pa.types.is_floating(leaf.type):
            self.has_others |= pc.all(pc.is_finite(leaf)).as_py() is False
        if _is_binary(leaf.type):
            texts = [
                None if one is None else base64.b64encode(one).decode() for one in leaf.to_pylist()
            ]
            return pa.array(texts, kind)
        return leaf.cast(kind)


def _restored(leaf: Arrow, kind: Arrow) -> Arrow:
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    if _is_binary(kind):
        contents = [None if one is None else base64.b64decode(one) for one in leaf.to_pylist()]
        return pa.array(contents, kind)
    if pa.types.is_time(kind):  # Arrow parses no times, but timestamps
        return (
            pc.binary_join_element_wise("1970-01-01", leaf, " ")
            .cast(pa.timestamp(kind.unit))
            .cast(kind)
        )
    if pa.types.is_null(kind):
        return pa.nulls(len(leaf))
    return leaf.cast(kind)


def _plain_kind(kind: Arrow, *, is_key: bool = False) -> Arrow:
    """Return the Arrow type of values as JSON has them."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        return pa.struct([(field.name, _plain_kind(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain_kind(kind.key_type, is_key=True), _plain_kind(kind.item_type))
    if types.is_nested(kind):
        return pa.list_(_plain_kind(kind.value_type))
    if types.is_duration(kind):
        return pa.string() if is_key else pa.int64()
    if is_key or types.is_null(kind):
        return pa.string()
    if types.is_floating(kind):
        return pa.float64()
    is_same = types.is_integer(kind) or types.is_boolean(kind)
    return kind if is_same else pa.string()


def _rebuilt(array: Arrow, kind: Arrow, leaf: Change) -> Arrow:
    """Nest the changed leaves of an array again, without what is behind its NULLs."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    types = pa.types
    missing = array.is_null() if array.null_count else None
    if types.is_struct(kind):
        parts = zip(array.flatten(), kind, strict=True)
        children = [_rebuilt(child, field.type, leaf) for child, field in parts]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)
    if not types.is_nested(kind):
        return leaf(array, kind)
    is_map = types.is_map(array.type)
    if is_map:
        pair = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        array = array.cast(pa.list_(pair))
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    items = array.flatten()
    if is_map:
        keys = _rebuilt(items.field("key"), kind.key_type, leaf)
        values = _rebuilt(items.field("value"), kind.item_type, leaf)
        if missing is not None:
            offsets = pc.if_else(pa.concat_arrays([missing, pa.array([False])]), None, offsets)
        return pa.MapArray.from_arrays(offsets, keys, values)
    inner = _rebuilt(items, kind.value_type, leaf)
    lists = pa.ListArray.from_arrays(offsets, inner, mask=missing)
    return lists.cast(kind)


def _changed(value: Any, kind: Arrow, change: Change) -> Any:
    """Return a plain value with each of its floats changed."""
    import pyarrow as pa

    if isinstance(value, dict):
        if pa.types.is_map(kind):
            return {name: _changed(one, kind.item_type, change) for name, one in value.items()}
        return {name: _changed(one, kind.field(name).type, change) for name, one in value.items()}
    if isinstance(value, list):
        return [_changed(one, kind.value_type, change) for one in value]
    return change(value, kind) if pa.types.is_floating(kind) else value


def _named(value: Any, kind: Arrow) -> Any:
    del kind
    return _NAMES.get(str(value), value)


def _number(value: Any, kind: Arrow) -> Any:
    del kind
    return _NOT_FINITE[value] if isinstance(value, str) else value


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _value(text: bytes, kind: Arrow) -> Any:
    value = json.loads(text)
    has_names = b'"NaN"' in text or b'Infinity"' in text
    return _changed(value, kind, _number) if has_names else value


def _is_binary(kind: Arrow) -> bool:
    import pyarrow as pa

    return pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
