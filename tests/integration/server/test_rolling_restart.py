"""Two replicas behind one address, restarted one after the other while clients read and write."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake_server.auth.tokens import create_token
from tests.integration.server.test_server_process import ENVIRONMENT, STOP_S, command
from tests.support.serving import reserved_port

ROUNDS = 2
CONNECT_S = 5


class Forwarder:
    """One address for several servers: a connection goes to the next one that takes it."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._turn = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._forward, args=[client], daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        self._turn += 1
        for number in range(len(self._ports)):
            port = self._ports[(self._turn + number) % len(self._ports)]
            try:
                server = socket.create_connection(("127.0.0.1", port), CONNECT_S)
            except OSError:
                continue
            server.settimeout(None)
            back = threading.Thread(target=_copy, args=[server, client], daemon=True)
            back.start()
            _copy(client, server)
            back.join()
            server.close()
            break
        client.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def replica(lake: Path, auth: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    server = subprocess.Popen(
        [*command(str(lake), "--auth", str(auth), "--write"), "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "TENSORLAKE_SIGNING_KEY": "k" * 16},
    )
    try:
        assert server.stdout is not None
        assert "http://" in server.stdout.readline(), "the server did not start"
        yield server
    finally:
        server.kill()
        server.wait(STOP_S)
        if server.stdout is not None:
            server.stdout.close()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="servers are stopped by SIGTERM")
def test_no_operation_of_a_client_fails_while_replicas_are_restarted_in_turn(
    tmp_path: Path,
) -> None:
    lake, auth = tmp_path / "lake", tmp_path / "tokens.json"
    with tl.create(str(lake / "pets"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": range(1000)})
        ds.commit("a thousand rows")
    now = datetime.now(UTC)
    token, _ = create_token(auth, name="load", scopes=["write"], expires=None, now=now)
    ended, failures = threading.Event(), list[str]()
    done = {"queries": 0, "reads": 0, "commits": 0}

    def load(what: str, work: Callable[[tl.Dataset], None]) -> None:
        try:
            with tl.open(f"{forwarder.address}/pets", token=token) as ds:
                while not ended.is_set():
                    work(ds)
                    done[what] += 1
        except Exception as error:  # noqa: BLE001 - any is a failed operation
            failures.append(f"{what}: {type(error).__name__}: {error}")

    def query(ds: tl.Dataset) -> None:
        assert len(ds.query("WHERE x >= 0 AND x < 10")) == 10

    def read(ds: tl.Dataset) -> None:
        ds.refresh()
        assert ds["x"][:1000].tolist() == list(range(1000))

    def commit(ds: tl.Dataset) -> None:
        ds.append({"x": -1})
        ds.commit("one more")

    with ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(2)]
        servers = [stack.enter_context(ExitStack()) for _ in ports]
        running = [
            held.enter_context(replica(lake, auth, port))
            for held, port in zip(servers, ports, strict=True)
        ]
        forwarder = Forwarder(ports)
        stack.callback(forwarder.close)
        works = {"queries": query, "reads": read, "commits": commit}
        threads = [threading.Thread(target=load, args=one) for one in works.items()]
        for thread in threads:
            thread.start()
        restarts = 0
        for _ in range(ROUNDS):
            for number, port in enumerate(ports):
                running[number].send_signal(signal.SIGTERM)
                running[number].wait(STOP_S)
                running[number] = servers[number].enter_context(replica(lake, auth, port))
                restarts += 1
        ended.set()
        for thread in threads:
            thread.join(STOP_S)

    assert failures == []
    assert restarts == 2 * ROUNDS
    assert min(done.values()) >= restarts, done
    with tl.open(str(lake / "pets")) as ds:
        assert len(ds.query("WHERE x = -1")) == done["commits"]  # each once
