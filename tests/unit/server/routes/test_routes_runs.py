"""Runs over HTTP: the list, curves against pandas, the rows of steps against a log of batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.unit.server.conftest import HOST, InProcess

TOKEN = "a-token-of-tests"
ROWS, BATCH, EPOCHS = 40, 8, 2
NAME = "first~a"  # in paths
NOT_FOUND, INVALID, GONE = 404, 400, 410
Logged = dict[int, tuple[list[int], list[float]]]


def trained(run: tl.Run, loader: Any, log: Logged, *, batches: int | None = None) -> None:
    """Read batches, and log the loss of each row."""
    for number, batch in enumerate(loader):
        step = len(log)
        loss = (batch["x"] * 7 + step) % 11 / 10
        run.log(loss=loss.mean(), per_row={"loss": loss, "score": -loss}, rows=batch["_row"])
        log[step] = batch["_row"].tolist(), loss.tolist()
        if number + 1 == batches:
            return


@pytest.fixture(scope="module")
def log() -> Logged:
    """What the run ``first/a`` read and logged, by step."""
    return {}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, log: Logged) -> Path:
    """``points``, with runs of every kind; two rows were deleted since."""
    root = tmp_path_factory.mktemp("runs")
    ds = tl.create(str(root / "points"), {"x": "int64", "score": "float32"}, durability="none")
    ds.extend({"x": range(ROWS), "score": [0.0] * ROWS})
    ds.commit("points")
    with ds.run("first/a", config={"lr": 0.1, "api_token": "s3cret"}) as run:
        loader = run.loader(batch_size=BATCH, shuffle=True, seed=3, transform=lambda row: row)
        for _ in range(EPOCHS):
            trained(run, loader, log)
    with ds.run("half") as run:
        trained(run, run.loader(batch_size=BATCH), {}, batches=2)
    with ds.run("curves") as run:
        for step in range(1000):
            values = {"loss": np.nan if step == 500 else 1 / (step + 1), "it's/odd": -step}
            run.log(**(values if step % 3 else {"loss": values["loss"]}))
    with ds.run("empty"):
        pass
    with ds.run("broken"):
        pass
    (root / "points/runs/broken/run.json").write_text("{")
    ds.delete([3, 30])
    ds.commit("two less")
    tl.create(str(root / "plain"), {"x": "int64"}, durability="none")
    return root


@pytest.fixture(scope="module")
def transport(lake: Path) -> InProcess:
    settings = Settings(url=str(lake), token=TOKEN, signing_key=b"k" * 16, static=lake / "none")
    return InProcess(create_app(settings))


Get = Callable[..., Any]


@pytest.fixture
def client(transport: InProcess) -> httpx.Client:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.Client(transport=transport, base_url=HOST, headers=headers, timeout=60)


@pytest.fixture
def get(client: httpx.Client) -> Get:
    """Asks for a path below ``points``; the answer is there."""

    def ask(path: str, **params: Any) -> Any:
        answer = client.get(f"/v1/datasets/points/{path}", params=params)
        assert answer.is_success, answer.text
        return answer.json()

    return ask


def age_objects(folder: Path, seconds: float) -> None:
    """Make objects as old as if they had been written before."""
    import os

    for path in folder.rglob("*"):
        made = path.stat().st_mtime - seconds
        os.utime(path, (made, made))


def test_runs_are_listed_by_name_with_how_they_stand(lake: Path, get: Get) -> None:
    fresh = {one["name"]: one["status"] for one in get("runs")["runs"]}
    age_objects(lake / "points/runs", 3600)

    found = get("runs")
    by_name = {one["name"]: one for one in found["runs"]}

    assert fresh["first/a"] == "recording"
    assert [one["name"] for one in found["runs"]] == sorted(by_name)
    assert {name: one["status"] for name, one in by_name.items()} == {
        "broken": "unreadable",
        "curves": "complete",
        "empty": "empty",
        "first/a": "complete",
        "half": "unfinished",
    }
    assert by_name["first/a"]["steps"] == EPOCHS * ROWS // BATCH
    assert by_name["first/a"]["version"] == "main@1"
    assert by_name["first/a"]["started"] <= by_name["first/a"]["updated"]
    assert by_name["curves"]["last"] == {"loss": 1 / 1000, "it's/odd": -998.0}
    assert "run.json" in by_name["broken"]["problem"]
    assert by_name["empty"]["last"] == {}


def test_a_long_list_is_read_in_pages(get: Get) -> None:
    first = get("runs", limit=2)
    rest = get("runs", limit=10, after=first["next"])

    listed = [one["name"] for one in [*first["runs"], *rest["runs"]]]
    assert listed == ["broken", "curves", "empty", "first/a", "half"]
    assert rest["next"] is None


def test_a_run_is_described_without_secrets_and_machine(lake: Path, get: Get) -> None:
    found = get(f"runs/{NAME}")

    assert found["config"] == {"lr": 0.1, "api_token": "***"}
    assert found["metrics"] == ["loss", "wait_s", "compute_s"]
    assert found["values"] == ["loss", "score"]
    assert [(one["start"], one["stop"], one["epoch"]) for one in found["passes"]] == [
        (0, 5, 0),
        (5, 10, 1),
    ]
    assert found["passes"][0]["batch_size"] == BATCH
    text = json.dumps(found)
    recorded = json.loads(next((lake / "points/runs").glob("first*/run.json")).read_text())
    assert recorded["machine"]["host"] not in text
    assert str(lake) not in text


@pytest.mark.parametrize(("start", "stop", "points"), [(0, None, 7), (3, 600, 50)])
def test_a_curve_has_the_extremes_of_its_steps(
    get: Get, lake: Path, start: int, stop: int | None, points: int
) -> None:
    found = get("runs/curves/metrics/loss", start=start, points=points, **_given(stop=stop))

    frame = tl.open(str(lake / "points")).runs["curves"].steps.to_pandas().set_index("step")
    column = frame["loss"].loc[start : 999 if stop is None else stop - 1]
    assert len(found["first"]) <= points
    assert found["first"][0] == start
    assert found["last"][-1] == column.index[-1]
    for at, (first, last) in enumerate(zip(found["first"], found["last"], strict=True)):
        own = column.loc[first:last]
        finite = own[np.isfinite(own)]
        assert found["others"][at] == len(own) - len(finite)
        if len(finite):
            assert (found["low"][at], found["high"][at]) == (finite.min(), finite.max())
            assert found["mean"][at] == pytest.approx(finite.mean(), rel=1e-12)
            assert found["at"][at] == finite.idxmax()
        else:
            assert found["low"][at] is found["mean"][at] is None
    covered = {
        step
        for pair in zip(found["first"], found["last"], strict=True)
        for step in range(pair[0], pair[1] + 1)
    }
    assert covered >= set(column.index)


def _given(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def test_a_curve_leaves_out_steps_that_logged_nothing(get: Get) -> None:
    found = get("runs/curves/metrics/it's~odd", points=2000)

    assert found["first"] == [step for step in range(1000) if step % 3]
    assert found["mean"] == [-float(step) for step in found["first"]]


def test_an_unknown_metric_or_run_is_answered_with_those_that_there_are(
    client: httpx.Client,
) -> None:
    metric = client.get("/v1/datasets/points/runs/curves/metrics/los")
    run = client.get("/v1/datasets/points/runs/curve")
    broken = client.get("/v1/datasets/points/runs/broken")
    elsewhere = client.get("/v1/datasets/plain/runs")

    assert metric.status_code == INVALID
    assert "did you mean 'loss'?" in metric.json()["detail"]
    assert run.status_code == NOT_FOUND
    assert "did you mean 'curves'?" in run.json()["detail"]
    assert broken.json()["code"] == "corruption"
    assert elsewhere.json() == {"runs": [], "next": None}


def test_a_step_is_the_batch_that_was_read_with_what_was_logged(
    get: Get, client: httpx.Client, log: Logged
) -> None:
    name = NAME
    for step, (rows, loss) in log.items():
        found = get(f"runs/{name}/steps/{step}", version="main@1")
        page = get("rows", view=found["view"])

        assert found["rows"] == rows
        assert [row["_row"] for row in page["rows"]] == rows
        assert [row["loss"] for row in page["rows"]] == loss
        assert [row["run:score"] for row in page["rows"]] == [-one for one in loss]
        assert found["columns"] == ["loss", "run:score"]
        assert found["scalars"]["loss"] == pytest.approx(np.mean(loss))
        assert found["pass"]["epoch"] == step // 5
    past = client.get(f"/v1/datasets/points/runs/{name}/steps/10")
    assert past.status_code == INVALID
    assert "its steps are 0 to 9" in past.json()["detail"]


def test_rows_are_those_of_the_version_that_is_asked_for(get: Get, log: Logged) -> None:
    name, gone = NAME, [3, 30]
    old = np.delete(np.arange(ROWS), gone).tolist()
    for step in range(5):
        found = get(f"runs/{name}/steps/{step}")

        expected = [None if row in gone else old.index(row) for row in log[step][0]]
        assert found["rows"] == expected
        listed = [row["_row"] for row in get("rows", view=found["view"])["rows"]]
        assert listed == [row for row in expected if row is not None]


def test_the_steps_of_a_row_are_those_whose_batches_had_it(get: Get, log: Logged) -> None:
    old = np.delete(np.arange(ROWS), [3, 30]).tolist()
    for row in (0, 3, 37):
        found = get(f"runs/{NAME}/rows/{row}")

        assert found["steps"] == [step for step, (rows, _) in log.items() if old[row] in rows]
        assert found["total"] == EPOCHS


def test_a_row_has_what_was_logged_of_it_at_each_of_its_steps(get: Get, log: Logged) -> None:
    old = np.delete(np.arange(ROWS), [3, 30]).tolist()

    found = get(f"runs/{NAME}/rows/5")

    of_row = [dict(zip(*log[step], strict=True))[old[5]] for step in found["steps"]]
    assert found["values"] == {"loss": of_row, "score": [-one for one in of_row]}
    assert found["missing"] is None
    assert get("runs/curves/rows/0")["values"] == {}


def test_values_that_are_too_many_are_not_read_and_the_steps_are_there(
    get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = get(f"runs/{NAME}/rows/5")
    monkeypatch.setattr("tensorlake_server.stats.runs.MOST_VALUES_NBYTES", 10)

    found = get(f"runs/{NAME}/rows/5")

    assert found["steps"] == whole["steps"]
    assert found["values"] == {}
    assert "a server reads 10 for one row" in found["unread"]


def test_another_server_of_the_same_key_opens_the_rows_of_a_step(
    get: Get, lake: Path, connect: Any
) -> None:
    found = get(f"runs/{NAME}/steps/2")
    settings = Settings(url=str(lake), token=TOKEN, signing_key=b"k" * 16, static=lake / "none")
    other = connect(settings, token=TOKEN)

    again = other.get("/v1/datasets/points/query", params={"view": found["view"]})

    assert again.is_success, again.text
    assert again.json()["rows"] == len([row for row in found["rows"] if row is not None])


def test_queries_of_a_server_know_runs_and_nothing_else_of_its_process(
    client: httpx.Client, log: Logged
) -> None:
    def query(tql: str) -> Any:
        body = {"tql": tql, "version": "main@1", "limit": 1000}
        return client.post("/v1/datasets/points/query", json=body).json()

    worst = query("SELECT *, RUN('half', 'loss') AS logged WHERE RUN('half', 'loss') IS NOT NULL")
    step = query("WHERE STEP('first/a', epoch => 1) = 7")
    called = query("WHERE OURS(x) > 1")
    elsewhere = query("SELECT * FROM 'file:///tmp/other'")

    assert worst["rows"] == 2 * BATCH
    assert worst["tensors"][-1]["name"] == "logged"
    assert [row["_row"] for row in step["page"]["rows"]] == sorted(log[7][0])
    assert called["code"] == "query-name"
    assert "OURS" in called["detail"]
    assert elsewhere["status"] >= 400


def test_a_record_that_names_another_dataset_is_not_followed(
    client: httpx.Client, lake: Path
) -> None:
    folder = lake / "points/runs/half"
    evil = lake / "points/runs/evil"
    (evil / "000000-0123456789abcdef").mkdir(parents=True)
    (evil / "run.json").write_bytes((folder / "run.json").read_bytes())
    segment = json.loads(next(folder.rglob("segment-*.json")).read_text())
    segment["state"]["source"]["url"] = str(lake / "plain")
    (evil / "000000-0123456789abcdef/segment-000000.json").write_text(json.dumps(segment))

    step = client.get("/v1/datasets/points/runs/evil/steps/0")
    asked = {"tql": "WHERE STEP('evil', epoch => 0) = 0"}
    query = client.post("/v1/datasets/points/query", json=asked)

    assert step.json()["rows"] == []
    assert "another dataset" in step.json()["missing"]
    assert query.status_code == INVALID
    assert "another dataset" in query.json()["detail"]
    for path in sorted(evil.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    evil.rmdir()


def test_a_resumed_run_has_other_rows_and_the_old_id_says_so(tmp_path: Path, connect: Any) -> None:
    ds = tl.create(str(tmp_path / "few"), {"x": "int64"}, durability="none")
    ds.extend({"x": range(20)})
    ds.commit("few")
    with ds.run("again") as run:
        loader = run.loader(batch_size=5, shuffle=True, seed=1)
        state = loader.state_dict()
        assert len(list(loader)) == 4
    client = connect(
        Settings(
            url=str(tmp_path), token=TOKEN, signing_key=b"k" * 16, views_nbytes=0, static=tmp_path
        ),
        token=TOKEN,
    )
    path = "/v1/datasets/few/runs/again"
    before = client.get(f"{path}/steps/3").json()
    with ds.run("again") as run:
        loader = run.loader(batch_size=2, shuffle=True, seed=1)
        loader.load_state_dict(state)
        assert len(list(loader)) == 10

    after = client.get(f"{path}/steps/3").json()
    old = client.get("/v1/datasets/few/query", params={"view": before["view"]})

    assert (len(before["rows"]), len(after["rows"])) == (5, 2)
    assert old.status_code == NOT_FOUND
    assert "was resumed before step 3" in old.json()["detail"]
    assert client.get(path).json()["steps"] == 10


def test_versions_and_rows_that_are_gone_are_told(tmp_path: Path, connect: Any) -> None:
    ds = tl.create(str(tmp_path / "short"), {"x": "int64"}, durability="none")
    ds.extend({"x": range(6)})
    ds.commit("six")
    with ds.branch("gone") as gone:
        gone.append({"x": 7})
        gone.commit("one more")
        with gone.run("old") as run:
            for batch in run.loader(batch_size=3):
                run.log(per_row={"loss": batch["x"]}, rows=batch["_row"])
    with ds.run("kept") as run:
        for _ in run.loader(batch_size=3):
            run.log(loss=0.5)
    ds.delete_branch("gone")
    ds.forget("x = 2")
    settings = Settings(url=str(tmp_path), token=TOKEN, signing_key=b"k" * 16, static=tmp_path)
    client = connect(settings, token=TOKEN)
    path = "/v1/datasets/short/runs/old"

    step, row = client.get(f"{path}/steps/0"), client.get(f"{path}/rows/0")

    assert client.get(path).json()["steps"] == 3
    for answer in (step, row):
        assert answer.status_code == GONE, answer.text
        assert "branch 'gone' has ended" in answer.json()["detail"]
    assert client.get("/v1/datasets/short/runs/kept/steps/0").json()["rows"] == [0, 1, None]


def test_requests_at_once_get_the_rows_of_their_steps(transport: InProcess, log: Logged) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    together = Barrier(3)
    wrong: list[int] = []

    def ask(first: int) -> None:
        client = httpx.Client(transport=transport, base_url=HOST, headers=headers, timeout=60)
        together.wait()
        for step in [*range(first, 10, 2), *range(0, first, 2)]:
            url = f"/v1/datasets/points/runs/{NAME}/steps/{step}"
            found = client.get(url, params={"version": "main@1"}).json()
            if found["rows"] != log[step][0]:
                wrong.append(step)

    threads = [Thread(target=ask, args=[first]) for first in (0, 3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_hundred_thousand_steps_are_a_few_hundred_points(tmp_path: Path, connect: Any) -> None:
    ds = tl.create(str(tmp_path / "long"), {"x": "int64"}, durability="none")
    ds.extend({"x": [0]})
    ds.commit("one")
    with ds.run("long") as run:
        run.log(loss=0.0)
    folder = next((tmp_path / "long/runs/long").glob("0*"))
    count = 100_000
    loss = np.abs(np.sin(np.arange(count) / 977)) + (np.arange(count) == 41_200) * 9
    columns = {"step": np.arange(count), "steps": np.ones(count, np.int32)}
    columns |= {"time": 1.8e9 + np.arange(count), "rank": np.zeros(count, np.int32)}
    columns |= {"epoch": np.full(count, -1), "position": np.full(count, -1)}
    table = pa.table(
        columns | {"wait_s": np.zeros(count), "compute_s": np.zeros(count), "loss": loss}
    )
    (path,) = folder.glob("events-*")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    settings = Settings(url=str(tmp_path), token=TOKEN, signing_key=b"k" * 16, static=tmp_path)
    client = connect(settings, token=TOKEN)

    whole = client.get("/v1/datasets/long/runs/long/metrics/loss")
    part = client.get(
        "/v1/datasets/long/runs/long/metrics/loss", params={"start": 41_000, "stop": 41_400}
    ).json()
    again = client.get(
        "/v1/datasets/long/runs/long/metrics/loss",
        headers={"If-None-Match": whole.headers["etag"]},
    )

    found = whole.json()
    assert len(found["first"]) == 500
    assert len(whole.content) < 60_000
    assert found["at"][int(np.nanargmax(found["high"]))] == 41_200
    assert part["mean"] == loss[41_000:41_400].tolist()
    assert again.status_code == 304
