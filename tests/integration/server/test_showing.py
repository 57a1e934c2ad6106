"""``ds.show()``: where on the page it leads, and what it refuses; the server itself is real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import tensorlake as tl
from tensorlake.dataset.display import viewer as showing

PATIENCE_S = 60


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tl.Dataset]:
    """Six numbers, and one server of theirs until the tests are over; no pages are needed."""
    pages = tmp_path_factory.mktemp("pages") / "index.html"
    pages.touch()
    ds = tl.create(str(tmp_path_factory.mktemp("shown") / "notes"), {"x": "int64", "y": "int64"})
    ds.extend({"x": range(6), "y": range(6)})
    ds.commit("six")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(showing, "viewer_page", lambda: pages)
        yield ds
    showing.stop_servers()


def is_ended(connection: socket.socket) -> bool:
    """Wait until the other end is gone, in order or not."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def place(address: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}


@pytest.mark.slow
def test_the_address_opens_the_dataset_for_who_has_it_and_for_nobody_else(ds: tl.Dataset) -> None:
    address = urlsplit(ds.show(open=False))

    base = f"{address.scheme}://{address.netloc}"
    with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
        assert client.get("/v1/datasets/notes").status_code == 401
        token = address.fragment.removeprefix("token=")
        assert client.post("/v1/session", json={"token": token}).status_code == 204
        assert client.get("/v1/datasets/notes").json()["rows"] == 6
    assert address.path == "/notes"
    assert address.query == ""


def test_one_server_shows_everything_of_a_dataset(ds: tl.Dataset) -> None:
    first, second = ds.show(open=False), ds.query("WHERE x > 3").show(open=False)

    assert urlsplit(first).netloc == urlsplit(second).netloc


def test_a_query_and_a_choice_of_columns_are_in_the_address(ds: tl.Dataset) -> None:
    view = ds.query("WHERE x > 3 ORDER BY x DESC")[["x"]]

    shown = place(view.show(open=False))

    assert shown == {"at": "main@1", "q": "WHERE x > 3 ORDER BY x DESC", "hide": "y"}


def test_an_older_version_and_a_saved_view_are_in_the_address(ds: tl.Dataset) -> None:
    saved = ds[[5, 0]].save("picked")
    older = tl.open(ds.url, "main@1")

    assert place(saved.show(open=False)) == {"at": "main@1", "view": "picked"}
    assert place(older.show(open=False)) == {"at": "main@1"}


def test_rows_that_no_address_tells_ask_for_a_name(ds: tl.Dataset) -> None:
    with pytest.raises(tl.InvalidStateError, match=r"view\.save\('a-name'\)\.show\(\)"):
        ds[[5, 0]].show(open=False)
    with pytest.raises(tl.InvalidStateError, match="parameters"):
        ds.query("WHERE x > $low", low=3).show(open=False)


def test_what_no_other_process_can_read_is_refused() -> None:
    inside = tl.create("memory://shown", {"x": "int64"})

    with pytest.raises(tl.InvalidInputError, match=r"tl\.copy"):
        inside.show(open=False)


@pytest.mark.slow
def test_without_its_extra_or_its_pages_show_says_what_to_do(
    ds: tl.Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(showing, "viewer_page", lambda: tmp_path / "static/index.html")
    with pytest.raises(tl.UnsupportedFeatureError, match="make viewer"):
        ds.show(open=False)

    monkeypatch.setattr(showing, "SERVER_NEEDS", ("a_module_that_nobody_has",))
    with pytest.raises(tl.MissingExtraError, match=r"tensorlake-dl\[server\]"):
        ds.show(open=False)


@pytest.mark.slow
def test_the_server_ends_with_the_process_however_that_ends(tmp_path: Path) -> None:
    url = str(tmp_path / "notes")
    tl.create(url, {"x": "int64"}).close()
    program = (
        "import sys, tensorlake as tl\n"
        "from tensorlake.dataset.display import viewer as showing\n"
        "showing.check_viewer_is_built = lambda: None\n"
        f"print(tl.open({url!r}).show(open=False), flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        address = urlsplit(parent.stdout.readline())
        with socket.create_connection(("127.0.0.1", address.port or 0), PATIENCE_S) as connection:
            parent.send_signal(signal.SIGKILL)
            parent.wait(PATIENCE_S)

            connection.settimeout(PATIENCE_S)
            assert is_ended(connection)


@pytest.mark.slow
def test_a_frame_goes_by_the_notebooks_own_name() -> None:
    frame = showing.frame_of("http://127.0.0.1:8123/pets?at=main%401&q=x#token=t")

    assert "location.hostname === 'localhost'" in frame
    assert '":8123/pets?at=main%401&q=x#token=t"' in frame
    assert "at=main%401&amp;q=x" in frame
    assert "ssh -L 8123:127.0.0.1:8123 HOST" in frame
