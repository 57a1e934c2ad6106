"""The line that says how far a long call is: where somebody looks, after a second, and its end."""

import io
import sys

import pytest

import tensorlake as tl
from tensorlake.dataset.core.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(monkeypatch) -> Terminal:
    """Put a terminal in the place of stderr; in the test itself, for pytest puts back its own."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.core.progress.QUIET_S", -1)
    monkeypatch.setattr("tensorlake.dataset.core.progress.REFRESH_S", -1)


@pytest.mark.usefixtures("at_once")
def test_line_tells_share_rows_bytes_rate_skipped_and_time_left(monkeypatch):
    terminal = watched(monkeypatch)
    with Progress("ingest photos → pets.tl", total=2_600_000, rows=25) as bar:
        bar.advance(1_300_000, 12, skipped=2)

    first, *_ = terminal.getvalue().strip("\r").split("\r")
    what, cells, percent, rows, nbytes, rate, skipped, left = first.split("  ")
    assert what == "ingest photos → pets.tl"
    assert f"{cells}  {percent}" == f"{'━' * 11}{'─' * 11}  50%"
    assert (rows, nbytes, skipped) == ("12/25 rows", "1.3 MB/2.6 MB", "2 skipped")
    assert rate.endswith("/s")
    assert left.startswith("0:")


@pytest.mark.usefixtures("at_once")
def test_line_that_stays_is_the_result_and_covers_what_was_there(monkeypatch):
    terminal = watched(monkeypatch)
    with Progress("copy", total=10) as bar:
        bar.advance(10, 0)
        bar.finish("done")

    drawn = terminal.getvalue().strip("\r").split("\r")
    assert drawn[-1].startswith("done  ")
    assert len(drawn[-1].rstrip("\n")) == len(drawn[0])
    assert terminal.getvalue().endswith("\n")


@pytest.mark.usefixtures("at_once")
def test_ingestion_ends_with_its_report(monkeypatch, tmp_path):
    terminal = watched(monkeypatch)
    ds = tl.ingest.arrow(_table(), tmp_path / "t.tl")

    last = terminal.getvalue().rstrip("\n").split("\r")[-1].rstrip()
    assert last == str(ds.ingest_report)
    assert last.startswith("3 rows added; read 24 B in ")
    assert last.endswith(f" → {tmp_path / 't.tl'} main@1 (committed in 1 commit)")


@pytest.mark.usefixtures("at_once")
def test_nothing_is_drawn_where_nobody_looks(monkeypatch, tmp_path):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)

    tl.ingest.arrow(_table(), tmp_path / "t.tl")

    assert pipe.getvalue() == ""


def test_short_calls_draw_nothing(tmp_path, monkeypatch):
    terminal = watched(monkeypatch)
    monkeypatch.setattr("tensorlake.dataset.core.progress.QUIET_S", 3600)

    tl.ingest.arrow(_table(), tmp_path / "t.tl")

    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_notebook_is_watched_as_a_terminal_is(monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)

    with Progress("x", total=1) as bar:
        bar.advance(1, 1)

    assert "100%" in stream.getvalue()


def _table():
    import pyarrow as pa

    return pa.table({"x": [1, 2, 3]})
