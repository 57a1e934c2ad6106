"""Arrays of NumPy, in memory and in an ``.npz`` file.

    tensor of one shape    an array, rows first; class labels are their codes
    ragged                 in memory an array of arrays; in a file ``x.values``, all elements one
                           after another, and ``x.shapes``, int64 (rows, axes)
    Text, Uuid             in memory an array of str; in a file NumPy's fixed-width text
    images, video, …       in memory the files, as stored or linked; not supported in a file
    volumes, points        in memory an array of arrays, decoded; not supported in a file
    all others             in memory an array of objects; not supported in a file

``tl.ingest.numpy`` reads such a file, pairs of values and shapes included.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow.stream import check_columns, check_in_memory
from tensorlake.dataset.export.destinations import new_file
from tensorlake.dataset.export.files import as_stored, tensor_columns
from tensorlake.dataset.write.file_names import SHAPES, VALUES
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import (
    Column,
    EncodedColumn,
    RaggedColumn,
    SampleType,
    UniformColumn,
    untiled,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["one_array", "to_npz", "to_numpy"]

"""Suffixes of the two arrays of a ragged tensor."""

TEXT_NBYTES_MAX = 4 << 30
"""NumPy pads text to the longest: what that may take in a file."""


def to_numpy(view: RowSet, columns: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Read columns as arrays, by name."""
    names = check_columns(view, columns)
    check_in_memory(view, names, call="to_numpy()")
    arrays: dict[str, np.ndarray] = {}
    for name in names:
        if name in view.computed:
            arrays[name] = one_array(view.computed[name].present())
        elif name == "_row":
            arrays[name] = view.rows
        elif name == "_row_id":
            arrays[name] = _objects(view.row_ids)
        elif name == "_source":
            arrays[name] = _objects(view.sources)
        else:
            arrays[name] = _array(view.exported_schema[name], _stored(view, name), name)
    return arrays


def to_npz(
    view: RowSet, dst: str | PathLike[str], *, columns: Sequence[str] | None, overwrite: bool
) -> None:
    """Write columns into an ``.npz`` file."""
    types = tensor_columns(view, columns, call="to_numpy()")
    check_in_memory(view, [*types], call="to_numpy()")
    for name, one in types.items():
        _check_form(name, one)
    members: dict[str, np.ndarray] = {}
    for name, one in types.items():
        for member, array in _members(name, one, _stored(view, name)).items():
            if member in members:
                message = f"two tensors would be {member!r} in the file\nleave one out: columns=[…]"
                raise InvalidInputError(message, tensor=name)
            members[member] = array
    with (
        new_file(dst, begins=b"PK", overwrite=overwrite) as path,
        zipfile.ZipFile(path, "w") as archive,
    ):
        for member, array in members.items():  # np.savez has no room for an array called 'file'
            with archive.open(f"{member}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _stored(view: RowSet, name: str) -> Column:
    return view.read_exported(name, view.selection.all_positions())


def _array(sample_type: SampleType, column: Column, name: str) -> np.ndarray:
    if isinstance(column, UniformColumn):
        return np.asarray(sample_type.present(column, tensor=name))
    if isinstance(column, EncodedColumn) and sample_type.is_media:
        if sample_type.is_lazy and not sample_type.keeps_files:
            handles = [sample_type.present_one(column, at) for at in range(len(column))]
            return _objects([None if one is None else np.asarray(one) for one in handles])
        return _objects([as_stored(sample_type, column, at) for at in range(len(column))])
    return _objects([sample_type.present_one(column, at) for at in range(len(column))])


def one_array(values: Any) -> np.ndarray:
    """Return what brackets give as one array: of the samples as objects, where shapes differ."""
    return np.asarray(values) if isinstance(values, np.ndarray) else _objects(list(values))


def _objects(values: Sequence[Any]) -> np.ndarray:
    """Make one array of objects, which NumPy alone would take apart."""
    made = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return made


def _check_form(name: str, sample_type: SampleType) -> None:
    dtype = sample_type.dtype
    is_array = dtype is not None and dtype.kind != "V" and not untiled(sample_type).is_media
    if is_array or sample_type.query_kind == "text":
        return
    raise UnsupportedFeatureError(
        f"an .npz file does not support {name!r} ({sample_type.describe()})"
        "\nleave it out: columns=[…]; to_zarr(dst) and to_parquet(dst) have bytes",
        tensor=name,
    )


def _members(name: str, sample_type: SampleType, column: Column) -> dict[str, np.ndarray]:
    whole = sample_type.without_nulls(column, tensor=name)
    if isinstance(whole, RaggedColumn):
        return {f"{name}{VALUES}": whole.values, f"{name}{SHAPES}": whole.shapes}
    if isinstance(whole, EncodedColumn):
        return {name: _texts(name, [str(sample, "utf-8") for sample in whole.samples])}
    return {name: np.asarray(sample_type.present(whole, tensor=name))}


def _texts(name: str, texts: Sequence[str]) -> np.ndarray:
    longest = max(map(len, texts), default=0)
    if longest * 4 * len(texts) > TEXT_NBYTES_MAX:
        raise UnsupportedFeatureError(
            f"{name!r} as NumPy's text would take {longest * 4 * len(texts):,} bytes: each of"
            f" {len(texts):,} rows as long as the longest, of {longest:,} letters"
            "\nleave it out: columns=[…]; to_parquet(dst) and to_jsonl(dst) have text",
            tensor=name,
        )
    cut = next((row for row, text in enumerate(texts) if text.endswith("\0")), None)
    if cut is not None:
        raise InvalidInputError(
            f"row {cut} of {name!r} ends in a NUL character, which NumPy's text drops"
            "\nleave the tensor out: columns=[…]",
            tensor=name,
            row=cut,
        )
    return np.array(texts, dtype=f"<U{max(1, longest)}")
