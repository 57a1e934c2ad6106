"""Two replicas over one lake, one killed (kill -9) and started again under load.

Writers and readers of both go on as if nothing had happened: every commit that was asked for is
there once, and every batch is the one that a local loader makes. A replica is killed after so many
commits more, so that what it is doing is any of the things that it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import StorageError
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import reserved_port

ROOT = Path(__file__).parents[3]
WAIT_S = 600
ATTEMPTS = 200
ROWS = 64
T = TypeVar("T")


@dataclass(slots=True)
class Replica:
    """A server process at one address, however often it is started."""

    lake: Path
    port: int
    process: subprocess.Popen[str] | None = None
    is_up: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        root = self.lake.parent
        options = ["--port", str(self.port), "--write", "--auth", str(root / "tokens.json")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorlake_server", str(self.lake), *options],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server"))),
                "TENSORLAKE_SIGNING_KEY": "of both replicas",
            },
        )
        assert self.process.stdout is not None
        assert "Viewer at" in self.process.stdout.readline(), "the server did not start"
        self.is_up.set()

    def kill(self) -> None:
        assert self.process is not None
        self.is_up.clear()
        self.process.kill()
        self.process.wait(WAIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass(slots=True)
class Progress:
    """How many commits were acknowledged; others wait for some of them, or for a failure."""

    count: int = 0
    has_failed: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def note_end(self, writer: Future[None]) -> None:
        with self.changed:
            self.has_failed |= writer.exception() is not None
            self.changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self.changed:
            is_there = self.changed.wait_for(lambda: self.count >= count or self.has_failed, WAIT_S)
            assert is_there, "the load stands"


def write_by_sdk(replica: Replica, token: str, values: range, progress: Progress) -> None:
    """Commit one row at a time through one replica: its client waits for it to come back.

    It waits for seconds, to publish not at all: under its key a commit can be asked for again.
    """
    ds = tl.open(f"{replica.address}/pets", token=token)
    for value in values:
        ds.append({"x": value})
        again(replica, lambda value=value: ds.commit(f"row {value}", key=f"sdk-{value}"))
        progress.note()


def again(replica: Replica, work: Callable[[], T]) -> T:
    """Do what may be interrupted when a replica is killed, until it is done."""
    for _ in range(ATTEMPTS):
        try:
            return work()
        except StorageError as error:
            last = error
            assert replica.is_up.wait(WAIT_S), "it was not started again"
    raise last


def write_by_rest(replicas: list[Replica], token: str, values: range, progress: Progress) -> None:
    """Send transactions to one replica or the other, again and again until one has answered."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(headers=headers, timeout=WAIT_S) as client:
        for value in values:
            rows = {"op": "append", "columns": {"x": [value]}}
            asked = {"operations": [rows], "key": f"rest-{value}"}
            for attempt in range(ATTEMPTS):
                address = replicas[attempt % 2].address
                try:
                    url = f"{address}/v1/datasets/pets/transactions"
                    answer = client.post(url, json=asked)
                except httpx.TransportError:
                    continue  # killed, or not up again: the key makes it safe to ask the other
                assert answer.status_code in (200, 409, 503), answer.text
                if answer.status_code == 200:
                    break
            else:
                raise AssertionError(f"row {value} was never committed")
            progress.note()


def read_streams(replica: Replica, token: str, ends: threading.Event) -> list[list[int]]:
    """Stream the same version again and again, decoded by one replica; each epoch's values."""
    ds = tl.open(f"{replica.address}/pets", "main@1", token=token)

    def epoch() -> list[int]:
        loader = ds.loader(batch_size=4, decode_on="server")
        return [int(value) for batch in loader for value in batch["x"]]

    epochs: list[list[int]] = []
    while not ends.is_set() or not epochs:
        epochs.append(again(replica, epoch))
    return epochs


def run_under_kills(folder: Path, *, kills: int, commits: int) -> None:
    lake = folder / "lake"
    with tl.create(str(lake / "pets"), {"x": "int64"}) as ds:
        ds.extend({"x": np.arange(ROWS)})
        ds.commit("first")
    token, _ = create_token(
        folder / "tokens.json", name="ana", scopes=["write:pets"], expires=None,
        now=datetime.now(UTC),
    )  # fmt: skip
    progress, ends = Progress(), threading.Event()
    starts = [ROWS + 10_000 * number for number in range(4)]
    spans = [range(start, start + commits) for start in starts]

    with ExitStack() as stack, ThreadPoolExecutor(5) as threads:
        replicas = [Replica(lake, stack.enter_context(reserved_port())) for _ in range(2)]
        for replica in replicas:
            replica.start()
            stack.callback(replica.kill)
        writers: list[Future[None]] = [
            threads.submit(write_by_sdk, replicas[0], token, spans[0], progress),
            threads.submit(write_by_sdk, replicas[1], token, spans[1], progress),
            threads.submit(write_by_rest, replicas, token, spans[2], progress),
            threads.submit(write_by_rest, replicas[::-1], token, spans[3], progress),
        ]
        for writer in writers:
            writer.add_done_callback(progress.note_end)
        reader = threads.submit(read_streams, replicas[0], token, ends)
        try:
            for number in range(kills):
                if progress.has_failed:
                    break  # the writer says why
                progress.wait_for((number + 1) * 4 * commits // (kills + 2))
                replicas[number % 2].kill()
                replicas[number % 2].start()
            for writer in writers:
                writer.result(WAIT_S)
        finally:
            ends.set()
        epochs = reader.result(WAIT_S)

    there = tl.open(str(lake / "pets"))
    expected = [*range(ROWS), *(value for span in spans for value in span)]
    assert sorted(there["x"][:].tolist()) == expected
    assert there.check().ok
    assert all(epoch == list(range(ROWS)) for epoch in epochs)


@pytest.mark.soak
def test_many_kills_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    run_under_kills(tmp_path, kills=6, commits=30)
