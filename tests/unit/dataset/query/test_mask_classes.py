"""Class names of segmentation masks in conditions: they stand for their codes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import QueryNameError, QueryTypeError

NAMES = ["none", "liver", "tumour"]


@pytest.fixture(scope="module")
def ds() -> Any:
    schema = {
        "scan": tl.Array("int16", (None, None, None), tiles=(8, 8, 8)),
        "tiled": tl.SegmentMask(NAMES, of="scan", ignore=255, nullable=True),
        "flat": tl.SegmentMask(NAMES),
        "codes": tl.SegmentMask(nullable=True),
        "other": tl.SegmentMask(["sky", "liver"]),
    }
    made = tl.create("memory://mask-classes", schema)
    for number in range(6):
        volume = np.zeros((9, 10, 11), np.uint8)
        volume[: number % 3, :number] = number % 3
        volume[-1, -1, -1] = 255
        plane = volume[0]
        made.append(
            {
                "scan": volume.astype(np.int16),
                "tiled": None if number == 5 else volume,
                "flat": plane,
                "codes": plane,
                "other": plane % 2,
            }
        )
    made.commit()
    return made


@pytest.mark.parametrize(
    ("by_name", "by_code"),
    [
        ("CONTAINS({x}, 'tumour')", "CONTAINS({x}, 2)"),
        ("NOT CONTAINS({x}, 'liver')", "NOT CONTAINS({x}, 1)"),
        ("ANY({x} = 'tumour')", "ANY({x} = 2)"),
        ("ANY('liver' = {x})", "ANY(1 = {x})"),
        ("ALL({x} != 'liver')", "ALL({x} != 1)"),
        ("ARRAY_SUM({x} = 'liver') > 20", "ARRAY_SUM({x} = 1) > 20"),
        ("CONTAINS({x}[0], 'liver')", "CONTAINS({x}[0], 1)"),
        ("CONTAINS({x}, $name)", "CONTAINS({x}, 1)"),
    ],
)
@pytest.mark.parametrize("column", ["tiled", "flat"])
def test_a_name_is_its_code(ds: Any, by_name: Any, by_code: Any, column: Any):
    params = {"name": "liver"} if "$" in by_name else {}

    found = ds.query(f"WHERE {by_name.format(x=column)}", **params)
    expected = ds.query(f"WHERE {by_code.format(x=column)}")

    assert found.rows.tolist() == expected.rows.tolist()
    assert 0 < len(found) < len(ds)


def test_single_pixels_are_compared_and_counted(ds: Any):
    assert ds.query("WHERE flat[0, 0] = 'liver'").rows.tolist() == [1, 4]
    assert ds.query("WHERE flat[0, 0] IN ('liver', 'tumour')").rows.tolist() == [1, 2, 4, 5]
    counts = ds.query("SELECT ARRAY_SUM(flat = 'tumour') AS n")["n"][:]
    assert counts.tolist() == [0, 0, 22, 0, 0, 55]


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("CONTAINS(flat, 'livr')", QueryNameError, "did you mean 'liver'"),
        ("ANY(tiled = '')", QueryNameError, "classes: none, liver, tumour"),
        ("ANY(flat > 'none')", QueryTypeError, "no order"),
        ("ANY(codes = 'liver')", QueryTypeError, "cannot compare codes"),
        ("ANY(flat + 1 = 'liver')", QueryTypeError, "cannot compare"),
        ("ANY(scan = 'liver')", QueryTypeError, "cannot compare scan"),
    ],
)
def test_other_names_and_numbers_without_names_are_refused(
    ds: Any, condition: Any, error: Any, message: Any
):
    with pytest.raises(error, match=message):
        ds.query(f"WHERE {condition}")


def test_equal_queries_of_masks_with_other_names_have_their_own_codes(ds: Any):
    flat = ds.query("SELECT flat AS m").query("WHERE CONTAINS(m, 'liver')")
    other = ds.query("SELECT other AS m").query("WHERE CONTAINS(m, 'liver')")

    assert len(flat) == len(ds.query("WHERE CONTAINS(flat, 1)"))
    assert len(other) == len(ds.query("WHERE CONTAINS(other, 1)"))
    again = tl.create("memory://mask-classes-2", {"flat": tl.SegmentMask(["liver", "none"])})
    again.extend({"flat": np.ones((3, 4, 4), np.uint8)})
    again.commit()
    assert len(again.query("WHERE CONTAINS(flat, 'liver')")) == 0


def test_a_mask_beyond_the_limits_of_a_query_is_not_decoded():
    ds = tl.create("memory://mask-limits", {"mask": tl.SegmentMask(NAMES, tiles=(256, 256))})
    ds.append({"mask": np.zeros((5000, 5000), np.uint8)})  # some hundred bytes
    ds.commit()
    allocated: list[int] = []

    for limits in ({"max_bytes": "1MB"}, {"max_memory": "1MB"}):
        tracemalloc.start()
        for values in ("mask = 'tumour'", "mask[:4000]"):
            with pytest.raises(tl.QueryLimitError):
                ds.query(f"WHERE ARRAY_SUM({values}) > 0", **limits)
        allocated.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert max(allocated) < 5_000_000
    assert ds.query("WHERE ARRAY_SUM(mask = 'tumour') > 0", max_bytes="25MB").count() == 0


def test_classes_of_a_mask_in_tiles_are_found_without_its_tiles():
    ds = tl.create("memory://mask-maps", {"mask": tl.SegmentMask(NAMES, tiles=(256, 256))})
    ds.append({"mask": np.zeros((5000, 5000), np.uint8)})
    ds.commit()

    found = ds.query("WHERE NOT CONTAINS(mask, 'tumour') AND ALL(mask = 'none')", max_bytes="1kB")
    corner = ds.query("WHERE mask[-1, -1] = 'none'", max_bytes="1kB")

    assert len(found) == len(corner) == 1


@pytest.mark.parametrize(
    "values",
    [
        "{x}[0, 0]", "{x}[5, 3]", "{x}[-1]", "{x}[:, 0]", "{x}[2:40:3, ::-1]", "{x}[..., 1]",
        "{x}[1:1]", "{x}[100:, 0]", "{x}[:, [1][0]]", "ARRAY_SUM({x}[:9, -4:])", "ANY({x} = 1)",
        "ALL({x} != 2 AND {x} < 9)", "ANY({x} = 1 OR NOT {x} < 2)", "ANY({x})", "ARRAY_MAX({x})",
        "ARRAY_MIN({x})", "ANY({x} = 1) AND ARRAY_SUM({x}) > 9", "ANY({x} + 1 = 2)",
        "ANY({x} = {x}[0, 0])", "ANY({x} = number)", "{x}[number, 0]",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "query",
    [
        "SELECT {v} AS v",
        "SELECT {v} AS v WHERE number > 1 ORDER BY number DESC LIMIT 3",
        "SELECT COUNT({v}) AS v GROUP BY number % 2",
    ],
)
def test_parts_of_masks_in_tiles_equal_those_of_whole_masks(mixed: Any, query: Any, values: Any):
    tiled, flat = (
        mixed.query(query.format(v=values.format(x=x)))["v"][:] for x in ("tiled", "flat")
    )

    np.testing.assert_equal([*tiled], [*flat])


def test_regions_of_joined_and_grouped_masks_are_those_of_their_rows(mixed: Any):
    joined = "SELECT a.{x}[1, 1] AS v FROM this AS a JOIN this AS b ON a.number = b.number"
    grouped = "SELECT {x}[0, 1, 1] AS v WHERE number < 6 GROUP BY number"

    for query in (joined, grouped):
        tiled, flat = (mixed.query(query.format(x=x))["v"][:] for x in ("tiled", "flat"))
        np.testing.assert_equal([*tiled], [*flat])


def test_a_region_of_an_image_in_tiles_is_decoded_alone():
    ds = tl.create("memory://image-tiles", {"image": tl.Image("png", tiles=(64, 64))})
    image = np.random.default_rng(0).integers(0, 255, (1000, 900, 3), np.uint8)
    ds.append({"image": image})
    ds.commit()

    found = ds.query("SELECT image[700:710, 5:9] AS v", max_bytes="1kB")

    np.testing.assert_array_equal(found[0]["v"], image[700:710, 5:9])


@pytest.fixture(scope="module")
def mixed() -> Any:
    schema = {
        "number": "int64",
        "tiled": tl.SegmentMask(NAMES, tiles=(8, 16), nullable=True),
        "flat": tl.SegmentMask(NAMES, nullable=True),
    }
    made = tl.create("memory://mask-parts", schema)
    for number in range(7):
        mask = np.zeros((40 + 9 * number, 50 - 7 * number), np.uint8)
        mask[: 5 * number, :number] = number % 3
        value = [mask, mask[:3, :2], mask[:0], None][max(0, number - 3)]
        made.append({"number": number, "tiled": value, "flat": value})
    made.commit()
    return made
