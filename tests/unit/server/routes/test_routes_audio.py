"""Samples of audio over HTTP: played by browsers, read in ranges, described in rows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from PIL import Image

import tensorlake as tl
from tensorlake_server.settings.settings import Settings
from tests.support.sounds import sound_file

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"
FILES = {
    "audio/wav": sound_file("WAV", "PCM_16"),
    "audio/flac": sound_file("FLAC", "PCM_16"),
    "audio/ogg": sound_file("OGG", "VORBIS"),
    "audio/mpeg": sound_file("MP3", "MPEG_LAYER_III"),
}


@pytest.fixture
def client(tmp_path: Path, connect: AppClient) -> httpx.Client:
    ds = tl.create(str(tmp_path / "lake/speech"), {"audio": tl.Audio()}, durability="none")
    ds.extend({"audio": list(FILES.values())})
    ds.commit()
    settings = Settings(
        url=str(tmp_path / "lake"), token=TOKEN, signing_key=b"k" * 16, static=tmp_path / "none"
    )
    return connect(settings, token=TOKEN)


def test_a_sample_is_its_file_which_browsers_play(client: httpx.Client) -> None:
    for row, (media_type, content) in enumerate(FILES.items()):
        answer = client.get(f"/v1/datasets/speech/tensors/audio/{row}")

        assert answer.headers["content-type"] == media_type
        assert "content-disposition" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content == content


def test_a_range_of_a_sample_is_served_for_seeking(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/speech/tensors/audio/1", headers={"Range": "bytes=100-199"})

    assert answer.status_code == 206
    assert answer.content == FILES["audio/flac"][100:200]


def test_rows_describe_samples(client: httpx.Client) -> None:
    rows = client.get("/v1/datasets/speech/rows").json()["rows"]

    assert [row["audio"]["media_type"] for row in rows] == list(FILES)
    assert [row["audio"]["shape"] for row in rows] == [[64_000, 1]] * 4


@pytest.mark.parametrize("path", ["1?window=0,50", "1/window"])
def test_a_window_is_of_images(client: httpx.Client, path: str) -> None:
    answer = client.get(f"/v1/datasets/speech/tensors/audio/{path}")

    assert answer.status_code == 400
    assert "window" in answer.json()["detail"]


def test_the_outline_and_the_thumbnail_of_a_sound(client: httpx.Client) -> None:
    sample = "/v1/datasets/speech/tensors/audio/1"
    peaks = client.get(f"{sample}/peaks", params={"stretches": 8}).json()

    values = np.asarray(soundfile.read(io.BytesIO(FILES["audio/flac"]))[0]).reshape(8, -1)
    assert peaks["low"] == np.rint(values.min(axis=1) * 127).astype(int).tolist()
    assert peaks["high"] == np.rint(values.max(axis=1) * 127).astype(int).tolist()
    assert client.get(f"{sample}/info").json()["rate"] == 16_000
    drawn = Image.open(io.BytesIO(client.get(sample, params={"size": 128}).content))
    assert drawn.size == (128, 32)
