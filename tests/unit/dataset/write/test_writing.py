"""What may be staged: rows in every form, assignments by their rules, deletes, schema changes."""

from collections.abc import Iterator

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import TensorlakeError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on, reopened, rows_of

SCHEMA = {
    "x": "int64",
    "label": tl.ClassLabel(["cat", "dog"]),
    "vector": tl.Embedding(2, nullable=True),
    "boxes": tl.Array("float32", shape=(None, 2)),
    "text": "str",
}


def rows(*numbers: int) -> list[dict[str, object]]:
    return [
        {
            "x": n,
            "label": n % 2,
            "vector": None if n % 3 == 0 else [float(n), 0.0],
            "boxes": [[float(n), 1.0]] * (n % 2),
            "text": str(n),
        }
        for n in numbers
    ]


def given(*numbers: int) -> list[dict[str, object]]:
    return [
        {**row, "boxes": np.array(row["boxes"], np.float32).reshape(-1, 2)}
        for row in rows(*numbers)
    ]


def columns(*numbers: int) -> dict[str, list[object]]:
    listed = given(*numbers)
    return {name: [row[name] for row in listed] for name in SCHEMA}


@pytest.fixture
def dataset() -> Dataset:
    dataset = create_on(MemoryStore(), SCHEMA)
    dataset.extend(given(*range(6)))
    dataset.commit()
    return dataset


def committed(dataset: Dataset) -> list[dict[str, object]]:
    dataset.commit()
    return rows_of(reopened(dataset))


def in_batches() -> Iterator[object]:
    yield columns(6, 7) and open_on_rows(6, 7)
    yield from given(8)


def open_on_rows(*numbers: int) -> tl.Dataset:
    other = create_on(MemoryStore(), SCHEMA)
    other.extend(given(*numbers))
    return other


FORMS = {
    "columns": lambda: columns(6, 7, 8),
    "rows": lambda: given(6, 7, 8),
    "tuple of rows": lambda: tuple(given(6, 7, 8)),
    "generator of rows": lambda: iter(given(6, 7, 8)),
    "dataset": lambda: open_on_rows(6, 7, 8),
    "view": lambda: open_on_rows(8, 5, 6, 7)[[2, 3, 0]],
    "generator of views and rows": in_batches,
}


@pytest.mark.parametrize("form", FORMS)
def test_extend_takes_rows_in_every_form(dataset, form):
    dataset.extend(FORMS[form]())

    assert rows_of(dataset) == rows(*range(9))
    assert committed(dataset) == rows(*range(9))


def test_extend_takes_a_data_frame(dataset):
    pandas = pytest.importorskip("pandas")

    frame = pandas.DataFrame(
        {
            "x": [6, 7],
            "label": ["cat", "dog"],
            "vector": [None, [7.0, 0.0]],
            "boxes": [given(6)[0]["boxes"], given(7)[0]["boxes"]],
            "text": ["6", "7"],
        },
        index=[40, 50],
    )
    dataset.extend(frame)

    assert committed(dataset) == rows(*range(8))


def test_extend_takes_an_arrow_table(dataset):
    pa = pytest.importorskip("pyarrow")

    table = pa.table(
        {
            "x": pa.array([6, 7], pa.int32()),
            "label": ["cat", "dog"],
            "vector": pa.array([None, [7.0, 0.0]], pa.list_(pa.float64())),
            "boxes": pa.array([[], [[7.0, 1.0]]], pa.list_(pa.list_(pa.float32()))),
            "text": ["6", "7"],
        }
    )
    dataset.extend(table)

    assert committed(dataset) == rows(*range(8))


def test_extend_takes_arrays_of_torch(dataset):
    torch = pytest.importorskip("torch")

    dataset.extend({**columns(7), "x": torch.tensor([7])})

    assert rows_of(dataset)[-1] == rows(7)[0]


def test_what_has_a_default_may_be_left_out():
    dataset = create_on(
        MemoryStore(),
        {"x": "int64", "y": tl.Scalar("int64", default=5), "z": tl.Text(nullable=True)},
    )

    dataset.append({"x": 1})
    dataset.extend({"x": [2, 3]})
    dataset.extend([{"x": 4, "y": 6}, {"x": 5, "y": 7}])

    assert [tuple(row.values()) for row in committed(dataset)] == [
        (1, 5, None),
        (2, 5, None),
        (3, 5, None),
        (4, 6, None),
        (5, 7, None),
    ]


@pytest.mark.parametrize("empty", [[], {}, {"x": []}, iter([])])
def test_extending_by_nothing_stages_nothing(empty):
    dataset = create_on(MemoryStore(), {"x": "int64"})

    if empty == {}:
        with pytest.raises(TensorlakeError):
            dataset.extend(empty)
    else:
        dataset.extend(empty)

    assert not dataset.has_changes
    assert dataset.commit().version == "main@0"


def test_a_view_of_another_schema_is_cast_or_refused_like_any_values():
    source = create_on(
        MemoryStore(),
        {"small": "int8", "real": "float64", "label": tl.ClassLabel(["dog", "cat"]), "t": "str"},
    )
    source.extend({"small": [1, 2], "real": [0.5, 1.5], "label": ["dog", "cat"], "t": ["a", "b"]})

    wider = create_on(MemoryStore(), {"small": "int64"})
    wider.extend(source[["small"]])
    assert wider["small"][:].dtype == np.int64
    assert rows_of(wider) == [{"small": 1}, {"small": 2}]

    integers = create_on(MemoryStore(), {"real": "int64"})
    with pytest.raises(tl.DTypeMismatchError):
        integers.extend(source[["real"]])
    assert len(integers) == 0

    texts = create_on(MemoryStore(), {"t": "int64"})
    with pytest.raises(tl.DTypeMismatchError):
        texts.extend(source[["t"]])

    labels = create_on(MemoryStore(), {"label": tl.ClassLabel(["cat", "dog"])})
    labels.extend(source[["label"]])
    assert (labels["label"][:] == ["dog", "cat"]).all()

    fewer = create_on(MemoryStore(), {"label": tl.ClassLabel(["cat"])})
    with pytest.raises(tl.UnknownClassError, match="dog"):
        fewer.extend(source[["label"]])


def test_a_view_with_nulls_is_refused_where_null_is_not_allowed():
    source = create_on(MemoryStore(), {"x": tl.Scalar("int64", nullable=True)})
    source.extend({"x": [1, None]})
    target = create_on(MemoryStore(), {"x": "int64"})

    with pytest.raises(tl.InvalidInputError, match="x"):
        target.extend(source[:])

    assert len(target) == 0


def test_a_dataset_can_be_extended_by_its_own_rows(dataset):
    dataset.append(given(6)[0])

    dataset.extend(dataset[[6, 0]])
    dataset.extend(dataset)

    assert rows_of(dataset) == rows(*range(7), 6, 0) * 2


# Assignment


@pytest.mark.parametrize(
    "chosen",
    [1, -1, slice(1, 4), slice(None, None, -2), [4, 0], np.array([False, True] * 3), []],
    ids=str,
)
def test_assignment_takes_one_value_for_every_row(dataset, chosen):
    expected = np.arange(6)
    expected[chosen] = 99

    dataset["x"][chosen] = 99

    assert dataset["x"][:].tolist() == expected.tolist()
    assert [row["x"] for row in committed(dataset)] == expected.tolist()


@pytest.mark.parametrize(
    "chosen", [slice(1, 4), slice(None, None, -2), [4, 0, 2], np.array([True, False] * 3)], ids=str
)
def test_assignment_takes_one_value_a_row_in_the_order_named(dataset, chosen):
    expected = np.arange(6)
    expected[chosen] = [70, 80, 90]

    dataset["x"][chosen] = [70, 80, 90]

    assert dataset["x"][:].tolist() == expected.tolist()
    assert [row["x"] for row in committed(dataset)] == expected.tolist()


def test_assignment_by_predicate_and_view(dataset):
    dataset["label"][dataset["label"] == "cat"] = "dog"
    dataset["x"][dataset[[5, 3]]] = [50, 30]

    assert (dataset["label"][:] == "dog").all()
    assert dataset["x"][:].tolist() == [0, 1, 2, 30, 4, 50]


def test_a_view_names_its_rows_by_identity_after_others_are_gone(dataset):
    view = dataset[[1, 3, 5]]
    dataset.delete([0, 3])

    dataset["x"][view] = 7

    assert dataset["x"][:].tolist() == [7, 2, 4, 7]
    assert dataset.delete(view) == 2
    assert dataset["x"][:].tolist() == [2, 4]


def test_assignment_broadcasts_one_sample_of_every_kind(dataset):
    dataset["text"][:3] = "same"
    dataset["label"][:3] = "dog"
    dataset["boxes"][:3] = np.ones((2, 2), np.float32)
    dataset["vector"][:3] = np.array([1.0, 2.0])
    dataset["vector"][3:] = None

    assert dataset["text"][:] == ["same"] * 3 + ["3", "4", "5"]
    assert dataset["label"][:].tolist() == [1, 1, 1, 1, 0, 1]
    assert [len(one) for one in dataset["boxes"][:]] == [2, 2, 2, 1, 0, 1]
    assert dataset["vector"].read(null=[0, 0]).tolist() == [[1, 2]] * 3 + [[0, 0]] * 3


def test_assignment_takes_values_of_a_column(dataset):
    dataset["x"][:] = dataset["x"][::-1]
    dataset["boxes"][[0, 2]] = dataset["boxes"][[1, 3]]

    assert dataset["x"][:].tolist() == [5, 4, 3, 2, 1, 0]
    assert [len(one) for one in dataset["boxes"][:]] == [1, 1, 1, 1, 0, 1]


def test_the_last_of_several_assignments_stands(dataset):
    for value in range(20):
        dataset["x"][[value % 6, (value + 1) % 6]] = value

    expected = list(range(6))
    for value in range(20):
        expected[value % 6] = expected[(value + 1) % 6] = value
    assert [row["x"] for row in committed(dataset)] == expected


def test_scattered_assignments_of_large_chunks_split_or_rewrite(dataset):
    """Both ways of `rewriting`: a chunk above 1 MiB is split around new values, up to 16 pieces."""
    store = MemoryStore()
    large = create_on(store, {"a": tl.Array("uint8", shape=(1 << 16,)), "b": "int64"})
    values = np.zeros((64, 1 << 16), np.uint8)
    large.extend({"a": values, "b": np.arange(64)})
    large.commit()

    for chosen in ([3], [5, 6, 20], list(range(0, 64, 2)), [63, 0]):
        values[chosen] = len(chosen)
        large["a"][chosen] = np.full(1 << 16, len(chosen), np.uint8)
        large["b"][chosen] = -1

    large.commit()
    assert np.array_equal(open_on(store)["a"][:], values)


def test_a_filled_tensor_takes_scattered_values_without_being_written_whole():
    """One extent of fill, a thousand values in it: no extent a value, no chunk of all rows."""
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64"})
    dataset.extend({"x": np.arange(20_000)})
    dataset.commit()
    dataset.add_tensor("y", "float32", fill=-1)
    chosen = np.arange(0, 20_000, 20)

    dataset["y"][chosen] = chosen.astype(np.float32)
    dataset.commit()

    expected = np.full(20_000, -1, np.float32)
    expected[chosen] = chosen
    read = open_on(store)
    assert np.array_equal(read["y"][:], expected)
    snapshot = session_of(read).committed
    assert len(snapshot.extents(snapshot.spec("y").id)) < 100


# Deleting


def test_deletes_name_rows_in_every_form(dataset):
    assert dataset.delete(0) == 1
    assert dataset.delete(slice(0, 2)) == 2
    assert dataset.delete(dataset["x"] == 4) == 1
    assert dataset.delete([]) == 0
    assert dataset.delete([0, 0, -1]) == 2

    assert committed(dataset) == []
    dataset.extend(given(9))
    assert committed(dataset) == rows(9)


def test_rows_staged_and_deleted_again_leave_no_trace(dataset):
    dataset.extend(given(6, 7, 8))
    dataset["x"][7] = 70
    dataset.delete([6, 8, 0])

    expected = rows(1, 2, 3, 4, 5, 7)
    expected[-1]["x"] = 70
    assert rows_of(dataset) == expected
    assert committed(dataset) == expected


# Schema


def test_an_added_tensor_shows_its_fill_and_takes_values(dataset):
    dataset.add_tensor("z", "float32", fill=0.25)
    dataset.add_tensor("words", "str", fill=None)
    dataset["z"][2] = 2
    dataset["words"][[1, 3]] = ["one", None]
    dataset.append({**given(6)[0], "z": 6.0, "words": "six"})

    shown = committed(dataset)

    assert [row["z"] for row in shown] == [0.25, 0.25, 2, 0.25, 0.25, 0.25, 6]
    assert [row["words"] for row in shown] == [None, "one", None, None, None, None, "six"]


def test_added_without_fill_default_or_null_is_refused(dataset):
    with pytest.raises(tl.SchemaError, match="fill"):
        dataset.add_tensor("z", tl.Embedding(3))
    with pytest.raises(tl.SchemaError, match="x"):
        dataset.add_tensor("x", "int64", fill=0)
    with pytest.raises(TensorlakeError):
        dataset.add_tensor("z", "int64", fill="text")
    with pytest.raises(TensorlakeError):
        dataset.add_tensor("_z", "int64", fill=0)

    assert not dataset.has_changes


def test_tensors_are_dropped_and_renamed_and_older_versions_keep_them(dataset):
    dataset.drop_tensor("text")
    dataset.rename_tensor("x", "n")
    dataset["n"][0] = 10
    dataset.commit()

    assert list(dataset.schema) == ["n", "label", "vector", "boxes"]
    assert dataset["n"][:].tolist() == [10, 1, 2, 3, 4, 5]
    assert dataset.at("main@1")["text"][:] == list("012345")
    with pytest.raises(tl.TensorNotFoundError):
        dataset["x"]
    with pytest.raises(tl.SchemaError):
        dataset.rename_tensor("n", "label")


def test_class_names_are_added_and_renamed_and_never_grow_by_themselves(dataset):
    dataset["label"].add_names(["bird"])
    dataset["label"].rename("cat", "tiger")
    dataset["label"][0] = "bird"

    dataset.commit()

    assert dataset["label"].names == ("tiger", "dog", "bird")
    assert dataset["label"][:].tolist() == [2, 1, 0, 1, 0, 1]
    assert len(dataset[dataset["label"] == "tiger"]) == 2
    assert dataset.at("main@1")["label"].names == ("cat", "dog")
    with pytest.raises(TensorlakeError):
        dataset["label"].add_names(["dog"])
    with pytest.raises(tl.SchemaError, match="class"):
        dataset["x"].add_names(["y"])


# What is staged is the dataset's own


@pytest.mark.parametrize("way", ["extend", "append", "assign", "assign one"])
def test_staged_values_stay_when_the_caller_fills_its_arrays_anew(way):
    """A buffer that is used again for the next batch, as loops do."""
    schema = {
        "x": "int64",
        "raw": tl.Array("uint8", shape=(512,)),
        "boxes": tl.Array("float32", shape=(None, 2)),
    }
    store = MemoryStore()
    dataset = create_on(store, schema)
    dataset.extend({"x": [0] * 3, "raw": np.zeros((3, 512)).astype("u1"), "boxes": [[[0, 0]]] * 3})
    x, raw = np.full(3, 1), np.full((3, 512), 1, np.uint8)
    boxes = np.full((3, 2, 2), 1, np.float32)
    match way:
        case "extend":
            dataset.extend({"x": x, "raw": raw, "boxes": boxes})
        case "append":
            for row in range(3):
                dataset.append({"x": x[row], "raw": raw[row], "boxes": boxes[row]})
        case "assign":
            dataset["x"][:], dataset["raw"][:], dataset["boxes"][:] = x, raw, boxes
        case _:
            for row in range(3):
                dataset["raw"][row], dataset["boxes"][row] = raw[row], boxes[row]
            dataset["x"][:] = x

    for array in (x, raw, boxes):
        array[...] = 9
    dataset.commit()

    read = open_on(store)
    assert set(read["x"][-3:].tolist()) == {1}
    assert set(read["raw"][-3:].ravel().tolist()) == {1}
    assert set(read["boxes"][-3:].values.ravel().tolist()) == {1}


def test_arrays_that_were_read_are_not_the_caches():
    dataset = create_on(MemoryStore(), {"x": "int64"})
    dataset.extend({"x": np.arange(5)})
    dataset.commit()

    read = dataset["x"][:]

    with pytest.raises(ValueError, match="read-only"):
        read[0] = 9
    assert dataset["x"][0] == 0


def test_a_read_only_view_of_a_buffer_that_changes_later_is_copied():
    ds = tl.create("memory://writing-read-only-view", {"blob": tl.Bytes()})
    buffer = bytearray(b"as given")

    ds.append({"blob": memoryview(buffer).toreadonly()})
    buffer[:] = b"changed!"
    ds.commit()

    assert tl.open("memory://writing-read-only-view")["blob"][0] == b"as given"


def test_a_table_with_two_columns_of_one_name_is_refused_with_the_name() -> None:
    pa = pytest.importorskip("pyarrow")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    ds = tl.create("memory://column-twice", {"x": "int64"})

    with pytest.raises(tl.InvalidInputError, match="2 columns of the name 'x'"):
        ds.extend(twice)
    with pytest.raises(tl.InvalidInputError, match="2 columns of the name 'x'"):
        tl.ingest.arrow(twice, "memory://column-twice-new")
    assert len(ds) == 0
