"""HDF5: a file with an array for each tensor, as `layout.py` draws them.

HDF5 has no type of times: they are integers, whose unit is in the tensor's type. Types and class
names are attributes of JSON text. Arrays are chunked and not compressed, as h5py writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrays.layout import ArrayGroup, check_places, fill_group
from tensorlake.dataset.export.destinations import new_file
from tensorlake.dataset.export.files import tensor_columns
from tensorlake.errors import InvalidInputError, missing_extra

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_hdf5"]

MAGIC = b"\x89HDF\r\n\x1a\n"

LIBVER = "v108"
"""The format of HDF5 1.8, of 2008, the first whose attributes may be larger than 64 KB."""


def to_hdf5(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    overwrite: bool,
) -> None:
    """Write rows into an HDF5 file."""
    try:
        h5py: Any = import_module("h5py")  # its types are partial
    except ImportError as error:
        raise missing_extra("to_hdf5()", "hdf5") from error
    types = tensor_columns(view, columns, call="to_hdf5()")
    check_places(types, "hdf5")
    with (
        new_file(dst, begins=MAGIC, overwrite=overwrite) as path,
        h5py.File(path, "w", libver=LIBVER) as file,
    ):
        file.attrs.update({"url": view.url, "version": view.version})
        fill_group(_Group(file, h5py), view, types)


class _Group:
    """A group of an HDF5 file."""

    def __init__(self, group: Any, h5py: Any) -> None:
        self._group, self._h5py = group, h5py

    def group(self, name: str, attributes: Mapping[str, Any]) -> ArrayGroup:
        made = self._group.create_group(name)
        _describe(made, attributes)
        return _Group(made, self._h5py)

    def array(
        self,
        name: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        chunk: tuple[int, ...],
        attributes: Mapping[str, Any],
    ) -> _Array:
        stored: Any = dtype
        if dtype.kind == "V":  # which h5py would write as bytes without a meaning
            raise TypeError(f"HDF5 has no {dtype.name}")
        if dtype.kind == "O":
            stored = self._h5py.string_dtype()
        elif dtype.kind == "M":
            stored = np.dtype(np.int64)
        most = (None, *(length or None for length in shape))  # no chunk fits into a length of 0
        made = self._group.create_dataset(
            name, shape=(0, *shape), maxshape=most, chunks=chunk, dtype=stored
        )
        _describe(made, attributes)
        return _Array(made)


class _Array:
    """An array of an HDF5 file."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def append(self, values: np.ndarray) -> None:
        start = len(self._array)
        if not len(values):
            return
        if values.dtype.kind == "O":
            _check_texts(values, self._array.name, start)
        elif values.dtype.kind == "M":  # of dates, whose unit is the day: as they are stored
            is_days = np.datetime_data(values.dtype)[0] == "D"
            values = (values.astype("M8[s]") if is_days else values).view(np.int64)
        self._array.resize(start + len(values), axis=0)
        self._array[start:] = values


def _describe(place: Any, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        place.attrs[name] = json.dumps(value)


def _check_texts(texts: np.ndarray, name: str, start: int) -> None:
    """Refuse texts that HDF5 would cut: its strings end at the first NUL."""
    for row, text in enumerate(texts, start=start):
        if "\0" in text:
            raise InvalidInputError(
                f"row {row} of {name.strip('/')!r} has the character NUL, at which a string of HDF5"
                " ends\nleave the tensor out: columns=[…]",
                tensor=name.strip("/"),
                row=row,
            )
