"""Signatures of public calls: what ``help()``, completion and ``inspect.signature`` show.

A call that shares its options with other calls, and has its own error for unknown names, takes
``**options`` of a TypedDict, which type checkers read, and shows them by name (`with_options`).
Functions that are methods of several classes are shown as methods of each (`shows_methods`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar, cast

__all__ = ["shows_methods", "with_options"]

Declared = TypeVar("Declared", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)


def with_options(options: type, defaults: Mapping[str, Any]) -> Callable[[Declared], Declared]:
    """Show the options of a TypedDict, which a function takes as ``**options``, by their names.

    Args:
        options: The TypedDict.
        defaults: The default of each, in the order that is shown; others are left out.
    """

    def shown(function: Declared) -> Declared:
        own = inspect.signature(function)
        kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=options.__annotations__[name].__forward_arg__,
            )
            for name, default in defaults.items()
            if name in options.__annotations__
        ]
        cast("Any", function).__signature__ = own.replace(parameters=[*kept, *added])
        return function

    return shown


def shows_methods(kind: Kind) -> Kind:
    """Name a class's methods that are functions of modules as methods of the class.

    Each becomes a function of its own, since several classes may have the same one.
    """
    for name, value in list(vars(kind).items()):
        qualified = f"{kind.__qualname__}.{name}"
        if not isinstance(value, FunctionType) or value.__qualname__ == qualified:
            continue
        method = FunctionType(
            value.__code__, value.__globals__, name, value.__defaults__, value.__closure__
        )
        method.__kwdefaults__ = value.__kwdefaults__
        method.__doc__, method.__annotations__ = value.__doc__, value.__annotations__
        method.__dict__.update(vars(value))  # the declaration that it shows
        method.__name__, method.__qualname__ = name, qualified
        method.__module__ = kind.__module__
        setattr(kind, name, method)
    return kind
