"""From Arrow columns to tensors: the type of each, and its values as input of ``extend``.

    Arrow                                    tensor
    int, uint, float, bool                   Scalar, Bool
    string                                   Text
    dictionary of strings                    ClassLabel (the names of the dictionary)
    dictionary of others                     as a column of these
    binary                                   Image if all values seen are images, else Bytes
    struct {bytes, path}                     Image (as Hugging Face stores images), or Bytes
    list, fixed-size list of numbers         Array, ragged or fixed, of any depth
    fixed-shape tensor (extension)           Array
    list of strings                          Sequence("str")
    list of binary, or of {bytes, path}      Sequence of Image or Bytes
    timestamp, date                          Timestamp of its unit and zone; of a date seconds
    other struct, map, list of structs       Json

A column exported from a tensor records it in its field's metadata, and becomes that tensor again.
Any other is nullable if it has NULLs, or may have some later. Metadata that Hugging Face writes to
the schema (class names, images, array shapes) are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from tensorlake.dataset.write.arrow_columns import TYPE_KEY, arrow_type
from tensorlake.dataset.write.image_endings import IMAGE_ENDINGS, common_codec
from tensorlake.errors import (
    InvalidInputError,
    SchemaError,
    TensorlakeError,
    UnsupportedFeatureError,
)
from tensorlake.types import (
    Array,
    Bool,
    Bytes,
    ClassLabel,
    Image,
    ImageCodec,
    InstanceMask,
    Json,
    SampleType,
    Scalar,
    Sequence,
    Text,
    Timestamp,
    codec_of,
    from_json,
)

__all__ = ["given_sample", "huggingface_features", "infer_types", "values_of"]

Arrow = Any  # pyarrow ships no types

_MAGIC_NBYTES = 16  # of a file tell every kind of image that is stored


def infer_types(table: Arrow, *, is_whole: bool = True) -> dict[str, SampleType]:
    """Choose the type of each column of an Arrow table, by its schema and first values.

    Args:
        table: The table, or the beginning of one.
        is_whole: Whether it is all there is; else what follows may have NULLs in any column.

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


def values_of(table: Arrow, name: str, sample_type: SampleType) -> Any:
    """Return a column's values as ``extend`` takes them for a tensor of this type."""
    is_ours = TYPE_KEY in (table.schema.field(name).metadata or {})
    return _values(table.column(name), sample_type, is_ours=is_ours)


def _values(column: Arrow, sample_type: SampleType, *, is_ours: bool) -> Any:
    """Return values of a column; text of JSON is JSON where the column went out from here."""
    import pyarrow as pa

    if pa.types.is_date(column.type) and isinstance(sample_type, Timestamp):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if is_ours and isinstance(sample_type, InstanceMask) and pa.types.is_binary(kind):
        return [None if one is None else sample_type.run_lengths(one) for one in column.to_pylist()]
    if is_ours and sample_type.is_media and pa.types.is_binary(kind):
        return [
            None if one is None else given_sample(sample_type, one) for one in column.to_pylist()
        ]
    if is_ours and isinstance(sample_type, Json) and _is_text(kind):
        return [None if one is None else json.loads(one) for one in column.to_pylist()]
    if isinstance(sample_type, Timestamp) and pa.types.is_timestamp(kind):
        return _moments(column, sample_type)
    if pa.types.is_struct(kind) and isinstance(sample_type, Image | Bytes):
        return [_bytes_of(value) for value in column.to_pylist()]
    if isinstance(sample_type, Sequence) and (
        pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ):
        return _items(column, sample_type, is_ours=is_ours)
    if isinstance(sample_type, Array) and None not in sample_type.shape:
        if _elements(column).null_count:  # which the type refuses, and names the row
            return column.to_pylist()
        if not column.null_count:
            return _fixed_arrays(column, sample_type)
        present = iter(_fixed_arrays(column.drop_null(), sample_type))
        return [next(present) if one else None for one in column.is_valid().to_pylist()]
    if isinstance(sample_type, Json) and pa.types.is_map(kind):
        return [None if value is None else _mapping(value) for value in column.to_pylist()]
    if column.null_count == 0 and pa.types.is_primitive(kind) and not pa.types.is_temporal(kind):
        return column.to_numpy()
    return column.to_pylist()


def given_sample(sample_type: SampleType, sample: bytes) -> Any:
    """Return the input of a type for a stored sample of it.

    Our media types accept encoded bytes; a plug-in's type only defines how these are decoded.
    """
    is_own = type(sample_type).__module__.startswith("tensorlake.")
    return sample if is_own else sample_type.decode_sample(sample)


def _moments(column: Arrow, sample_type: Timestamp) -> Any:
    """Moments as NumPy's; as Python's, which the type refuses, where one of the two has a zone."""
    import pyarrow as pa

    if (column.type.tz is None) is not (sample_type.tz is None):
        return column.to_pylist()
    counts = np.asarray(column.cast(pa.int64()).fill_null(0))
    moments = counts.view(f"datetime64[{column.type.unit}]")
    if not column.null_count:
        return moments
    return [
        one if valid else None
        for one, valid in zip(moments, column.is_valid().to_pylist(), strict=True)
    ]


def _items(column: Arrow, sample_type: Sequence, *, is_ours: bool) -> list[Any]:
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    items = iter(_values(pc.list_flatten(column), sample_type.item, is_ours=is_ours))
    lengths = pc.list_value_length(column).to_pylist()
    return [None if one is None else list(islice(items, one)) for one in lengths]


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"a map has the key {twice!r} twice, which JSON cannot hold")
    return found


def _as_it_went_out(field: Arrow, column: Arrow) -> SampleType | None:
    """The type of the tensor that was written as this column, if it still is what was written."""
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
    if _plain_type(expected) != _plain_type(field.type) and not (
        _is_in_seconds(expected, field.type) and _casts(column, expected)
    ):
        return None
    return replace(sample_type, nullable=True) if column.null_count else sample_type


def _is_in_seconds(written: Arrow, found: Arrow) -> bool:
    """Whether seconds came back as milliseconds: Parquet has no seconds."""
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
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_type(kind.value_type), kind.list_size)
    if types.is_large_string(kind):
        return pa.string()
    return pa.binary() if types.is_large_binary(kind) else kind


def _infer(name: str, kind: Arrow, column: Arrow, feature: Any, *, nullable: bool) -> SampleType:
    declared = _of_feature(feature, column, nullable=nullable)
    if declared is not None:
        return declared
    found = _of_arrow(kind, column, nullable=nullable)
    if found is None:
        raise SchemaError(
            f"column {name!r} is {kind}, which no type of tensors holds"
            f"\nleave it out, or say what it is: schema={{{name!r}: …}}",
            tensor=name,
            actual=str(kind),
        )
    return found


def _of_arrow(kind: Arrow, column: Arrow, *, nullable: bool) -> SampleType | None:
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind):
        return Bool(nullable=nullable)
    if types.is_integer(kind) or types.is_floating(kind):
        return Scalar(kind.to_pandas_dtype(), nullable=nullable)
    if _is_text(kind):
        return Text(nullable=nullable)
    if types.is_dictionary(kind):
        if _is_text(kind.value_type):
            return ClassLabel(_dictionary(column), nullable=nullable)
        return _of_arrow(kind.value_type, column.cast(kind.value_type), nullable=nullable)
    if types.is_fixed_size_binary(kind):
        return _image_or_bytes(column.cast(pa.binary()), nullable=nullable)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return _image_or_bytes(column, nullable=nullable)
    if types.is_timestamp(kind):
        return Timestamp(kind.unit, tz=kind.tz, nullable=nullable)
    if types.is_date(kind):
        return Timestamp("s" if types.is_date32(kind) else "ms", nullable=nullable)
    if _is_encoded_struct(kind):
        return _image_or_bytes(column, nullable=nullable)
    if types.is_struct(kind) or types.is_map(kind) or types.is_null(kind):
        return Json(nullable=nullable)
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if is_list and (_is_encoded_struct(kind.value_type) or types.is_binary(kind.value_type)):
        return Sequence(_image_or_bytes(_flat(column), nullable=False), nullable=nullable)
    shape, element = _nested(kind)
    if shape and element is not None:
        return Array(element.to_pandas_dtype(), shape, nullable=nullable)
    if is_list and _is_text(kind.value_type):
        return Sequence(Text(), nullable=nullable)
    if is_list:
        return Json(nullable=nullable)
    return None


def _is_text(kind: Arrow) -> bool:
    import pyarrow as pa

    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _nested(kind: Arrow) -> tuple[tuple[int | None, ...], Arrow | None]:
    """Shape and element of lists of lists of numbers; None where they hold something else."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return tuple(kind.shape), kind.value_type
    shape: list[int | None] = []
    while (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return tuple(shape), kind if is_number else None


def _fixed_arrays(column: Arrow, sample_type: Array) -> np.ndarray:
    fixed = tuple(length or 0 for length in sample_type.shape)
    elements = _elements(column).to_numpy(zero_copy_only=False)
    return elements.reshape(len(column), *fixed)


def _elements(column: Arrow) -> Arrow:
    """The elements of arrays, without those of NULL arrays."""
    import pyarrow as pa

    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ExtensionArray):
        flat = flat.storage
    while not pa.types.is_primitive(flat.type):
        flat = flat.flatten()
    return flat


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


def _bytes_of(value: Mapping[str, Any] | None) -> Any:
    """The content of Hugging Face's {bytes, path}: the bytes, else the file."""
    if value is None:
        return None
    return value["path"] if value["bytes"] is None else value["bytes"]


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
