"""The server as users start it: a process, over a folder and over S3."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.testing import s3_server
from tensorlake_server import Settings, create_app
from tensorlake_server.__main__ import DrainingServer
from tensorlake_server.request.slow_clients import configure

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server"))),
}
STOP_S = 150  # to start too, which takes a second of a whole processor


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tensorlake_server", *arguments]


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A server, and a client that came through its printed link."""
    server = subprocess.Popen(
        command(*arguments, "--port", "0"), stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None, "the server did not start"
        link = urlsplit(found[0])
        with httpx.Client(base_url=f"http://{link.netloc}", timeout=STOP_S) as client:
            token = link.fragment.removeprefix("token=")
            assert client.post("/v1/session", json={"token": token}).status_code == 204
            yield client, server
    finally:
        server.kill()
        server.wait(STOP_S)
        if server.stdout is not None:
            server.stdout.close()


def make_dataset(url: str, **options: object) -> tl.Dataset:
    dataset = tl.create(
        url, {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])}, **options
    )
    picture = simplejpeg.encode_jpeg(np.full((90, 120, 3), 128, dtype=np.uint8))
    dataset.extend({"image": [picture] * 20, "label": [i % 2 for i in range(20)]})
    dataset.commit("twenty pets")
    return dataset


@pytest.mark.slow
def test_one_dataset_is_served_by_its_own_name(tmp_path: Path) -> None:
    make_dataset(str(tmp_path / "pets.tl"))

    with serving(str(tmp_path / "pets.tl")) as (client, _):
        assert client.get("/v1/datasets").json() == {"datasets": [{"name": "pets.tl"}]}
        assert client.get("/v1/datasets/pets.tl").json()["rows"] == 20
        assert client.get("/v1/datasets/other").status_code == 404


@pytest.mark.slow
def test_a_lake_on_s3_is_served(tmp_path: Path) -> None:
    del tmp_path
    with s3_server() as s3:
        lake = s3.fresh_url()
        make_dataset(f"{lake}/pets", storage_options=s3.storage_options)
        options = [f"--storage-option={k}={v}" for k, v in s3.storage_options.items()]

        with serving(lake, *options) as (client, _):
            query = {"tql": "WHERE label = 'dog'", "limit": 1}
            result = client.post("/v1/datasets/pets/query", json=query).json()
            thumbnails = client.post(
                "/v1/datasets/pets/thumbnails", json={"tensor": "image", "rows": [0, 19]}
            )

    assert result["rows"] == 10
    assert len(thumbnails.content) > 40


@pytest.mark.slow
def test_new_commits_are_seen_and_old_pages_stay(tmp_path: Path) -> None:
    dataset = make_dataset(str(tmp_path / "pets"))

    with serving(str(tmp_path)) as (client, _):
        before = client.get("/v1/datasets/pets/rows", params={"version": "main@1"}).json()
        dataset.delete([0, 1, 2])
        dataset.commit("three fewer")

        assert client.get("/v1/datasets/pets").json()["version"] == "main@2"
        assert client.get("/v1/datasets/pets/rows").json()["total"] == 17
        again = client.get("/v1/datasets/pets/rows", params={"version": "main@1"}).json()
        assert again == before


@pytest.mark.slow
def test_a_dataset_made_anew_is_never_taken_for_the_old_one(tmp_path: Path) -> None:
    url = str(tmp_path / "pets")
    make_dataset(url)

    with serving(str(tmp_path)) as (client, _):
        old = client.get("/v1/datasets/pets").json()
        tl.delete(url, confirm=url)
        anew = tl.create(url, {"x": "int64"})
        anew.extend({"x": [1]})
        anew.commit("another dataset of the same name")
        renewed = client.get("/v1/datasets/pets").json()
        fixed = {"version": old["version"], "digest": old["digest"]}
        stale = client.get("/v1/datasets/pets/rows", params=fixed)

    assert [tensor["name"] for tensor in renewed["tensors"]] == ["x"]
    assert stale.status_code == 404


@pytest.mark.slow
def test_many_readers_get_the_same_answers(tmp_path: Path) -> None:
    make_dataset(str(tmp_path / "pets"))

    with serving(str(tmp_path)) as (client, _), ThreadPoolExecutor(12) as readers:
        paths = ["/v1/datasets/pets/rows", "/v1/datasets/pets/tensors/image/3?size=64"] * 30
        answers = list(readers.map(lambda path: client.get(path).content, paths))

    assert len(set(answers)) == 2


def test_the_link_is_said_when_it_is_answered(tmp_path: Path) -> None:
    make_dataset(str(tmp_path / "pets.tl"))
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    app = create_app(Settings(url=str(tmp_path), port=port, token="secret"))
    answers: list[int] = []

    def announce() -> None:
        with httpx.Client(timeout=STOP_S) as client:
            answers.append(client.get(f"http://{host}:{port}/healthz").status_code)
        server.should_exit = True

    server = DrainingServer(configure(app, log_level="error"), announce)
    server.run(sockets=[listening])

    assert answers == [200]


def answer_across_sigterm(lake: Path, *, drain_s: float, ends_in_time: bool) -> httpx.Response:
    """Stop a server while it answers a request, which ends before the answer is here or after."""
    begun, released = threading.Event(), threading.Event()
    settings = Settings(url=str(lake), drain_s=drain_s)
    app = create_app(settings)

    def wait() -> dict[str, bool]:
        begun.set()
        released.wait(STOP_S)
        return {"done": True}

    app.add_api_route("/v1/waits", wait)
    config = configure(app, log_level="critical", shutdown_s=STOP_S if ends_in_time else 2)
    server = DrainingServer(config, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(2) as threads:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/waits"
        sent = {"Authorization": f"Bearer {settings.token}"}
        stopped = threads.submit(server.run, sockets=[listening])
        asked = threads.submit(httpx.get, url, headers=sent, timeout=STOP_S)
        assert begun.wait(STOP_S)

        server.handle_exit(signal.SIGTERM, None)
        if ends_in_time:
            released.set()
        answer = asked.result(STOP_S)
        released.set()
        stopped.result(STOP_S)
    return answer


def test_a_request_that_outlasts_the_drain_is_answered_by_a_problem(tmp_path: Path) -> None:
    answer = answer_across_sigterm(tmp_path, drain_s=0.1, ends_in_time=False)

    assert (answer.status_code, answer.json()["code"]) == (503, "draining")
    assert answer.headers["Retry-After"] == "1"


def test_a_request_that_ends_within_the_drain_is_answered(tmp_path: Path) -> None:
    answer = answer_across_sigterm(tmp_path, drain_s=STOP_S, ends_in_time=True)

    assert (answer.status_code, answer.json()) == (200, {"done": True})


@pytest.mark.slow
def test_the_interrupt_key_stops_it_in_order(tmp_path: Path) -> None:
    make_dataset(str(tmp_path / "pets"))

    with serving(str(tmp_path)) as (_, server):
        server.send_signal(signal.SIGINT)

        assert server.wait(STOP_S) == 130


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])
def test_an_address_that_others_reach_is_refused(tmp_path: Path, host: str) -> None:
    run = subprocess.run(
        command(str(tmp_path), "--host", host),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=STOP_S,
        check=False,
    )

    assert run.returncode == 2
    assert "--public-read" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_a_taken_port_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        run = subprocess.run(
            command(str(tmp_path), "--port", str(taken.getsockname()[1])),
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=STOP_S,
            check=False,
        )

    assert run.returncode == 2
    assert "--port 0" in run.stderr
    assert "Traceback" not in run.stderr


def test_copies_that_cannot_be_written_are_found_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    derived = str(tmp_path / "file/copies")

    ended = subprocess.run(
        command(str(tmp_path / "lake"), "--write", "--port", "0", "--derived", derived),
        env=ENVIRONMENT, capture_output=True, text=True, timeout=STOP_S, check=False,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"of {derived!r} (Not a directory)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_folder_that_is_not_there_is_served_for_writing_only(tmp_path: Path) -> None:
    run = subprocess.run(
        command(str(tmp_path / "pest.tl"), "--port", "0"),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=STOP_S,
        check=False,
    )

    assert run.returncode == 2
    assert run.stderr.startswith("there is no folder '")
    assert not (tmp_path / "pest.tl").exists()
