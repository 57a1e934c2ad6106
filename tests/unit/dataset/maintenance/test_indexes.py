"""Indexes of a dataset: staged, committed, kept, damaged, built again."""

import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.errors import (
    ConflictError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from tensorlake.format import ColumnGroup, column_groups
from tensorlake.storage import MemoryStore, run
from tensorlake.versions import BranchLog, check_dataset, copy_dataset
from tests.support.damage import objects_of
from tests.support.garbage import Clock
from tests.support.handles import create_on, open_on

LABEL = tl.ClassLabel(["cat", "dog", "owl"])


def indexed(store=None, rows=60, columns=("label", "price")):
    dataset = create_on(store or MemoryStore(), {"label": LABEL, "price": "float32", "name": "str"})
    dataset.extend(batch(rows))
    for column in columns:
        dataset.create_index(column)
    dataset.commit("indexed")
    return dataset


def batch(rows):
    n = np.arange(rows)
    return {"label": n % 3, "price": n % 10 / 10, "name": [f"n{i % 7}" for i in n]}


@pytest.mark.parametrize("kind", [tl.Scalar("uint64"), tl.Sequence(tl.Scalar("uint64"))])
def test_a_bitmap_has_integers_beyond_int64(kind):
    is_scalar = isinstance(kind, tl.Scalar)
    condition = "u = $x" if is_scalar else "CONTAINS(u, $x)"
    dataset = create_on(MemoryStore(), {"u": kind})
    for low in (0, 2**63):  # built of small integers, then brought up to date
        values = [low + n % 97 for n in range(1_000)]
        dataset.extend({"u": values if is_scalar else [[one, one] for one in values]})
        dataset.commit("more")
        if low:
            dataset.optimize()
        else:
            dataset.create_index("u", kind="bitmap")
            dataset.commit("indexed")

    found = dataset.query(f"WHERE {condition}", x=2**63 + 5)

    assert "bitmap" in found.explain()
    assert len(found) == len(range(5, 1_000, 97))


@pytest.mark.parametrize(
    ("kind", "none", "cat"),
    [
        (tl.ClassLabel(["cat", "dog"], multi=True), [], [0]),
        (tl.ClassLabel(["cat", "dog"], nullable=True), None, 0),
        (tl.Sequence(tl.ClassLabel(["cat", "dog"])), [], [0]),
        (tl.Scalar("int64", nullable=True), None, 0),
    ],
)
@pytest.mark.parametrize("is_updated", [False, True])
def test_batches_without_any_item_shift_no_list_of_a_bitmap(kind, none, cat, is_updated):
    dog = [1] if isinstance(cat, list) else 1
    some = [cat if n % 50 == 0 else dog for n in range(6_000)]
    dataset = create_on(MemoryStore(), {"x": kind})
    dataset.extend({"x": [none] * 200_000})
    dataset.commit("labels come later")
    dataset.extend({"x": some})
    dataset.commit("labels")
    dataset.create_index("x", kind="bitmap")
    dataset.commit("indexed")
    if is_updated:
        dataset.extend({"x": [none] * 100})
        dataset["x"][[5, 200_050]] = [none, none]
        dataset.commit("changed")
        dataset.optimize()

    condition = "CONTAINS(x, 0)" if isinstance(kind, tl.Sequence) else "x = 0"
    condition = "CONTAINS(x, 'cat')" if getattr(kind, "multi", False) else condition
    found = dataset.query(f"SELECT _row WHERE {condition}")

    expected = [200_000 + n for n in range(0, 6_000, 50) if not (is_updated and n == 50)]
    assert found["_row"][:].tolist() == expected


def explained(dataset, text):
    return dataset.query(text).explain()


def test_an_index_is_published_by_the_commit_and_used_from_then_on():
    dataset = indexed(columns=())
    assert "index" not in explained(dataset, "WHERE price < 0.1")

    dataset.create_index("price")
    assert "index 'price' (btree), scans 0.0%" in explained(dataset, "WHERE price < 0.1")
    dataset.discard()
    assert dict(dataset.indexes) == {}
    dataset.create_index("price")
    dataset.commit("index")

    other = open_on(session_of(dataset).store)
    assert "finds 6 rows by index 'price'" in explained(other, "WHERE price < 0.1")
    assert other.query("WHERE price < 0.1").rows.tolist() == list(range(0, 60, 10))


@pytest.mark.parametrize(
    ("item", "values", "conditions"),
    [
        (LABEL, [0, 1, 2], ["CONTAINS(many, 'dog')", "ANY(many = 'owl')", "CONTAINS(many, 2)"]),
        ("int16", [-300, 0, 7], ["CONTAINS(many, 7)", "ANY(many < -5)"]),
        ("bool", [False, True], ["CONTAINS(many, true)"]),
    ],
    ids=["labels", "integers", "booleans"],
)
def test_items_of_a_sequence_have_a_bitmap(item, values, conditions):
    dataset = create_on(MemoryStore(), {"many": tl.Sequence(item, nullable=True)})
    random = np.random.default_rng(3)
    rows = [random.choice(values, random.integers(1, 4)).tolist() for _ in range(60)]
    rows = [None if n % 7 == 0 else row if n % 9 == 1 else [] for n, row in enumerate(rows)]
    dataset.extend({"many": rows[:50]})
    plain = [dataset.query(f"WHERE {one}").rows.tolist() for one in conditions]
    dataset.create_index("many")
    dataset.commit("indexed")

    for one, expected in zip(conditions, plain, strict=True):
        assert "index 'many' (bitmap), scans 0.0%" in explained(dataset, f"WHERE {one}")
        assert dataset.query(f"WHERE {one}").rows.tolist() == expected != []
    dataset.extend({"many": rows[50:]})
    dataset["many"][0] = rows[1]
    dataset.commit("more")
    dataset.optimize()
    scanned = [dataset.query(f"WHERE {one}").rows.tolist() for one in conditions]
    dataset.drop_index("many")
    assert scanned == [dataset.query(f"WHERE {one}").rows.tolist() for one in conditions]
    assert dataset.query("WHERE NOT CONTAINS(many, $one)", one=values[0]).count() > 40


def test_a_sequence_of_floats_or_vectors_has_no_bitmap():
    dataset = create_on(
        MemoryStore(),
        {"many": tl.Sequence("float32"), "pairs": tl.Sequence(tl.Array("int8", (2,)))},
    )
    for column in ("many", "pairs"):
        with pytest.raises(InvalidInputError, match=r"is for labels, tags, .* sequences of labels"):
            dataset.create_index(column, "bitmap")


def test_rows_staged_with_an_index_are_indexed_and_later_ones_are_scanned():
    dataset = indexed(rows=40)
    dataset.extend(batch(20))

    assert dataset.indexes["label"].coverage == pytest.approx(40 / 60)
    assert len(dataset.query("WHERE label = 'owl'")) == 13 + 6
    dataset.commit("more")

    assert dataset.indexes["label"].coverage == pytest.approx(40 / 60)
    report = dataset.optimize()
    assert report.indexes == ("label", "price")
    assert dataset.indexes["label"].coverage == 1
    assert dataset.optimize().indexes == ()


def test_one_appended_row_leaves_a_small_column_covered():
    dataset = indexed()
    for _ in range(70):  # the tail of the index spills to a page meanwhile
        dataset.append({"label": 1, "price": 0.5, "name": ""})
        dataset.commit()

    assert dataset.indexes["price"].coverage == pytest.approx(60 / 130)


def test_optimize_keeps_what_is_covered_without_building_anything():
    dataset = indexed(rows=20)
    for _ in range(5):
        dataset.extend(batch(20))
        dataset.commit()
    before = dataset.optimize().indexes
    dataset.delete(range(50))
    dataset.commit()

    assert before == ("label", "price")
    report = dataset.optimize()  # drops dead rows: chunks move, values stay
    assert report.commits == 1
    assert report.indexes == ()
    assert dataset.indexes["label"].coverage == 1
    assert dataset.query("WHERE label = 'dog'").rows.tolist() == [
        row for row, label in enumerate(dataset["label"][:].tolist()) if label == 1
    ]


def test_a_renamed_class_is_seen_and_an_added_one_changes_nothing():
    dataset = indexed()
    dataset["label"].add_names(["fox"])
    dataset.commit()
    assert dataset.indexes["label"].coverage == 1

    dataset["label"].rename("owl", "eagle")
    dataset.commit()

    assert dataset.indexes["label"].coverage == 0
    assert len(dataset.query("WHERE label = 'eagle'")) == 20


def test_an_index_goes_with_its_tensor_and_stays_when_that_is_renamed():
    dataset = indexed()
    dataset.rename_tensor("price", "cost")
    dataset.drop_tensor("label")
    assert list(dataset.indexes) == ["price"]
    dataset.commit()

    other = open_on(session_of(dataset).store)
    assert list(other.indexes) == ["price"]
    assert other.indexes["price"].column == "cost"
    assert "index 'price'" in explained(other, "WHERE cost < 0.1")


def test_a_tensor_dropped_by_another_commit_takes_a_staged_index_along():
    dataset = indexed(columns=())
    dataset.create_index("price")
    other = open_on(session_of(dataset).store)
    other.drop_tensor("price")
    other.commit()

    try:
        dataset.commit()
    except ConflictError:
        dataset.discard()
        dataset.refresh()

    assert dict(dataset.indexes) == {}
    assert dataset.check().ok


def test_an_index_staged_with_rows_stays_true_after_a_lost_race():
    dataset = indexed(columns=())
    dataset.extend(batch(10))
    dataset.create_index("price")
    other = open_on(session_of(dataset).store)
    other.extend(batch(30))
    other.commit()

    dataset.commit()

    assert len(dataset) == 100
    assert dataset.query("WHERE price < 0.1").rows.tolist() == list(range(0, 100, 10))
    # 60 rows, and 10 of the other writer's whose values are those of the rows that lost their place
    assert dataset.indexes["price"].coverage == pytest.approx(0.7)


def test_a_merge_keeps_the_indexes_of_ours_and_scans_what_it_brought():
    dataset = indexed()
    side = dataset.branch("side")
    side.extend(batch(30))
    side["price"][0] = 0.9
    side.commit()
    dataset.append({"label": 0, "price": 0, "name": ""})
    dataset.commit()

    dataset.merge("side")

    prices = dataset["price"][:]
    assert (
        dataset.query("WHERE price < 0.05").rows.tolist() == np.flatnonzero(prices < 0.05).tolist()
    )
    assert set(dataset.indexes) == {"label", "price"}


def test_a_merge_takes_indexes_of_theirs_and_says_which_it_leaves_out():
    dataset = indexed()
    side = dataset.branch("side")
    side.extend(batch(30))
    side["price"][0] = 0.9
    side.create_index("name", "btree")
    side.drop_index("price")
    side.create_index("price", "btree")
    side.drop_index("label")
    side.create_index("label")
    side.commit()
    dataset.append({"label": 0, "price": 0, "name": "n3"})
    dataset.drop_index("label")
    dataset.commit()

    foreseen = dataset.merge("side", dry_run=True)
    report = dataset.merge("side")

    assert report.indexes == foreseen.indexes
    assert set(report.indexes) == {
        "index 'price' of theirs taken; optimize() indexes the other rows",
        "index 'name' of theirs taken; optimize() indexes the other rows",
        "index 'label' of theirs left out: ours changed or dropped one of that name",
    }
    assert "index 'name' of theirs taken" in repr(report)
    assert set(dataset.indexes) == {"price", "name"}
    assert 0 < dataset.indexes["name"].coverage < 1
    names, prices = dataset["name"][:], dataset["price"][:]
    for condition, expected in (
        ("name = 'n3'", np.flatnonzero(np.array(names) == "n3")),
        ("price < 0.05", np.flatnonzero(prices < 0.05)),
    ):
        assert dataset.query(f"WHERE {condition}").rows.tolist() == expected.tolist()
    dataset.optimize()
    assert {info.coverage for info in dataset.indexes.values()} == {1.0}


def test_a_merge_of_some_tensors_leaves_the_indexes_alone():
    dataset = indexed()
    side = dataset.branch("side")
    side["price"][0] = 0.9
    side.create_index("name", "btree")
    side.commit()
    dataset.append({"label": 0, "price": 0, "name": "n3"})
    dataset.commit()

    report = dataset.merge("side", tensors=["price"])

    assert report.indexes == ()
    assert set(dataset.indexes) == {"label", "price"}


def test_names_kinds_and_options_are_checked():
    dataset = indexed()

    with pytest.raises(InvalidInputError, match="an index 'label' already"):
        dataset.create_index("label")
    with pytest.raises(InvalidInputError, match="no index of the kind 'bitmp'; did you mean"):
        dataset.create_index("label", "bitmp", name="x")
    with pytest.raises(InvalidInputError, match="is for numbers, timestamps and short texts"):
        dataset.create_index("label", "btree", name="x")
    with pytest.raises(InvalidInputError, match="has no option 'depth'"):
        dataset.create_index("name", depth=3)
    with pytest.raises(IndexNotFoundError, match=r"no index 'prices'.*did you mean 'price'"):
        dataset.drop_index("prices")
    assert not dataset.has_changes


def test_the_log_says_which_indexes_a_commit_changed():
    store = MemoryStore()
    dataset = indexed(store, columns=())
    dataset.create_index("price")
    dataset.create_index("label", name="class")
    dataset.commit("built")
    dataset.extend(batch(30))
    dataset["label"][:20] = 2
    dataset.commit("rows")
    dataset.optimize()
    dataset.drop_index("price")
    dataset.commit("dropped")

    other = open_on(store)
    commits = [one.summary() for one in other.log() if one.summary() != "no change"]
    assert commits[:4] == [
        "-index price",
        "updated index class, updated index price",
        "+30 rows, label 20 rows",
        "+index class (bitmap), +index price (btree)",
    ]
    assert other.log()[0].changes.indexes == ({"op": "drop", "name": "price", "kind": "btree"},)
    assert other.diff("main@1", "main@2").schema == (
        "+index class (bitmap)",
        "+index price (btree)",
    )
    updated = next(one.version for one in other.log() if "updated" in one.summary())
    assert not other.diff("main@3", updated)
    assert " -index price" in repr(other.diff("main@2", other.version)).splitlines()


def test_ten_indexes_spill_to_a_page():
    dataset = indexed(columns=())
    for number in range(10):
        dataset.create_index("price", name=f"price {number}")
    dataset.commit()
    other = open_on(session_of(dataset).store)

    assert (
        "indexes" in session_of(other).head.spilled
        or len(json.dumps(dict(session_of(other).head.indexes))) <= 16 * 1024
    )
    assert len(other.indexes) == 10
    assert other.check().ok


@pytest.mark.slow
def test_a_collector_keeps_the_pages_of_a_state_and_not_its_chunks():
    clock = Clock()
    store = MemoryStore(clock=clock)
    dataset = indexed(store, rows=3000)
    for row in range(0, 200, 2):  # the state's extents spill to a page
        dataset["price"][row] = 5
        dataset.commit()
    dataset.optimize()
    dataset["price"][:] = np.zeros(3000, np.float32)
    dataset.commit()
    dataset.expire(keep_last=1)
    clock.pass_grace()
    kept = len(objects_of(store))

    open_on(store).gc()

    other = open_on(store)
    assert len(objects_of(store)) < kept
    assert other.indexes["price"].coverage == 0
    assert len(other.query("WHERE price = 0")) == 3000
    assert run(check_dataset(store, full=True)).findings == ()


def test_versions_that_share_pages_with_a_state_keep_their_chunks():
    """A page listed for a state alone must be listed again for a version that has its chunks."""
    clock = Clock()
    store = MemoryStore(clock=clock)
    dataset = indexed(store, rows=3000, columns=())
    for row in range(0, 200, 2):
        dataset["price"][row] = 5
    dataset.commit()
    dataset.create_index("price")
    dataset.commit("indexed again")
    dataset.tag("whole")
    expected = dataset["price"][:].tolist()
    dataset["price"][:] = np.zeros(3000, np.float32)
    dataset.commit()
    dataset.expire(keep_last=1)
    clock.pass_grace()

    open_on(store).gc()

    assert open_on(store, "whole")["price"][:].tolist() == expected
    assert run(check_dataset(store, full=True)).findings == ()


def test_copies_and_mirrors_have_the_indexes():
    store, copied = MemoryStore(), MemoryStore()
    dataset = indexed(store)
    dataset.extend(batch(5))
    dataset.commit()

    run(copy_dataset(store, copied))

    other = open_on(copied)
    assert {name: one.coverage for name, one in other.indexes.items()} == {
        name: one.coverage for name, one in dataset.indexes.items()
    }
    assert run(check_dataset(copied, full=True)).findings == ()


def states(indexes):
    """Return indexes without what a commit notes of the cells that differ."""
    kept = json.loads(json.dumps(indexes))
    for group in kept.values():
        for covered in group["covers"].values():
            covered.pop("compared", None)
    return kept


def test_a_writer_that_does_not_know_covers_keeps_an_index_that_answers_rightly():
    """As 0.1 does: it repeats the member unread, and refuses to collect."""
    store = MemoryStore()
    dataset = indexed(store)
    entry = session_of(dataset).head
    unread = {
        name: ColumnGroup.from_json(
            {("later" if key == "covers" else key): value for key, value in group.items()},
            where="x",
        )
        for name, group in entry.indexes.items()
    }
    for name, group in unread.items():
        with pytest.raises(UnsupportedFeatureError, match="later"):
            group.check_known(name)
        assert {("covers" if key == "later" else key) for key in group.to_json()} == set(
            entry.indexes[name]
        )
    dataset["price"][0] = 7
    dataset.commit()

    head = run(BranchLog(store, "main").head())
    before, after = (states(one.indexes) for one in (entry, head))
    assert after == before  # repeated as it was: the state is older than the change
    assert dataset.query("WHERE price = 7").rows.tolist() == [0]
    assert dataset.query("WHERE price = 0").rows.tolist() == [10, 20, 30, 40, 50]
    assert set(column_groups(head.indexes, where="x")) == {"index/label", "index/price"}


def test_an_error_while_an_index_is_built_leaves_nothing_staged():
    dataset = create_on(MemoryStore(), {"text": "str"})
    dataset.extend({"text": ["a", "b" * 5000]})
    dataset.commit()

    with pytest.raises(InvalidInputError, match="texts of up to 5,000 bytes"):
        dataset.create_index("text")

    assert not dataset.has_changes
    assert dict(dataset.indexes) == {}
