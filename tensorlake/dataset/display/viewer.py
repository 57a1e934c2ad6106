"""``ds.show()``: the viewer in a browser, served by a private server of this process.

    this process ── stdin: storage options, a line of JSON ──► python -m tensorlake_server --child
                 ◄── stdout: "Viewer at http://127.0.0.1:…" ──

The server is a child, so that a training loop and the pages do not wait for each other. It listens
on a free port of this machine, requires the link's token, and ends when its stdin closes, that is,
with this process in any case. Each dataset has one server, which every further ``show()`` reuses.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.core.steps import ColumnsStep, QueryStep
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    UncommittedChangesError,
    UnsupportedFeatureError,
    missing_extra,
)
from tensorlake.storage import is_lake_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.dataset.display.widget import ViewerWidget

__all__ = [
    "check_server_is_installed",
    "check_viewer_is_built",
    "make_widget",
    "show",
    "stop_servers",
]

SERVER_NEEDS = ("fastapi", "uvicorn", "prometheus_client")
START_S = 120.0
STOP_S = 10.0
FRAME_HEIGHT_PX = 640


def show(rows: RowSet, *, is_view: bool, write: bool, is_opened: bool) -> str:
    """Serve the dataset of some rows, open the page at them, and return its address.

    Raises:
        MissingExtraError: The server is not installed.
        UnsupportedFeatureError: It was installed without the viewer.
        InvalidInputError: Another process cannot read the dataset.
        InvalidStateError: An address cannot express these rows.
    """
    url = rows.url
    if is_lake_url(url):
        raise InvalidInputError(
            f"{url!r} is behind a server, which shows it itself\nopen that address in a browser"
        )
    if url.startswith("memory://"):
        raise InvalidInputError(
            f"{url!r} lives in this process, and the viewer's server is another one"
            "\ncopy it to a folder: tl.copy(ds.url, 'pets.tl')"
        )
    check_server_is_installed("show()")
    check_viewer_is_built()
    place = _place_of(rows, is_view=is_view)
    address = _with_place(_server_of(rows, write=write).link, place)
    if is_opened:
        sys.stdout.write(f"Viewer at {address}\n")
        if rows.session.transaction is not None:
            sys.stdout.write("Staged changes are not shown: the viewer reads committed versions\n")
        sys.stdout.flush()
        if not _show_frame(address):
            webbrowser.open(address)
    return address


def make_widget(
    rows: RowSet,
    make_view: Callable[[RowSet], Any],
    *,
    is_view: bool,
    write: bool,
    height: int,
) -> ViewerWidget:
    """Serve the dataset of some rows, and make the widget of a notebook that shows them.

    Raises:
        MissingExtraError: anywidget is not installed; or as `show`.
    """
    if importlib.util.find_spec("anywidget") is None:
        raise missing_extra("widget()", "notebook")
    from tensorlake.dataset.display.widget import widget_of

    address = show(rows, is_view=is_view, write=write, is_opened=False)
    return widget_of(rows, address, make_view, height=height)


def check_server_is_installed(what: str) -> None:
    """Check that the server can start.

    Raises:
        MissingExtraError: Something that it needs is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in SERVER_NEEDS):
        raise missing_extra(what, "server")


def check_viewer_is_built() -> None:
    """Check that the server has its pages.

    Raises:
        UnsupportedFeatureError: It was installed from source, and they were never built.
    """
    page = viewer_page()
    if not page.is_file():
        raise UnsupportedFeatureError(
            f"this installation has no viewer: {str(page)!r} is not there"
            "\nbuild it in a checkout, with Node.js 20.19 or newer: make viewer; then install that"
        )


def viewer_page() -> Path:
    """Return the path of the built viewer, without importing the server."""
    found = importlib.util.find_spec("tensorlake_server")
    if found is None or found.origin is None:
        raise missing_extra("show()", "server")
    return Path(found.origin).parent / "static/index.html"


# The place on the page


def _place_of(rows: RowSet, *, is_view: bool) -> dict[str, str]:
    """Return the parameters of the page's address (viewer/src/app/url.ts)."""
    if not is_view:
        session = rows.session
        if session.name == session.branch:
            return {} if session.branch == "main" else {"at": session.branch}
        return {"at": rows.version}
    if rows.selection.snapshot.is_staged:
        raise UncommittedChangesError(
            f"this view shows staged changes of {rows.url!r}, which no other process can read"
            "\ncommit them, then make the view again"
        )
    if rows.name is not None:
        return {"at": rows.version, "view": rows.name}
    return {"at": rows.version, **_query_of(rows)}


def _query_of(view: RowSet) -> dict[str, str]:
    steps = [step for step in view.steps or () if isinstance(step, QueryStep)]
    if view.steps is None or len(steps) > 1 or any(step.params for step in steps):
        raise InvalidStateError(
            f"no address can express this view of {view.url!r}: its rows were chosen by"
            " hand, by several queries, or by one with parameters"
            "\ngive it a name, and show that: view.save('a-name').show()"
        )
    place = {"q": steps[0].tql} if steps else {}
    is_narrowed = any(isinstance(step, ColumnsStep) for step in view.steps)
    if is_narrowed:
        everything = (spec.name for spec in view.selection.snapshot.schema.tensors)
        place["hide"] = ",".join(name for name in everything if name not in view.schema)
    return place


def _with_place(link: str, place: dict[str, str]) -> str:
    parts = urlsplit(link)
    return parts._replace(query=urlencode(place)).geturl()


def _show_frame(address: str) -> bool:
    """Show the page inside a notebook; False if this is not a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython  # pyright: ignore[reportMissingImports, reportUnknownVariableType] - of the notebook
    from IPython.display import HTML, display  # pyright: ignore[reportMissingImports, reportUnknownVariableType] - the same

    if getattr(get_ipython(), "kernel", None) is None:
        return False  # IPython in a terminal
    display(HTML(frame_of(address)))
    return True


def frame_of(address: str) -> str:
    """Return a frame that shows the page, under the host name of the notebook itself.

    The cookie that grants access is sent only within one site, and ``localhost`` and
    ``127.0.0.1`` are two. From another machine neither works: the link then has instructions.
    """
    port = urlsplit(address).port
    rest = address.partition(f":{port}")[2]
    here = f"http://127.0.0.1:{port}{rest}"
    return (
        f'<iframe style="width:100%;height:{FRAME_HEIGHT_PX}px;border:0" title="tensorlake viewer"'
        f"></iframe><script>(() => {{ const host = location.hostname === 'localhost' ?"
        f" 'localhost' : '127.0.0.1'; document.currentScript.previousElementSibling.src ="
        f" 'http://' + host + {json.dumps(f':{port}{rest}')}; }})()</script>"
        f'<div><a href="{here.replace("&", "&amp;")}" target="_blank">the viewer in a tab</a>;'
        f" from another machine first: <code>ssh -L {port}:127.0.0.1:{port} HOST</code>;"
        " <code>ds.widget()</code> has its selection in Python</div>"
    )


# The server


@dataclass(frozen=True, slots=True)
class _Server:
    """A child that serves one dataset."""

    process: subprocess.Popen[str]
    link: str
    output: IO[str]

    def stop(self) -> None:
        """End it: its stdin closes, and it stops in order."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.output.close()


_lock = threading.Lock()
_servers: dict[tuple[int, str, bool], _Server] = {}


def stop_servers() -> None:
    """End this process's servers, as its own end does."""
    with _lock:
        own = [key for key in _servers if key[0] == os.getpid()]  # a fork inherits its parent's
        stopping = [_servers.pop(key) for key in own]
    for server in stopping:
        server.stop()


def _server_of(rows: RowSet, *, write: bool) -> _Server:
    key = (os.getpid(), rows.url, write)
    with _lock:
        server = _servers.get(key)
        if server is not None and server.process.poll() is None:
            return server
        if not _servers:
            atexit.register(stop_servers)
        server = _start(rows, write=write)
        _servers[key] = server
        return server


def _start(rows: RowSet, *, write: bool) -> _Server:
    command = [sys.executable, "-m", "tensorlake_server", rows.url, "--child"]
    command += ["--host", "127.0.0.1", "--port", "0", *(["--write"] if write else [])]
    command += ["--follow-links"] if rows.session.head.bases else []  # a fork is in its base, too
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - for as long as the child writes to it
    process = subprocess.Popen(  # noqa: S603 - this interpreter, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C at the prompt is not meant for it
    )
    assert process.stdin is not None, "asked for above"
    assert process.stdout is not None, "asked for above"
    giving_up = threading.Timer(START_S, process.kill)
    giving_up.start()
    try:
        options = rows.session.options.get("storage_options") or {}
        process.stdin.write(json.dumps(options) + "\n")
        process.stdin.flush()
        printed = re.search(r"http://\S+", process.stdout.readline())
    except BrokenPipeError:
        printed = None  # it ended before reading; its output has the reason
    finally:
        giving_up.cancel()
    if printed is None:
        process.kill()
        code = process.wait()
        errors.seek(0)
        reported = errors.read().strip()
        errors.close()
        process.stdout.close()
        raise InvalidStateError(
            f"the viewer's server for {rows.url!r} did not start (exit code {code}): {reported}"
            f"\nsee more with: tensorlake show {rows.url} -v"
        )
    return _Server(process, printed[0], errors)
