"""torchvision reads the same folders of KITTI's as `tl.ingest.kitti`."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl

datasets = pytest.importorskip("torchvision.datasets")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

LINE = "{kind} 0.{n}0 {n} -1.5 {n}.0 2.0 5{n}.5 55.0 1.6 1.7 3.{n} -0.{n} 1.7 46.7 -1.{n}"


def test_torchvision_reads_the_same_boxes(tmp_path):
    training = tmp_path / "Kitti" / "raw" / "training"
    for folder in ("image_2", "label_2"):
        (training / folder).mkdir(parents=True)
    for n in range(3):
        Image.new("RGB", (80, 60), (n, 9, 9)).save(training / "image_2" / f"{n:06d}.png")
        lines = [LINE.format(kind=kind, n=n) for kind in ("Car", "Van")[: n + 1]]
        (training / "label_2" / f"{n:06d}.txt").write_text("\n".join(lines))
    theirs = datasets.Kitti(str(tmp_path), train=True)
    with tl.ingest.kitti(training, str(tmp_path / "x.tl")) as ds:
        for image, target in (theirs[at] for at in range(len(theirs))):
            row = next(ds[at] for at in range(3) if np.array_equal(ds[at]["image"], image))
            assert row["label"].as_names() == [one["type"] for one in target]
            for ours, name in (
                *(("boxes", "bbox"), ("dimensions", "dimensions"), ("location", "location")),
                *(("rotation_y", "rotation_y"), ("alpha", "alpha"), ("occluded", "occluded")),
                ("truncated", "truncated"),
            ):
                expected = np.array([one[name] for one in target], np.float32)
                assert np.array_equal(row[ours], expected), name
