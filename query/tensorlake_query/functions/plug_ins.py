"""Functions that installed packages bring, by entry points of the group `tensorlake.functions`.

    [project.entry-points."tensorlake.functions"]
    brightness = "my_functions:brightness"

The name is the function's, in lower case, and the object is a `Function`. One is loaded when a
query first calls it; a function of the language, or of `tl.udf`, takes precedence over it
(docs/how-to/add-a-function.md).
"""

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from tensorlake_query.functions.registry import Function

GROUP = "tensorlake.functions"


class PlugInError(Exception):
    """An installed function cannot be used; `hint` is the remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def plug_in_names() -> list[str]:
    """Return the names of the functions that packages bring."""
    return sorted({each.name.upper() for each in entry_points(group=GROUP)})


@lru_cache(maxsize=256)
def plug_in(name: str) -> Function | None:
    """Return the function of a name, in upper case; None where no package brings it.

    Raises:
        PlugInError: it cannot be loaded, or is not a function of this name.
    """
    found = [each for each in entry_points(group=GROUP) if each.name.upper() == name]
    if not found:
        return None
    values = sorted({each.value for each in found})
    if len(values) > 1:
        shown = " and ".join(map(repr, values))
        raise PlugInError(f"{name} is a function of several plug-ins, {shown}", "uninstall one")
    return _loaded(name, found[0])


def _loaded(name: str, entry_point: EntryPoint) -> Function:
    where = f"the plug-in {entry_point.value!r}, which provides the function {name},"
    try:
        loaded: object = entry_point.load()
    except (ImportError, AttributeError) as error:
        hint = "reinstall it with its dependencies"
        raise PlugInError(f"{where} cannot be loaded: {error}", hint) from error
    if not isinstance(loaded, Function):
        shown = f"{loaded!r:.80}"
        raise PlugInError(
            f"{where} is not a Function but {shown}", "make it by tensorlake_query.user_function"
        )
    if loaded.name != name:
        hint = "the entry point's name must be the function's in lower case"
        raise PlugInError(f"{where} is named {loaded.name}", hint)
    return loaded
