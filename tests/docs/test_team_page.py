"""The page "Run it for a team of fifty", walked: its commands as printed, against S3.

The buckets, the issuer and the two machines of the page are processes here. So the commands run
with another port, another issuer and another folder than the page prints, and with two workers;
`CHANGED` lists all that differs. Spans over OpenTelemetry are in ``tests/extras/otel``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.testing import S3Server, s3_server
from tests.integration.server.test_rolling_restart import Forwarder
from tests.support.issuer import issuing
from tests.support.serving import reserved_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/run-for-a-team.md").read_text("utf-8")
STOP_S = 150
CHANGED = ("8300", "/srv/tensorlake", "--workers 4", "https://id.example.org")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a page for bash"),
]


def block(heading: str, language: str = "sh", number: int = 0) -> str:
    """A block below a heading of the page."""
    part = re.split(rf"^##+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    part = re.split(r"^##+ ", part, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)[number]


@dataclass
class Team:
    """The machine of an administrator, with the buckets of the page."""

    folder: Path
    s3: S3Server
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "AWS_ENDPOINT_URL": self.s3.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def run(self, script: str) -> str:
        """Run commands as bash does, each of which has to succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=STOP_S,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, command: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that serves, until the block ends."""
        server = subprocess.Popen(
            ["bash", "-euc", f"exec {command}"],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("Viewer at http://"), "it did not start"
            yield server
        finally:
            server.terminate()
            server.wait(STOP_S)
            if server.stdout is not None:
                server.stdout.close()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """The buckets as the page has them: a lake, and an empty place for backups."""
    with s3_server() as s3:
        for bucket in ("bucket", "backup"):
            urlopen(Request(f"{s3.endpoint}/{bucket}", method="PUT"), timeout=60).close()
        for name, count in (("vision/pets", 200), ("scans", 30)):
            with tl.create(
                f"s3://bucket/lake/{name}",
                {"x": "int64", "label": tl.ClassLabel(["cat", "dog"])},
                storage_options=s3.storage_options,
            ) as ds:
                ds.extend({"x": range(count), "label": np.arange(count) % 2})
                ds.commit("rows")
                ds.query("SELECT x WHERE x < 10").save("consented")
        yield Team(tmp_path, s3)


def with_tokens(team: Team) -> None:
    """Run the commands of the page that create tokens; each prints one."""
    printed = re.findall(r"tl_\S+", team.run(block("Roles")))
    names = re.findall(r"--name (\w+)", block("Roles"))
    assert len(printed) == len(names) == 4
    team.tokens = dict(zip(names, printed, strict=True))


def test_what_differs_from_the_page_is_on_it() -> None:
    assert all(one in PAGE for one in CHANGED)


def test_tokens_of_the_provider_are_those_of_the_groups(team: Team) -> None:
    (team.folder / "groups.toml").write_text(block("Roles", "toml"))
    command = block("Roles", number=1)
    assert command.startswith("tensorlake serve s3://bucket/lake --oidc https://id.example.org ")

    with (
        issuing() as issuer,
        reserved_port() as port,
        team.serving(
            command.replace("https://id.example.org", issuer.url),
            TENSORLAKE_SERVE_PORT=str(port),
            TENSORLAKE_SERVE_WRITE="true",
        ),
    ):
        now = int(time.time())

        def token(*groups: str) -> str:
            return issuer.token({
                "iss": issuer.url, "aud": "tensorlake", "sub": "ana", "iat": now, "exp": now + 600,
                "groups": groups,
            })  # fmt: skip

        lake = f"http://127.0.0.1:{port}"
        annotator, leader = token("annotators"), token("ml leads")
        with tl.open(f"{lake}/vision/pets", token=annotator) as ds:
            fix = ds.branch("labels-ana")
            fix["label"][0] = "dog"
            commit = fix.commit("a dog")
        with tl.open(f"{lake}/vision/pets", token=leader) as ds:
            merged = ds.merge("labels-ana")
            assert ds["label"][0] == "dog"
        with pytest.raises(tl.DatasetNotFoundError):
            tl.open(f"{lake}/scans", token=annotator)
        assert len(tl.open(f"{lake}/scans", token=leader)) == 30
        with pytest.raises(tl.AccessError):
            tl.open(f"{lake}/vision/pets", token=token("visitors"))

    assert (commit.author, merged.version) == ("ana", "main@2")


def two_servers(team: Team) -> tuple[dict[str, str], Callable[[int], str]]:
    """Return the environment of both servers, and the command of the one at a port."""
    export, _, command = block("Two servers").partition("\n")
    name, key = team.run(f'{export}\necho "TENSORLAKE_SIGNING_KEY $TENSORLAKE_SIGNING_KEY"').split()
    command = command.replace("/srv/tensorlake", str(team.folder / "srv"))
    command = command.replace("--workers 4", "--workers 2")
    return {name: key}, lambda port: command.replace("--port 8300", f"--port {port}")


def test_two_servers_know_the_roles_and_each_others_views(team: Team) -> None:
    with_tokens(team)
    key, command = two_servers(team)
    tokens = team.tokens

    with ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(2)]
        for port in ports:
            stack.enter_context(team.serving(command(port), **key))
        one, other = (f"http://127.0.0.1:{port}" for port in ports)

        def get(lake: str, who: str, path: str, **query: str) -> httpx.Response:
            bearer = {"Authorization": f"Bearer {tokens[who]}"}
            return httpx.get(f"{lake}{path}", headers=bearer, params=query, timeout=STOP_S)

        assert httpx.get(f"{one}/readyz").status_code == 200
        assert httpx.get(f"{one}/v1/datasets").status_code == 401
        seen = {
            who: [one["name"] for one in get(other, who, "/v1/datasets").json()["datasets"]]
            for who in tokens
        }
        consented = [get(lake, "clinic", "/v1/datasets/scans%23consented") for lake in (one, other)]
        asked = {"rows": "AwI=", "limit": 0}  # rows 3 and 4
        with httpx.Client(
            base_url=one, headers={"Authorization": f"Bearer {tokens['train']}"}
        ) as c:
            view = c.post("/v1/datasets/vision~pets/query", json=asked).json()["view"]
        rows = get(other, "train", "/v1/datasets/vision~pets/rows", view=view).json()
        with tl.open(f"{one}/vision/pets", token=tokens["ben"]) as ds:
            mine = ds.branch("labels-ben")
            mine["label"][0] = "dog"
            mine.commit("a dog")
            ds["label"][1] = "cat"
            with pytest.raises(tl.AccessError, match="needs the scope 'write:vision/pets@main'"):
                ds.commit("on main")
            ds.discard()
        with tl.open(f"{other}/vision/pets", token=tokens["ana"]) as ds:
            ds.merge("labels-ben")
        with tl.open(f"{one}/vision/pets", token=tokens["train"]) as ds:
            ds["label"][1] = "cat"
            with pytest.raises(tl.AccessError):
                ds.commit("of a reader")
            ds.discard()
            labels = [batch["label"] for batch in ds.loader(batch_size=100, columns=["label"])]
        metrics = httpx.get(f"{one}/metrics").text

    assert seen == {
        "ana": ["vision/pets"],
        "ben": ["vision/pets"],
        "train": ["scans", "vision/pets"],
        "clinic": ["scans#consented"],
    }
    assert [one.json()["rows"] for one in consented] == [10, 10]
    assert len({one.json()["digest"] for one in consented}) == 1
    assert [row["x"] for row in rows["rows"]] == [3, 4]
    assert labels[0][0] == 1
    assert "tensorlake" in metrics
    lines = [json.loads(one) for one in (team.folder / "audit.jsonl").read_text().splitlines()]
    names = {one["who"].rpartition(":")[2] for one in lines if one["who"].startswith("token:")}
    assert names == {"ana", "ben", "train", "clinic"}


def test_servers_are_restarted_one_after_the_other_and_clients_do_not_notice(team: Team) -> None:
    with_tokens(team)
    key, command = two_servers(team)
    ended, failures, done = threading.Event(), list[str](), {"query": 0, "commit": 0}

    def work(what: str, act: Callable[[tl.Dataset], object]) -> None:
        try:
            with tl.open(f"{proxy.address}/vision/pets", token=team.tokens["ana"]) as ds:
                while not ended.is_set():
                    act(ds)
                    done[what] += 1
        except Exception as error:  # noqa: BLE001 - any is a failed operation
            failures.append(f"{what}: {type(error).__name__}: {error}")

    def query(ds: tl.Dataset) -> None:
        assert len(ds.query("WHERE x >= 0 AND x < 10")) == 10

    def commit(ds: tl.Dataset) -> None:
        ds.append({"x": -1, "label": "cat"})
        ds.commit("one more")

    with ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(2)]
        held = [stack.enter_context(ExitStack()) for _ in ports]
        servers = [
            one.enter_context(team.serving(command(port), **key))
            for one, port in zip(held, ports, strict=True)
        ]
        proxy = Forwarder(ports)
        stack.callback(proxy.close)
        threads = [
            threading.Thread(target=work, args=one)
            for one in (("query", query), ("commit", commit))
        ]
        for thread in threads:
            thread.start()
        codes = []
        for number, port in enumerate(ports):
            servers[number].send_signal(signal.SIGTERM)
            codes.append(servers[number].wait(STOP_S))
            held[number].enter_context(team.serving(command(port), **key))
        ended.set()
        for thread in threads:
            thread.join(STOP_S)

    assert (failures, codes) == ([], [0, 0])
    assert min(done.values()) > 0, done
    with tl.open("s3://bucket/lake/vision/pets", storage_options=team.s3.storage_options) as ds:
        assert len(ds.query("WHERE x = -1")) == done["commit"]


def test_a_backup_has_the_lake_of_every_night(team: Team) -> None:
    options = team.s3.storage_options
    first = team.run(block("Every night"))
    with tl.open("s3://bucket/lake/scans", storage_options=options) as ds:
        ds.append({"x": 30, "label": "cat"})
        ds.commit("one more")
    second = team.run(block("Every night"))

    copied = [json.loads(one) for one in second.splitlines() if one.startswith("{")]
    assert {one["target"]: one["packs"] > 0 for one in copied if "target" in one} == {
        "s3://backup/lake/scans": True,
        "s3://backup/lake/vision/pets": False,
    }
    for name in ("scans", "vision/pets"):
        here, there = (
            tl.open(f"s3://{bucket}/lake/{name}", storage_options=options)
            for bucket in ("bucket", "backup")
        )
        assert here.log()[0].digest == there.log()[0].digest
        assert f"s3://backup/lake/{name}: no problems found" in first
