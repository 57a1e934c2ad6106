"""The server over loopback: object bytes, rows, thumbnails, streams, queries, and the loader.

The server is a process of its own, as users start it; the load comes from this one: `http.client`
over kept connections, one a thread, the same for every contender (no load tool is required to be
installed). aiohttp serves the same bytes by `web.Response`, without sendfile; nginx, where it is
installed, by sendfile.
"""

from __future__ import annotations

import getpass
import http.client
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)
from benchmarks.limits.http import bare_http_epoch, pack_ranges
from benchmarks.loading import count_images, image_dataset, image_loader

__all__ = ["BENCHMARKS"]

CONNECTIONS = 4
RATE_PER_S = 200
ROW_WIDTH = 256
RANGE_NBYTES = 4 << 20  # about what the loader asks for at once
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
AIOHTTP = """
import sys
from aiohttp import web
data = open(sys.argv[1], "rb").read()
async def serve(request):
    return web.Response(body=data)
app = web.Application()
app.router.add_get("/object", serve)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None)
"""

AIOHTTP_LAKE = """
import sys
from pathlib import Path
from aiohttp import web
lake = Path(sys.argv[1])
async def serve(request):
    path = lake / request.match_info["name"] / request.match_info["path"]
    return web.FileResponse(path) if path.is_file() else web.Response(status=404)
app = web.Application()
app.router.add_get("/v1/datasets/{name}/objects/{path:.*}", serve)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None)
"""  # the least that a server of objects does: no tokens, no limits, files by sendfile

NGINX = """
user {user};
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr crit;
events {{}}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{ listen 127.0.0.1:8397; location = /object {{ alias {object}; }} }}
}}
"""


def lake(workspace: Workspace) -> Path:
    """Make the lake that is served: labels to query, small rows, images."""
    import tensorlake as tl

    folder = workspace.folder / "served"
    labels = 100_000 if workspace.is_quick else 10_000_000
    rows = 20_000 if workspace.is_quick else 100_000
    rng = np.random.default_rng(0)
    if not (folder / "rows/tensorlake.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        ds = tl.create(str(folder / "labels"), {"label": tl.ClassLabel(["a", "b", "c", "d"])})
        ds.extend({"label": rng.integers(0, 4, labels)})
        ds.commit("labels")
        ds = tl.create(str(folder / "rows"), {"x": tl.Array("float32", (ROW_WIDTH,))})
        ds.extend({"x": rng.random((rows, ROW_WIDTH), dtype=np.float32)})
        ds.commit("rows")
    return folder


@contextmanager
def served(url: Path) -> Generator[tuple[str, int]]:
    """Serve a lake; yields ``host:port`` and the server's process id."""
    command = [sys.executable, "-m", "tensorlake_server", str(url), "--port", "0", "--public-read"]
    environment = os.environ | {"TENSORLAKE_SERVE_MAX_REQUESTS_PER_S": "1e9"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None, "the server did not start"
            yield urlsplit(found[0]).netloc, server.pid
        finally:
            server.kill()


def fetched(netloc: str, path: str, headers: dict[str, str], times: int) -> int:
    """Ask for a path over kept connections, one a thread; return the bytes of all answers."""

    def one(count: int) -> int:
        connection = http.client.HTTPConnection(netloc)
        total = 0
        for _ in range(count):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            total += len(answer.read())
            assert answer.status == 200, answer.status
        connection.close()
        return total

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return sum(threads.map(one, [times // CONNECTIONS] * CONNECTIONS))


def rate_of(netloc: str, path: str, headers: dict[str, str], times: int) -> Measurement:
    """Measure megabytes a second."""
    fetched(netloc, path, headers, CONNECTIONS)
    with stopwatch() as watch:
        nbytes = fetched(netloc, path, headers, times)
    return Measurement(watch.seconds, nbytes / 1e6, watch.cpu_seconds)


def pack(folder: Path) -> Path:
    """Return the largest pack of the small rows."""
    return max((folder / "rows/packs").rglob("*.tlp"), key=lambda path: path.stat().st_size)


def objects_by_tensorlake(workspace: Workspace) -> Measurement:
    folder = lake(workspace)
    path = pack(folder).relative_to(folder / "rows")
    with served(folder) as (netloc, _):
        return rate_of(netloc, f"/v1/datasets/rows/objects/{path}", {}, 24)


def objects_by_aiohttp(workspace: Workspace) -> Measurement:
    with by_aiohttp(AIOHTTP, pack(lake(workspace))) as netloc:
        return rate_of(netloc, "/object", {}, 24)


def objects_by_nginx(workspace: Workspace) -> Measurement:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        return Measurement(0, 0, note="is not installed")
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(
            NGINX.format(user=getpass.getuser(), folder=folder, object=pack(lake(workspace))),
            encoding="utf-8",
        )
        with answering([program, "-p", folder, "-c", str(configuration)], "127.0.0.1:8397"):
            return rate_of("127.0.0.1:8397", "/object", {}, 24)


@contextmanager
def by_aiohttp(program: str, path: Path) -> Generator[str]:
    """Run a server of aiohttp's over a path; yields ``host:port``."""
    with answering([sys.executable, "-c", program, str(path), "8399"], "127.0.0.1:8399"):
        yield "127.0.0.1:8399"


@contextmanager
def answering(command: list[str], netloc: str) -> Generator[None]:
    """Run a server from when it answers."""
    with subprocess.Popen(command) as server:
        try:
            await_port(netloc)
            yield
        finally:
            server.terminate()  # not killed: nginx would leave its worker


def await_port(netloc: str) -> None:
    """Wait until something answers."""
    for _ in range(200):
        try:
            http.client.HTTPConnection(netloc).connect()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nothing answers at {netloc}")


def rows_as_arrow(workspace: Workspace) -> Measurement:
    with served(lake(workspace)) as (netloc, _):
        return rate_of(netloc, "/v1/datasets/rows/rows?limit=1000", ARROW, 100)


def p99_of(workspace: Workspace, path: str) -> Measurement:
    """Measure the slowest of a hundred answers, at a fixed rate; the figure is its inverse."""
    count = 200 if workspace.is_quick else 2000
    with served(image_dataset(workspace).parent) as (netloc, _):
        connection = http.client.HTTPConnection(netloc)
        took: list[float] = []
        begins = time.perf_counter()
        for number in range(-20, count):
            time.sleep(max(0.0, begins + number / RATE_PER_S - time.perf_counter()))
            started = time.perf_counter()
            connection.request("GET", path)
            connection.getresponse().read()
            if number >= 0:
                took.append(time.perf_counter() - started)
        connection.close()
    p99 = float(np.quantile(took, 0.99))
    return Measurement(p99, 1.0, facts={"p99 ms": p99 * 1000})


def thumbnails(workspace: Workspace) -> Measurement:
    name = image_dataset(workspace).name
    return p99_of(workspace, f"/v1/datasets/{name}/tensors/image/3?size=128&version=main@1")


def health(workspace: Workspace) -> Measurement:
    return p99_of(workspace, "/healthz")


def first_page(workspace: Workspace) -> Measurement:
    """Measure a label query's first page, warm."""
    body = '{"tql": "WHERE label = \'b\'", "limit": 64}'
    with served(lake(workspace)) as (netloc, _):
        connection = http.client.HTTPConnection(netloc)
        best = float("inf")
        for _ in range(5):
            started = time.perf_counter()
            connection.request(
                "POST", "/v1/datasets/labels/query", body, {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            best = min(best, time.perf_counter() - started)
        connection.close()
    return Measurement(best, 1.0, facts={"ms": best * 1000})


def idle_streams(workspace: Workspace) -> Measurement:
    """Measure what 500 streams of events that say nothing hold."""
    import psutil

    with served(lake(workspace)) as (netloc, pid), stopwatch() as watch:
        process = psutil.Process(pid)
        fetched(netloc, "/v1/datasets/rows", {}, CONNECTIONS)
        before = process.memory_info().rss
        streams: list[http.client.HTTPConnection] = []
        for _ in range(500):
            stream = http.client.HTTPConnection(netloc)
            stream.request("GET", "/v1/datasets/rows/events")
            assert stream.getresponse().readline(), "the stream began"
            streams.append(stream)
        held = (process.memory_info().rss - before) / 1e6
        for stream in streams:
            stream.close()
    return Measurement(watch.seconds, 500, facts={"MB": held})


def epoch_of(open_it: Callable[[], object]) -> Measurement:
    loader = image_loader(open_it())
    with stopwatch() as watch:
        rows = sum(count_images(batch) for batch in loader)
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def loader_on_files(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    return epoch_of(lambda: tl.open(str(image_dataset(workspace)), read_only=True))


def loader_over_http(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    importlib.import_module("aiohttp")  # what a contender imports is in no figure

    warm_up()
    folder = image_dataset(workspace)
    with served(folder.parent) as (netloc, _):
        return epoch_of(lambda: tl.open(f"http://{netloc}/{folder.name}", read_only=True))


def loader_over_aiohttp(workspace: Workspace) -> Measurement:
    """Measure the same loader against a server that only hands out files."""
    import tensorlake as tl

    importlib.import_module("aiohttp")  # what a contender imports is in no figure
    warm_up()
    folder = image_dataset(workspace)
    with by_aiohttp(AIOHTTP_LAKE, folder.parent) as netloc:
        return epoch_of(lambda: tl.open(f"http://{netloc}/{folder.name}", read_only=True))


def bytes_over_http(workspace: Workspace) -> Measurement:
    """Measure the loader's client alone: the bytes of an epoch, drained and dropped."""
    from tensorlake.storage import LakeStore, gather_bounded, run

    folder = image_dataset(workspace)
    ranges = pack_ranges(folder, RANGE_NBYTES)
    with served(folder.parent) as (netloc, _):
        store = LakeStore(f"http://{netloc}/{folder.name}")
        run(store.get("tensorlake.json"))
        reads = [partial(store.get_range, one.path, one.start, one.stop) for one in ranges]
        with stopwatch() as watch:
            run(gather_bounded(reads, limit=CONNECTIONS))
    return Measurement(watch.seconds, workspace.num_images, watch.cpu_seconds)


def bare_loop_over_http(workspace: Workspace) -> Measurement:
    """Measure what the machine allows: the same bytes received and decoded, and nothing else."""
    warm_up()
    folder = image_dataset(workspace)
    ranges = pack_ranges(folder, RANGE_NBYTES)
    with served(folder.parent) as (netloc, _):
        return bare_http_epoch(workspace, netloc, folder.name, ranges, in_flight=CONNECTIONS)


def prepare(workspace: Workspace) -> None:
    """Make the data before anything is measured."""
    lake(workspace)
    image_dataset(workspace)


BENCHMARKS: tuple[Benchmark, ...] = (
    Benchmark(
        "server-objects",
        "An object's bytes, 4 connections",
        "MB",
        (
            Contender("tensorlake", objects_by_tensorlake),
            Contender("aiohttp", objects_by_aiohttp),
            Contender("nginx", objects_by_nginx),
        ),
        goals=(Goal("tensorlake", "aiohttp", 0.8),),
        prepare=prepare,
    ),
    Benchmark(
        "server-rows",
        "Rows of small samples as Arrow, 4 connections",
        "MB",
        (Contender("tensorlake", rows_as_arrow),),
        limits=(Limit("tensorlake", "", at_least=200),),
        prepare=prepare,
    ),
    Benchmark(
        "server-thumbnails",
        "p99 at 200 requests per second: a cached thumbnail, and /healthz",
        "answers",
        (Contender("thumbnail", thumbnails), Contender("healthz", health)),
        goals=(Goal("thumbnail", "healthz", 1 / 3),),
        prepare=prepare,
    ),
    Benchmark(
        "server-query",
        "First page of a label query over 10⁷ rows, warm",
        "pages",
        (Contender("tensorlake", first_page),),
        limits=(Limit("tensorlake", "ms", at_most=50),),
        prepare=prepare,
    ),
    Benchmark(
        "server-streams",
        "500 idle event streams",
        "streams",
        (Contender("tensorlake", idle_streams),),
        limits=(Limit("tensorlake", "MB", at_most=300),),
        prepare=prepare,
    ),
    Benchmark(
        "server-loader",
        "an epoch of JPEG images through a server, and from local files",
        "images",
        (
            Contender("http", loader_over_http),
            Contender("files", loader_on_files),
            Contender("http, from aiohttp", loader_over_aiohttp),
            Contender("the same bytes by http.client, decoded by two threads", bare_loop_over_http),
            Contender("bytes over http, not decoded", bytes_over_http),
        ),
        goals=(Goal("http", "files", 0.8),),
        prepare=prepare,
    ),
)
