"""Zarr: a group with an array for each tensor, as `layout.py` draws them.

Without a destination the group is in memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrays.layout import (
    TYPE_ATTRIBUTE,
    ArrayGroup,
    check_places,
    fill_group,
)
from tensorlake.dataset.export.arrow.stream import check_in_memory
from tensorlake.dataset.export.destinations import Form, in_bucket, new_folder
from tensorlake.dataset.export.files import tensor_columns
from tensorlake.errors import missing_extra

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_zarr"]

Group = Any  # zarr's types would make it an import


def to_zarr(
    view: RowSet,
    dst: str | PathLike[str] | None,
    *,
    columns: Sequence[str] | None,
    overwrite: bool,
) -> Group:
    """Write rows into a zarr group; return it, read only, where it is in a folder or in memory."""
    try:
        import zarr
        from zarr.storage import MemoryStore
    except ImportError as error:
        raise missing_extra("to_zarr()", "zarr") from error
    types = tensor_columns(view, columns, call="to_zarr()")
    check_places(types, "zarr")

    def fill(group: Group) -> None:
        group.attrs.update({"url": view.url, "version": view.version})
        fill_group(_Group(group), view, types)

    if dst is None:
        check_in_memory(view, [*types], call="to_zarr()")
        memory: dict[str, Any] = {}
        fill(zarr.create_group(store=MemoryStore(memory)))
        return zarr.open_group(store=MemoryStore(memory, read_only=True), mode="r")
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        fill(zarr.create_group(store=str(folder)))
    return None if in_bucket(dst) else zarr.open_group(store=os.fspath(dst), mode="r")


def _has_types(folder: Path) -> bool:
    """Whether each array in a folder is part of a tensor, whose type is an attribute."""
    if "version" not in _attributes(folder):
        return False
    for path in folder.rglob("zarr.json"):
        places = (path.parent, *path.parent.parents)
        within = places[: places.index(folder)]
        described = json.loads(path.read_bytes())
        is_typed = any(TYPE_ATTRIBUTE in _attributes(one) for one in within)
        if described.get("node_type") == "array" and not is_typed:
            return False
    return True


def _attributes(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / "zarr.json").read_bytes())["attributes"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


FORM = Form("zarr", re.compile(r"(.+/)?(zarr\.json|c(/\d+)*)"), _has_types)


class _Group:
    """A zarr group."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def group(self, name: str, attributes: Mapping[str, Any]) -> ArrayGroup:
        return _Group(self._group.create_group(name, attributes=attributes))

    def array(
        self,
        name: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        chunk: tuple[int, ...],
        attributes: Mapping[str, Any],
    ) -> _Array:
        made = self._group.create_array(
            name,
            shape=(0, *shape),
            chunks=chunk,
            dtype="string" if dtype.kind == "O" else dtype,
            attributes=attributes,
        )
        return _Array(made)


class _Array:
    """A zarr array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def append(self, values: np.ndarray) -> None:
        if len(values):
            self._array.append(values)
