"""Saved views: rows of one version under a name, opened by anyone, loaded, run again, copied."""

import datetime as dt
import itertools
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, rows_of

_names = itertools.count()


def new(rows: int = 10):
    ds = tl.create(f"memory://saved-views-{next(_names)}", {"x": "int64", "note": tl.Text()})
    ds.extend({"x": np.arange(rows), "note": [f"n{row}" for row in range(rows)]})
    ds.commit("first")
    return ds


def test_a_saved_view_opens_with_the_same_rows_in_another_handle():
    ds = new()
    view = ds.query("WHERE x >= 4 ORDER BY x DESC")

    view.save("large", "for the paper")

    again = tl.open(ds.url).views["large"]
    assert again.rows.tolist() == view.rows.tolist() == [9, 8, 7, 6, 5, 4]
    assert again["note"][:2] == ["n9", "n8"]
    assert again.name == "large"
    assert repr(again).startswith(f"View 'large' of '{ds.url}' main@1 · 6 of 10 rows")
    assert again.tql == view.tql
    assert again.version == "main@1"


@pytest.mark.parametrize(
    "rows",
    [[3, 1, 1, 9], [], [0], list(range(10)), list(range(9, -1, -1)), [2, 3, 4]],
    ids=str,
)
def test_rows_chosen_by_hand_keep_order_and_repeats(rows):
    ds = new()
    ds[rows].save("hand")

    again = tl.open(ds.url).views["hand"]

    assert again.rows.tolist() == rows
    assert rowset_of(again).selection.digest == rowset_of(ds[rows]).selection.digest


def test_a_view_of_everything_is_everything():
    ds = new()
    view = ds[[*ds.schema]]
    view.save("all")

    again = ds.views["all"]

    assert rowset_of(again).selection.rows is None
    assert rowset_of(again).selection.digest == rowset_of(view).selection.digest
    assert len(again) == 10


def test_rows_are_those_of_the_version_whatever_comes_later():
    ds = new()
    ds.query("WHERE x < 3").save("small")
    ds.delete([0, 1])
    ds["x"][:] = 0
    ds.commit()

    assert ds.views["small"]["x"][:].tolist() == [0, 1, 2]
    assert ds[ds.views["small"]]["note"][:] == ["n2"]


def test_rows_after_deletes_are_found_again():
    ds = new()
    ds.delete([0, 5])
    ds.commit()
    ds.query("WHERE x > 3").save("after")

    assert ds.views["after"]["x"][:].tolist() == [4, 6, 7, 8, 9]


def test_columns_of_a_view_are_kept():
    ds = new()
    ds.query("WHERE x > 7")[["note"]].save("notes")

    again = ds.views["notes"]

    assert list(again.schema) == ["note"]
    assert again["note"][:] == ["n8", "n9"]


def test_computed_columns_are_computed_again():
    ds = new()
    ds.query("SELECT x, x * 2 AS twice WHERE x > 7").save("twice")

    again = tl.open(ds.url).views["twice"]

    assert list(rowset_of(again).computed) == ["twice"]
    assert np.asarray(again["twice"]).tolist() == [16, 18]
    assert again[1]["twice"] == 18


def test_parameters_are_kept_with_the_query():
    ds = new()
    ds.query("WHERE x >= $low AND x IN $some", low=np.int64(3), some=[1, 4, 5]).save("p")
    ds.append({"x": 4, "note": "later"})
    ds.commit()

    again = tl.open(ds.url).views["p"]

    assert again.rows.tolist() == [4, 5]
    assert again.rerun().rows.tolist() == [4, 5, 10]


def test_array_parameters_are_kept_exactly():
    ds = tl.create(f"memory://saved-views-{next(_names)}", {"v": tl.Embedding(3)})
    ds.extend({"v": np.eye(3, dtype=np.float32)})
    ds.commit()
    query = np.array([0.1, 1 / 3, 0.9], np.float32)
    ds.query("ORDER BY COSINE_SIMILARITY(v, $q) DESC LIMIT 1", q=query).save("nearest")

    again = ds.views["nearest"]

    assert again.rows.tolist() == [2]
    kept = rowset_of(again).steps[0].params["q"]
    assert kept.dtype == np.float32
    assert np.array_equal(kept, query)


def test_a_view_is_run_again_on_the_newest_version():
    ds = new()
    ds.query("WHERE x > 6").query("WHERE x < 9")[["x"]].save("some")
    ds.extend({"x": [7, 70], "note": ["a", "b"]})
    ds.commit()

    again = ds.views["some"].rerun()

    assert again.version == "main@2"
    assert again["x"][:].tolist() == [7, 8, 7]
    assert list(again.schema) == ["x"]
    assert ds.views["some"]["x"][:].tolist() == [7, 8]


def test_a_view_that_was_not_saved_runs_again_too():
    ds = new()
    view = ds.query("WHERE x > 8")
    ds.append({"x": 9, "note": ""})
    ds.commit()

    assert len(view.rerun()) == 2


def test_rows_chosen_by_hand_are_not_run_again():
    ds = new()
    ds.query("WHERE x > 3")[:2].save("two")

    with pytest.raises(tl.errors.InvalidStateError, match="chosen by hand"):
        ds.views["two"].rerun()


def test_a_saved_view_explains_itself():
    ds = new()
    ds.query("WHERE x > 3").save("some", "for the paper")

    text = ds.views["some"].explain()

    assert "saved view 'some': 6 rows of main@1" in text
    assert "for the paper" in text
    assert "x > 3" in text


def test_views_are_listed_apart_from_tags():
    ds = new()
    ds.tag("v1")
    ds.query("WHERE x > 3").save("b")
    ds[[1, 2]].save("a", "two rows")

    assert list(ds.views) == ["a", "b"]
    assert len(ds.views) == 2
    assert list(ds.tags) == ["v1"]
    assert repr(ds.views) == (
        f"2 views of '{ds.url}'\n  a  2 rows  main@1  two rows\n  b  6 rows  main@1  WHERE x > 3"
    )
    assert "c" not in ds.views


def test_an_unknown_view_names_those_there_are():
    ds = new()
    ds[[1]].save("one")
    ds.tag("v1")

    for name in ("two", "v1"):
        with pytest.raises(tl.ViewNotFoundError, match="views: one"):
            ds.views[name]
    with pytest.raises(KeyError):
        ds.views["two"]


def test_a_view_is_no_version():
    ds = new()
    ds[[1]].save("one")

    with pytest.raises(tl.InvalidInputError, match=r"saved view.*\n.*views\['one'\]"):
        tl.open(ds.url, "one")


def test_names_are_shared_with_tags_and_branches_and_never_used_twice():
    ds = new()
    ds.tag("v1")
    ds.branch("side")
    ds[[1]].save("one")

    for name in ("v1", "side", "one", "pin-1"):
        with pytest.raises(tl.InvalidInputError):
            ds[[2]].save(name)
    with pytest.raises(tl.InvalidInputError, match="saved view"):
        ds.tag("one")
    with pytest.raises(tl.InvalidInputError):
        ds.branch("one")
    ds.delete_tag("one")
    with pytest.raises(tl.InvalidInputError, match="used and deleted"):
        ds[[1]].save("one")
    assert list(ds.views) == []


def test_saving_the_same_view_again_is_no_error():
    ds = new()
    ds.query("WHERE x > 3").save("some")

    ds.query("WHERE x > 3").save("some")

    assert len(ds.views["some"]) == 6


def test_staged_changes_are_not_saved():
    ds = new()
    ds.append({"x": 100, "note": ""})
    view = ds.query("WHERE x > 8")

    with pytest.raises(tl.UncommittedChangesError):
        view.save("staged")
    ds.discard()
    with pytest.raises(tl.StaleViewError):
        view.save("staged")
    assert list(ds.views) == []


def test_an_aggregate_is_not_saved():
    ds = new()

    with pytest.raises(tl.InvalidInputError, match="aggregates"):
        ds.query("SELECT COUNT(*) AS n").save("n")


def test_computed_columns_of_rows_chosen_by_hand_are_not_saved():
    ds = new()
    view = ds.query("SELECT x, x * 2 AS twice")[:3]

    with pytest.raises(tl.InvalidInputError, match="'twice'"):
        view.save("twice")
    view[["x"]].save("x")
    assert ds.views["x"]["x"][:].tolist() == [0, 1, 2]


def test_a_handle_that_only_reads_saves_nothing():
    ds = new()

    with pytest.raises(tl.ReadOnlyError):
        tl.open(ds.url, read_only=True)[[1]].save("one")


def test_a_view_of_an_old_version_is_saved():
    ds = new()
    ds["x"][:] = 0
    ds.commit()

    tl.open(ds.url, "main@1").query("WHERE x > 7").save("then")

    assert ds.views["then"]["x"][:].tolist() == [8, 9]


def test_a_parameter_that_cannot_be_written_is_refused():
    ds = new()
    view = ds.query("WHERE note = $day", day="n1")
    object.__setattr__(rowset_of(view).steps[0], "params", {"day": dt.date(2026, 1, 1)})

    with pytest.raises(tl.InvalidInputError, match=r"\$day .* date"):
        view.save("day")


def test_a_saved_view_is_pickled_with_its_query():
    ds = new()
    ds.query("WHERE x > 3").save("some")

    again = pickle.loads(pickle.dumps(ds.views["some"]))

    assert again.rows.tolist() == [4, 5, 6, 7, 8, 9]
    assert again.name == "some"
    assert again.rerun().rows.tolist() == [4, 5, 6, 7, 8, 9]


def test_a_loader_goes_on_over_a_saved_view_from_another_handles_state():
    """format.md 2 and 15, for views: what was saved is what is loaded, to the row."""
    ds = new(100)
    view = ds.query("WHERE x >= 40 ORDER BY x DESC")
    view.save("some")
    loader = view.loader(batch_size=7, shuffle=True, seed=3)
    batches = iter(loader)
    seen = [next(batches)["x"].tolist() for _ in range(3)]
    state = loader.state_dict()
    batches.close()
    ds.delete(list(range(50)))
    ds.commit()

    resumed = tl.open(ds.url).views["some"].loader(batch_size=7, shuffle=True, seed=3)
    resumed.load_state_dict(state)
    rest = [batch["x"].tolist() for batch in resumed]

    assert sorted(itertools.chain.from_iterable(seen + rest)) == list(range(40, 100))


def test_a_loader_over_staged_changes_is_not_resumed():
    ds = new()
    ds.append({"x": 100, "note": ""})
    loader = ds.query("WHERE x > 5").loader(batch_size=2)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    batches.close()

    with pytest.raises(tl.UncommittedChangesError):
        ds.query("WHERE x > 5").loader(batch_size=2).load_state_dict(state)
    ds.discard()


def test_many_scattered_rows_lie_in_pages_and_come_back():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": np.arange(200_000)})
    ds.commit()
    chosen = np.random.default_rng(0).permutation(200_000)[:150_000]
    store.reset()

    ds[chosen].save("scattered")

    stored = [r.path for r in store.requests if r.call == "put_if_absent"]
    assert [path.split("/")[0] for path in stored] == ["packs", "tags"]
    again = open_on(store).views["scattered"]
    assert np.array_equal(again.rows, chosen)


def test_a_few_rows_need_no_pack():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"x": "int64"})
    ds.extend({"x": np.arange(1000)})
    ds.commit()
    store.reset()

    ds.query("WHERE x > 10 AND x < 20").save("few")

    assert [r.path for r in store.requests if r.call == "put_if_absent"] == ["tags/few.json"]


# materialize


def test_a_view_becomes_a_dataset_of_its_own(tmp_path):
    ds = new()
    view = ds.query("SELECT note, x * 2 AS twice WHERE x > 6 ORDER BY x DESC")
    view.save("some")

    copy = ds.views["some"].materialize(str(tmp_path / "copy.tl"))

    assert copy.version == "main@1"
    assert rows_of(copy) == [
        {"note": "n9", "twice": 18},
        {"note": "n8", "twice": 16},
        {"note": "n7", "twice": 14},
    ]
    assert copy.log()[0].message == f"view 'some' of {ds.url} main@1"
    assert set(copy.row_ids).isdisjoint(ds.row_ids)
    copy.append({"note": "more", "twice": 1})
    copy.commit()
    assert len(ds) == 10


def test_images_and_types_are_taken_as_they_are(tmp_path):
    picture = np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)
    ds = tl.create(
        f"memory://saved-views-{next(_names)}",
        {
            "image": tl.Image("jpeg", nullable=True),
            "label": tl.ClassLabel(["a", "b", "c"]),
            "boxes": tl.BBox("xyxy", of="image"),
        },
    )
    ds.extend(
        {"image": [picture, None], "label": ["a", "c"], "boxes": [np.zeros((0, 4)), [[0, 0, 1, 1]]]}
    )
    ds["label"].drop_names(["b"])
    ds.alter_tensor("image", metadata={"camera": 7})
    ds.commit()

    copy = ds[[1, 0, 0]].materialize(str(tmp_path / "copy.tl"))

    assert dict(copy.schema) == dict(ds.schema)
    assert copy["image"].bytes(1) == ds["image"].bytes(0)
    assert copy[0]["image"] is None
    assert copy["label"][:].as_names() == ["c", "a", "a"]
    assert copy["image"].metadata == {"camera": 7}


def test_an_empty_view_becomes_an_empty_dataset(tmp_path):
    copy = new().query("WHERE x > 1000").materialize(str(tmp_path / "copy.tl"))

    assert len(copy) == 0
    assert list(copy.schema) == ["x", "note"]


def test_a_dataset_that_is_there_is_not_written_over(tmp_path):
    ds = new()
    path = str(tmp_path / "copy.tl")
    ds[[1]].materialize(path).close()

    with pytest.raises(tl.InvalidInputError, match="already"):
        ds[[1]].materialize(path)
    assert len(tl.open(path)) == 1


def test_a_materialization_that_was_cut_short_begins_again(tmp_path):
    ds = new()
    path = str(tmp_path / "copy.tl")
    tl.create(path, dict(ds.schema)).close()

    copy = ds[[1, 2]].materialize(path)

    assert copy["x"][:].tolist() == [1, 2]


def test_staged_rows_are_materialized_as_the_handle_sees_them(tmp_path):
    ds = new()
    ds.append({"x": 100, "note": "staged"})

    copy = ds.query("WHERE x > 8").materialize(str(tmp_path / "copy.tl"))

    assert copy["x"][:].tolist() == [9, 100]
    ds.discard()


def test_a_view_of_a_join_has_the_rows_of_each_table_also_when_it_is_saved():
    ds = new(6)
    ds.delete([1])  # rows are numbered in their version, and identified by what they were
    ds.commit("second")
    pairs = ds.query(
        "SELECT a.x AS x, b._row, b._row_id AS other FROM this AS a JOIN this AS b"
        " ON a.x = b.x - 1 AND a._row < b._row"
    )

    assert pairs["b._row"][:].tolist() == [2, 3, 4]
    assert pairs["other"][:] == list(ds.row_ids[2:])
    assert pairs.query('WHERE "b._row" > 3')["x"][:].tolist() == [4]
    within = ds.query("SELECT v._row FROM this AS a JOIN $v AS v ON a._row = v._row", v=ds[[3, 2]])
    assert sorted(within["v._row"][:].tolist()) == [2, 3]
    pairs.save("pairs")
    assert tl.open(ds.url).views["pairs"]["b._row"][:].tolist() == [2, 3, 4]
