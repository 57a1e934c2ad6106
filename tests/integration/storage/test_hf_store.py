"""``hf://`` URLs, by huggingface_hub's own client, over a stand-in for a hub on this machine."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import open_store

pytest.importorskip("huggingface_hub")

REVISION = "a" * 40
REPOSITORY = "datasets/ana/pets"


def listed(folder: Path, path: str) -> dict | None:
    """What a hub reports of a path of the repository."""
    place = folder / path
    if place.is_dir():
        return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
    if not place.is_file():
        return None
    oid = hashlib.sha1(place.read_bytes(), usedforsecurity=False).hexdigest()
    last = {"id": REVISION, "title": "add", "date": "2026-11-01T12:00:00.000Z"}
    facts = {"oid": oid, "size": place.stat().st_size, "lastCommit": last}
    return {"type": "file", "path": path, **facts}


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """Serve a folder as the repository ``datasets/ana/pets``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _send(self, status: int, data: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _json(self, value: object) -> None:
            self._send(200, json.dumps(value).encode(), Content_Type="application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self.headers["Content-Type"] == "application/json":
                paths = json.loads(body)["paths"]
            else:
                paths = [unquote(one) for one in re.findall(r"paths=([^&]*)", body)]
            self._json([one for path in paths if (one := listed(folder, path)) is not None])

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/")
            resolved = re.fullmatch(rf"{REPOSITORY}/resolve/[^/]+/(.*)", path)
            tree = re.fullmatch(rf"api/{REPOSITORY}/tree/[^/]+/?(.*)", path)
            if resolved is not None and (folder / resolved[1]).is_file():
                data = (folder / resolved[1]).read_bytes()
                span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                facts = {"ETag": '"x"', "X_Repo_Commit": REVISION}
                if span is None:
                    self._send(200, data, **facts)
                    return
                start, stop = int(span[1]), min(int(span[2]) + 1, len(data))
                facts["Content_Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
                self._send(206, data[start:stop], **facts)
            elif tree is not None and (folder / tree[1]).is_dir():
                found = sorted((folder / tree[1]).iterdir())
                names = [one.relative_to(folder).as_posix() for one in found]
                self._json([listed(folder, name) for name in names])
            elif re.fullmatch(rf"api/{REPOSITORY}(/revision/.*)?", path):
                self._json({"id": "ana/pets", "sha": REVISION, "siblings": [], "private": False})
            else:
                self._send(404, b"", X_Error_Code="EntryNotFound")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    ds = tl.create(folder / "lake/pets", {"x": "int64", "vec": tl.Embedding(4)}, durability="none")
    ds.extend({"x": [*range(50)], "vec": np.random.default_rng(0).random((50, 4))})
    ds.commit("fifty")
    return folder


def test_a_dataset_of_a_hub_reads_and_is_not_written(lake):
    with hub(lake) as endpoint:
        options = {"endpoint": endpoint, "token": False}
        url = f"hf://{REPOSITORY}/lake/pets"
        ds = tl.open(url, storage_options=options)

        assert ds.url == url
        assert ds["x"][:].tolist() == [*range(50)]
        assert ds.query("WHERE x > 47").rows.tolist() == [48, 49]
        assert np.array_equal(ds["vec"][:], tl.open(lake / "lake/pets")["vec"][:])
        assert tl.exists(url, storage_options=options)
        assert not tl.exists(f"{url}-none", storage_options=options)
        ds["x"][0] = 1
        with pytest.raises(tl.TensorlakeError):
            ds.commit("to a hub")
        ds.discard()


def test_a_dataset_of_a_hub_can_be_forked(lake, tmp_path):
    with hub(lake) as endpoint:
        tl.set_link_credentials("hf://datasets/", {"endpoint": endpoint, "token": False})
        try:
            with pytest.warns(tl.UntaggedBaseWarning):
                ds = tl.fork(f"hf://{REPOSITORY}/lake/pets", tmp_path / "fork")
            ds["x"][3] = -3
            ds.commit("corrected")
            assert ds["x"][:5].tolist() == [0, 1, 2, -3, 4]
        finally:
            tl.set_link_credentials("hf://datasets/", None)


def test_an_unknown_scheme_lists_hf():
    with pytest.raises(tl.InvalidInputError, match="hf://"):
        open_store("gopher://lake")
