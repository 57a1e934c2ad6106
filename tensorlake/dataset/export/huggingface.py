"""Hugging Face: rows as a ``datasets.Dataset``, whose features follow the tensors.

    Scalar, Bool, Timestamp         Value            Text, Uuid, Json     Value("string")
    ClassLabel                      ClassLabel, its codes; of many a list of them, at any depth
    Image, Audio                    Image, Audio: the bytes that are stored
    Bytes                           Value("binary")
    InstanceMask                    a list of {"size", "counts"}, COCO's RLE of each object
    Json of an Arrow type           dicts, lists and Values of that type
    arrays of one axis              lists, of a length where it is fixed
    arrays of fixed shape           Array2D … Array5D
    ragged arrays, Tags, Sequence, Polygon     lists (of lists)

Columns have the tensors' types in their metadata, which `datasets` keeps until it makes a column
again: in selections, filters and streams, but not in `map`, nor on disk.

The features are made first and cast to last, so ``datasets`` itself checks that the values are
theirs. Labels of classes that were dropped close up, as in `write/arrow/columns.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow.stream import (
    arrow_schema,
    check_columns,
    check_in_memory,
    record_batches,
)
from tensorlake.dataset.write.arrow.columns import arrow_type
from tensorlake.errors import missing_extra
from tensorlake.types import (
    Audio,
    ClassLabel,
    Image,
    InstanceMask,
    Json,
    Polygon,
    SampleType,
    Tags,
    untiled,
)
from tensorlake.types import Sequence as SequenceType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_hf"]

Arrow = Any  # pyarrow ships no types
Feature = Any  # datasets would be an import

ARRAY_AXES = range(2, 6)
"""How many axes a feature ``Array2D`` … ``Array5D`` has."""


def to_hf(view: RowSet, columns: Sequence[str] | None) -> Any:
    """Read rows into a ``datasets.Dataset`` in memory."""
    try:
        import datasets
        from datasets.table import InMemoryTable
    except ImportError as error:
        raise missing_extra("to_hf()", "hf") from error
    import pyarrow as pa

    names = check_columns(view, columns)
    check_in_memory(view, names, call="to_hf()")
    types, schema = view.exported_schema, arrow_schema(view, names)
    features = datasets.Features(
        {
            name: _feature(untiled(types[name]))
            if name in types
            else _feature_of_arrow(schema.field(name))
            for name in names
        }
    )
    written = features.arrow_schema
    typed = [written.field(name).with_metadata(schema.field(name).metadata) for name in names]
    target = pa.schema(typed, metadata=written.metadata)
    batches = [
        pa.RecordBatch.from_arrays(
            [
                _storage(types.get(name), column, target.field(name).type)
                for name, column in zip(names, batch.columns, strict=True)
            ],
            schema=target,
        )
        for batch in record_batches(view, names)
    ]
    table = pa.Table.from_batches(batches, schema=target)
    info = datasets.DatasetInfo(description=f"{view.url} {view.version}", features=features)
    return datasets.Dataset(InMemoryTable(table), info=info)


def _feature(sample_type: SampleType) -> Feature:
    import datasets

    match sample_type:
        case ClassLabel(names=names):
            label = datasets.ClassLabel(names=[name for name in names if name])
            return datasets.Sequence(label) if sample_type.is_many else label
        case Image():
            return datasets.Image()
        case Audio(rate=rate):
            return datasets.Audio(sampling_rate=rate)
        case SequenceType(item=item):
            return datasets.Sequence(_feature(item))
        case Tags():
            return datasets.Sequence(datasets.Value("string"))
        case Json() if sample_type.arrow is not None:
            return _feature_of_values(sample_type.arrow_type)
        case Polygon():
            point = datasets.Sequence(datasets.Value("float32"), length=2)
            return datasets.Sequence(datasets.Sequence(point))
        case InstanceMask():
            size = datasets.Sequence(datasets.Value("int32"), length=2)
            return [{"size": size, "counts": datasets.Value("string")}]
        case _:
            pass
    if sample_type.layout == "encoded":
        is_text = sample_type.query_kind in ("text", "json")
        return datasets.Value("string" if is_text else "binary")
    shape, dtype = sample_type.shape, sample_type.dtype
    assert dtype is not None, "what is not encoded has elements"
    if len(shape) in ARRAY_AXES and all(shape):
        made = getattr(datasets, f"Array{len(shape)}D")
        return made(shape=tuple(shape), dtype=dtype.name)
    return _lists_of_arrow(arrow_type(sample_type))


def _feature_of_arrow(field: Arrow) -> Feature:
    """The feature of a column that a query computed, or that every row has."""
    import datasets
    import pyarrow as pa

    kind = field.type
    if pa.types.is_dictionary(kind):
        return datasets.Value("string")
    if isinstance(kind, pa.FixedShapeTensorType):
        made = getattr(datasets, f"Array{len(kind.shape)}D")
        return made(shape=tuple(kind.shape), dtype=str(kind.value_type))
    return _lists_of_arrow(kind)


def _feature_of_values(kind: Arrow) -> Feature:
    """The feature of values of an Arrow type; maps are lists of {key, value}, as it has none."""
    import datasets

    return datasets.features.features.generate_from_arrow_type(_without_maps(kind))


def _without_maps(kind: Arrow) -> Arrow:
    import pyarrow as pa

    types = pa.types
    if types.is_map(kind):
        pair = [("key", kind.key_type), ("value", _without_maps(kind.item_type))]
        return pa.list_(pa.struct(pair))
    if types.is_struct(kind):
        return pa.struct([(field.name, _without_maps(field.type)) for field in kind])
    if types.is_fixed_size_list(kind):
        return pa.list_(_without_maps(kind.value_type), kind.list_size)
    return pa.list_(_without_maps(kind.value_type)) if types.is_list(kind) else kind


def _lists_of_arrow(kind: Arrow) -> Feature:
    import datasets
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return datasets.Sequence(_lists_of_arrow(kind.value_type), length=kind.list_size)
    if pa.types.is_list(kind):
        return datasets.Sequence(_lists_of_arrow(kind.value_type))
    if pa.types.is_dictionary(kind):
        return datasets.Value("string")
    return datasets.features.features.generate_from_arrow_type(kind)


def _storage(sample_type: SampleType | None, column: Arrow, kind: Arrow) -> Arrow:
    """Bring a column to the type that a feature has in Arrow."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        is_codes = pa.types.is_integer(kind)
        return column.indices.cast(kind) if is_codes else column.cast(kind)
    if pa.types.is_list(column.type) and _holds_labels(column.type.value_type):
        values = _storage(sample_type, column.values, kind.value_type)
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, values, mask=mask)
    if isinstance(sample_type, Audio | Image):
        return _media_files(column, kind)
    if isinstance(sample_type, SequenceType) and isinstance(sample_type.item, Image):
        images = _media_files(column.values, kind.value_type)
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, images, mask=mask)
    if isinstance(kind, pa.ExtensionType):  # Array2D …: lists of lists
        shape = tuple(column.type.shape)
        storage = column.storage if isinstance(column, pa.ExtensionArray) else column
        return pa.ExtensionArray.from_storage(kind, _deep_lists(storage, shape, kind))
    return column.cast(kind)


def _holds_labels(kind: Arrow) -> bool:
    import pyarrow as pa

    return pa.types.is_dictionary(kind) or (
        pa.types.is_list(kind) and _holds_labels(kind.value_type)
    )


def _media_files(column: Arrow, kind: Arrow) -> Arrow:
    """Convert bytes to the struct ``{bytes, path}`` of a file."""
    import pyarrow as pa

    paths = pa.nulls(len(column), pa.string())
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays([column, paths], fields=list(kind), mask=mask)


def _deep_lists(storage: Arrow, shape: tuple[int, ...], kind: Arrow) -> Arrow:
    """Elements of arrays of one shape, nested into a list an axis."""
    import pyarrow as pa

    values = storage.flatten()  # without the elements of NULLs
    for axis in range(len(shape) - 1, 0, -1):
        count = len(values) // max(1, shape[axis])
        offsets = np.arange(count + 1, dtype=np.int32) * shape[axis]
        values = pa.ListArray.from_arrays(pa.array(offsets), values)
    valid = np.asarray(storage.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    offsets = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32) * shape[0]
    mask = pa.array(~valid) if not bool(valid.all()) else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask).cast(kind.storage_type)
