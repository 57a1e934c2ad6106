"""Videos over HTTP: posters, files, and ranges of files."""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake_server import Settings
from tests.support.videos import decoded_by_pyav, encode, moving_picture, video_file
from tests.unit.server.conftest import AppClient
from tests.unit.server.routes.test_routes_samples import frames_of

SAMPLE = "/v1/datasets/films/tensors/clip"
NAMES = ("h264", "vp9", "gif", "prores")


@pytest.fixture
def films(tmp_path: Path, connect: AppClient) -> httpx.Client:
    """A client of a lake with four videos and a NULL."""
    with tl.create(str(tmp_path / "films"), {"clip": tl.Video(nullable=True)}) as ds:
        ds.extend({"clip": [*(video_file(name) for name in NAMES), None]})
        ds.commit()
    settings = Settings(url=str(tmp_path), token="t", signing_key=b"k" * 16, static=tmp_path / "no")
    return connect(settings, token="t")


def pixels(body: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(body)).convert("RGB")).astype(int)


@pytest.mark.parametrize("row", range(len(NAMES)))
def test_a_size_makes_a_poster(films: httpx.Client, row: int) -> None:
    answer = films.get(f"{SAMPLE}/{row}", params={"size": 64})

    whole = decoded_by_pyav(video_file(NAMES[row])).astype(int)
    assert answer.headers["Content-Type"] in {"image/jpeg", "image/png"}
    assert np.abs(pixels(answer.content) - whole[20]).mean() < 8  # at 0.8 s of 1.6 s


def test_a_poster_is_a_key_frame_where_one_is_near(tmp_path: Path, connect: AppClient) -> None:
    near, none = (
        encode(moving_picture(120), "mp4", "libx264", "yuv420p", {"g": str(group), "bf": "0"})
        for group in (30, 1000)
    )
    with tl.create(str(tmp_path / "films"), {"clip": tl.Video()}) as ds:
        ds.extend({"clip": [near, none]})
        ds.commit()
        assert [ds[row]["clip"].key_frames.tolist() for row in (0, 1)] == [[0, 30, 60, 90], [0]]
    settings = Settings(url=str(tmp_path), token="t", static=tmp_path / "no")
    client = connect(settings, token="t")

    for row, (film, frame) in enumerate(((near, 30), (none, 25))):
        drawn = pixels(client.get(f"{SAMPLE}/{row}", params={"size": 64}).content)
        whole = decoded_by_pyav(film).astype(int)
        assert np.abs(whole - drawn).mean(axis=(1, 2, 3)).argmin() == frame


def test_a_frame_is_drawn(films: httpx.Client) -> None:
    whole = decoded_by_pyav(video_file("h264")).astype(int)
    for query in ({"frame": 3}, {"frame": 3, "size": 64}):
        answer = films.get(f"{SAMPLE}/0", params=query)
        assert np.abs(pixels(answer.content) - whole[3]).mean() < 8
    beyond = films.get(f"{SAMPLE}/0", params={"frame": 1_000_000})
    assert (beyond.status_code, beyond.json()["code"]) == (404, "no-such-frame")


def test_thumbnails_are_posters(films: httpx.Client) -> None:
    asked = {"tensor": "clip", "rows": [0, 4, 1], "size": 64}
    answer = films.post("/v1/datasets/films/thumbnails", json=asked)

    assert [(kind > 0, width) for _, kind, width, _, _ in frames_of(answer.content)] == [
        *((True, 64), (False, 0), (True, 64))
    ]


@pytest.mark.parametrize(
    ("row", "media_type"), [*enumerate(["video/mp4", "video/webm", "image/gif", "video/quicktime"])]
)
def test_files_have_their_media_types(films: httpx.Client, row: int, media_type: str) -> None:
    answer = films.get(f"{SAMPLE}/{row}")

    assert answer.headers["Content-Type"] == media_type
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.content == video_file(NAMES[row])


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("bytes=5-99", 5, 100), ("bytes=6000-", 6000, None), ("bytes=-7", -7, None)],
)
def test_ranges_of_a_file(films: httpx.Client, asked: str, start: int, stop: int | None) -> None:
    answer = films.get(f"{SAMPLE}/0", headers={"Range": asked})

    assert answer.status_code == 206
    assert answer.content == video_file("h264")[start:stop]
    assert answer.headers["Content-Range"].endswith(f"/{len(video_file('h264'))}")


def test_ranges_beyond_a_file_are_refused(films: httpx.Client) -> None:
    assert films.get(f"{SAMPLE}/0", headers={"Range": "bytes=999999-"}).status_code == 416


def test_null_has_no_poster(films: httpx.Client) -> None:
    assert films.get(f"{SAMPLE}/4", params={"size": 64}).status_code == 404


def test_raw_is_a_download(films: httpx.Client) -> None:
    answer = films.get(f"{SAMPLE}/0", params={"raw": ""})

    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.content == video_file("h264")


def test_rows_show_size_and_shape(films: httpx.Client) -> None:
    page = films.get("/v1/datasets/films/rows", params={"columns": "clip"}).json()

    cell = page["rows"][0]["clip"]
    assert (cell["media_type"], cell["shape"]) == ("video/mp4", [40, 48, 64, 3])


def test_a_frame_is_decoded_by_the_server(films: httpx.Client) -> None:
    answer = films.get(f"{SAMPLE}/3", params={"frame": 7})

    whole = decoded_by_pyav(video_file("prores")).astype(int)
    np.testing.assert_array_equal(pixels(answer.content), whole[7])
    assert films.get(f"{SAMPLE}/3", params={"frame": 40}).json()["code"] == "no-such-frame"


def test_players_are_told_what_is_in_the_header(films: httpx.Client) -> None:
    info = films.get(f"{SAMPLE}/0/info").json()

    told = {"media_type": "video/mp4", "codec": "h264", "rate": 25.0, "duration_s": 1.6}
    assert info.items() >= {**told, "shape": [40, 48, 64, 3]}.items()
    assert films.get(f"{SAMPLE}/4/info").json()["code"] == "null-sample"
    assert films.get(f"{SAMPLE}/0/peaks").status_code == 400


def test_a_long_film_is_read_as_it_is_sent(
    films: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorlake_server.http.ranges.PIECE_NBYTES", 1000)

    answer = films.get(f"{SAMPLE}/0", headers={"Range": "bytes=7-"})

    assert answer.content == video_file("h264")[7:]
    assert int(answer.headers["Content-Length"]) == len(answer.content)


def test_rows_describe_films_without_reading_them(tmp_path: Path, connect: AppClient) -> None:
    with tl.create(str(tmp_path / "films"), {"clip": tl.Video(nullable=True)}) as ds:
        ds.extend({"clip": [*(video_file(name) for name in NAMES), None]})
        ds.commit()
        shapes = [None if one is None else list(one["clip"].shape) for one in (ds[0], ds[1])]
    settings = Settings(
        url=str(tmp_path), token="t", static=tmp_path / "no", max_page_nbytes=5 * 256
    )
    (pack,) = (
        one
        for one in (tmp_path / "films").rglob("*.tlp")
        if video_file("h264")[-4096:] in one.read_bytes()
    )
    content = bytearray(pack.read_bytes())
    content[content.find(video_file("h264")[-4096:]) + 1000] ^= 1  # no page reads what it verifies
    pack.write_bytes(content)

    page = connect(settings, token="t").get("/v1/datasets/films/rows").json()

    cells = [row["clip"] for row in page["rows"]]
    assert page["next"] is None
    assert cells[4] is None
    assert [cell["nbytes"] for cell in cells[:4]] == [len(video_file(name)) for name in NAMES]
    assert [cell["shape"] for cell in cells[:2]] == shapes
    assert cells[1]["media_type"] == "video/webm"
