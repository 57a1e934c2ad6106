"""``check(decode=True)`` of samples that are read lazily."""

import io

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on
from tests.support.sounds import undecodable_flac


def test_samples_that_are_read_lazily_are_decoded_too():
    soundfile = pytest.importorskip("soundfile")
    pytest.importorskip("nibabel")
    kinds = {"ct": tl.Nifti("int16", tiles=(4, 4, 4)), "mask": tl.SegmentMask(["a", "b"], of="ct")}
    lazy = {"sound": tl.Audio(), "points": tl.PointCloud(), "mesh": tl.Mesh(nullable=True)}
    ds = create_on(MemoryStore(), {**kinds, **lazy})
    noise = np.random.default_rng(0).integers(-9000, 9000, 40_000).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, noise, 8000, format="FLAC")
    for number in range(3):
        voxels = np.full((6, 5, 7), number % 2, np.int16)
        sound = undecodable_flac() if number == 1 else file.getvalue()  # of right checksums
        ct = {"voxels": voxels, "affine": np.eye(4)}
        points = np.zeros((9, 3), np.float32)
        ds.append({"ct": ct, "mask": voxels, "sound": sound, "points": points, "mesh": None})
    ds.commit("with a bad one")

    report = ds.check(full=False, decode=True)

    assert [one.object for one in report.findings] == ["row 1 of 'sound' in main@1"]
    assert report.samples == 15
