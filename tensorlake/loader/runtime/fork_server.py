"""The process that forks a loader's workers, and the workers themselves.

    loader's process ──► fork server     imports, and unpickles the function, once
          │                   ├─ worker 0     answers requests, one at a time
          └── a channel ──────┴─ worker 1     to each

A fork of the loader's own process would inherit locks that its threads hold. The server has no
threads of ours, runs nothing of the user's after it has forked, and waits for two things: that a
worker ends, which it reports, and that the loader's process hangs up, by closing the connection or
by ending in any way. Then it ends all workers and itself. Workers end with the server.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import spawn
from typing import Any

from tensorlake.loader.runtime.shared_slabs import Channel
from tensorlake.loader.runtime.unsendable import UnsendableError

__all__ = ["BOOT", "Answer", "Orders", "is_fork_server", "serve"]

BOOT = (
    "import pickle, sys; file = open(int(sys.argv[1]), 'rb'); sys.path[:] = pickle.load(file);"
    " from tensorlake.loader.runtime.fork_server import serve; serve(file, sys.argv[2:])"
)
"""The program of the server; its arguments are descriptors."""

GRACE_S = 1.0  # for a worker in a call, before it is killed
PR_SET_PDEATHSIG = 1
REPORT_NBYTES = 1 << 16

_is_serving: list[bool] = []


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of a loader to its server.

    Attributes:
        function: The function of a request, pickled.
        arguments: ``sys.argv`` of the loader's process.
        main: How its main module is found again, if the function needs it.
    """

    function: bytes
    arguments: list[str]
    main: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call, or the exception that it raised, with its traceback as text."""

    value: Any = None
    error: BaseException | None = None
    traceback: str = ""


def is_fork_server() -> bool:
    """Return whether this process is a fork server: it may be importing a program's main module."""
    return bool(_is_serving)


def serve(file: Any, descriptors: list[str]) -> None:
    """Run a server: load the function, fork a worker for each connection, wait for the end."""
    _is_serving.append(True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all: the loader decides
    control, *lanes = [socket.socket(fileno=int(one)) for one in descriptors]
    try:
        with file:
            orders: Orders = pickle.load(file)  # noqa: S301 - of our own process
        sys.argv = orders.arguments
        if orders.main:
            spawn.prepare(dict(orders.main))
        function = pickle.loads(orders.function)  # noqa: S301 - as above
    except BaseException:  # noqa: BLE001 - whatever a user's module raises; the loader raises it
        _report(control, {"failed": traceback.format_exc()[-REPORT_NBYTES // 2 :]})
        return
    server = os.getpid()
    workers: dict[int, int] = {}  # number by pidfd
    pids: dict[int, int] = {}
    for number, lane in enumerate(lanes):
        pid = os.fork()
        if pid == 0:
            _begin_worker(server, [control, *(one for one in lanes if one is not lane)])
            _work(function, lane)
        pidfd = os.pidfd_open(pid)
        workers[pidfd], pids[pidfd] = number, pid
    for lane in lanes:
        lane.close()
    del function
    _wait(control, workers, pids)
    os._exit(0)


def _wait(control: socket.socket, workers: dict[int, int], pids: dict[int, int]) -> None:
    """Report workers that end, until the loader hangs up; then end the others."""
    waiting = select.poll()
    for one in (control.fileno(), *pids):
        waiting.register(one, select.POLLIN)
    deadline: float | None = None
    while deadline is None or pids:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = waiting.poll(None if left_s is None else 1000 * left_s)
        if not ready:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + GRACE_S
        for one, _ in ready:
            waiting.unregister(one)
            if one == control.fileno():
                deadline = time.monotonic() + GRACE_S
                continue
            _, status = os.waitpid(pids.pop(one), 0)
            _report(control, {"worker": workers[one], "status": status})
            os.close(one)


def _report(control: socket.socket, report: dict[str, Any]) -> None:
    with suppress(OSError):  # the loader has ended
        control.send(pickle.dumps(report))


def _begin_worker(server: int, others: list[socket.socket]) -> None:
    """End with the server, however it ends; keep no connection open but the own one."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # it ended before
        os._exit(0)
    for one in others:
        one.close()
    _torch_alone()


def _torch_alone() -> None:
    """Let torch use the calling thread only: each worker has its core."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _work(function: Callable[[Any], Any], lane: socket.socket) -> None:
    """Answer requests until the loader hangs up."""
    channel = Channel(lane)
    status = 0
    try:
        while True:
            had_torch = "torch" in sys.modules
            answer = _answer(function, channel.receive())
            if not had_torch and "torch" in sys.modules:
                # imported by the call, after its generators were prepared: call it again
                _torch_alone()
                answer = _answer(function, channel.last())
            try:
                channel.send(answer)
            except UnsendableError as error:
                channel.send(Answer(error=error))
    except EOFError:
        pass
    except BaseException:  # noqa: BLE001 - the process ends, and says why
        traceback.print_exc()
        status = 1
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # no handlers of the process that it was forked from


def _answer(function: Callable[[Any], Any], request: Any) -> Answer:
    try:
        return Answer(function(request))
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the loader raises it
        text = traceback.format_exc()
        with suppress(Exception):
            if pickle.loads(pickle.dumps(error)) is not None:  # noqa: S301 - what was just made
                return Answer(error=error.with_traceback(None), traceback=text)
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return Answer(error=plain, traceback=text)
