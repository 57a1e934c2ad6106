"""A token for a saved view tries every route of the API to reach what the view does not have.

Requests are made up from the OpenAPI document: each route and method, with names, versions, rows,
queries and bodies that are known to work elsewhere. Rows and columns outside the view hold a
canary, versions outside it have it in their messages, and numbers outside it are one number: none
is in a request, and none may be in an answer. What is inside does come, and is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening

FEW, MANY = 240, 1200
OUTSIDE, INSIDE = "canary-7f3a91", "inside-55c0"
NUMBER = 918_273_645
SCOPES = ["read:pets#cats", "read:pets#columns", "viewer:p*#cat*"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    root = tmp_path_factory.mktemp("views")
    make_pets(root / "lake")
    auth = root / "tokens.json"
    now = datetime.now(UTC)
    tokens = {
        scope: create_token(auth, name="eve", scopes=[scope], expires=None, now=now)[0]
        for scope in SCOPES
    }
    app = create_app(
        Settings(url=str(root / "lake"), auth=auth, write=True, max_requests_per_s=1e6)
    )
    with listening(app) as address:
        yield address, tokens


def make_pets(lake: Path) -> None:
    """Rows 0 … 4 are inside ``cats``, the columns ``note`` and ``x`` inside ``columns``."""
    schema = {
        "note": tl.Text(), "x": "int64", "private": tl.Text(), OUTSIDE: tl.Text(),
        "vector": tl.Embedding(4), "kind": tl.ClassLabel(["cat", "dog"]),
    }  # fmt: skip
    with tl.create(str(lake / "pets"), schema, durability="none") as ds:
        for message in (f"first {OUTSIDE}", f"second {OUTSIDE}"):
            ds.extend(
                {
                    "note": [f"{INSIDE} {i}" if i < 5 else OUTSIDE for i in range(10)],
                    "x": [i if i < 5 else NUMBER for i in range(10)],
                    "private": [OUTSIDE] * 10,
                    OUTSIDE: [OUTSIDE] * 10,
                    "vector": np.ones((10, 4), np.float32),
                    "kind": ["cat"] * 5 + ["dog"] * 5,
                }
            )
            ds.commit(message)
        names = ["note", "x", "vector", "kind"]
        ds.query(f"SELECT {', '.join(names)} WHERE x < 5").save("cats")
        ds.where("x < 5")[["note", "x"]].save("columns")
        for name_ in ("dogs", OUTSIDE):  # what an attacker guesses, and what nobody told
            ds.where(f"x = {NUMBER}").save(name_)
        ds.tag("v1")
        ds.branch("fix")


NAMES = [
    "pets", "pets#cats", "pets#columns", "pets#dogs", "pets#", "#cats", "pets#cats#columns",
    "pets#../pets", "pets#*", "*", "pets#cats/../../pets", "pets#cats@main", "pets#v1", "PETS#cats",
    "pets%23cats", "pets#cats\x00", "./pets", "pets/", "pets#cats ",
]  # fmt: skip
VERSIONS = ["main", "main@0", "main@1", "main@2", "fix", "v1", "cats", "dogs", "main@-1", None]
COLUMNS = ["note", "x", "vector", "kind", "private", "_source", "_row_id", "*"]
QUERIES = [
    "SELECT *", "SELECT * FROM this VERSION 'main@0'", "SELECT * FROM this VERSION 'main@2'",
    "SELECT * FROM this VERSION 'v1'", 'SELECT * FROM "pets"', 'SELECT * FROM "../pets"',
    "SELECT MAX(x), COUNT(*)", "SELECT private", "SELECT note FROM 'pets#cats'",
    "SELECT * FROM this VERSION 'fix'", "SELECT MIN(x) FROM 'pets'", "WHERE x > 100",
    "SELECT * FROM 'pets#dogs'", "SELECT COUNT(*) FROM this VERSION 'main@1'",
]  # fmt: skip
ROWS = [0, 1, 4, 5, 9, 10, -1, 2**40]
PATHS = [
    "tensorlake.json", "branches/main/0000000000.json", "branches/main/0000000001.json",
    "branches/main/0000000002.json", "branches/main/HEAD", "tags/v1.json",
    "../pets/tensorlake.json", "branches/fix/HEAD", "tags/dogs.json",
    "packs/../../pets/tensorlake.json",
]  # fmt: skip
name = st.one_of(st.sampled_from(["pets#cats", "pets#columns"]), st.sampled_from(NAMES))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": name,
    "tensor": st.sampled_from(COLUMNS),
    "other": st.sampled_from(COLUMNS),
    "row": st.sampled_from(ROWS),
    "branch": st.sampled_from(["main", "fix"]),
    "tag": st.just("v1"),
    "view": st.sampled_from(["cats", "columns", "dogs", "none"]),
    "path": st.sampled_from(PATHS),
    "columns": st.sampled_from(COLUMNS),
    "version": st.sampled_from(VERSIONS),
    "a": st.sampled_from(VERSIONS),
    "b": st.sampled_from(VERSIONS),
    "offset": st.sampled_from([0, 1, 5, 9]),
    "limit": st.sampled_from([0, 1, 100, 1000]),
    "prefix": st.sampled_from(["", "branches/", "tags/", "packs/", "../pets/"]),
    "confirm": name,
    "wait": st.just("false"),
    "pred_probs": st.sampled_from(COLUMNS),
    "color": st.sampled_from(COLUMNS),
}
IN_BODIES: dict[str, st.SearchStrategy[Any]] = {
    "tql": st.sampled_from(QUERIES),
    "cursor": st.integers(0, 20),
    "version": st.sampled_from(VERSIONS),
    "base_version": st.sampled_from(VERSIONS),
    "saved": st.sampled_from(["cats", "dogs"]),
    "steps": st.lists(st.fixed_dictionaries({"tql": st.sampled_from(QUERIES)}), max_size=2),
    "columns": st.lists(st.sampled_from(COLUMNS), max_size=2),
    "column": st.just("vector"),
    "query": st.just([1.0, 1.0, 1.0, 1.0]),
    "row": st.sampled_from(ROWS),
    "rows": st.just([0, 5]),
    "k": st.just(10),
    "where": st.sampled_from(["x > 100", "true"]),
    "batch_size": st.just(4),
    "tensor": st.sampled_from(COLUMNS),
    "size": st.just(32),
    "name": name,
    "at": st.sampled_from(VERSIONS),
    "source": st.sampled_from(["main", "fix", "../pets"]),
    "restored": st.sampled_from(["main@1", "main@2"]),
    "branch": st.sampled_from(["main", "fix"]),
    "operations": st.just([{"op": "delete", "where": "true"}]),
    "schema": st.just({"x": "int64"}),
}


@cache
def routes() -> list[tuple[str, str, list[dict[str, Any]], dict[str, bool]]]:
    """Every route of the OpenAPI document: its parameters, and members of its body if required."""
    document = create_app(Settings(url="memory://none")).openapi()
    found: list[tuple[str, str, list[dict[str, Any]], dict[str, bool]]] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            named = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            schema = document["components"]["schemas"].get(named.rpartition("/")[2], {})
            required = schema.get("required", ())
            members = {one: one in required for one in schema.get("properties", ())}
            if path != "/v1/session":
                found.append((method.upper(), path, operation.get("parameters", []), members))
    return found


@st.composite
def attempts(draw: st.DrawFn) -> tuple[str, str, dict[str, Any], Any]:
    method, path, parameters, members = draw(st.sampled_from(routes()))
    given_: dict[str, Any] = {}
    for parameter in parameters:
        called = parameter["name"]
        value = draw(VALUES.get(called, st.just("x")))
        if parameter["in"] == "path":
            part = str(value) if called == "path" else str(value).replace("/", "~")
            path = path.replace(
                f"{{{called}}}", quote(part, safe="~!/" if called == "path" else "~!")
            )
        elif parameter["in"] == "query" and (
            parameter.get("required") or called == "wait" or draw(st.booleans())
        ):
            given_[called] = value
    chosen = [one for one in IN_BODIES if one in members]
    body = {one: draw(IN_BODIES[one]) for one in chosen if members[one] or draw(st.booleans())}
    return method, path, {key: one for key, one in given_.items() if one is not None}, body


def attack(served: tuple[str, dict[str, str]], scope: str, count: int) -> None:
    address, tokens = served
    sent = reached = 0
    headers = {"Authorization": f"Bearer {tokens[scope]}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:

        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        @given(attempt=attempts())
        def intrude(attempt: tuple[str, str, dict[str, Any], Any]) -> None:
            nonlocal sent, reached
            method, path, query, body = attempt
            answer = client.request(method, path, params=query, json=body or None)
            sent += 1
            asked = f"{method} {path} {query} {json.dumps(body)}"
            assert OUTSIDE.encode() not in answer.content, f"{asked}: {answer.text}"
            assert str(NUMBER).encode() not in answer.content, f"{asked}: {answer.text}"
            assert NUMBER.to_bytes(8, "little") not in answer.content, f"{asked}: {answer.text}"
            assert answer.status_code < 500 or answer.status_code == 501, f"{asked}: {answer.text}"
            assert method in ("GET", "HEAD", "POST") or answer.status_code >= 400, asked
            reached += INSIDE.encode() in answer.content

        intrude()

    assert sent >= 0.9 * count
    assert reached > 0


@pytest.mark.parametrize("scope", SCOPES[:1])
def test_no_attempt_reaches_what_the_view_does_not_have(
    served: tuple[str, dict[str, str]], scope: str
) -> None:
    attack(served, scope, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
def test_none_of_a_thousand_attempts_reaches_it(
    served: tuple[str, dict[str, str]], scope: str
) -> None:
    attack(served, scope, MANY)
