"""Upserts that others' commits came before: each key has one row, whatever the order (D3)."""

import random

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.write.upsert import Upserted
from tensorlake.errors import ConflictError
from tensorlake.reading import ChunkCache
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore
from tensorlake.versions import resolve
from tests.support.handles import create_on, open_on, reopened, rows_of, wait_for_storage

NULLABLE = tl.Scalar("int64", nullable=True)


def by_id(dataset: Dataset) -> dict[int, int | None]:
    """The values of each key, each of which has one row."""
    ids = dataset["id"][:].tolist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, dataset["a"].read(null=-1).tolist(), strict=True))


@pytest.fixture
def pair() -> tuple[Dataset, Dataset]:
    """Two handles on rows 1, 2, 3: the first will be late."""
    store = MemoryStore()
    dataset = create_on(store, {"id": "int64", "a": NULLABLE, "b": NULLABLE})
    dataset.extend({"id": [1, 2, 3], "a": [10, 20, 30], "b": [0, 0, 0]})
    dataset.commit()
    return open_on(store), open_on(store)


def test_a_key_that_two_add_at_once_has_one_row_with_the_later_values(pair):
    mine, theirs = pair
    mine.upsert({"id": [7, 2], "a": [70, 21]}, on="id")
    theirs.upsert({"id": [7, 8], "a": [71, 81], "b": [5, 5]}, on="id")
    theirs.commit()

    mine.commit()

    assert by_id(reopened(mine)) == {1: 10, 2: 21, 3: 30, 7: 70, 8: 81}
    assert reopened(mine)["b"].read(null=-1).tolist() == [0, 0, 0, 5, 5]
    assert rows_of(mine) == rows_of(reopened(mine))
    assert mine.check().ok


def test_a_key_that_another_appended_is_found(pair):
    mine, theirs = pair
    mine.upsert([{"id": 7, "a": 70}], on="id")
    theirs.append({"id": 7, "a": 71, "b": 1})
    theirs.commit()

    mine.commit()

    assert by_id(reopened(mine)) == {1: 10, 2: 20, 3: 30, 7: 70}


def test_an_upsert_of_other_keys_is_sent_once(pair):
    late, theirs = pair
    store = CountingStore(session_of(late).store)
    mine = open_on(store)
    mine.upsert({"id": [7, 1], "a": [70, 11]}, on="id")
    theirs.upsert([{"id": 8, "a": 80}], on="id")
    theirs.commit()
    wait_for_storage()
    store.reset()

    mine.commit()
    wait_for_storage()

    assert by_id(reopened(mine)) == {1: 11, 2: 20, 3: 30, 7: 70, 8: 80}
    puts = [one for one in store.requests if one.call == "put_if_absent"]
    assert len(puts) == 3  # the pack, the number that was taken, the next
    assert mine.check().ok


def test_a_race_is_decided_by_what_came_since_however_large_the_dataset_is():
    store = CountingStore(MemoryStore())
    create_on(store, {"id": "int64", "a": NULLABLE}).commit()
    theirs = open_on(store)
    ids = np.random.default_rng(0).permutation(200_000) << 20  # as many bytes as they look
    theirs.extend({"id": ids, "a": [None] * len(ids)})
    theirs.commit()
    mine = Dataset(Session(store, runtime.run(resolve(store, None)), chunks=ChunkCache(1)))
    mine.upsert({"id": [7], "a": [70]}, on="id")
    theirs.upsert({"id": [7, 8], "a": [71, 81]}, on="id")
    theirs.commit()
    wait_for_storage()
    store.reset()

    mine.commit()

    assert store.bytes_read < 100_000
    last = reopened(mine)
    assert len(last) == len(ids) + 2
    assert last["a"].read(null=-1)[[-2, -1]].tolist() == [70, 81]


def test_a_row_that_got_another_key_keeps_its_values_and_the_key_gets_a_new_row(pair):
    mine, theirs = pair
    mine.upsert({"id": [1, 2], "a": [11, 21]}, on="id")
    theirs["id"][0] = 9
    theirs.commit()

    mine.commit()

    assert by_id(reopened(mine)) == {9: 10, 2: 21, 3: 30, 1: 11}
    assert reopened(mine)["b"].read(null=-1).tolist() == [0, 0, 0, -1]


def test_a_row_that_was_given_the_new_key_gets_the_values(pair):
    mine, theirs = pair
    mine.upsert([{"id": 7, "a": 70}], on="id")
    theirs["id"][2] = 7
    theirs.commit()

    mine.commit()

    assert by_id(reopened(mine)) == {1: 10, 2: 20, 7: 70}


def test_two_keys_that_changed_places_are_followed(pair):
    mine, theirs = pair
    mine.upsert({"id": [1, 2], "a": [11, 21]}, on="id")
    theirs["id"][[0, 1]] = [2, 1]
    theirs.commit()

    mine.commit()

    assert reopened(mine)["id"][:].tolist() == [2, 1, 3]
    assert by_id(reopened(mine)) == {2: 21, 1: 11, 3: 30}


def test_a_row_that_was_deleted_is_a_conflict_as_of_any_update(pair):
    mine, theirs = pair
    mine.upsert([{"id": 2, "a": 21}], on="id")
    theirs.delete([1])
    theirs.commit()

    with pytest.raises(ConflictError, match="one deleted, the other changed"):
        mine.commit()


def test_a_cell_of_a_known_row_that_both_changed_is_a_conflict(pair):
    mine, theirs = pair
    mine.upsert({"id": [2, 7], "a": [21, 70]}, on="id")
    theirs.upsert({"id": [2, 7], "a": [22, 71]}, on="id")
    theirs.commit()

    with pytest.raises(ConflictError, match="both changed 'a' of 1 row") as caught:
        mine.commit()

    assert caught.value.rows == (1,)
    mine.discard()
    mine.refresh()
    assert mine.upsert({"id": [2, 7], "a": [21, 70]}, on="id") == Upserted(updated=2, appended=0)


def test_a_key_that_others_gave_to_several_rows_is_a_conflict_and_all_stays_staged(pair):
    mine, theirs = pair
    mine.upsert([{"id": 7, "a": 70}], on="id")
    theirs.extend({"id": [7, 7], "a": [1, 2], "b": [0, 0]})
    theirs.commit()

    with pytest.raises(ConflictError, match=r"a key of an upsert \(id = 7\) has several rows"):
        mine.commit()

    assert mine.version == "main@1"
    assert by_id(mine) == {1: 10, 2: 20, 3: 30, 7: 70}
    theirs.delete([4])
    theirs.commit()
    mine.commit()
    assert by_id(reopened(mine)) == {1: 10, 2: 20, 3: 30, 7: 70}


def test_changes_staged_beside_an_upsert_go_along(pair):
    mine, theirs = pair
    mine["b"][2] = 5
    mine.upsert({"id": [7, 2], "a": [70, 21]}, on="id")
    mine.upsert({"id": [7], "b": [77]}, on="id")
    mine.append({"id": 20, "a": 200, "b": 0})
    mine.delete([0])
    theirs.upsert({"id": [6, 7], "a": [61, 71], "b": [1, 1]}, on="id")
    theirs.commit()

    mine.commit()

    last = reopened(mine)
    assert by_id(last) == {2: 21, 3: 30, 6: 61, 7: 70, 20: 200}
    assert dict(zip(last["id"][:].tolist(), last["b"].read(null=-1).tolist(), strict=True)) == {
        2: 0,
        3: 5,
        6: 1,
        7: 77,
        20: 0,
    }
    assert last.check().ok


@pytest.mark.parametrize(("policy", "value"), [("error", 70), ("ours", 70), ("theirs", 71)])
def test_refresh_that_keeps_an_upsert_matches_its_keys_again(pair, policy, value):
    mine, theirs = pair
    mine.upsert({"id": [7, 9], "a": [70, 90]}, on="id")
    theirs.upsert([{"id": 7, "a": 71}], on="id")
    theirs.commit()

    mine.refresh(keep_staged=True, on_conflict=policy)

    assert by_id(mine) == {1: 10, 2: 20, 3: 30, 7: value, 9: 90}
    theirs.upsert({"id": [9], "a": [91]}, on="id")  # again, after the staged rows moved
    theirs.commit()
    mine.commit()
    assert by_id(reopened(mine)) == {1: 10, 2: 20, 3: 30, 7: value, 9: 90}


def test_columns_that_a_transaction_says_it_read_conflict_all_the_same(pair):
    mine, theirs = pair
    theirs.upsert([{"id": 7, "a": 71}], on="id")
    theirs.commit()

    with (
        pytest.raises(ConflictError, match="'id', which this transaction read, was changed"),
        mine.transaction("one row", reads=["id"]),
    ):
        mine.upsert([{"id": 7, "a": 70}], on="id")

    mine.discard()
    mine.refresh()
    with mine.transaction("one row", reads=["b"]):
        mine.upsert([{"id": 7, "a": 70}], on="id")
    assert by_id(reopened(mine)) == {1: 10, 2: 20, 3: 30, 7: 70}


def test_keys_are_followed_where_rows_were_reordered_meanwhile(pair):
    mine, theirs = pair
    mine.upsert({"id": [7, 2, 1], "a": [70, 21, 11]}, on="id")
    theirs.upsert([{"id": 7, "a": 71}], on="id")
    theirs["id"][0] = 9
    theirs.commit()
    theirs.optimize(order_by="a DESC")

    mine.commit()

    last = reopened(mine)
    assert last["id"][:4].tolist() == [7, 3, 2, 9]
    assert by_id(last) == {7: 70, 3: 30, 2: 21, 9: 10, 1: 11}
    assert last.check().ok


def test_keys_of_several_columns_and_of_text_are_matched_again():
    store = MemoryStore()
    create_on(store, {"site": "str", "n": "int64", "label": tl.ClassLabel(["cat"])}).commit()
    mine, theirs = open_on(store), open_on(store)
    mine.upsert({"site": ["a", "a"], "n": [1, 2], "label": ["cat"] * 2}, on=["site", "n"])
    theirs["label"].add_names(["dog"])
    theirs.upsert({"site": ["b", "a"], "n": [1, 2], "label": ["dog"] * 2}, on=["site", "n"])
    theirs.commit()

    mine.commit()

    shown = [(row["site"], row["n"], row["label"]) for row in rows_of(reopened(mine))]
    assert shown == [("b", 1, 1), ("a", 2, 0), ("a", 1, 0)]


def test_a_key_whose_type_changed_meanwhile_is_a_conflict():
    store = MemoryStore()
    dataset = create_on(store, {"id": "int32", "a": NULLABLE})
    dataset.extend({"id": [1], "a": [1]})
    dataset.commit()
    mine, theirs = open_on(store), open_on(store)
    mine.upsert({"id": [1, 2], "a": [11, 21]}, on="id")
    theirs.alter_tensor("id", dtype="int64")
    theirs.commit()

    with pytest.raises(ConflictError, match="'id', which this transaction read, was changed"):
        mine.commit()


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))]
)
def test_upserts_in_any_order_leave_what_one_after_the_other_would(seed):
    """Against a dictionary: rounds of handles that stage at once and commit in some order."""
    rng = random.Random(seed)
    store = MemoryStore()
    create_on(store, {"id": "int64", "a": NULLABLE, "b": NULLABLE}).commit()
    model: dict[int, dict[str, int]] = {}
    for round_number in range(8):
        handles = [open_on(store) for _ in range(3)]
        free = sorted({*range(10 * round_number, 10 * round_number + 6)} - model.keys())
        known = [*model]
        rng.shuffle(known)
        asked = []
        for number, handle in enumerate(handles):
            keys = rng.sample(free, rng.randint(0, 4)) + known[number::3][: rng.randint(1, 3)]
            names = rng.choice((["a"], ["b"], ["a", "b"]))
            values = dict.fromkeys(keys, round_number * 100 + number * 10)
            if keys:
                rows = {name: [values[key] for key in keys] for name in names}
                handle.upsert({"id": keys, **rows}, on="id")
            asked.append((values, names))
        for number in rng.sample(range(3), 3):
            handles[number].commit()
            values, names = asked[number]
            for key, value in values.items():
                model.setdefault(key, {"a": -1, "b": -1}).update(dict.fromkeys(names, value))

    last = open_on(store)
    ids = last["id"][:].tolist()
    assert len(ids) == len(model)
    found = zip(ids, last["a"].read(null=-1).tolist(), last["b"].read(null=-1), strict=True)
    assert {key: {"a": a, "b": int(b)} for key, a, b in found} == model
    assert last.check().ok


def test_values_of_every_layout_go_to_the_row_that_has_the_key():
    store = MemoryStore()
    schema = {
        "id": "str",
        "text": "str",
        "doc": tl.Json(),
        "shape": tl.Array("float32", (None, 2)),
        "image": tl.Image(),
        "big": tl.Array("uint8", (300, 300)),
    }
    create_on(store, schema).commit()
    mine, theirs = open_on(store), open_on(store)

    def row(key: str, number: int) -> dict[str, object]:
        return {
            "id": key,
            "text": f"{key} {number}",
            "doc": {"number": number},
            "shape": np.full((number, 2), number, np.float32),
            "image": np.full((4 + number, 4, 3), number, np.uint8),
            "big": np.full((300, 300), number, np.uint8),
        }

    mine.upsert([row("a", 1), row("b", 2), row("c", 3)], on="id")
    theirs.upsert([row("c", 4), row("a", 5)], on="id")
    theirs.commit()
    mine.commit()

    last = reopened(mine)
    for found, expected in zip(last, [row("c", 3), row("a", 1), row("b", 2)], strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    assert last.check().ok


def test_a_refresh_that_an_upsert_conflicts_with_moves_nothing(pair):
    """Or the next commit would no longer compare the keys with what it conflicts with."""
    mine, theirs = pair
    mine.upsert({"id": [7], "a": [70]}, on="id")
    theirs.extend({"id": [7, 7], "a": [71, 72], "b": [1, 1]})
    theirs.commit()

    with pytest.raises(ConflictError):
        mine.refresh(keep_staged=True)

    assert mine.version == "main@1"
    assert mine["id"][:].tolist() == [1, 2, 3, 7]
    with pytest.raises(ConflictError):
        mine.commit()
    assert reopened(mine)["a"].read(null=-1).tolist() == [10, 20, 30, 71, 72]
