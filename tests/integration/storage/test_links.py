"""Links to files on S3 and on web servers: ranges, verification, credentials, odd servers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import open_store, run
from tensorlake.testing import S3Server, s3_server
from tests.support.file_server import FileServer, file_server
from tests.support.sounds import sound_file, tone
from tests.support.videos import decoded_by_pyav, video_file

SOUND = sound_file("WAV", "PCM_16", seconds=30)
FRAMES = np.round(tone(30 * 16_000) * 32767)


@pytest.fixture
def web() -> Generator[FileServer]:
    with file_server() as server:
        server.files = {"a b/ü.wav": SOUND, "0.mp4": video_file("h264")}
        yield server


@pytest.fixture(scope="module")
def s3() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


def linked(path: Path, url: str, kind: object = None) -> tl.Dataset:
    ds = tl.create(path, {"x": tl.Link(kind or tl.Audio())})
    ds.append({"x": url})
    ds.commit()
    return tl.open(path)


def test_parts_of_a_file_on_a_web_server_are_requested_by_ranges(
    web: FileServer, tmp_path: Path
) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")
    assert [one[:2] for one in web.asked] == [("HEAD", "a b/ü.wav"), ("GET", "a b/ü.wav")]
    web.asked.clear()

    part = ds[0]["x"][160_000:168_000]

    assert np.abs(part[:, 0] * 32768 - FRAMES[160_000:168_000, 0]).max() <= 2
    assert [one[0] for one in web.asked] == ["GET"]
    assert web.asked[0][2] <= 16_000 * 2
    web.asked.clear()
    steps = {"x": [tl.decode.AudioChunk(0.5)]}
    (batch,) = ds.loader(batch_size=1, decode=steps)
    assert np.shape(batch["x"]) == (1, 8_000, 1)
    assert sum(one[2] for one in web.asked) < 40_000


def test_clips_of_a_video_on_a_web_server_are_those_of_the_file(
    web: FileServer, tmp_path: Path
) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/0.mp4", tl.Video())
    expected = decoded_by_pyav(web.files["0.mp4"])

    np.testing.assert_array_equal(ds[0]["x"][12:30:3], expected[12:30:3])
    (batch,) = ds.loader(batch_size=1, decode={"x": [tl.decode.Clip(4, start="center")]})
    np.testing.assert_array_equal(batch["x"][0], expected[18:22])


@pytest.mark.parametrize("name", ["a b/ü.wav", "a%20b/%C3%BC.wav"])
def test_addresses_are_escaped_or_not(web: FileServer, tmp_path: Path, name: str) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/{name}")

    assert ds["x"].urls() == [f"{web.url}/{name}"]
    assert ds[0]["x"].frames == len(FRAMES)


def test_a_copy_and_an_export_read_the_same_files(web: FileServer, tmp_path: Path) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")
    tl.copy(ds.url, tmp_path / "copy")

    copied = tl.open(tmp_path / "copy")

    assert copied["x"].urls() == ds["x"].urls()
    assert copied.to_numpy()["x"][0] == SOUND
    assert copied.absorb("x") == 1
    assert copied["x"].bytes(0) == SOUND


@pytest.mark.parametrize("has_tags", [True, False])
@pytest.mark.parametrize("change", ["shorter", "other", "gone"])
def test_a_file_that_changed_on_a_web_server_is_found(
    web: FileServer, tmp_path: Path, change: str, *, has_tags: bool
) -> None:
    web.has_tags = has_tags
    ds = linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")
    assert ds.check(links=True, decode=True).samples == 1
    other = bytearray(SOUND)
    other[len(other) // 2] ^= 1
    changed = {"shorter": {"a b/ü.wav": SOUND[:-9999]}, "other": {"a b/ü.wav": bytes(other)}}
    web.files = changed.get(change, {})

    with pytest.raises(tl.CorruptSampleError, match="gone" if change == "gone" else "changed"):
        np.asarray(ds[0]["x"])

    looked_up = ds.check(links=True)
    assert looked_up.ok == (change == "other" and not has_tags)
    read = ds.check(links=True, decode=True)
    assert [one.object for one in read.findings] == ["row 0 of 'x' in main@1"]


def test_redirects_are_followed_and_loops_end(web: FileServer, tmp_path: Path) -> None:
    web.redirects["r.wav"] = f"{web.url}/a%20b/%C3%BC.wav"

    ds = linked(tmp_path / "ds", f"{web.url}/r.wav")

    assert ds[0]["x"][:5].shape == (5, 1)
    assert ds["x"].urls() == [f"{web.url}/r.wav"]


def test_a_server_without_ranges_is_named_with_what_to_do(web: FileServer, tmp_path: Path) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")
    web.has_ranges = False

    with pytest.raises(tl.errors.UnsupportedStoreError, match=r"row 0 .*sends whole files only"):
        ds.append({"x": f"{web.url}/a b/ü.wav"})
    with pytest.raises(tl.errors.UnsupportedStoreError, match=r"\nstore the file"):
        np.asarray(ds[0]["x"])


def test_a_file_that_changes_while_it_is_linked_is_refused(
    web: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorlake.types.base.file.BLOCK_NBYTES", 100_000)
    monkeypatch.setattr("tensorlake.dataset.write.links.READ_AT_ONCE_NBYTES", 100_000)
    web.replaced_after = (4, {"a b/ü.wav": SOUND[:-2] + b"\1\0"})

    with pytest.raises(tl.InvalidInputError, match=r"row 0 .*changed while it was read\nlink it"):
        linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_given_up(
    web: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = linked(tmp_path / "ds", f"{web.url}/a b/ü.wav")
    monkeypatch.setattr("tensorlake.storage.stores.object_store.REQUEST_TIMEOUT_S", 0.2)
    web.delay_s = 5.0

    with pytest.raises(tl.errors.StorageTimeoutError):
        np.asarray(ds[0]["x"])
    (one,) = ds.check(links=True).findings
    assert "cannot be looked up" in one.what


@pytest.mark.parametrize("client", ["", "fsspec+"])
def test_links_into_buckets_take_credentials_that_no_dataset_stores(
    s3: S3Server, tmp_path: Path, client: str
) -> None:
    bucket = client + s3.fresh_url().rpartition("/")[0]
    options = s3.storage_options
    store = open_store(bucket, storage_options=options)
    run(store.put("films/0.wav", SOUND))
    inside = f"{bucket}/lake/ds"
    ds = tl.create(inside, {"x": tl.Link(tl.Audio())}, storage_options=options)
    ds.extend({"x": ["../../films/0.wav", f"{bucket}/films/0.wav"]})
    ds.commit()
    outside = tl.create(tmp_path / "ds", {"x": tl.Link(tl.Audio())})
    tl.set_link_credentials(bucket, options)
    try:
        outside.append({"x": f"{bucket}/films/0.wav"})
        outside.commit()
        far = ds[:].materialize(tmp_path / "far")

        for one in (ds, outside, far):
            assert np.abs(one[0]["x"][:999, 0] * 32768 - FRAMES[:999, 0]).max() <= 2
            assert one.check(links=True, decode=True).ok
        assert far["x"].urls() == [f"{bucket}/films/0.wav"] * 2
        run(store.put("films/0.wav", SOUND[:-2] + b"\1\0"))
        assert "written again" in ds.check(links=True).findings[0].what
    finally:
        tl.set_link_credentials(bucket, None)
    for folder in ("ds", "far"):
        for file in (tmp_path / folder).rglob("*"):
            content = file.read_bytes() if file.is_file() else b""
            assert not any(str(one).encode() in content for one in options.values())


@pytest.mark.parametrize("status", [405, 501])
def test_a_server_without_head_is_named_with_its_answer(status):
    with file_server() as server:
        server.files["0.mp4"], server.head_status = video_file("h264"), status
        ds = tl.create(f"memory://links-without-head-{status}", {"file": tl.Link(tl.Video())})

        with pytest.raises(tl.UnsupportedStoreError, match=rf"HEAD requests \({status}\)"):
            ds.append({"file": f"{server.url}/0.mp4"})

        server.head_status = None
        with pytest.raises(tl.InvalidInputError, match="there is no file"):
            ds.append({"file": f"{server.url}/1.mp4"})
