"""``python -m tensorlake_server URL``: what ``tensorlake serve`` and ``ds.show()`` start."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from starlette.concurrency import run_in_threadpool

from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.storage import open_store, probe, run, split_url
from tensorlake_server.app.app import create_app
from tensorlake_server.app.workers import run_workers
from tensorlake_server.request.slow_clients import configure
from tensorlake_server.settings.config import OPTIONS, print_config, resolve_options
from tensorlake_server.settings.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import FrameType

    from tensorlake_server.request.jobs import ServedJobs

__all__ = ["main"]

KEY_VARIABLE = "TENSORLAKE_SIGNING_KEY"
KEY_NBYTES_MIN = 16
USAGE_ERROR = 2
INTERRUPTED = 130
BACKLOG = 128
REFUSING_S = 1  # for the last answers of a server that stops, which say so


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        asked = _settings(given)
        if given.print_config:
            sys.stdout.write(print_config(asked))
            return 0
        listening = _listen(asked)
    except TensorlakeError as error:
        return _refused(error)
    settings = replace(asked, port=listening.getsockname()[1])
    if settings.workers == 1:
        return _serve(settings, given, listening)
    with _shared_folders(settings) as shared, _one_turn() as turn:
        return run_workers(shared.workers, partial(_work, shared, given, listening, turn))


def _serve(
    settings: Settings,
    given: argparse.Namespace,
    listening: socket.socket,
    *,
    is_first: bool = True,
    watched: Callable[[DrainingServer], None] | None = None,
    turn: int | None = None,
) -> int:
    """Serve in this process; the first one of a server prints where it is.

    Args:
        settings: Its settings, with the port.
        given: The flags.
        listening: The socket.
        is_first: Whether it is the only one, or the first worker.
        watched: Stops the server when the process that started it is gone; runs in a thread.
        turn: A descriptor; the worker that reads its one byte prints why they cannot start.
    """
    try:
        app = create_app(settings)
        datasets = app.state.lake.names()
        if not datasets and not settings.write:
            _check_folder(settings.url)
        _check_flows(settings)
        _check_copies(settings)
    except TensorlakeError as error:
        return _refused(error, prints=turn is None or bool(os.read(turn, 1)))
    only = datasets[0] if len(datasets) == 1 else None
    if given.verbose:
        requests = logging.getLogger("tensorlake.server.requests")
        requests.addHandler(logging.StreamHandler())  # a line of JSON each, on stderr
        requests.setLevel(logging.INFO)
    link = _with_place(settings.link(only), given.place)
    announce = partial(_announce, settings, link, is_opened=given.open)
    server = DrainingServer(
        configure(
            app,
            log_level="info" if given.verbose else "warning",
            shutdown_s=math.ceil(settings.drain_s) + REFUSING_S,
        ),
        announce if is_first else _say_nothing,
    )
    watch = _stop_with_parent if given.child else watched
    if watch is not None:
        threading.Thread(target=watch, args=[server], daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has stopped in order, and passes the signal on
        return INTERRUPTED
    return 0


def _work(
    settings: Settings,
    given: argparse.Namespace,
    listening: socket.socket,
    turn: int,
    number: int,
    alive: int,
) -> int:
    """Serve as one of several workers."""

    def watch(server: DrainingServer) -> None:
        os.read(alive, 1)  # returns at the end of the pipe: the parent writes nothing
        server.drain()
        server.should_exit = True

    return _serve(settings, given, listening, is_first=number == 0, watched=watch, turn=turn)


@contextmanager
def _one_turn() -> Generator[int]:
    """Make a file descriptor of one byte, and then the end: one worker gets it."""
    turn, given = os.pipe()
    os.write(given, b"1")
    os.close(given)
    try:
        yield turn
    finally:
        os.close(turn)


@contextmanager
def _shared_folders(settings: Settings) -> Generator[Settings]:
    """Let workers share what clients find again by name: selected rows, and copies of views."""
    with tempfile.TemporaryDirectory(prefix="tensorlake-workers-") as folder:
        yield replace(
            settings,
            selections=settings.selections or Path(folder) / "selections",
            derived=settings.derived or f"{folder}/derived",
        )


def _say_nothing() -> None:
    """Answer without saying where: the first worker does."""


def _refused(error: TensorlakeError, *, prints: bool = True) -> int:
    if prints:
        sys.stderr.write(f"{error}\n")
    return USAGE_ERROR if isinstance(error, InvalidInputError) else 1


class DrainingServer(uvicorn.Server):
    """Says where it is once it answers at once, and ends streams in order before it stops.

    Args:
        config: The settings to serve with.
        announce: Called when it answers.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Load all that answering takes, listen, and say so.

        Said from a thread: the first use of one loads what every route needs, 20 ms that the first
        client would wait for, beside the 50 ms of uvicorn's own start.
        """
        await super().startup(sockets)
        if self.started:
            await run_in_threadpool(self._announce)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let the streams end, then stop as uvicorn does."""
        self.drain()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the requests under way; those that take too long are answered by a problem."""
        refusing = asyncio.create_task(self._refuse_late())
        try:
            await super().shutdown(sockets)
        finally:
            refusing.cancel()

    async def _refuse_late(self) -> None:
        app: Any = self.config.app
        await asyncio.sleep(app.state.settings.drain_s)
        await app.state.under_way.refuse()

    def drain(self) -> None:
        """Let the streams end; no others begin."""
        app: Any = self.config.app
        app.state.streams.drain()
        app.state.batch_streams.drain()
        jobs: ServedJobs | None = app.state.jobs
        if jobs is not None:
            jobs.stop()


def _check_folder(url: str) -> None:
    """Refuse to show a local folder that is not there: most likely its name is misspelt.

    Raises:
        InvalidInputError: It is not there.
    """
    scheme, path = split_url(url)
    if scheme == "file" and not Path(path).exists():
        raise InvalidInputError(
            f"there is no folder {path!r} to serve\n"
            "give the folder of a dataset or of a lake; --write serves one that is yet to be made",
            actual=url,
        )


def _check_flows(settings: Settings) -> None:
    """Open the database of flows before the port answers, so that a failure is one error.

    Raises:
        StorageError: It cannot be opened.
    """
    if settings.flows is not None:
        from tensorlake.workloads import flows

        flows.Jobs.check(settings.flows)


def _check_copies(settings: Settings) -> None:
    """Write to the folder of views' copies before a request needs it.

    Raises:
        StorageError: It cannot be written.
        UnsupportedStoreError: It cannot hold datasets that are written to.
    """
    if settings.derived is not None:
        options = settings.storage_options
        run(probe(open_store(settings.derived, storage_options=options)))


def _stop_with_parent(server: DrainingServer) -> None:
    """Stop when the process that started this one is gone, or closes the pipe that it holds."""
    while sys.stdin.readline():
        pass
    server.drain()
    server.should_exit = True


def _announce(settings: Settings, link: str, *, is_opened: bool) -> None:
    """Return where the server is."""
    sys.stdout.write(f"Viewer at {link} (Ctrl-C stops)\n")
    if not (settings.static / "index.html").is_file():
        sys.stdout.write(
            "This installation has no viewer: the address has the API alone. Build the viewer in a"
            " checkout: make viewer\n"
        )
    if settings.knows_people:
        if settings.is_loopback:
            sys.stdout.write(
                "The token of this link has all rights: keep it to yourself. Others sign in with"
                " tokens of their own\n"
            )
        else:
            sys.stdout.write(
                "Readers sign in with their tokens (tensorlake token create), on the page or by"
                " #token=TOKEN at the end of the address\n"
            )
    if settings.is_loopback and "SSH_CONNECTION" in os.environ:
        port = settings.port
        sys.stdout.write(
            f"From your own machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}\n"
        )
    sys.stdout.flush()
    if is_opened:
        webbrowser.open(link)


def _with_place(link: str, place: str) -> str:
    """Add to a link where on the page to begin: what viewer/src/state/url.ts reads."""
    return urlsplit(link)._replace(query=place).geturl() if place else link


def _listen(settings: Settings) -> socket.socket:
    """Take the port before saying where the server is: 0 takes a free one.

    Raises:
        InvalidInputError: It cannot be taken.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)  # who follows the link at once waits, and is not refused
    except OSError as error:
        listening.close()
        raise InvalidInputError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}"
            "\n--port 0 takes a free one",
            host=settings.host,
            port=settings.port,
        ) from error
    return listening


def _settings(given: argparse.Namespace) -> Settings:
    options = dict(_storage_option(pair) for pair in given.storage_option)
    if given.child:
        options |= json.loads(sys.stdin.readline() or "{}")
    if given.endpoint_url:
        options["endpoint_url"] = given.endpoint_url
    flags = {name: getattr(given, name) for name in OPTIONS}
    chosen = resolve_options(flags, os.environ, given.config)
    settings = Settings(
        url=given.url, storage_options=options or None, is_framed=given.child, **chosen
    )
    key = os.environ.get(KEY_VARIABLE)
    if key is None:
        return settings
    if len(key.encode()) < KEY_NBYTES_MIN:
        raise InvalidInputError(
            f"{KEY_VARIABLE} has {len(key.encode())} bytes, and needs {KEY_NBYTES_MIN} at least:"
            " anyone who guesses it can make sessions\nmake one: openssl rand -hex 32; or unset it"
        )
    return replace(settings, signing_key=key.encode())


def _storage_option(pair: str) -> tuple[str, str]:
    name, is_given, value = pair.partition("=")
    if not is_given:
        raise InvalidInputError(f"--storage-option {name!r} has no value\nwrite it as {name}=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tensorlake_server", description=__doc__)
    parser.add_argument("url", help="a dataset, or a folder of datasets")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (default: 8300; 0: a free port)")
    set_true = argparse.BooleanOptionalAction
    parser.add_argument("--public-read", action=set_true, help="everybody who comes may read")
    parser.add_argument("--auth", type=Path, metavar="FILE", help="of the tokens that let one in")
    parser.add_argument("--oidc", metavar="ISSUER", help="an OpenID provider, whose tokens do too")
    parser.add_argument("--oidc-audience", metavar="AUD", help="of its tokens for this server")
    parser.add_argument("--oidc-claim", metavar="NAME", help="that has scopes (default: scope)")
    parser.add_argument(
        "--oidc-groups", type=Path, metavar="FILE", help="TOML: the scopes of each group"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that serve together")
    parser.add_argument("--write", action=set_true, help="those whose scopes allow it may write")
    parser.add_argument("--presign", action=set_true, help="packs are read by signed links")
    parser.add_argument("--follow-links", action=set_true, help="files that links name are read")
    parser.add_argument("--audit-log", type=Path, metavar="FILE", help="note who did what, when")
    parser.add_argument("--audit-nbytes", type=int, help="of its file, before another is begun")
    parser.add_argument("--audit-files", type=int, help="earlier ones that are kept; 0: all")
    parser.add_argument("--max-connections", type=int, help="open at once")
    parser.add_argument("--max-held-nbytes", type=int, help="of bodies and answers under way")
    parser.add_argument("--max-requests-per-s", type=float, help="per token")
    parser.add_argument("--max-streams", type=int, help="open event streams")
    parser.add_argument("--max-streams-each", type=int, help="the same, per token")
    parser.add_argument("--max-batch-streams", type=int, help="open streams of decoded batches")
    parser.add_argument("--max-batch-streams-each", type=int, help="the same, per token")
    parser.add_argument("--header-patience-s", type=float, help="time to receive the headers")
    parser.add_argument("--body-patience-s", type=float, help="time to receive the body")
    parser.add_argument("--min-nbytes-per-s", type=float, help="minimum transfer rate of a client")
    parser.add_argument(
        "--answer-patience-s", type=float, help="time for a client to read a response"
    )
    parser.add_argument(
        "--stream-patience-s", type=float, help="time for a client to continue reading a stream"
    )
    parser.add_argument("--drain-s", type=float, help="for requests under way when it is stopped")
    parser.add_argument("--max-query-s", type=float, help="that a query may run")
    parser.add_argument("--flows", metavar="DATABASE", help="SQLite or PostgreSQL, keeps jobs")
    parser.add_argument("--max-job-s", type=float, help="that one may run which is a job")
    parser.add_argument("--max-query-nbytes", type=int, help="that a query may read")
    parser.add_argument(
        "--max-query-memory-nbytes", type=int, help="of memory that a query may hold"
    )
    parser.add_argument("--max-queries", type=int, help="that run at once")
    parser.add_argument("--max-queries-each", type=int, help="the same, per token")
    parser.add_argument(
        "--group-wait-s", type=float, help="that an append waits for others, to share a commit"
    )
    parser.add_argument("--max-write-nbytes", type=int, help="of a body that brings rows")
    parser.add_argument("--max-page-nbytes", type=int, help="of the samples in one page of rows")
    parser.add_argument(
        "--views-nbytes", type=int, help="of memory that kept results of queries hold"
    )
    parser.add_argument("--derived", metavar="URL", help="keeps copies of saved views")
    parser.add_argument("--derived-nbytes", type=int, help="of all copies of saved views")
    parser.add_argument(
        "--selections", type=Path, metavar="FOLDER", help="keeps selected rows across restarts"
    )
    parser.add_argument("--selections-nbytes", type=int, help="of all selected rows")
    parser.add_argument(
        "--exports", type=Path, metavar="FOLDER", help="keeps files that clients export"
    )
    parser.add_argument("--exports-nbytes", type=int, help="of all exports")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML, by the flags' names")
    parser.add_argument("--print-config", action="store_true", help="and stop; secrets are hidden")
    parser.add_argument("--endpoint-url", help="of the object store")
    parser.add_argument("--storage-option", metavar="K=V", action="append", default=[])
    parser.add_argument("--open", action="store_true", help="open the viewer in a browser")
    parser.add_argument("--place", default="", help=argparse.SUPPRESS)  # of `tensorlake show`
    parser.add_argument(  # of `ds.show()`: storage options come by stdin, and its end is ours
        "--child", action="store_true", help=argparse.SUPPRESS
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log each request")
    return parser


if __name__ == "__main__":
    sys.exit(main())
