"""Query parameters that a route does not take are refused, like unknown members of a body.

Otherwise ``?limti=5`` would be answered with a hundred rows, and ``?verison=main@3`` with today's.
One that is given twice is refused too: of two values one would be left out without a word.
Numbers, in queries and in paths, are written in digits: ``1_0`` is not 10, and ``1.0`` no row.

Every route under ``/v1`` checks (app/app.py adds it to the routers). The page's own address belongs
to the viewer, and what probes add to ``/healthz`` must not take a server out of service.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast, get_args

from fastapi import Depends, Request

from tensorlake.errors import did_you_mean
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi._compat import ModelField
    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

__all__ = ["CHECKED"]

WRITTEN = {
    int: (re.compile(r"-?[0-9]+"), "an integer in digits, as in 12"),
    float: (re.compile(r"-?[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?"), "a number in digits, as in 0.5"),
}


async def _check_parameters(request: Request) -> None:  # async: a plain one would need a thread
    """Refuse a parameter that the request's route does not take, takes once, or takes as a number.

    Raises:
        Problem: 422, with the parameters that there are.
    """
    route = cast("APIRoute", request.scope["route"])
    for field in route.dependant.path_params:
        _check_number("path", field, request.path_params[field.alias])
    if not request.scope["query_string"]:
        return
    given = [name for name, _ in request.query_params.multi_items()]
    fields = {field.alias: field for field in _fields(route.dependant)}
    taken = sorted(fields)
    for name in given:
        if name not in taken:
            raise Problem(422, "invalid-input", _unknown(name, taken, request.method, route.path))
        if given.count(name) > 1:
            detail = f"the parameter {name!r} is given {given.count(name)} times\ngive it once"
            raise Problem(422, "invalid-input", detail)
        _check_number("query", fields[name], request.query_params[name])


CHECKED = [Depends(_check_parameters)]


def _fields(dependant: Dependant) -> Iterator[ModelField]:
    """Find the parameters of a route and of what it depends on."""
    yield from dependant.query_params
    for other in dependant.dependencies:
        yield from _fields(other)


def _check_number(place: str, field: ModelField, given: str) -> None:
    annotation = field.field_info.annotation
    for kind, (written, expected) in WRITTEN.items():
        if kind in (annotation, *get_args(annotation)) and not written.fullmatch(given):
            detail = f"{place}.{field.alias} is {expected} (got {given[:80]!r})"
            raise Problem(422, "invalid-input", detail)


def _unknown(name: str, taken: Sequence[str], method: str, path: str) -> str:
    known = f"its parameters are {', '.join(taken)}" if taken else "it takes none"
    if not taken and method == "POST":
        known += " in its address: what it takes is JSON in its body"
    return f"{method} {path} has no parameter {name[:80]!r}{did_you_mean(name, taken)}\n{known}"
