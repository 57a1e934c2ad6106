"""Structs of Hugging Face tables as columns of their own: classes and images keep their type.

    objects: [{bbox, category: ClassLabel}]     objects/bbox, objects/category     lists, a row each
    scene: {sky: {color: ClassLabel}}           scene/sky/color

Which columns are such structs is in the metadata of the table's schema, as `datasets` writes it to
tables and to Parquet; a struct without classes, images or sounds is left whole, and becomes JSON.
A class of -1, which Hugging Face gives to rows without a label, is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from tensorlake.dataset import huggingface_features

__all__ = ["SEPARATOR", "unnested"]

Arrow = Any  # pyarrow ships no types
Feature = Any  # parsed JSON

SEPARATOR = "/"
"""Between the name of a struct and the name of its field."""

TYPED = frozenset({"Audio", "ClassLabel", "Image"})
"""Features that JSON would lose."""

LISTS = ("LargeList", "List", "Sequence")


def unnested(table: Arrow, kept: Collection[str] = ()) -> Arrow:
    """Return a table without structs that hold classes or media: their fields are columns.

    Args:
        table: The table, or a part of it.
        kept: Columns that are left as they are.
    """
    import pyarrow as pa

    features = huggingface_features(table.schema)
    if not any(name not in kept and _is_typed(one) for name, one in features.items()):
        return table
    fields: list[Arrow] = []
    columns: list[Arrow] = []
    described: dict[str, Feature] = {}
    for at, field in enumerate(table.schema):
        feature = features.get(field.name)
        if feature is None or field.name in kept or not _is_typed(feature):
            fields.append(field)
            columns.append(table.column(at))
            described |= {field.name: feature} if feature is not None else {}
            continue
        for name, column, own in _columns(field.name, table.column(at), feature):
            metadata = field.metadata if name == field.name else None
            fields.append(pa.field(name, column.type, metadata=metadata))
            columns.append(column)
            described[name] = own
    written = json.dumps({"info": {"features": described}})
    metadata = {**(table.schema.metadata or {}), b"huggingface": written.encode()}
    return pa.table(columns, schema=pa.schema(fields, metadata=metadata))


def _is_typed(feature: Feature) -> bool:
    """Whether a feature is, or holds, one that JSON would lose."""
    match feature:
        case {"_type": str(kind)} if kind in TYPED:
            return True
        case {"_type": str(), "feature": inner} | [inner]:
            return _is_typed(inner)
        case {"_type": str()}:
            return False
        case {**fields}:
            return any(map(_is_typed, cast("Mapping[str, Feature]", fields).values()))
        case _:
            return False


def _columns(name: str, column: Arrow, feature: Feature) -> Iterator[tuple[str, Arrow, Feature]]:
    """Yield the columns that one becomes, each with its feature."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    types, kind = pa.types, column.type
    match feature:
        case {"_type": "ClassLabel"} if types.is_integer(kind):
            missing = pc.equal(column, -1)
            yield name, pc.if_else(missing, pa.scalar(None, kind), column), feature
        case {"_type": str(list_kind), "feature": {**inner}} if list_kind in LISTS:
            if types.is_struct(kind):  # a Sequence of a dict is stored as a dict of lists
                lists = {one: {"_type": "List", "feature": own} for one, own in inner.items()}
                yield from _columns(name, column, lists)
            elif "_type" not in inner:
                yield from _fields_of_lists(name, column, cast("Mapping[str, Feature]", inner))
            else:
                yield name, column, feature
        case [{**inner}] if "_type" not in inner:
            yield from _fields_of_lists(name, column, cast("Mapping[str, Feature]", inner))
        case {"_type": str()} | [*_]:
            yield name, column, feature
        case {**fields}:
            for field in kind:
                part = pc.struct_field(column, field.name)
                own = cast("Feature", fields.get(field.name))
                yield from _columns(f"{name}{SEPARATOR}{field.name}", part, own)
        case _:
            yield name, column, feature


def _fields_of_lists(
    name: str, column: Arrow, fields: Mapping[str, Feature]
) -> Iterator[tuple[str, Arrow, Feature]]:
    """Yield a column of lists for each field of lists of structs."""
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    lists = column.combine_chunks()
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    stops = pc.cumulative_sum(pc.cast(lengths, pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), stops])
    mask = lists.is_null() if lists.null_count else None
    items = pc.list_flatten(lists)
    for field in items.type:
        part = pc.struct_field(items, field.name)
        made = pa.LargeListArray.from_arrays(offsets, part, mask=mask)
        own = {"_type": "List", "feature": fields.get(field.name)}
        yield from _columns(f"{name}{SEPARATOR}{field.name}", made, own)
