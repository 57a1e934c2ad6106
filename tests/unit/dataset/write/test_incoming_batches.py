"""Iterators of rows and of columns, told apart by the schema; assignment by a View that shrank."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.query.assignment import assign
from tensorlake.dataset.write.inputs import holds_columns
from tensorlake.errors import ShapeMismatchError
from tensorlake.format import Schema
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, rows_of

TYPES = {
    "x": "int64",
    "text": "str",
    "label": tl.ClassLabel(["cat", "dog"]),
    "tags": tl.ClassLabel(["a", "b"], multi=True),
    "vector": tl.Array("float32", (2,)),
    "boxes": tl.Array("int16", (None, 2)),
    "info": tl.Json(),
    "image": tl.Image("png"),
    "raw": tl.Bytes(),
}
PIXELS = np.zeros((4, 5, 3), np.uint8)

ROWS = {
    "x": [3, np.int64(3), np.array(3)],
    "text": ["word", ""],
    "label": ["cat", 1],
    "tags": [["a"], np.array([0, 1])],
    "vector": [[0.5, 1.5], np.zeros(2)],
    "boxes": [[[1, 2]], np.zeros((0, 2))],
    "image": [PIXELS, "a.png", b"\x89PNG", tl.File("a.png")],
    "raw": [b"bytes"],
}
COLUMNS = {
    "x": [[3], np.arange(3), [], range(3)],
    "text": [["word"], ["a", ""]],
    "label": [["cat"], [0, 1], np.zeros(3, int)],
    "tags": [[["a"], []], [np.array([0])]],
    "vector": [[[0.5, 1.5]], np.zeros((3, 2)), [np.zeros(2)]],
    "boxes": [[[[1, 2]], []], [np.zeros((0, 2))]],
    "image": [[PIXELS], PIXELS[None], ["a.png"], [b"\x89PNG"]],
    "raw": [[b"bytes"]],
}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [(name, value, False) for name, values in ROWS.items() for value in values]
    + [(name, value, True) for name, values in COLUMNS.items() for value in values],
)
def test_a_value_says_whether_it_is_one_sample_or_a_column(name, value, expected):
    assert holds_columns({name: value}, Schema.new(TYPES)) is expected


def test_where_no_value_can_tell_a_mapping_is_a_row():
    schema = Schema.new(TYPES)

    assert not holds_columns({"info": [1, 2]}, schema)
    assert not holds_columns({"info": [1], "boxes": []}, schema)
    assert holds_columns({"info": [{}], "x": [1]}, schema)


@pytest.fixture
def dataset() -> Dataset:
    return create_on(MemoryStore(), {"x": "int64", "pair": tl.Array("int8", (2,)), "info": "json"})


def column_batches() -> Iterator[dict[str, Any]]:
    for start in (0, 3):
        x = np.arange(start, start + 3)
        yield {"x": x, "pair": np.stack([x, x], axis=1), "info": [[1], {}, None or 0]}


def row_batches() -> Iterator[dict[str, Any]]:
    for x in range(6):
        yield {"x": x, "pair": [x, x], "info": [[1], {}, 0][x % 3]}


@pytest.mark.parametrize("make", [column_batches, row_batches, lambda: [*column_batches()]])
def test_an_iterator_gives_rows_or_columns(dataset, make):
    dataset.extend(make())

    assert dataset["x"][:].tolist() == [*range(6)]
    assert dataset["pair"][5].tolist() == [5, 5]
    assert dataset["info"][:] == [[1], {}, 0] * 2


def test_tables_between_rows_begin_anew(dataset):
    pandas = pytest.importorskip("pandas")
    rows = [*row_batches()]
    table = pandas.DataFrame({"x": [7], "pair": [[7, 7]], "info": [0]})

    dataset.extend([rows[0], table, next(column_batches())])

    assert dataset["x"][:].tolist() == [0, 7, 0, 1, 2]


def test_a_bad_batch_of_an_iterator_stages_nothing(dataset):
    def batches() -> Iterator[dict[str, Any]]:
        yield from column_batches()
        yield {"x": [1, 2], "pair": [[1, 2]], "info": [0, 0]}

    with pytest.raises(ShapeMismatchError, match="different lengths"):
        dataset.extend(batches())

    assert len(dataset) == 0


def test_values_for_a_view_whose_rows_went_are_dropped_with_them(dataset):
    dataset.extend(row_batches())
    dataset.commit()
    view = dataset[[5, 0, 3, 1]]
    dataset.delete([0, 3])

    assert assign(session_of(dataset), "x", view, [50, 0, 30, 10]) == 2
    dataset["pair"][view] = [[5, 6], [0, 0], [0, 0], [1, 2]]

    assert dataset["x"][:].tolist() == [10, 2, 4, 50]
    assert dataset["pair"][[0, 3]].tolist() == [[1, 2], [5, 6]]
    with pytest.raises(ShapeMismatchError, match="2 values for 4 rows"):
        dataset["x"][view] = [1, 2]


def test_one_value_goes_to_the_rows_of_a_view_that_are_left(dataset):
    dataset.extend(row_batches())
    dataset.commit()
    view = dataset[2:5]
    dataset.delete([3])

    dataset["x"][view] = -1

    assert rows_of(dataset, ["x"]) == [{"x": x} for x in (0, 1, -1, -1, 5)]


def test_one_number_fills_null_samples_of_a_fixed_shape():
    dataset = create_on(MemoryStore(), {"v": tl.Array("float32", (2,), nullable=True)})
    dataset.extend({"v": [[1, 2], None]})

    assert dataset["v"].read(null=0).tolist() == [[1, 2], [0, 0]]
    assert dataset["v"].read(null=[7, 8]).tolist() == [[1, 2], [7, 8]]


def test_a_number_fills_null_samples_of_a_varying_shape_with_no_elements():
    types = {"v": tl.Array("float32", (None, 2), nullable=True), "t": tl.Text(nullable=True)}
    dataset = create_on(MemoryStore(), types)
    dataset.extend({"v": [np.ones((3, 2)), None], "t": ["a", None]})

    assert [one.shape for one in dataset["v"].read(null=0)] == [(3, 2), (0, 2)]
    assert dataset["v"].read(null=[[7, 8]])[1].tolist() == [[7, 8]]
    assert dataset["t"].read(null="") == ["a", ""]
    with pytest.raises(tl.InvalidInputError, match=r"give null= a value of Text"):
        dataset["t"][:]
