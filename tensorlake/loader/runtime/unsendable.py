"""Values that cannot be pickled for another process: which part of one, and why."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from types import MethodType
from typing import Any, cast

__all__ = ["UnsendableError", "unsendable"]

MAX_DEPTH = 8  # of a path


class UnsendableError(Exception):
    """A value cannot be sent to another process.

    Attributes:
        path: The way to its innermost part that cannot: `("[3]", "['file']")`.
        kind: The type of that part.
        reason: The error of pickling it.
    """

    def __init__(self, path: tuple[str, ...], kind: str, reason: str) -> None:
        super().__init__(path, kind, reason)
        self.path = path
        self.kind = kind
        self.reason = reason


def unsendable(value: Any) -> UnsendableError | None:
    """Find the innermost part of a value that cannot be pickled; None if all can be."""
    reason = _refused(value)
    if reason is None:
        return None
    path: list[str] = []
    while len(path) < MAX_DEPTH:
        for name, part in _parts(value):
            if (inner := _refused(part)) is not None:
                value, reason = part, inner
                path.append(name)
                break
        else:
            break
    return UnsendableError(tuple(path), type(value).__name__, reason)


def _refused(value: Any) -> str | None:
    try:
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - whatever a user's class raises
        return f"{type(error).__name__}: {error}"
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        yield from ((f"[{key!r}]", part) for key, part in items)
    elif isinstance(value, list | tuple):
        elements = cast("list[Any] | tuple[Any, ...]", value)
        yield from ((f"[{at}]", part) for at, part in enumerate(elements))
    elif not isinstance(value, type) and not hasattr(value, "__code__"):
        slots = [name for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
        own = getattr(value, "__dict__", {}) | {name: getattr(value, name) for name in slots}
        yield from ((f".{name}", part) for name, part in own.items())
