"""Tar shards that are not whole (A5): told by shard and sample, whatever program wrote them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import webdataset

import tensorlake as tl
from tensorlake.ingest.vision.tar_index import index_tar
from tests.support.niftis import nifti_bytes

SAMPLES = 6
BLOCK = 512


def shard(count: int = SAMPLES, tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """Samples of two members of a block each."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tar_format) as tar:
        for number in range(count):
            for field, content in (("cls", f"{number}"), ("txt", f"text {number}")):
                info = tarfile.TarInfo(f"{number:03}.{field}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content.encode()))
    return made.getvalue()


def ingest(content: bytes, folder: Path, **options) -> tl.Dataset:
    (folder / "x.tar").write_bytes(content)
    return tl.ingest.webdataset(folder / "x.tar", f"memory://{folder.name}", **options)


def stored(ds: tl.Dataset) -> list[int]:
    return ds["cls"][:].tolist()


@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_no_cut_of_a_shard_is_taken_for_a_whole_one(tar_format):
    """At each byte of its last member, and at each block before."""
    whole = shard(3, tar_format)
    content_stop = 3 * 2 * 2 * BLOCK
    cuts = [*range(BLOCK, content_stop, BLOCK), *range(content_stop - 2 * BLOCK, content_stop)]

    damages = [index_tar(io.BytesIO(whole[:cut])).damage for cut in cuts]

    assert None not in damages
    assert index_tar(io.BytesIO(whole[: content_stop + BLOCK])).damage is None
    assert index_tar(io.BytesIO(whole)).damage is None


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        (
            4 * 4 * BLOCK,
            r"without the 512 zeros or more that end a tar file, behind sample '003'; 4 samp",
        ),
        (4 * 4 * BLOCK + 7, r"it ends in a header, at byte 8,199, behind sample '003'"),
        (4 * 4 * BLOCK + BLOCK, r"it ends in '004\.cls', 0 bytes into its 1"),
        (4 * 4 * BLOCK + 3 * BLOCK + 2, r"it ends in '004\.txt', 2 bytes into its 6"),
    ],
)
def test_a_cut_shard_is_an_error_that_names_shard_and_sample(tmp_path, stop, told):
    with pytest.raises(tl.InvalidInputError, match=rf"x\.tar' is not a whole tar file: .*{told}"):
        ingest(shard()[:stop], tmp_path)


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_whole_samples_of_a_cut_shard_can_be_ingested_and_the_rest_is_reported(tmp_path, on_error):
    ds = ingest(shard()[: 4 * 4 * BLOCK + 3 * BLOCK + 2], tmp_path, on_error=on_error)

    assert stored(ds) == [0, 1, 2, 3]
    skipped = {one.item: one.reason for one in ds.ingest_report.skipped}
    assert list(skipped) == ["x.tar", "x.tar:004"]
    assert "it ends in '004.txt', 2 bytes into its 6" in skipped["x.tar"]
    assert skipped["x.tar:004"] == "cut: only cls are there"


def test_a_damaged_header_does_not_hide_what_follows_it(tmp_path):
    damaged = bytearray(shard())
    damaged[4 * 4 * BLOCK + 3] ^= 0xFF

    with pytest.raises(
        tl.InvalidInputError, match=r"header at byte 8,192 of .* is damaged, behind"
    ):
        ingest(bytes(damaged), tmp_path)
    ds = ingest(bytes(damaged), tmp_path, on_error="skip")

    assert stored(ds) == [0, 1, 2, 3]


def test_shards_put_behind_one_another_are_not_taken_for_the_first(tmp_path):
    with pytest.raises(tl.InvalidInputError, match=r"data behind its end at byte 12,288"):
        ingest(shard() + shard(), tmp_path)


def test_the_end_that_a_writer_left_out_can_be_added_as_the_message_says(tmp_path):
    folder = tmp_path / "made here"
    folder.mkdir()
    with pytest.raises(
        tl.InvalidInputError, match=r"only if its writer is known to have finished, .*: truncate"
    ) as caught:
        ingest(shard()[: SAMPLES * 4 * BLOCK], folder)
    command = str(caught.value).rpartition("truncate")[2]

    subprocess.run(f"truncate{command}", shell=True, check=True)

    ds = tl.ingest.webdataset(folder / "x.tar", f"memory://{tmp_path.name}")
    assert stored(ds) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(shard()[: 4 * 4 * BLOCK + BLOCK + 7], id="in padding"),
        pytest.param(shard()[: 4 * 4 * BLOCK + 3 * BLOCK + 2], id="in a member"),
        pytest.param(shard()[: 4 * 4 * BLOCK + 7], id="in a header"),
        pytest.param(shard()[: 4 * 4 * BLOCK + 2 * BLOCK], id="within a sample"),
        pytest.param(shard() + shard(), id="data behind the end"),
    ],
)
def test_zeros_are_advised_for_no_other_damage(tmp_path, content):
    """With them a cut shard would be taken for a whole one."""
    with pytest.raises(tl.InvalidInputError, match="make or fetch the shard again") as caught:
        ingest(content, tmp_path)

    assert "truncate" not in str(caught.value)


def test_shards_of_webdatasets_own_writer_are_whole(tmp_path):
    with webdataset.TarWriter(str(tmp_path / "x.tar")) as writer:
        for number in range(SAMPLES):
            writer.write({"__key__": f"{number:03}", "cls": number, "txt": "text"})

    assert stored(tl.ingest.webdataset(tmp_path / "x.tar", f"memory://{tmp_path.name}")) == [
        *range(SAMPLES)
    ]


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar program")
@pytest.mark.parametrize("options", ["cf", "--format=v7 -cf", "--format=posix -cf", "-b 1 -cf"])
def test_shards_of_the_tar_program_are_whole_also_when_it_appended(tmp_path, options):
    for number in range(SAMPLES):
        (tmp_path / f"{number}.cls").write_text(str(number))
    make = f"tar {options} x.tar --sort=name [0-4].cls && tar -rf x.tar 5.cls"
    subprocess.run(make, shell=True, check=True, cwd=tmp_path)

    ds = tl.ingest.webdataset(tmp_path / "x.tar", f"memory://{tmp_path.name}")

    assert stored(ds) == [*range(SAMPLES)]


def test_a_link_in_a_shard_is_told_and_not_passed_over(tmp_path):
    made = io.BytesIO(shard(2).rstrip(b"\0"))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number in range(3):
            info = tarfile.TarInfo(f"{number}.cls")
            if number == 1:
                info.type, info.linkname = tarfile.LNKTYPE, "0.cls"
            else:
                info.size = 1
            tar.addfile(info, io.BytesIO(b"7"))

    with pytest.raises(tl.InvalidInputError, match=r"sample '1' of .* is a link to '0\.cls'"):
        ingest(made.getvalue(), tmp_path)
    ds = ingest(made.getvalue(), tmp_path, on_error="skip")

    assert stored(ds) == [7, 7]
    assert [one.item for one in ds.ingest_report.skipped] == ["x.tar:1"]


@pytest.mark.parametrize(
    ("field", "content", "told"),
    [
        ("json", b"{", "'json' of sample '001'"),
        ("txt", b"\xff\xfe", "'txt' of sample '001'"),
        ("npy", b"no array", "'npy' of sample '001'"),
        ("cls", b"cat", "'cls'"),
        ("jpg", b"no image", "'jpg'"),
    ],
)
def test_a_sample_with_a_bad_member_is_named_and_can_be_left_out(tmp_path, field, content, told):
    good = {"json": b"{}", "txt": b"a", "cls": b"1"}
    array, image = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3))
    PIL.Image.new("RGB", (8, 8)).save(image, "JPEG")
    good |= {"npy": array.getvalue(), "jpg": image.getvalue()}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number in range(3):
            one = content if number == 1 else good[field]
            for name, member in ((field, one), ("id", b"%d" % number)):
                info = tarfile.TarInfo(f"{number:03}.{name}")
                info.size = len(member)
                tar.addfile(info, io.BytesIO(member))

    with pytest.raises(tl.InvalidInputError, match=told):
        ingest(made.getvalue(), tmp_path)
    ds = ingest(made.getvalue(), tmp_path, on_error="skip")

    assert ds["id"][:].tolist() == [0, 2]
    assert [one.item for one in ds.ingest_report.skipped] == ["x.tar:001"]


def test_a_sample_that_lacks_a_member_can_be_left_out_even_the_first(tmp_path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("000.cls", "001.cls", "001.txt", "002.cls", "002.txt"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(name[2:3].encode()))

    with pytest.raises(
        tl.InvalidInputError, match=r"sample '001' of .* has cls, txt; the first has"
    ):
        ingest(made.getvalue(), tmp_path)
    ds = ingest(made.getvalue(), tmp_path, on_error="skip")

    assert stored(ds) == [1, 2]
    assert [str(one.reason) for one in ds.ingest_report.skipped] == ["has cls; most have cls, txt"]


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("field", ["jpg", "left.png", "nii"])
def test_the_type_of_a_field_is_that_of_its_valid_samples(tmp_path, field, broken):
    good = io.BytesIO()
    PIL.Image.new("RGB", (8, 8)).save(good, "PNG" if field == "left.png" else "JPEG")
    bad, kind = b"no image", tl.Image("png" if field == "left.png" else "jpeg")
    if field == "nii":  # cut behind its header, which names another dtype
        bad, kind = nifti_bytes(np.zeros((4, 4, 4), np.int16))[:400], tl.Nifti("float32")
        good = io.BytesIO(nifti_bytes(np.ones((4, 4, 4), np.float32)))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number in range(3):
            content = bad if number == broken else good.getvalue()
            for name, member in ((field, content), ("cls", b"%d" % number)):
                info = tarfile.TarInfo(f"{number}.{name}")
                info.size = len(member)
                tar.addfile(info, io.BytesIO(member))

    with pytest.raises(tl.InvalidInputError):
        ingest(made.getvalue(), tmp_path)
    ds = ingest(made.getvalue(), tmp_path, on_error="skip")

    assert ds[field].type == kind
    assert stored(ds) == [number for number in range(3) if number != broken]
    assert [one.item for one in ds.ingest_report.skipped] == [f"x.tar:{broken}"]


def test_images_of_which_none_is_valid_have_the_type_of_their_suffix(tmp_path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("0.jpg", "1.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"none"))

    ds = ingest(made.getvalue(), tmp_path, on_error="skip")

    assert ds["jpg"].type == tl.Image("jpeg")
    assert (len(ds), ds.ingest_report.rejected) == (0, 2)
