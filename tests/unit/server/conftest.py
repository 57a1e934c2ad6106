"""A small lake on disk, and clients of an application that serves it (in process: no network)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake_server import Settings, create_app

AppClient = Callable[..., httpx.Client]

TOKEN = "test-token"
HOST = "http://127.0.0.1:8300"
SCRIPT = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def picture(seed: int, height: int = 120, width: int = 160) -> np.ndarray:
    """A smooth colour picture, different for each seed."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x + 31 * seed) % 256, (y + 17 * seed) % 256, (x + y) % 256]
    return np.stack(planes, axis=-1).astype(np.uint8)


class InProcess(httpx.BaseTransport):
    """Hands requests to an application without a socket; a crash is an answer, as for a browser."""

    def __init__(self, app: Any) -> None:
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run(self._answer(request, request.read()))

    async def _answer(self, request: httpx.Request, body: bytes) -> httpx.Response:
        again = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        answer = await self._transport.handle_async_request(again)
        sent = b"".join([piece async for piece in answer.aiter_raw()])
        stream = httpx.ByteStream(sent)  # as it is on the wire: packed, where it was packed
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)


@pytest.fixture(scope="session")
def lake_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``pets`` with three commits, a tag and a branch; ``vision/digits``; a dataset outside."""
    root = tmp_path_factory.mktemp("served")
    (root / "outside").mkdir()
    lake = root / "lake"
    lake.mkdir()
    pets = tl.create(
        str(lake / "pets"),
        {
            "image": tl.Image("jpeg", nullable=True),
            "boxes": tl.BBox("xywh", of="image"),
            "labels": tl.ClassLabel(["cat", "dog", "bird"], per="boxes"),
            "caption": tl.Text(nullable=True),
            "score": "float32",
            "vector": tl.Embedding(2048),
            "meta": tl.Json(),
            "blob": tl.Bytes(),
        },
        durability="none",
    )
    rows = 12
    pets.extend(
        {
            "image": [simplejpeg.encode_jpeg(picture(i)) for i in range(rows - 1)] + [None],
            "boxes": [np.full((i % 3, 4), 10 * i, dtype=np.float32) for i in range(rows)],
            "labels": [[(i + k) % 3 for k in range(i % 3)] for i in range(rows)],
            "caption": [None if i == 4 else f"picture {i}" for i in range(rows)],
            "score": np.linspace(0, 1, rows, dtype=np.float32),
            "vector": np.arange(rows * 2048, dtype=np.float32).reshape(rows, 2048),
            "meta": [{"camera": {"iso": 100 * i}} for i in range(rows)],
            "blob": [SCRIPT] * rows,
        }
    )
    pets.commit("first batch")
    pets.tag("v1")
    pets["score"][[0, 1]] = [0.5, np.nan]
    pets.commit("fix scores")
    pets.delete([11])
    pets.commit("drop the empty one")
    pets.branch("fix-labels", at="main@1")
    digits = tl.create(
        str(lake / "vision/digits"),
        {"image": tl.Array("uint8", (28, 28)), "label": tl.ClassLabel(["zero", "one"])},
        durability="none",
    )
    digits.extend(
        {
            "image": np.arange(4 * 784).astype(np.uint8).reshape(4, 28, 28),
            "label": ["zero", "one", "one", "one"],
        }
    )
    digits.commit("four digits")
    tl.create(str(root / "outside/secret"), {"x": "int64"}, durability="none")
    (lake / "way-out").symlink_to(root / "outside", target_is_directory=True)
    return lake


@pytest.fixture(scope="session")
def settings(lake_path: Path) -> Settings:
    """A private server's settings; its viewer is not built."""
    static = lake_path.parent / "no-viewer"
    return Settings(url=str(lake_path), token=TOKEN, signing_key=b"k" * 16, static=static)


@pytest.fixture(scope="session")
def transport(settings: Settings) -> InProcess:
    """The one application that all tests ask; it keeps nothing but caches."""
    return InProcess(create_app(settings))


@pytest.fixture
def connect() -> AppClient:
    """Makes clients of an application with given settings; the token is sent when it is given."""

    def make(settings: Settings, *, base_url: str = HOST, token: str | None = None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = InProcess(create_app(settings))
        return httpx.Client(transport=transport, base_url=base_url, headers=headers)

    return make


@pytest.fixture
def stranger(transport: InProcess) -> httpx.Client:
    """A client that has not shown the token."""
    return httpx.Client(transport=transport, base_url=HOST)


@pytest.fixture
def client(stranger: httpx.Client) -> httpx.Client:
    """A client that sends the token."""
    stranger.headers["Authorization"] = f"Bearer {TOKEN}"
    return stranger
