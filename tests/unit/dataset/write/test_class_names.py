"""Class names: added, renamed, dropped; a code keeps its class, whoever else changes names."""

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.query.source import column_type
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on

_names = itertools.count()


def new(schema, **columns):
    ds = tl.create(f"memory://class-names-{next(_names)}", schema)
    if columns:
        ds.extend(columns)
        ds.commit("first")
    return ds


LABEL = tl.ClassLabel(["cat", "dog", "cow"])


def test_an_unused_class_is_dropped_and_its_code_is_never_used_again():
    ds = new({"label": LABEL}, label=["cat", "dog"])

    ds["label"].drop_names(["cow"])
    assert ds["label"].names == ("cat", "dog")
    assert ds.schema["label"].describe() == "ClassLabel(2: cat, dog)"
    ds["label"].add_names(["hen"])
    ds.append({"label": "hen"})
    ds.commit()

    again = tl.open(ds.url)
    assert again["label"].names == ("cat", "dog", "", "hen")
    assert again["label"].codes(["hen"]).tolist() == [3]
    assert again["label"][:].as_names() == ["cat", "dog", "hen"]


def test_a_class_in_use_is_not_dropped_and_the_rows_are_counted():
    ds = new({"label": LABEL}, label=["cat", "dog", "dog"])

    with pytest.raises(tl.SchemaError, match=r"'cat' in 1 row, 'dog' in 2 rows\n.*'label'"):
        ds["label"].drop_names(["cat", "dog", "cow"])
    assert ds["label"].names == ("cat", "dog", "cow")


def test_a_class_between_others_is_dropped_and_codes_stay():
    ds = new({"label": LABEL}, label=["cat", "cow"])
    ds["label"].drop_names(["dog"])
    ds.commit()

    again = tl.open(ds.url)
    assert again["label"][:].tolist() == [0, 2]
    assert (again["label"][:] == "cow").tolist() == [False, True]
    assert len(again.query("WHERE label = 'cow'")) == 1
    for attempt in (
        lambda: again["label"][:] == "dog",
        lambda: again.append({"label": "dog"}),
        lambda: again.append({"label": 1}),
        lambda: again.append({"label": ""}),
        lambda: again["label"].codes(["dog"]),
    ):
        with pytest.raises(tl.UnknownClassError):
            attempt()
    with pytest.raises(tl.QueryNameError, match="no class"):
        again.query("WHERE label = 'dog'")
    with pytest.raises(tl.QueryNameError, match="no class"):
        again.query("WHERE label = ''")


def test_dropped_classes_are_not_shown():
    from tensorlake_query import complete

    ds = new({"label": tl.ClassLabel(["cat", "dog", "cow", "hen", "emu"])}, label=["emu", "cat"])
    ds["label"].drop_names(["dog", "hen"])
    ds.commit()

    frame = tl.open(ds.url).to_pandas()

    assert frame["label"].tolist() == ["emu", "cat"]
    assert frame["label"].cat.categories.tolist() == ["cat", "cow", "emu"]
    assert ds.summary(full=True).tensors[0].values == "cat 1  emu 1  cow 0"
    assert ds.summary().tensors[0].type == "ClassLabel(3: cat, cow, emu)"
    schema = {"label": column_type(ds.schema["label"])}
    text = "WHERE label = "
    offered = [one.text for one in complete(text, len(text), schema) if one.kind == "class"]
    assert offered == ["'cat'", "'cow'", "'emu'"]


def test_old_versions_keep_their_class_names():
    ds = new({"label": LABEL}, label=["cat", "cow"])
    ds["label"][1] = "cat"
    ds["label"].drop_names(["cow"])
    ds["label"].rename("dog", "hound")
    ds.commit()

    assert tl.open(ds.url, "main@1")["label"][:].as_names() == ["cat", "cow"]
    assert tl.open(ds.url)["label"].names == ("cat", "hound")


def test_classes_of_many_a_row_are_counted_by_row():
    ds = new({"label": tl.ClassLabel(["a", "b"], multi=True)}, label=[["a", "a"], ["a", "b"], []])

    with pytest.raises(tl.SchemaError, match="'a' in 2 rows"):
        ds["label"].drop_names(["a"])


def test_rows_of_a_class_are_counted_over_chunks_with_and_without_label_sets():
    names = [f"c{number}" for number in range(200)]
    ds = new({"label": tl.ClassLabel(names)})
    everything = []
    for seed, classes in enumerate([199, 100, 3, 1]):
        codes = np.random.default_rng(seed).integers(0, classes, 300)
        ds.extend({"label": codes})
        ds.commit()
        everything += codes.tolist()
    used = everything.count(150)
    assert used

    with pytest.raises(tl.SchemaError, match=f"'c150' in {used} rows?\n"):
        ds["label"].drop_names(["c150", "c199"])
    ds["label"].drop_names(["c199"])

    assert len(ds["label"].names) == 199


def test_the_default_class_is_not_dropped():
    ds = new({"label": tl.ClassLabel(["a", "b"], default="b"), "x": "int8"})

    with pytest.raises(tl.SchemaError, match="default"):
        ds["label"].drop_names(["b"])


def test_dropping_reads_only_chunks_that_may_hold_the_class():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"label": LABEL})
    ds.extend({"label": ["cat", "dog"] * 1000})
    ds.commit()
    fresh = open_on(store)
    store.reset()

    fresh["label"].drop_names(["cow"])

    assert store.requests == ()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda tensor: tensor.add_names(["cat"]), tl.SchemaError),
        (lambda tensor: tensor.add_names(["hen", "hen"]), tl.SchemaError),
        (lambda tensor: tensor.add_names([""]), tl.SchemaError),
        (lambda tensor: tensor.add_names("hen"), tl.InvalidInputError),
        (lambda tensor: tensor.rename("cat", "dog"), tl.SchemaError),
        (lambda tensor: tensor.rename("cat", ""), tl.SchemaError),
        (lambda tensor: tensor.rename("kat", "puss"), tl.UnknownClassError),
        (lambda tensor: tensor.drop_names(["hen"]), tl.UnknownClassError),
        (lambda tensor: tensor.drop_names("cow"), tl.InvalidInputError),
    ],
)
def test_class_names_that_cannot_be_are_refused(change, error):
    ds = new({"label": LABEL}, label=["cat"])

    with pytest.raises(error):
        change(ds["label"])
    assert not ds.has_changes


def test_class_names_of_what_has_none_are_refused():
    ds = new({"x": "int8"})

    for change in (lambda t: t.add_names(["a"]), lambda t: t.drop_names(["a"])):
        with pytest.raises(tl.SchemaError, match="no class names"):
            change(ds["x"])


def test_a_view_changes_no_class_names():
    ds = new({"label": LABEL}, label=["cat"])

    with pytest.raises(tl.ReadOnlyError):
        ds.take(1)["label"].drop_names(["cow"])


# two writers, two branches


def labels(ds) -> list[str]:
    return ds["label"][:].as_names()


def found(ds, name: str) -> list[int]:
    """Rows of a class by its name: pruned by statistics, and compared row by row."""
    pruned = ds.query(f"WHERE label = '{name}'").rows.tolist()
    compared = np.flatnonzero(ds["label"][:] == name).tolist()
    assert pruned == compared
    return pruned


def test_two_writers_add_class_names_and_every_label_stays_what_it_was():
    """format.md 44: the later writer's codes are mapped, and no chunk is rewritten."""
    ds = new({"label": tl.ClassLabel(["cat", "dog"])}, label=["dog"])
    first, second = tl.open(ds.url), tl.open(ds.url)
    first["label"].add_names(["cow", "owl"])
    first.extend({"label": ["cow", "owl", "dog"]})
    second["label"].add_names(["hen", "cow"])
    second.extend({"label": ["hen", "cow", "cat"] * 100})
    first.commit("first")
    second.commit("second")

    for again in (second, tl.open(ds.url)):
        assert again["label"].names == ("cat", "dog", "cow", "owl", "hen")
        assert labels(again) == ["dog", "cow", "owl", "dog", *["hen", "cow", "cat"] * 100]
        assert found(again, "cow") == [1, *range(5, 304, 3)]
        assert found(again, "hen") == list(range(4, 304, 3))
        assert len(found(again, "owl")) == 1
    assert labels(tl.open(ds.url, "main@2")) == ["dog", "cow", "owl", "dog"]


def test_labels_that_were_mapped_are_assigned_filtered_loaded_and_exported_by_class():
    ds = new({"label": tl.ClassLabel(["cat"])}, label=["cat"])
    first, second = tl.open(ds.url), tl.open(ds.url)
    first["label"].add_names(["cow"])
    first.append({"label": "cow"})
    second["label"].add_names(["hen"])
    second.extend({"label": ["hen", "cat", "hen"]})
    first.commit()
    second.commit()

    again = tl.open(ds.url)
    assert again["label"][:].tolist() == [0, 1, 2, 0, 2]
    (batch,) = again.loader(batch_size=5)
    assert batch["label"].tolist() == [0, 1, 2, 0, 2]
    again["label"][2] = "cow"
    again.commit()
    assert labels(tl.open(ds.url)) == ["cat", "cow", "cow", "cat", "hen"]
    other = new({"label": tl.ClassLabel(["hen", "cow", "cat"])})
    other.extend(again)
    assert labels(other) == ["cat", "cow", "cow", "cat", "hen"]


def test_names_added_by_two_writers_again_and_again():
    """format.md 44 and 48: a map over a map stays one table a chunk."""
    ds = new({"label": tl.ClassLabel(["a"])}, label=["a"])
    expected = ["a"]
    for turn in range(6):
        first, second = tl.open(ds.url), tl.open(ds.url)
        for writer, name in ((first, f"f{turn}"), (second, f"s{turn}")):
            writer["label"].add_names([name])
            writer.extend({"label": [name, "a"]})
            expected += [name, "a"]
            writer.commit()

    assert labels(tl.open(ds.url)) == expected


def test_a_rename_against_added_names_combines():
    """format.md 44: rename against unchanged."""
    ds = new({"label": tl.ClassLabel(["cat", "dog"])}, label=["dog", "cat"])
    first, second = tl.open(ds.url), tl.open(ds.url)
    first["label"].rename("dog", "hound")
    second["label"].add_names(["cow"])
    second.append({"label": "cow"})
    first.commit()
    second.commit()

    assert labels(tl.open(ds.url)) == ["hound", "cat", "cow"]


def test_two_renames_of_one_class_conflict():
    ds = new({"label": tl.ClassLabel(["cat"])}, label=["cat"])
    first, second = tl.open(ds.url), tl.open(ds.url)
    first["label"].rename("cat", "puss")
    second["label"].rename("cat", "kitty")
    first.commit()

    with pytest.raises(tl.ConflictError):
        second.commit()
    second.discard()


@pytest.mark.parametrize("is_dropped_first", [True, False])
def test_a_class_dropped_by_one_writer_and_used_by_another_conflicts(is_dropped_first):
    ds = new({"label": tl.ClassLabel(["cat", "cow"])}, label=["cat"])
    dropping, using = tl.open(ds.url), tl.open(ds.url)
    dropping["label"].drop_names(["cow"])
    using.append({"label": "cow"})
    first, second = (dropping, using) if is_dropped_first else (using, dropping)
    first.commit()

    with pytest.raises(tl.ConflictError):
        second.commit()
    second.discard()


@pytest.mark.parametrize("is_checked_first", [True, False])
def test_null_taken_away_by_one_writer_and_written_by_another_conflicts(is_checked_first):
    ds = new({"x": tl.Scalar("int8", nullable=True)}, x=[1])
    checking, writing = tl.open(ds.url), tl.open(ds.url)
    checking.alter_tensor("x", nullable=False)
    writing["x"][0] = None
    first, second = (checking, writing) if is_checked_first else (writing, checking)
    first.commit()

    with pytest.raises(tl.ConflictError):
        second.commit()
    second.discard()


def test_branches_that_added_class_names_are_merged_by_name():
    """format.md 44: dog stays dog, pruned and not."""
    ds = new({"label": tl.ClassLabel(["cat", "dog"])}, label=["cat", "dog"])
    side = ds.branch("side")
    side["label"].add_names(["hen", "cow"])
    side.extend({"label": ["cow", "hen", "dog"]})
    side.commit()
    ds["label"].add_names(["cow"])
    ds.extend({"label": ["cow"]})
    ds.commit()

    ds.merge("side")

    again = tl.open(ds.url)
    assert again["label"].names == ("cat", "dog", "cow", "hen")
    assert labels(again) == ["cat", "dog", "cow", "cow", "hen", "dog"]
    assert found(again, "cow") == [2, 3]
    assert found(again, "hen") == [4]
    assert found(again, "dog") == [1, 5]


def test_a_restored_version_gives_no_code_to_another_class():
    """format.md 44: what a branch added since is a dropped class, not a free number."""
    ds = new({"label": tl.ClassLabel(["cat", "dog"])}, label=["dog"])
    ds["label"].add_names(["cow"])
    ds.append({"label": "cow"})
    ds.commit()
    side = ds.branch("side")
    side.append({"label": "cow"})
    side.commit()
    ds.restore("main@1")
    assert ds["label"].names == ("cat", "dog")
    ds["label"].add_names(["hen"])
    ds.append({"label": "hen"})
    ds.commit()

    ds.merge("side")

    assert labels(tl.open(ds.url)) == ["dog", "hen", "cow"]


def test_a_difference_between_branches_goes_by_class_not_by_code():
    ds = new({"label": tl.ClassLabel(["cat"])}, label=["cat", "cat"])
    side = ds.branch("side")
    side["label"].add_names(["hen", "cow"])
    side["label"][:] = ["cow", "hen"]
    side.commit()
    ds["label"].add_names(["cow"])
    ds["label"][:] = ["cow", "cat"]
    ds.commit()

    updated = ds.diff("side", "main").updated["label"]

    assert updated.before[:].as_names() == ["hen"]
    assert updated.after[:].as_names() == ["cat"]
