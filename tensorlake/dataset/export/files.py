"""Exports to files: tensors that a format gets, and rows with their samples as stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.dataset.export.arrow.stream import BATCH_NBYTES, VIRTUAL_COLUMNS, check_columns
from tensorlake.dataset.export.destinations import TYPES_FILE
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import (
    EncodedColumn,
    InstanceMask,
    Label,
    LabelArray,
    Ragged,
    SampleType,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = [
    "ROWS_AT_ONCE",
    "as_stored",
    "leads_outside",
    "plain_value",
    "stored_rows",
    "tensor_columns",
    "write_types",
]

ROWS_AT_ONCE = 256
"""Most rows read together."""


def leads_outside(name: str) -> bool:
    """Whether a name leads out of the folder that it is relative to."""
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or ".." in parts or parts[0].endswith(":")


def tensor_columns(
    view: RowSet, columns: Sequence[str] | None, *, call: str
) -> dict[str, SampleType]:
    """Return the tensors that a format of files gets, each with its type as exported.

    Those of expressions are among them.

    Args:
        view: The rows.
        columns: Only these; all by default.
        call: The call that the user made, for errors.

    Raises:
        TensorNotFoundError: There is no such column.
        UnsupportedFeatureError: A query computed a column, which so has no type for export.
    """
    names = check_columns(view, columns)
    for name in names:
        if name in VIRTUAL_COLUMNS or (name in view.computed and not view.is_expression(name)):
            raise UnsupportedFeatureError(
                f"{call} writes tensors, and {name!r} is computed"
                "\nleave it out by columns=, or make a dataset of it: view.materialize(url)",
                column=name,
            )
    if not names:
        raise InvalidInputError(f"{call} has no columns to write")
    return {name: view.exported_type(name) for name in names}


def write_types(folder: Path, types: Mapping[str, SampleType]) -> None:
    """Write the types of tensors beside the files of a format that has no place for them."""
    described = {name: one.to_json() for name, one in types.items()}
    (folder / TYPES_FILE).write_text(json.dumps(described))


def stored_rows(view: RowSet, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Read rows: media as stored bytes or linked files, masks as RLE, others as users see them."""
    types = {name: view.exported_type(name) for name in columns}
    for start, stop in view.spans(columns, rows_max=ROWS_AT_ONCE, nbytes=BATCH_NBYTES):
        positions = np.arange(start, stop, dtype=np.int64)
        read = {name: view.read_exported(name, positions) for name in columns}
        for at in range(len(positions)):
            yield {
                name: as_stored(types[name], column, at, keeps_size=True)
                for name, column in read.items()
            }


def as_stored(sample_type: SampleType, column: Any, at: int, *, keeps_size: bool = False) -> Any:
    """Return one sample: an image as bytes, a mask as RLE, any other as users see it.

    Args:
        sample_type: Its type.
        column: The samples.
        at: Its position.
        keeps_size: Whether no masks of a size are that, as ``extend`` takes it, and not [].
    """
    if isinstance(column, EncodedColumn) and sample_type.is_media:
        if column.valid is not None and not column.valid[at]:
            return None
        sample = column.samples[at]
        if not isinstance(sample_type, InstanceMask):
            return bytes(sample)
        read = sample_type.stored_runs if keeps_size else sample_type.run_lengths
        return read(sample)
    return sample_type.present_one(column, at)


def plain_value(value: Any) -> Any:
    """Return a sample without NumPy: a number or a string, or lists and dicts of them.

    Class labels are the names of their classes.

    A ``datetime64`` stays: as nanoseconds it has no equivalent in Python.
    """
    if isinstance(value, np.datetime64):
        return value
    if isinstance(value, Label):
        return value.name
    if isinstance(value, LabelArray):
        return value.as_names()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain_value(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple | Ragged):
        return [plain_value(one) for one in cast("list[Any]", value)]
    return value
