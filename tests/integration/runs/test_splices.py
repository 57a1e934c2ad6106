"""Runs whose rows changed on the way: replayed, resumed, asked backwards."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import VersionNotFoundError


@pytest.fixture
def lake(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"x": "int64", "label": "int64"})
    ds.extend({"x": np.arange(60), "label": np.arange(60) % 5})
    ds.commit("sixty")
    return ds


@pytest.fixture
def trained(lake):
    """Train on two versions and without some rows; return the batches and two states."""
    seen, states = [], []
    with lake.run("r") as run:
        loader = run.loader(batch_size=8, shuffle=True, seed=1)

        def train(batches):
            for number, batch in enumerate(loader):
                seen.append({name: array.copy() for name, array in batch.items()})
                run.log(loss=1.0)
                if number + 1 == batches:
                    break

        train(3)
        lake.delete(lake["x"] < 10)
        lake.extend({"x": np.arange(100, 106), "label": np.zeros(6, np.int64)})
        lake.commit("edited")
        loader.advance(lake.version)
        train(2)
        run.skip(lake.query("WHERE label = 3"))
        states.append(loader.state_dict())
        train(None)
        states.append(loader.state_dict())
        train(None)
    return lake, seen, states


@pytest.mark.slow
def test_every_batch_is_made_again(trained):
    lake, seen, _ = trained
    run = lake.runs["r"]

    for step, was in enumerate(seen):
        batch = run.batch(step)
        assert batch["x"].tolist() == was["x"].tolist()
        assert run.rows_at(step).tolist() == was["_row"].tolist()
    assert not any((was["label"] == 3).any() for was in seen[5:])
    assert not any((was["x"] < 10).any() for was in seen[3:])


def test_steps_of_a_row_follow_it_through_versions(trained):
    lake, seen, _ = trained
    run = lake.runs["r"]

    steps_of = [[step for step, was in enumerate(seen) if x in was["x"]] for x in range(60)]
    assert run.steps_of(np.arange(60)) == steps_of
    assert [run.steps_of(x) for x in (3, 13, 44)] == [steps_of[x] for x in (3, 13, 44)]
    assert run.steps_of([]) == []
    with pytest.raises(tl.InvalidInputError, match="row 60 is not one of"):
        run.steps_of([1, 60])
    for low, high in ((2, 4), (6, 6), (0, 99), (9, 1)):  # of rows that another query takes
        found = lake.query(
            "WHERE label = 0 AND STEP('r', epoch => 0) BETWEEN $a AND $b", a=low, b=high
        )
        same = "STEP('r', epoch => 0) >= $a AND label = 0 AND STEP('r', epoch => 0) < $b"
        assert lake.query(f"WHERE {same}", a=low, b=high + 1).rows.tolist() == found.rows.tolist()
        same = "STEP('r', epoch => 0) > $a AND label = 0 AND STEP('r', epoch => 0) <= $b"
        assert lake.query(f"WHERE {same}", a=low - 1, b=high).rows.tolist() == found.rows.tolist()
        own = [
            x for x, steps in enumerate(steps_of) if any(low <= step <= high for step in steps[:1])
        ]
        kept = [x for x in own if x >= 10 and x % 5 == 0]
        assert [x for x in found["x"][:] if x < 100] == kept
    found = lake.query("SELECT x, STEPS('r') AS steps WHERE x IN (13, 44, 102)")
    for x, steps in zip(found["x"], found["steps"], strict=True):
        assert steps.tolist() == [step for step, was in enumerate(seen) if x in was["x"]]


@pytest.mark.parametrize("which", [0, 1])
def test_a_resumed_run_goes_on_where_the_state_was(trained, which):
    lake, seen, states = trained

    with lake.run("r") as run:
        loader = run.loader(batch_size=8, shuffle=True, seed=1)
        loader.load_state_dict(states[which])
        made = []
        while loader.epoch < 2:
            for batch in loader:
                made.append(batch["x"].tolist())
                run.log(loss=2.0)

    assert made == [was["x"].tolist() for was in seen[len(seen) - len(made) :]]
    assert lake.runs["r"].steps.column("step").to_pylist() == list(range(len(seen)))


def test_a_splice_made_again_after_a_resume_replaces_the_steps_after_it(lake):
    with lake.run("again") as run:
        loader = run.loader(batch_size=10, shuffle=True, seed=1)
        next(iter(loader))
        state = loader.state_dict()
        run.skip(lake.query("WHERE label = 1"))
        assert len(list(loader)) > 3

    with lake.run("again") as run:
        loader = run.loader(batch_size=10, shuffle=True, seed=1)
        loader.load_state_dict(state)
        run.skip(lake.query("WHERE label = 2"))
        rest = list(loader)

    again = lake.runs["again"]
    assert again.steps.column("step").to_pylist()[-1] == len(rest)
    assert [again.batch(1 + number)["x"].tolist() for number in range(len(rest))] == [
        batch["x"].tolist() for batch in rest
    ]
    assert not (lake.runs["again"].batch(3)["label"] == 2).any()


def test_what_cannot_be_skipped_is_refused(lake, tmp_path):
    other = tl.create(tmp_path / "other.tl", {"x": "int64"})
    other.extend({"x": [1, 2]})
    other.commit("two")
    with lake.run("refused") as run:
        with pytest.raises(tl.InvalidInputError, match="the run has no loader"):
            run.skip(lake.query("WHERE x = 1"))
        loader = run.loader(batch_size=10)
        with pytest.raises(tl.InvalidInputError, match="got rows of"):
            run.skip(other.query("WHERE x = 1"))
        with pytest.raises(tl.InvalidInputError, match="without rows"):
            run.skip(lake.query("WHERE x < 0"))
        passed = iter(loader)
        next(passed)
        with pytest.raises(tl.InvalidStateError, match="an iterator that is not finished"):
            run.skip(lake.query("WHERE x = 1"))
        with pytest.raises(tl.InvalidStateError, match="an iterator that is not finished"):
            loader.advance(lake.version)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"weights": "x"}, "rows that weights= draws may come again"),
        ({"weights": {"label": "balanced"}}, "rows that weights= draws may come again"),
    ],
)
def test_orders_without_a_rest_are_refused(lake, arguments, match):
    loader = lake.loader(batch_size=10, **arguments)

    with pytest.raises(tl.InvalidInputError, match=match):
        loader.advance(lake.version)


def test_advance_refuses_what_it_cannot_read(lake):
    loader = lake.loader(batch_size=10, shuffle=True, seed=1)
    first = next(iter(loader))

    for given, match in (
        ({}, "neither a version nor a condition"),
        ({"version": 3}, "version is a string"),
        ({"where": ["x"]}, "where is a string"),
        ({"mix": lake}, "is for the loader of a mix"),
    ):
        with pytest.raises(tl.InvalidInputError, match=match):
            loader.advance(**given)
    with pytest.raises(tl.QueryError):
        loader.advance(where="nothing = 1")
    with pytest.raises(tl.VersionNotFoundError):
        loader.advance("main@99")

    loader.advance(where="x != 5")  # as if it had not been asked before
    rest = np.concatenate([batch["x"] for batch in loader])
    assert {*first["x"].tolist(), *rest.tolist()} >= set(range(60)) - {5}


def test_a_deleted_list_of_rows_is_named(trained):
    lake, _, states = trained
    lake.runs.delete("r")

    with pytest.raises(tl.CorruptionError, match="the run that left them out was deleted"):
        tl.loader_from_state(states[0], batch_size=8)


def test_torch_workers_refuse_and_persistent_ones_follow(lake):
    torch = pytest.importorskip("torch")
    loader = lake.torch(batch_size=10, shuffle=True, seed=1)
    first = next(iter(loader))
    loader.advance(where="label != 3")

    rest = [
        batch["x"] for batch in torch.utils.data.DataLoader(loader, batch_size=None, num_workers=2)
    ]

    given = torch.cat([first["x"], *rest]).tolist()
    assert len(given) == len(set(given))
    assert not (torch.cat(rest) % 5 == 3).any()
    with pytest.raises(tl.InvalidStateError, match="workers of a DataLoader"):
        loader.advance(where="label != 2")


def test_rows_that_come_back_are_not_given_again(lake):
    loader = lake.loader(batch_size=10, shuffle=True, seed=1)
    first = next(iter(loader))["x"].tolist()
    loader.advance(where="label <= 2")
    second = next(iter(loader))["x"].tolist()
    loader.advance(where="")

    rest = [x for batch in loader for x in batch["x"].tolist()]

    assert sorted([*first, *second, *rest]) == list(range(60))


def test_passes_after_a_splice_are_those_of_a_new_loader(lake):
    loader = lake.loader(batch_size=10, shuffle=True, seed=1, repeat=3)
    next(iter(loader))
    loader.advance(where="label != 3")

    rest = np.concatenate([batch["x"] for batch in loader])
    new = lake.query("WHERE label != 3").loader(batch_size=10, shuffle=True, seed=1, repeat=3)
    passes = np.concatenate([batch["x"] for batch in new]).reshape(3, 48)

    assert rest[-96:].tolist() == passes[1:].ravel().tolist()


def test_a_refused_change_loses_no_rows_of_the_epoch():
    ds = tl.create("memory://refused-change", {"x": "int64"})
    ds.extend({"x": range(100)})
    ds.commit("hundred")
    loader = ds.loader(batch_size=10, shuffle=True)
    seen = next(iter(loader))["x"].tolist()

    with pytest.raises(VersionNotFoundError):
        loader.advance("main@9")

    seen += [x for batch in loader for x in batch["x"].tolist()]
    assert sorted(seen) == list(range(100))
