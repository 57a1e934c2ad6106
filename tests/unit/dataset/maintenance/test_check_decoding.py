"""Samples that are decoded by a check: those that a row gives as handles, too."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

pytest.importorskip("soundfile")

from tests.support.sounds import silent_flac, undecodable_flac


def test_samples_that_are_read_lazily_are_decoded_too():
    pytest.importorskip("nibabel")
    kinds = {"ct": tl.Nifti("int16", tiles=(4, 4, 4)), "mask": tl.SegmentMask(["a", "b"], of="ct")}
    lazy = {"sound": tl.Audio(), "points": tl.PointCloud(), "mesh": tl.Mesh(nullable=True)}
    ds = create_on(MemoryStore(), {**kinds, **lazy})
    for number in range(3):
        voxels = np.full((6, 5, 7), number % 2, np.int16)
        sound = undecodable_flac() if number == 1 else silent_flac(1)
        ct = {"voxels": voxels, "affine": np.eye(4)}
        points = np.zeros((9, 3), np.float32)
        ds.append({"ct": ct, "mask": voxels, "sound": sound, "points": points, "mesh": None})
    ds.commit("with a bad one")

    report = ds.check(full=False, decode=True)

    assert [one.object for one in report.findings] == ["row 1 of 'sound' in main@1"]
    assert report.samples == 15
