"""What those who run a server see of it: metrics, logs, limits."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.unit.server.conftest import HOST, InProcess


def test_metrics_count_requests_by_route_and_name_no_dataset(
    settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    client = connect(settings, token=settings.token)
    client.get("/v1/datasets/pets/rows", params={"limit": 2})
    client.get("/v1/datasets/pets/rows", params={"limit": "x"})
    client.get("/nothing/at/all")

    text = connect_text(client)

    route = 'route="/v1/datasets/{name}/rows"'
    assert f'tensorlake_requests_total{{method="GET",{route},status="200"}} 1.0' in text
    assert f'tensorlake_requests_total{{method="GET",{route},status="422"}} 1.0' in text
    assert "tensorlake_streams 0.0" in text
    assert "pets" not in text
    assert "at/all" not in text


def connect_text(client: httpx.Client) -> str:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    return answer.text


def test_each_request_is_a_line_of_json_with_its_id_and_no_secret(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tensorlake.server.requests"):
        answer = client.get("/v1/datasets/pets/rows", params={"columns": "caption"})

    (line,) = [json.loads(one.message) for one in caplog.records if one.name.endswith("requests")]
    assert line["request"] == answer.headers["X-Request-Id"]
    assert (line["who"], line["status"], line["nbytes"]) == ("link", 200, len(answer.content))
    assert line["path"] == "/v1/datasets/pets/rows"
    assert "caption" not in json.dumps(line)


def test_too_many_requests_are_refused_with_the_time_to_wait(
    settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    slow = replace(settings, max_requests_per_s=0.001)  # nothing here takes a quarter of an hour
    client = connect(slow, token=settings.token)

    answers = [client.get("/v1/datasets") for _ in range(2)]

    assert [one.status_code for one in answers] == [200, 429]
    assert answers[1].json()["code"] == "too-many-requests"
    assert 0 < int(answers[1].headers["Retry-After"]) <= 1000


def test_health_is_answered_however_many_requests_strangers_make(
    settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    client = connect(replace(settings, max_requests_per_s=0.001))

    pages = {client.get("/pets").status_code for _ in range(5)}
    health = {client.get(path).status_code for path in ("/healthz", "/readyz") * 5}

    assert 429 in pages
    assert health == {200}


def test_metrics_need_a_token_where_there_are_tokens(
    tmp_path: Path, settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    auth = tmp_path / "tokens.toml"
    now = datetime.now(UTC)
    secret, _ = create_token(auth, name="prometheus", scopes=["read:none"], expires=None, now=now)
    public = replace(settings, host="0.0.0.0", auth=auth, public_read=True)

    statuses = {
        name: connect(public, token=token).get("/metrics").status_code
        for name, token in (("none", None), ("wrong", "tl_wrong"), ("right", secret))
    }

    assert statuses == {"none": 401, "wrong": 401, "right": 200}
    assert connect(replace(settings, host="0.0.0.0", public_read=True)).get("/metrics").is_success


@pytest.mark.parametrize("length", ["-1", "1e3", "²", "9" * 40, "", "0x10"])
def test_a_length_that_is_none_is_refused(client: httpx.Client, length: str) -> None:
    answer = client.post(
        "/v1/datasets/pets/query", content=b"{}", headers={"Content-Length": length.encode("utf-8")}
    )

    assert answer.status_code == 413


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("is_one_dataset", [False, True])
def test_a_lake_that_is_gone_is_not_ready_until_it_is_back(
    tmp_path: Path, connect: Callable[..., httpx.Client], host: str, *, is_one_dataset: bool
) -> None:
    lake, away = tmp_path / "lake", tmp_path / "away"
    dataset = lake if is_one_dataset else lake / "pets"
    tl.create(str(dataset), {"x": "int8"}).close()
    is_local = host == "127.0.0.1"
    client = connect(Settings(url=str(lake), host=host, public_read=not is_local))

    before = client.get("/readyz")
    lake.rename(away)
    gone, alive = client.get("/readyz"), client.get("/healthz")
    lake.mkdir()
    emptied = client.get("/readyz")
    lake.rmdir()
    away.rename(lake)
    back = client.head("/readyz")

    assert [one.status_code for one in (before, gone, alive, back)] == [200, 503, 200, 200]
    assert emptied.status_code == (503 if is_one_dataset else 200)
    assert gone.json()["code"] == "lake-unreadable"
    assert gone.headers["Retry-After"] == "5"
    assert "could not list" in gone.json()["detail"]
    assert (str(tmp_path) in gone.text) == is_local, "strangers learn no path"


def test_a_fault_of_the_server_is_answered_and_counted_like_anything(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("what nobody outside should read")

    app = create_app(settings)
    app.add_api_route("/v1/fails", fail)
    transport, sent = InProcess(app), {"Authorization": f"Bearer {settings.token}"}
    client = httpx.Client(transport=transport, base_url=HOST, headers=sent)

    answer = client.get("/v1/fails")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "nobody outside" not in answer.text
    assert "nobody outside" in caplog.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Request-Id"]
    assert 'route="/v1/fails",status="500"} 1.0' in connect_text(client)
