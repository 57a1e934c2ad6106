"""A board through which workers of a ``DataLoader`` post to other ranks by way of their parent.

The parent has the connection to the store of its group. A worker that was forked must not use it,
nor make one of its own: connecting resolves names, and if a thread of the parent was resolving one
at the fork, the resolver's lock is never released in the worker. A spawned worker has no group.

    worker   request: operation, values ─┐                        ┌─► answer, by a socket of its own
    parent                               └─► a thread does it ────┘
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import InvalidStateError
from tensorlake.loader.config.rank_check import Board

__all__ = ["ParentBoard", "answer_workers", "listen_as_worker", "parent_board", "socket_of_workers"]

MAX_NBYTES = 1 << 17  # of a request or an answer, which must fit a datagram
POLL_S = 0.02
ANSWER_TIMEOUT_S = 60.0  # each is a short operation on the store

# The socket that workers of a process write to, by process; the thread has the other end.
_sockets: dict[int, socket.socket] = {}


def socket_of_workers() -> socket.socket | None:
    """Return the socket that this process's workers write to, once it answers them."""
    return _sockets.get(os.getpid())


def answer_workers(board: Callable[[], Board | None]) -> None:
    """Answer the workers that this process starts from now on.

    Args:
        board: Returns the board to post to; None once nothing more is to be posted.
    """
    if os.getpid() in _sockets:
        return
    writes, reads = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    _sockets[os.getpid()] = writes
    threading.Thread(
        target=_answer, args=(reads, board), name="tensorlake-loader-ranks", daemon=True
    ).start()


def _answer(reads: socket.socket, board: Callable[[], Board | None]) -> None:
    while True:
        question, descriptors, _, _ = socket.recv_fds(reads, MAX_NBYTES, 1)
        with socket.socket(fileno=descriptors[0]) as answers:
            operation, arguments = json.loads(question)
            try:
                found = board()
                value = None if found is None else getattr(found, operation)(*arguments)
                answer = {"value": value, "error": None if found is not None else "no group"}
            except Exception as error:  # noqa: BLE001 - the worker raises it
                answer = {"value": None, "error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):  # the worker has ended meanwhile
                answers.send(json.dumps(answer).encode())


def listen_as_worker(parent: int, descriptor: int) -> None:
    """Write to a parent's socket, in a process that it spawned."""
    _sockets[parent] = socket.socket(fileno=descriptor)


def parent_board() -> ParentBoard | None:
    """Return the board of this worker; None if its parent does not answer."""
    parent = multiprocessing.parent_process()
    writes = None if parent is None or parent.pid is None else _sockets.get(parent.pid)
    return None if writes is None else ParentBoard(writes)


@dataclass(frozen=True, slots=True)
class ParentBoard:
    """The board of a worker's parent, under keys of the workers' own."""

    writes: socket.socket

    def post(self, key: str, text: str) -> None:
        """Post a string."""
        self._ask("post", _own(key), text)

    def wait(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until all keys are posted or the timeout expires."""
        deadline = time.monotonic() + timeout_s
        while not all(map(self.has, keys)) and time.monotonic() < deadline:
            time.sleep(POLL_S)  # a wait in the parent would keep its own threads from the store

    def has(self, key: str) -> bool:
        """Return whether a key is posted now."""
        return self._ask("has", _own(key))

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return the strings posted under some keys."""
        return [text for key in keys for text in self._ask("read", [_own(key)])]

    def delete(self, key: str) -> None:
        """Delete a key, if it is posted."""
        self._ask("delete", _own(key))

    def count(self, key: str) -> int:
        """Return the number of earlier calls for a key."""
        return self._ask("count", _own(key))

    def _ask(self, operation: str, *arguments: Any) -> Any:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with mine:
            with theirs:
                question = json.dumps([operation, arguments]).encode()
                socket.send_fds(self.writes, [question], [theirs.fileno()])
            mine.settimeout(ANSWER_TIMEOUT_S)
            answer = json.loads(mine.recv(MAX_NBYTES))
        if answer["error"] is not None:
            raise InvalidStateError(
                f"ranks cannot be compared for a DataLoader's worker: {answer['error']}"
                "\nkeep the process group until its iterator has ended",
                actual=answer["error"],
            )
        return answer["value"]


def _own(key: str) -> str:
    return f"workers/{key}"
