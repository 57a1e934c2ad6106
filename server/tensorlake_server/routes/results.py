"""Responses for the rows of a query, requested directly or saved under a name."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from fastapi import Response

from tensorlake.dataset import rowset_of
from tensorlake.storage import counted
from tensorlake_server.bodies.columns import check_names, column_names, list_tensors
from tensorlake_server.routes.rows import make_page

if TYPE_CHECKING:
    from collections.abc import Generator

    from tensorlake.dataset import View

__all__ = ["QueryCost", "costed", "write_result"]


@dataclass(slots=True)
class QueryCost:
    """The cost of a query: seconds, bytes of packs, requests to the store."""

    seconds: float = 0.0
    nbytes: int = 0
    requests: int = 0


@contextmanager
def costed() -> Generator[QueryCost]:
    """Measure what the body takes; known when it has ended."""
    cost = QueryCost()
    started = time.perf_counter()
    with counted() as tally:
        yield cost
    cost.seconds = time.perf_counter() - started
    cost.nbytes, cost.requests = tally.nbytes, tally.requests


def write_result(
    view: View,
    token: str,
    *,
    text: str,
    cost: QueryCost,
    limit: int,
    columns: list[str] | None,
    most_nbytes: int,
) -> Response:
    """Write a result: its id, its columns, how many rows, and the first page of them."""
    names = column_names(view)
    if columns is not None:
        check_names(view, columns)
        names = columns
    body = {
        "view": token,
        "version": view.version,
        "tql": text,
        "tensors": [tensor.model_dump() for tensor in list_tensors(view)],
        "rows": len(view),
        "is_computed": not rowset_of(view).has_rows,
        "cost": cost,
        "page": make_page(view, token, 0, limit, names, most_nbytes),
    }
    headers = {"Cache-Control": "private, no-store"}
    return Response(msgspec.json.encode(body), 200, headers, "application/json")
