"""Appends of many clients that share commits, through a server that is killed: what it acknowledged
is there, what it did not can be sent again, and nothing is there twice."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tensorlake_server.auth.tokens import create_token
from tests.integration.server.test_rolling_restart import replica
from tests.support.serving import reserved_port

CLIENTS = 16
KILLS = 3
EACH = 12  # appends of a client, between two kills
WAIT_S = 60


@pytest.mark.slow
def test_what_is_acknowledged_outlives_a_kill_and_nothing_is_there_twice(tmp_path: Path) -> None:
    rng = random.Random(28)
    lake, auth = tmp_path / "lake", tmp_path / "tokens.json"
    tl.create(str(lake / "pets"), {"x": "int64"}).close()
    now = datetime.now(UTC)
    token, _ = create_token(auth, name="load", scopes=["write"], expires=None, now=now)
    headers = {"Authorization": f"Bearer {token}"}
    sent, known = set[int](), set[int]()

    def append(client: httpx.Client, value: int) -> bool:
        """Send an append under its key; whether it was acknowledged."""
        operations = [{"op": "append", "columns": {"x": [value]}}]
        body = {"operations": operations, "key": f"append-{value}"}
        try:
            answer = client.post("/v1/datasets/pets/transactions", json=body)
        except httpx.TransportError:
            return False
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    with reserved_port() as port:
        address = f"http://127.0.0.1:{port}"
        for turn in range(KILLS):
            acknowledged = threading.Semaphore(0)

            def write(number: int, turn: int = turn, told: threading.Semaphore = acknowledged):
                first = (turn * CLIENTS + number) * EACH
                with httpx.Client(base_url=address, headers=headers, timeout=WAIT_S) as client:
                    for value in range(first, first + EACH):
                        sent.add(value)
                        if not append(client, value):
                            return
                        known.add(value)
                        told.release()

            with ExitStack() as stack, ThreadPoolExecutor(CLIENTS) as threads:
                server = stack.enter_context(replica(lake, auth, port))
                running = [threads.submit(write, number) for number in range(CLIENTS)]
                for _ in range(rng.randrange(CLIENTS, CLIENTS * EACH // 2)):
                    assert acknowledged.acquire(timeout=WAIT_S), "nothing is acknowledged"
                server.kill()
                for one in running:
                    one.result(WAIT_S)

            with tl.open(str(lake / "pets")) as ds:
                stored = ds["x"][:].tolist()
            assert known <= set(stored) <= sent
            assert len(stored) == len(set(stored))
            assert sent - known, "it was killed while appends were under way"

        with replica(lake, auth, port), httpx.Client(base_url=address, headers=headers) as client:
            assert all(append(client, value) for value in sorted(sent - known))

    with tl.open(str(lake / "pets")) as ds:
        assert sorted(ds["x"][:].tolist()) == sorted(sent)
        assert len(ds.log()) < len(sent), "appends share commits"
