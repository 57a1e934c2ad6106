"""The edges of what a dataset may hold (format.md, tests 22, 24 and 33)."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on, rows_of

NULLABLE = {
    "x": tl.Scalar("int64", nullable=True),
    "vector": tl.Embedding(3, nullable=True),
    "ragged": tl.Array("int8", (None,), nullable=True),
    "text": tl.Text(nullable=True),
    "label": tl.ClassLabel(["a"], nullable=True),
    "image": tl.Image("png", nullable=True),
    "info": tl.Json(nullable=True),
    "raw": tl.Bytes(nullable=True),
    "flag": tl.Bool(nullable=True),
}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_samples_without_elements_keep_their_shapes(store):
    schema = {
        "none": tl.Array("float32", (0,)),
        "ragged": tl.Array("int64", (None, 0)),
        "inner": tl.Array("int8", (2, 0, 3)),
        "text": "str",
    }
    dataset = create_on(store, schema)
    dataset.extend(
        {
            "none": np.zeros((3, 0), np.float32),
            "ragged": [np.zeros((rows, 0), np.int64) for rows in range(3)],
            "inner": np.zeros((3, 2, 0, 3), np.int8),
            "text": [""] * 3,
        }
    )
    dataset["ragged"][0] = np.zeros((5, 0), np.int64)
    dataset.commit()

    read = open_on(store)

    assert read["none"][:].shape == (3, 0)
    assert read["inner"][:].shape == (3, 2, 0, 3)
    assert read["ragged"].shapes().tolist() == [[5, 0], [1, 0], [2, 0]]
    assert [one.shape for one in read["ragged"][:]] == [(5, 0), (1, 0), (2, 0)]
    assert read["text"][:] == [""] * 3


def test_every_type_holds_nothing_but_null(store):
    dataset = create_on(store, NULLABLE)
    for _ in range(3):
        dataset.append(dict.fromkeys(NULLABLE))
    dataset.commit()

    read = open_on(store)

    assert rows_of(read) == [dict.fromkeys(NULLABLE)] * 3
    for name in NULLABLE:
        assert len(read.where(read[name].is_null())) == 3
    assert len(read.where("x > 0")) == len(read.where("NOT x > 0")) == 0


def test_a_dataset_without_rows_answers_everything(store):
    dataset = create_on(store, {"x": "int64", "boxes": tl.Array("int8", (None, 2)), "text": "str"})

    assert dataset["x"][:].shape == (0,)
    assert len(dataset["boxes"][:]) == len(dataset["text"][:]) == len(dataset.where("x > 0")) == 0
    assert dataset.delete(slice(None)) == 0
    dataset["x"][:] = 5
    assert not dataset.has_changes
    assert not dataset.diff("main@0")
    assert "0 rows" in repr(dataset)


def test_rows_come_back_after_all_were_deleted(store):
    dataset = create_on(store, {"x": "int64"})
    for value in range(3):
        dataset.extend({"x": [value, value]})
        dataset.commit()
        assert open_on(store)["x"][:].tolist() == [value, value]
        dataset.delete(slice(None))
        dataset.commit()
        assert len(open_on(store)) == 0


def test_numbers_at_the_ends_of_their_range_are_stored_and_found(store):
    """Test 24: pruning by statistics never loses NaN, −0.0 or uint64 above 2⁶³."""
    unsigned, signed = [0, 2**63, 2**64 - 1], [-(2**63), 0, 2**63 - 1]
    dataset = create_on(store, {"u": "uint64", "i": "int64", "f": "float64"})
    dataset.extend({"u": np.array(unsigned, np.uint64), "i": signed, "f": [-0.0, np.nan, np.inf]})
    dataset.commit()

    read = open_on(store)

    assert read["u"][:].tolist() == unsigned
    assert read["i"][:].tolist() == signed
    assert read.where("u > $bound", bound=2**63).rows.tolist() == [2]
    assert read.where(read["i"] == -(2**63)).rows.tolist() == [0]
    assert read.where("f = 0").rows.tolist() == [0]
    assert read.where("f > 1").rows.tolist() == [2]
    assert np.isnan(read["f"][1])


def test_arrays_of_any_layout_and_byte_order_are_stored_by_value(store):
    base = np.arange(160, dtype=np.int16).reshape(20, 8)[::2].reshape(10, 4, 2)
    dataset = create_on(store, {"x": "int32", "grid": tl.Array("int16", (4, 2))})
    dataset.extend({"x": np.arange(20, dtype=np.int32)[::-2], "grid": np.asfortranarray(base)})
    dataset.extend({"x": np.arange(3, dtype=">i4"), "grid": np.ones((3, 4, 2), ">i2")})
    dataset["grid"][9::-1] = base
    dataset.commit()

    read = open_on(store)

    assert read["x"][:].tolist() == [*range(19, -1, -2), 0, 1, 2]
    assert np.array_equal(read["grid"][:10], base[::-1])
    assert np.all(read["grid"][10:] == 1)


def test_a_view_with_repeated_rows_is_queried_row_by_row(store):
    dataset = create_on(store, {"x": "int64"})
    dataset.extend({"x": np.arange(10)})
    view = dataset[[5, 5, 1, 9]]

    assert view.where("x >= 5").rows.tolist() == [5, 5, 9]
    assert view[view["x"] >= 5].rows.tolist() == [5, 5, 9]
    assert view.query("ORDER BY x DESC LIMIT 2").rows.tolist() == [9, 5]


def test_labels_are_found_by_the_names_of_their_version(store):
    """Test 44: the code stays, the name moves; statistics speak of codes."""
    dataset = create_on(store, {"label": tl.ClassLabel(["a", "b"])})
    dataset.extend({"label": ["a", "b", "a"]})
    dataset.commit()
    dataset["label"].rename("a", "z")
    dataset["label"].add_names(["a"])
    dataset.append({"label": "a"})
    dataset.commit()

    assert dataset.where("label = 'z'").rows.tolist() == [0, 2]
    assert dataset.where("label = 'a'").rows.tolist() == [3]
    assert dataset.at("main@1").where("label = 'a'").rows.tolist() == [0, 2]


def test_names_differ_by_case_and_slash_and_not_by_their_unicode_form(store):
    """Test 22."""
    dataset = create_on(store, {"naïve/ünï": "int64", "😀": "str"})
    for name in ("é", "A", "a", "a/b", "con", "😀", "_x", "n" * 200):
        dataset.branch(name)

    assert set(dataset.branches) == {"é", "A", "a", "a/b", "con", "😀", "_x", "n" * 200, "main"}
    with pytest.raises(tl.InvalidInputError, match="never used twice"):
        dataset.branch("e\u0301")
    with pytest.raises(tl.InvalidInputError):
        dataset.branch("😀" * 60)
    assert dataset.at("e\u0301").version == dataset.at("é").version


def test_twenty_commits_of_appends_updates_and_deletes_equal_a_list(store):
    rng = np.random.default_rng(0)
    dataset, model = create_on(store, {"x": "int64"}), list[int]()
    for number in range(20):
        new = (np.arange(rng.integers(1, 500)) + number * 10_000).tolist()
        dataset.extend({"x": new})
        model += new
        chosen = rng.choice(len(model), size=len(model) // 7, replace=False)
        dataset["x"][chosen] = -chosen
        for row in chosen.tolist():
            model[row] = -row
        gone = set(rng.choice(len(model), size=len(model) // 9).tolist())
        dataset.delete(sorted(gone))
        model = [x for row, x in enumerate(model) if row not in gone]
        dataset.commit()

    read = open_on(store)

    assert read["x"][:].tolist() == model
    assert read.where("x < 0").rows.tolist() == [row for row, x in enumerate(model) if x < 0]
