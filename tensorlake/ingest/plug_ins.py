"""Importers of installed packages: functions ``(src, dst, **options)``.

A plug-in is a distribution with an entry point in the group ``tensorlake.importers``: its name is
that of the importer, ``tl.ingest.NAME`` (docs/how-to/add-a-format.md).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types import loaded_plug_in

__all__ = ["importer", "importer_names"]

GROUP = "tensorlake.importers"


def importer_names() -> list[str]:
    """Return the names of the importers of installed packages."""
    return sorted({one.name for one in entry_points(group=GROUP)})


def importer(name: str) -> Callable[..., Any] | None:
    """Return the importer of a plug-in; None if none provides the name.

    Raises:
        UnsupportedFeatureError: The plug-in cannot be loaded, or is not a function.
    """
    for found in entry_points(group=GROUP, name=name):
        loaded, where = loaded_plug_in(found, provides=f"tl.ingest.{name}")
        if not callable(loaded):
            message = f"{where} is not a function but {loaded!r:.80}\nreport this to its author"
            raise UnsupportedFeatureError(message, actual=name)
        return loaded
    return None
