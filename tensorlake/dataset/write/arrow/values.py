"""Values of Arrow columns as ``extend`` accepts them, and facts about its lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tensorlake.dataset.write.arrow.columns import TYPE_KEY
from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import (
    Array,
    Audio,
    Bytes,
    Embedding,
    Image,
    InstanceMask,
    Json,
    SampleType,
    Sequence,
    StoredJson,
    Timestamp,
    arrow_type_text,
    encode_rows,
)

__all__ = [
    "Lists",
    "check_names",
    "given_sample",
    "holds_lists",
    "is_list",
    "is_text",
    "lists_of",
    "values_of",
]

Arrow = Any  # pyarrow ships no types


@dataclass(frozen=True, slots=True)
class Lists:
    """Facts about the lists of a column, in all rows of a source.

    Attributes:
        length: The length of every list; None if it varies, or there are none.
        are_arrays: Whether each is an array: without NULL items at any depth, and its lists of one
            depth as long as each other.
    """

    length: int | None
    are_arrays: bool

    def joined(self, other: Lists) -> Lists:
        """Return what two parts of a source have in common."""
        length = self.length if self.length == other.length else None
        return Lists(length, self.are_arrays and other.are_arrays)


def check_names(table: Arrow) -> None:
    """Check that no two columns of a table have one name.

    Raises:
        InvalidInputError: Two have.
    """
    names: list[str] = table.column_names
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(
            f"the table has {names.count(twice)} columns of the name {shown(twice)}"
            "\ngive each column a name of its own",
            tensor=twice,
        )


def values_of(table: Arrow, name: str, sample_type: SampleType) -> Any:
    """Return a column's values as ``extend`` takes them for a tensor of this type."""
    is_ours = TYPE_KEY in (table.schema.field(name).metadata or {})
    return _values(table.column(name), sample_type, is_ours=is_ours)


def _values(column: Arrow, sample_type: SampleType, *, is_ours: bool) -> Any:
    """Return values of a column; text of JSON is JSON where the column went out from here."""
    import pyarrow as pa

    if isinstance(sample_type, Json) and sample_type.arrow is not None:
        return _stored_json(column, sample_type)
    if pa.types.is_date(column.type) and isinstance(sample_type, Timestamp):
        column = column.cast(pa.timestamp("ms")).cast(pa.timestamp("s"))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if is_ours and isinstance(sample_type, InstanceMask) and pa.types.is_binary(kind):
        return [None if one is None else sample_type.run_lengths(one) for one in column.to_pylist()]
    if is_ours and sample_type.is_media and pa.types.is_binary(kind):
        return [
            None if one is None else given_sample(sample_type, one) for one in column.to_pylist()
        ]
    if is_ours and isinstance(sample_type, Json) and is_text(kind):
        return [None if one is None else json.loads(one) for one in column.to_pylist()]
    if isinstance(sample_type, Timestamp) and pa.types.is_timestamp(kind):
        return _moments(column, sample_type)
    is_of_frames = isinstance(sample_type, Sequence) and sample_type.item.is_media
    if pa.types.is_struct(kind) and (
        is_of_frames or isinstance(sample_type, Audio | Bytes | Image)
    ):
        return [_bytes_of(value) for value in column.to_pylist()]
    if isinstance(sample_type, Sequence) and (
        pa.types.is_list(kind) or pa.types.is_large_list(kind)
    ):
        return _items(column, sample_type, is_ours=is_ours)
    if isinstance(sample_type, Array | Embedding) and None not in sample_type.shape:
        if not _has_length(column, sample_type.shape):
            return column.to_pylist()  # which the type refuses, and names the row
        if not column.null_count:
            return _fixed_arrays(column, sample_type)
        present = iter(_fixed_arrays(column.drop_null(), sample_type))
        return [next(present) if one else None for one in column.is_valid().to_pylist()]
    if isinstance(sample_type, Json) and pa.types.is_map(kind):
        return [None if value is None else _mapping(value) for value in column.to_pylist()]
    if column.null_count == 0 and pa.types.is_primitive(kind) and not pa.types.is_temporal(kind):
        return column.to_numpy()
    return column.to_pylist()


def _stored_json(column: Arrow, sample_type: Json) -> list[Any]:
    """Values as they are stored; as Python's, which the type checks, where their type differs."""
    if arrow_type_text(column.type) != sample_type.arrow:
        return column.to_pylist()
    try:
        texts = encode_rows(column)
    except KeyError:  # a map has a key twice, which the type refuses, and names the row
        return column.to_pylist()
    return [None if one is None else StoredJson(one) for one in texts]


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


def is_list(kind: Arrow) -> bool:
    """Whether an Arrow type is one of lists, of any width or of a fixed size."""
    import pyarrow as pa

    types = pa.types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def holds_lists(kind: Arrow) -> bool:
    """Whether an Arrow type is one of lists, at any depth, of values without fields."""
    import pyarrow as pa

    while is_list(kind):
        kind = kind.value_type
        if not pa.types.is_nested(kind):
            return True
    return False


def lists_of(column: Arrow) -> Lists:
    """Look at the lists of a column: their lengths, and whether each is an array."""
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    lengths = pc.min_max(pc.list_value_length(column.drop_null()))
    same = lengths["min"].as_py() if lengths["min"] == lengths["max"] else None
    chunks = getattr(column, "chunks", [column])
    return Lists(same or None, all(map(_are_arrays, chunks)))


def _are_arrays(chunk: Arrow) -> bool:
    import pyarrow as pa
    import pyarrow.compute

    pc: Arrow = pyarrow.compute
    lists = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
    owners = np.arange(len(lists))  # the row of each list
    while is_list(lists.type):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        if bool(((lengths[1:] != lengths[:-1]) & (owners[1:] == owners[:-1])).any()):
            return False
        owners = np.repeat(owners, lengths)
        lists = lists.flatten()  # without the items of NULL lists
        if lists.null_count:
            return False
    return True


def _has_length(column: Arrow, shape: Iterable[int | None]) -> bool:
    """Whether all lists are arrays of a shape; those of several axes have what their type has."""
    if column.null_count == len(column) or not is_list(column.type):
        return True
    lists, axes = lists_of(column), [*shape]
    return lists.are_arrays and (len(axes) > 1 or lists.length == axes[0])


def is_text(kind: Arrow) -> bool:
    """Whether an Arrow type is one of strings."""
    import pyarrow as pa

    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _fixed_arrays(column: Arrow, sample_type: SampleType) -> np.ndarray:
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


def _bytes_of(value: Mapping[str, Any] | None) -> Any:
    """The content of Hugging Face's {bytes, path}: the bytes, else the file."""
    if value is None:
        return None
    return value["path"] if value["bytes"] is None else value["bytes"]
