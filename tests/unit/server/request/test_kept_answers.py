"""What a server keeps in memory is answered from there, and is never older than the dataset."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake_server.auth.tokens import create_token
from tensorlake_server.settings.settings import Settings
from tests.unit.server.conftest import picture

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"
SAMPLE = "/v1/datasets/pets/tensors/image/1"
FIXED = {"version": "main@1", "size": "64"}


def make_pets(url: Path, *, seed: int = 0) -> tl.Dataset:
    schema = {"image": tl.Image("jpeg", nullable=True), "x": "int64"}
    pets = tl.create(str(url), schema, durability="none")
    pictures = [simplejpeg.encode_jpeg(picture(seed + i)) for i in range(2)]
    pets.extend({"image": [*pictures, None], "x": [seed] * 3})
    pets.commit()
    return pets


@pytest.fixture
def url(tmp_path: Path) -> Path:
    make_pets(tmp_path / "lake/pets")
    return tmp_path / "lake/pets"


@pytest.fixture
def client(url: Path, connect: AppClient) -> httpx.Client:
    return connect(Settings(url=str(url.parent), token=TOKEN, write=True), token=TOKEN)


def test_a_thumbnail_drawn_before_is_answered_without_the_disk(
    client: httpx.Client, url: Path
) -> None:
    first = client.get(SAMPLE, params=FIXED)
    shutil.rmtree(url)

    again = client.get(SAMPLE, params=FIXED)

    assert (again.status_code, again.content) == (200, first.content)
    own = {"x-request-id"}
    assert {k: v for k, v in again.headers.items() if k not in own} == {
        k: v for k, v in first.headers.items() if k not in own
    }


def test_a_kept_thumbnail_is_not_sent_twice_and_in_parts_when_asked(client: httpx.Client) -> None:
    first = client.get(SAMPLE, params=FIXED)

    known = client.get(SAMPLE, params=FIXED, headers={"If-None-Match": first.headers["ETag"]})
    part = client.get(SAMPLE, params=FIXED, headers={"Range": "bytes=2-5"})

    assert (known.status_code, known.content) == (304, b"")
    assert (part.status_code, part.content) == (206, first.content[2:6])


def test_a_thumbnail_of_the_grid_is_that_of_the_sample(client: httpx.Client) -> None:
    body = {"tensor": "image", "rows": [1], "size": 64, "version": "main@1"}
    client.get(SAMPLE, params=FIXED)

    frames = client.post("/v1/datasets/pets/thumbnails", json=body).content

    assert frames[20:] == client.get(SAMPLE, params=FIXED).content


def test_what_is_kept_for_one_is_not_shown_to_who_may_not_read(
    url: Path, tmp_path: Path, connect: AppClient
) -> None:
    file = tmp_path / "tokens.json"
    now = datetime.now(UTC)
    secret, _ = create_token(file, name="ana", scopes=["read:others"], expires=None, now=now)
    client = connect(Settings(url=str(url.parent), token=TOKEN, auth=file), token=TOKEN)
    assert client.get(SAMPLE, params=FIXED).status_code == 200

    refused = client.get(SAMPLE, params=FIXED, headers={"Authorization": f"Bearer {secret}"})

    assert (refused.status_code, refused.json()["code"]) == (404, "dataset-not-found")


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        (SAMPLE, FIXED | {"digest": "0" * 16}, "version-not-found"),
        (SAMPLE.replace("/1", "/2"), FIXED, "null-sample"),
        (SAMPLE.replace("/1", "/9"), FIXED, "row-not-found"),
        (SAMPLE.replace("image", "nope"), FIXED, "tensor-not-found"),
    ],
)
def test_what_is_wrong_is_said_beside_kept_thumbnails(
    client: httpx.Client, path: str, params: dict[str, str], code: str
) -> None:
    client.get(SAMPLE, params=FIXED)

    answers = [client.get(path, params=params) for _ in range(2)]

    assert [answer.json()["code"] for answer in answers] == [code] * 2


def test_a_dataset_made_anew_has_its_own_thumbnails(client: httpx.Client, url: Path) -> None:
    before = client.get(SAMPLE, params=FIXED).content
    gone = client.delete("/v1/datasets/pets", params={"confirm": "pets"})
    make_pets(url, seed=5)

    after = client.get(SAMPLE, params=FIXED).content

    assert gone.status_code == 200
    assert before != after
    assert after == client.get(SAMPLE, params={"size": "64"}).content


def rows(client: httpx.Client) -> tuple[str, int]:
    page = client.get("/v1/datasets/pets/rows", params={"columns": "x"}).json()
    return page["version"], page["rows"][0]["x"]


def test_a_commit_is_seen_by_the_next_request(client: httpx.Client, url: Path) -> None:
    seen = [rows(client), rows(client)]
    writer = tl.open(str(url), durability="none")
    writer["x"][0] = 7
    writer.commit()
    seen.append(rows(client))
    writer["x"][0] = 8
    writer.commit()
    seen += [rows(client), rows(client)]

    assert seen == [("main@1", 0), ("main@1", 0), ("main@2", 7), ("main@3", 8), ("main@3", 8)]


def test_a_dataset_made_anew_behind_the_server_is_seen(client: httpx.Client, url: Path) -> None:
    assert rows(client) == rows(client) == ("main@1", 0)

    shutil.rmtree(url)
    gone = client.get("/v1/datasets/pets/rows")
    make_pets(url, seed=5)

    assert gone.json()["code"] == "dataset-not-found"
    assert rows(client) == rows(client) == ("main@1", 5)


def test_a_tag_that_moved_is_seen(client: httpx.Client, url: Path) -> None:
    pets = tl.open(str(url), durability="none")
    pets.tag("best")
    params = {"version": "best", "columns": "x"}
    first = client.get("/v1/datasets/pets/rows", params=params).json()
    pets["x"][:] = np.full(3, 9)
    pets.commit()
    pets.delete_tag("best")
    pets.tag("newest")

    gone = client.get("/v1/datasets/pets/rows", params=params)
    newest = client.get("/v1/datasets/pets/rows", params=params | {"version": "newest"}).json()

    assert first["rows"][0]["x"] == 0
    assert gone.json()["code"] == "version-not-found"
    assert newest["rows"][0]["x"] == 9
