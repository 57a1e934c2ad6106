"""Tokens of every scope try to reach what theirs do not name: other datasets, branches, files.

An attempt is a request that hypothesis makes up of names, spellings and routes. Whatever is
answered, a canary that lies in what the scope does not cover must not be in it, and nothing there
may have changed: not one of them. What a scope does cover it tries to read and to write through as
well: a branch that it may write is a way to one that it may not.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening

FEW, MANY = 25, 1100
OF_THEM = 0.9  # what a scope may do is left out, where it would end what others are tried on
CANARY = "canary-7f3a91"
CHANGES_MAIN = {"write:pets", "admin:pets"}  # of pets: what it may do is no intrusion
SCOPES = [
    "read:pets", "write:pets@fix-*", "write:pets", "admin:pets", "read:vision/*",
    "write:vision/*@fix-*", "admin:vision/*", "read:none",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    address: str
    lake: Path
    tokens: dict[str, str]

    def forbidden(self, scope: str) -> dict[str, bytes]:
        """What a scope may not change, and its bytes."""
        files = [one for one in self.lake.parent.rglob("*") if one.is_file()]
        kept = [one for one in files if "secret" in one.parts or one.name == "passwords.txt"]
        if scope not in CHANGES_MAIN:
            kept += (self.lake / "pets/branches/main").glob("0*.json")
            kept += (self.lake / "pets/tags").glob("*")
        if not scope.startswith(("write:vision", "admin:vision")):
            kept += [one for one in files if "vision" in one.parts]
        return {str(one): one.read_bytes() for one in kept}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    root = tmp_path_factory.mktemp("intrusion")
    lake = root / "lake"
    lake.mkdir()
    for name in ("pets", "secret", "vision/digits"):
        ds = tl.create(str(lake / name), {"note": tl.Text()}, durability="none")
        ds.extend({"note": [CANARY if name == "secret" else "nothing"] * 3})
        ds.commit("rows")
        ds.branch("fix-a")
        ds.tag("v1")
    (lake / "passwords.txt").write_text(CANARY)
    (lake / "pets/passwords.txt").write_text(CANARY)
    (root / "secret").mkdir()
    (root / "secret/passwords.txt").write_text(CANARY)
    auth = root / "tokens.json"
    tokens = {
        scope: create_token(auth, name="eve", scopes=[scope], expires=None, now=datetime.now(UTC))[
            0
        ]
        for scope in SCOPES
    }
    app = create_app(
        Settings(url=str(lake), auth=auth, write=True, token="link", max_requests_per_s=1e6)
    )
    with listening(app) as address:
        yield Target(address, lake, tokens)


WAYS_OUT = [
    "secret", "pets~..~secret", "..~secret", "pets/../secret", "./secret", "secret~", "~secret",
    "Secret", "secret%00", "secret\x00", "vision~..~secret", "%2e%2e%2fsecret", "secret@main",
    "pets:secret", "*", "secret ", "\uff0e\uff0e/secret", "file:///etc/passwd", "passwords.txt",
]  # fmt: skip
PATHS = [
    "passwords.txt", "../secret/tensorlake.json", "..%2fsecret%2ftensorlake.json",
    "packs/../passwords.txt", "packs/../../secret/branches/main/0000000001.json",
    "branches/main/0000000002.json", "branches/main/HEAD", "tags/v9.json", "tensorlake.json",
    "branches/../passwords.txt", "packs//etc/passwd", "tags/../../secret/tags/x.json",
]  # fmt: skip
QUERIES = [
    "SELECT * FROM 'secret'", 'SELECT * FROM "../secret"', "SELECT * FROM secret",
    "SELECT note FROM this VERSION 'secret@1'", "SELECT * WHERE note = (SELECT note FROM 'secret')",
    "SELECT * FROM 'file:///etc/passwd'", "SELECT * FROM 'http://127.0.0.1/secret'",
]  # fmt: skip
names = st.one_of(st.sampled_from(WAYS_OUT), st.text(max_size=12).map(lambda end: f"secret{end}"))
suffixes = st.sampled_from(
    ["", "/rows", "/versions", "/branches", "/tags", "/views", "/objects", "/folders?prefix=",
     "/statistics/note", "/tensors/note/0", "/diff?a=main@0", "/events?wait=false", "/views/x"]
)  # fmt: skip
Attempt = tuple[str, str, Any]


def _encoded(name: str, *, raw: bool) -> str:
    safe = "/%~:*" if raw else ""
    return quote(name.encode("utf-8", "surrogatepass"), safe=safe)


def _get(name: str, suffix: str, raw: bool) -> Attempt:  # noqa: FBT001 - hypothesis calls it
    return "GET", f"/v1/datasets/{_encoded(name, raw=raw)}{suffix}", None


def _object(name: str, path: str, raw: bool, puts: bool) -> Attempt:  # noqa: FBT001 - likewise
    at = f"/v1/datasets/{_encoded(name, raw=raw)}/objects/{_encoded(path, raw=raw)}"
    return ("PUT", at, b"{}") if puts else ("GET", at, None)


def _ask(name: str, what: str, tql: str) -> Attempt:
    body = {
        "query": {"tql": tql},
        "selection": {"steps": [{"tql": tql}]},
        "stream": {"steps": [{"tql": tql}], "batch_size": 1},
        "query/explain": {"tql": tql},
        "views": {"name": "x", "view": tql},
        "merge": {"source": "../secret", "branch": "main"},
        "branches": {"name": "../../secret/branches/x", "at": "main"},
        "tags": {"name": "../../secret/tags/x", "at": "main"},
        "restore": {"restored": "../secret@1", "branch": "main"},
    }[what]
    return "POST", f"/v1/datasets/{_encoded(name, raw=False)}/{what}", body


def _change(name: str, branch: str, operation: dict[str, Any], base: str | None) -> Attempt:
    body = {"operations": [operation], "branch": branch, "base_version": base, "key": None}
    return "POST", f"/v1/datasets/{_encoded(name, raw=False)}/transactions", body


def _bring(name: str, source: str, branch: str, what: str) -> Attempt:
    body = {"source": source, "branch": branch} if what == "merge" else {
        "restored": source, "branch": branch
    }  # fmt: skip
    return "POST", f"/v1/datasets/{_encoded(name, raw=False)}/{what}", body


def _remove(name: str, what: str, raw: bool) -> Attempt:  # noqa: FBT001 - likewise
    end = what or f"?confirm={quote(name)}"
    return "DELETE", f"/v1/datasets/{_encoded(name, raw=raw)}{end}", None


def _make(name: str) -> Attempt:
    return "POST", "/v1/datasets", {"name": name, "schema": {"x": "int64"}, "exist_ok": True}


def _forged(name: str, view: dict[str, Any], mac: bytes) -> Attempt:
    packed = base64.urlsafe_b64encode(json.dumps(view).encode()).decode().rstrip("=")
    token = f"{packed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    return "GET", f"/v1/datasets/{_encoded(name, raw=False)}/rows?view={token}", None


BRANCHES = [
    "main", "fix-a", "fix-../main", "fix-a/../main", "fix-a~..~main", "MAIN", "main ", "v1",
    "fix-\x00main", "../../secret/branches/main",
]  # fmt: skip
OPERATIONS: list[dict[str, Any]] = [
    {"op": "append", "columns": {"note": ["theirs"]}},
    {"op": "delete", "rows": [0]},
    {"op": "update", "tensor": "note", "where": "true", "value": "theirs"},
    {"op": "update", "tensor": "note", "where": "note = (SELECT note FROM 'secret')", "value": "x"},
    {"op": "drop_tensor", "tensor": "note"},
    {"op": "append", "columns": {"note": [{"$base64": "Li4vc2VjcmV0"}]}},
]
branches = st.sampled_from(BRANCHES)
everywhere = st.one_of(names, st.just("pets"), st.just("vision/digits"))
attempts: st.SearchStrategy[Attempt] = st.one_of(
    st.builds(_get, names, suffixes, st.booleans()),
    st.builds(_object, everywhere, st.sampled_from(PATHS), st.booleans(), st.booleans()),
    st.builds(
        _ask,
        everywhere,
        st.sampled_from(
            [
                "query",
                "selection",
                "stream",
                "query/explain",
                "views",
                "merge",
                "branches",
                "tags",
                "restore",
            ]
        ),
        st.sampled_from(QUERIES),
    ),
    st.builds(
        _change,
        everywhere,
        branches,
        st.sampled_from(OPERATIONS),
        st.sampled_from([None, "main@1", "secret@1", "../secret@1"]),
    ),
    st.builds(_bring, everywhere, branches, branches, st.sampled_from(["merge", "restore"])),
    st.builds(
        _remove,
        names,
        st.sampled_from(
            ["", "/branches/fix-a", "/branches/main", "/tags/v1", "/objects/tensorlake.json"]
        ),
        st.booleans(),
    ),
    st.builds(_remove, everywhere, st.sampled_from(["/branches/main", "/tags/v1"]), st.booleans()),
    st.builds(_make, names),
    st.builds(
        _forged,
        everywhere,
        st.fixed_dictionaries({"dataset": names, "tql": st.sampled_from(QUERIES)}),
        st.binary(max_size=16),
    ),
)


def attack(target: Target, scope: str, attempts_each: int) -> None:
    before, sent_count = target.forbidden(scope), 0
    headers = {"Authorization": f"Bearer {target.tokens[scope]}"}

    with httpx.Client(base_url=target.address, headers=headers, timeout=60) as client:

        @settings(
            max_examples=attempts_each,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(attempt=attempts)
        def intrude(attempt: Attempt) -> None:
            nonlocal sent_count
            method, path, body = attempt
            if scope in CHANGES_MAIN and method == "DELETE" and "/pets/" in path:
                return
            sent_count += 1
            content = body if isinstance(body, bytes) else None
            sent = None if isinstance(body, bytes) else body
            answer = client.request(method, path, content=content, json=sent)
            assert CANARY.encode() not in answer.content, f"{method} {path}: {answer.text}"
            assert answer.status_code < 500 or answer.status_code == 501, (
                f"{method} {path}: {answer.text}"
            )

        intrude()
        listed = client.get("/v1/datasets").json()["datasets"]

    assert sent_count >= OF_THEM * attempts_each
    assert {"name": "secret"} not in listed
    assert target.forbidden(scope) == before


@pytest.mark.parametrize("scope", SCOPES[:3])
def test_no_attempt_reaches_what_the_scope_does_not_name(target: Target, scope: str) -> None:
    attack(target, scope, FEW)


@pytest.mark.soak
@pytest.mark.parametrize("scope", SCOPES)
def test_none_of_a_thousand_attempts_reaches_it(target: Target, scope: str) -> None:
    attack(target, scope, MANY)
