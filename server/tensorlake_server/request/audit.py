"""The audit log: who did what, when; one JSON object a line, appended to a file.

    {"time": "…Z", "request": "9f3c…", "who": "token:3f2a90c1:ci", "from": "10.0.0.7",
     "method": "POST", "path": "/v1/datasets/pets/transactions", "status": null}      before it
    {… the same …, "status": 200, "version": "main@13"}                               after it

A request that changes something has two lines, the first before anything is changed: where that
cannot be written, as on a full disk, the change is refused. Lines of requests that were answered
already are kept until they can be written; when too many wait, all requests are refused. So there
is no change without a line, and no line is lost while the server runs.

Lines hold no secrets: neither headers nor query strings, which may hold views, nor bodies. A route
adds what it changed (``version``) to its request's ``state.changed``.

A file that is full is renamed to ``<file>.1``, that to ``<file>.2``, and so on; the oldest goes.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake_server.http.problems import Problem

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AuditLog"]

log = logging.getLogger("tensorlake.server")

FILE_MODE = 0o600
WAITING_NBYTES_MAX = 4 << 20
"""Some 15,000 lines that could not be written yet."""


class AuditLog:
    """Appends to one file; other programs may append too, or move it away to start another.

    Args:
        path: The file.
        most_nbytes: How long it may become before another is begun.
        files: How many of the earlier ones are kept; 0: all.
        clock: For the time of each line.

    Raises:
        InvalidInputError: It cannot be written.
        UnsupportedFeatureError: This system is Windows, where servers cannot share a file so.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_nbytes: int,
        files: int,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = path
        self._most_nbytes = most_nbytes
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_nbytes = 0
        if sys.platform == "win32":
            raise UnsupportedFeatureError(
                f"an audit log needs files that programs can lock and rename while they are open,"
                f" which {sys.platform} does not have: {str(path)!r}"
                "\nrun the server on Linux or macOS, or without audit_log",
                path=str(path),
            )
        try:
            self._append(b"")  # a log that cannot be written is found out before anything happens
        except OSError as error:
            raise InvalidInputError(
                f"cannot write the audit log {str(path)!r}: {error.strerror}"
                "\ngive another file: --audit-log FILE",
                path=str(path),
            ) from error

    def write(self, record: dict[str, Any]) -> None:
        """Append a line, stamped with the time; where that fails it waits to be written."""
        line = self._line(record)
        with self._lock:
            self._waiting.append(line)
            self._waiting_nbytes += len(line)
            try:
                self._flush()
            except OSError as error:
                if len(self._waiting) == 1:  # the first of many, one for each request
                    log.warning("lines wait: cannot write %r: %s", str(self._path), error)

    def write_first(self, record: dict[str, Any]) -> None:
        """Append the line of a change that is about to be made.

        Raises:
            Problem: 503, it cannot be written, and the change must not be made.
        """
        with self._lock:
            try:
                self._flush()
                self._append(self._line(record))
            except OSError as error:
                log.warning("refused a change: cannot write %r: %s", str(self._path), error)
                raise _unwritable() from error

    def check_room(self) -> None:
        """Refuse a request whose line might be lost.

        Raises:
            Problem: 503, too many lines wait to be written.
        """
        if self._waiting_nbytes < WAITING_NBYTES_MAX:
            return
        with self._lock:
            try:
                self._flush()
            except OSError as error:
                raise _unwritable() from error

    def _line(self, record: dict[str, Any]) -> bytes:
        stamped = {"time": self._clock().isoformat(timespec="milliseconds"), **record}
        return msgspec.json.encode(stamped) + b"\n"

    def _flush(self) -> None:
        while self._waiting:
            self._append(self._waiting[0])
            self._waiting_nbytes -= len(self._waiting.popleft())

    def _append(self, line: bytes) -> None:
        """Write a whole line, or nothing of it."""
        while True:
            opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
            try:
                if sys.platform != "win32":  # refused when the log is made
                    # other servers may write to it, and rename it
                    fcntl.flock(opened, fcntl.LOCK_EX)
                nbytes = os.fstat(opened).st_size
                if nbytes and nbytes + len(line) > self._most_nbytes:
                    with suppress(FileNotFoundError):  # another server renamed it just now
                        if os.path.samestat(os.fstat(opened), self._path.stat()):
                            self._rename()
                    continue
                try:
                    written = os.write(opened, line)
                    if written < len(line):
                        os.write(opened, line[written:])  # raises what the first only hinted at
                except OSError:
                    with suppress(OSError):  # a device has no length
                        os.ftruncate(opened, nbytes)
                    raise
                return
            finally:
                os.close(opened)

    def _rename(self) -> None:
        number = 1
        while self._numbered(number).exists() and number != self._files:
            number += 1
        for one in range(number, 1, -1):
            self._numbered(one - 1).replace(self._numbered(one))
        self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _unwritable() -> Problem:
    return Problem(
        503,
        "audit-unwritable",
        "the server cannot write its audit log, and changes nothing without a line of it;"
        " see its log\ntry again later",
        {"Retry-After": "30"},
    )
