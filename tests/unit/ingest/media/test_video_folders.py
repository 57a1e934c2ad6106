"""Folders of videos, with and without a table beside them."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.videos import decoded_by_pyav, encode, moving_picture, video_file

CAPTIONS = [
    {"file": "one.mp4", "caption": "a red door", "views": 12},
    {"file": "deep/two.webm", "caption": None, "views": 7},
]


@pytest.fixture
def folder(tmp_path):
    """A folder of two videos, and a file that is none."""
    (tmp_path / "clips" / "deep").mkdir(parents=True)
    (tmp_path / "clips" / "one.mp4").write_bytes(video_file("h264"))
    (tmp_path / "clips" / "deep" / "two.webm").write_bytes(video_file("vp9"))
    (tmp_path / "clips" / "notes.txt").write_text("not a video")
    return tmp_path / "clips"


def table_of(form, folder):
    """The captions as one of the tables that importers take."""
    match form:
        case "csv":
            (folder / "c.csv").write_text(
                "views,file,caption\n7,deep/two.webm,\n12,one.mp4,a red door\n"
            )
            return folder / "c.csv"
        case "tsv":
            (folder / "c.tsv").write_text(
                "path\tcaption\tviews\n./one.mp4\ta red door\t12\ndeep/two.webm\t\t7\n"
            )
            return str(folder / "c.tsv")
        case "json":
            (folder / "c.json").write_text(json.dumps(CAPTIONS))
            return folder / "c.json"
        case "jsonl":
            (folder / "c.jsonl").write_text("\n".join(map(json.dumps, CAPTIONS)))
            return folder / "c.jsonl"
        case "frame":
            return pd.DataFrame(CAPTIONS)
        case _:
            return CAPTIONS


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "jsonl", "frame", "rows"])
def test_a_table_gives_each_file_its_values(folder, form):
    ds = tl.ingest.video(folder, f"memory://captions-{form}", table=table_of(form, folder))

    assert set(ds.schema) == {"video", "caption", "views"}
    assert ds["caption"].to_list() == [None, "a red door"]
    assert ds["views"].to_list() == [7, 12]
    assert ds["video"].bytes(1) == video_file("h264")
    assert np.array_equal(ds[0]["video"][3:9], decoded_by_pyav(video_file("vp9"))[3:9])


def test_folders_are_classes_without_a_table(folder):
    shutil.move(folder / "one.mp4", folder / "deep" / "one.mp4")

    ds = tl.ingest.video(folder, "memory://classes-of-videos")

    assert ds.schema["label"].names == ("deep",)
    assert len(ds) == 2


def test_a_changed_table_updates_its_rows(folder):
    url = "memory://changed-captions"
    tl.ingest.video(folder, url, table=CAPTIONS)
    ids = tl.open(url).row_ids

    changed = [CAPTIONS[0] | {"caption": "a green door"}, CAPTIONS[1]]
    ds = tl.ingest.video(folder, url, table=changed)

    report = ds.ingest_report
    assert (report.added, report.updated, report.unchanged) == (0, 1, 1)
    assert ds["caption"].to_list() == [None, "a green door"]
    assert ds.row_ids == ids
    assert tl.ingest.video(folder, url, table=changed).ingest_report.unchanged == 2


def test_a_new_file_is_added(folder):
    url = "memory://more-videos"
    tl.ingest.video(folder, url, labels=False)
    (folder / "three.avi").write_bytes(video_file("mjpeg"))

    report = tl.ingest.video(folder, url, labels=False).ingest_report

    assert (report.added, report.unchanged) == (1, 2)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (CAPTIONS[:1], "'deep/two.webm' has no row in the table"),
        ([*CAPTIONS, {"file": "no.mp4", "caption": "", "views": 0}], "'no.mp4' is in the table"),
        ([*CAPTIONS, CAPTIONS[0]], "two rows of the file 'one.mp4'"),
        ([{"name": "one.mp4"}], "no column that names files; it has name"),
        ([{"file": "one.mp4", "video": 1}] * 1, "cannot be 'video'|has no row"),
        ("captions.xlsx", "is not a CSV, TSV, JSON or JSON lines file"),
    ],
)
def test_tables_that_do_not_fit_are_refused(folder, table, reason):
    url = "memory://refused-captions"

    with pytest.raises(InvalidInputError, match=reason):
        tl.ingest.video(folder, url, table=table)
    assert not tl.exists(url)


def test_a_table_and_a_pattern_exclude_each_other(folder):
    with pytest.raises(InvalidInputError, match="give one"):
        tl.ingest.video(folder, "memory://both", table=CAPTIONS, pattern="{id}.mp4")


def test_files_without_a_row_can_be_left_out(folder):
    rows = [CAPTIONS[0], {"file": "no.mp4", "caption": "", "views": 0}]

    ds = tl.ingest.video(folder, "memory://left-out", table=rows, on_error="skip")

    assert len(ds) == 1
    assert {item.item for item in ds.ingest_report.items} == {"deep/two.webm", "no.mp4"}


def test_damaged_files_are_named(folder):
    (folder / "half.mp4").write_bytes(video_file("h264")[:-100])

    with pytest.raises(InvalidInputError, match=r"half\.mp4.*\n?.*data end at byte"):
        tl.ingest.video(folder, "memory://damaged-video", labels=False)
    ds = tl.ingest.video(folder, "memory://skipped-video", labels=False, on_error="skip")

    assert len(ds) == 2
    assert [item.item for item in ds.ingest_report.items] == ["half.mp4"]


def test_a_schema_says_how_files_are_taken(folder):
    (folder / "one.mp4").unlink()
    pieces = encode(moving_picture(12), "mpegts", "libx264", "yuv420p", {"g": "6"})
    (folder / "one.ts").write_bytes(pieces)

    schema = {"video": tl.Video(remux=True)}
    ds = tl.ingest.video(folder, "memory://remuxed", labels=False, schema=schema)

    assert np.array_equal(ds["video"][1], decoded_by_pyav(pieces))


def test_an_archive_is_a_folder(folder, tmp_path):
    shutil.make_archive(str(tmp_path / "clips"), "zip", folder)

    ds = tl.ingest.video(tmp_path / "clips.zip", "memory://video-archive", table=CAPTIONS)

    assert ds["views"].to_list() == [7, 12]
