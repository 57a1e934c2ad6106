"""Importers of installed packages: functions ``(src, dst, **options)``.

A plug-in is a distribution with an entry point in the group ``tensorlake.importers``: its name is
that of the importer, ``tl.ingest.NAME`` (docs/how-to/add-a-format.md).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from tensorlake.errors import UnsupportedFeatureError

__all__ = ["importer"]

GROUP = "tensorlake.importers"


def importer(name: str) -> Callable[..., Any] | None:
    """Return the importer of a plug-in; None if none provides the name.

    Raises:
        UnsupportedFeatureError: The plug-in cannot be loaded, or is not a function.
    """
    for found in entry_points(group=GROUP, name=name):
        where = f"the plug-in {found.value!r}, which provides tl.ingest.{name},"
        try:
            loaded: Any = found.load()
        except (ImportError, AttributeError) as error:
            raise UnsupportedFeatureError(
                f"{where} cannot be loaded: {error}\nreinstall it with its dependencies",
                actual=name,
            ) from error
        if not callable(loaded):
            message = f"{where} is not a function but {loaded!r:.80}\nreport this to its author"
            raise UnsupportedFeatureError(message, actual=name)
        return loaded
    return None
