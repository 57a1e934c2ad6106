"""AREA and IOU respect what a column says its four numbers are."""

import numpy as np
import pytest

import tensorlake_query as tql

CORNERS = np.array([[[0.0, 0, 4, 2]], [[1, 1, 3, 5]]])
FORMATS = {
    "xyxy": CORNERS,
    "xywh": np.concatenate([CORNERS[..., :2], CORNERS[..., 2:] - CORNERS[..., :2]], axis=-1),
    "cxcywh": np.concatenate(
        [(CORNERS[..., :2] + CORNERS[..., 2:]) / 2, CORNERS[..., 2:] - CORNERS[..., :2]], axis=-1
    ),
}


class _Boxes:
    def __init__(self):
        self.schema = {
            name: tql.ColumnType("number", "float64", (1, 4), box_format=name) for name in FORMATS
        }
        self.num_rows = 2

    def read(self, column, rows):
        return tql.UniformBatch(FORMATS[column][rows])

    def shapes(self, column, rows):
        return np.tile(np.array([1, 4]), (len(rows), 1))

    def statistics(self, column):
        return None


@pytest.mark.parametrize("box_format", FORMATS)
def test_area_is_the_same_in_every_format(box_format):
    query = tql.compile_query(f"SELECT AREA({box_format}) AS a", _Boxes().schema, params={})

    result = query.run(_Boxes())

    assert np.asarray(result.columns["a"].values).ravel().tolist() == [8.0, 8.0]


@pytest.mark.parametrize("box_format", FORMATS)
def test_a_box_covers_itself_whatever_the_formats(box_format):
    text = f"SELECT IOU({box_format}, xyxy) AS i, IOU({box_format}[0], xyxy[0]) AS one"
    query = tql.compile_query(text, _Boxes().schema, params={})

    result = query.run(_Boxes())

    assert np.asarray(result.columns["i"].values).ravel().tolist() == [1.0, 1.0]
    assert np.asarray(result.columns["one"].values).ravel().tolist() == [1.0, 1.0]
