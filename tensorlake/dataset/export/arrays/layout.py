"""Tensors as arrays in a group, rows first; the layout of `to_zarr` and `to_hdf5`.

    uniform        x              an array (rows, *shape); class labels are codes
    Text, Uuid     x              an array of strings
    ragged         x/values       all elements, one after another
                   x/shapes       int64 (rows, axes)
    images, …      x/values       uint8, the stored bytes, one after another
                   x/offsets      int64 (rows + 1): row i is values[offsets[i] : offsets[i + 1]]
    nullable       x/values …     as above, text as its bytes; and where there are NULLs
                   x/valid        bool (rows); values has zeros, or nothing, for a NULL

Each array, or group of these, has the tensor's type as JSON in its attribute `TYPE_ATTRIBUTE`, and
class names in ``names``. Rows are written batch by batch, so any number passes through bounded
memory. `ingest/arrays/columns.py` reads the layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tensorlake.dataset.export.arrow.stream import BATCH_NBYTES
from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import (
    ClassLabel,
    Column,
    EncodedColumn,
    RaggedColumn,
    SampleType,
    Timestamp,
    UniformColumn,
    as_ragged,
    untiled,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["TYPE_ATTRIBUTE", "ArrayGroup", "GrowingArray", "check_places", "fill_group"]

TYPE_ATTRIBUTE: Final = "tensorlake"
"""Attribute of an array or group: the type of the tensor."""

CHUNK_NBYTES = 1 << 20
"""Chunk size of an array before compression, as zarr-python would choose."""

ROWS_AT_ONCE = 1024
"""Most rows read together."""


class GrowingArray(Protocol):
    """An array that grows along its first axis."""

    def append(self, values: np.ndarray) -> None:
        """Write values behind those that are there."""
        ...


class ArrayGroup(Protocol):
    """A group of arrays and groups, in one of the formats."""

    def group(self, name: str, attributes: Mapping[str, Any]) -> ArrayGroup:
        """Create a group in it."""
        ...

    def array(
        self,
        name: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        chunk: tuple[int, ...],
        attributes: Mapping[str, Any],
    ) -> GrowingArray:
        """Create an array of no rows; of strings where the dtype is that of objects.

        Args:
            name: Its name in the group.
            dtype: Dtype of the elements.
            shape: Shape of a row.
            chunk: Shape of a chunk, rows first.
            attributes: JSON by name.

        Raises:
            ValueError: The format does not support the dtype.
        """
        ...


def check_places(types: Mapping[str, SampleType], format_name: str) -> None:
    """Refuse tensors one of which would lie within another's place."""
    for name in types:
        for other in types:
            if other.startswith(f"{name}/"):
                raise UnsupportedFeatureError(
                    f"in a {format_name} group {other!r} would lie inside the array {name!r}"
                    "\nleave one out: columns=[…]",
                    tensor=other,
                )


def fill_group(group: ArrayGroup, view: RowSet, types: Mapping[str, SampleType]) -> None:
    """Write tensors into a group, batch by batch."""
    for name, sample_type in types.items():
        attributes: dict[str, Any] = {TYPE_ATTRIBUTE: sample_type.to_json()}
        if isinstance(sample_type, ClassLabel):
            attributes["names"] = list(sample_type.names)
        columns, plain = _columns(view, name), untiled(sample_type)
        if plain.nullable or not _is_one_array(plain):
            _write_parts(group.group(name, attributes), name, columns)
        elif plain.layout == "encoded":
            texts = _created(group, name, np.dtype("O"), (), attributes, tensor=name)
            for column in columns:
                texts.append(_texts(column))
        else:
            _write_uniform(group, name, plain, columns, attributes)


def _is_one_array(sample_type: SampleType) -> bool:
    """Whether one array is sufficient."""
    return sample_type.layout == "uniform" or sample_type.query_kind == "text"


def _columns(view: RowSet, name: str) -> Iterator[Column]:
    """Read a tensor batch by batch; once, with no rows, where there are none."""
    if not len(view):
        yield view.read_exported(name, np.zeros(0, np.int64))
    for start, stop in view.spans([name], rows_max=ROWS_AT_ONCE, nbytes=BATCH_NBYTES):
        yield view.read_exported(name, np.arange(start, stop, dtype=np.int64))


def _write_uniform(
    group: ArrayGroup,
    name: str,
    sample_type: SampleType,
    columns: Iterator[Column],
    attributes: Mapping[str, Any],
) -> None:
    made: GrowingArray | None = None
    for column in columns:
        assert isinstance(column, UniformColumn)
        is_time = isinstance(sample_type, Timestamp)
        values = sample_type.present(column) if is_time else column.values
        if made is None:
            made = _created(group, name, values.dtype, values.shape[1:], attributes, tensor=name)
        made.append(np.asarray(values))


def _write_parts(place: ArrayGroup, name: str, columns: Iterator[Column]) -> None:
    """Write what is not one array: values, where each sample lies, and which are NULL."""
    parts: dict[str, GrowingArray] = {}
    rows = end = 0

    def part(key: str, values: np.ndarray) -> None:
        if key not in parts:
            parts[key] = _created(place, key, values.dtype, values.shape[1:], {}, tensor=name)
        parts[key].append(values)

    for column in columns:
        if column.valid is not None or "valid" in parts:
            if "valid" not in parts:
                part("valid", np.ones(rows, np.bool_))
            valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
            part("valid", valid)
        match column:
            case UniformColumn(values=values):
                part("values", values)
            case RaggedColumn():
                ragged = as_ragged(column)
                part("values", ragged.values)
                part("shapes", ragged.shapes)
            case EncodedColumn(samples=samples):
                lengths = np.fromiter(map(len, samples), np.int64, len(samples))
                part("values", np.frombuffer(b"".join(samples), np.uint8))
                first = [0] if "offsets" not in parts else []
                offsets = end + np.cumsum(lengths)
                part("offsets", np.concatenate([np.array(first, np.int64), offsets]))
                end += int(lengths.sum())
        rows += len(column)


def _texts(column: Column) -> np.ndarray:
    assert isinstance(column, EncodedColumn), "text is stored encoded"
    texts = np.empty(len(column), dtype=object)
    for row, sample in enumerate(column.samples):
        texts[row] = str(sample, "utf-8")
    return texts


def _created(
    group: ArrayGroup,
    name: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
    *,
    tensor: str,
) -> GrowingArray:
    rows = max(1, CHUNK_NBYTES // max(1, dtype.itemsize * math.prod(shape)))
    chunk = (rows, *(max(1, length) for length in shape))
    try:
        return group.array(name, dtype, shape, chunk, attributes)
    except (ValueError, TypeError) as error:
        raise UnsupportedFeatureError(
            f"the format does not support {tensor!r}: {error}\nleave it out: columns=[…]",
            tensor=tensor,
        ) from error
