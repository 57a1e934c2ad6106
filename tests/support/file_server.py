"""A plain HTTP server of files with ranges and tags, as web servers and CDNs are; and odd ones."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

__all__ = ["FileServer", "file_server"]


@dataclass(slots=True)
class FileServer:
    """What the server serves, and what it was asked.

    Attributes:
        url: Its address.
        files: Contents by path, without the first slash.
        redirects: Paths that lead to other URLs.
        has_ranges: Whether it answers ranges; some servers send the whole file.
        has_tags: Whether it sends ETags.
        head_status: Answer to HEAD; None: as to GET. Some servers do not allow it.
        delay_s: Time before each answer.
        replaced_after: A number of answers, after which these files are served instead.
        asked: Method, path and bytes sent of each request.
    """

    url: str
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    redirects: dict[str, str] = field(default_factory=dict[str, str])
    has_ranges: bool = True
    has_tags: bool = True
    head_status: int | None = None
    delay_s: float = 0.0
    replaced_after: tuple[int, dict[str, bytes]] | None = None
    asked: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])


@contextmanager
def file_server() -> Generator[FileServer]:
    """Serve files on a free port of this machine until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(self.path.lstrip("/"))
            time.sleep(state.delay_s)
            if self.command == "HEAD" and state.head_status is not None:
                self._answer(state.head_status, b"", {})
                return
            if path in state.redirects:
                self._answer(302, b"", {"Location": state.redirects[path]})
                return
            if state.replaced_after is not None and len(state.asked) >= state.replaced_after[0]:
                state.files = state.replaced_after[1]
            content = state.files.get(path)
            if content is None:
                self._answer(404, b"", {})
                return
            headers = {"Last-Modified": "Sun, 29 Nov 2026 08:00:00 GMT"}
            if state.has_tags:
                headers["ETag"] = f'"{hashlib.md5(content).hexdigest()}"'
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked is None or not state.has_ranges:
                self._answer(200, content, headers)
                return
            start = int(asked[1])
            stop = min(int(asked[2] or len(content)) + 1, len(content))
            if start >= len(content):
                self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            self._answer(206, content[start:stop], headers)

        do_HEAD = do_GET  # noqa: N815 - the base's name

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            if state.has_ranges:
                self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            sent = b"" if self.command == "HEAD" else content
            state.asked.append((self.command, unquote(self.path.lstrip("/")), len(sent)))
            with suppress(BrokenPipeError, ConnectionResetError):  # it has what it wanted
                self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = FileServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
