"""Samples of media stay readable: their files, maps, tiles, levels and links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tests.golden.media_contents import AFFINE, RATE, frames, places, triangle, voxels, wave

DATASET = Path(__file__).parent / "v1_media"


@pytest.fixture(scope="module")
def ds() -> tl.Dataset:
    return tl.open(DATASET.as_posix(), read_only=True)


@pytest.mark.parametrize(("at", "number"), [(0, 0), (2, 1)])
def test_every_sample_reads_as_it_was_written(ds: tl.Dataset, at: int, number: int) -> None:
    row = ds[at]

    video = np.asarray(row["video"]).astype(int)
    assert video.shape == (10, 32, 32, 3)
    assert np.abs(video - frames(number)).max() <= 6  # it is encoded with loss
    assert np.array_equal(row["video"][4:7], video[4:7])
    assert row["audio"].rate == RATE
    sound = np.asarray(row["audio"])[:, 0] * 32_768
    assert np.array_equal(sound.astype(np.int16), wave(number))
    expected = places(number)
    found = np.asarray(row["points"].xyz)
    assert np.array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    assert np.array_equal(row["mesh"].vertices, triangle(number)["vertices"])
    assert np.array_equal(row["mesh"].faces, triangle(number)["faces"])
    assert np.array_equal(np.asarray(row["nifti"]), voxels(number))
    assert np.array_equal(row["nifti"].affine, AFFINE)
    assert np.array_equal(row["nifti"][3:5, 2:9, 1], voxels(number)[3:5, 2:9, 1])
    assert np.array_equal(np.asarray(row["dicom"]), voxels(number))
    linked = np.asarray(row["link"])[:, 0] * 32_768
    assert np.array_equal(linked.astype(np.int16), wave(7))


def test_nulls_are_null_and_the_whole_is_sound(ds: tl.Dataset) -> None:
    assert all(ds[1][name] is None for name in ds.schema)
    assert ds.check(decode=True).ok
