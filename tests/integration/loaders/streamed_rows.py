"""A dataset with a column of each kind that a server streams, and such a server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import simplejpeg

import tensorlake as tl
from tensorlake.loader import Loader
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.serving import listening

ROWS = 41


def picture(number: int) -> bytes:
    y, x = np.mgrid[0 : 40 + number % 7, 0 : 50 + number % 5]
    pixels = np.stack([(x + 31 * number) % 256, (y + 17 * number) % 256, (x + y) % 256], axis=-1)
    return simplejpeg.encode_jpeg(pixels.astype(np.uint8))


def mask(number: int) -> np.ndarray:
    y, x = np.mgrid[0 : 40 + number % 7, 0 : 50 + number % 5]
    return (x + y) % (3 + number) == 0


def fill(url: str) -> None:
    ds = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox("xyxy", of="image"),
            "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
            "caption": tl.Text(nullable=True),
            "meta": tl.Json(),
            "clip": tl.Sequence(tl.Image("jpeg")),
            "outline": tl.Polygon(),
            "mask": tl.BinaryMask(of="image"),
            "objects": tl.InstanceMask(of="image", per="boxes"),
            "shape": tl.Polygon(of="image", nullable=True),
            "score": "float32",
            "flag": "bool",
            "number": "int64",
            "wave": tl.Array("complex64", (3,)),
            "small": tl.Array("bfloat16", (2, None)),
            "tokens": tl.Array("int32", (None,)),
            "when": tl.Timestamp("ms", tz="UTC"),
        },
        durability="none",
    )
    rng = np.random.default_rng(0)
    for start in range(0, ROWS, 20):
        rows = range(start, min(start + 20, ROWS))
        ds.extend(
            {
                "image": [picture(row) for row in rows],
                "boxes": [
                    np.array([[2, 2, 30, 30], [1, 5, 20, 25]][: row % 3], np.float32).reshape(-1, 4)
                    for row in rows
                ],
                "labels": [[row % 2, 1][: row % 3] for row in rows],
                "caption": [None if row % 5 == 4 else f"picture {row} · ü" for row in rows],
                "meta": [{"row": row, "deep": [row, None]} for row in rows],
                "clip": [[picture(row + frame) for frame in range(row % 3)] for row in rows],
                "outline": [[rng.random((3 + row % 3, 2)) for _ in range(row % 2)] for row in rows],
                "mask": [mask(row) for row in rows],
                "objects": [[mask(row)] * (row % 3) for row in rows],
                "shape": [None if row % 4 == 3 else [[3, 3, 20, 5, 9, 19]] for row in rows],
                "score": np.arange(len(rows), dtype=np.float32) + start,
                "flag": [row % 3 == 0 for row in rows],
                "number": list(rows),
                "wave": rng.random((len(rows), 3)) + 1j,
                "small": [np.ones((2, row % 4), ml_dtypes.bfloat16) * row for row in rows],
                "tokens": [np.arange(row % 6, dtype=np.int32) for row in rows],
                "when": [datetime(2026, 1, 1 + row % 28, tzinfo=UTC) for row in rows],
            }
        )
        ds.commit("rows")


def jittered(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A row with the types that its transform was given, and random numbers."""
    told = [f"{name} {type(one)} {getattr(one, 'dtype', '')}" for name, one in row.items()]
    return {**row, "told": "; ".join(told), "drawn": rng.random()}


@dataclass(frozen=True)
class Served:
    lake: Path
    address: str
    app: Any
    token: str

    def token_for(self, *scopes: str) -> str:
        token, _ = create_token(
            self.lake.parent / "tokens.json",
            name="ben",
            scopes=scopes,
            expires=None,
            now=datetime.now(UTC),
        )
        return token

    def both(self, name: str = "pets", **options: Any) -> tuple[tl.Dataset, tl.Dataset]:
        here = tl.open(str(self.lake / name), **options)
        return here, tl.open(f"{self.address}/{name}", token=self.token, **options)


@contextmanager
def served_pets(root: Path) -> Iterator[Served]:
    """Serve a lake in a folder with the dataset "pets", until the block ends."""
    (root / "lake").mkdir()
    fill(str(root / "lake/pets"))
    auth = root / "tokens.json"
    token, _ = create_token(
        auth, name="ana", scopes=["write:pets", "read:holes"], expires=None, now=datetime.now(UTC)
    )
    settings = Settings(url=str(root / "lake"), auth=auth, write=True, signing_key=b"k" * 16)
    app = create_app(settings)
    with listening(app) as address:
        yield Served(root / "lake", address, app, token)


def digest_of(batch: dict[str, Any]) -> str:
    """Name everything in a batch: names, order, kinds, dtypes, shapes, values."""
    hasher = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray):
            hasher.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
        elif isinstance(value, list):
            hasher.update(f"[{len(value)}".encode())
            for one in value:
                add(one)
        elif hasattr(value, "numpy"):
            add(value.numpy())
        else:
            hasher.update(repr((type(value), value)).encode())

    for name, value in batch.items():
        hasher.update(name.encode())
        add(value)
    return hasher.hexdigest()


IMAGE = {"image": [tl.decode.RandomResizedCrop(24, 24), tl.decode.Flip(), tl.decode.ToFloat()]}
MOVABLE = ["image", "boxes", "labels", "mask", "objects", "shape"]


def check_batches(local: Loader, remote: Loader, resumed: Loader) -> None:
    """Check that two epochs of a server are those of a local loader, also resumed half-way."""
    expected = [[digest_of(batch) for batch in local] for _ in range(2)]
    whole, states = [], []
    for batch in remote:
        whole.append(digest_of(batch))
        states.append(remote.state_dict())
    resumed.load_state_dict(states[len(states) // 2])
    rest = [digest_of(batch) for batch in resumed]

    assert whole == expected[0]
    assert [digest_of(batch) for batch in remote] == expected[1]
    assert rest == (expected[0][len(states) // 2 + 1 :] or expected[1])
