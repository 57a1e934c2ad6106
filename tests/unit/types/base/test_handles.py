"""Handles of samples iterate, and say dtype and axes, as the array that they decode to."""

from itertools import count

import numpy as np
import pytest
import torch

import tensorlake as tl
from tests.support.clouds import scan
from tests.support.meshes import mesh_file
from tests.support.sounds import sound_file

NUMBERS = count()
VOXELS = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
FRAMES = np.zeros((5, 32, 48, 3), np.uint8)
SAMPLES = {
    "nifti": (tl.Nifti("int16"), {"voxels": VOXELS, "affine": np.eye(4)}),
    "audio": (tl.Audio(), sound_file("FLAC", "PCM_16", rate=8_000)),
    "points": (tl.PointCloud(), scan(200)),
    "mesh": (tl.Mesh(), mesh_file("glb")),
    "video": (tl.Video(fps=10), FRAMES),
}


def handle_of(name):
    kind, sample = SAMPLES[name]
    ds = tl.create(f"memory://handle-{next(NUMBERS)}", {"x": kind})
    ds.append({"x": sample})
    ds.commit()
    return ds["x"][0]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_handle_is_iterated_to_its_end_and_says_what_its_array_is(name):
    handle = handle_of(name)
    whole = np.asarray(handle)

    assert (handle.ndim, handle.dtype) == (whole.ndim, whole.dtype)
    items = list(handle)
    assert len(items) == len(whole)
    np.testing.assert_array_equal(np.array(items, whole.dtype), whole)


def test_blocks_of_an_iteration_meet_where_they_end(monkeypatch):
    monkeypatch.setattr("tensorlake.types.base.parts._ITERATED_NUMBERS", 90)

    np.testing.assert_array_equal(np.stack(list(handle_of("nifti"))), VOXELS)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_torch_takes_a_handle():
    np.testing.assert_array_equal(torch.as_tensor(handle_of("nifti")).numpy(), VOXELS)
