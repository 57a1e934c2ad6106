"""Conversion of tables in memory to Arrow tables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tensorlake.dataset.write.arrow.columns import arrow_array, arrow_field
from tensorlake.dataset.write.arrow.values import check_names, given_sample
from tensorlake.dataset.write.frame_columns import written_types
from tensorlake.errors import InvalidInputError
from tensorlake.types import Json, holds_floats, untiled_column

__all__ = ["as_table"]

Arrow = Any  # pyarrow ships no types

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # as pandas and Arrow name it


def as_table(src: Any) -> Arrow:
    """Return what speaks Arrow as a table.

    Raises:
        InvalidInputError: It does not, has a column of values of several types, or a name twice.
    """
    table = _as_table(src)
    check_names(table)
    return table


def _as_table(src: Any) -> Arrow:
    import pyarrow as pa

    if isinstance(src, pa.Table):
        return src
    if hasattr(src, "__arrow_c_stream__"):
        if hasattr(src, "iloc"):
            src = _with_named_range(src)
        ours = _own_columns(src) if hasattr(src, "iloc") else {}
        try:
            table = pa.table(src.drop(columns=[*ours]) if ours else src)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # a column of objects of two kinds
            reason = "; ".join(str(one) for one in error.args)
            message = f"{type(src).__name__} has a column of several types: {reason}"
            raise InvalidInputError(f"{message}\nconvert the column to one type") from error
        if ours:
            fields = {one.name: (one, table[one.name]) for one in table.schema} | ours
            names = dict.fromkeys((*(str(one) for one in src.columns), *fields))
            schema = pa.schema([fields[name][0] for name in names])
            table = pa.table([fields[name][1] for name in names], schema=schema)
        table = _without_views(table)
        # An index without a name, of anything but the numbers of the rows, is a column of its own.
        unnamed = [name for name in table.column_names if _UNNAMED_INDEX.fullmatch(name)]
        given = ["index"] if len(unnamed) == 1 else [f"index_{at}" for at in range(len(unnamed))]
        if unnamed and not {*given}.intersection(table.column_names):
            names = dict(zip(unnamed, given, strict=True))
            table = table.rename_columns([names.get(name, name) for name in table.column_names])
        # The index of ds.to_pandas(): row numbers, which the new dataset has anyway.
        return table.drop_columns(["_row"]) if "_row" in table.column_names else table
    if hasattr(src, "to_arrow_table"):  # DuckDB's relations
        return src.to_arrow_table()
    raise InvalidInputError(
        f"tl.ingest.arrow takes a table, got {type(src).__name__}"
        "\ngive a pyarrow.Table, a DataFrame, or what has __arrow_c_stream__",
        actual=type(src).__name__,
    )


def _without_views(table: Arrow) -> Arrow:
    """Convert polars' string and binary views to types that every function of Arrow accepts."""
    import pyarrow as pa

    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    for at, field in enumerate(table.schema):
        kind, column = field.type, table.column(at)
        if str(kind) in plain:
            table = table.set_column(
                at, field.with_type(plain[str(kind)]), column.cast(plain[str(kind)])
            )
        elif pa.types.is_dictionary(kind) and str(kind.value_type) in plain:
            text = plain[str(kind.value_type)]
            chunks = [
                pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(text))
                for one in column.chunks
            ]
            made = pa.chunked_array(chunks, pa.dictionary(kind.index_type, text))
            table = table.set_column(at, field.with_type(made.type), made)
        elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and str(
            kind.value_type
        ) in plain:
            items = pa.large_list(plain[str(kind.value_type)])
            table = table.set_column(at, field.with_type(items), column.cast(items))
    return table


def _with_named_range(frame: Any) -> Any:
    """Return a DataFrame with its index as a column, where Arrow would drop it: a named range."""
    name = getattr(frame.index, "name", None)
    is_dropped = type(frame.index).__name__ == "RangeIndex" and name not in (None, "_row")
    if not is_dropped or name in frame.columns:
        return frame
    return frame.reset_index()[[*frame.columns, name]]


def _own_columns(frame: Any) -> dict[str, tuple[Arrow, Arrow]]:
    """Columns of a DataFrame that Arrow's converter would change, as fields and arrays.

    Those that `to_pandas` wrote, whose types are known, and objects: dicts, which are JSON, each
    with its own members.
    """
    types = dict(written_types(frame))
    for name in frame.columns:
        if name not in types and frame[name].dtype == object:
            given = [one for one in frame[name] if one is not None]
            if any(map(_holds_dicts, given)):
                types[name] = Json()
    ours: dict[str, tuple[Arrow, Arrow]] = {}
    for name, written in types.items():
        is_float = written.dtype is not None and holds_floats(written.dtype)
        has_null = bool(frame[name].isna().any()) and (written.nullable or not is_float)
        sample_type = replace(written, nullable=True) if has_null else written
        values: Any = frame[name]
        if sample_type.is_media:  # whose samples are bytes, as stored
            values = [
                given_sample(sample_type, one) if isinstance(one, bytes) else one for one in values
            ]
        column = sample_type.convert(values, tensor=str(name), call="tl.ingest.arrow()")
        field = arrow_field(str(name), sample_type)
        ours[str(name)] = field, arrow_array(sample_type, untiled_column(sample_type, column))
    return ours


def _holds_dicts(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_dicts, value)))
