"""A run over staged changes: an index changes no row, and staged rows are named as the cause."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError


@pytest.fixture
def names(tmp_path):
    ds = tl.create(tmp_path / "names.tl", {"x": "int64", "name": "text"})
    ds.extend({"x": np.arange(30), "name": [f"n{number}" for number in range(30)]})
    ds.commit("thirty")
    return ds


def recorded(ds, name, rows=None):
    with ds.run(name) as run:
        return [batch["_row"].tolist() for batch in run.loader(rows, batch_size=10, shuffle=True)]


@pytest.mark.parametrize("of", ["dataset", "query"])
def test_a_run_beside_a_staged_index_is_replayed(names, of):
    names.create_index("name")
    rows = names.query("WHERE x >= 5") if of == "query" else None

    # a warning is an error in this suite
    seen = recorded(names, "indexed", rows)

    run = names.runs["indexed"]
    assert [run.rows_at(step).tolist() for step in range(len(seen))] == seen
    assert run.batch(1)["_row"].tolist() == seen[1]
    assert run.steps_of(7) == [next(step for step, rows in enumerate(seen) if 7 in rows)]
    assert names.trace(7).unknown == {}
    names.commit("an index")
    assert names.runs["indexed"].batch(1)["_row"].tolist() == seen[1]


STAGED = {
    "rows": lambda ds: ds.extend({"x": [30], "name": ["n30"]}),
    "a cell": lambda ds: ds["x"].__setitem__(0, 7),
    "a deletion": lambda ds: ds.delete([3]),
    "a column": lambda ds: ds.add_tensor("y", "int64", fill=0),
}


@pytest.mark.parametrize("what", STAGED)
def test_a_run_of_staged_rows_warns_and_names_the_cause_later(names, what):
    STAGED[what](names)

    with pytest.warns(tl.UncommittedChangesWarning, match="'early' reads staged changes"):
        recorded(names, "early")
    names.commit("more")

    run = names.runs["early"]
    for ask in (lambda: run.rows_at(0), lambda: run.steps_of(2), lambda: run.batch(0)):
        with pytest.raises(InvalidInputError, match="read staged changes"):
            ask()
    with pytest.raises(InvalidInputError, match="read staged changes"):
        run.of(names).batch(0)
    assert "read staged changes" in names.trace(2).unknown["early"]


GIVEN = {
    "mix": lambda ds: tl.mix(
        {"low": (ds.query("WHERE x < 15"), 0.5), "high": (ds.query("WHERE x >= 15"), 0.5)}
    ),
    "packed": lambda ds: ds.pack("tokens", length=8),
}


@pytest.mark.parametrize("what", GIVEN)
def test_staged_rows_of_a_mix_and_of_packed_rows_are_told(names, what):
    names.add_tensor("tokens", tl.Array("int64", shape=(None,)), fill=[1, 2, 3])
    names.commit("tokens")
    names.create_index("name")
    with names.run("before") as run:  # where a warning would be an error, as in all of this suite
        run.loader(GIVEN[what](names), batch_size=4)
    names.delete([3])

    with names.run("after") as run, pytest.warns(tl.UncommittedChangesWarning, match="'after'"):
        run.loader(GIVEN[what](names), batch_size=4)
