"""Items that an earlier call left out are told by the calls after it (A4, A7)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tensorlake as tl
from tests.unit.ingest.vision.test_annotations import jpeg

BAD = ["bad0.jpg", "bad1.jpg", "bad2.jpg", "bad3.jpg"]


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Six images, of which four are damaged."""
    (tmp_path / "p").mkdir()
    for number, name in enumerate([*BAD, "good0.jpg", "good1.jpg"]):
        content = jpeg(number)
        (tmp_path / "p" / name).write_bytes(content[:-200] if name in BAD else content)
    return tmp_path / "p"


def left_out(ds: tl.Dataset) -> list[str]:
    report = ds.ingest_report
    assert report is not None
    return [one.item for one in report.skipped]


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_the_same_call_reports_again_what_was_left_out(folder, url, on_error):
    first = tl.ingest.images(folder, url, on_error=on_error).ingest_report

    again = tl.ingest.images(folder, url, on_error=on_error).ingest_report

    assert (again.rows, again.already_there) == (0, 2)
    assert [one.item for one in again.skipped] == BAD
    assert [one.tensor for one in again.skipped] == ["image"] * 4
    assert all("not a whole JPEG" in one.reason for one in again.skipped)
    assert "4 rejected" in str(again)
    assert again.quarantine == first.quarantine


def test_what_was_left_out_is_an_error_for_a_call_that_leaves_nothing_out(folder, url):
    tl.ingest.images(folder, url, on_error="skip")

    with pytest.raises(
        tl.InvalidInputError,
        match=r"bad0\.jpg: 'image' .*not a whole JPEG",
    ):
        tl.ingest.images(folder, url)

    assert len(tl.open(url)) == 2


def test_each_advice_for_what_was_left_out_works(folder, url, tmp_path):
    tl.ingest.images(folder, url, on_error="skip")
    (tmp_path / "mended").mkdir()
    for number, name in enumerate(BAD):
        (tmp_path / "mended" / name).write_bytes(jpeg(number))

    assert len(tl.ingest.images(folder, url, on_error="quarantine")) == 2
    assert len(tl.ingest.images(tmp_path / "mended", url, mode="append")) == 6
    for name in BAD:
        (tmp_path / "mended" / name).replace(folder / name)
    assert len(tl.ingest.images(folder, f"{url}-other")) == 6
    tl.delete(url, confirm=url)
    assert len(tl.ingest.images(folder, url)) == 6


def test_what_several_commits_of_a_stopped_run_left_out_is_reported_by_the_next(folder, url):
    """In batches of an image each; those without a row are noted by the next commit."""
    broken = folder / "good1.jpg"
    broken.write_bytes(jpeg(5)[:-200])
    tl.ingest.images(folder, url, on_error="skip", commit_every="1B")
    assert len(tl.open(url).log()) == 2

    again = tl.ingest.images(folder, url, on_error="skip", commit_every="1B")

    assert left_out(again) == [*BAD, "good1.jpg"]
    assert again.ingest_report.already_there == 1


def test_an_append_reports_again_what_it_left_out(folder, url, tmp_path):
    tl.create(url, {"image": tl.Image("jpeg")})
    for _ in range(2):
        ds = tl.ingest.images(folder, url, mode="append", on_error="skip")
        assert left_out(ds) == BAD

    with pytest.raises(tl.InvalidInputError, match=r"bad0\.jpg: 'image' .*not a whole JPEG"):
        tl.ingest.images(folder, url, mode="append")
    assert len(ds) == 2


def test_what_was_left_out_is_not_there_already_and_what_was_mended_is(folder, url, tmp_path):
    """Mended without another size or time, as by a right to read it."""
    good = jpeg(0)
    bad = folder / "bad0.jpg"
    bad.write_bytes(bytes(len(good)))
    os.utime(bad, (1_700_000_000, 1_700_000_000))
    tl.ingest.images(folder, url, on_error="skip")
    (tmp_path / "alone").mkdir()
    alone = bad.rename(tmp_path / "alone" / "bad0.jpg")

    with pytest.raises(tl.InvalidInputError, match=r"bad0\.jpg: 'image' .*not a whole JPEG"):
        tl.ingest.images(tmp_path / "alone", url, mode="append")
    alone.write_bytes(good)
    os.utime(alone, (1_700_000_000, 1_700_000_000))
    assert len(tl.ingest.images(tmp_path / "alone", url, mode="append")) == 3
    (tmp_path / "alone" / "new.jpg").write_bytes(jpeg(9))
    assert len(tl.ingest.images(tmp_path / "alone", url, mode="append")) == 4


def test_records_that_were_left_out_of_a_file_are_told_too(tmp_path, url):
    (tmp_path / "x.csv").write_text("x\n1\ntwo\n3\n")
    schema = {"x": "int64"}
    first = tl.ingest.csv(tmp_path / "x.csv", url, schema=schema, on_error="skip")

    again = tl.ingest.csv(tmp_path / "x.csv", url, schema=schema, on_error="skip")

    assert (left_out(again), len(again)) == (left_out(first), 2)
    assert len(left_out(again)) == 1
    with pytest.raises(tl.InvalidInputError, match=r"line 3 of x\.csv, column 'x'"):
        tl.ingest.csv(tmp_path / "x.csv", url, schema=schema)
