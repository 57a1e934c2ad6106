"""Exports to S3, read by programs of others, and stopped at each request that writes."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import numpy as np
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import webdataset
import zarr

import tensorlake as tl
from tensorlake.testing import S3Server, latency_server, s3_server

KINDS = {
    "coco": ["image"],
    "croissant": None,
    "csv": ["x"],
    "hdf5": None,
    "jsonl": ["x"],
    "litdata": None,
    "mds": None,
    "numpy": ["x"],
    "parquet": None,
    "tfrecord": None,
    "webdataset": None,
    "zarr": None,
}
MARK = ".tensorlake-export"
LOCK = f"{MARK}.lock"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def made() -> tl.Dataset:
    ds = tl.create("memory://bucket-exports", {"x": "int64", "image": tl.Image("png")})
    ds.extend({"x": range(40), "image": [np.full((4, 6, 3), n, np.uint8) for n in range(40)]})
    ds.commit("forty")
    return ds


def client(s3: S3Server) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client("s3", endpoint_url=s3.endpoint, region_name="us-east-1", **keys)


def objects(s3: S3Server, url: str) -> dict[str, bytes]:
    """What Amazon's own client reads below a URL."""
    place, read = urlsplit(url), client(s3)
    listed = read.list_objects_v2(Bucket=place.netloc, Prefix=place.path.strip("/"))
    return {
        one["Key"].removeprefix(place.path.strip("/")): read.get_object(
            Bucket=place.netloc, Key=one["Key"]
        )["Body"].read()
        for one in listed.get("Contents", ())
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_to_s3_has_the_bytes_of_one_to_a_folder(
    s3: S3Server, made: tl.Dataset, tmp_path: Path, kind: str
) -> None:
    url, here = f"{s3.fresh_url()}/out", tmp_path / "out"
    made.export(kind, here, columns=KINDS[kind])

    made.export(kind, url, columns=KINDS[kind], storage_options=s3.storage_options)

    found = objects(s3, url)
    mark = json.loads(found.pop(MARK, b"{}"))
    files = [one for one in here.rglob("*") if one.is_file() and one.name != MARK]
    names = {f"/{one.relative_to(here).as_posix()}": one.read_bytes() for one in files}
    written = names or {"": here.read_bytes()}
    assert found.keys() == written.keys()
    if kind != "hdf5":  # which has times of its own
        assert found == written
    if names:
        assert mark["complete"] is True
        assert [f"/{one}" for one in mark["files"]] == sorted(names)


def test_programs_of_others_read_them_where_they_are(
    s3: S3Server, made: tl.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = s3.fresh_url(), s3.storage_options
    for kind in ("parquet", "zarr", "webdataset"):
        made.export(kind, f"{url}/{kind}", storage_options=options)
    place = url.removeprefix("s3://")
    files = pyarrow.fs.S3FileSystem(
        access_key="test", secret_key="test", endpoint_override=s3.endpoint, region="us-east-1"
    )
    signed = client(s3).generate_presigned_url(
        "get_object",
        {"Bucket": place.partition("/")[0], "Key": "lake/webdataset/shard-000000.tar"},
    )

    table = pq.read_table(f"{place}/parquet", filesystem=files)
    group = zarr.open_group(f"{url}/zarr", mode="r", storage_options={
        "key": "test", "secret": "test", "client_kwargs": {"endpoint_url": s3.endpoint}
    })  # fmt: skip
    shards = webdataset.WebDataset(f"pipe:curl -s '{signed}'", shardshuffle=False)

    assert table["x"].to_pylist() == list(range(40))
    assert np.asarray(group["x"][:]).tolist() == list(range(40))
    assert sorted(group) == ["image", "x"]
    assert len([*shards]) == 40


@contextmanager
def stopping(
    s3: S3Server, after: int, instead: Callable[[], None] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """The server behind a door that refuses what writes after a number of requests.

    Nothing at the root of a bucket is read, as by credentials for a folder of it.

    Args:
        s3: The server.
        after: The number of requests.
        instead: Called before the next request that writes, which is not refused then.
    """
    asked: list[str] = []
    turn = threading.Lock()

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.count("/") == 2 and self.command == "GET" and "?" not in self.path:
                self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
                return
            if self.command in ("PUT", "DELETE", "POST"):
                with turn:
                    is_next = len(asked) == after
                    if not is_next or instead is not None:
                        asked.append(f"{self.command} {self.path.partition('/lake/')[2]}")
                if is_next and instead is None:
                    self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
                    return
                if is_next and instead is not None:
                    instead()
            there = http.client.HTTPConnection(urlsplit(s3.endpoint).netloc, timeout=60)
            there.request(self.command, self.path, body, dict(self.headers))
            answer = there.getresponse()
            self.answer(answer.status, answer.read(), answer.headers.items())
            there.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - names of http.server

        def answer(self, status: int, body: bytes, headers: Any = ()) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_export_that_is_stopped_is_not_complete_and_is_replaced(
    s3: S3Server, made: tl.Dataset, tmp_path: Path
) -> None:
    url, options = f"{s3.fresh_url()}/out", s3.storage_options
    made.to_mds(url, shard_size=1000, storage_options=options)
    first = objects(s3, url)
    made[:9].to_mds(tmp_path / "out", shard_size=1000)
    files = {f"/{one.name}": one.read_bytes() for one in (tmp_path / "out").iterdir()}
    with stopping(s3, 1000) as (endpoint, asked):
        made[:9].to_mds(
            url,
            shard_size=1000,
            overwrite=True,
            storage_options={**options, "endpoint_url": endpoint},
        )
    found = objects(s3, url)
    marked = [f"PUT out{LOCK}", f"PUT out{MARK}", f"DELETE out{LOCK}"]
    replaced = asked[len(marked) : -len(marked)]
    puts = [one for one in replaced if one.startswith("PUT")]
    gone = [one for one in replaced if one.startswith("DELETE")]

    assert {name: one for name, one in found.items() if name != MARK} == files
    assert asked == [*marked, *puts, *gone, *marked]  # nothing is removed before all is there
    assert {*puts[-2:]} == {"PUT out/index.json", "PUT out/tensorlake-types.json"}
    assert len(gone) == len(first) - len(found) > 2

    for after in sorted({0, 1, 2, 3, 4, 3 + len(puts), *range(len(asked) - 4, len(asked))}):
        client(s3).delete_object(**_key(f"{url}{LOCK}"))
        made.to_mds(url, shard_size=1000, overwrite=True, storage_options=options)
        first = objects(s3, url)
        with (
            stopping(s3, after) as (endpoint, _),
            pytest.raises(tl.AccessError),
        ):
            made[:9].to_mds(
                url,
                shard_size=1000,
                overwrite=True,
                storage_options={**options, "endpoint_url": endpoint},
            )
        left = objects(s3, url)
        is_held = left.pop(LOCK, None) is not None
        assert is_held is (after in (1, 2, len(asked) - 2, len(asked) - 1))
        assert json.loads(left[MARK])["complete"] is (after in (0, 1, len(asked) - 1))
        assert (left == first) is (after in (0, 1))
        if is_held:
            with pytest.raises(tl.ConflictError, match=r"'out.tensorlake-export.lock' is held"):
                made.to_mds(url, shard_size=1000, overwrite=True, storage_options=options)
        with pytest.raises(tl.InvalidInputError, match="is there already"):
            made[:9].to_mds(url, shard_size=1000, storage_options=options)

    client(s3).delete_object(**_key(f"{url}{LOCK}"))
    made[:9].to_mds(url, shard_size=1000, overwrite=True, storage_options=options)
    again = objects(s3, url)
    assert {**again, MARK: b""} == {**found, MARK: b""}
    assert json.loads(again[MARK])["files"] == json.loads(found[MARK])["files"]


def _key(url: str) -> dict[str, str]:
    place = urlsplit(url)
    return {"Bucket": place.netloc, "Key": place.path.strip("/")}


def test_a_lock_that_a_process_left_is_replaced_after_some_time(
    made: tl.Dataset, tmp_path: Path
) -> None:
    (tmp_path / "b").mkdir()
    with latency_server(tmp_path) as server:
        url, options = server.s3_url("b/out"), server.storage_options
        made.to_mds(url, storage_options=options)
        lock = tmp_path / "b" / f"out{LOCK}"
        lock.touch()
        with pytest.raises(tl.ConflictError, match="is held for 10 minutes at most"):
            made[:9].to_mds(url, overwrite=True, storage_options=options)
        written = lock.stat().st_mtime - 700
        os.utime(lock, (written, written))

        made[:9].to_mds(url, overwrite=True, storage_options=options)

        assert not lock.exists()
        back = tl.ingest.mds(url, "memory://bucket-exports-lock", storage_options=options)
        assert len(back) == 9


def test_of_two_exports_that_overwrite_at_once_no_mixture_is_complete(
    s3: S3Server, made: tl.Dataset, tmp_path: Path
) -> None:
    url, options = f"{s3.fresh_url()}/out", s3.storage_options
    ours, theirs = made[:20], made[30:]
    given: dict[str, Any] = {"shard_size": 1500, "overwrite": True}
    whole: list[dict[str, bytes]] = []
    for rows in (ours, theirs):
        rows.to_mds(tmp_path / "out", **given)
        whole.append({f"/{one.name}": one.read_bytes() for one in (tmp_path / "out").iterdir()})
    made.to_mds(url, storage_options=options, **given)
    with stopping(s3, 1000) as (endpoint, asked):
        ours.to_mds(url, storage_options={**options, "endpoint_url": endpoint}, **given)

    outcomes: list[list[bool]] = []
    for after in range(len(asked)):
        made.to_mds(url, storage_options=options, **given)
        ended: list[bool] = []

        def write(rows: tl.View, at: str, ended: list[bool] = ended) -> None:
            try:
                rows.to_mds(url, storage_options={**options, "endpoint_url": at}, **given)
                ended.append(True)
            except tl.ConflictError:
                ended.append(False)

        with stopping(s3, after, lambda: write(theirs, s3.endpoint)) as (endpoint, _):
            write(ours, endpoint)

        left = objects(s3, url)
        assert LOCK not in left
        is_complete = json.loads(left.pop(MARK))["complete"]
        theirs_ended, ours_ended = ended
        assert not (theirs_ended and ours_ended), after
        if is_complete:
            assert left == whole[theirs_ended], after
        else:
            assert not ours_ended, after
        outcomes.append([is_complete, ours_ended, theirs_ended])
    made.to_mds(url, storage_options=options, **given)

    assert [True, True, False] in outcomes
    assert [True, False, True] in outcomes
    back = tl.ingest.mds(url, "memory://bucket-exports-two", storage_options=options)
    assert len(back) == 40


@pytest.mark.parametrize("kind", ["mds", "webdataset", "tfrecord", "zarr", "litdata", "coco"])
def test_importers_refuse_an_export_that_is_not_complete(
    s3: S3Server, made: tl.Dataset, tmp_path: Path, kind: str
) -> None:
    root = s3.fresh_url()
    url, options, read = f"{root}/out", s3.storage_options, getattr(tl.ingest, kind)
    made.export(kind, url, columns=KINDS[kind], storage_options=options)
    sources = {"coco": [f"{url}/annotations.json", f"{url}/images"]}.get(kind, [url])
    dst = str(tmp_path / "back.tl")
    read(*sources, dst, storage_options=options)
    with stopping(s3, 4) as (endpoint, _), pytest.raises(tl.AccessError):
        made[:9].export(
            kind,
            url,
            columns=KINDS[kind],
            overwrite=True,
            storage_options={**options, "endpoint_url": endpoint},
        )

    with pytest.raises(tl.InvalidInputError, match=r"out.tensorlake-export' reports\n.*overwrite"):
        read(*sources, dst, delete=True, storage_options=options)

    assert len(tl.open(dst)) == 40


def test_files_of_an_export_that_is_not_complete_are_refused_too(tmp_path: Path) -> None:
    (tmp_path / f"out{MARK}").write_text('{"kind": "webdataset", "complete": false, "files": []}')
    (tmp_path / "out").mkdir()
    shard = tmp_path / "out" / "shard-000000.tar"
    for source in (shard, str(shard), [shard], str(tmp_path / "out" / "*.tar"), f"{shard.parent}/"):
        with pytest.raises(tl.InvalidInputError, match="is not complete"):
            tl.ingest.webdataset(source, "memory://bucket-exports-files")


def test_an_export_takes_no_place_that_another_has(s3: S3Server, made: tl.Dataset) -> None:
    root, options = s3.fresh_url(), s3.storage_options
    kept: dict[str, Any] = {"storage_options": options, "overwrite": True}
    made.to_mds(f"{root}/out", storage_options=options)
    made.to_parquet(f"{root}/file", storage_options=options)
    before = objects(s3, root)

    with pytest.raises(tl.InvalidInputError, match="is a folder, and a file would"):
        made.to_parquet(f"{root}/out", **kept)
    with pytest.raises(tl.InvalidInputError, match="is a file, and a folder would"):
        made.to_mds(f"{root}/file", **kept)
    with pytest.raises(tl.InvalidInputError, match="names a folder, and the export is one file"):
        made.to_parquet(f"{root}/new/", **kept)
    for to in (made.to_parquet, made.to_mds):
        with pytest.raises(tl.InvalidInputError, match="out', which is another export"):
            to(f"{root}/out/inside/more", **kept)

    assert objects(s3, root) == before


@pytest.mark.parametrize("part", ["..", ".", ""])
@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_url_is_at_fault_for_its_parts(made: tl.Dataset, scheme: str, part: str) -> None:
    url = f"{scheme}://bucket/a/{part}/out.parquet"
    for call in (
        made.to_parquet,
        tl.open,
        lambda at: tl.ingest.parquet(at, "memory://bucket-exports-parts"),
    ):
        with pytest.raises(tl.InvalidInputError, match=r"the URL .* has (the|an empty) part"):
            call(url)


def test_of_exports_to_one_place_at_once_one_is_there(s3: S3Server, made: tl.Dataset) -> None:
    url, options = f"{s3.fresh_url()}/out", s3.storage_options
    outcomes: list[str] = []

    def write(count: int) -> None:
        try:
            made[:count].to_parquet(url, storage_options=options)
            outcomes.append(f"{count}")
        except tl.InvalidInputError as error:
            outcomes.append(str(error).rpartition(" ")[0][-18:])

    threads = [threading.Thread(target=write, args=[count]) for count in (3, 5, 7, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = [one for one in outcomes if one.isdigit()]
    assert len(outcomes) == 4
    found = tl.ingest.parquet(url, "memory://bucket-exports-back", storage_options=options)
    assert len(found) == int(winner)
