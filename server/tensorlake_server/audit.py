"""The audit log: who did what, when; one JSON object a line, appended to a file.

    {"time": "…Z", "request": "9f3c…", "who": "token:3f2a90c1:ci", "from": "10.0.0.7",
     "method": "POST", "path": "/v1/datasets/pets/transactions", "status": 200, …}

Lines hold no secrets: neither headers nor query strings, which may hold views, nor bodies. A route
adds what it changed (``version``) to its request's ``state.changed``.
"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AuditLog"]

FILE_MODE = 0o600


class AuditLog:
    """Appends to one file; other programs may append too, or move it away to start another."""

    def __init__(
        self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._append(b"")  # a log that cannot be written is found out before anything happens

    def write(self, record: dict[str, Any]) -> None:
        """Append one line, stamped with the time."""
        stamped = {"time": self._clock().isoformat(timespec="milliseconds"), **record}
        self._append(msgspec.json.encode(stamped) + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            with self._lock:
                opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
                try:
                    os.write(opened, line)
                finally:
                    os.close(opened)
        except OSError as error:
            raise InvalidInputError(
                f"cannot write the audit log {str(self._path)!r}: {error.strerror}"
                "\ngive another file: --audit-log FILE",
                path=str(self._path),
            ) from error
