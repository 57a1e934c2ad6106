"""The viewer's files as they were packed: which encoding, which ETag, which range of it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tensorlake_server import Settings
from tensorlake_server.http.negotiation import choose_encoding

SCRIPT = b"const pets = ['cat', 'dog'];\n" * 99
BROTLI = b"stands for what a browser unpacks: Python has no Brotli of its own"
PATH = "/assets/index-abc.js"


@pytest.fixture
def viewer(
    settings: Settings, tmp_path: Path, connect: Callable[..., httpx.Client]
) -> httpx.Client:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    script = tmp_path / "assets/index-abc.js"
    script.write_bytes(SCRIPT)
    script.with_name(script.name + ".br").write_bytes(BROTLI)
    script.with_name(script.name + ".gz").write_bytes(gzip.compress(SCRIPT, mtime=0))
    (tmp_path / "assets/alone.gz").write_bytes(b"a file of its own")
    return connect(replace(settings, static=tmp_path))


def raw(viewer: httpx.Client, accept: str | None, **headers: str) -> httpx.Response:
    """Answers as they are on the wire: what httpx unpacks is asked for without it."""
    viewer.headers.pop("Accept-Encoding", None)
    asked = {} if accept is None else {"Accept-Encoding": accept}
    return viewer.get(PATH, headers={**asked, **headers})


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP;Q=0.3", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.2, gzip;q=0.8", "gzip"),
        ("*", "br"),
        ("*;q=0.1, br;q=0", "gzip"),
        ("gzip;q=0", "identity"),
        ("identity", "identity"),
        ("", "identity"),
        ("br;q=nonsense", "br"),
        (";;;,,=", "identity"),
    ],
)
def test_the_encoding_is_the_best_that_is_accepted(accept: str, encoding: str) -> None:
    assert choose_encoding(accept, ("br", "gzip", "identity")) == encoding


def test_each_encoding_is_sent_with_its_name_and_an_etag_of_its_own(viewer: httpx.Client) -> None:
    with viewer.stream("GET", PATH, headers={"Accept-Encoding": "br"}) as packed:
        assert b"".join(packed.iter_raw()) == BROTLI
    unpacked, plain = raw(viewer, "gzip"), raw(viewer, "identity")

    assert [one.headers.get("Content-Encoding") for one in (packed, unpacked, plain)] == [
        "br",
        "gzip",
        None,
    ]
    assert unpacked.content == plain.content == SCRIPT
    assert len({one.headers["ETag"] for one in (packed, unpacked, plain)}) == 3
    assert {one.headers["Vary"] for one in (packed, unpacked, plain)} == {"Accept-Encoding"}
    assert {one.headers["Content-Type"].split(";")[0] for one in (packed, plain)} == {
        "text/javascript"
    }
    assert "immutable" in packed.headers["Cache-Control"]


def test_what_the_client_has_is_not_sent_again_unless_it_takes_another_encoding(
    viewer: httpx.Client,
) -> None:
    etag = raw(viewer, "gzip").headers["ETag"]

    again = raw(viewer, "gzip", **{"If-None-Match": etag})
    other = raw(viewer, "identity", **{"If-None-Match": etag})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["Vary"] == "Accept-Encoding"
    assert (other.status_code, other.content) == (200, SCRIPT)


def test_a_range_is_of_the_encoded_bytes_and_never_of_two_encodings(viewer: httpx.Client) -> None:
    etag = raw(viewer, "identity").headers["ETag"]
    packed = gzip.compress(SCRIPT, mtime=0)

    part = raw(viewer, "identity", Range="bytes=3-9", **{"If-Range": etag})
    with viewer.stream(
        "GET", PATH, headers={"Accept-Encoding": "gzip", "Range": "bytes=2-"}
    ) as rest:
        assert b"".join(rest.iter_raw()) == packed[2:]
    whole = raw(viewer, "gzip", Range="bytes=3-9", **{"If-Range": etag})

    assert (part.status_code, part.content) == (206, SCRIPT[3:10])
    assert (rest.status_code, whole.status_code) == (206, 200)
    assert whole.content == SCRIPT
    beyond = raw(viewer, "identity", Range="bytes=99999-")
    assert (beyond.status_code, beyond.json()["code"]) == (416, "range-not-satisfiable")


def test_replicas_have_the_same_etag(
    viewer: httpx.Client, settings: Settings, tmp_path: Path, connect: Callable[..., httpx.Client]
) -> None:
    other = tmp_path / "other"
    (other / "assets").mkdir(parents=True)
    (other / "assets/index-abc.js").write_bytes(SCRIPT)

    answer = raw(connect(replace(settings, static=other)), "identity")

    assert answer.headers["ETag"] == raw(viewer, "identity").headers["ETag"]


def test_a_packed_file_has_no_address_of_its_own(viewer: httpx.Client) -> None:
    assert viewer.get(f"{PATH}.gz").status_code == 404
    assert viewer.get("/assets/alone.gz").status_code == 200
    assert viewer.get("/assets/nothing.js").json()["code"] == "not-found"


def test_the_head_of_a_file_is_that_of_its_answer(viewer: httpx.Client) -> None:
    asked, got = viewer.head(PATH), raw(viewer, "gzip, deflate")

    assert (asked.status_code, asked.content) == (200, b"")
    assert {**asked.headers, "x-request-id": ""} == {**got.headers, "x-request-id": ""}
