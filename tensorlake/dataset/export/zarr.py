"""Zarr: a group with an array for each tensor, rows first.

    uniform        x              an array (rows, *shape); class labels are codes, with their names
    Text, Uuid     x              an array of strings
    ragged         x/values       all elements, one after another
                   x/shapes       int64 (rows, axes)
    images, …      x/values       uint8, the stored bytes, one after another
                   x/offsets      int64 (rows + 1): row i is values[offsets[i] : offsets[i + 1]]
    nullable       x/values …     as above, text as its bytes; and where there are NULLs
                   x/valid        bool (rows); values has zeros, or nothing, for a NULL

Each array, or group of these, has the tensor's type as JSON in its attribute ``tensorlake``, and
class names in ``names``. Rows are written batch by batch, so any number passes through bounded
memory; without a destination the group is in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow.stream import BATCH_NBYTES, check_columns, check_in_memory
from tensorlake.dataset.export.files import new_folder, plain_columns
from tensorlake.errors import UnsupportedFeatureError, missing_extra
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

__all__ = ["to_zarr"]

Group = Any  # zarr's types would make it an import

CHUNK_NBYTES = 1 << 20
"""Chunk size of an array before compression, as zarr-python would choose."""

ROWS_AT_ONCE = 1024
"""Most rows read together."""


def to_zarr(
    view: RowSet,
    dst: str | PathLike[str] | None,
    *,
    columns: Sequence[str] | None,
    overwrite: bool,
) -> Group:
    """Write rows into a zarr group, in a folder or in memory, and return it, read only."""
    try:
        import zarr
        from zarr.storage import MemoryStore
    except ImportError as error:
        raise missing_extra("to_zarr()", "zarr") from error
    names = check_columns(view, columns)
    plain_columns(view, names, call="to_zarr()")
    _check_places(names)
    if dst is None:
        check_in_memory(view, names, call="to_zarr()")
        memory: dict[str, Any] = {}
        _fill(zarr.create_group(store=MemoryStore(memory)), view, names)
        return zarr.open_group(store=MemoryStore(memory, read_only=True), mode="r")
    with new_folder(dst, overwrite=overwrite) as folder:
        _fill(zarr.create_group(store=str(folder)), view, names)
    return zarr.open_group(store=os.fspath(dst), mode="r")


def _check_places(names: Sequence[str]) -> None:
    """Refuse tensors one of which would lie within another's place."""
    for name in names:
        for other in names:
            if other.startswith(f"{name}/"):
                raise UnsupportedFeatureError(
                    f"in a zarr group {other!r} would lie inside the array {name!r}"
                    "\nleave one out: columns=[…]",
                    tensor=other,
                )


def _fill(group: Group, view: RowSet, names: Sequence[str]) -> None:
    group.attrs.update({"url": view.url, "version": view.version})
    for name in names:
        sample_type = view.exported_schema[name]
        attributes: dict[str, Any] = {"tensorlake": sample_type.to_json()}
        if isinstance(sample_type, ClassLabel):
            attributes["names"] = list(sample_type.names)
        columns, sample_type = _columns(view, name), untiled(sample_type)
        if sample_type.nullable or not _is_one_array(sample_type):
            _write_parts(group.create_group(name, attributes=attributes), name, columns)
        elif sample_type.layout == "encoded":
            texts = _Growing(group, name, np.dtype("O"), (), attributes)
            for column in columns:
                texts.append(_texts(column))
        else:
            _write_uniform(group, name, sample_type, columns, attributes)


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
    group: Group,
    name: str,
    sample_type: SampleType,
    columns: Iterator[Column],
    attributes: dict[str, Any],
) -> None:
    made: _Growing | None = None
    for column in columns:
        assert isinstance(column, UniformColumn)
        is_time = isinstance(sample_type, Timestamp)
        values = sample_type.present(column) if is_time else column.values
        if made is None:
            made = _Growing(group, name, values.dtype, values.shape[1:], attributes)
        made.append(np.asarray(values))


def _write_parts(place: Group, name: str, columns: Iterator[Column]) -> None:
    """Write what is not one array: values, where each sample lies, and which are NULL."""
    parts: dict[str, _Growing] = {}

    def part(key: str, values: np.ndarray) -> None:
        if key not in parts:
            parts[key] = _Growing(place, key, values.dtype, values.shape[1:], {}, tensor=name)
        parts[key].append(values)

    end = 0
    for column in columns:
        if column.valid is not None or "valid" in parts:
            if "valid" not in parts:
                part("valid", np.ones(_rows_of(parts), np.bool_))
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


def _rows_of(parts: dict[str, _Growing]) -> int:
    """Rows written so far."""
    if "shapes" in parts:
        return parts["shapes"].length
    if "offsets" in parts:
        return parts["offsets"].length - 1
    return parts["values"].length if "values" in parts else 0


def _texts(column: Column) -> np.ndarray:
    assert isinstance(column, EncodedColumn), "text is stored encoded"
    texts = np.empty(len(column), dtype=object)
    for row, sample in enumerate(column.samples):
        texts[row] = str(sample, "utf-8")
    return texts


class _Growing:
    """A zarr array that grows along its first axis."""

    def __init__(
        self,
        group: Group,
        name: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        attributes: dict[str, Any],
        *,
        tensor: str | None = None,
    ) -> None:
        row_nbytes = max(1, dtype.itemsize * math.prod(shape))
        chunk = max(1, CHUNK_NBYTES // row_nbytes)
        is_text = dtype.kind == "O"
        try:
            self._array = group.create_array(
                name,
                shape=(0, *shape),
                chunks=(chunk, *(max(1, length) for length in shape)),
                dtype="string" if is_text else dtype,
                attributes=attributes,
            )
        except ValueError as error:
            raise UnsupportedFeatureError(
                f"zarr does not support {tensor or name!r}: {error}\nleave it out: columns=[…]",
                tensor=tensor or name,
            ) from error
        self.length = 0

    def append(self, values: np.ndarray) -> None:
        """Write values behind those that are there."""
        if len(values):
            self._array.append(values)
            self.length += len(values)
