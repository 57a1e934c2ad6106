"""Exports to files: destinations, and rows with their samples as stored.

A destination is written beside its name, and renamed when complete.

An interrupted export leaves nothing under the requested name. An existing destination is an error,
unless it may be overwritten.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.dataset.export.arrow.stream import BATCH_NBYTES, VIRTUAL_COLUMNS, check_columns
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.quantities import check_flags
from tensorlake.storage import place_text
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
    "TYPES_FILE",
    "as_stored",
    "leads_outside",
    "new_file",
    "new_folder",
    "plain_value",
    "stored_rows",
    "tensor_columns",
    "write_types",
]

ROWS_AT_ONCE = 256
"""Most rows read together."""

TYPES_FILE = "tensorlake.json"
"""Beside the files of a format: the type of each tensor, by name."""


def leads_outside(name: str) -> bool:
    """Whether a name leads out of the folder that it is relative to."""
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or ".." in parts or parts[0].endswith(":")


@contextmanager
def new_file(dst: str | PathLike[str], *, overwrite: bool) -> Generator[Path]:
    """Yield a file to write, which is renamed to the destination at the end."""
    target = _free(dst, overwrite=overwrite)
    partial = _partial(target)
    try:
        yield partial
        _make_room(target)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(dst: str | PathLike[str], *, overwrite: bool) -> Generator[Path]:
    """Yield an empty folder to fill, which is renamed to the destination at the end."""
    target = _free(dst, overwrite=overwrite)
    partial = _partial(target)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        _make_room(target)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _free(dst: str | PathLike[str], *, overwrite: bool) -> Path:
    text = place_text(dst, what="dst")
    if "://" in text:
        raise UnsupportedFeatureError(
            f"files are written to a local path, not to {text!r}"
            "\nwrite them here and copy them, or copy the dataset: tl.copy(src, dst)",
            actual=text,
        )
    check_flags(overwrite=overwrite)
    target = Path(text)
    if target.exists() and not overwrite:
        raise InvalidInputError(
            f"{str(target)!r} is there already"
            "\ngive overwrite=True (in a shell: --overwrite), or another path",
            actual=str(target),
        )
    place_text(str(_partial(target)), what="dst")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _partial(target: Path) -> Path:
    """Name the file or folder that is written before it gets the target's name."""
    return target.with_name(f"{target.name}.partial")


def _make_room(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


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
            yield {name: as_stored(types[name], column, at) for name, column in read.items()}


def as_stored(sample_type: SampleType, column: Any, at: int) -> Any:
    """Return one sample: an image as bytes, a mask as RLE, any other as users see it."""
    if isinstance(column, EncodedColumn) and sample_type.is_media:
        if column.valid is not None and not column.valid[at]:
            return None
        sample = column.samples[at]
        runs = isinstance(sample_type, InstanceMask)
        return sample_type.run_lengths(sample) if runs else bytes(sample)
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
