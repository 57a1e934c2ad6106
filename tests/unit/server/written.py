"""A lake of its own and clients of a server that writes it: what tests of writing arrange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import simplejpeg

import tensorlake as tl
from tensorlake_server import Settings
from tensorlake_server.auth.tokens import create_token

NOW = datetime.now(UTC)
JPEG = simplejpeg.encode_jpeg(np.full((16, 16, 3), 99, dtype=np.uint8))
SECRET = "the server's own file"
TRANSACTIONS = "/v1/datasets/notes/transactions"


class Written:
    """A lake of its own, and clients of a server that writes it."""

    def __init__(self, path: Path, connect: Callable[..., httpx.Client]) -> None:
        self.path = path
        self.lake = path / "lake"
        self.lake.mkdir()
        (path / "secret.jpg").write_bytes(JPEG)
        (path / "secret.txt").write_text(SECRET)
        self.auth = path / "tokens.json"
        self.connect = connect
        create_token(self.auth, name="none", scopes=["read:nothing"], expires=None, now=NOW)
        self.settings = Settings(
            url=str(self.lake), host="0.0.0.0", auth=self.auth, write=True, signing_key=b"k"
        )
        notes = tl.create(
            str(self.lake / "notes"),
            {
                "text": tl.Text(nullable=True),
                "label": tl.ClassLabel(["a", "b"]),
                "x": "float32",
                "image": tl.Image("jpeg", nullable=True),
                "blob": tl.Bytes(nullable=True),
            },
        )
        notes.extend({"text": ["zero", "one", "two"], "label": ["a", "b", "a"], "x": [0, 1, 2]})
        notes.commit("three")

    @property
    def notes(self) -> tl.Dataset:
        return tl.open(str(self.lake / "notes"))

    def client(self, *scopes: str, **changes: Any) -> httpx.Client:
        secret, _ = create_token(self.auth, name="ana", scopes=scopes, expires=None, now=NOW)
        settings = replace(self.settings, **changes)
        return self.connect(settings, base_url="http://lake.example.org", token=secret)


def send(client: httpx.Client, *operations: dict[str, Any], **members: Any) -> httpx.Response:
    return client.post(TRANSACTIONS, json={"operations": operations, **members})


def columns(**given: Any) -> dict[str, Any]:
    return {"op": "append", "columns": {"label": ["a"], "x": [9], **given}}
