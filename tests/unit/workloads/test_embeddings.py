"""tl.embeddings.Table: training through it equals training on an array, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

ROWS = 50


def weights():
    return np.random.default_rng(1).normal(size=(ROWS, 3)).astype("float32")


def made(url, **tensors):
    schema = {name: tl.Array("float32", values.shape[1:]) for name, values in tensors.items()}
    ds = tl.create(url, schema)
    ds.extend(tensors)
    ds.commit("first")
    return ds


@pytest.fixture
def ds(tmp_path):
    with made(str(tmp_path / "w.tl"), w=weights()) as dataset:
        yield dataset
        dataset.discard()


def batches_of(count, size, seed=0):
    random = np.random.default_rng(seed)
    return [{"cats": random.zipf(1.3, size) % ROWS} for _ in range(count)]


def table_of(ds, batches=(), **options):
    return tl.embeddings.Table(ds, "w", ids=lambda one: one["cats"], lookahead=batches, **options)


def step(rows, ids):
    """A step whose result depends on the order of steps."""
    return rows * np.float32(0.9) + np.sin(rows * ids[:, None], dtype="float32")


@given(
    st.lists(st.lists(st.integers(0, ROWS - 1), max_size=6), max_size=8),
    st.integers(0, ROWS),
    st.integers(3, 20),
)
@settings(max_examples=10, deadline=None)
def test_training_equals_that_on_an_array(trace, capacity, staged):
    batches = [{"cats": np.array(ids, np.int64).reshape(-1, 1)} for ids in trace]
    expected = weights()
    from tensorlake.workloads import embeddings

    url = "memory://table-property"
    before, embeddings.STAGED_ROWS = embeddings.STAGED_ROWS, staged
    try:
        with made(url, w=weights()) as ds:
            table = table_of(ds, batches, capacity=capacity)
            for batch in table.batches():
                ids = np.unique(batch["cats"])
                assert table[batch["cats"]].tobytes() == expected[batch["cats"]].tobytes()
                table[ids] = step(table[ids], ids)
                expected[ids] = step(expected[ids], ids)
                assert table[ids].tobytes() == expected[ids].tobytes()
            table.commit("trained")
            assert ds["w"][:].tobytes() == expected.tobytes()
    finally:
        embeddings.STAGED_ROWS = before
        tl.delete(url, confirm=url)


def test_two_epochs_with_a_commit_in_each_and_the_state_of_an_optimizer(tmp_path):
    zeros = np.zeros((ROWS, 3), "float32")
    sizes = {"w": weights(), "w.m": zeros, "w.v": zeros[:, 0]}
    expected = {name: values.copy() for name, values in sizes.items()}
    batches = batches_of(40, 8)
    with made(str(tmp_path / "adam.tl"), **sizes) as ds:
        table = table_of(ds, batches, capacity=9, state=["w.m", "w.v"])
        for epoch in range(2):
            for number, batch in enumerate(table.batches()):
                ids = np.unique(batch["cats"])
                w, m, v = table[ids]
                m = m * np.float32(0.9) + w
                v = v + m.sum(axis=1)
                table[ids] = w - m / (np.abs(v)[:, None] + 1), m, v
                w, m, v = (expected[name] for name in sizes)
                m[ids] = m[ids] * np.float32(0.9) + w[ids]
                v[ids] = v[ids] + m[ids].sum(axis=1)
                w[ids] = w[ids] - m[ids] / (np.abs(v[ids])[:, None] + 1)
                if number == 20:
                    table.commit(f"within epoch {epoch}")
            table.commit(f"epoch {epoch}")
        for name, values in expected.items():
            assert ds[name][:].tobytes() == values.tobytes(), name
        assert len(ds.log()) == 6
        changed = len(ds.diff("main@3", "main@4").updated)
        assert 0 < changed < ROWS


def test_coming_batches_are_fetched_together_and_each_row_once_while_it_is_kept(ds):
    batches = batches_of(32, 8)
    table = table_of(ds, batches, capacity=ROWS)

    for batch in table.batches():
        assert (table[batch["cats"]] == weights()[batch["cats"]]).all()

    used = len(np.unique(np.concatenate([batch["cats"] for batch in batches])))
    assert table.stats()["fetched"] == used
    assert table.stats()["requests"] <= 3
    assert table.stats()["written"] == 0


def test_rows_of_coming_batches_are_read_while_a_batch_is_at_hand(ds):
    batches = batches_of(32, 8)
    table = table_of(ds, batches, capacity=ROWS)

    reading = table.batches()
    next(reading)
    reading.close()  # ends when the other thread has

    used = len(np.unique(np.concatenate([batch["cats"] for batch in batches])))
    assert table.stats()["requests"] == 2
    assert table.stats()["fetched"] == used > len(np.unique(batches[0]["cats"]))


def test_without_a_loader_rows_are_read_and_changed_on_demand(ds):
    table = table_of(ds, capacity=2)

    table[[3, 4, 5]] = np.ones((3, 3))
    table[[5, 6]] = np.full((2, 3), 2.0)

    assert table[[[3], [5]]].tolist() == [[[1, 1, 1]], [[2, 2, 2]]]
    table.commit("by hand")
    expected = weights()
    expected[3:5], expected[5:7] = 1, 2
    assert (ds["w"][:] == expected).all()


def test_the_state_is_that_after_the_batch_at_hand(ds):
    loader = ds.loader(batch_size=5, shuffle=True, seed=2, columns=["_row"])
    table = tl.embeddings.Table(ds, "w", ids=lambda one: one["_row"], lookahead=loader, capacity=9)
    seen = []
    for number, batch in enumerate(table.batches()):
        seen.append(batch["_row"].tolist())
        if number == 3:
            state = table.state_dict()

    rest = ds.loader(batch_size=5, shuffle=True, seed=2, columns=["_row"])
    rest.load_state_dict(state)
    assert [batch["_row"].tolist() for batch in rest] == seen[4:]


def test_a_loop_that_is_left_loses_no_change(ds):
    table = table_of(ds, batches_of(9, 6), capacity=4)
    expected = weights()
    for number, batch in enumerate(table.batches()):
        ids = np.unique(batch["cats"])
        table[ids] = step(table[ids], ids)
        expected[ids] = step(expected[ids], ids)
        if number == 4:
            break
    table.commit("half")

    assert ds["w"][:].tobytes() == expected.tobytes()
    assert (table[np.arange(ROWS)] == expected).all()


def test_another_writer_of_the_same_rows_is_a_conflict(ds):
    table = table_of(ds)
    table[[1]] = np.zeros((1, 3))
    with tl.open(ds.url) as other:
        other["w"][1] = [9, 9, 9]
        other.commit("theirs")

    with pytest.raises(tl.ConflictError):
        table.commit("ours")


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t[[ROWS]], tl.RowNotFoundError, "no row 50"),
        (lambda t: t[[-1]], tl.RowNotFoundError, "no row -1"),
        (lambda t: t[[0.5]], tl.InvalidInputError, "integers"),
        (lambda t: t.__setitem__([1, 1], np.ones((2, 3))), tl.InvalidInputError, "twice"),
        (lambda t: t.__setitem__([1, 2], np.ones((3, 3))), tl.ShapeMismatchError, r"\(2, 3\)"),
        (lambda t: t.__setitem__([1], np.ones((1, 3), complex)), tl.DTypeMismatchError, "complex"),
        (lambda t: t.state_dict(), tl.InvalidStateError, "no state"),
    ],
)
def test_wrong_ids_and_values_are_refused_and_change_nothing(ds, call, error, words):
    table = table_of(ds)
    with pytest.raises(error, match=words):
        call(table)
    assert table.commit("nothing").version == "main@1"


def test_ids_of_another_batch_are_refused(ds):
    table = table_of(ds, [{"cats": np.array([1])}])
    for _ in table.batches():
        with pytest.raises(tl.RowNotFoundError, match="not of this batch"):
            table[[2]]
    with pytest.raises(tl.RowNotFoundError, match="no row 99"):
        list(table_of(ds, [{"cats": np.array([99])}]).batches())


def test_tensors_that_make_no_table_are_refused(tmp_path):
    schema = {
        "w": tl.Array("float32", (2,)),
        "d": tl.Array("float64", (2,)),
        "r": tl.Array("float32", (None,)),
        "n": tl.Array("float32", (2,), nullable=True),
        "s": "str",
    }
    with tl.create(str(tmp_path / "t.tl"), schema) as ds:
        for name in "rns":
            with pytest.raises(tl.SchemaError, match=f"'{name}' is"):
                tl.embeddings.Table(ds, name, ids=len)
        with pytest.raises(tl.SchemaError, match="one dtype"):
            tl.embeddings.Table(ds, "w", ids=len, state=["d"])
        for state in ("d", ["w"], ["d", "d"]):
            with pytest.raises(tl.InvalidInputError, match="each once"):
                tl.embeddings.Table(ds, "w", ids=len, state=state)
        with pytest.raises(tl.InvalidInputError, match="not a loader"):
            tl.embeddings.Table(ds, "w", ids=len, lookahead=5)  # pyright: ignore[reportArgumentType] - on purpose
        with pytest.raises(tl.TensorNotFoundError):
            tl.embeddings.Table(ds, "x", ids=len)
        with pytest.raises(tl.InvalidInputError, match="got View"):
            tl.embeddings.Table(ds[["w"]], "w", ids=len)  # pyright: ignore[reportArgumentType] - on purpose


def test_rows_of_another_trainer_are_read_again_after_a_commit_that_combined_them(ds):
    other = tl.open(ds.url)
    mine, theirs = table_of(ds, capacity=10), table_of(other, capacity=10)
    expected = weights()
    mine[[1]]
    mine[[2]] = np.ones((1, 3), "float32")
    theirs[[1]] = theirs[[1]] + 100
    theirs.commit("1")

    mine.commit("2, combined with the other commit")
    mine[[1]] = mine[[1]] + 1
    mine.commit("1 again")

    expected[1] = expected[1] + 100 + 1
    expected[2] = 1
    assert np.array_equal(tl.open(ds.url)["w"][:], expected)


@pytest.mark.parametrize("capacity", [0, 1, 10])
@pytest.mark.parametrize("how", ["by hand", "refresh", "discard"])
def test_a_change_beside_the_table_is_read(ds, how, capacity):
    table = table_of(ds, capacity=capacity)
    table[[1, 2]]
    if how == "refresh":
        other = tl.open(ds.url)
        other["w"][1] = np.full(3, 9, "float32")
        other.commit("9")
        ds.refresh()
    else:
        ds["w"][1] = np.full(3, 9, "float32")
    expected = np.full(3, 9, "float32")
    if how == "discard":
        table[[1]]
        ds.discard()
        expected = weights()[1]

    table[[1]] += 1

    assert np.array_equal(table[[1]][0], expected + 1)
    table.commit("one more")
    assert np.array_equal(ds["w"][1], expected + 1)


@pytest.mark.parametrize("capacity", [0, 1, 10])
@pytest.mark.parametrize("how", ["by hand", "refresh"])
def test_a_change_of_a_changed_row_beside_the_table_is_a_conflict(ds, how, capacity):
    table = table_of(ds, capacity=capacity)
    table[[1, 2]] = np.zeros((2, 3), "float32")
    if how == "refresh":
        other = tl.open(ds.url)
        other["w"][1] = np.full(3, 9, "float32")
        other.commit("9")
        ds.refresh()
    else:
        ds["w"][1] = np.full(3, 9, "float32")

    for _ in range(2):  # and again: nothing is lost by an error
        with pytest.raises(tl.ConflictError, match="rows 1 of 'w' changed in the dataset"):
            table.commit()

    table.discard()
    expected = np.full(3, 9, "float32") if how == "refresh" else weights()[1]
    assert np.array_equal(table[[1]][0], expected)
    assert np.array_equal(table[[2]][0], weights()[2])
    assert not ds.has_changes


def test_a_change_of_another_row_beside_a_changed_one_is_kept(ds):
    table = table_of(ds, capacity=10)
    table[[1]] = np.zeros((1, 3), "float32")
    ds["w"][2] = np.full(3, 9, "float32")

    assert table[[2]].tolist() == [[9] * 3]
    table.commit("both")

    assert tl.open(ds.url)["w"][1:3].tolist() == [[0] * 3, [9] * 3]


def test_a_change_of_a_row_of_the_batch_at_hand_is_a_conflict(ds):
    table = table_of(ds, [{"cats": np.array([1, 2])}], capacity=10)
    for batch in table.batches():
        ds["w"][2] = np.full(3, 9, "float32")
        with pytest.raises(tl.ConflictError, match="rows 2 of 'w'"):
            table[batch["cats"]] = table[batch["cats"]]


def test_own_commits_keep_the_cached_rows(ds):
    table = table_of(ds, capacity=10)
    table[[1, 2]] = np.zeros((2, 3), "float32")
    table.commit("zeros")
    fetched = table.stats()["fetched"]

    table[[1, 2]] += 1

    assert table.stats()["fetched"] == fetched
    assert table[[1]].tolist() == [[1] * 3]
