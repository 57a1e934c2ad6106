"""Worker processes: a fixed number, each called by one thread at a time, and a reliable end.

    call(request)   an idle worker ──► its answer, or the exception that the function raised

They live as long as a pass. ``stop`` may be called from anywhere, as that of ``WorkerThreads``; it
hangs up, upon which the fork server ends the workers and itself. The same happens when this process
ends in any way, because the connections close.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from tensorlake.errors import InvalidStateError
from tensorlake.loader.runtime.fork_server import BOOT, Orders, is_fork_server
from tensorlake.loader.runtime.shared_slabs import Channel, memory_file
from tensorlake.loader.runtime.shutdown import closed

__all__ = ["WorkerProcesses", "WorkerTraceback", "needs_main"]

REPORT_NBYTES = 1 << 16
END_TIMEOUT_S = 2.0  # for the fork server to end its workers and itself
REPORT_TIMEOUT_S = 10.0  # for the fork server to say how a worker ended

_running: Final[weakref.WeakSet[WorkerProcesses]] = weakref.WeakSet()


class WorkerTraceback(Exception):  # noqa: N818 - the cause of an error, in its report
    """The traceback of an exception in a worker process, as text."""


def needs_main(pickled: bytes) -> bool:
    """Return whether a pickled function refers to the program's main module."""
    return b"__main__" in pickled


class WorkerProcesses:
    """A fixed number of processes that call one function."""

    def __init__(self, count: int, function: bytes, *, what: str) -> None:
        """Prepare the processes.

        Args:
            count: Number of processes.
            function: The function of a request, pickled.
            what: Its name in messages: "transform=".
        """
        self._count = count
        self._function = function
        self._what = what
        self._idle: SimpleQueue[int] = SimpleQueue()
        self._lanes: list[Channel] = []
        self._control: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._reports: dict[int, int] = {}
        self._failure = ""
        self._lock = threading.Lock()  # of the reports
        self._is_stopped = False

    def start(self) -> None:
        """Start the fork server; requests wait until it has forked.

        Raises:
            InvalidStateError: This process is one that imports a program for its workers.
        """
        if is_fork_server():
            raise InvalidStateError(
                f"a program whose {self._what} runs in processes is imported by them, and started"
                " a loader while it was\nput what it does under if __name__ == '__main__':, and"
                " functions before"
            )
        if self._is_stopped:
            return
        pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(self._count)
        ]
        control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        orders = Orders(
            self._function, list(sys.argv), _main() if needs_main(self._function) else {}
        )
        file = memory_file(pickle.dumps(list(sys.path)) + pickle.dumps(orders))
        given = [file, *(theirs.fileno() for _, theirs in (control, *pairs))]
        self._lanes = [Channel(ours) for ours, _ in pairs]
        self._control = control[0]
        _running.add(self)
        try:
            self._server = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-c", BOOT, *map(str, given)],
                pass_fds=given,
                stdin=subprocess.DEVNULL,
            )
        finally:
            os.close(file)
            for _, theirs in (control, *pairs):
                theirs.close()
        for number in range(self._count):
            self._idle.put(number)
        if self._is_stopped:  # meanwhile
            self.stop()

    def call(self, request: Any) -> Any:
        """Call the function in an idle process; as many threads as processes may.

        Raises:
            InvalidStateError: The process ended, or could not begin.
            UnsendableError: The request or the result cannot be pickled; its path begins with
                ``.value`` for a result.
            BaseException: The function's own, caused by a ``WorkerTraceback``.
        """
        number = self._idle.get()
        lane = self._lanes[number]
        try:
            lane.send(request)
            answer = lane.receive()
        except EOFError:
            raise self._ended(number) from None
        finally:
            self._idle.put(number)  # also after its end, for other threads to notice
        if answer.error is not None:
            cause = WorkerTraceback(f"in a worker process:\n{answer.traceback}")
            raise answer.error from (cause if answer.traceback else None)
        return answer.value

    def stop(self) -> None:
        """Hang up; takes no lock and does not wait."""
        self._is_stopped = True
        for lane in self._lanes:
            lane.hang_up()
        if self._control is not None:
            with suppress(OSError):  # it has ended
                self._control.shutdown(socket.SHUT_RDWR)

    def join(self, timeout_s: float) -> None:
        """Wait for the processes of a stopped pass; those that do not end in time are killed.

        The fork server ends workers wherever they are, so one that takes longer than a moment is
        stopped itself, and a consumer may be waiting to raise its time-out.
        """
        server = self._server
        if server is not None:
            try:
                server.wait(min(timeout_s, END_TIMEOUT_S))
            except subprocess.TimeoutExpired:
                server.kill()  # and with it the workers
                server.wait()
        self._close()

    def _close(self) -> None:
        for lane in self._lanes:
            lane.close()
        if self._control is not None:
            self._control.close()

    def _ended(self, number: int) -> InvalidStateError:
        """Return the error for a process that ended in a call."""
        if self._is_stopped:
            return closed()
        status = self._report_of(number)
        if self._failure:
            return InvalidStateError(
                f"the processes of {self._what} could not begin:\n{self._failure.rstrip()}"
                f"\nmake sure that {self._what} can be imported and unpickled in another process,"
                " or use engine='threads'"
            )
        return InvalidStateError(
            f"a process of {self._what} ended in a call: {_described(status)}"
            "\ntake fewer workers= if memory was short, or use engine='threads' to see more",
            actual=status,
        )

    def _report_of(self, number: int) -> int | None:
        """Return the wait status of a process that has ended; None if the server does not say."""
        control = self._control
        with self._lock:
            assert control is not None, "set by start()"
            control.settimeout(REPORT_TIMEOUT_S)
            while number not in self._reports and not self._failure:
                try:
                    message = control.recv(REPORT_NBYTES)
                except OSError:
                    return None
                if not message:
                    return None
                report = pickle.loads(message)  # noqa: S301 - of our own process
                self._failure = report.get("failed", "")
                if "worker" in report:
                    self._reports[report["worker"]] = report["status"]
            return self._reports.get(number)


def _main() -> dict[str, str]:
    """Return how the program's main module is found again, as ``multiprocessing.spawn`` does."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {"init_main_from_name": name}
    path = getattr(main, "__file__", None)
    return {} if path is None else {"init_main_from_path": str(Path(path).absolute())}


def _described(status: int | None) -> str:
    if status is None:
        return "its fork server ended, or does not answer"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"it exited with status {code}"
    name = signal.Signals(-code).name
    more = ", as the system does where memory is short" if name == "SIGKILL" else ""
    return f"killed by {name}{more}"


def _forget_all() -> None:
    for one in list(_running):
        one._close()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - a fork holds no connection of its parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
