"""Masks leave as the codes of their pixels; what is drawn over pictures leaves as numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tensorlake.errors import CorruptSampleError
from tensorlake.types import (
    BinaryMask,
    InstanceMask,
    Keypoints,
    Polygon,
    SegmentMask,
    Timestamp,
    Uuid,
)
from tensorlake_server.bodies.cells import make_cells
from tensorlake_server.media.masks import IGNORED, mask_codes, render_mask


def codes_of(png: bytes) -> np.ndarray:
    pixels = np.asarray(Image.open(io.BytesIO(png))).astype(np.int64)
    assert not pixels[..., 2].any()
    return pixels[..., 0] + 256 * pixels[..., 1]


def test_every_code_of_a_segmentation_survives_the_png() -> None:
    codes = np.arange(1200, dtype=np.uint16).reshape(30, 40)

    picture = render_mask(SegmentMask(dtype="uint16"), codes)

    assert (picture.width, picture.height) == (40, 30)
    np.testing.assert_array_equal(codes_of(picture.data), codes)


def test_pixels_of_no_class_are_told_apart_from_every_class() -> None:
    sample = np.array([[0, 255], [1, 255]], dtype=np.uint8)

    codes = mask_codes(SegmentMask(["road", "car"], ignore=255), sample)

    assert codes.tolist() == [[0, IGNORED], [1, IGNORED]]


def test_a_smaller_mask_holds_only_codes_of_the_mask() -> None:
    codes = np.zeros((64, 96), dtype=np.uint8)
    codes[:, 48:] = 200

    picture = render_mask(SegmentMask(), codes, size=24)

    assert (picture.width, picture.height) == (96, 64)
    small = codes_of(picture.data)
    assert small.shape == (16, 24)
    assert (small[:, :12] == 0).all()
    assert (small[:, 12:] == 200).all()


def test_the_smaller_of_two_objects_shows_where_they_overlap() -> None:
    masks = np.zeros((2, 4, 6), dtype=np.bool_)
    masks[0, 1:3, 2:4] = True
    masks[1, :, :5] = True

    codes = mask_codes(InstanceMask(), masks)

    expected = np.zeros((4, 6), dtype=np.uint16)
    expected[:, :5] = 2
    expected[1:3, 2:4] = 1
    np.testing.assert_array_equal(codes, expected)


def test_a_binary_mask_is_ones_and_zeros() -> None:
    sample = np.array([[False, True], [True, False]])

    assert codes_of(render_mask(BinaryMask(), sample).data).tolist() == [[0, 1], [1, 0]]


def test_a_mask_without_pixels_is_refused() -> None:
    with pytest.raises(CorruptSampleError, match="0 × 0 pixels"):
        render_mask(InstanceMask(), np.zeros((0, 0, 0), dtype=np.bool_))


def test_outlines_and_keypoints_are_numbers() -> None:
    outlines = Polygon().convert([[[0, 0, 4, 0, 4, 3]], []], tensor="outline")
    points = Keypoints(["a", "b"]).convert([[[[1, 2, 2], [3, 4, 1]]]], tensor="points")

    assert make_cells(Polygon(), outlines) == [[[[0, 0], [4, 0], [4, 3]]], []]
    assert make_cells(Keypoints(["a", "b"]), points) == [[[[1, 2, 2], [3, 4, 1]]]]


def test_moments_and_identifiers_are_text() -> None:
    at = Timestamp("us", "UTC")
    moments = at.convert(["2026-03-01T12:00Z"], tensor="at")
    ids = Uuid().convert(["6BA7B810-9DAD-11D1-80B4-00C04FD430C8"], tensor="id")

    assert make_cells(at, moments) == ["2026-03-01T12:00:00+00:00"]
    assert make_cells(Uuid(), ids) == ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]
