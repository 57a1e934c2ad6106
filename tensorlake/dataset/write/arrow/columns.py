"""Columns as Arrow arrays: which type each becomes, and its values, copied as whole columns.

    tensor                                   Arrow
    Scalar, Bool                             number, bool
    ClassLabel                               dictionary of names; of many: a list of it
    Timestamp                                timestamp of its unit and zone
    Text, Uuid, Json                         string (JSON as its text)
    Json of an Arrow type                    that type
    Timestamp of dates                       date32
    Tags, Sequence, Polygon                  list of the items
    InstanceMask                             list of structs of size (height, width) and counts:
                                             COCO's RLE of each object, packed
    images, Bytes                            binary, as stored
    arrays of one axis and fixed length      fixed-size list
    arrays of fixed shape                    fixed-shape tensor (an extension over such a list)
    arrays in tiles                          as those stored whole
    arrays with None in the shape            lists, around fixed-size ones where the shape ends so
    bfloat16 and float8                      float32, which has each of their numbers

A sample without elements has, as a list, no lengths behind the first that is 0. NULLs are Arrow's.
A field's metadata has the tensor's type under `TYPE_KEY`, so that a column that was written and
read again becomes the tensor it was.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import (
    Array,
    ClassLabel,
    Column,
    EncodedColumn,
    InstanceMask,
    Json,
    Polygon,
    RaggedColumn,
    SampleType,
    Sequence,
    Tags,
    Timestamp,
    UniformColumn,
    as_ragged,
    concat,
    decode_rows,
    offsets_of,
    pack_runs,
    untiled,
    widened_column,
    widened_dtype,
)

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.dataset.core.computed import Computed

__all__ = [
    "TYPE_KEY",
    "arrow_array",
    "arrow_field",
    "arrow_type",
    "computed_array",
    "computed_field",
]

TYPE_KEY = b"tensorlake"
"""Under which a field's metadata has the type of the tensor, as JSON."""

_INT32_MAX = (1 << 31) - 1

Arrow = Any  # pyarrow ships no types


def arrow_field(name: str, sample_type: SampleType) -> Arrow:
    """Return the field that a tensor of a type becomes."""
    import pyarrow as pa

    metadata = {TYPE_KEY: json.dumps(sample_type.to_json())}
    try:
        kind = arrow_type(sample_type)
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(
            f"Arrow does not support {name!r} ({sample_type.describe()})"
            "\nleave it out: columns=[…]; to_numpy(dst) and to_zarr(dst) have complex numbers",
            tensor=name,
        ) from error
    return pa.field(name, kind, nullable=sample_type.nullable, metadata=metadata)


def arrow_type(sample_type: SampleType) -> Arrow:
    """Return the Arrow type that samples of a type have."""
    import pyarrow as pa

    match sample_type:
        case ClassLabel():
            return pa.list_(_names_type()) if sample_type.is_many else _names_type()
        case Timestamp(is_date=True):
            return pa.date32()
        case Timestamp(unit=unit, tz=tz):
            return pa.timestamp(unit, tz)
        case Json() if sample_type.arrow is not None:
            return sample_type.arrow_type
        case Tags():
            return pa.list_(pa.string())
        case Sequence(item=item):
            return pa.list_(arrow_type(item))
        case Polygon():
            return pa.list_(pa.list_(pa.list_(pa.float32(), 2)))
        case InstanceMask():
            size = pa.list_(pa.int32(), 2)
            return pa.list_(pa.struct([("size", size), ("counts", pa.string())]))
        case Array(dtype=dtype, shape=shape):
            return _nested_type(widened_dtype(dtype), shape)
        case _ if (plain := untiled(sample_type)) is not sample_type:
            return arrow_type(plain)
        case _ if sample_type.layout == "encoded":
            is_text = sample_type.query_kind in ("text", "json")
            return pa.string() if is_text else pa.binary()
        case _:
            assert sample_type.dtype is not None, "what is not encoded has elements"
            return _nested_type(widened_dtype(sample_type.dtype), sample_type.shape)


def arrow_array(sample_type: SampleType, column: Column) -> Arrow:
    """Return samples, as they are stored, as an Arrow array of `arrow_type`."""
    import pyarrow as pa

    match sample_type:
        case ClassLabel(names=names):
            assert not isinstance(column, EncodedColumn)
            return _labels(column, names)
        case Timestamp():
            assert isinstance(column, UniformColumn)
            counts = pa.array(column.values, mask=_mask(column))
            moments = counts.cast(pa.timestamp(sample_type.unit, sample_type.tz))
            return moments.cast(arrow_type(sample_type))
        case Json() if sample_type.arrow is not None:
            assert isinstance(column, EncodedColumn)
            valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
            pairs = zip(column.samples, valid.tolist(), strict=True)
            texts = [sample if is_valid else None for sample, is_valid in pairs]
            return decode_rows(texts, sample_type.arrow_type)
        case Sequence():
            assert isinstance(column, EncodedColumn), "items are joined"
            return _items(sample_type, column)
        case InstanceMask():
            assert isinstance(column, EncodedColumn), "masks are encoded"
            return _masks(sample_type, column)
        case Polygon() | Tags():
            rows = [sample_type.present_one(column, row) for row in range(len(column))]
            return pa.array([_plain(row) for row in rows], arrow_type(sample_type))
        case _:
            pass
    plain = untiled(sample_type)
    if isinstance(plain, Array):
        column = sample_type.decode(column, tensor="")  # of tiles
    sample_type = plain
    if isinstance(column, EncodedColumn):
        kind = arrow_type(sample_type)
        samples = (
            map(_as_text, column.samples) if kind == pa.string() else map(bytes, column.samples)
        )
        return pa.array(samples, kind, size=len(column), mask=_mask(column))
    assert sample_type.dtype is not None, "what is not encoded has elements"
    return _nested(widened_dtype(sample_type.dtype), sample_type.shape, widened_column(column))


def computed_field(name: str, column_type: tql.ColumnType) -> Arrow:
    """Return the field that a column computed by a query becomes.

    Raises:
        UnsupportedFeatureError: Arrow has no such type: complex numbers.
    """
    import pyarrow as pa

    try:
        return pa.field(name, _computed_type(column_type))
    except pa.ArrowNotImplementedError as error:
        raise _no_computed(name, f"which is computed, of {column_type.dtype}") from error


def computed_array(name: str, computed: Computed) -> Arrow:
    """Return the values of a column that a query computed.

    Raises:
        UnsupportedFeatureError: They are lists of what only a column's own type tells: sequences,
            and lists of bytes.
    """
    import pyarrow as pa

    try:
        return _computed_array(computed)
    except (pa.ArrowTypeError, TypeError) as error:
        raise _no_computed(name, "which is computed, of lists whose items have no type") from error


def _no_computed(name: str, what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"Arrow does not support {name!r}, {what}"
        "\nleave it out: columns=[…], or SELECT the column itself",
        tensor=name,
    )


def _computed_array(computed: Computed) -> Arrow:
    import pyarrow as pa

    import tensorlake_query as tql

    kind = computed.type
    match computed.batch:
        case tql.ObjectBatch(values=values):
            if kind.kind == "json":
                values = [None if one is None else _json_text(one) for one in values]
            return pa.array([_plain(one) for one in values], _computed_type(kind))
        case tql.UniformBatch(values=values, valid=valid):
            column = UniformColumn(values, valid)
        case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
            column = RaggedColumn(values, shapes, valid)
    if kind.kind == "label" and kind.names is not None:
        return _labels(column, kind.names)
    made = _nested(column.values.dtype, kind.shape, column)
    return made if kind.timestamp_unit is None else made.cast(_computed_type(kind))


def _computed_type(kind: tql.ColumnType) -> Arrow:
    import pyarrow as pa

    if kind.kind == "label" and kind.names is not None:
        return pa.list_(_names_type()) if kind.shape else _names_type()
    if kind.timestamp_unit is not None:
        moments = pa.timestamp(kind.timestamp_unit, kind.timezone)
        for _ in kind.shape:
            moments = pa.list_(moments)
        return moments
    if kind.dtype is not None:
        return _nested_type(np.dtype(kind.dtype), kind.shape)
    if kind.has_polygons:
        return arrow_type(Polygon())
    flat = pa.binary() if kind.kind in ("bytes", "media") else pa.string()
    return pa.list_(flat) if kind.shape else flat


def _names_type() -> Arrow:
    import pyarrow as pa

    return pa.dictionary(pa.int32(), pa.string())


def _nested_type(dtype: np.dtype, shape: tuple[int | None, ...]) -> Arrow:
    """Lists for what varies, and for what is fixed after it one fixed-size list an axis."""
    import pyarrow as pa

    element = pa.from_numpy_dtype(dtype)
    if len(shape) > 1 and all(shape):
        return pa.fixed_shape_tensor(element, tuple(length or 0 for length in shape))
    kind = element
    is_fixed = True
    for length in reversed(shape):
        is_fixed = is_fixed and bool(length)
        kind = pa.list_(kind, length) if is_fixed and length else pa.list_(kind)
    return kind


def _nested(
    dtype: np.dtype, shape: tuple[int | None, ...], column: UniformColumn | RaggedColumn
) -> Arrow:
    import pyarrow as pa

    mask = _mask(column)
    kind = _nested_type(dtype, shape)
    if not shape:
        return pa.array(np.ascontiguousarray(column.values), kind, mask=mask)
    if all(shape) and isinstance(column, UniformColumn):
        elements = _elements(column.values)
        size = math.prod(length or 0 for length in shape)
        lists = pa.FixedSizeListArray.from_arrays(elements, size, mask=_arrow_mask(mask))
        if not isinstance(kind, pa.FixedShapeTensorType):
            return lists
        return pa.ExtensionArray.from_storage(kind, lists.cast(kind.storage_type))
    return _lists(as_ragged(column), shape)


def _lists(column: RaggedColumn, shape: tuple[int | None, ...]) -> Arrow:
    """Nest elements into lists from the inside out."""
    import pyarrow as pa

    array = _elements(column.values)
    outer = len(shape)
    while outer and shape[outer - 1]:
        outer -= 1
        array = pa.FixedSizeListArray.from_arrays(array, shape[outer])
    lengths = [column.shapes[:, 0]]  # of the lists at each depth, one after another
    owners = np.arange(len(column))
    for axis in range(1, outer):
        owners = np.repeat(owners, lengths[-1])
        lengths.append(column.shapes[owners, axis])
    for axis in reversed(range(outer)):
        mask = _arrow_mask(_mask(column)) if axis == 0 else None
        array = pa.ListArray.from_arrays(_offsets(lengths[axis]), array, mask=mask)
    return array


def _labels(column: UniformColumn | RaggedColumn, names: Any) -> Arrow:
    import pyarrow as pa

    is_many = isinstance(column, RaggedColumn)
    mask = None if is_many else _mask(column)
    known = np.array([bool(name) for name in names], np.bool_)  # a dropped class has no name
    codes = column.values.astype(np.int32)
    if not known.all():
        codes = (np.cumsum(known, dtype=np.int32) - 1)[codes]
    dictionary = pa.array([name for name in names if name], pa.string())
    labels = pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), dictionary)
    if not is_many:
        return labels
    return pa.ListArray.from_arrays(
        _offsets(column.lengths), labels, mask=_arrow_mask(_mask(column))
    )


def _items(kind: Sequence, column: EncodedColumn) -> Arrow:
    import pyarrow as pa

    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    pairs = zip(column.samples, valid.tolist(), strict=True)
    items = [kind.items_of(sample) for sample, is_valid in pairs if is_valid]
    lengths = np.zeros(len(column), np.int64)
    lengths[valid] = [len(one) for one in items]
    joined = concat(items) if items else kind.item.convert([], tensor="items")
    values = arrow_array(kind.item, joined)
    return pa.ListArray.from_arrays(_offsets(lengths), values, mask=_arrow_mask(_mask(column)))


def _masks(sample_type: InstanceMask, column: EncodedColumn) -> Arrow:
    """Runs as stored, packed into strings: no mask is filled."""
    import pyarrow as pa

    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    sizes = np.zeros((len(column), 2), np.int32)
    objects = np.zeros(len(column), np.int64)
    nothing = np.zeros(0, np.int64)
    counts, runs = [nothing], [nothing]
    for row in np.flatnonzero(valid).tolist():
        sizes[row], own, lengths = sample_type.parse_runs(column.samples[row])
        objects[row] = len(own)
        counts.append(own)
        runs.append(lengths)
    characters, lengths = pack_runs(np.concatenate(runs), np.concatenate(counts))
    offsets = _offsets(lengths)
    content = pa.py_buffer(np.ascontiguousarray(characters))
    packed = pa.StringArray.from_buffers(len(lengths), offsets.buffers()[1], content)
    kind = arrow_type(sample_type)
    of_each = pa.FixedSizeListArray.from_arrays(_elements(np.repeat(sizes, objects, axis=0)), 2)
    masks = pa.StructArray.from_arrays([of_each, packed], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(_offsets(objects), masks, mask=_arrow_mask(_mask(column)))


def _offsets(lengths: np.ndarray) -> Arrow:
    """Offsets of lists, 32 bits wide, which every reader of Arrow knows."""
    import pyarrow as pa

    offsets = offsets_of(lengths)
    if int(offsets[-1]) > _INT32_MAX:
        raise UnsupportedFeatureError(
            f"{int(offsets[-1]):,} elements in {len(lengths):,} rows are more than a list of Arrow"
            f" holds ({_INT32_MAX:,})\nread the rows alone: ds[name][row]",
            actual=int(offsets[-1]),
        )
    return pa.array(offsets.astype(np.int32))


def _elements(values: np.ndarray) -> Arrow:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values).reshape(-1))


def _mask(column: Column) -> np.ndarray | None:
    return None if column.valid is None else ~column.valid


def _arrow_mask(mask: np.ndarray | None) -> Arrow:
    import pyarrow as pa

    return None if mask is None else pa.array(mask)


def _as_text(sample: Any) -> str:
    return str(sample, "utf-8")


def _json_text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Arrays as lists: what Arrow's converter takes at every depth."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple) or (hasattr(value, "pad") and hasattr(value, "stack")):
        return [_plain(one) for one in value]
    return value
