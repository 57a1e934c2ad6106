"""What the tests of flows share."""

from __future__ import annotations

import threading

import pytest

from tensorlake import flows


@pytest.fixture
def database(tmp_path):
    """A database, and a service that runs flows until the test has ended."""
    place = flows.connect(tmp_path / "flows.sqlite")
    ended = threading.Event()
    service = threading.Thread(target=flows.run, kwargs={"until": ended.is_set})
    service.start()
    yield place
    ended.set()
    service.join()
