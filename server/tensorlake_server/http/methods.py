"""Which methods a path answers: ``HEAD`` wherever ``GET`` does, but where it is a route of its own.

FastAPI makes one route of each method, and reports for a wrong one only the methods of the first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.routing import Match

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["METHODS", "allowed_methods", "is_head_of_get"]

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT")
OWN_HEAD = re.compile(r"/objects/|/events$")  # the first has facts of its own, the second no end


def is_head_of_get(method: str, path: str) -> bool:
    """Whether a request asks what ``GET`` would answer, without the body.

    >>> is_head_of_get("HEAD", "/v1/datasets"), is_head_of_get("HEAD", "/v1/datasets/pets/events")
    (True, False)
    """
    return method == "HEAD" and OWN_HEAD.search(path) is None


def allowed_methods(request: Request) -> list[str]:
    """Methods that the path of a request answers, in the order of the alphabet."""
    path = request.url.path

    def is_answered(method: str) -> bool:
        asked = "GET" if is_head_of_get(method, path) else method
        scope = {**request.scope, "method": asked}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)

    return [method for method in METHODS if is_answered(method)]
