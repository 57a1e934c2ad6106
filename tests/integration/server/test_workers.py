"""``--workers N``: several processes behind one socket, started again when one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tests.integration.server.test_server_process import STOP_S, command, make_dataset, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="workers are forked"),
]


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(one) for one in found.stdout.split()]


def wait_until_gone(pids: list[int]) -> None:
    ends = time.monotonic() + STOP_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < ends, "workers outlive their server"
        time.sleep(0.05)


def test_workers_share_the_link_the_views_and_the_selected_rows(tmp_path: Path) -> None:
    with make_dataset(str(tmp_path / "pets")) as ds:
        ds[:5].save("five")

    with serving(str(tmp_path), "--workers", "2") as (client, server):
        assert len(children_of(server.pid)) == 2
        asked = {"rows": "AwI=", "limit": 0}  # rows 3 and 4

        def one(_: int) -> tuple[int, int, str]:
            with httpx.Client(base_url=client.base_url, cookies=client.cookies) as own:
                view = own.post("/v1/datasets/pets/query", json=asked).json()["view"]
                rows = client.get("/v1/datasets/pets/rows", params={"view": view}).json()["total"]
                five = own.get("/v1/datasets/pets%23five")
                assert five.status_code == 200, five.text
            return rows, five.json()["rows"], five.json()["digest"]

        with ThreadPoolExecutor(4) as threads:
            found = set(threads.map(one, range(16)))

    assert len(found) == 1
    assert next(iter(found))[:2] == (2, 5)


def test_a_worker_that_is_killed_is_replaced_and_writes_go_on(tmp_path: Path) -> None:
    tl.create(str(tmp_path / "pets"), {"x": "int64"}).close()
    append = {"operations": [{"op": "append", "columns": {"x": [1]}}]}
    path = "/v1/datasets/pets/transactions"

    with serving(str(tmp_path), "--workers", "2", "--write") as (client, server):
        first = children_of(server.pid)
        os.kill(first[0], signal.SIGKILL)
        sent = 0
        for number in range(40):
            try:
                sent += client.post(path, json={**append, "key": str(number)}).status_code == 200
            except httpx.TransportError:  # the killed worker had this connection: as clients do
                sent += client.post(path, json={**append, "key": str(number)}).status_code == 200
        assert sent == 40
        ends = time.monotonic() + STOP_S
        while len(children_of(server.pid)) < 2:
            assert time.monotonic() < ends, "no worker was started again"

    assert len(tl.open(str(tmp_path / "pets"))) == 40


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path: Path, sent: signal.Signals) -> None:
    make_dataset(str(tmp_path / "pets")).close()

    with serving(str(tmp_path), "--workers", "2") as (_, server):
        workers = children_of(server.pid)
        server.send_signal(sent)
        code = server.wait(STOP_S)
        wait_until_gone(workers)

    assert code == {signal.SIGTERM: 0, signal.SIGINT: 130, signal.SIGKILL: -9}[sent]


def test_workers_that_cannot_start_end_the_server(tmp_path: Path) -> None:
    run = subprocess.run(
        command(str(tmp_path / "nothing"), "--workers", "2", "--port", "0"),
        capture_output=True,
        text=True,
        timeout=STOP_S,
        check=False,
    )

    assert run.returncode == 2
    assert run.stderr.count("there is no folder") == 1
