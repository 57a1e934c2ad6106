"""tl.infer and ds.map of models, as far as they go without ONNX Runtime."""

from __future__ import annotations

import sys

import pytest

import tensorlake as tl


@pytest.fixture
def points(tmp_path):
    with tl.create(str(tmp_path / "points.tl"), {"x": tl.Array("float32", (3,))}) as dataset:
        dataset.extend({"x": [[1, 2, 3]]})
        dataset.commit("one")
        yield dataset


def test_a_missing_model_is_refused_before_any_library_is_asked_for(points):
    with pytest.raises(tl.InvalidInputError, match=r"no model at 'm\.onnx'"):
        tl.infer(points, "m.onnx")
    with pytest.raises(tl.InvalidInputError, match="no model at"):
        points.map("m.onnx")
    assert not points.has_changes


def test_without_the_extra_its_name_is_in_the_error(points, tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"model")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(tl.MissingExtraError, match=r"tensorlake-dl\[onnx\]"):
        tl.infer(points, path)


def test_rows_are_a_dataset_or_a_view(points):
    with pytest.raises(tl.InvalidInputError, match="takes a dataset or a view, got list"):
        tl.infer([1, 2], "m.onnx")  # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(tl.InvalidInputError, match="got int 5"):
        tl.infer(points, 5)  # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(tl.InvalidInputError, match="int8"):
        tl.infer(points, "m.onnx", int8="yes")  # pyright: ignore[reportArgumentType] - on purpose


def test_a_function_still_needs_a_schema(points):
    with pytest.raises(tl.SchemaError, match="makes no tensor"):
        points.map(lambda _row: {"y": 1})
