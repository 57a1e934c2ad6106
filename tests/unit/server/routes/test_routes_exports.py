"""``POST …/exports``: files of other formats, for their client alone."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tensorlake_server.http.problems import Problem
from tensorlake_server.lake.exports import Exports
from tests.unit.server.conftest import HOST, TOKEN, AppClient, InProcess

SCOPES = {"ana": ["read"], "ben": ["read"], "partner": ["read:pets#best"], "other": ["read:none"]}
PATH = "/v1/datasets/pets/exports"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("exported") / "lake"
    with tl.create(str(lake / "pets"), {"x": "int64", "name": "str"}, durability="none") as ds:
        ds.extend({"x": list(range(100)), "name": [f"n{i}" for i in range(100)]})
        ds.commit("rows")
        ds.query("SELECT x WHERE x >= 90").save("best")
    return lake


@pytest.fixture
def served(lake: Path, tmp_path: Path) -> dict[str, httpx.Client]:
    """A client of each token."""
    auth, now = tmp_path / "tokens.json", datetime.now(UTC)
    tokens = {
        name: create_token(auth, name=name, scopes=scopes, expires=None, now=now)[0]
        for name, scopes in SCOPES.items()
    }
    settings = Settings(url=str(lake), auth=auth, exports=tmp_path / "exports")
    transport = InProcess(create_app(settings))
    return {
        name: httpx.Client(
            transport=transport, base_url=HOST, headers={"Authorization": f"Bearer {token}"}
        )
        for name, token in tokens.items()
    }


def test_rows_are_a_file_of_the_format_for_their_client_alone(served) -> None:
    ana = served["ana"]
    body = {"format": "parquet", "steps": [{"tql": "WHERE x < 7"}], "columns": ["name", "x"]}

    made = ana.post(PATH, json=body)

    assert made.status_code == 201
    said = made.json()
    assert (said["file"], said["rows"], said["version"]) == ("pets.parquet", 7, "main@1")
    assert made.headers["Location"] == said["url"] == f"/v1/exports/{said['id']}"
    file = ana.get(said["url"])
    assert file.headers["Content-Disposition"] == 'attachment; filename="pets.parquet"'
    assert len(file.content) == said["nbytes"]
    table = pq.read_table(io.BytesIO(file.content))
    assert (table.column_names, table["x"].to_pylist()) == (["name", "x"], list(range(7)))
    part = ana.get(said["url"], headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"PAR1")
    for method in ("GET", "DELETE"):
        refused = served["ben"].request(method, said["url"])
        assert (refused.status_code, refused.json()["code"]) == (404, "export-not-found")
    assert ana.delete(said["url"]).status_code == 204
    assert ana.get(said["url"]).status_code == 404


def test_a_download_goes_on_from_a_byte_and_is_not_sent_twice(served) -> None:
    ana = served["ana"]
    url = ana.post(PATH, json={"format": "csv"}).json()["url"]
    whole = ana.get(url)
    etag = whole.headers["ETag"]

    again = ana.get(url, headers={"If-None-Match": etag})
    rest = ana.get(url, headers={"Range": "bytes=7-", "If-Range": etag})
    other = ana.get(url, headers={"Range": "bytes=7-", "If-Range": '"another"'})
    long = ana.get(url, headers={"Range": f"bytes=000-{'9' * 5_000}"})
    beyond = ana.get(url, headers={"Range": f"bytes={len(whole.content)}-"})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["Cache-Control"] == whole.headers["Cache-Control"] == "private, no-cache"
    assert (rest.status_code, rest.content) == (206, whole.content[7:])
    assert (other.status_code, other.content) == (200, whole.content)
    assert (long.status_code, long.content) == (206, whole.content)
    for matches in (etag, "*", f'"another", {etag}'):
        part = ana.get(url, headers={"If-Match": matches, "Range": "bytes=7-"})
        assert (part.status_code, part.content) == (206, whole.content[7:])
    for matches in ('"another"', f"W/{etag}"):
        refused = ana.get(url, headers={"If-Match": matches, "If-None-Match": etag})
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition-failed")
    assert (beyond.status_code, beyond.json()["code"]) == (416, "range-not-satisfiable")
    assert beyond.headers["Content-Type"] == "application/problem+json"
    assert beyond.headers["Content-Range"] == f"bytes */{len(whole.content)}"
    for invalid in ("bytes=5-2", "bytes=a-b", "rows=0-1", "bytes=0-1,3-4"):
        assert ana.get(url, headers={"Range": invalid}).content == whole.content
    assert ana.delete(url).status_code == 204
    assert ana.get(url, headers={"If-None-Match": etag}).status_code == 404


def test_a_download_of_several_pieces_is_whole(served, lake: Path) -> None:
    ana = served["ana"]
    with tl.create(str(lake / "zähler"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": np.arange(400_000)})
        ds.commit("rows")
    url = ana.post("/v1/datasets/zähler/exports", json={"format": "csv"}).json()["url"]

    sent = ana.get(url)

    assert sent.content == b'"x"\n' + b"".join(b"%d\n" % x for x in range(400_000))
    assert len(sent.content) > 2 << 20
    assert sent.headers["Content-Length"] == str(len(sent.content))
    name = "attachment; filename*=UTF-8''z%C3%A4hler.csv"
    assert sent.headers["Content-Disposition"] == name


@pytest.mark.parametrize("kind", ["csv", "jsonl", "hdf5", "webdataset", "mds", "zarr"])
def test_each_format_has_all_rows(served, lake: Path, tmp_path: Path, kind: str) -> None:
    pytest.importorskip({"hdf5": "h5py", "zarr": "zarr"}.get(kind, "json"))
    ana = served["ana"]
    said = ana.post(PATH, json={"format": kind}).json()
    content = ana.get(said["url"]).content

    with tl.open(str(lake / "pets"), read_only=True) as ds:
        ds.export(kind, tmp_path / "pets")
    own = tmp_path / "pets"
    if own.is_file():
        if kind != "hdf5":  # which notes times
            assert content == own.read_bytes()
        assert said["file"].rpartition(".")[2] in (kind, "h5")
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        folder = {
            f"pets/{one.relative_to(own).as_posix()}": one.read_bytes()
            for one in own.rglob("*")
            if one.is_file()
        }
        assert files.keys() == folder.keys()
        assert said["file"] == "pets.zip"


def test_a_scope_for_a_view_exports_the_view(served) -> None:
    partner = served["partner"]

    made = partner.post("/v1/datasets/pets%23best/exports", json={"format": "jsonl"})

    said = made.json()
    rows = [json.loads(line) for line in partner.get(said["url"]).text.splitlines()]
    assert rows == [{"x": x} for x in range(90, 100)]
    assert said["file"] == "pets-best.jsonl"
    for who in ("partner", "other"):
        assert served[who].post(PATH, json={"format": "csv"}).status_code == 404


def test_what_cannot_be_exported_leaves_nothing(served, tmp_path: Path) -> None:
    ana = served["ana"]

    unknown = ana.post(PATH, json={"format": "xls"})
    column = ana.post(PATH, json={"format": "csv", "columns": ["y"]})
    query = ana.post(PATH, json={"format": "csv", "steps": [{"tql": "WHERE y > 1"}]})
    images = ana.post(PATH, json={"format": "coco"})

    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid-input")
    assert "parquet" in unknown.json()["detail"]
    assert (column.status_code, query.status_code) == (404, 400)
    assert images.status_code in (400, 501)
    assert list((tmp_path / "exports").glob("*")) == []


def test_exports_have_a_budget_and_end(connect: AppClient, lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    settings = Settings(url=str(lake), token=TOKEN, exports=folder, exports_nbytes=1500)
    client = connect(settings, token=TOKEN)
    body = {"format": "csv", "columns": ["x"]}

    first = client.post(PATH, json=body)
    full = client.post(PATH, json={"format": "csv"})
    os.utime(folder / first.json()["id"], (0, 0))
    again = client.post(PATH, json=body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert (full.status_code, full.json()["code"]) == (413, "exports-full")
    assert [one.name for one in folder.glob("*")] == [again.json()["id"]]
    assert client.get(first.json()["url"]).status_code == 404


def test_exports_of_one_client_at_once_count_together(lake: Path, tmp_path: Path) -> None:
    exports = Exports(tmp_path / "exports", budget=10_000)

    def small(_: int) -> str:
        def fill(path: Path, check: Callable[[], None]) -> None:
            path.write_bytes(bytes(10))
            check()

        export = exports.write("ana", "pets", "x.csv", "text/csv", fill)
        found = exports.find(export.id, "ana")
        exports.remove(export)
        return "" if found is None else found.path.name

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(small, range(300))) == {"x.csv"}

    cut_off = tmp_path / "exports" / f".{'A' * 22}"
    cut_off.mkdir()
    (cut_off / "about.json").touch()

    def nested(path: Path, check: Callable[[], None]) -> None:
        path.write_bytes(bytes(3_000))
        check()
        exports.write("ana", "pets", "y.csv", "text/csv", nested)

    with pytest.raises(Problem) as refused:
        exports.write("ana", "pets", "x.csv", "text/csv", nested)
    assert refused.value.status_code == 413


def test_an_export_that_takes_too_long_ends_and_leaves_nothing(
    connect: AppClient, lake: Path, tmp_path: Path
) -> None:
    settings = Settings(url=str(lake), token=TOKEN, exports=tmp_path / "out", max_query_s=1e-9)
    client = connect(settings, token=TOKEN)

    late = client.post(PATH, json={"format": "csv"})

    assert (late.status_code, late.json()["code"]) == (413, "query-limit")
    assert "Prefer: respond-async" in late.json()["detail"]
    assert list((tmp_path / "out").glob("*")) == []


def test_a_server_without_a_folder_makes_none(client: httpx.Client, lake_path: Path) -> None:
    refused = client.post(PATH, json={"format": "csv"})

    assert (refused.status_code, refused.json()["code"]) == (501, "no-exports")
    assert "--exports" in refused.json()["detail"]
    with pytest.raises(InvalidInputError, match="--exports: exports must lie outside the lake"):
        Settings(url=str(lake_path), exports=lake_path / "files")
