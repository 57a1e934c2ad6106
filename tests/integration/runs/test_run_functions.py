"""RUN, STEP and STEPS in queries, against a log by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

ROWS = 50


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    ds = tl.create(tmp_path_factory.mktemp("lake") / "pets.tl", {"x": "int64"})
    ds.extend({"x": range(ROWS)})
    ds.commit("rows")
    seen: dict[int, list[int]] = {row: [] for row in range(ROWS)}
    losses: dict[int, list[float]] = {row: [] for row in range(ROWS)}
    with ds.run("odd") as run:
        loader = run.loader(ds.query("WHERE x % 2 = 1"), batch_size=6, shuffle=True, seed=1)
        step = 0
        for epoch in range(3):
            for batch in loader:
                loss = batch["x"] * 1.0 + epoch
                run.log(per_row={"loss": loss}, rows=batch["_row"])
                for row, value in zip(batch["_row"].tolist(), loss.tolist(), strict=True):
                    seen[row].append(step)
                    losses[row].append(value)
                step += 1
                if epoch == 2 and step % 5 == 2:
                    break
    ds.delete([1, 3])
    ds.append({"x": 99})
    ds.commit("others")
    del seen[1], seen[3], losses[1], losses[3]
    return ds, [*list(seen.values()), []], [*list(losses.values()), []]


def test_values_of_rows(lake):
    ds, _, losses = lake

    found = ds.query(
        "SELECT RUN('odd', 'loss') AS loss, RUN('odd', 'loss', 'first') AS first,"
        " RUN('odd', 'loss', 'mean') AS mean"
    )

    assert [one or None for one in found["loss"]] == [one[-1] if one else None for one in losses]
    assert list(found["first"]) == [one[0] if one else None for one in losses]
    means = [None if not one else pytest.approx(float(np.mean(one))) for one in losses]
    assert list(found["mean"]) == means
    hard = ds.query("WHERE RUN('odd', 'loss') > 40 ORDER BY RUN('odd', 'loss') DESC")
    expected = sorted(
        (row for row, one in enumerate(losses) if one and one[-1] > 40),
        key=lambda r: -losses[r][-1],
    )
    assert [losses[r][-1] for r in hard.rows.tolist()] == [losses[r][-1] for r in expected]


@pytest.mark.slow
def test_steps_of_rows(lake):
    ds, seen, _ = lake

    steps = ds.query("SELECT STEPS('odd') AS steps")["steps"]

    assert [one.tolist() for one in steps] == seen
    assert ds.query("WHERE LENGTH(STEPS('odd')) = 0").rows.tolist() == [
        row for row, one in enumerate(seen) if not one
    ]
    assert set(ds.query("WHERE STEP('odd', epoch => 0) BETWEEN 1 AND 2").rows.tolist()) == {
        row for row, one in enumerate(seen) if {1, 2} & {step for step in one if step < 5}
    }
    last_whole = ds.query("SELECT STEP('odd') AS step")["step"]  # epoch 1: the last was left
    assert list(last_whole) == [
        next((step for step in one if 5 <= step < 10), None) for one in seen
    ]


def test_a_view_of_another_version_asks_about_the_same_rows(lake):
    ds, _, _ = lake
    before = ds.at("main@1")

    found = before.query("SELECT STEPS('odd') AS steps, x")

    assert [x for x, steps in zip(found["x"], found["steps"], strict=True) if len(steps)] == [
        x for x in range(ROWS) if x % 2
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("WHERE RUN('even', 'loss') > 1", "no run 'even'"),
        ("WHERE RUN('odd', 'lss') > 1", "did you mean 'loss'"),
        ("WHERE RUN('odd', 'loss', 'best') > 1", "none of 'last'"),
        ("WHERE RUN(x, 'loss') > 1", "a constant is expected"),
        ("WHERE STEP('odd', epoch => 9) > 1", "no epoch 9"),
        ("WHERE STEP(3) > 1", "a name in quotes"),
        ("WHERE STEP('odd', epoch => 'a') > 1", "epoch is an integer"),
    ],
)
def test_wrong_calls_are_errors_of_the_query(lake, query, message):
    with pytest.raises(tl.QueryError, match=message):
        lake[0].query(query)


def test_an_epoch_must_have_been_completed(lake):
    ds, _, _ = lake
    with ds.run("short") as run:
        next(iter(run.loader(batch_size=5)))

    with pytest.raises(tl.QueryError, match="completed no epoch"):
        ds.query("WHERE STEP('short') > 1")
    assert len(ds.query("WHERE STEP('short', epoch => 0) = 0")) == 5
