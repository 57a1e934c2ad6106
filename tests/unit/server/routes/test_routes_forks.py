"""Forks over HTTP: a server reads a base only where it follows links, and clients name none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.format import seal
from tensorlake.versions import author
from tensorlake_server.settings.settings import Settings
from tests.support.file_server import FileServer, file_server
from tests.support.hostile_entries import honest_entry
from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"
FORK = "/v1/datasets/fork"


@pytest.fixture
def web(tmp_path: Path):
    """A web server with a dataset of 40 rows; the lake has a fork of it."""
    with file_server() as served:
        base = tl.create(
            tmp_path / "base", {"x": "int64", "vec": tl.Embedding(64)}, durability="none"
        )
        base.extend({"x": [*range(40)], "vec": np.random.default_rng(0).random((40, 64))})
        base.commit("forty")
        for path in (tmp_path / "base").rglob("*"):
            if path.is_file():
                name = path.relative_to(tmp_path / "base").as_posix()
                served.files[f"base/{name}"] = path.read_bytes()
        with pytest.warns(tl.UntaggedBaseWarning):
            tl.fork(f"{served.url}/base", tmp_path / "lake/fork")
        served.asked.clear()
        yield served


def settings(lake: Path, *, follow: bool) -> Settings:
    return Settings(
        url=str(lake),
        token=TOKEN,
        signing_key=b"k" * 16,
        static=lake / "none",
        write=True,
        follow_links=follow,
    )


def test_a_base_is_not_read(web: FileServer, tmp_path: Path, connect: AppClient) -> None:
    client = connect(settings(tmp_path / "lake", follow=False), token=TOKEN)

    assert client.get(FORK).status_code == 200
    for path, body in (
        ("query", {"tql": "SELECT x, vec"}),
        ("query", {"tql": "SELECT SUM(x) AS n"}),
        (
            "transactions",
            {"operations": [{"op": "update", "tensor": "x", "rows": [0], "value": 1}]},
        ),
    ):
        answer = client.post(f"{FORK}/{path}", json=body)
        assert answer.status_code == 403, answer.text
        assert "--follow-links" in answer.json()["detail"]
    assert client.get(f"{FORK}/rows").status_code == 403
    assert web.asked == []


def test_a_base_is_read_where_links_are_followed(
    web: FileServer, tmp_path: Path, connect: AppClient
) -> None:
    client = connect(settings(tmp_path / "lake", follow=True), token=TOKEN)

    rows = client.get(f"{FORK}/rows").json()["rows"]
    assert [row["x"] for row in rows] == [*range(40)]
    body = {"operations": [{"op": "update", "tensor": "x", "rows": [3], "value": -3}]}
    answer = client.post(f"{FORK}/transactions", json=body)
    assert answer.status_code in (200, 201), answer.text
    ds = tl.open(tmp_path / "lake/fork")
    assert ds["x"][:5].tolist() == [0, 1, 2, -3, 4]
    assert ds.bases[0].url == f"{web.url}/base"


@pytest.mark.parametrize("follow", [False, True])
def test_no_client_names_a_base(
    web: FileServer, tmp_path: Path, connect: AppClient, *, follow: bool
) -> None:
    plain = tl.create(tmp_path / "lake/plain", {"x": "int64"}, durability="none")
    plain.append({"x": 1})
    plain.commit("one")
    client = connect(settings(tmp_path / "lake", follow=follow), token=TOKEN)
    fork = tl.open(tmp_path / "lake/fork")
    secret = {"branch": "main", "digest": "0" * 40, "id": "0" * 32, "seq": 1}
    secret["url"] = f"{web.url}/secret"

    for name, ds in (("plain", plain), ("fork", fork)):
        session = session_of(ds)
        web.asked.clear()
        honest = json.loads(json.dumps(honest_entry(session.head, "main", author=author())))
        own = honest.get("bases", [])
        for bases in ([*own, secret], [secret, *own], [secret]):
            entry = {**honest, "bases": bases}
            entry["features"] = {**entry["features"], "read": ["pack-bases"]}
            path = f"/v1/datasets/{name}/objects/branches/main/{session.head.seq + 1:010}.json"
            answer = client.put(path, content=seal(entry), headers={"If-None-Match": "*"})
            assert 400 <= answer.status_code < 500, answer.text
            assert "bases are not those" in answer.json()["detail"], answer.json()["detail"]
        assert not [one for one in web.asked if "secret" in one[1]]
    if not follow:
        assert web.asked == []


def test_a_schema_that_is_in_the_base_is_not_read(
    web: FileServer, tmp_path: Path, connect: AppClient
) -> None:
    schema = {f"{'name' * 40}-{at}": tl.Text(nullable=True) for at in range(200)}
    tl.create(tmp_path / "wide", schema, durability="none")
    tl.fork(tmp_path / "wide", tmp_path / "lake/wide")
    client = connect(settings(tmp_path / "lake", follow=False), token=TOKEN)

    answer = client.get("/v1/datasets/wide")

    assert answer.status_code == 403, answer.text
    assert "--follow-links" in answer.text
    followed = connect(settings(tmp_path / "lake", follow=True), token=TOKEN)
    assert followed.get("/v1/datasets/wide").status_code == 200
