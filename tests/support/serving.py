"""A real server in this process, on a port of its own, for tests that need a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from tensorlake_server.request.slow_clients import configure

STOP_S = 60


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port for a server that comes later, or again; nobody else is given it until the block ends.

    It is bound and does not listen, so a server that may reuse addresses, as all here, has it too.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def listening(app: FastAPI, *, port: int = 0) -> Iterator[str]:
    """Serve an application until the block ends; yields its address, ``http://127.0.0.1:port``."""
    started = threading.Event()

    class Started(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    config = configure(app, log_level="error")
    config.port = port
    server = Started(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(STOP_S), "the server did not start"
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(STOP_S)
