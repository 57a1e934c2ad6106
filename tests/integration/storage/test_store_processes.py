"""Stores and several processes: races for one name, forks, kills in the middle of a write."""

import signal
import subprocess
import sys
import time

import pytest

from tensorlake.storage import LocalStore, open_store, run
from tensorlake.testing import latency_server, s3_server

WRITERS = 16
RACE = """
import sys
from tensorlake.storage import ObjectExistsError, open_store, run
url, writer, rounds, *options = sys.argv[1:]
store = open_store(url, storage_options=dict(option.split("=", 1) for option in options))
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(int(rounds)):
    try:
        run(store.put_if_absent(f"branches/main/{number}", writer.encode()))
        won.append(str(number))
    except ObjectExistsError:
        pass
print(",".join(won), flush=True)
"""


def race(url: str, *, writers: int, rounds: int, options: dict[str, str] | None = None) -> None:
    """Let processes write the same names at once; each name must have one winner, its author."""
    store = open_store(url, storage_options=options)
    pairs = [f"{name}={value}" for name, value in (options or {}).items()]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, url, str(writer), str(rounds), *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    try:
        assert {child.stdout.readline() for child in children} == {"ready\n"}
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        claimed = {}
        for writer, child in enumerate(children):
            out, _ = child.communicate(timeout=120)
            assert child.returncode == 0
            for number in filter(None, out.strip().split(",")):
                assert number not in claimed, f"two winners of {number}"
                claimed[number] = str(writer).encode()
    finally:
        for child in children:
            child.kill()
            child.communicate()
    found = {f"{n}": run(store.get(f"branches/main/{n}")) for n in range(rounds)}
    assert claimed == found


@pytest.mark.slow
def test_one_of_sixteen_processes_wins_each_name_in_a_folder(tmp_path):
    race(str(tmp_path / "lake"), writers=WRITERS, rounds=50)


@pytest.mark.slow
def test_one_of_four_processes_wins_each_name_in_s3():
    with s3_server() as s3:
        race(s3.fresh_url(), writers=4, rounds=15, options=s3.storage_options)


@pytest.mark.slow
def test_killed_writer_leaves_whole_objects_only(tmp_path):
    script = f"""
from tensorlake.storage import LocalStore, run
store = LocalStore({str(tmp_path)!r}, durability="none")
number = 0
while True:
    run(store.put_if_absent(f"packs/{{number}}", [b"%08d" % number] * 40_000))
    print(number, flush=True)
    number += 1
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    acknowledged = [child.stdout.readline() for _ in range(20)]

    child.send_signal(signal.SIGKILL)
    acknowledged += child.communicate(timeout=60)[0].splitlines(keepends=True)

    store = LocalStore(tmp_path)
    last = int([line for line in acknowledged if line.endswith("\n")][-1])
    found = {meta.path for meta in run(collect(store))}
    assert {f"packs/{number}" for number in range(last + 1)} <= found
    for path in found:
        number = int(path.removeprefix("packs/"))
        assert run(store.get(path)) == b"%08d" % number * 40_000


async def collect(store):
    return [meta async for meta in store.list("")]


@pytest.mark.slow
@pytest.mark.parametrize("is_used_before", [True, False])
def test_fork_either_works_or_says_why_not(tmp_path, is_used_before):
    script = f"""
import os, signal, sys
from tensorlake.errors import InvalidStateError
from tensorlake.storage import open_store, run
store = open_store("s3://bucket/lake", storage_options={{
    "key": "k", "secret": "s", "endpoint_url": sys.argv[1]}})
if {is_used_before}:
    assert run(store.get("a")) == b"1"
child = os.fork()
if child == 0:
    signal.alarm(100)
    try:
        os._exit(10 if run(store.clone().get("a")) == b"1" else 1)
    except InvalidStateError as error:
        os._exit(11 if "forkserver" in str(error) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    (tmp_path / "bucket" / "lake").mkdir(parents=True)
    (tmp_path / "bucket" / "lake" / "a").write_bytes(b"1")

    with latency_server(tmp_path) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, server.endpoint], check=False, timeout=120
        )

    assert done.returncode == (11 if is_used_before else 10)


@pytest.mark.slow
def test_process_may_end_right_after_its_last_request(tmp_path):
    script = """
import sys
from tensorlake.storage import open_store, run
options = {"key": "k", "secret": "s", "endpoint_url": sys.argv[1]}
for number in range(10):
    run(open_store("s3://bucket/lake", storage_options=options).get(str(number)))
"""
    with latency_server(tmp_path) as server:
        children = [
            subprocess.Popen([sys.executable, "-c", script, server.endpoint]) for _ in range(12)
        ]

        outcomes = [child.wait(timeout=120) for child in children]

    assert outcomes == [0] * 12


def test_request_under_way_does_not_keep_the_process_from_ending(tmp_path):
    script = """
import asyncio, sys
from tensorlake.storage import open_store, run
options = {"key": "k", "secret": "s", "endpoint_url": sys.argv[1]}
store = open_store("s3://bucket/lake", storage_options=options)
background = set()
async def start():
    for number in range(20):
        background.add(asyncio.ensure_future(store.get(str(number))))
    await asyncio.sleep(0.05)
run(start())
"""
    with latency_server(tmp_path, latency_ms=600_000) as server:
        child = subprocess.Popen([sys.executable, "-c", script, server.endpoint])

        assert child.wait(timeout=120) == 0


def test_server_ends_with_its_parent():
    script = """
from tensorlake.testing.child_server import child_server
with child_server("tensorlake.testing.latency_server", ["/tmp", "{}", "0"]) as endpoint:
    print(endpoint, flush=True)
    os._exit(0)  # as if killed: no clean-up runs
"""

    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120
    )

    assert is_free(int(done.stdout.rpartition(":")[2]))


def is_free(port: int) -> bool:
    """Whether nothing listens on a port, or stops doing so soon."""
    import socket

    for _ in range(6000):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)):
                return True
        time.sleep(0.01)
    return False
