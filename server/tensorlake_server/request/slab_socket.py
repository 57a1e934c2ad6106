"""The socket of a stream whose client is on the same host: it gets batches by descriptor.

    client   POST …/stream, ``Tensorlake-Slabs: accept``
    server   ``Tensorlake-Slabs: NAME KEY`` · the first batch, whole
    client   connects to NAME, sends KEY
    server   sends each further batch's descriptor there, and a reference to it in the answer

Nothing changes for a client that does not come: on another host, in another network namespace, or
of an earlier release. All else remains the answer's: order, errors, limits, and its end.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from tensorlake.loader import ACKNOWLEDGED, SLABS_HEADER, has_shared_memory, slab_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader import Slab

__all__ = ["SlabSocket"]

log = logging.getLogger("tensorlake.server")

KEY_NBYTES: Final = 16
KEY_TIMEOUT_S: Final = 5.0
TAKEN_TIMEOUT_S: Final = 60.0  # of what was sent before a stream ended
AHEAD: Final = 2  # batches that are sent before the client has acknowledged them


class SlabSocket:
    """Waits for the client of one stream; used on the loop that made it, and closed there."""

    def __init__(self) -> None:
        name, self._key = secrets.token_hex(KEY_NBYTES), secrets.token_bytes(KEY_NBYTES)
        self.headers = {SLABS_HEADER: f"{name} {self._key.hex()}"}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.settimeout(0)
        self._listening.bind(slab_address(name))
        self._listening.listen()
        self._loop = asyncio.get_running_loop()
        self._connection: socket.socket | None = None
        self._coming = set[asyncio.Task[bool]]()
        self._loop.add_reader(self._listening, self._ready)
        self._sent = 0  # and not acknowledged

    @classmethod
    def asked(cls, headers: Mapping[str, str]) -> Self | None:
        """Return a socket for a request whose client accepts batches by descriptor."""
        is_asked = headers.get(SLABS_HEADER) == "accept" and has_shared_memory()
        return cls() if is_asked else None

    @property
    def is_connected(self) -> bool:
        """Whether the client has come."""
        return self._connection is not None

    async def has_room(self, patience_s: float) -> bool:
        """Wait until the client takes another batch; False if it is gone, or takes too long."""
        assert self._connection is not None, "is_connected comes first"
        try:
            while self._sent >= AHEAD:
                async with asyncio.timeout(patience_s):
                    if not await self._loop.sock_recv(self._connection, len(ACKNOWLEDGED)):
                        return False
                self._sent -= 1
        except TimeoutError:
            log.info("a stream ended: its client took nothing for %g s", patience_s)
            return False
        except OSError:
            return False
        return True

    def send(self, slab: Slab) -> bool:
        """Send a batch; False if the client is gone."""
        assert self._connection is not None, "is_connected comes first"
        try:
            socket.send_fds(self._connection, [ACKNOWLEDGED], [slab.descriptor])
        except OSError:
            return False
        self._sent += 1
        return True

    def close(self) -> None:
        """End the socket, and the wait for its client."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for task in self._coming:
            task.cancel()
        if self._connection is not None:
            task = self._loop.create_task(_taken(self._connection))
            _closing.add(task)
            task.add_done_callback(partial(_close, self._connection))

    def _ready(self) -> None:
        """Accept a client; a callback, since a cancelled wait could lose the connection."""
        try:
            connection, _ = self._listening.accept()
        except OSError:  # it is gone again
            return
        connection.settimeout(0)
        task = self._loop.create_task(self._has_key(connection))
        self._coming.add(task)
        task.add_done_callback(partial(self._came, connection))

    async def _has_key(self, connection: socket.socket) -> bool:
        with suppress(OSError):  # it takes too long, or is gone
            async with asyncio.timeout(KEY_TIMEOUT_S):
                key = await self._loop.sock_recv(connection, KEY_NBYTES)
            return secrets.compare_digest(key, self._key)
        return False

    def _came(self, connection: socket.socket, task: asyncio.Task[bool]) -> None:
        self._coming.discard(task)
        is_client = not task.cancelled() and task.exception() is None and task.result()
        if is_client and self._connection is None and self._listening.fileno() >= 0:
            self._connection = connection
        else:
            connection.close()


_closing: set[asyncio.Task[None]] = set()


async def _taken(connection: socket.socket) -> None:
    """Wait until the client has closed a connection: before, it would lose what is on its way."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        async with asyncio.timeout(TAKEN_TIMEOUT_S):
            while await loop.sock_recv(connection, len(ACKNOWLEDGED)):
                pass


def _close(connection: socket.socket, task: asyncio.Task[None]) -> None:
    _closing.discard(task)  # also of a task that was cancelled before it began
    connection.close()
