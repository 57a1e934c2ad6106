"""Changing a schema: what is stored stays, and reads as the new type."""

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, rows_of

_names = itertools.count()


def new(schema, **columns):
    ds = tl.create(f"memory://evolution-{next(_names)}", schema)
    if columns:
        ds.extend(columns)
        ds.commit("first")
    return ds


# dtypes


@pytest.mark.parametrize(
    ("old", "wide"),
    [
        ("int8", "int16"),
        ("uint8", "int16"),
        ("int32", "int64"),
        ("uint32", "uint64"),
        ("int16", "float32"),
        ("int32", "float64"),
        ("float16", "float32"),
        ("float32", "complex64"),
        ("int8", "complex64"),
    ],
)
def test_a_widened_tensor_reads_old_and_new_rows_alike(old, wide):
    ds = new({"x": old}, x=[0, 1, 100])
    ds.alter_tensor("x", dtype=wide)
    ds.append({"x": 30_000 if wide != "int16" else 32_767})
    ds.commit("wider")

    again = tl.open(ds.url)

    assert again["x"].dtype == np.dtype(wide)
    assert again["x"][:].dtype == np.dtype(wide)
    assert again["x"][:3].tolist() == [0, 1, 100]
    assert again["x"][3] == (30_000 if wide != "int16" else 32_767)


@pytest.mark.parametrize(
    ("old", "other", "why"),
    [
        ("int16", "int8", "not every number would fit"),
        ("int8", "uint16", "negative numbers would not fit"),
        ("int64", "float64", "would be rounded"),
        ("uint64", "float64", "would be rounded"),
        ("int32", "float32", "would be rounded"),
        ("float32", "int64", "fractions would be lost"),
        ("complex64", "float64", "imaginary parts would be lost"),
        ("bool", "int8", "a boolean is not a number"),
    ],
)
def test_a_cast_that_could_lose_something_is_refused_with_the_reason(old, other, why):
    ds = new({"x": tl.Scalar(old)})

    with pytest.raises(tl.SchemaError, match=why):
        ds.alter_tensor("x", dtype=other)
    assert not ds.has_changes


def test_a_type_with_one_dtype_says_so():
    ds = new({"v": tl.Embedding(4)})

    with pytest.raises(tl.SchemaError, match="no other dtype than float32"):
        ds.alter_tensor("v", dtype="float64")


def test_an_old_version_keeps_its_dtype_also_beside_a_new_one():
    """Handles of one dataset share decoded chunks, which are kept as stored."""
    ds = new({"x": "int8"}, x=[1, 2, 3])
    ds.alter_tensor("x", dtype="int64")
    ds.commit("wider")

    assert ds["x"][:].dtype == np.int64
    assert ds.at("main@1")["x"][:].dtype == np.int8
    assert ds["x"][:].dtype == np.int64


def test_widening_stores_no_chunk():
    ds = create_on(store := CountingStore(MemoryStore()), {"x": "int8"})
    ds.extend({"x": np.zeros(100_000, np.int8)})
    ds.commit("first")
    store.reset()
    ds.alter_tensor("x", dtype="int64")

    ds.commit("wider")

    assert [request.path for request in store.requests if "packs/" in request.path] == []


def test_an_assignment_to_old_rows_takes_wider_values():
    ds = new({"x": "uint8"}, x=list(range(10)))
    ds.alter_tensor("x", dtype="int32")
    ds["x"][[0, 9]] = [-70_000, 70_000]
    ds.commit("wider")

    assert tl.open(ds.url)["x"][:].tolist() == [-70_000, *range(1, 9), 70_000]


def test_rows_staged_before_the_change_are_read_as_the_new_type():
    ds = new({"x": "uint8"})
    ds.extend({"x": [1, 2]})
    ds.alter_tensor("x", dtype="int16")
    ds.extend({"x": [-1]})

    assert ds["x"][:].tolist() == [1, 2, -1]
    ds.commit()
    assert tl.open(ds.url)["x"][:].tolist() == [1, 2, -1]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("x > 200", [2, 3]),
        ("x < 0", [4]),
        ("x = 250", [2]),
        ("x >= 5 AND x <= 250", [1, 2]),
        ("x IN (0, 70000)", [0, 3]),
    ],
)
def test_queries_are_right_across_old_and_new_chunks(condition, rows):
    ds = new({"x": "uint8"}, x=[0, 5, 250])
    ds.alter_tensor("x", dtype="int64")
    ds.extend({"x": [70_000, -3]})
    ds.commit()

    assert ds.query(f"WHERE {condition}").rows.tolist() == rows
    assert tl.open(ds.url).query(f"WHERE {condition}").rows.tolist() == rows


def test_queries_are_right_where_integers_became_floats():
    """Statistics of old chunks are integers, of new ones floats: bounds of one domain go."""
    ds = new({"x": "int16"}, x=[-3, 0, 7])
    ds.alter_tensor("x", dtype="float64")
    ds.extend({"x": [0.5, 7.5, float("nan")]})
    ds.commit()
    ds["x"][0] = -3.5
    ds.commit()

    for handle in (ds, tl.open(ds.url)):
        assert handle.query("WHERE x > 0.25").rows.tolist() == [2, 3, 4]
        assert handle.query("WHERE x < -3").rows.tolist() == [0]
        assert handle.query("WHERE x = 7").rows.tolist() == [2]


def test_large_samples_are_cast_too_when_only_parts_of_a_chunk_are_read():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"x": tl.Array("uint16", (4096,))})
    values = np.arange(64 * 4096, dtype=np.uint16).reshape(64, 4096)
    ds.extend({"x": values})
    ds.commit()
    ds.alter_tensor("x", dtype="int32")
    ds.commit()

    fresh = open_on(store)

    assert np.array_equal(fresh["x"][[3, 40]], values[[3, 40]].astype(np.int32))
    assert fresh["x"][[3, 40]].dtype == np.int32


# shapes


def test_a_fixed_shape_becomes_ragged():
    ds = new({"x": tl.Array("uint8", (2, 2), nullable=True)}, x=[[[1, 2], [3, 4]], None])
    ds.alter_tensor("x", shape=(None, 2))
    ds.append({"x": [[5, 6]]})
    ds.commit()

    again = tl.open(ds.url)

    read = again["x"].read(null=[[0, 0]])
    assert [one.tolist() for one in read] == [[[1, 2], [3, 4]], [[0, 0]], [[5, 6]]]
    assert again["x"].shapes().tolist() == [[2, 2], [-1, -1], [1, 2]]
    assert again[1]["x"] is None
    assert again.query("WHERE SHAPE(x)[0] = 2").rows.tolist() == [0]


def test_a_ragged_shape_may_open_further():
    ds = new({"x": tl.Array("uint8", (None, 2))}, x=[[[1, 2]], np.zeros((0, 2), np.uint8)])
    ds.alter_tensor("x", shape=(None, None))
    ds.append({"x": [[1, 2, 3]]})
    ds.commit()

    assert [one.shape for one in tl.open(ds.url)["x"][:]] == [(1, 2), (0, 2), (1, 3)]


@pytest.mark.parametrize(
    ("shape", "why"),
    [((3,), "only be left open"), ((None, None), "1 axes, not 2"), ((), "1 axes, not 0")],
)
def test_another_shape_is_refused_with_the_reason(shape, why):
    ds = new({"x": tl.Array("uint8", (2,))})

    with pytest.raises(tl.SchemaError, match=why):
        ds.alter_tensor("x", shape=shape)


def test_a_ragged_tensor_cannot_become_fixed():
    ds = new({"x": tl.Array("uint8", (None,))}, x=[[1, 2]])

    with pytest.raises(tl.SchemaError, match="only be left open"):
        ds.alter_tensor("x", shape=(2,))


def test_a_scalar_has_no_shape_to_open():
    ds = new({"x": "int8"})

    with pytest.raises(tl.SchemaError, match="has one shape"):
        ds.alter_tensor("x", shape=(None,))


def test_dtype_shape_and_null_change_in_one_call_or_not_at_all():
    ds = new({"x": tl.Array("uint8", (2,))}, x=[[1, 2]])

    with pytest.raises(tl.SchemaError):
        ds.alter_tensor("x", dtype="int16", shape=(3,))
    assert not ds.has_changes
    ds.alter_tensor("x", dtype="int16", shape=(None,), nullable=True)
    ds.extend({"x": [None, [-1]]})

    assert ds.schema["x"] == tl.Array("int16", (None,), nullable=True)
    assert [row["x"] for row in rows_of(ds)] == [[1, 2], None, [-1]]


def test_the_summary_tells_the_shapes_of_old_and_new_chunks():
    ds = new({"x": tl.Array("uint8", (7,))}, x=np.zeros((2, 7), np.uint8))
    ds.alter_tensor("x", shape=(None,))
    ds.append({"x": [1, 2, 3]})
    ds.commit()

    (tensor,) = ds.summary().tensors

    assert tensor.shape == "3–7"


def test_a_row_is_found_beside_nulls_that_were_deleted():
    """A chunk's count of NULLs is an upper bound for the rows that are still shown."""
    ds = new({"x": tl.Scalar("int8", nullable=True)}, x=[None, None, 5, None])
    ds.delete([0, 3])
    ds.commit()

    again = tl.open(ds.url)

    assert again.query("WHERE x = 5").rows.tolist() == [1]
    assert again.query("WHERE x IS NOT NULL").rows.tolist() == [1]
    assert again.query("WHERE x IS NULL").rows.tolist() == [0]


# fills, NULL, metadata


def test_a_fill_is_read_as_the_new_type():
    ds = new({"y": "int8"}, y=[1, 2])
    ds.add_tensor("x", tl.Array("uint8", (2,)), fill=[7, 8])
    ds.commit()
    ds.alter_tensor("x", dtype="float32", shape=(None,))
    ds["x"][1] = [0.5]
    ds.commit()

    assert [one.tolist() for one in tl.open(ds.url)["x"][:]] == [[7.0, 8.0], [0.5]]


def test_a_tensor_added_to_a_thousand_million_rows_is_one_extent():
    from tensorlake.format import ChunkKind, Extents

    extents = Extents.without_bytes(ChunkKind.FILL, 10**9)

    assert len(extents) == 1


def test_nullable_is_taken_back_when_no_row_is_null():
    ds = new({"x": tl.Scalar("int8", nullable=True)}, x=[1, None, 3])

    with pytest.raises(tl.SchemaError, match=r"'x' is NULL in row 1.*\n.*is_null"):
        ds.alter_tensor("x", nullable=False)
    ds["x"][ds["x"].is_null()] = 2
    ds.alter_tensor("x", nullable=False)
    ds.commit()

    again = tl.open(ds.url)
    assert again["x"][:].tolist() == [1, 2, 3]
    with pytest.raises(tl.InvalidInputError, match="NULL"):
        again.append({"x": None})


def test_a_null_in_a_deleted_row_does_not_count():
    ds = new({"x": tl.Scalar("int8", nullable=True)}, x=[1, None])
    ds.delete([1])

    ds.alter_tensor("x", nullable=False)

    assert ds["x"][:].tolist() == [1]


def test_a_null_fill_counts():
    ds = new({"y": "int8"}, y=[1])
    ds.add_tensor("x", tl.Text(), fill=None)

    with pytest.raises(tl.SchemaError, match="NULL in row 0"):
        ds.alter_tensor("x", nullable=False)


def test_a_check_by_statistics_reads_no_chunk():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"x": tl.Text(nullable=True)})
    ds.extend({"x": ["a", "b"]})
    ds.commit()
    fresh = open_on(store)
    store.reset()

    fresh.alter_tensor("x", nullable=False)

    assert store.requests == ()


def test_metadata_are_noted_and_read_back():
    ds = new({"x": "int8"}, x=[1])
    ds.alter_tensor("x", metadata={"unit": "mm", "range": [0, 1.5]})
    ds.commit()

    assert tl.open(ds.url)["x"].metadata == {"unit": "mm", "range": [0, 1.5]}
    assert "metadata of x" in str(ds.log()[0])
    assert tl.open(ds.url, "main@1")["x"].metadata == {}


@pytest.mark.parametrize(
    "bad", [{"a": float("nan")}, {"a": b"x"}, {"a": "x" * 20_000}, {5: "a"}, 5, "mm", ["unit"]]
)
def test_metadata_that_cannot_be_kept_are_refused(bad):
    ds = new({"x": "int8"})

    with pytest.raises(tl.InvalidInputError):
        ds.alter_tensor("x", metadata=bad)


def test_a_class_name_that_cannot_be_stored_is_refused_before_it_is_staged():
    ds = new({"label": tl.ClassLabel(["cat"])})

    with pytest.raises(tl.InvalidInputError, match="the class name"):
        ds["label"].add_names(["dog", "half \ud800"])

    assert not ds.has_changes


def test_an_alteration_that_says_nothing_is_refused():
    ds = new({"x": "int8"})

    with pytest.raises(tl.InvalidInputError, match="specifies no change"):
        ds.alter_tensor("x")


def test_an_alteration_that_changes_nothing_stages_nothing():
    ds = new({"x": "int8"})

    ds.alter_tensor("x", dtype="int8", shape=(), nullable=False, metadata={})

    assert not ds.has_changes


def test_a_dropped_tensor_stays_in_older_versions():
    ds = new({"x": "int8", "y": "int8"}, x=[1], y=[2])
    ds.drop_tensor("y")
    ds.commit()

    assert "y" not in tl.open(ds.url).schema
    assert tl.open(ds.url, "main@1")["y"][:].tolist() == [2]


# what else reads


def test_a_loader_gives_batches_of_the_new_type_from_old_and_new_chunks():
    ds = new({"x": tl.Array("uint8", (2,)), "y": "int8"}, x=[[1, 2], [3, 4]], y=[1, 2])
    ds.alter_tensor("x", dtype="float32")
    ds.alter_tensor("y", dtype="int64")
    ds.extend({"x": [[0.5, 1.5]], "y": [300]})
    ds.commit()

    (batch,) = ds.loader(batch_size=3)

    assert batch["x"].dtype == np.float32
    assert batch["x"].tolist() == [[1, 2], [3, 4], [0.5, 1.5]]
    assert (batch["y"].dtype, batch["y"].tolist()) == (np.int64, [1, 2, 300])


def test_a_loader_gives_ragged_samples_of_chunks_that_were_uniform():
    ds = new({"x": tl.Array("uint8", (2,))}, x=[[1, 2], [3, 4]])
    ds.alter_tensor("x", shape=(None,))
    ds.append({"x": [5]})
    ds.commit()

    (batch,) = ds.loader(batch_size=3, collate={"x": "list"})

    assert [one.tolist() for one in batch["x"]] == [[1, 2], [3, 4], [5]]


def test_a_widening_alone_changes_no_row():
    ds = new({"x": "int8", "y": tl.Array("int8", (2,))}, x=[1, 2, 3], y=np.zeros((3, 2), np.int8))
    ds.alter_tensor("x", dtype="int64")
    ds.alter_tensor("y", shape=(None,))
    ds.commit()

    difference = ds.diff("main@1")

    assert difference.updated == {}
    assert len(difference.schema) == 2


def test_a_difference_across_types_tells_the_rows_whose_value_changed():
    ds = new({"x": "int8", "y": tl.Array("int8", (1,))}, x=[1, 2, 3], y=[[1], [2], [3]])
    ds.alter_tensor("x", dtype="float64")
    ds.alter_tensor("y", shape=(None,))
    ds["x"][1] = 2.5
    ds["y"][2] = [3, 3]
    ds.commit()

    forth, back = ds.diff("main@1"), ds.diff("main@2", "main@1")

    assert forth.updated["x"].after[:].tolist() == [2.5]
    assert forth.updated["x"].before[:].tolist() == [2]
    assert [one.tolist() for one in forth.updated["y"].after[:]] == [[3, 3]]
    assert back.updated["x"].after[:].tolist() == [2]
    assert len(back.updated["y"].after) == 1


def test_a_view_of_an_altered_tensor_is_appended_elsewhere():
    ds = new({"x": "uint8"}, x=[1, 2])
    ds.alter_tensor("x", dtype="int32")
    ds.append({"x": -5})
    ds.commit()
    other = new({"x": "int32"})

    other.extend(ds)

    assert other["x"][:].tolist() == [1, 2, -5]


# nothing at all (format.md 33)


@pytest.mark.parametrize(
    ("old", "change", "values"),
    [
        (tl.Array("uint8", ()), {"dtype": "int16"}, [3, 4]),
        (tl.Array("uint8", (0,)), {"dtype": "int16"}, [np.zeros(0, np.uint8)] * 2),
        (tl.Array("uint8", (0, 2)), {"shape": (None, 2)}, [np.zeros((0, 2), np.uint8)] * 2),
        (tl.Array("uint8", (None,)), {"dtype": "float32"}, [[], []]),
        (tl.Scalar("uint8", nullable=True), {"dtype": "float32"}, [None, None]),
        (tl.Array("uint8", (3,), nullable=True), {"shape": (None,)}, [None, None]),
        (tl.Array("uint8", (3, 2), nullable=True), {"shape": (None, 2)}, [None, [[1, 2]] * 3]),
    ],
    ids=str,
)
def test_samples_without_elements_and_nulls_change_type_too(old, change, values):
    ds = new({"x": old}, x=values)
    ds.alter_tensor("x", **change)
    ds.extend({"x": values})
    ds.commit()

    again = tl.open(ds.url)

    assert len(again) == 4
    read = [row["x"] for row in again]
    for sample, value in zip(read, [*values, *values], strict=True):
        if value is None:
            assert sample is None
        else:
            assert np.array_equal(sample, np.asarray(value, sample.dtype))
            assert sample.dtype == again["x"].dtype


@pytest.mark.parametrize("change", [{"dtype": "int64"}, {"shape": (None,)}, {"nullable": True}])
def test_a_dataset_without_rows_changes_type(change):
    ds = new({"x": tl.Array("int8", (2,))})
    ds.alter_tensor("x", **change)
    ds.commit()

    again = tl.open(ds.url)

    assert len(again["x"][:]) == 0
    again.extend({"x": [[1, 2]]})
    assert again["x"][0].tolist() == [1, 2]
    again.discard()
