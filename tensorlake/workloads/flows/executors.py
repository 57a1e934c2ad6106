"""The processes that run flows: each holds a lock while it lives, and takes over from the dead.

    executor    a process: its host, its number and a random one, in the row of each flow it runs
    its lock    PostgreSQL: an advisory lock of a session; SQLite: a byte of DATABASE-running.
                Either ends with the process, however that ends.

Every `LOOK_S` each process looks at the flows under way. Those of an executor whose lock is free go
back to their queue, from which one process takes them. DBOS keeps the result of the process that
took a flow last: one that was cut off from the database and is still working changes nothing.
A process marks flows that it took and has no code for; a process that has their code takes them.

A process that stops interrupts its runs, which then have no result:

    one that waits for an answer     at once: its thread, which may wait for days, would keep the
                                     process from ending
    one within a step                after it, so that its result is kept
    one that begins                  at once
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Protocol

from tensorlake.storage import runtime

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = [
    "NO_CODE",
    "SQLITE",
    "Executor",
    "Interrupted",
    "begin_runs",
    "check_runs",
    "end_runs",
    "file_of",
    "wait_for",
    "within_run",
]

LOOK_S = 2.0
NO_CODE = "no_code"
"""The attribute of a flow with the executors that took it and have no code for it."""

SQLITE = "sqlite:///"
RUNNING = "-running"
KEY_NBYTES = 7  # PostgreSQL's numbers of locks and a file's offsets are of 63 bits

# A machine that vanished keeps its lock until its connection ends: by default after two hours
KEEPALIVE = (
    "SET tcp_keepalives_idle = 5",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
)

logger = logging.getLogger(__name__)


def file_of(url: str) -> str | None:
    """Return the path of an SQLite database; None for one of PostgreSQL."""
    return url.removeprefix(SQLITE).partition("?")[0] if url.startswith(SQLITE) else None


class _Locks(Protocol):
    """Locks by number, which end with the process that has them."""

    def hold(self, key: int) -> None:
        """Take a lock until `close`, if it is not held."""
        ...

    def try_to_take(self, key: int) -> bool:
        """Take a lock; False if another process has it."""
        ...

    def give_back(self, key: int) -> None:
        """Give a lock back."""
        ...

    def close(self) -> None:
        """Give all of them back."""
        ...


class _FileLocks:
    """Bytes of a file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def hold(self, key: int) -> None:
        self.try_to_take(key)  # a process may take its own again

    def try_to_take(self, key: int) -> bool:
        assert fcntl is not None, "checked when it was made"
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, key)
        except OSError:
            return False
        return True

    def give_back(self, key: int) -> None:
        assert fcntl is not None, "checked when it was made"
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, key)

    def close(self) -> None:
        os.close(self._file)


class _SessionLocks:
    """Advisory locks of a connection to PostgreSQL; it is made again when it has ended."""

    def __init__(self, url: str) -> None:
        sql = import_module("sqlalchemy")  # dbos's own way to a database
        self._text: Callable[[str], Any] = sql.text
        self._engine = sql.create_engine(
            sql.make_url(url).set(drivername="postgresql+psycopg"),
            poolclass=sql.NullPool,
            isolation_level="AUTOCOMMIT",
        )
        self._session: Any = None
        self._is_held = False

    def hold(self, key: int) -> None:
        if self._is_held:
            self._ask("SELECT 1")  # fails if the session has ended, and the lock with it
        else:
            self._is_held = self.try_to_take(key)

    def try_to_take(self, key: int) -> bool:
        return bool(self._ask(f"SELECT pg_try_advisory_lock({key})"))

    def give_back(self, key: int) -> None:
        self._ask(f"SELECT pg_advisory_unlock({key})")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._engine.dispose()

    def _ask(self, text: str) -> Any:
        try:
            if self._session is None:
                self._session = self._engine.connect()
                for setting in KEEPALIVE:
                    self._session.execute(self._text(setting))
            return self._session.execute(self._text(text)).scalar()
        except BaseException:
            session, self._session, self._is_held = self._session, None, False
            if session is not None:
                session.invalidate()
                session.close()
            raise


class Executor:
    """This process, among those that run the flows of a database.

    Args:
        url: The database.
        application: Whose flows it runs.
        queue: The queue to which flows go back that have none.
        has_code: Whether this process has the code of a flow, by its name.
    """

    def __init__(
        self, url: str, *, application: str, queue: str, has_code: Callable[[str], bool]
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        """Its identity, among all processes at all times."""
        self._application, self._queue, self._has_code = application, queue, has_code
        place = file_of(url)
        self._locks: _Locks = _SessionLocks(url) if place is None else _FileLocks(place + RUNNING)
        self._engine: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_often, name="tensorlake-executors")
        try:
            self._locks.hold(_key_of(self.id))
        except BaseException:
            self._locks.close()
            raise

    @staticmethod
    def is_possible(url: str) -> bool:
        """Whether the system has such locks: without them all processes are one executor."""
        return file_of(url) is None or fcntl is not None

    def start(self, engine: Any) -> None:
        """Look at the flows under way from now on, with the DBOS that was launched as this one."""
        self._engine = engine
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Its flows stay its own."""
        self._ended.set()
        if self._engine is not None:
            self._thread.join()

    def close(self) -> None:
        """Leave its flows to other processes."""
        self._locks.close()

    def _look_often(self) -> None:
        refused = import_module("sqlalchemy.exc").SQLAlchemyError
        while not self._ended.is_set():
            try:
                self._look()
            except (refused, OSError) as error:  # the next time it may answer
                logger.warning("flows of processes that ended were not looked for: %s", error)
            self._ended.wait(LOOK_S)

    def _look(self) -> None:
        self._locks.hold(_key_of(self.id))
        running = self._engine.list_workflows(
            status="PENDING",
            application_name=self._application,
            load_input=False,
            load_output=False,
        )
        others = {one.executor_id for one in running} - {self.id, None}
        dead = {one for one in others if self._is_dead(one)}
        for one in running:
            without = (one.attributes or {}).get(NO_CODE, [])
            is_left = one.executor_id in dead or one.executor_id in without
            if self._has_code(one.name):
                if is_left:
                    self._put_back(one)
            elif one.executor_id == self.id and self.id not in without:
                mark = {NO_CODE: [*without, self.id]}
                self._engine.update_workflow_attributes(one.workflow_id, mark, merge=True)

    def _is_dead(self, executor: str) -> bool:
        key = _key_of(executor)
        is_free = self._locks.try_to_take(key)
        if is_free:
            self._locks.give_back(key)  # an id is used once: it stays free
        return is_free

    def _put_back(self, run: Any) -> None:
        """Put a flow into its queue, unless another process has taken it since."""
        database = self._engine._sys_db  # noqa: SLF001 - public calls ask for no executor: they
        # would take the flow from the process that another one like this has just given it to
        database.reenqueue_for_recovery(run.workflow_id, [run.executor_id], self._queue)


def _key_of(executor: str) -> int:
    """Return the number of an executor's lock."""
    return int.from_bytes(hashlib.blake2b(executor.encode(), digest_size=KEY_NBYTES).digest())


class Interrupted(BaseException):
    """The process stops: the run has no result, and another process continues it.

    Not an ``Exception``: those are results, and would be kept.
    """


_changed = threading.Condition()
_loops: list[runtime.LoopThread] = []
"""The loop on which runs wait; none while this process runs no flows."""
_busy: list[int] = []
"""The threads of runs that do not wait."""


def begin_runs() -> None:
    """Let runs continue from now on."""
    with _changed:
        if not _loops:
            _loops.append(runtime.LoopThread())


def end_runs() -> bool:
    """Interrupt all runs, and wait for those within a step; return whether one did not wait."""
    own = threading.get_ident()  # a run that stops all of them does not wait for itself
    with _changed:
        loops = _loops[:]
        _loops.clear()
        was_busy = any(one != own for one in _busy)
    for loop in loops:
        with suppress(TimeoutError):  # a database that does not answer
            loop.stop()
    with _changed:
        _changed.wait_for(lambda: all(one == own for one in _busy))
    return was_busy


def check_runs() -> None:
    """Do nothing while runs may continue.

    Raises:
        Interrupted: They may not.
    """
    if not _loops:
        raise Interrupted


@contextmanager
def within_run() -> Generator[None]:
    """Do the work of a run in the body.

    Raises:
        Interrupted: This process runs no flows any more.
    """
    own = threading.get_ident()
    with _changed:
        check_runs()
        _busy.append(own)
    try:
        yield
    finally:
        with _changed:
            _busy.remove(own)
            _changed.notify_all()


def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Wait in a run for a coroutine, and return its result.

    Raises:
        Interrupted: This process stops to run flows.
    """
    own = threading.get_ident()
    with _changed:  # `end_runs` cancels what was handed over before
        if not _loops:
            coroutine.close()
            raise Interrupted
        waiting = asyncio.run_coroutine_threadsafe(coroutine, _loops[0].loop)
        _busy.remove(own)
        _changed.notify_all()
    try:
        return waiting.result()
    except CancelledError:
        raise Interrupted from None
    finally:
        waiting.cancel()  # Ctrl-C in a call of the flow: nothing else ends it
        with _changed:
            _busy.append(own)
