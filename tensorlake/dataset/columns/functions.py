"""The functions of computed tensors that this process knows, by tensor id and digest.

A dataset declares a digest of the function and never has the function itself: data must not decide
what code runs. A process that computes is given the function again, and the digest tells whether it
is the one declared. Ids are the same on all branches and in all handles, and are never used again.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from tensorlake.errors import InvalidStateError
from tensorlake.format import TensorSpec, canonical_bytes

__all__ = ["code_of", "known_function", "learn_function", "name_of"]

Function = Callable[[dict[str, Any]], Any]

DIGEST_NBYTES = 10

KEPT_FUNCTIONS = 16
"""Functions of one tensor that are known together: on several branches, or before ``discard``."""

_known: dict[str, dict[str, Function]] = {}


def learn_function(tensor_id: str, code: str, function: Function) -> None:
    """Remember the function of a tensor that has a digest."""
    known = _known.setdefault(tensor_id, {})
    known.pop(code, None)
    known[code] = function
    while len(known) > KEPT_FUNCTIONS:
        del known[next(iter(known))]


def known_function(spec: TensorSpec, *, where: str) -> Function:
    """Return the function of a tensor.

    Raises:
        InvalidStateError: It was not given to this process, or another one was.
    """
    assert spec.compute is not None
    known = _known.get(spec.id)
    advice = f"\ngive it: ds.alter_tensor({spec.name!r}, compute={spec.compute.function})"
    if not known:
        raise InvalidStateError(
            f"the function of {spec.name!r} of {where}, {spec.compute.function!r}, was not given to"
            f" this process; datasets store no code{advice}",
            tensor=spec.name,
        )
    if spec.compute.code not in known:
        latest = known[next(reversed(known))]
        raise InvalidStateError(
            f"{name_of(latest)!r}, which this process has for {spec.name!r}, is not the function"
            f" that {where} declares: its source, version or inputs differ{advice}",
            tensor=spec.name,
        )
    return known[spec.compute.code]


def code_of(function: Function, version: str, inputs: Sequence[str]) -> str:
    """Return a digest of a function's source and values, its version and its inputs, as hex."""
    code = {"source": _source(function), "version": version, "inputs": list(inputs)}
    if values := list(_values(function)):
        code["values"] = values
    return blake2b(canonical_bytes(code), digest_size=DIGEST_NBYTES).hexdigest()


def name_of(function: Function) -> str:
    """Return the name of a function, for messages."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))[:200]


def _source(function: Function) -> str:
    """Return a function's source without comments and layout; "" where it has none."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None and inspect.isfunction(type(function).__call__):  # an object
        return _source(type(function).__call__)
    try:
        text = inspect.getsource(function)
        parsed = ast.parse(textwrap.dedent(text))
    except (OSError, SyntaxError, TypeError):  # of C, of an interpreter, or cut out of a call
        return ""
    if getattr(function, "__name__", "") != "<lambda>" or code is None:
        return ast.unparse(parsed)
    # its lines may have other lambdas: mostly an instruction of one has the place of its body
    places = set(code.co_positions())
    lines, indent = code.co_firstlineno - 1, len(text) - len(text.lstrip())
    found = [node for node in ast.walk(parsed) if isinstance(node, ast.Lambda)]
    own = [one for one in found if _place(one.body, lines, indent) in places]
    return "\n".join(ast.unparse(node) for node in own or found)


def _place(node: ast.expr, lines: int, indent: int) -> tuple[int | None, ...]:
    """Return where an expression is in its file, as ``co_positions`` has it."""
    assert node.end_lineno is not None, "it was parsed"
    assert node.end_col_offset is not None, "likewise"
    return (
        *(node.lineno + lines, node.end_lineno + lines),
        *(node.col_offset + indent, node.end_col_offset + indent),
    )


def _values(function: Function) -> Iterator[str]:
    """Yield the plain values that a function is bound to, in a form that is equal everywhere.

    Those of partials, default arguments and closures that never change. Others have no such form
    (models, arrays) or may change with each call (lists, attributes), and do not count.
    """
    while isinstance(function, functools.partial):
        yield from _plain(enumerate(function.args))
        yield from _plain(function.keywords.items())
        function = function.func
    yield from _plain(enumerate(getattr(function, "__defaults__", None) or ()))
    yield from _plain((getattr(function, "__kwdefaults__", None) or {}).items())
    if not inspect.isfunction(function):
        return
    names = function.__code__.co_freevars
    assigned = {one.argval for one in dis.get_instructions(function) if one.opname == "STORE_DEREF"}
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is still empty
            yield from _plain([(name, cell.cell_contents)] if name not in assigned else [])


def _plain(values: Iterable[tuple[object, object]]) -> Iterator[str]:
    """Yield what is a number, a text or a tuple of these, each with its name or place."""
    for name, value in values:
        if value is None or isinstance(value, bool | int | float | str | bytes):
            yield f"{name}={value!r}"
        elif isinstance(value, tuple):
            parts = list(_plain(enumerate(value)))
            if len(parts) == len(value):
                yield f"{name}={parts!r}"
