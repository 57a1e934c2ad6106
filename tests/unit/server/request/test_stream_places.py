"""A stream whose client is gone before its first byte gives its place back."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest

from tensorlake.loader import Loader
from tensorlake_server import Settings, create_app

EVENTS = ("GET", "/v1/datasets/pets/events", None)
BATCHES = ("POST", "/v1/datasets/pets/stream", {"batch_size": 2, "columns": ["score"]})


@contextmanager
def nothing_collected() -> Generator[None]:
    """What is given back is given back by somebody, not by the collector of what is forgotten."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def scope_of(settings: Settings, method: str, path: str) -> dict[str, Any]:
    headers = [
        (b"host", b"127.0.0.1:8300"),
        (b"authorization", f"Bearer {settings.token}".encode()),
        (b"content-type", b"application/json"),
    ]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},  # uvicorn's
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8300),
    }


async def ask_and_go(app: Any, scope: dict[str, Any], body: Any) -> int:
    """Ask, and be gone before a byte is taken: what was answered before is still on its way.

    Returns:
        How many places are taken then; the end of the loop would close what nobody closed.
    """
    asked = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    is_answered = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if asked:
            return asked.pop()
        await is_answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        assert message["status"] == HTTPStatus.OK
        is_answered.set()
        await asyncio.Event().wait()

    await app(scope, receive, send)
    return app.state.streams.count + app.state.batch_streams.count


@pytest.mark.parametrize("asked", [EVENTS, BATCHES], ids=["events", "batches"])
def test_a_client_that_went_before_the_first_byte_leaves_its_place(
    settings: Settings, asked: tuple[str, str, Any]
) -> None:
    method, path, body = asked
    app = create_app(settings)

    with nothing_collected():
        taken = asyncio.run(ask_and_go(app, scope_of(settings, method, path), body))

    assert taken == 0


def test_a_stream_whose_loader_fails_to_close_leaves_its_place(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Loader.close

    def close_and_fail(loader: Loader) -> None:
        close(loader)
        raise OSError("what it held cannot be given back")

    method, path, body = BATCHES
    app = create_app(settings)
    monkeypatch.setattr(Loader, "close", close_and_fail)

    with nothing_collected(), pytest.raises(OSError, match="given back"):
        asyncio.run(ask_and_go(app, scope_of(settings, method, path), body))

    assert app.state.batch_streams.count == 0
