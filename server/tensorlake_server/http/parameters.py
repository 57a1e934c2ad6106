"""Query parameters that a route does not take are refused, like unknown members of a body.

Otherwise ``?limti=5`` would be answered with a hundred rows, and ``?verison=main@3`` with today's.
One that is given twice is refused too: of two values one would be left out without a word.

Every route under ``/v1`` checks (app/app.py adds it to the routers). The page's own address belongs
to the viewer, and what probes add to ``/healthz`` must not take a server out of service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from fastapi import Depends, Request

from tensorlake.errors import did_you_mean
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

__all__ = ["CHECKED"]


async def _check_parameters(request: Request) -> None:  # async: a plain one would need a thread
    """Refuse a parameter that the request's route does not take, or takes once.

    Raises:
        Problem: 422, with the parameters that there are.
    """
    if not request.scope["query_string"]:
        return
    route = cast("APIRoute", request.scope["route"])
    given = [name for name, _ in request.query_params.multi_items()]
    taken = sorted(set(_taken(route.dependant)))
    for name in given:
        if name not in taken:
            raise Problem(422, "invalid-input", _unknown(name, taken, request.method, route.path))
        if given.count(name) > 1:
            detail = f"the parameter {name!r} is given {given.count(name)} times\ngive it once"
            raise Problem(422, "invalid-input", detail)


CHECKED = [Depends(_check_parameters)]


def _taken(dependant: Dependant) -> Iterator[str]:
    """Name the parameters of a route and of what it depends on."""
    yield from (one.alias for one in dependant.query_params)
    for other in dependant.dependencies:
        yield from _taken(other)


def _unknown(name: str, taken: Sequence[str], method: str, path: str) -> str:
    known = f"its parameters are {', '.join(taken)}" if taken else "it takes none"
    if not taken and method == "POST":
        known += " in its address: what it takes is JSON in its body"
    return f"{method} {path} has no parameter {name[:80]!r}{did_you_mean(name, taken)}\n{known}"
