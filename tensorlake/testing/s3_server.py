"""S3 for tests: moto behind one write lock, in a child process on a free port.

    with s3_server() as s3:
        store = open_store(s3.fresh_url(), storage_options=s3.storage_options)

Plain moto lets two conditional writers win (3 of 30 rounds); one lock around every write makes it
decide as S3 does.  It answers some 200 requests a second: a measure of correctness, never of speed.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

from tensorlake.testing.child_server import announce, child_server, exit_with_parent

LISTS = "/-lists"
"""Path with the number of listings; no bucket's name starts with a hyphen."""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server, and how to reach it."""

    endpoint: str
    storage_options: dict[str, str] = field(default_factory=dict[str, str])

    def fresh_url(self) -> str:
        """Make an empty bucket and return a URL in it."""
        bucket = f"bucket-{secrets.token_hex(6)}"
        with urlopen(Request(f"{self.endpoint}/{bucket}", method="PUT"), timeout=60):  # noqa: S310 - our own endpoint
            return f"s3://{bucket}/lake"

    def num_lists(self) -> int:
        """Return how many pages of listings were asked for, without lookups of one key."""
        with urlopen(f"{self.endpoint}{LISTS}", timeout=60) as answer:  # noqa: S310 - our own endpoint
            return int(answer.read())


@contextmanager
def s3_server() -> Generator[S3Server]:
    """Run an S3 server for the duration of the block."""
    with child_server("tensorlake.testing.s3_server") as endpoint:
        yield S3Server(
            endpoint,
            {"key": "test", "secret": "test", "endpoint_url": endpoint, "region": "us-east-1"},
        )


def main() -> None:
    """Serve until the parent is gone."""
    # moto is for tests: only this process imports it.
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app: Any = DomainDispatcherApplication(create_backend_app)  # Any: WSGI, untyped
    lock = threading.Lock()

    lists = 0

    def locked(environ: dict[str, Any], start_response: Any) -> Any:
        nonlocal lists
        if environ["PATH_INFO"] == LISTS:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [str(lists).encode()]
        asked = parse_qs(environ["QUERY_STRING"])
        if "list-type" in asked and asked.get("max-keys") != ["1"]:
            with lock:
                lists += 1
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return app(environ, start_response)
        with lock:
            return app(environ, start_response)

    server = make_server("127.0.0.1", 0, locked, threaded=True)
    announce(server.server_port)
    exit_with_parent()
    server.serve_forever()
