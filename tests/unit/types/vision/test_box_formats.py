"""Numbers of boxes in each format."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tensorlake.types import BoxFormat, convert_boxes

FORMATS: tuple[BoxFormat, ...] = ("xyxy", "xywh", "cxcywh")
ONE: dict[BoxFormat, list[float]] = {
    "xyxy": [10, 20, 16, 30],
    "xywh": [10, 20, 6, 10],
    "cxcywh": [13, 25, 6, 10],
}


@pytest.mark.parametrize(("given", "wanted"), list(product(FORMATS, FORMATS)))
def test_a_box_is_the_same_in_every_format(given: BoxFormat, wanted: BoxFormat) -> None:
    boxes = np.array([ONE[given], [0, 0, 0, 0]], np.float32)
    before = boxes.copy()

    found = convert_boxes(boxes, given, wanted)

    assert found.tolist() == [ONE[wanted], [0, 0, 0, 0]]
    assert found.dtype == np.float64
    assert np.array_equal(boxes, before)


def test_no_boxes_are_no_rows() -> None:
    assert convert_boxes([], "xywh", "xyxy").shape == (0, 4)


def test_a_size_is_kept_far_from_the_origin() -> None:
    tiny = np.array([[2.0**40, 0, 2.0**-20, 1]])

    found = convert_boxes(tiny, "xywh", "cxcywh")

    assert found[0, 2] == 2.0**-20
