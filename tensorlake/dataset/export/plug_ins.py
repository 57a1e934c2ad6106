"""Formats of files: those that come with tensorlake, and those of installed packages.

A plug-in is a distribution with an entry point in the group ``tensorlake.exporters``: its name is
the format, its object a function ``(view, dst, *, columns, overwrite, **options)``
(docs/how-to/add-a-format.md).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean, shown
from tensorlake.types import loaded_plug_in

__all__ = ["FILE_FORMATS", "export_formats", "exporter"]

GROUP = "tensorlake.exporters"

FILE_FORMATS = (
    *("coco", "croissant", "csv", "hdf5", "jsonl", "lerobot", "litdata", "mds", "numpy"),
    *("parquet", "tfrecord", "webdataset", "zarr"),
)
"""Formats that come with tensorlake; each has a method ``to_…`` with a destination."""


def export_formats() -> list[str]:
    """Return the names of all formats, those of plug-ins last."""
    others = sorted({one.name for one in entry_points(group=GROUP)} - {*FILE_FORMATS})
    return [*FILE_FORMATS, *others]


def exporter(kind: object) -> Callable[..., Any] | None:
    """Return the function of a plug-in; None for a format that comes with tensorlake.

    Raises:
        InvalidInputError: The format is unknown.
        UnsupportedFeatureError: The plug-in cannot be loaded, or is not a function.
    """
    known = export_formats()
    if not isinstance(kind, str) or kind not in known:
        near = did_you_mean(kind, known) if isinstance(kind, str) else ""
        message = f"unknown format {shown(kind)}{near}\nformats: {', '.join(known)}"
        raise InvalidInputError(message, argument="kind", actual=kind)
    if kind in FILE_FORMATS:
        return None
    found = next(iter(entry_points(group=GROUP, name=kind)))
    loaded, where = loaded_plug_in(found, provides=f"the format {kind!r}")
    if not callable(loaded):
        message = f"{where} is not a function but {loaded!r:.80}\nreport this to its author"
        raise UnsupportedFeatureError(message, actual=kind)
    return loaded
