"""Work that goes on after a call: it fails no caller, is bounded, and ends with its process."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from tensorlake.errors import StorageError
from tensorlake.storage import runtime
from tensorlake.versions import Background
from tensorlake.versions.maintenance.background import AT_ONCE

TIMEOUT_S = 60.0


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What work of a test waits for; it goes on when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_an_error_is_logged_and_not_raised(caplog):
    caplog.set_level(logging.INFO, logger="tensorlake.versions")

    def work() -> None:
        raise StorageError("the store is away\ntry again")

    begun = Background.begin(work, url="memory://x", what="merging")

    assert begun is not None
    assert begun.join() is None
    assert caplog.messages == ["merging was dropped; nothing is lost: the store is away"]


def test_a_defect_is_reported_by_its_thread(monkeypatch):
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: reported.append(found.exc_type))

    def work() -> None:
        raise ZeroDivisionError

    begun = Background.begin(work, url="memory://x", what="merging")

    assert begun is not None
    assert begun.join() is None
    assert reported == [ZeroDivisionError]


def test_no_more_than_a_few_run_at_once(held):
    running = [
        Background.begin(lambda: held.wait(TIMEOUT_S) and None, url="memory://x", what="x")
        for _ in range(9)
    ]

    begun = [one for one in running if one is not None]
    assert len(begun) == AT_ONCE
    held.set()
    for one in begun:
        one.join()
    last = Background.begin(lambda: None, url="memory://x", what="x")
    assert last is not None
    last.join()


def test_a_forked_child_does_not_wait_for_it(held):
    begun = Background.begin(lambda: held.wait(TIMEOUT_S) and None, url="memory://x", what="x")
    assert begun is not None

    pid = os.fork()
    if pid == 0:
        is_free = (
            begun.join() is None
            and Background.begin(lambda: None, url="memory://x", what="x") is not None
        )
        os._exit(0 if is_free else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_takes_too_long_at_exit_is_cancelled(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="tensorlake.versions")
    monkeypatch.setattr("tensorlake.versions.maintenance.background.EXIT_TIMEOUT_S", 0.01)
    begun_to_wait = threading.Event()

    async def never() -> None:
        begun_to_wait.set()
        await runtime.asyncio.Event().wait()

    begun = Background.begin(lambda: runtime.run(never()), url="memory://x", what="merging")
    assert begun is not None
    assert begun_to_wait.wait(TIMEOUT_S)

    begun.end()

    assert begun.join() is None
    assert caplog.messages == ["merging was dropped; nothing is lost: it was cancelled"]
