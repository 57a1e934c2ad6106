from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.types import EncodedColumn, SampleType, UniformColumn, as_type
from tensorlake_server.bodies.cells import make_cells


def cells_of(kind: Any, values: Any) -> list[Any]:
    sample_type: SampleType = as_type(kind)
    cells = make_cells(sample_type, sample_type.convert(values, tensor="t"))
    json.dumps(cells, allow_nan=False)  # whatever it is, it is JSON
    return cells


def test_numbers_and_labels_are_themselves() -> None:
    assert cells_of("int32", [1, -2]) == [1, -2]
    assert cells_of(tl.Bool(), [True, False]) == [True, False]
    assert cells_of(tl.ClassLabel(["cat", "dog"]), ["dog", "cat"]) == [1, 0]


def test_float32_has_the_digits_that_it_has() -> None:
    assert cells_of("float32", [0.1, 212.6, 1e-7]) == [0.1, 212.6, 1e-7]


def test_float32_survives_json_exactly() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)

    cells = json.loads(json.dumps(cells_of("float32", values)))

    assert np.array_equal(np.array(cells, dtype=np.float32), values)


def test_numbers_that_json_lacks_are_named() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.5])

    assert cells_of("float64", values) == ["NaN", "Infinity", "-Infinity", 1.5]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_that_javascript_would_round_are_texts(dtype: str) -> None:
    assert cells_of(dtype, np.array([2**53 + 1, 7], dtype=dtype)) == ["9007199254740993", 7]


def test_null_is_null_and_not_zero() -> None:
    assert cells_of(tl.Scalar("int64", nullable=True), [1, None, 0]) == [1, None, 0]
    assert cells_of(tl.Text(nullable=True), ["", None]) == ["", None]


def test_ragged_samples_keep_their_shapes() -> None:
    boxes = [np.zeros((0, 4)), np.ones((2, 4))]

    assert cells_of(tl.BBox(), boxes) == [[], [[1, 1, 1, 1], [1, 1, 1, 1]]]


def test_a_large_array_is_a_summary_that_says_so() -> None:
    (cell,) = cells_of(tl.Embedding(2048), np.arange(2048, dtype=np.float32)[None])

    assert cell["$summary"] == "array"
    assert cell["shape"] == [2048]
    assert cell["nbytes"] == 8192
    assert cell["preview"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_long_text_is_a_summary_that_says_how_long_it_is() -> None:
    (cell,) = cells_of(tl.Text(), ["é" * 5000])

    assert cell["$summary"] == "text"
    assert cell["nbytes"] == 10_000
    assert len(cell["preview"]) == 4096


def test_media_are_described_and_never_sent() -> None:
    column = EncodedColumn([b"\xff\xd8\xff" + b"x" * 97], np.array([[427, 640, 3]]))

    assert make_cells(tl.Image("jpeg"), column) == [
        {"$summary": "media", "media_type": "image/jpeg", "nbytes": 100, "shape": [427, 640, 3]}
    ]


def test_json_that_looks_like_a_summary_is_summarised() -> None:
    (cell,) = cells_of(tl.Json(), [{"$summary": "media"}])

    assert cell == {"$summary": "json", "nbytes": 20, "preview": '{"$summary":"media"}'}


def test_a_uniform_column_of_no_rows_has_no_cells() -> None:
    assert make_cells(as_type("float32"), UniformColumn(np.empty(0, np.float32))) == []
