"""Masks are compared pixel by pixel, each of one side with each of the other."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryTypeError, compile_query
from tests.unit.query.array_source import ArraySource, samples

ONE = ColumnType("bool", "bool", (None, None), nullable=True)
MANY = ColumnType("bool", "bool", (None, None, None))
FIXED = ColumnType("bool", "bool", (2, 3))
CODES = ColumnType("number", "uint8", (None, None))
random = np.random.default_rng(5)
SIZES = [(2, 3), (4, 4), (2, 3), (5, 1), (0, 3)]


def masks(*counts):
    return [random.random((*count, *size)) < 0.5 for count, size in zip(counts, SIZES, strict=True)]


def source():
    ones = masks((), (), (), (), ())
    ones[2] = None
    return ArraySource(
        {
            "one": (ONE, ones),
            "many": (MANY, masks((2,), (0,), (1,), (3,), (2,))),
            "other": (MANY, masks((3,), (2,), (1,), (1,), (1,))),
            "codes": (CODES, [random.integers(0, 3, size, np.uint8) for size in SIZES]),
            "boxes": (ColumnType("number", "float32", (None, 4)), [np.zeros((1, 4))] * 5),
        }
    )


def iou(a, b):
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 0.0


def column(text, here=None):
    here = here or source()
    return samples(compile_query(f"SELECT {text} AS x", here.schema).run(here).columns["x"])


def test_every_mask_is_compared_with_every_other_of_its_row():
    here = source()
    firsts, seconds = (here.columns[name][1] for name in ("many", "other"))

    found = column("IOU(many, other)", here)

    for row, (a, b) in enumerate(zip(firsts, seconds, strict=True)):
        wanted = [[iou(one, two) for two in b] for one in a]
        assert np.asarray(found[row]).reshape(len(a), len(b)) == pytest.approx(
            np.reshape(wanted, (len(a), len(b)))
        )


def test_one_mask_with_one_gives_a_number_and_null_gives_null():
    here = source()
    ones, codes = (here.columns[name][1] for name in ("one", "codes"))

    found = column("IOU(one, codes = 1)", here)

    for row, (a, b) in enumerate(zip(ones, codes, strict=True)):
        assert found[row] == (None if a is None else pytest.approx(iou(a, b == 1)))


def test_masks_of_fixed_size_are_compared_too():
    here = ArraySource({"m": (FIXED, masks((), (), (), (), ())[:1] * 2)})

    assert column("IOU(m, m)", here) == [1.0, 1.0]


def test_masks_intersect_where_they_share_a_pixel():
    here = ArraySource({"m": (FIXED, [np.eye(2, 3, dtype=bool), np.zeros((2, 3), bool)])})

    assert column("INTERSECTS(m, [[1, 0, 0], [0, 0, 0]] > 0)", here) == [True, False]


def test_masks_of_different_sizes_are_refused_with_their_row():
    here = source()

    with pytest.raises(QueryTypeError, match=r"row 1: a mask of 4×4 pixels and one of 2×4"):
        column("IOU(one, codes[:2] = 1)", ArraySource(only_rows(here, [0, 1])))


def only_rows(here, rows):
    return {
        name: (kind, [data[row] for row in rows]) for name, (kind, data) in here.columns.items()
    }


def test_a_mask_and_boxes_are_refused_before_anything_is_read():
    here = source()

    with pytest.raises(QueryTypeError, match="masks are compared with masks, and boxes is"):
        compile_query("SELECT IOU(one, boxes) AS x", here.schema)

    with pytest.raises(QueryTypeError, match="write codes = 1"):
        compile_query("SELECT IOU(one, codes) AS x", here.schema)
