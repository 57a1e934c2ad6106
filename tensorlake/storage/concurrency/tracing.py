"""Spans of OpenTelemetry: requests of stores, queries, and requests of the server.

    with span("query") as traced:
        traced.note(url=url)

Only the API package is used (extra ``otel``): the program chooses an SDK, which decides what is
kept and where it goes. A program that has not imported ``opentelemetry.trace`` traces nothing, and
a span then costs one look into ``sys.modules``: nothing is imported here.

Attributes hold names, versions and sizes; no values of rows, no text of queries, and of errors only
their kind, because those of stores may hold credentials.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

__all__ = ["Traced", "span", "trace_headers"]

API = "opentelemetry.trace"
TRACER = "tensorlake"


class Traced:
    """A span that is open, or none."""

    __slots__ = ("_span",)

    def __init__(self, open_span: Any) -> None:
        self._span = open_span

    def note(self, **attributes: str | int | bool) -> None:
        """Add attributes, ``tensorlake.<name>``."""
        if self._span is not None:
            for name, value in attributes.items():
                self._span.set_attribute(f"tensorlake.{name}", value)

    def answer(self, name: str, route: str, status: int) -> None:
        """Note how a request of the server ended."""
        if self._span is not None:
            self._span.update_name(name)
            self._span.set_attribute("http.route", route)
            self._span.set_attribute("http.response.status_code", status)
            if status >= 500:  # noqa: PLR2004 - errors of the server, and no others (semantic conventions)
                self.fail(str(status))

    def fail(self, kind: str) -> None:
        """Note that it failed, and by what kind of error."""
        if self._span is not None:
            self._span.set_attribute("error.type", kind)
            api: Any = sys.modules[API]
            self._span.set_status(api.StatusCode.ERROR)


NOT_TRACED = Traced(None)


@contextmanager
def span(
    name: str,
    *,
    kind: Literal["INTERNAL", "CLIENT", "SERVER"] = "INTERNAL",
    parent: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Generator[Traced]:
    """Trace a block; it is the parent of spans in it, also of those on the storage loop.

    Args:
        name: Its name, of few.
        kind: Server, client, or inside one process.
        parent: Headers of a request, which may name the span of its client.
        attributes: By their whole names.
    """
    api: Any = sys.modules.get(API)
    if api is None:
        yield NOT_TRACED
        return
    context = None
    if parent is not None:
        from opentelemetry.propagate import (  # pyright: ignore[reportMissingImports] - an extra
            extract,
        )

        context = extract(parent)
    with api.get_tracer(TRACER).start_as_current_span(
        name,
        context=context,
        kind=getattr(api.SpanKind, kind),
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as open_span:
        traced = Traced(open_span)
        try:
            yield traced
        except Exception as error:
            traced.fail(type(error).__name__)
            raise


def trace_headers() -> dict[str, str]:
    """Return the headers that name this span to the server of a request."""
    if API not in sys.modules:
        return {}
    from opentelemetry.propagate import (  # pyright: ignore[reportMissingImports] - an extra
        inject,
    )

    headers: dict[str, str] = {}
    inject(headers)
    return headers
