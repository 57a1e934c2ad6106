"""Links: files that stay where they are, read by ranges, verified, reported and copied in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.storage import LinkStore, open_store, run
from tensorlake.types import LinkRecord, read_record

PICTURES = np.random.default_rng(0).integers(0, 255, (3, 20, 30, 3)).astype(np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three waveforms of 2 s and three pictures, as files in ``files/``."""
    folder = tmp_path / "files"
    folder.mkdir()
    sounds = tl.create(f"memory://links-{tmp_path.name}", {"x": tl.Audio(rate=8000)})
    rng = np.random.default_rng(1)
    sounds.extend({"x": [rng.integers(-9999, 9999, 16_000).astype(np.int16) for _ in range(3)]})
    for row, pixels in enumerate(PICTURES):
        (folder / f"{row}.flac").write_bytes(sounds["x"].bytes(row))
        PIL.Image.fromarray(pixels).save(folder / f"{row}.png")
    sounds.discard()
    return folder


def linked(files: Path, *, nullable: bool = True) -> tl.Dataset:
    schema = {
        "sound": tl.Link(tl.Audio(8000, 1), nullable=nullable),
        "image": tl.Link(tl.Image("png"), nullable=nullable),
    }
    ds = tl.create(files.parent / "ds.tl", schema, durability="none")
    given = {
        "sound": [files / "0.flac", f"file://{files}/1.flac", "../files/2.flac"],
        "image": [str(files / f"{row}.png") for row in range(3)],
    }
    ds.extend(given)
    ds.commit()
    return ds


def test_links_read_as_their_type_staged_and_committed(files: Path) -> None:
    ds = linked(files)
    ds.append({"sound": None, "image": None})
    ds.commit()
    stored = tl.create("memory://links-stored", {"sound": tl.Audio()})
    stored.extend({"sound": [files / f"{row}.flac" for row in range(3)]})

    for opened in (ds, tl.open(ds.url)):
        for row in range(3):
            expected = np.asarray(stored[row]["sound"])
            handle = opened[row]["sound"]
            assert isinstance(handle, type(stored[row]["sound"]))
            assert np.array_equal(np.asarray(handle), expected)
            assert np.array_equal(handle[500:900], expected[500:900])
            assert np.array_equal(opened["image"][row], PICTURES[row])
            assert np.array_equal(opened["image"][row, 3:7, 2:9], PICTURES[row, 3:7, 2:9])
        assert opened[3]["sound"] is None
        assert opened["image"][3] is None
        assert [one.shape for one in opened["sound"][:3]] == [(16_000, 1)] * 3
        assert len(opened.query("WHERE SHAPE(sound)[0] = 16000")) == 3
    stored.discard()


def test_a_part_of_a_file_costs_its_ranges_and_the_record_is_what_is_stored(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = linked(files)
    size = (files / "0.flac").stat().st_size
    read: list[int] = []
    plain = LinkStore.read

    def counted(self: LinkStore, url: str, ranges: Any) -> Any:
        read.append(sum(stop - start for start, stop in ranges))
        return plain(self, url, ranges)

    monkeypatch.setattr(LinkStore, "read", counted)
    _ = ds[0]["sound"][8000:8800]

    assert 0 < sum(read) < size * 0.6
    record = read_record(ds["sound"].bytes(2))
    assert (record.url, record.nbytes) == ("../files/2.flac", (files / "2.flac").stat().st_size)
    assert ds["sound"].bytes(0).find(b"fLaC") < 0


def test_a_file_that_changed_or_is_gone_is_an_error_and_never_other_bytes(files: Path) -> None:
    ds = linked(files)
    shutil.copy(files / "1.flac", files / "0.flac")
    cut = (files / "2.flac").read_bytes()[:-2000]
    (files / "2.flac").write_bytes(cut)
    (files / "1.png").unlink()

    with pytest.raises(tl.CorruptSampleError, match=r"0\.flac.*changed(.|\n)*link it again"):
        np.asarray(ds[0]["sound"])
    with pytest.raises(tl.CorruptSampleError, match="changed"):
        np.asarray(ds[2]["sound"])
    with pytest.raises(tl.CorruptSampleError, match=r"1\.png.*gone"):
        ds[1]["image"]
    report = ds.check(links=True)
    assert not report.ok
    assert [one.object.split(" of ")[0] for one in report.findings] == ["row 0", "row 2", "row 1"]
    ds["sound"][0] = files / "0.flac"  # the remedy
    ds["image"][1] = files / "2.png"
    ds.commit()
    assert np.array_equal(ds[1]["image"], PICTURES[2])
    assert len(ds.check(links=True).findings) == 1


def test_each_flipped_byte_of_a_linked_file_is_seen_where_it_is_read(files: Path) -> None:
    ds = linked(files)
    whole = (files / "0.flac").read_bytes()
    for at in np.random.default_rng(2).integers(0, len(whole), 25).tolist():
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (files / "0.flac").write_bytes(damaged)
        with pytest.raises(tl.CorruptSampleError):
            np.asarray(ds[0]["sound"])


def test_relative_links_go_with_a_copy(files: Path, tmp_path: Path) -> None:
    ds = linked(files)
    shutil.copytree(files, tmp_path / "elsewhere/files")
    tl.copy(ds.url, tmp_path / "elsewhere/ds.tl")
    shutil.rmtree(files)
    copied = tl.open(tmp_path / "elsewhere/ds.tl")

    assert np.asarray(copied[2]["sound"]).shape == (16_000, 1)
    with pytest.raises(tl.CorruptSampleError, match="gone"):
        np.asarray(copied[0]["sound"])


def test_absorb_copies_in_and_continues_where_it_stopped(files: Path) -> None:
    ds = linked(files)
    ds.append({"sound": None, "image": files / "0.png"})
    ds.commit()
    expected = [np.asarray(ds[row]["sound"]) for row in range(3)]
    (files / "1.flac").rename(files / "moved")
    with pytest.raises(tl.CorruptSampleError):
        ds.absorb("sound")
    (files / "moved").rename(files / "1.flac")

    assert (ds.absorb("sound"), ds.absorb("image")) == (3, 4)

    shutil.rmtree(files)
    copied = tl.open(ds.url)
    assert copied["sound"].type == tl.Audio(8000, 1, nullable=True)
    assert set(copied.schema) == {"sound", "image"}
    for row in range(3):
        assert np.array_equal(np.asarray(copied[row]["sound"]), expected[row])
        assert np.array_equal(copied[row]["image"], PICTURES[row])
    assert copied[3]["sound"] is None
    assert copied.check(links=True, decode=True).ok
    with pytest.raises(tl.InvalidInputError, match="copies linked files"):
        copied.absorb("sound")


def test_a_loader_reads_parts_of_linked_files_and_skips_lost_ones(files: Path) -> None:
    ds = linked(files, nullable=False)
    steps = {"sound": [tl.decode.AudioChunk(0.5)], "image": [tl.decode.Resize(8, 8)]}
    batches = list(ds.loader(batch_size=2, shuffle=True, seed=3, decode=steps))
    assert [np.shape(one["sound"]) for one in batches] == [(2, 4000, 1), (1, 4000, 1)]
    assert np.shape(batches[0]["image"]) == (2, 8, 8, 3)

    (files / "1.flac").unlink()
    with pytest.raises(tl.CorruptSampleError, match=r"row 1 of 'sound'.*gone"):
        list(ds.loader(batch_size=3, decode=steps))
    rows = [
        one["_row"].tolist()
        for one in ds.loader(
            batch_size=3, on_error="skip", decode=steps, columns=["sound", "image", "_row"]
        )
    ]
    assert rows == [[0, 2]]


def test_links_into_stores_by_url(files: Path) -> None:
    store = open_store("memory://links-bucket")
    run(store.put("a/0.flac", (files / "0.flac").read_bytes()))
    run(store.put("lake/clips/0.flac", (files / "0.flac").read_bytes()))
    ds = tl.create("memory://links-bucket/lake/ds", {"sound": tl.Link(tl.Audio())})
    ds.extend({"sound": ["memory://links-bucket/a/0.flac", "../clips/0.flac"]})
    ds.commit()

    assert np.array_equal(np.asarray(ds[0]["sound"]), np.asarray(ds[1]["sound"]))
    assert ds.check(links=True).ok


def test_ingestion_of_a_folder_can_link(files: Path, tmp_path: Path) -> None:
    ds = tl.ingest.audio(files, tmp_path / "in.tl", schema={"audio": tl.Link(tl.Audio())})
    assert len(ds) == 3
    assert ds["audio"].type == tl.Link(tl.Audio())
    assert np.asarray(ds[2]["audio"]).shape == (16_000, 1)
    shutil.copy(files / "1.flac", files / "0.flac")
    again = tl.ingest.audio(files, tmp_path / "in.tl", schema={"audio": tl.Link(tl.Audio())})
    assert again.ingest_report.updated == 1
    assert np.array_equal(np.asarray(again[0]["audio"]), np.asarray(again[1]["audio"]))
    (files / "3.flac").write_bytes(b"fLaC")
    skipped = tl.ingest.audio(
        files, tmp_path / "in.tl", schema={"audio": tl.Link(tl.Audio())}, on_error="skip"
    )
    assert (len(skipped), skipped.ingest_report.rejected) == (3, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"fLaC", "expects the URL or Path of a file"),
        (3, "expects the URL or Path of a file"),
        ("", "expects the URL or Path of a file"),
        ("none/at/all.flac", "relative to the dataset's URL"),
        (Path("/none/at/all.flac"), "no file .*\ncheck its address"),
        ("memory://links-of-no-dataset/a.flac", "no file .*\ncheck its address"),
        ("https://ana:pw@host/a.flac", "set_link_credentials"),
        ("https://host/a.flac?X-Amz-Signature=12", "set_link_credentials"),
        ("gopher://host/a.flac", "gopher"),
        ("/dev/zero", "a device"),
        ("/", "."),
        ("a\0b", "NUL"),
    ],
)
def test_what_cannot_be_linked(files: Path, given: Any, message: str) -> None:
    ds = linked(files)
    with pytest.raises(tl.TensorlakeError, match=message) as raised:
        ds.append({"sound": given})
    assert "ana:pw" not in str(raised.value)
    assert "Signature" not in str(raised.value)
    assert not ds.has_changes


def test_statements_and_conversion_read_no_file(files: Path) -> None:
    ds = linked(files)
    with pytest.raises(tl.TensorlakeError):
        ds.query(f"UPDATE SET sound = '{files}/1.flac' WHERE _row = 0")
    with pytest.raises(tl.InvalidInputError, match="URL or Path"):
        tl.Link(tl.Audio()).convert([str(files / "0.flac")], tensor="sound")
    for of in (tl.Nifti("int16"), tl.PointCloud(), "float32", tl.Audio(nullable=True)):
        with pytest.raises(tl.SchemaError):
            tl.Link(of)
    (files / "bad.flac").write_bytes(b"fLaC but no more")
    with pytest.raises(tl.InvalidInputError, match="not a whole FLAC"):
        ds.append({"sound": files / "bad.flac"})


@given(data=st.binary(max_size=200), at=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_damaged_records_are_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int
) -> None:
    ds = tl.create("memory://links-fuzz", {"image": tl.Link(tl.Image("png"))}, exist_ok=True)
    if not len(ds):
        path = tmp_path_factory.mktemp("fuzz") / "0.png"
        PIL.Image.fromarray(PICTURES[0]).save(path)
        ds.append({"image": path})
        ds.commit()
    whole = ds["image"].bytes(0)
    assert isinstance(read_record(whole), LinkRecord)
    changed = whole[: at % len(whole)] + data + whole[at % len(whole) + len(data) :]
    try:
        record = read_record(changed)
        assert record.map.nbytes == record.nbytes
    except ValueError:
        pass


def test_items_of_a_sequence_are_not_links():
    with pytest.raises(tl.SchemaError, match=r"stored in the dataset, got Link\(Video\)"):
        tl.Sequence(tl.Link(tl.Video()))


def test_batches_without_a_step_have_handles_of_the_files(files: Path) -> None:
    ds = linked(files)[["sound"]]

    (batch,) = ds.loader(batch_size=3)
    handles = batch["sound"]

    for row, one in enumerate(handles):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(ds[row]["sound"]))
        assert one.content == (files / f"{row}.flac").read_bytes()


def test_addresses_are_those_that_were_given(files: Path) -> None:
    ds = linked(files)
    ds.append({"sound": None, "image": None})

    assert ds["sound"].urls(slice(1, None)) == [f"file://{files}/1.flac", "../files/2.flac", None]
    with pytest.raises(tl.InvalidInputError, match="no URLs"):
        tl.create("memory://links-none", {"x": "int64"})["x"].urls()


@pytest.mark.parametrize(
    "address",
    [
        "http://[::1",
        "s3://b/../a.mp4",
        "https://h/x/%2e%2e/a.mp4",
        "fsspec+zip://x.mp4::file:///tmp/a.zip",
    ],
)
def test_addresses_of_no_single_place_are_refused(files: Path, address: str) -> None:
    with pytest.raises(tl.InvalidInputError, match="give the plain URL"):
        linked(files).append({"sound": address, "image": None})


@pytest.mark.parametrize(
    ("base", "link", "place"),
    [
        ("s3://b/lake/pets", "clips/1.mp4", "s3://b/lake/pets/clips/1.mp4"),
        ("s3://b/lake/pets", "../../x.mp4", "s3://b/x.mp4"),
        ("memory://a", "x.mp4", "memory://a/x.mp4"),
        ("/data/pets", "../clips/1.mp4", "/data/clips/1.mp4"),
        ("s3://b/l", "../../other/x.mp4", None),
        ("https://host/l", "../../evil.com/x", None),
        ("http://127.0.0.1:8300/l", "a/../../../films/0.mp4", None),
        ("memory://a", "../b", None),
    ],
)
def test_relative_links_stay_in_their_bucket(base: str, link: str, place: str | None) -> None:
    store = LinkStore(base)

    if place is not None:
        assert store.located(link) == place
        return
    with pytest.raises(tl.AccessError, match="leads out of"):
        store.located(link)


@pytest.mark.parametrize(
    ("place", "is_theirs"),
    [
        ("s3://films/a.mp4", True),
        ("s3://films/2024/a.mp4", True),
        ("s3://films-of-another/a.mp4", False),
        ("s3://filmset/a.mp4", False),
        ("s3://other/films/a.mp4", False),
    ],
)
@pytest.mark.parametrize("prefix", ["s3://films", "s3://films/"])
def test_credentials_go_to_their_bucket_alone(prefix: str, place: str, *, is_theirs: bool) -> None:
    store = LinkStore("memory://links-credentials")
    tl.set_link_credentials(prefix, {"key": "k", "secret": "s"})
    try:
        assert (store._options_of(place) is not None) == is_theirs
        with_options, _ = store._store(place)
        tl.set_link_credentials(prefix, None)
        assert (store._store(place)[0] is with_options) == (not is_theirs)
    finally:
        tl.set_link_credentials("s3://films", None)
    assert store._options_of("s3://films/a.mp4") is None


@pytest.mark.parametrize("options", [1, "key", ["key"], [("key", "k")], {1: "k"}, np.arange(2)])
def test_credentials_are_a_dict(options: Any) -> None:
    with pytest.raises(InvalidInputError, match="storage_options= is a dict"):
        tl.set_link_credentials("s3://films", options)


def test_absorb_begins_only_where_every_file_is_there(files: Path) -> None:
    ds = linked(files)
    (files / "1.flac").unlink()
    before = ds.version

    with pytest.raises(tl.CorruptSampleError, match="1 file cannot be copied, and nothing was"):
        ds.absorb("sound")

    assert ds.version == before
    assert "sound.absorbing" not in ds.schema


def test_absorb_by_a_handle_behind_another_that_absorbed_it_commits_nothing(files: Path) -> None:
    ds = linked(files)
    behind, ahead = tl.open(ds.url), tl.open(ds.url)
    ahead.absorb("sound")

    with pytest.raises(tl.InvalidInputError, match=r"in main@\d+ 'sound' is Audio"):
        behind.absorb("sound")

    assert tl.open(ds.url).version == ahead.version
    assert set(behind.schema) == {"sound", "image"}


def test_absorb_that_loses_to_another_leaves_no_tensor(files: Path, monkeypatch: Any) -> None:
    ds = linked(files)
    other, stat, calls = tl.open(ds.url), LinkStore.stat, [1]

    def absorbed(self: LinkStore, url: str) -> Any:
        if calls and calls.pop():
            other.absorb("sound")
        return stat(self, url)

    monkeypatch.setattr(LinkStore, "stat", absorbed)

    with pytest.raises(tl.InvalidInputError, match="'sound' is Audio"):
        ds.absorb("sound")

    assert set(tl.open(ds.url).schema) == {"sound", "image"}


def test_absorb_that_goes_on_copies_what_was_linked_again(files: Path, monkeypatch: Any) -> None:
    ds = linked(files)
    monkeypatch.setattr("tensorlake.dataset.maintenance.links.COMMIT_NBYTES", 1)
    reads = LinkStore.read

    def stops(self: LinkStore, url: str, ranges: Any) -> Any:
        if "2.flac" in url:
            raise FileNotFoundError(url)
        return reads(self, url, ranges)

    monkeypatch.setattr(LinkStore, "read", stops)
    with pytest.raises(tl.CorruptSampleError) as stopped:
        ds.absorb("sound")
    assert "drop_tensor('sound.absorbing')" in stopped.value.__notes__[0]
    monkeypatch.setattr(LinkStore, "read", reads)
    ds["sound"][0] = files / "2.flac"
    ds["sound"][1] = None
    ds.commit()

    assert ds.absorb("sound") == 2

    assert ds["sound"].bytes(0) == (files / "2.flac").read_bytes()
    assert ds[1]["sound"] is None
    assert ds["sound"].bytes(2) == (files / "2.flac").read_bytes()


def test_links_in_another_dataset_lead_to_the_same_files(files: Path, tmp_path: Path) -> None:
    ds = linked(files)[["sound"]]
    expected = np.asarray(ds[2]["sound"])

    beside = ds.materialize(files.parent / "beside.tl")
    below = ds.materialize(tmp_path / "far/below.tl")
    elsewhere = ds.materialize(f"memory://links-elsewhere-{tmp_path.name}")

    assert beside["sound"].urls() == ds["sound"].urls()
    for copied in (below, elsewhere):
        assert copied["sound"].urls(slice(2, 3)) == [f"file://{files}/2.flac"]
    for copied in (beside, below, elsewhere, tl.open(below.url)):
        assert np.array_equal(np.asarray(copied[2]["sound"]), expected)
        assert copied.check(decode=True, links=True).ok


def test_files_are_copied_where_the_new_tensor_has_their_type(files: Path, tmp_path: Path) -> None:
    ds = linked(files)
    ds.append({"sound": None, "image": files / "0.png"})
    ds.commit()
    expected = [np.asarray(ds[row]["sound"]) for row in range(3)]
    encode = {"sound": tl.Audio(nullable=True), "image": tl.Link(tl.Image("any"))}

    copied = ds.where("true").materialize(tmp_path / "copied.tl", encode=encode)
    extended = tl.create("memory://links-extended", {"sound": tl.Audio(nullable=True)})
    extended.extend(ds[["sound"]])
    with pytest.raises(tl.InvalidInputError, match=r"row 0 .*'sound' cannot take"):
        ds[["sound"]].materialize(tmp_path / "no.tl", encode={"sound": tl.Video(nullable=True)})
    with pytest.raises(tl.TensorNotFoundError, match="'clip'"):
        ds.where("true").materialize(tmp_path / "no.tl", encode={"clip": tl.Video()})
    with pytest.raises(tl.InvalidInputError, match="give the types by the names"):
        ds.where("true").materialize(tmp_path / "no.tl", encode=cast("Any", "sound"))

    assert np.array_equal(copied["image"][1], PICTURES[1])
    shutil.rmtree(files)
    assert copied["sound"].type == tl.Audio(nullable=True)
    for made in (copied, extended):
        assert all(
            np.array_equal(np.asarray(made[row]["sound"]), expected[row]) for row in range(3)
        )
        assert made[3]["sound"] is None
    extended.discard()


def test_an_absorbed_tensor_stays_personal(files: Path) -> None:
    ds = tl.create(files.parent / "ds.tl", {"x": tl.Link(tl.Audio(), personal=True)})
    ds.append({"x": files / "0.flac"})
    ds.commit()

    ds.absorb("x")

    assert ds["x"].type == tl.Audio(personal=True)
