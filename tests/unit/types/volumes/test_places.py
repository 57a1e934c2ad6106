"""Volumes declared ``of=`` others, DICOM among them: voxels are at the places of these."""

from itertools import count
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tests.support.dicoms import series_bytes

NUMBERS = count()
VOXELS = np.random.default_rng(0).integers(-900, 900, (6, 7, 8), np.int16)
TILTED = [0.8, 0.6, 0.0, -0.6, 0.8, 0.0]


def in_nifti(orientation: list[float]) -> np.ndarray:
    """Return the affine of `series_bytes`, by the equation of DICOM PS3.3 C.7.6.2.1.1, in RAS."""
    places = [
        np.array([-10, -20, 5 + 3 * z])
        + np.array(orientation[:3]) * 0.75 * x
        + np.array(orientation[3:]) * 0.5 * y
        for x, y, z in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    columns = np.array([*(one - places[0] for one in places[1:]), places[0]]).T * [[-1], [-1], [1]]
    return np.vstack([columns, [0, 0, 0, 1]])


def create(of: Any) -> tl.Dataset:
    return tl.create(f"memory://places-{next(NUMBERS)}", {"ct": tl.Dicom(), "other": of})


@pytest.mark.parametrize("orientation", [[1, 0, 0, 0, 1, 0], TILTED])
def test_a_nifti_volume_of_a_series_is_where_the_series_is(orientation: list[float]):
    ds = create(tl.Nifti(of="ct"))
    files = series_bytes(VOXELS, ImageOrientationPatient=orientation)
    affine = in_nifti(orientation)

    ds.append({"ct": files, "other": {"voxels": VOXELS, "affine": affine}})
    with pytest.raises(tl.InvalidInputError, match=r"affine of 'other' places voxels up to"):
        ds.append({"ct": files, "other": {"voxels": VOXELS, "affine": np.eye(4)}})

    ds.commit()
    assert len(ds) == 1


@pytest.mark.parametrize(
    ("attributes", "is_refused"),
    [
        ({}, False),
        ({"step": 3.0001}, False),
        ({"step": 4.0}, True),
        ({"PixelSpacing": [0.75, 0.5]}, True),
        ({"ImageOrientationPatient": TILTED}, True),
        ({"ImageOrientationPatient": [0, 1, 0, 1, 0, 0]}, True),
    ],
)
def test_a_series_of_another_has_its_geometry(attributes: dict[str, Any], *, is_refused: bool):
    ds = create(tl.Dicom(of="ct"))
    row = {"ct": series_bytes(VOXELS), "other": series_bytes(VOXELS, **attributes)}

    if is_refused:
        with pytest.raises(tl.InvalidInputError, match="resample it to the voxels of 'ct'"):
            ds.append(row)
    else:
        ds.append(row)

    ds.commit()
    assert len(ds) == (not is_refused)


@pytest.mark.parametrize("lost", ["ImageOrientationPatient", "PixelSpacing"])
def test_a_slice_without_a_place_is_compared_by_its_shape(lost: str):
    ds = create(tl.Dicom(of="ct"))
    attributes: dict[str, Any] = {lost: None}
    plane, wide = VOXELS[:1], VOXELS[:1, 1:]

    ds.append({"ct": series_bytes(plane), "other": series_bytes(plane, 3.0, **attributes)})
    with pytest.raises(tl.InvalidInputError):
        ds.append({"ct": series_bytes(plane), "other": series_bytes(wide, 3.0, **attributes)})


def test_one_slice_is_where_another_is():
    ds = create(tl.Dicom(of="ct"))
    wide: Any = [1, 1]
    one, other = series_bytes(VOXELS[:1]), series_bytes(VOXELS[:1], PixelSpacing=wide)

    ds.append({"ct": one, "other": one})
    with pytest.raises(tl.InvalidInputError, match="places voxels"):
        ds.append({"ct": one, "other": other})
