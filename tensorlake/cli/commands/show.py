"""``tensorlake show URL``: open the viewer in a browser, with a private server, until Ctrl-C.

It runs ``tensorlake serve`` on a free local port, and opens the browser at the requested version or
query.
"""

import os
import sys
from typing import Annotated
from urllib.parse import urlencode

import typer

import tensorlake as tl
from tensorlake.cli.options import At, Url
from tensorlake.cli.terms import Terms
from tensorlake.dataset import check_server_is_installed, check_viewer_is_built

__all__ = ["show"]


def show(
    url: Url,
    *,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TQL", help="Query that selects the rows.")
    ] = None,
    at: At = None,
    port: Annotated[int, typer.Option(help="Port; 0 = any free port.", min=0)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Allow the viewer to save views.")] = False,
    terms: Terms,
) -> None:
    """Open a dataset or a lake in the viewer, until Ctrl-C.

    Example: tensorlake show pets.tl --query "WHERE label = 'cat'"
    """
    check_server_is_installed("tensorlake show")
    check_viewer_is_built()
    _check(url, at, query, terms)
    command = [sys.executable, "-m", "tensorlake_server", url]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    place = {"at": at, "q": query}
    command += ["--place", urlencode({key: text for key, text in place.items() if text})]
    command += [] if no_browser else ["--open"]
    command += ["--write"] if write else []
    for key, value in (terms.options_for(url) or {}).items():
        command += ["--storage-option", f"{key}={value}"]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 the same interpreter, no shell in between


def _check(url: str, at: str | None, query: str | None, terms: Terms) -> None:
    """Fail here rather than in the viewer if the dataset, version or query is invalid."""
    is_lake = at is None and query is None and tl.list(url, storage_options=terms.options_for(url))
    if is_lake:
        return
    with terms.open(url, at=at) as ds:
        if query is not None:
            ds.query(query)
