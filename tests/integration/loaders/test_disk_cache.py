"""Processes that share a cache folder: fetched once, killed at any moment, right for ever."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.testing import LatencyServer, latency_server

ROOT = Path(__file__).parents[3]
ROWS = 3_000

EPOCH = """
    import json, sys
    import numpy as np
    import tensorlake as tl
    url, options, folder, arguments = json.loads(sys.argv[1])
    with tl.open(url, read_only=True, storage_options=options) as ds:
        with ds.loader(batch_size=32, seed=3, cache_dir=folder, **arguments) as loader:
            total, rows = 0, 0
            for batch in loader:
                total += int(np.sum(batch["x"]))
                rows += len(batch["x"])
                print(rows, file=sys.stderr, flush=True)
            stats = loader.stats()
    print(json.dumps([rows, total, stats.disk_hits, stats.disk_misses, stats.disk_cache_nbytes]))
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    rng = np.random.default_rng(0)
    schema = {"x": tl.Array("int64", (64,)), "image": tl.Image("jpeg"), "n": "int64"}
    ds = tl.create(str(folder / "d"), schema)
    images = rng.integers(0, 255, (8, 24, 24, 3), np.uint8)
    for start in range(0, ROWS, 1_000):
        x = rng.integers(0, 1 << 40, (1_000, 64))
        pictures = [images[at % 8] for at in range(1_000)]
        ds.extend({"x": x, "image": pictures, "n": np.arange(start, start + 1_000)})
        ds.commit("rows")
    return folder


@pytest.fixture
def server(lake: Path) -> Generator[LatencyServer]:
    with latency_server(lake, latency_ms=2) as serving:
        yield serving


def command(server: LatencyServer, folder: Path, **arguments: Any) -> list[str]:
    given = server.s3_url("d"), server.storage_options, str(folder), arguments
    return [sys.executable, "-c", textwrap.dedent(EPOCH), json.dumps(given)]


def start(server: LatencyServer, folder: Path, **arguments: Any) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    limit = arguments.pop("file_nbytes", None)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        command(server, folder, **arguments),
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited if limit else None,  # noqa: PLW1509 - no thread of ours is in the child
    )


def finish(process: subprocess.Popen[str]) -> tuple[list[int], str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out), err


def data_nbytes(server: LatencyServer) -> int:
    return server.counters().bytes_sent


@pytest.fixture(scope="module")
def expected(lake: Path) -> int:
    with tl.open(str(lake / "d")) as ds:
        return int(ds["x"][:].sum())


def test_a_second_process_fetches_no_data(
    server: LatencyServer, tmp_path: Path, expected: int
) -> None:
    first, _ = finish(start(server, tmp_path, columns=["x"], shuffle=True))
    server.reset()

    second, _ = finish(start(server, tmp_path, columns=["x"], shuffle="window"))

    assert first[:2] == second[:2] == [ROWS, expected]
    assert second[2] > 0
    assert second[3] == 0
    assert data_nbytes(server) < 200_000  # the entry and the index; the data are 1.5 MB


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_a_right_folder(
    server: LatencyServer, tmp_path: Path, expected: int
) -> None:
    for rows in (0, 1_600):
        process = start(server, tmp_path, columns=["x"], shuffle=True)
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip().isdigit() and int(line) >= rows:
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()

    found, _ = finish(start(server, tmp_path, columns=["x"], shuffle=True))
    again, _ = finish(start(server, tmp_path, columns=["x"], shuffle=True))

    assert found[:2] == again[:2] == [ROWS, expected]
    assert again[3] == 0


@pytest.mark.slow
def test_processes_of_a_machine_fetch_each_byte_once(
    server: LatencyServer, lake: Path, tmp_path: Path, expected: int
) -> None:
    running = [start(server, tmp_path, columns=["x"], shuffle=False) for _ in range(3)]
    found = [finish(one)[0] for one in running]

    stored = sum(
        path.stat().st_size for path in (lake / "d" / "packs").rglob("*") if path.is_file()
    )
    assert [one[:2] for one in found] == [[ROWS, expected]] * 3
    assert data_nbytes(server) < 1.3 * stored + 300_000


@pytest.mark.slow
def test_a_full_disk_stops_the_filling_and_not_the_epoch(
    server: LatencyServer, tmp_path: Path, expected: int
) -> None:
    found, err = finish(start(server, tmp_path, columns=["x"], shuffle=True, file_nbytes=200_000))

    assert found[:2] == [ROWS, expected]
    assert err.count("must not have files") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"columns": ["x", "image"], "shuffle": "full", "cache": "1MB", "prefetch": "1MB"},
        {"columns": ["x"], "shuffle": "window", "cache": 0},
        {"columns": ["image", "x"], "cache": {"memory": 0, "disk": "1GB"}},
        {"windows": {"size": 16, "stride": 2, "columns": ["x"]}},
        {"mix": True, "columns": ["x"], "cache": 0},
    ],
    ids=["rows", "blocks", "chunks", "windows of rows", "a mix"],
)
def test_whatever_is_read_comes_from_the_folder_the_second_time(
    server: LatencyServer, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    def epoch() -> tuple[int, tl.LoaderStats]:
        given = dict(arguments)
        with tl.open(
            server.s3_url("d"), read_only=True, storage_options=server.storage_options
        ) as ds:
            of: Any = ds.windows(**given.pop("windows")) if "windows" in given else ds
            of = tl.mix({"a": (ds, 0.5), "b": (ds, 0.5)}) if given.pop("mix", False) else of
            with of.loader(batch_size=32, seed=3, cache_dir=tmp_path, **given) as loader:
                total = sum(int(np.sum(batch["x"])) for batch in loader)
                return total, loader.stats()

    first, filled = epoch()
    server.reset()

    second, stats = epoch()

    assert first == second
    assert filled.disk_misses > 0
    assert (stats.disk_misses, stats.disk_hits > 0) == (0, True)
    assert stats.disk_nbytes > 0
    assert data_nbytes(server) < 300_000


def test_a_local_dataset_needs_no_folder(lake: Path, tmp_path: Path) -> None:
    with tl.open(str(lake / "d")) as ds, ds.loader(batch_size=500, cache_dir=tmp_path) as loader:
        assert sum(len(batch["x"]) for batch in loader) == ROWS

    assert [*tmp_path.iterdir()] == []
