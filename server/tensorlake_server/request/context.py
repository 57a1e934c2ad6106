"""The parts of a request that every route uses: the lake, the settings, names in paths."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Path, Request
from pydantic import AfterValidator

from tensorlake.storage import name_of_part
from tensorlake_server.http.problems import Problem
from tensorlake_server.lake.authorized_lake import AllowedLake
from tensorlake_server.request.middleware import audit_record

if TYPE_CHECKING:
    from tensorlake.loader import SharedStreams
    from tensorlake_server.auth.principal import Principal
    from tensorlake_server.bodies.thumbnails import Thumbnails
    from tensorlake_server.lake.lake import Lake
    from tensorlake_server.request.access import Access
    from tensorlake_server.request.audit import AuditLog
    from tensorlake_server.request.held_bytes import Holding
    from tensorlake_server.request.stream_limits import Place, Streams
    from tensorlake_server.settings.settings import Settings

__all__ = [
    "DatasetPath",
    "NamePath",
    "TensorPath",
    "batch_streams_of",
    "caller_of",
    "hold_more",
    "lake_of",
    "note_change",
    "note_intent",
    "queries_of",
    "settings_of",
    "shared_streams_of",
    "streams_of",
    "take_place",
    "thumbnails_of",
]

NamePath = Annotated[
    str,
    Path(
        max_length=1024,
        description="`~` stands for `/`, `~~` for `~`, and `~!` for a `/` that one of `/`, `~` and"
        " `!` follows",
    ),
    AfterValidator(name_of_part),
]
"""A name that is one part of a path."""

DatasetPath = TensorPath = NamePath


def lake_of(request: Request) -> AllowedLake:
    """Return the lake that the application serves, as far as who asks may see it."""
    lake = cast("Lake", request.app.state.lake)
    principal = cast("Principal", request.state.principal)
    return AllowedLake(
        lake,
        principal,
        is_writable=settings_of(request).write,
        before_change=partial(note_intent, request),
    )


def note_intent(request: Request) -> None:
    """Write the first line of a change to the audit log, once a request.

    Raises:
        Problem: 503, it cannot be written.
    """
    state = request.scope["state"]
    audit: AuditLog | None = state.pop("audit", None)
    if audit is not None:
        audit.write_first(audit_record(request.scope, None))


def thumbnails_of(request: Request) -> Thumbnails:
    """Return the thumbnails that are kept."""
    return cast("Thumbnails", request.app.state.thumbnails)


def streams_of(request: Request) -> Streams:
    """Return the count of open streams."""
    return cast("Streams", request.app.state.streams)


def batch_streams_of(request: Request) -> Streams:
    """Return the count of open streams of batches."""
    return cast("Streams", request.app.state.batch_streams)


def shared_streams_of(request: Request) -> SharedStreams:
    """Return the streams of batches that requests share."""
    return cast("SharedStreams", request.app.state.shared_streams)


def queries_of(request: Request) -> Streams:
    """Return the count of queries that run."""
    return cast("Streams", request.app.state.queries)


def take_place(request: Request, streams: Streams, *, what: str = "streams") -> Place:
    """Take a place for a stream, or a query, of who asks.

    Raises:
        Problem: 429, there is none; 503, the server is about to stop.
    """
    if streams.is_draining:
        raise Problem(
            503, "draining", "this server is about to stop\ntry again", {"Retry-After": "1"}
        )
    who = caller_of(request)
    place = streams.place(who, partial(_is_allowed, request))
    if place is None:
        raise Problem(
            429,
            f"too-many-{what}",
            f"this server takes no more {what} now: {streams.why_full(who)}"
            "\nend one, or try again later",
            {"Retry-After": "5"},
        )
    return place


def _is_allowed(request: Request) -> bool:
    """Whether the credentials of a request that is being answered are still valid."""
    access = cast("Access", request.app.state.access)
    try:
        return access.principal(request.headers) == request.state.principal
    except Problem:  # revoked, expired, or the tokens cannot be read
        return False


def caller_of(request: Request) -> str:
    """Return the name of who asks, as the audit log has it."""
    return cast("Principal", request.state.principal).name


def settings_of(request: Request) -> Settings:
    """Return what the server was started with."""
    return cast("Settings", request.app.state.settings)


def hold_more(request: Request, nbytes: int) -> None:
    """Count what a request's body unpacks to among the bytes that are held.

    Raises:
        Problem: 503, too many are held.
    """
    cast("Holding", request.state.holding).take(nbytes)


def note_change(request: Request, version: str) -> None:
    """Note what a request changed, for the audit log."""
    request.state.changed["version"] = version
