"""Branches, tags, merges and restores over HTTP: in whose name they are made, and their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.unit.server.written import Written, columns, send

NOTES = "/v1/datasets/notes"
CHECKED = 200, 201, 204


@pytest.fixture
def written(tmp_path: Path, connect: Callable[..., httpx.Client]) -> Written:
    return Written(tmp_path, connect)


def test_all_that_a_token_publishes_is_in_its_name(written: Written) -> None:
    client = written.client("write:*")
    view = client.post(f"{NOTES}/query", json={"tql": "WHERE x > 0"}).json()["view"]

    answers = [
        client.post(f"{NOTES}/branches", json={"name": "fix"}),
        send(client, columns(), branch="fix"),
        send(client, columns()),
        client.post(f"{NOTES}/merge", json={"source": "fix"}),
        client.post(f"{NOTES}/restore", json={"restored": "main@1"}),
        client.post(f"{NOTES}/views", json={"name": "some", "view": view}),
        client.post("/v1/datasets", json={"name": "new", "schema": {"x": "int8"}}),
    ]

    assert {one.status_code for one in answers} <= set(CHECKED), [one.text for one in answers]
    log = {one.version: one.author for one in written.notes.log()}
    assert {log[f"main@{number}"] for number in (2, 3, 4)} == {"ana"}
    made = client.get(f"{NOTES}/versions", params={"version": "fix@1"}).json()["versions"][0]
    assert made["author"] == "ana"
    assert client.get(f"{NOTES}/views").json()["views"][0]["author"] == "ana"
    begun = client.get("/v1/datasets/new/versions").json()["versions"]
    assert [one["author"] for one in begun] == ["ana"]


def test_the_servers_own_user_is_named_again_after_a_tokens(written: Written) -> None:
    written.client("write:notes").post(f"{NOTES}/restore", json={"restored": "main@0"})

    written.notes.restore("main@1")

    newest, of_token, own, *_ = written.notes.log()
    assert of_token.author == "ana"
    assert newest.author == own.author != "ana"


@pytest.mark.parametrize(
    ("name", "in_path"),
    [
        ("v/1", "v~1"),
        ("v~1", "v~~1"),
        ("v/~1", "v~!~~1"),
        ("v~/1", "v~~~1"),
        ("v/!1", "v~!!1"),
        ("a.b", "a.b"),
        ("ünï cödé", "ünï cödé"),
    ],
)
@pytest.mark.parametrize("what", ["tags", "branches"])
def test_whatever_its_name_it_can_be_given_up(
    written: Written, what: str, name: str, in_path: str
) -> None:
    client = written.client("write:notes")
    made = client.post(f"{NOTES}/{what}", json={"name": name})

    gone = client.delete(f"{NOTES}/{what}/{in_path}")

    assert (made.status_code, gone.status_code) == (201, 204), gone.text
    assert name not in [one["name"] for one in client.get(f"{NOTES}/{what}").json()[what]]


def test_a_dataset_and_a_tensor_with_a_tilde_are_reached(written: Written) -> None:
    client = written.client("write:*")
    client.post("/v1/datasets", json={"name": "my~data/of~ana", "schema": {"x~y": "int8"}})
    at = "/v1/datasets/my~~data~of~~ana"
    appended = {"op": "append", "columns": {"x~y": [7]}}

    committed = client.post(f"{at}/transactions", json={"operations": [appended]})

    assert committed.status_code == 200, committed.text
    assert client.get(at).json()["name"] == "my~data/of~ana"
    assert client.get(f"{at}/tensors/x~~y/0").status_code == 200


@pytest.mark.parametrize("version", ["main@" + "9" * 5000, "main@" + "0" * 5000 + "9"])
def test_a_version_of_thousands_of_digits_is_none(written: Written, version: str) -> None:
    client = written.client("write:notes")

    based = send(client, columns(), base_version=version)
    followed = client.get(f"{NOTES}/events", params={"wait": "false", "after": version})

    assert {based.status_code, followed.status_code} <= {400, 404}
    assert {based.json()["code"], followed.json()["code"]} <= {"invalid-input", "version-not-found"}
