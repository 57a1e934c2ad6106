"""Links over HTTP: not followed unless the server is told to, and never made by clients."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake_server.settings.settings import Settings
from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    PIL.Image.fromarray(np.full((40, 50, 3), 7, np.uint8)).save(tmp_path / "secret.png")
    made = tl.create(f"memory://routes-{tmp_path.name}", {"v": tl.Video(fps=5)})
    made.append({"v": np.zeros((4, 32, 32, 3), np.uint8)})
    (tmp_path / "0.mp4").write_bytes(made["v"].bytes(0))
    made.discard()
    ds = tl.create(
        tmp_path / "lake/links",
        {"image": tl.Link(tl.Image("png")), "video": tl.Link(tl.Video(), nullable=True)},
        durability="none",
    )
    ds.append({"image": tmp_path / "secret.png", "video": tmp_path / "0.mp4"})
    ds.commit()
    return tmp_path / "lake"


def settings(lake: Path, *, follow: bool) -> Settings:
    return Settings(
        url=str(lake),
        token=TOKEN,
        signing_key=b"k" * 16,
        static=lake / "none",
        write=True,
        exports=lake.parent / "exports",
        follow_links=follow,
    )


def test_links_are_not_followed(lake: Path, connect: AppClient) -> None:
    client = connect(settings(lake, follow=False), token=TOKEN)
    base = "/v1/datasets/links"

    for path in ("image/0", "image/0?size=32", "video/0", "video/0?size=32", "image/0/window"):
        answer = client.get(f"{base}/tensors/{path}")
        assert answer.status_code == 403, path
        assert "follow" in answer.json()["detail"]
    stored = client.get(f"{base}/tensors/image/0?raw")
    assert stored.status_code == 200
    assert b"PNG" not in stored.content
    (row,) = client.get(f"{base}/rows").json()["rows"]
    assert row["image"]["media_type"] == "image/png"
    frames = client.post(f"{base}/thumbnails", json={"tensor": "image", "rows": [0], "size": 32})
    assert b"PNG" not in frames.content
    assert b"not followed" in frames.content
    for form in ("parquet", "webdataset", "mds"):
        exported = client.post(f"{base}/exports", json={"format": form})
        assert exported.status_code == 403
        assert "follow" in exported.json()["detail"]


@pytest.mark.parametrize("url", ["file://{0}/secret.png", "{0}/secret.png", "../../secret.png"])
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("base", [None, "main@1"])
def test_no_client_makes_a_link(
    lake: Path, connect: AppClient, tmp_path: Path, url: str, base: str | None, *, follow: bool
) -> None:
    ds = tl.open(lake / "links")
    ds.append({"image": tmp_path / "secret.png"})
    ds.commit()
    client = connect(settings(lake, follow=follow), token=TOKEN)
    given = url.format(tmp_path)

    for operation in (
        {"op": "append", "columns": {"image": [given]}},
        {"op": "update", "tensor": "image", "rows": [0], "value": given},
    ):
        body = {"operations": [operation], "base_version": base}
        answer = client.post("/v1/datasets/links/transactions", json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert "reads no files for its clients" in answer.text
    sink = io.BytesIO()
    table = pa.table({"image": [given]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    answer = client.post(
        "/v1/datasets/links/transactions",
        content=sink.getvalue(),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
        params={} if base is None else {"base_version": base},
    )
    assert answer.status_code == 400
    assert "reads no files for its clients" in answer.text
    written = client.post(
        "/v1/datasets/links/query", json={"tql": f"UPDATE this SET image='{url}'"}
    )
    assert written.status_code == 400
    assert tl.open(lake / "links").version == "main@2"


@pytest.mark.parametrize(
    "rows",
    ["", "FROM this VERSION 'main@1'", "FROM this TAG 'old'", "FROM this AS OF '2999-01-01'"],
)
def test_queries_of_any_version_follow_links_only_as_the_server_does(
    lake: Path, connect: AppClient, rows: str
) -> None:
    tl.open(lake / "links").tag("old")
    query = {"tql": f"SELECT image[0:2] AS part {rows}"}

    refused = connect(settings(lake, follow=False), token=TOKEN).post(
        "/v1/datasets/links/query", json=query
    )
    followed = connect(settings(lake, follow=True), token=TOKEN).post(
        "/v1/datasets/links/query", json=query
    )

    assert (refused.status_code, followed.status_code) == (403, 200)
    assert "is not followed here" in refused.text


def test_a_server_that_is_told_to_follows(lake: Path, connect: AppClient, tmp_path: Path) -> None:
    client = connect(settings(lake, follow=True), token=TOKEN)
    base = "/v1/datasets/links/tensors"

    whole = client.get(f"{base}/image/0")
    assert whole.headers["content-type"] == "image/png"
    assert whole.content == (tmp_path / "secret.png").read_bytes()
    assert client.get(f"{base}/image/0?size=32").status_code == 200
    video = client.get(f"{base}/video/0", headers={"Range": "bytes=0-99"})
    assert (video.status_code, video.headers["content-type"]) == (206, "video/mp4")
    assert video.content == (tmp_path / "0.mp4").read_bytes()[:100]
