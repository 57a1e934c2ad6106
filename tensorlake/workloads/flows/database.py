"""The database of flows, and DBOS on it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tensorlake.errors import InvalidInputError, StorageError, missing_extra, shown
from tensorlake.storage import public_url
from tensorlake.workloads.flows.executors import (
    SQLITE,
    Executor,
    begin_runs,
    end_runs,
    file_of,
)

__all__ = [
    "POLL_S",
    "QUEUE",
    "clients",
    "connect",
    "dbos",
    "launch",
    "migrate",
    "opened",
    "stop_engine",
]

DATABASE = "tensorlake-flows.sqlite"
VARIABLE = "TENSORLAKE_FLOWS"
APPLICATION = "tensorlake"
QUEUE = "tensorlake-flows"
POLL_S = 0.2
RECORD_S = 1  # for the result of a run that has just ended
SIDES = ("-wal", "-shm", "-journal")  # SQLite's own files
OTHERS = 0o077  # the bits of a mode that let others in
_SCHEMES = (SQLITE, "postgresql://", "postgresql+psycopg://")

_chosen: dict[str, str] = {}
"""The database that `connect` named, under "url"."""


def connect(database: str | os.PathLike[str] | None = None) -> str:
    """Choose the database of this process's flows, and return its URL.

    Without a call, it is that of the variable ``TENSORLAKE_FLOWS``, or the file
    ``tensorlake-flows.sqlite`` in the working directory.

    Args:
        database: Path of an SQLite file, or a URL: ``postgresql://user@host/name``. PostgreSQL for
            processes on several machines. None: the one that is chosen.

    Raises:
        InvalidInputError: It is neither a path nor such a URL.
    """
    given = database if database is not None else _chosen.get("url", os.environ.get(VARIABLE))
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if text is None:
        text = DATABASE
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError(
            f"database={shown(database)}: give the path of a file, or postgresql://user@host/name",
            argument="database",
            actual=public_url(database) if isinstance(database, str) else database,
        )
    if "://" not in text:
        text = f"{SQLITE}{Path(text).absolute()}"
    if not text.startswith(_SCHEMES):
        raise InvalidInputError(
            f"flows are kept in SQLite or PostgreSQL, not in {shown(public_url(text))}"
            "\ngive the path of a file, or postgresql://user@host/name",
            argument="database",
            actual=public_url(text),
        )
    if database is not None:
        stop_engine()
        _chosen["url"] = text
    return text


@cache
def dbos() -> Any:
    """Return DBOS.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module("dbos")
    except ImportError as error:
        raise missing_extra("tensorlake flows", "flows") from error


@contextmanager
def opened(url: str) -> Generator[None]:
    """Open a database in the body, whose failure is one error of one line.

    Raises:
        StorageError: It cannot be opened, or is of another kind.
    """
    refused = import_module("sqlalchemy.exc").SQLAlchemyError  # dbos's own way to a database
    try:
        yield
    except (refused, ValueError) as error:  # ValueError: a port that is no number
        place = url.removeprefix(SQLITE) if url.startswith(SQLITE) else public_url(url)
        why = str(getattr(error, "orig", None) or error).partition("\n")[0].replace(url, place)
        raise StorageError(
            f"the database of flows {place!r} cannot be opened: {why}"
            "\ngive an SQLite file in a folder that may be written to, or"
            " postgresql://user@host/name of a server that runs",
            database=place,
        ) from error


def migrate(url: str) -> None:
    """Make a database's tables, and its file, if they are not there.

    Raises:
        StorageError: It cannot be opened, or is of another kind.
    """
    _make_private(url)
    with opened(url):
        dbos().DBOS.migrate(url)


def _make_private(url: str) -> None:
    """Make the file of a database its owner's alone: it has requests, answers and arguments."""
    place = file_of(url)
    if place is None:
        return
    with suppress(OSError):  # it cannot be made or is another's, which who opens it reports
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for file in (place, *(f"{place}{one}" for one in SIDES)):
        with suppress(OSError):  # as above; or it is not there
            if Path(file).stat().st_mode & OTHERS:  # earlier releases made it so
                Path(file).chmod(0o600)


_launching = threading.Lock()
_launched: list[Executor | None] = []
"""This process as it runs flows; DBOS runs those of one database per process."""


def launch(
    *,
    has_code: Callable[[str], bool],
    application: str = APPLICATION,
    queue: str = QUEUE,
    at_once: int | None = None,
) -> None:
    """Run flows in this process from now on: new ones, and those of processes that ended.

    Args:
        has_code: Whether this process has the code of a flow, by its name.
        application: Whose; a process runs those of one.
        queue: The queue of those that are started.
        at_once: How many of the queue run at once; None: all.

    Raises:
        StorageError: The database cannot be opened, or is of another kind.
    """
    with _launching:
        if _launched:
            return
        _stop_at_exit()
        engine, url = dbos().DBOS, connect()
        migrate(url)  # before the engine, which logs a traceback if it cannot
        executor = None
        if Executor.is_possible(url):
            with opened(url):  # before the engine: a flow that it takes has an owner who lives
                executor = Executor(url, application=application, queue=queue, has_code=has_code)
        running = engine(
            config={
                "name": application,
                "system_database_url": url,
                "executor_id": None if executor is None else executor.id,
                # One version for all code: a flow's results count after its file was edited
                "application_version": "1" if application == APPLICATION else application,
                "log_level": "ERROR",
                "notification_listener_polling_interval_sec": POLL_S,
            }
        )
        begin_runs()
        try:
            with opened(url):
                engine.launch()
                engine.register_queue(
                    queue, polling_interval_sec=POLL_S, worker_concurrency=at_once
                )
        except BaseException:
            end_runs()
            engine.destroy(workflow_completion_timeout_sec=0)  # or the next launch would use it
            if executor is not None:
                executor.close()
            raise
        _launched.append(executor)
        if executor is not None:
            executor.start(running)


@cache
def _stop_at_exit() -> None:
    """Stop before the interpreter joins threads: those of runs that wait end for nothing else."""
    threading._register_atexit(stop_engine)  # noqa: SLF001 # pyright: ignore - no public name


def stop_engine() -> None:
    """Run no flows in this process any more; another one continues those under way."""
    with _launching:
        if _launched:
            executor = _launched.pop()
            if executor is not None:
                executor.stop()
            # It reports runs that it has just taken, which another process continues
            logging.getLogger("dbos").setLevel(logging.CRITICAL)  # until the next launch
            grace_s = RECORD_S if end_runs() else 0
            dbos().DBOS.destroy(workflow_completion_timeout_sec=grace_s)
            if executor is not None:
                executor.close()


@contextmanager
def clients() -> Generator[Any]:
    """Give a client of the database, which is made if it is not there.

    Raises:
        StorageError: It cannot be opened, or is of another kind.
    """
    module, url = dbos(), connect()
    if url not in _migrated:
        migrate(url)
        _migrated.add(url)
    with opened(url):
        client = module.DBOSClient(system_database_url=url, application_name=APPLICATION)
    try:
        yield client
    finally:
        client.destroy()


_migrated: set[str] = set()
"""Databases that are known to have the tables."""
