"""A loader made again from its state alone (loader.md, rule 2)."""

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl

_names = itertools.count()


def new(rows: int = 10):
    ds = tl.create(f"memory://resuming-{next(_names)}", {"x": "int64"})
    ds.extend({"x": np.arange(rows)})
    ds.commit("first")
    return ds


def stopped(loader, batches: int) -> tuple[list[int], dict]:
    """The first batches, and the state after them."""
    running = iter(loader)
    seen = [next(running)["x"].tolist() for _ in range(batches)]
    state = loader.state_dict()
    running.close()
    return list(itertools.chain.from_iterable(seen)), state


@pytest.mark.parametrize(
    "rows",
    [
        lambda ds: ds,
        lambda ds: ds.query("WHERE x >= $low", low=5),
        lambda ds: ds.query("WHERE x >= 5")[["x"]],
        lambda ds: ds[ds["x"] >= 5],
        lambda ds: ds.take(8),
        lambda ds: ds.query("WHERE x >= 5 ORDER BY x DESC").take(8),
        lambda ds: ds.where("x >= 2").take(12)[ds["x"].isin([3, 5, 7, 9, 11])][["x"]],
        lambda ds: ds.select("x", half="x / 2").take(9),
        lambda ds: ds[[7, 3, 1, 9, 2, 8]].save("hand"),
        lambda ds: ds.query("WHERE x >= 5 ORDER BY x DESC").save("large"),
    ],
    ids=[
        *("dataset", "query", "columns", "predicate", "take", "ordered take", "take predicate"),
        *("computed take", "saved", "saved query"),
    ],
)
def test_a_loader_is_made_again_from_its_state(rows):
    ds = new(20)
    view = rows(ds)
    seen, state = stopped(view.loader(batch_size=2, shuffle=True, seed=5), 2)
    ds.delete([0, 1, 2])
    ds.commit()

    again = tl.loader_from_state(json.loads(json.dumps(state)), batch_size=3)
    rest = [x for batch in again for x in batch["x"].tolist()]

    expected = list(range(20)) if view is ds else view["x"][:].tolist()
    assert sorted(seen + rest) == sorted(expected)


def test_a_loader_of_rows_chosen_by_hand_is_not_made_again():
    ds = new()
    _, state = stopped(ds[[3, 1, 2]].loader(batch_size=1), 1)

    with pytest.raises(tl.InvalidInputError, match=r"chosen by hand") as raised:
        tl.loader_from_state(state)
    assert "view.save(name).loader(…)" in str(raised.value)


@pytest.mark.parametrize("column", ["tokens", "ids"])
def test_batches_by_tokens_are_made_again(column):
    ds = tl.create(f"memory://resuming-{next(_names)}", {column: tl.Array("uint16", (None,))})
    ds.extend({column: [[number] * (number % 4 + 1) for number in range(30)]})
    ds.commit("thirty")
    own = {"batch_size": 8, "shuffle": True, "rank": 0, "world_size": 2}
    own["drop_last"] = True
    loader = ds.loader(batch_by="tokens", balance="squares", **own)
    passed = iter(loader)
    next(passed)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [[row.tolist() for row in batch[column]] for batch in passed]

    again = tl.loader_from_state(state, batch_size=8, rank=0, world_size=2, drop_last=True)
    by_rows = tl.loader_from_state(state, batch_size=8, batch_by=None, balance=None)

    assert [[row.tolist() for row in batch[column]] for batch in again] == rest
    assert len(next(iter(by_rows))[column]) == 8


MADE = {
    "a mix": (lambda ds: tl.mix({"a": (ds, 1)}), "tl.mix(…).loader(…)"),
    "packed sequences of a view": (lambda ds: ds.pack("tokens", 4), "view.pack(…).loader(…)"),
    "packed sequences of a mix": (
        lambda ds: tl.mix({"a": (ds, 1), "b": (ds, 1)}, by="tokens").pack("tokens", 4),
        "tl.mix(…).pack(…).loader(…)",
    ),
    "windows of a view": (
        lambda ds: ds.windows(["x"], by="x", size=1),
        "view.windows(…).loader(…)",
    ),
}


@pytest.mark.parametrize("of", MADE)
def test_a_state_of_what_is_made_of_rows_names_what_makes_it(of):
    make, call = MADE[of]
    schema = {"x": "int64", "tokens": tl.Array("uint16", (None,))}
    ds = tl.create(f"memory://resuming-{next(_names)}", schema)
    ds.extend({"x": range(9), "tokens": [[1, 2, 3]] * 9})
    ds.commit("nine")
    state = make(ds).loader(batch_size=2).state_dict()

    with pytest.raises(tl.InvalidInputError) as raised:
        tl.loader_from_state(state)

    assert f"a loader of {of} has its position" in str(raised.value)
    assert call in str(raised.value)
    assert "by hand" not in str(raised.value)


@pytest.mark.parametrize("choose", [lambda ds, some: ds[some], lambda ds, some: ds.where(some)])
def test_a_predicate_that_tql_cannot_write_is_as_a_choice_by_hand(choose):
    ds = new()
    view = choose(ds, ds["x"] < float("inf"))
    _, state = stopped(view.loader(batch_size=1), 1)

    assert "source" not in state
    assert len(view) == len(ds)


def test_a_state_stays_small_whatever_the_query():
    ds = new()
    view = ds.query("WHERE x IN $some", some=list(range(1000)))
    _, state = stopped(view.loader(batch_size=1), 1)

    assert len(json.dumps(state)) < 1024
    assert "source" not in state


def test_a_saved_view_that_was_deleted_is_not_found():
    ds = new()
    _, state = stopped(ds[[3, 1, 2]].save("hand").loader(batch_size=1), 1)
    ds.delete_tag("hand")

    with pytest.raises(tl.ViewNotFoundError):
        tl.loader_from_state(state)


@pytest.mark.parametrize("stream", [lambda ds: ds, lambda ds: tl.mix({"a": (ds, 1)})])
def test_a_state_of_a_version_that_is_not_there_belongs_to_another_dataset(stream):
    longer, other = new(), new()
    longer.append({"x": 10})
    longer.commit("second")
    _, state = stopped(stream(longer).loader(batch_size=2), 1)

    with pytest.raises(tl.StateMismatchError, match=r"taken at main@2, but .* no such version"):
        stream(other).loader(batch_size=2).load_state_dict(state)


def test_what_makes_batches_is_given_anew():
    ds = new()
    _, state = stopped(ds.loader(batch_size=4), 1)

    (batch,) = tl.loader_from_state(state, batch_size=100, columns=["x"])

    assert batch["x"].tolist() == [4, 5, 6, 7, 8, 9]
    with pytest.raises(tl.errors.StateMismatchError):
        tl.loader_from_state(state, batch_size=1, shuffle=True)
