"""KITTI's folders: lines of labels, calibrations and points, and what is refused."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

import tensorlake as tl
from tensorlake.errors import InvalidInputError

LINE = "Car 0.00 1 -1.57 {n}.0 2.0 5{n}.5 55.0 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59"
SKY = "DontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1000 -1000 -1000 -10"
CALIB = "P2: 7.2 0 6.0 4.4 0 7.2 1.7 2.1 0 0 1 2.7\nR0_rect: 1 0 0 0 1 0 0 0 1\n\n"


def write_frame(root: Path, n: int, *lines: str, calib: str = CALIB) -> None:
    parts = {
        "image_2": root / "image_2" / f"{n:06d}.png",
        "label_2": root / "label_2" / f"{n:06d}.txt",
        "calib": root / "calib" / f"{n:06d}.txt",
        "velodyne": root / "velodyne" / f"{n:06d}.bin",
    }
    for path in parts.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    Pillow.new("RGB", (80, 60), (n, n, n)).save(parts["image_2"])
    parts["label_2"].write_text("\n".join(lines))
    parts["calib"].write_text(calib)
    np.arange(4 * (n + 1), dtype=np.float32).tofile(parts["velodyne"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "kitti"
    for n in range(3):
        write_frame(made / "training", n, *[LINE.format(n=n)] * n, SKY)
    return made


def test_each_object_is_a_box_with_its_numbers(root, tmp_path):
    ds = tl.ingest.kitti(root / "training", str(tmp_path / "x.tl"))
    row = ds[2]

    assert [*ds.schema] == [
        *("image", "boxes", "label", "truncated", "occluded", "alpha", "dimensions", "location"),
        *("rotation_y", "calib", "points", "file_name"),
    ]
    assert row["label"].as_names() == ["Car", "Car", "DontCare"]
    assert row["boxes"][0].tolist() == [2.0, 2.0, 52.5, 55.0]
    assert row["dimensions"][0].tolist() == np.float32([1.65, 1.67, 3.64]).tolist()
    assert row["location"][0].tolist() == np.float32([-0.65, 1.71, 46.70]).tolist()
    assert row["occluded"].tolist() == [1, 1, -1]
    assert row["rotation_y"].tolist() == np.float32([-1.59, -1.59, -10]).tolist()
    assert row["calib"]["R0_rect"] == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert row["points"].xyz.shape == (3, 3)
    assert row["file_name"] == "image_2/000002.png"
    assert row["image"].shape == (60, 80, 3)


def test_training_and_testing_are_splits_and_scores_are_kept(root, tmp_path):
    write_frame(root / "testing", 0, f"{LINE.format(n=1)} 0.75")
    ds = tl.ingest.kitti(root, str(tmp_path / "x.tl"))
    assert ds["split"][:].as_names() == ["testing", "training", "training", "training"]
    assert ds["score"][0].tolist() == [0.75]
    assert np.isnan(ds["score"][1]).all()


def test_the_same_call_again_follows_the_source(root, tmp_path):
    dst = str(tmp_path / "x.tl")
    assert tl.ingest.kitti(root, dst).ingest_report.added == 3
    assert tl.ingest.kitti(root, dst).ingest_report.unchanged == 3
    write_frame(root / "training", 3, SKY)
    (root / "training" / "label_2" / "000001.txt").write_text(SKY)
    (root / "training" / "calib" / "000002.txt").write_text("P2: 1 2 3")
    (root / "training" / "image_2" / "000000.png").unlink()
    ds = tl.ingest.kitti(root, dst, delete=True)
    report = ds.ingest_report
    assert (report.added, report.updated, report.deleted) == (1, 2, 1)
    rows = {row["file_name"][-10:-4]: row for row in (ds[at] for at in range(len(ds)))}
    assert sorted(rows) == ["000001", "000002", "000003"]
    assert rows["000001"]["label"].as_names() == ["DontCare"]
    assert rows["000002"]["calib"] == {"P2": [1, 2, 3]}


def test_images_without_labels_have_no_boxes(tmp_path):
    (tmp_path / "image_2").mkdir()
    Pillow.new("RGB", (8, 6)).save(tmp_path / "image_2" / "0.png")
    ds = tl.ingest.kitti(tmp_path, "memory://kitti-images")
    assert (len(ds), ds[0]["boxes"].shape, "points" in ds.schema) == (1, (0, 4), False)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Car 1 2 3", "it has 4 fields, not 15 or 16"),
        (f"{LINE.format(n=1)} 0.5 7", "it has 17 fields"),
        (LINE.format(n=1).replace("46.70", "x"), "could not convert"),
        (LINE.format(n=1).replace("46.70", "1e39"), "float32 cannot hold"),
        (LINE.format(n=1).replace("46.70", "nan"), "float32 cannot hold"),
        (LINE.format(n=1).replace(" 1 -1.57", " 7 -1.57"), "occluded is 7"),
        (LINE.format(n=1).replace("55.0", "1.0"), "negative width or height"),
    ],
)
def test_a_line_that_is_no_object_is_named_and_left_out_alone(root, tmp_path, line, why):
    (root / "training" / "label_2" / "000001.txt").write_text(f"{SKY}\n{line}")
    dst = str(tmp_path / "x.tl")
    with pytest.raises(
        InvalidInputError, match=rf"line 2 of 'training/label_2/000001\.txt'.*{why}"
    ):
        tl.ingest.kitti(root, dst)
    ds = tl.ingest.kitti(root, dst, on_error="skip")
    assert (len(ds), ds.ingest_report.rejected) == (2, 1)


def test_calibrations_and_folders_that_do_not_fit_are_refused(root, tmp_path):
    with pytest.raises(InvalidInputError, match="no images in a folder 'image_2' of"):
        tl.ingest.kitti(root / "training" / "calib", "memory://kitti-none")
    for text, why in (
        ("P2 1 2", "is not 'NAME"),
        ("P2: 1 x", "not a number"),
        ("\xff", "not text"),
    ):
        (root / "training" / "calib" / "000001.txt").write_text(text, encoding="latin-1")
        with pytest.raises(InvalidInputError, match=why):
            tl.ingest.kitti(root, "memory://kitti-none")


def test_damaged_files_give_the_rows_or_an_error_of_ours(root):
    draw = random.Random(2)
    files = sorted(one for one in root.rglob("*") if one.is_file())
    for number in range(24):
        path = draw.choice(files)
        whole = path.read_bytes()
        content = bytearray(whole)
        if number % 3 == 0:
            del content[draw.randrange(len(content)) :]
        else:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        with suppress(tl.TensorlakeError):
            assert len(tl.ingest.kitti(root, f"memory://kitti-fuzz-{number}")) == 3
        path.write_bytes(whole)
