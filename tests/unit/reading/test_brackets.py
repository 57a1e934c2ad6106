"""Every form of reading in the SDK's table, on stores with and without memory maps."""

import io
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on, plain, rows_of

ROWS = 7


def jpeg(seed: int, *, height: int = 24, width: int = 32) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def ragged(row: int) -> np.ndarray:
    return np.arange(row % 3 * 2, dtype=np.float32).reshape(-1, 2)


def columns() -> dict[str, list[object]]:
    n = range(ROWS)
    return {
        "image": [jpeg(row, height=20 + row) for row in n],
        "label": ["cat" if row % 2 else "dog" for row in n],
        "tags": [["cat"] * (row % 3) for row in n],
        "x": [row * 10 for row in n],
        "ratio": [None if row == 3 else row / 4 for row in n],
        "grid": [np.full((2, 3), row, np.int16) for row in n],
        "boxes": [ragged(row) for row in n],
        "text": [f"täxt {row}" for row in n],
        "info": [{"row": row, "list": [row, None]} for row in n],
        "raw": [bytes([row]) * row for row in n],
        "is_odd": [bool(row % 2) for row in n],
    }


SCHEMA = {
    "image": tl.Image(codec="jpeg"),
    "label": tl.ClassLabel(["cat", "dog"]),
    "tags": tl.ClassLabel(["cat", "dog"], multi=True),
    "x": "int64",
    "ratio": tl.Scalar("float32", nullable=True),
    "grid": tl.Array("int16", shape=(2, 3)),
    "boxes": tl.Array("float32", shape=(None, 2)),
    "text": tl.Text(),
    "info": tl.Json(),
    "raw": tl.Bytes(),
    "is_odd": tl.Bool(),
}


@pytest.fixture(params=["memory", "local", "staged"])
def dataset(request, tmp_path) -> Generator[Dataset]:
    """Seven rows in two commits; over a folder, over memory, and all of them staged."""
    if request.param == "local":
        made = tl.create(str(tmp_path / "lake"), SCHEMA, durability="none")
    else:
        made = create_on(MemoryStore(), SCHEMA)
    if request.param == "staged":
        made.extend(columns())
        yield made
        made.discard()
        return
    for part in (slice(0, 4), slice(4, None)):
        made.extend({name: values[part] for name, values in columns().items()})
        made.commit()
    yield (
        tl.open(str(tmp_path / "lake"))
        if request.param == "local"
        else open_on(session_of(made).store)
    )


SELECTIONS = [
    slice(None),
    slice(1, 5),
    slice(None, None, -1),
    slice(5, 1, -2),
    slice(3, 3),
    [3, 1, 1],
    [-1, 0],
    [],
    np.array([6, 0], dtype=np.uint8),
    np.array([True, False, True, True, False, False, True]),
    [False] * ROWS,
    range(2, 4),
    (slice(0, 2)),
]


def chosen(selection: Any) -> list[int]:
    if isinstance(selection, slice):
        return list(range(ROWS))[selection]
    listed = np.asarray(list(selection))
    if listed.dtype == bool:
        return np.flatnonzero(listed).tolist()
    return [int(row) % ROWS for row in listed.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda one: str(one)[:30])
def test_columns_read_the_rows_that_brackets_name(dataset, selection):
    expected = columns()

    x, grid, boxes = (dataset[name][selection] for name in ("x", "grid", "boxes"))

    rows = chosen(selection)
    assert isinstance(x, np.ndarray)
    assert x.dtype == np.int64
    assert x.tolist() == [expected["x"][row] for row in rows]
    assert grid.shape == (len(rows), 2, 3)
    assert grid.dtype == np.int16
    assert [int(one[0, 0]) for one in grid] == rows
    assert type(boxes).__name__ == "Ragged"
    assert len(boxes) == len(rows)
    for got, row in zip(boxes, rows, strict=True):
        assert got.dtype == np.float32
        assert np.array_equal(got, ragged(row))
    for name in ("text", "info", "raw"):
        values = dataset[name][selection]
        assert isinstance(values, list)
        assert values == [expected[name][row] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda one: str(one)[:30])
def test_views_hold_the_rows_that_brackets_name(dataset, selection):
    view = dataset[selection]

    rows = chosen(selection)
    assert len(view) == view.count() == len(rows)
    assert view.rows.tolist() == rows
    assert view["x"][:].tolist() == [row * 10 for row in rows]
    assert view.version == dataset.version
    assert rows_of(view, ["x", "text"]) == [{"x": r * 10, "text": f"täxt {r}"} for r in rows]


def test_an_int_reads_one_value_of_the_schemas_kind(dataset):
    assert dataset["x"][2] == 20
    assert dataset["x"][-1] == 60
    assert np.array_equal(dataset["boxes"][4], ragged(4))
    assert dataset["grid"][np.int64(5)].shape == (2, 3)
    assert dataset["text"][1] == "täxt 1"
    assert dataset["info"][1] == {"row": 1, "list": [1, None]}
    assert dataset["raw"][3] == b"\x03\x03\x03"
    assert dataset["ratio"][3] is None
    assert dataset["ratio"][1] == 0.25
    assert bool(dataset["is_odd"][1]) is True


def test_rows_are_mappings_of_values_read_when_first_used(dataset):
    row = dataset[1]

    assert list(row) == list(SCHEMA)
    assert len(row) == len(SCHEMA)
    assert row["x"] == 10
    assert row["label"] == "cat"
    assert {**row}["text"] == "täxt 1"
    with pytest.raises(KeyError):
        row["nothing"]
    with pytest.raises(TypeError):
        row["x"] = 3
    assert "jpeg 21×32×3" in repr(dataset[1])


def test_text_columns_and_json_are_lists_and_bulk_types_follow_the_schema(dataset):
    assert isinstance(dataset["text"][:], list)
    assert isinstance(dataset["text"][0:0], list)
    assert dataset["x"][0:0].dtype == np.int64
    assert dataset["grid"][[]].shape == (0, 2, 3)
    assert len(dataset["boxes"][[]]) == 0


def test_predicates_and_views_choose_rows_of_a_column(dataset):
    is_cat = dataset["label"] == "cat"

    assert dataset["x"][is_cat].tolist() == [10, 30, 50]
    assert dataset["x"][is_cat & (dataset["x"] > 10)].tolist() == [30, 50]
    assert dataset["x"][~is_cat | (dataset["x"] == 10)].tolist() == [0, 10, 20, 40, 60]
    assert dataset["x"][dataset["x"].isin([0, 60, 7])].tolist() == [0, 60]
    assert dataset["x"][dataset["ratio"].is_null()].tolist() == [30]
    assert dataset["x"][dataset[[5, 2]]].tolist() == [50, 20]
    assert len(dataset[dataset["text"] == "täxt 4"]) == 1
    with pytest.raises(tl.InvalidInputError, match="&"):
        bool(is_cat)


def test_a_value_that_contains_itself_is_refused_by_a_predicate(dataset):
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(tl.InvalidInputError, match="more than 32 levels of lists"):
        dataset["x"].isin(circle)


def test_views_of_views_compose(dataset):
    view = dataset[::2][[3, 0, 1]][1:]

    assert view["x"][:].tolist() == [0, 20]
    assert view.where("x > 0")["x"][:].tolist() == [20]
    assert view[["x", "text"]].schema.keys() == {"x", "text"}
    assert view["x"][view["x"] == 20].tolist() == [20]


def test_labels_are_codes_that_compare_with_names(dataset):
    label = dataset["label"][:]

    assert isinstance(label, np.ndarray)
    assert label.dtype == np.int64
    assert label.tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert (label == "cat").tolist() == [False, True] * 3 + [False]
    assert (label == 1).tolist() == (label != "cat").tolist()
    assert dataset["label"].names == ("cat", "dog")
    assert dataset["label"].codes(["dog", "cat"]).tolist() == [1, 0]
    assert dataset["label"][0] == "dog"
    with pytest.raises(tl.UnknownClassError):
        dataset["label"].codes(["bird"])


def test_several_labels_a_row_are_ragged(dataset):
    tags = dataset["tags"][:]

    assert [one.tolist() for one in tags] == [[0] * (row % 3) for row in range(ROWS)]
    assert (tags[1] == "cat").all()


def test_nulls_raise_in_bulk_and_name_the_way_out(dataset):
    with pytest.raises(tl.InvalidInputError, match=r"\.read\("):
        dataset["ratio"][:]

    assert dataset["ratio"][:3].tolist() == [0, 0.25, 0.5]
    assert dataset["ratio"].read(null=-1).tolist() == [0, 0.25, 0.5, -1, 1, 1.25, 1.5]
    assert dataset["ratio"].read([3, 0], null=0).tolist() == [0, 0]
    assert np.isnan(dataset["ratio"].read([3], null=np.nan)[0])
    assert [plain(one) for one in dataset["ratio"]][3] is None
    assert dataset[3]["ratio"] is None


def test_ragged_columns_offer_their_parts(dataset):
    boxes = dataset["boxes"][:]

    assert boxes.values.dtype == np.float32
    assert boxes.offsets.tolist()[0] == 0
    assert len(boxes.offsets) == ROWS + 1
    assert boxes.lengths.tolist() == [row % 3 for row in range(ROWS)]
    assert boxes.pad(-1).shape == (ROWS, 2, 2)
    assert dataset["boxes"][[1, 4]].stack().shape == (2, 1, 2)
    with pytest.raises(tl.TensorlakeError):
        boxes.stack()


def test_images_decode_to_their_pixels_and_bytes_are_as_stored(dataset):
    stored = columns()["image"]
    expected = np.asarray(Image.open(io.BytesIO(stored[2])).convert("RGB"))

    image = dataset["image"][2]

    assert image.dtype == np.uint8
    assert image.shape == expected.shape
    assert np.abs(image.astype(int) - expected).mean() < 4
    assert dataset["image"].bytes(2) == stored[2]
    assert dataset["image"].bytes(-1) == stored[6]
    assert [one.shape for one in dataset["image"][[4, 0]]] == [(24, 32, 3), (20, 32, 3)]
    with pytest.raises(tl.InvalidInputError, match="x"):
        dataset["x"].bytes(0)


def test_shapes_are_known_without_decoding(dataset):
    assert dataset["image"].shapes().tolist() == [[20 + row, 32, 3] for row in range(ROWS)]
    assert dataset["image"].shapes([3, 1]).tolist() == [[23, 32, 3], [21, 32, 3]]
    assert dataset["boxes"].shapes(slice(1, 3)).tolist() == [[1, 2], [2, 2]]
    assert dataset["grid"].shapes([0]).tolist() == [[2, 3]]
    assert dataset["x"].shapes().shape == (ROWS, 0)
    assert dataset["x"].shapes([]).shape == (0, 0)
    assert dataset["image"].shape == (ROWS, None, None, 3)
    assert dataset["grid"].shape == (ROWS, 2, 3)
    assert dataset["image"].dtype == np.uint8
    with pytest.raises(tl.InvalidInputError, match="text"):
        dataset["text"].shapes()


def test_regions_are_cut_from_one_sample(dataset):
    whole = dataset["image"][1]

    assert np.array_equal(dataset["image"][1, 2:10, 4:8], whole[2:10, 4:8])
    assert dataset["grid"][4, 1, :2].tolist() == [4, 4]
    assert dataset["grid"][-1, ..., 0].tolist() == [6, 6]
    with pytest.raises(tl.InvalidInputError, match="region"):
        dataset["image"][0:2, 1:3]


def test_iterating_gives_every_value_in_order(dataset):
    assert [int(x) for x in dataset["x"]] == [row * 10 for row in range(ROWS)]
    assert [row["text"] for row in dataset] == columns()["text"]
    assert [row["x"] for row in dataset.take(2)] == [0, 10]


def test_many_rows_at_once_are_what_single_rows_are(dataset):
    """`__getitems__`, as torch's map-style fetcher asks."""
    many = dataset.__getitems__([4, 0, 4])

    assert [one["x"] for one in many] == [40, 0, 40]
    assert [one["text"] for one in many] == ["täxt 4", "täxt 0", "täxt 4"]
    assert np.array_equal(many[2]["image"], dataset["image"][4])


def test_samples_and_takes_are_views(dataset):
    assert dataset.take(100).rows.tolist() == list(range(ROWS))
    assert sorted(dataset.sample(5, seed=3).rows.tolist()) == sorted(
        set(dataset.sample(5, seed=3).rows.tolist())
    )
    assert dataset.sample(5, seed=3).rows.tolist() == dataset.sample(5, seed=3).rows.tolist()
    with pytest.raises(tl.InvalidInputError):
        dataset.sample(ROWS + 1)
    with pytest.raises(tl.InvalidInputError):
        dataset.take(-1)


def test_row_ids_are_unique_and_pandas_shows_rows(dataset):
    pandas = pytest.importorskip("pandas")

    ids = dataset.row_ids
    frame = dataset[[5, 1]].to_pandas()

    assert len(set(ids)) == ROWS
    assert dataset[[5, 1]].row_ids == [ids[5], ids[1]]
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.name == "_row"
    assert frame.index.tolist() == [5, 1]
    assert frame["x"].tolist() == [50, 10]
    assert frame["label"].tolist() == ["cat", "cat"]


@pytest.mark.parametrize("word", ["features", "num_rows", "columns", "to_df", "save"])
def test_words_of_neighbours_are_answered_with_ours(dataset, word):
    with pytest.raises(AttributeError, match="ds"):
        getattr(dataset, word)
