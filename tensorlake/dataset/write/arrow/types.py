"""From Arrow columns to tensors: the type of each.

    Arrow                                    tensor
    int, uint, float, bool                   Scalar, Bool
    string                                   Text
    dictionary of strings                    ClassLabel (the names of the dictionary)
    dictionary of others                     as a column of these
    binary                                   Image if all values seen are images, else Bytes
    struct {bytes, path}                     Image (as Hugging Face stores images), or Bytes
    list, fixed-size list of numbers         Array, ragged or fixed, of any depth
    lists of floats of one length            Array, Embedding from `EMBEDDING_DIM_MIN` floats on
    fixed-shape tensor (extension)           Array
    list of strings                          Sequence("str")
    list of binary, or of {bytes, path}      Sequence of Image or Bytes
    timestamp, date                          Timestamp of its unit and zone, or of dates
    lists with NULLs, or of unequal lengths  Json of the Arrow type, such as [[1], [2, 3]]
    decimal, time, duration, struct, map     Json of the Arrow type
    lists of these                           Json of the Arrow type

Lists of floats count as of one length if they are so in every row; lists of integers are ragged. A
column exported from a tensor records it in its field's metadata, and becomes that tensor again.
Any other is nullable if it has NULLs, or may have some later. Metadata that Hugging Face writes to
the schema (class names, images, array shapes) are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, cast

from tensorlake.dataset.write.arrow.columns import TYPE_KEY, arrow_type
from tensorlake.dataset.write.arrow.values import Lists, is_list, is_text, lists_of
from tensorlake.dataset.write.file_names import IMAGE_ENDINGS, common_codec
from tensorlake.errors import (
    SchemaError,
    TensorlakeError,
    UnsupportedFeatureError,
)
from tensorlake.types import (
    Array,
    Audio,
    Bool,
    Bytes,
    ClassLabel,
    Embedding,
    Image,
    ImageCodec,
    InstanceMask,
    Json,
    SampleType,
    Scalar,
    Sequence,
    Text,
    Timestamp,
    arrow_type_text,
    codec_of,
    from_json,
)

__all__ = ["EMBEDDING_DIM_MIN", "huggingface_features", "infer_types"]

Arrow = Any  # pyarrow ships no types

_MAGIC_NBYTES = 16  # of a file tell every kind of image that is stored


EMBEDDING_DIM_MIN = 32
"""Floats that make lists of one length an `Embedding`: shorter ones are boxes, poses, colours."""


def infer_types(
    table: Arrow, *, is_whole: bool = True, lists: Mapping[str, Lists] | None = None
) -> dict[str, SampleType]:
    """Choose the type of each column of an Arrow table, by its schema and first values.

    Args:
        table: The table, or the beginning of one.
        is_whole: Whether it is all there is; else what follows may have NULLs in any column.
        lists: Facts about columns of lists in all rows; default: those of this table.

    Raises:
        SchemaError: A column has a type that no tensor holds.
    """
    features = huggingface_features(table.schema)
    return {
        field.name: _as_it_went_out(field, table.column(at))
        or _infer(
            field.name,
            field.type,
            table.column(at),
            features.get(field.name),
            nullable=not is_whole or table.column(at).null_count > 0,
            lists=(lists or {}).get(field.name),
        )
        for at, field in enumerate(table.schema)
    }


def huggingface_features(schema: Arrow) -> Mapping[str, Any]:
    """Return the features that Hugging Face wrote to a schema, by column; none if it wrote none."""
    written = (schema.metadata or {}).get(b"huggingface")
    if written is None:
        return {}
    try:
        return cast("Mapping[str, Any]", json.loads(written)["info"]["features"])
    except (ValueError, KeyError, TypeError):  # another program's, under the same key
        return {}


def _as_it_went_out(field: Arrow, column: Arrow) -> SampleType | None:
    """The type of the tensor that was written as this column, if it still is what was written."""
    import pyarrow as pa

    written = (field.metadata or {}).get(TYPE_KEY)
    if written is None:
        return None
    try:
        sample_type = from_json(json.loads(written))
    except (ValueError, TypeError, AttributeError, TensorlakeError):  # another program's, or newer
        return None
    try:
        expected = arrow_type(sample_type)
    except UnsupportedFeatureError:
        return None
    found = _plain_type(field.type)
    is_same = _plain_type(expected) == found or (
        isinstance(sample_type, InstanceMask) and found == pa.binary()  # as 0.1.0 wrote it
    )
    if not is_same and not (_is_in_seconds(expected, field.type) and _casts(column, expected)):
        return None
    return replace(sample_type, nullable=True) if column.null_count else sample_type


def _is_in_seconds(written: Arrow, found: Arrow) -> bool:
    """Whether seconds were read as milliseconds: Parquet has no seconds."""
    import pyarrow as pa

    if not (pa.types.is_timestamp(written) and pa.types.is_timestamp(found)):
        return False
    return written.tz == found.tz and (written.unit, found.unit) == ("s", "ms")


def _casts(column: Arrow, kind: Arrow) -> bool:
    import pyarrow as pa

    try:
        column.cast(kind)
    except pa.ArrowInvalid:  # it would lose fractions of a second
        return False
    return True


def _plain_type(kind: Arrow) -> Arrow:
    """A type without what files do to it: an extension's storage, names of items, wide offsets."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.ExtensionType | pa.FixedShapeTensorType):
        return _plain_type(kind.storage_type)
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if types.is_struct(kind) or types.is_map(kind):
        return arrow_type_text(kind)
    if is_list(kind):
        item = _plain_type(kind.value_type)
        if isinstance(item, str):  # of structs
            return arrow_type_text(kind)
        return pa.list_(item, kind.list_size if types.is_fixed_size_list(kind) else -1)
    if types.is_large_string(kind):
        return pa.string()
    return pa.binary() if types.is_large_binary(kind) else kind


def _infer(
    name: str, kind: Arrow, column: Arrow, feature: Any, *, nullable: bool, lists: Lists | None
) -> SampleType:
    declared = _of_feature(feature, column, nullable=nullable)
    if declared is not None:
        return declared
    if is_list(kind) and not _is_stack(kind):
        lists = lists or lists_of(column)
        found = _of_lists(kind, lists, nullable=nullable)
        if found is not None:
            return found
    found = _of_arrow(kind, column, nullable=nullable)
    if found is None:
        raise SchemaError(
            f"column {name!r} is {kind}, which no type of tensors holds"
            f"\nleave it out, or give its type: schema={{{name!r}: …}}",
            tensor=name,
            actual=str(kind),
        )
    return found


def _is_encoded(kind: Arrow) -> bool:
    """Whether values are files, as bytes or as Hugging Face stores them."""
    import pyarrow as pa

    return _is_encoded_struct(kind) or pa.types.is_binary(kind)


def _is_stack(kind: Arrow) -> bool:
    """Whether values are fixed-size lists within fixed-size lists: arrays of one shape."""
    shape, element = _nested(kind)
    return len(shape) > 1 and None not in shape and element is not None


def _of_lists(kind: Arrow, lists: Lists, *, nullable: bool) -> SampleType | None:
    """The type of lists that have one length, or are not arrays; None for others."""
    import pyarrow as pa

    if not lists.are_arrays and not _is_encoded(kind.value_type):
        return _of_values(kind, nullable=nullable)
    item = kind.value_type
    if not pa.types.is_floating(item) or lists.length is None:
        return None
    dtype = item.to_pandas_dtype()
    if lists.length >= EMBEDDING_DIM_MIN:
        return Embedding(lists.length, dtype=dtype, nullable=nullable)
    return Array(dtype, (lists.length,), nullable=nullable)


def _of_values(kind: Arrow, *, nullable: bool) -> SampleType | None:
    """Json that keeps values of an Arrow type; None if it cannot."""
    text = arrow_type_text(kind)
    return None if text is None else Json(arrow=text, nullable=nullable)


def _of_arrow(kind: Arrow, column: Arrow, *, nullable: bool) -> SampleType | None:
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind):
        return Bool(nullable=nullable)
    if types.is_integer(kind) or types.is_floating(kind):
        return Scalar(kind.to_pandas_dtype(), nullable=nullable)
    if is_text(kind):
        return Text(nullable=nullable)
    if types.is_dictionary(kind):
        if is_text(kind.value_type):
            return ClassLabel(_dictionary(column), nullable=nullable)
        return _of_arrow(kind.value_type, column.cast(kind.value_type), nullable=nullable)
    if types.is_fixed_size_binary(kind):
        return _image_or_bytes(column.cast(pa.binary()), nullable=nullable)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return _image_or_bytes(column, nullable=nullable)
    if types.is_timestamp(kind):
        return Timestamp(kind.unit, tz=kind.tz, nullable=nullable)
    if types.is_date(kind):
        return Timestamp("s", is_date=True, nullable=nullable)
    if _is_encoded_struct(kind):
        return _image_or_bytes(column, nullable=nullable)
    if types.is_null(kind) or (types.is_struct(kind) and not kind.num_fields):
        return Json(nullable=nullable)
    is_varied = types.is_list(kind) or types.is_large_list(kind)
    if is_varied and _is_encoded(kind.value_type):
        return Sequence(_image_or_bytes(_flat(column), nullable=False), nullable=nullable)
    shape, element = _nested(kind)
    if shape and element is not None:
        return Array(element.to_pandas_dtype(), shape, nullable=nullable)
    if is_varied and is_text(kind.value_type):
        return Sequence(Text(), nullable=nullable)
    return _of_values(kind, nullable=nullable)


def _nested(kind: Arrow) -> tuple[tuple[int | None, ...], Arrow | None]:
    """Shape and element of lists of lists of numbers; None where they hold something else."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return tuple(kind.shape), kind.value_type
    shape: list[int | None] = []
    while is_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return tuple(shape), kind if is_number else None


def _image_or_bytes(column: Arrow, *, nullable: bool) -> SampleType:
    codec = common_codec(_codecs(column))
    return Bytes(nullable=nullable) if codec is None else Image(codec, nullable=nullable)


def _codecs(column: Arrow) -> set[ImageCodec | None]:
    """Return the codecs of a column's images, by their first bytes, or by file name.

    None among them: a value that is not an image.
    """
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    if not pa.types.is_struct(column.type):
        starts = pc.binary_slice(column.drop_null(), 0, _MAGIC_NBYTES).unique()
        return {codec_of(start) for start in starts.to_pylist()}
    contents, paths = (pc.struct_field(column, name) for name in ("bytes", "path"))
    named = paths.filter(contents.is_null()).drop_null().to_pylist()
    found: set[ImageCodec | None] = {IMAGE_ENDINGS.get(_ending(path)) for path in named}
    return found | (_codecs(contents) if contents.null_count < len(contents) else set())


def _ending(path: str) -> str:
    return PurePath(path).suffix.lower()


def _flat(column: Arrow) -> Arrow:
    """The items of a column of lists, without those of NULL."""
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    return pc.list_flatten(column.drop_null())


def _is_encoded_struct(kind: Arrow) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) and {field.name for field in kind} == {"bytes", "path"}


def _dictionary(column: Arrow) -> list[str]:
    names: dict[str, None] = {}
    for chunk in column.chunks:
        names.update(dict.fromkeys(chunk.dictionary.to_pylist()))
    return list(names)


def _of_feature(feature: Any, column: Arrow, *, nullable: bool) -> SampleType | None:
    match feature:
        case {"_type": "ClassLabel", "names": [*names]}:
            return ClassLabel([str(name) for name in names], nullable=nullable)
        case {"_type": "List" | "LargeList" | "Sequence", "feature": inner} | [inner]:
            classes = _of_listed_classes(inner)
            return None if classes is None else replace(classes, nullable=nullable)
        case {"_type": "Image"}:
            return _image_or_bytes(column, nullable=nullable)
        case {"_type": "Audio"}:
            return Audio(nullable=nullable)
        case {
            "_type": "Array2D" | "Array3D" | "Array4D" | "Array5D",
            "shape": [*shape],
            "dtype": d,
        }:
            return Array(str(d), tuple(shape), nullable=nullable)
        case _:
            return None


def _of_listed_classes(feature: Any) -> SampleType | None:
    """The type of a list of these, if they are classes, or lists of classes."""
    match feature:
        case {"_type": "ClassLabel", "names": [*names]}:
            return ClassLabel([str(name) for name in names], multi=True)
        case {"_type": "List" | "LargeList" | "Sequence", "feature": inner} | [inner]:
            classes = _of_listed_classes(inner)
            return None if classes is None else Sequence(classes)
        case _:
            return None
