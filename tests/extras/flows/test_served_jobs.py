"""``serve --flows``: jobs that outlive their server, and flows over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("dbos")

import tensorlake as tl
from tensorlake import flows
from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings
from tensorlake_server.auth.tokens import create_token
from tests.extras.flows.served import WAIT_S, client_of, postgres, serving, stop

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

ASYNC = {"Prefer": "respond-async"}
ROWS = 200_000
LONG = "SELECT COUNT(*) FROM this AS a JOIN this AS b ON a.x < b.x WHERE b.x < 500"
ENDLESS = "SELECT COUNT(*) FROM this AS a JOIN this AS b ON a.x < b.x"
SCOPES = {
    "ana": ["read"],
    "ben": ["read"],
    "maintainer": ["write"],
    "clinic": ["write:pets"],
    "partner": ["read:pets#*"],
}


@dataclass
class Lake:
    root: Path
    tokens: dict[str, str]
    database: str

    def serving(self, *arguments: str):
        auth = str(self.root / "tokens.json")
        common = ("--auth", auth, "--flows", self.database, "--write", "--drain-s", "2")
        return serving(str(self.root / "lake"), *common, *arguments)

    def client(self, address: str, who: str = "ana") -> httpx.Client:
        return client_of(address, self.tokens[who])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    with tl.create(str(tmp_path / "lake/pets"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": list(range(ROWS))})
        ds.commit("rows")
    auth, now = tmp_path / "tokens.json", datetime.now(UTC)
    tokens = {
        name: create_token(auth, name=name, scopes=scopes, expires=None, now=now)[0]
        for name, scopes in SCOPES.items()
    }
    return Lake(tmp_path, tokens, str(tmp_path / "jobs.sqlite"))


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as url:
        yield url


def ask(client: httpx.Client, text: str, **headers: str) -> httpx.Response:
    return client.post("/v1/datasets/pets/query", json={"tql": text, "limit": 2}, headers=headers)


def answer_of(client: httpx.Client, location: str) -> httpx.Response:
    """Ask for a job until it is answered."""
    ends = time.monotonic() + WAIT_S
    while (found := client.get(location)).status_code == 202:
        assert time.monotonic() < ends, "the job does not end"
        assert found.json()["status"] == "running"
    return found


def answers_within(client: httpx.Client, text: str) -> None:
    """Whether jobs have room: one more is answered."""
    job = ask(client, text, **ASYNC)
    assert answer_of(client, job.headers["Location"]).status_code == 200


def test_a_job_has_the_answer_of_its_request_and_is_of_its_token(lake: Lake) -> None:
    with lake.serving() as (_, address), lake.client(address) as ana:
        job = ask(ana, "WHERE x > 10", **ASYNC)
        assert (job.status_code, job.headers["Preference-Applied"]) == (202, "respond-async")
        location = job.headers["Location"]
        found = answer_of(ana, location)
        wrong = answer_of(ana, ask(ana, "WHERE nonsense > 1", **ASYNC).headers["Location"])

        now = ask(ana, "WHERE x > 10").json()
        assert {**found.json(), "cost": None} == {**now, "cost": None}
        assert (wrong.status_code, wrong.json()["code"]) == (400, "query-name")
        assert wrong.headers["Content-Type"] == "application/problem+json"
        listed = ana.get("/v1/jobs").json()["jobs"]
        assert [one["status"] for one in listed] == ["done", "done"]
        assert listed[1]["id"] == location.rpartition("/")[2]
        assert listed[1]["request"] == "POST /v1/datasets/pets/query"
        with lake.client(address, "ben") as ben:
            assert ben.get("/v1/jobs").json() == {"jobs": []}
            assert ben.get(location).status_code == ben.delete(location).status_code == 404
            assert repr(location.rpartition("/")[2]) in ben.get(location).json()["detail"]
        assert ana.delete(location).status_code == 204
        assert ana.get(location).status_code == 404
        assert len(ana.get("/v1/jobs").json()["jobs"]) == 1


def test_a_job_is_hidden_with_what_it_read(lake: Lake) -> None:
    with tl.open(str(lake.root / "lake/pets")) as ds:
        ds.query("SELECT x WHERE x < 5").save("five")
    with lake.serving() as (_, address), lake.client(address, "partner") as partner:
        body = {"tql": "SELECT x LIMIT 2"}
        job = partner.post("/v1/datasets/pets%23five/query", json=body, headers=ASYNC)
        location = job.headers["Location"]
        assert answer_of(partner, location).status_code == 200

        with tl.open(str(lake.root / "lake/pets")) as ds:
            ds.delete_tag("five")

        hidden = partner.get(location)
        assert (hidden.status_code, hidden.json()["code"]) == (404, "dataset-not-found")
        with lake.client(address) as ana:
            of_dataset = ask(ana, "WHERE x > 10", **ASYNC).headers["Location"]
            assert answer_of(ana, of_dataset).status_code == 200
            tl.delete(str(lake.root / "lake/pets"), confirm=str(lake.root / "lake/pets"))
            assert ana.get(of_dataset).status_code == 404


def test_a_job_is_no_flow_of_others_and_the_database_is_its_owners(lake: Lake) -> None:
    with lake.serving() as (_, address), lake.client(address) as ana:
        job = ask(ana, "WHERE x > 10", **ASYNC).headers["Location"].rpartition("/")[2]
        answer_of(ana, f"/v1/jobs/{job}")
        with lake.client(address, "maintainer") as maintainer:
            reached = [
                maintainer.get(f"/v1/flows/{job}"),
                maintainer.post(f"/v1/flows/{job}/cancel"),
                maintainer.post(f"/v1/flows/{job}/retry"),
                maintainer.post(f"/v1/flows/{job}/approve", json={"decision": True}),
            ]
            unknown = maintainer.get("/v1/flows/nothing")
            listed = maintainer.get("/v1/flows?flow=tensorlake.job").json()["flows"]
        modes = {path.name: path.stat().st_mode & 0o777 for path in lake.root.glob("jobs.sqlite*")}

    assert [one.status_code for one in reached] == [404] * 4
    assert reached[0].json()["code"] == unknown.json()["code"]
    assert listed == []
    assert set(modes.values()) == {0o600}


def test_a_job_that_is_cancelled_ends_and_each_token_has_so_many(lake: Lake) -> None:
    with (
        lake.serving("--max-queries-each", "2", "--max-queries", "2") as (_, address),
        lake.client(address) as ana,
        lake.client(address, "ben") as ben,
    ):
        running = [ask(ana, ENDLESS, **ASYNC) for _ in range(3)]
        assert [one.status_code for one in running] == [202, 202, 429]
        assert ana.get(running[0].headers["Location"]).status_code == 202
        assert len(ana.get("/v1/jobs?limit=1").json()["jobs"]) == 1
        for one in running[:2]:
            assert ana.delete(one.headers["Location"]).status_code == 204
        answers_within(ben, "WHERE x < 3")  # the two places are free again
        answers_within(ana, "WHERE x < 3")


def test_an_optimization_is_a_job_that_publishes_in_the_name_of_its_token(lake: Lake) -> None:
    with tl.open(str(lake.root / "lake/pets")) as ds:
        for number in range(3):
            ds.append({"x": number})
            ds.commit("one more")
    path = "/v1/datasets/pets/optimize"
    with lake.serving() as (_, address), lake.client(address, "maintainer") as maintainer:
        job = maintainer.post(path, json={}, headers=ASYNC)
        done = answer_of(maintainer, job.headers["Location"]).json()
        again = maintainer.post(path, json={}).json()
        with lake.client(address) as ana:
            refused = ana.post(path, json={}, headers=ASYNC)

    assert (done["version"], done["chunks_before"] > done["chunks_after"]) == ("main@5", True)
    assert (again["version"], again["commits"]) == ("main@5", 0)
    assert refused.status_code == 403
    with tl.open(str(lake.root / "lake/pets")) as ds:
        assert ds.log(1)[0].author == "maintainer"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_jobs_outlive_the_server(lake: Lake, how: signal.Signals) -> None:
    with lake.serving() as (server, address), lake.client(address) as ana:
        done = ask(ana, "WHERE x > 10", **ASYNC).headers["Location"]
        answer = answer_of(ana, done).json()
        endless = ask(ana, ENDLESS, **ASYNC).headers["Location"]
        waiting = [ask(ana, f"WHERE x < {n}", **ASYNC).headers["Location"] for n in (3, 4)]
        stop(server, how)

    with lake.serving() as (server, address), lake.client(address) as ana:
        assert ana.get(done).json() == answer
        assert [answer_of(ana, one).json()["rows"] for one in waiting] == [3, 4]
        assert ana.get(endless).status_code == 202
        assert ana.delete(endless).status_code == 204
        answers_within(ana, "WHERE x < 5")
        stop(server, signal.SIGTERM)


def test_replicas_over_postgresql_find_and_cancel_jobs_of_each_other(
    lake: Lake, database: str
) -> None:
    lake.database = database
    with ExitStack() as stack:
        _, first = stack.enter_context(lake.serving())
        _, second = stack.enter_context(lake.serving("--workers", "2"))
        here, there = (stack.enter_context(lake.client(one)) for one in (first, second))

        jobs = [ask(here, f"WHERE x < {n}", **ASYNC).headers["Location"] for n in range(1, 7)]
        found = [answer_of(there, one).json()["rows"] for one in jobs]
        endless = ask(here, ENDLESS, **ASYNC).headers["Location"]
        assert there.get(endless).status_code == 202
        assert there.delete(endless).status_code == 204
        assert here.get(endless).status_code == 404
        answers_within(here, "WHERE x < 3")

    assert found == [1, 2, 3, 4, 5, 6]


def process_of(database: str, location: str) -> int | None:
    """The process that took a job last."""
    import dbos

    client = dbos.DBOSClient(system_database_url=database, application_name="tensorlake-jobs")
    try:
        (job,) = client.list_workflows(workflow_ids=[location.rpartition("/")[2]])
    finally:
        client.destroy()
    executor = job.executor_id if job.status != "ENQUEUED" else None
    return None if executor is None else int(executor.split("-")[-2])


def is_taken_by(database: str, location: str, server: subprocess.Popen[str]) -> None:
    """Wait until a server has taken a job."""
    ends = time.monotonic() + WAIT_S
    while process_of(database, location) != server.pid:
        assert time.monotonic() < ends, "the job is not taken"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_living_replica_takes_over_the_jobs_of_one_that_ended(
    lake: Lake, database: str, how: signal.Signals
) -> None:
    lake.database = database
    with ExitStack() as stack:
        first, ending = stack.enter_context(lake.serving())
        with lake.client(ending) as here:
            endless, long = (ask(here, one, **ASYNC).headers["Location"] for one in (ENDLESS, LONG))
            is_taken_by(database, endless, first)
            is_taken_by(database, long, first)
        second, living = stack.enter_context(lake.serving())
        there = stack.enter_context(lake.client(living))
        answers_within(there, "WHERE x < 3")
        assert process_of(database, endless) == first.pid  # it lives, and keeps its jobs

        stop(first, how)

        is_taken_by(database, endless, second)
        answer = answer_of(there, long)
        assert (answer.status_code, answer.json()["rows"]) == (200, 1)
        assert there.delete(endless).status_code == 204
        answers_within(there, "WHERE x < 3")


def test_an_export_is_a_job_that_a_living_replica_takes_over_and_a_client_cancels(
    lake: Lake, database: str
) -> None:
    lake.database, exports = database, lake.root / "exports"
    path, slow = "/v1/datasets/pets/exports", {"format": "csv", "steps": [{"tql": ENDLESS}]}
    with ExitStack() as stack:
        first, ending = stack.enter_context(lake.serving("--exports", str(exports)))
        _, living = stack.enter_context(lake.serving("--exports", str(exports)))
        here, there = (stack.enter_context(lake.client(one)) for one in (ending, living))
        made = answer_of(
            there, here.post(path, json={"format": "csv"}, headers=ASYNC).headers["Location"]
        )
        endless = here.post(path, json=slow, headers=ASYNC).headers["Location"]
        wrong = here.post(path, json={"format": "coco"}, headers=ASYNC).headers["Location"]
        jobs = [
            here.post(path, json={"format": "jsonl"}, headers=ASYNC).headers["Location"]
            for _ in range(3)
        ]
        stop(first, signal.SIGKILL)

        files = [answer_of(there, one).json() for one in jobs]
        lines = [there.get(one["url"]).text.count("\n") for one in files]
        refused = answer_of(there, wrong)
        assert there.delete(endless).status_code == 204
        answers_within(there, "WHERE x < 3")

    assert (made.status_code, made.json()["rows"]) == (201, ROWS)
    assert lines == [ROWS] * 3
    assert len({one["id"] for one in files}) == 3
    assert refused.status_code in (400, 501)


def test_workers_need_postgresql(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match="--flows postgresql://"):
        Settings(url=str(lake.root), workers=2, flows=lake.database)
    with pytest.raises(InvalidInputError, match="SQLite or PostgreSQL"):
        Settings(url=str(lake.root), flows="mysql://host/jobs")
    with pytest.raises(InvalidInputError, match="'mysql://host/jobs'") as refused:
        Settings(url=str(lake.root), flows="mysql://ana:s3cret@host/jobs")
    assert "s3cret" not in f"{refused.value}{refused.value.facts}"


@flows.step(retries=0)
def publish(name):
    if name == "broken":
        raise ValueError("no such dataset")
    return name.upper()


@flows.flow
def publication(name):
    return flows.approval(f"publish {name}?") and publish(name)


@pytest.fixture
def service(lake: Lake, database: str) -> Iterator[None]:
    """A process that runs flows: here this one, beside a server that has none of their code."""
    lake.database = database
    flows.connect(database)
    ended = threading.Event()
    thread = threading.Thread(target=flows.run, kwargs={"until": ended.is_set})
    thread.start()
    yield
    ended.set()
    thread.join()


def state_of(client: httpx.Client, id_: str, *states: str) -> dict:
    ends = time.monotonic() + WAIT_S
    while (found := client.get(f"/v1/flows/{id_}").json())["state"] not in states:
        assert time.monotonic() < ends, found
    return found


def test_flows_are_listed_approved_retried_and_cancelled_over_http(
    lake: Lake, service: None
) -> None:
    del service
    yes = {"decision": True}
    good, bad, late = (flows.start(publication, one) for one in ("pets", "broken", "late"))
    with lake.serving() as (_, address), ExitStack() as stack:
        reader, maintainer, clinic = (
            stack.enter_context(lake.client(address, who))
            for who in ("ana", "maintainer", "clinic")
        )
        waiting = state_of(reader, good.id, "waiting")
        refused = [
            client.post(f"/v1/flows/{good.id}/approve", json=yes).status_code
            for client in (reader, clinic)
        ]
        assert clinic.get("/v1/flows").status_code == 403  # of one dataset
        listed = reader.get("/v1/flows", params={"flow": "publication"}).json()["flows"]
        answer_of(reader, ask(reader, "WHERE x < 3", **ASYNC).headers["Location"])
        for id_ in (good.id, bad.id):
            state_of(reader, id_, "waiting")
            assert maintainer.post(f"/v1/flows/{id_}/approve", json=yes).status_code == 200
        done, failed = state_of(reader, good.id, "done"), state_of(reader, bad.id, "failed")
        again = maintainer.post(f"/v1/flows/{good.id}/approve", json=yes)
        retried = maintainer.post(f"/v1/flows/{bad.id}/retry")
        state_of(reader, bad.id, "failed")
        state_of(reader, late.id, "waiting")
        ended = maintainer.post(f"/v1/flows/{late.id}/cancel").json()
        unknown = reader.get("/v1/flows/none")
        names = {one["flow"] for one in reader.get("/v1/flows").json()["flows"]}

    assert waiting["waits_for"] == "publish pets?"
    assert refused == [403, 403]
    assert {one["id"] for one in listed} == {good.id, bad.id, late.id}
    assert (done["result"], [one["name"] for one in done["steps"]]) == ("'PETS'", ["publish"])
    assert failed["error"] == "ValueError: no such dataset"
    assert (again.status_code, retried.status_code) == (409, 200)
    assert ended["state"] == "cancelled"
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
    assert names == {"publication"}  # jobs are of their clients


def test_of_two_who_answer_two_servers_at_once_one_wins_and_the_other_is_told(
    lake: Lake, service: None
) -> None:
    del service
    with ExitStack() as stack:
        addresses = [stack.enter_context(lake.serving())[1] for _ in range(2)]
        clients = [stack.enter_context(lake.client(one, "maintainer")) for one in addresses]
        pool = stack.enter_context(ThreadPoolExecutor(2))
        for number in range(5):
            run = flows.start(publication, f"pets{number}")
            state_of(clients[0], run.id, "waiting")
            together = threading.Barrier(2)

            def answer(decision: bool, id_: str = run.id, wait: Any = together.wait) -> Any:  # noqa: FBT001 - as `map` gives it
                wait(WAIT_S)
                body = {"decision": decision}
                return clients[decision].post(f"/v1/flows/{id_}/approve", json=body)

            answers = dict(zip((True, False), pool.map(answer, (True, False)), strict=True))
            done = state_of(clients[0], run.id, "done")

            (first,) = [one for one, answer_ in answers.items() if answer_.status_code == 200]
            told = answers[not first]
            assert (told.status_code, told.json()["code"]) == (409, "invalid-state")
            said = f"'publish pets{number}?' was {'approved' if first else 'refused'}"
            assert said in told.json()["detail"]
            assert done["result"] == (repr(f"PETS{number}") if first else "False")


def test_a_server_without_the_extra_says_so(lake: Lake) -> None:
    program = "import sys; sys.modules['dbos'] = None\nfrom tensorlake_server.__main__ import main"
    command = f"{program}\nsys.exit(main([{str(lake.root)!r}, '--flows', 'jobs.sqlite']))"
    import sys

    run = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert "pip install 'tensorlake-dl[flows]'" in run.stderr


def test_a_server_with_a_database_that_cannot_be_opened_says_so_and_ends(tmp_path: Path) -> None:
    database = "postgresql://ana:secret@127.0.0.1:1/x"
    command = [sys.executable, "-m", "tensorlake_server", str(tmp_path), "--write", "--port", "0"]

    ended = subprocess.run(
        [*command, "--flows", database],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=WAIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    reason, advice = ended.stderr.splitlines()[-2:]  # after a warning of DBOS
    assert reason.startswith("the database of flows 'postgresql://127.0.0.1:1/x' cannot be opened")
    assert advice.startswith("give an SQLite file")
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr
