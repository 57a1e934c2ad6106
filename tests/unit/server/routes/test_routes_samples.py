from __future__ import annotations

import io
import struct
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake_server import Settings
from tests.unit.server.conftest import AppClient

SAMPLE = "/v1/datasets/pets/tensors"


def frames_of(body: bytes) -> list[tuple[int, int, int, int, bytes]]:
    frames = []
    while body:
        index, kind, width, height, nbytes = struct.unpack("<IBxxxIII", body[:20])
        frames.append((index, kind, width, height, body[20 : 20 + nbytes]))
        body = body[20 + nbytes :]
    return frames


def test_an_image_is_sent_as_it_is_stored(client: httpx.Client) -> None:
    answer = client.get(f"{SAMPLE}/image/3")

    assert answer.headers["Content-Type"] == "image/jpeg"
    assert Image.open(io.BytesIO(answer.content)).size == (160, 120)


def test_a_size_makes_it_fit(client: httpx.Client) -> None:
    answer = client.get(f"{SAMPLE}/image/3", params={"size": 128})

    assert Image.open(io.BytesIO(answer.content)).size == (128, 96)


def test_what_could_run_leaves_as_an_attachment(client: httpx.Client) -> None:
    answer = client.get(f"{SAMPLE}/blob/0")

    assert answer.content.startswith(b"<svg")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("tensor", ["image", "caption", "meta", "blob", "boxes"])
def test_no_sample_runs_anything(client: httpx.Client, tensor: str) -> None:
    answer = client.get(f"{SAMPLE}/{tensor}/0")

    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert not answer.headers["Content-Type"].startswith(("text/html", "image/svg"))


def test_raw_is_always_a_download(client: httpx.Client) -> None:
    answer = client.get(f"{SAMPLE}/image/3?raw")

    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.content == client.get(f"{SAMPLE}/image/3").content


def test_arrays_leave_as_npy(client: httpx.Client) -> None:
    answer = client.get(f"{SAMPLE}/boxes/2")

    boxes = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert boxes.tolist() == [[20] * 4] * 2


def test_an_array_that_is_an_image_is_drawn(client: httpx.Client) -> None:
    answer = client.get("/v1/datasets/vision~digits/tensors/image/0")

    drawn = np.asarray(Image.open(io.BytesIO(answer.content)))
    assert answer.headers["Content-Type"] == "image/png"
    assert np.array_equal(drawn, np.arange(784, dtype=np.uint8).reshape(28, 28))


def test_null_and_missing_rows_are_not_found(client: httpx.Client) -> None:
    null = client.get(f"{SAMPLE}/image/11", params={"version": "main@1"})
    missing = client.get(f"{SAMPLE}/image/9999")
    negative = client.get(f"{SAMPLE}/image/-1")

    assert (null.status_code, null.json()["code"]) == (404, "null-sample")
    assert (missing.status_code, missing.json()["code"]) == (404, "row-not-found")
    assert negative.json()["code"] == "row-not-found"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("bytes=0-9", (0, 10)), ("bytes=10-", (10, None)), ("bytes=-5", (-5, None))],
)
def test_a_range_is_a_part(
    client: httpx.Client, asked: str, expected: tuple[int, int | None]
) -> None:
    whole = client.get(f"{SAMPLE}/image/3").content

    answer = client.get(f"{SAMPLE}/image/3", headers={"Range": asked})

    assert answer.status_code == 206
    assert answer.content == whole[slice(*expected)]
    assert answer.headers["Content-Range"].endswith(f"/{len(whole)}")


@pytest.mark.parametrize("start", ["999999", "9" * 5000])
def test_a_range_beyond_the_end_is_refused(client: httpx.Client, start: str) -> None:
    answer = client.get(f"{SAMPLE}/image/3", headers={"Range": f"bytes={start}-"})

    assert answer.status_code == 416


def test_representations_have_different_etags(client: httpx.Client) -> None:
    paths = ["image/3", "image/4", "image/3?size=64", "image/3?size=128", "image/3?raw"]

    etags = [client.get(f"{SAMPLE}/{path}").headers["ETag"] for path in paths]

    assert len(set(etags)) == len(paths)


def test_what_a_commit_did_not_touch_keeps_its_etag(client: httpx.Client) -> None:
    etags = {
        client.get(f"{SAMPLE}/image/3", params={"version": version}).headers["ETag"]
        for version in ("main@1", "main@2", "main@3", "fix-labels")
    }

    assert len(etags) == 1


def test_thumbnails_drawn_before_are_the_same(client: httpx.Client) -> None:
    body = {"tensor": "image", "rows": [1, 2, 3], "size": 80}

    first, again = (client.post("/v1/datasets/pets/thumbnails", json=body) for _ in range(2))

    assert first.content == again.content


def test_thumbnails_come_in_the_order_asked_in_one_body(client: httpx.Client) -> None:
    body = {"tensor": "image", "rows": [5, 0, 11, 5], "size": 96, "version": "main@1"}

    frames = frames_of(client.post("/v1/datasets/pets/thumbnails", json=body).content)

    assert [frame[0] for frame in frames] == [0, 1, 2, 3]
    assert [frame[1] for frame in frames] == [2, 2, 0, 2]
    assert frames[0][2:4] == (160, 120)
    assert Image.open(io.BytesIO(frames[0][4])).size == (96, 72)


def test_a_row_that_is_not_there_costs_no_other_its_thumbnail(client: httpx.Client) -> None:
    body = {"tensor": "image", "rows": [0, 1, 999, 10**20, 2], "size": 64}

    frames = frames_of(client.post("/v1/datasets/pets/thumbnails", json=body).content)

    assert [(frame[0], frame[1]) for frame in frames] == [(0, 2), (1, 2), (2, 3), (3, 3), (4, 2)]
    assert b"no row 999" in frames[2][4]


def test_a_thumbnail_that_cannot_be_made_says_why_and_the_others_are_sent(
    client: httpx.Client,
) -> None:
    body = {"tensor": "blob", "rows": [0, 1]}

    frames = frames_of(client.post("/v1/datasets/pets/thumbnails", json=body).content)

    assert [frame[1] for frame in frames] == [3, 3]
    assert b"not an image" in frames[0][4]


@pytest.mark.parametrize(
    "body",
    [{"tensor": "image", "rows": list(range(300))}, {"tensor": "image", "rows": [-1]},
     {"tensor": "image", "rows": [0], "size": 100_000}, {"rows": [0]}],
)  # fmt: skip
def test_a_request_for_too_much_is_refused(client: httpx.Client, body: dict[str, object]) -> None:
    assert client.post("/v1/datasets/pets/thumbnails", json=body).status_code == 422


def test_images_of_a_query_are_named_by_their_place_in_it(client: httpx.Client) -> None:
    query = {"tql": "SELECT image[0:20, 0:20] AS crop WHERE label = 'one'"}
    view = client.post("/v1/datasets/vision~digits/query", json=query).json()["view"]

    body = {"tensor": "crop", "rows": [0], "view": view}
    (frame,) = frames_of(client.post("/v1/datasets/vision~digits/thumbnails", json=body).content)

    drawn = np.asarray(Image.open(io.BytesIO(frame[4])))
    assert np.array_equal(
        drawn, np.arange(4 * 784).astype(np.uint8)[784:1568].reshape(28, 28)[:20, :20]
    )


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=-", "bytes=0-1,7-8", "bytes=a-b"])
def test_what_is_no_range_is_answered_by_the_whole(client: httpx.Client, asked: str) -> None:
    whole = client.get(f"{SAMPLE}/image/3")

    answer = client.get(f"{SAMPLE}/image/3", headers={"Range": asked})

    assert (answer.status_code, answer.content) == (200, whole.content)


def test_a_download_goes_on_only_where_the_sample_is_the_same(client: httpx.Client) -> None:
    etag = client.get(f"{SAMPLE}/image/3").headers["ETag"]

    same, other = (
        client.get(f"{SAMPLE}/image/3", headers={"Range": "bytes=4-", "If-Range": known})
        for known in (etag, '"of another version"')
    )

    assert (same.status_code, other.status_code) == (206, 200)
    assert other.content[4:] == same.content


def test_there_is_no_null_sample_that_a_client_could_have(client: httpx.Client) -> None:
    any_answer = {"If-None-Match": "*"}

    null = client.get(f"{SAMPLE}/image/11", params={"version": "main@1"}, headers=any_answer)
    there = client.get(f"{SAMPLE}/image/10", params={"version": "main@1"}, headers=any_answer)

    assert (null.status_code, there.status_code) == (404, 304)


@pytest.fixture
def clips(tmp_path: Path, connect: AppClient) -> httpx.Client:
    """Clips of 3, 0 and NULL frames (red of 10, 20, 30), and lists of words."""
    types = {
        "clip": tl.Sequence(tl.Image("png"), nullable=True),
        "words": tl.Sequence("str"),
        "score": "float32",
    }
    clips = tl.create(str(tmp_path / "clips"), types, durability="none")
    frames = [np.full((12, 16, 3), (10 * k, 0, 0), dtype=np.uint8) for k in (1, 2, 3)]
    clips.append({"clip": frames, "words": ["a", "b"], "score": 0})
    clips.append({"clip": [], "words": [], "score": 0})
    clips.append({"clip": None, "words": ["c" * 9000], "score": 0})
    clips.commit("three clips")
    return connect(Settings(url=str(tmp_path), public_read=True))


CLIPS = "/v1/datasets/clips"


@pytest.mark.parametrize("frame", [0, 2])
@pytest.mark.parametrize("size", [None, 16])
def test_a_frame_of_a_sequence_is_an_image(
    clips: httpx.Client, frame: int, size: int | None
) -> None:
    asked = {"frame": frame} | ({} if size is None else {"size": size})

    answer = clips.get(f"{CLIPS}/tensors/clip/0", params=asked)

    image = Image.open(io.BytesIO(answer.content))
    assert image.size == (16, 12)
    assert image.convert("RGB").getpixel((3, 3)) == (10 * (frame + 1), 0, 0)


def test_frames_have_names_of_their_own_in_caches(clips: httpx.Client) -> None:
    tags = {
        clips.get(f"{CLIPS}/tensors/clip/0", params={"frame": frame, "size": 16}).headers["ETag"]
        for frame in range(3)
    }

    assert len(tags) == 3


def test_a_frame_that_is_not_there_is_404_and_names_how_many_are(clips: httpx.Client) -> None:
    answer = clips.get(f"{CLIPS}/tensors/clip/0?frame=3")

    assert answer.status_code == 404
    assert answer.json()["code"] == "no-such-frame"
    assert answer.json()["detail"] == "row 0 of 'clip' has 3 frames, no frame 3"


@pytest.mark.parametrize("what", ["?size=16", "?frame=0", "/window"])
def test_an_empty_sequence_has_no_frame_to_show(clips: httpx.Client, what: str) -> None:
    answer = clips.get(f"{CLIPS}/tensors/clip/1{what}")

    assert (answer.status_code, answer.json()["code"]) == (404, "no-such-frame")
    assert answer.json()["detail"] == "row 1 of 'clip' has 0 frames, no frame 0"


def test_a_frame_of_no_sequence_is_refused(clips: httpx.Client) -> None:
    answer = clips.get(f"{CLIPS}/tensors/score/0?frame=0")

    assert answer.status_code == 400
    assert "'score' is Scalar(float32)" in answer.json()["detail"]


def test_the_thumbnail_of_a_sequence_is_its_first_frame(clips: httpx.Client) -> None:
    asked = {"tensor": "clip", "rows": [0, 1, 2], "size": 64}

    first, empty, null = frames_of(clips.post(f"{CLIPS}/thumbnails", json=asked).content)

    assert Image.open(io.BytesIO(first[4])).convert("RGB").getpixel((3, 3)) == (10, 0, 0)
    assert empty[4] == b"a sequence without frames has no image"
    assert null[1] == 0


def test_sequences_say_what_they_hold(clips: httpx.Client) -> None:
    info = clips.get(CLIPS).json()
    rows = clips.get(f"{CLIPS}/rows").json()["rows"]

    pictured = {one["name"]: (one["picture"], one["media_type"]) for one in info["tensors"]}
    assert pictured["clip"] == (True, "image/png")
    assert pictured["words"] == (False, None)
    assert [row["clip"] and row["clip"]["items"] for row in rows] == [3, 0, None]
    assert [row["words"] for row in rows[:2]] == [["a", "b"], []]
    assert rows[2]["words"] == {"$summary": "bytes", "nbytes": 9008, "items": 1}
