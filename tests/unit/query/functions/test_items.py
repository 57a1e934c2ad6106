"""Items of ragged samples at once: `boxes[:, 2]`, and arguments that several aggregates share."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, RaggedBatch, compile_query
from tests.unit.query.array_source import ArraySource, samples

ROWS = [np.arange(8).reshape(2, 4), np.zeros((0, 4)), np.full((1, 4), 9)]


class WithNull:
    """A source whose NULL holds items, as values that a mask hides may."""

    schema = {"boxes": ColumnType("number", "float32", (None, 4), nullable=True)}  # noqa: RUF012 of one test
    num_rows = 3

    def read(self, column, rows):
        assert column == "boxes"
        values = np.concatenate([np.ravel(ROWS[row]) for row in rows]).astype(np.float32)
        shapes = np.array([np.shape(ROWS[row]) for row in rows], np.int64).reshape(-1, 2)
        return RaggedBatch(values, shapes, np.array([row != 2 for row in rows]))

    def shapes(self, column, rows):
        return np.array([np.shape(ROWS[row]) if row != 2 else (-1, -1) for row in rows])

    def statistics(self, column):
        return None


@pytest.mark.parametrize("text", ["[:, 2]", "[:, -1]", "[:, 1:3]", "[:, ::-1]", "[..., 0]", "[:]"])
@pytest.mark.parametrize("is_null", [False, True])
def test_items_are_indexed_as_numpys(text, is_null):
    source = WithNull()
    if not is_null:
        kind = ColumnType("number", "float32", (None, 4))
        source = ArraySource({"boxes": (kind, ROWS)})

    result = compile_query(f"SELECT boxes{text} AS x", source.schema).run(source)
    found = samples(result.columns["x"])

    index = eval(f"np.s_{text}")
    for row, each in enumerate(found):
        if is_null and row == 2:
            assert each is None
        else:
            assert np.asarray(each).tolist() == ROWS[row][index].tolist()


def test_aggregates_that_share_an_argument_have_their_own_answers():
    source = ArraySource(
        {
            "k": (ColumnType("number", "int64", ()), [0, 1, 0]),
            "boxes": (ColumnType("number", "float32", (4,)), [[0, 0, 1, 2], [0, 0, 3, 3], [0] * 4]),
        }
    )
    text = (
        "SELECT k, SUM(AREA(boxes)) AS s, MAX(AREA(boxes)) AS m, COUNT(*) AS n, MIN(k) AS least,"
        " AVG(AREA(boxes)) AS a GROUP BY k"
    )

    result = compile_query(text, source.schema).run(source)

    found = {name: samples(result.columns[name]) for name in ("k", "s", "m", "n", "least", "a")}
    assert found == {
        "k": [0, 1], "s": [2.0, 9.0], "m": [2.0, 9.0], "n": [2, 1], "least": [0, 1],
        "a": [1.0, 9.0],
    }  # fmt: skip
