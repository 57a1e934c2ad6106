"""Steps of a run against a log by hand: random orders, worlds, cuts and resumes.

A program keeps, for each step, the rows that every rank got. An attempt begins at the state of a
checkpoint, or at the beginning, on a number of ranks of its own; what an earlier attempt did from
its first step on is replaced. The run must know the same steps, without having logged a row.
"""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest

import tensorlake as tl

pytestmark = pytest.mark.filterwarnings("ignore::tensorlake.ShortBatchWarning")

CASES, SOAK_CASES = 5, 400
ROWS = 61


@pytest.fixture(scope="module")
def numbers():
    ds = tl.create("memory://run-steps", {"x": "int64", "label": tl.ClassLabel(["a", "b", "c"])})
    for start in range(0, ROWS, 16):
        rows = range(start, min(start + 16, ROWS))
        ds.extend({"x": rows, "label": [row % 3 for row in rows]})
        ds.commit("rows")
    return ds


def arguments_of(case):
    how = case.choice(
        [
            {"shuffle": False},
            {"shuffle": "full"},
            {"shuffle": "window"},
            {"shuffle": True, "weights": {"label": "balanced"}},
            {"shuffle": True, "stratify": "label"},
            {"shuffle": True, "repeat": 2},
            {"shuffle": True, "limit": 40},
        ]
    )
    drop_last = case.random() < 0.5
    return {**how, "seed": case.randrange(2**32), "drop_last": drop_last, "columns": ["x", "_row"]}


def run_case(ds, number):
    case = random.Random(number)
    how, name = arguments_of(case), f"case {number}"
    view = ds if case.random() < 0.5 else ds.query("WHERE x % 5 != 2")
    log: dict[int, dict[int, list[int]]] = {}  # step -> rank -> rows
    states = {0: None}  # step -> the state before it
    for _attempt in range(case.randint(1, 4)):
        first = case.choice([*states])
        log = {step: rows for step, rows in log.items() if step < first}
        own_states = {step: state for step, state in states.items() if step <= first}
        world, local = case.randint(1, 3), case.randint(1, 6)
        stop = case.randint(1, 25)
        for rank in range(world):
            with ds.run(name) as run:
                loader = run.loader(view, rank=rank, world_size=world, batch_size=local, **how)
                if states[first] is not None:
                    loader.load_state_dict(json.loads(json.dumps(states[first])))
                step = first
                while step < first + stop:
                    for batch in loader:
                        log.setdefault(step, {})[rank] = batch["_row"].tolist()
                        step += 1
                        if rank == 0:
                            own_states[step] = loader.state_dict()
                        if step >= first + stop:
                            break
        states = own_states

    again = ds.runs[name]

    steps = again.steps.filter(np.equal(again.steps.column("rank").to_numpy(), 0))
    assert steps.column("step").to_pylist() == sorted(log)
    for step, ranks in log.items():
        for rank, rows in ranks.items():
            assert again.rows_at(step, rank).tolist() == rows, f"step {step} of rank {rank}"
        together = [row for rank in sorted(ranks) for row in ranks[rank]]
        assert set(again.rows_at(step).tolist()) == set(together)
    wanted = case.sample(view.rows.tolist(), 3)
    seen = [
        [step for step in sorted(log) if any(row in rows for rows in log[step].values())]
        for row in wanted
    ]
    assert again.steps_of(np.array(wanted)) == seen, f"rows {wanted}"
    assert again.steps_of(wanted[0]) == seen[0], f"row {wanted[0]}"
    epochs = set(steps.column("epoch").to_pylist())
    low = case.randrange(len(log))
    high = case.randint(low, len(log))
    for epoch in epochs:
        call = f"STEP('{name}', epoch => {epoch})"
        listed = ds.query(f"SELECT {call} AS step")["step"]
        among = ds.query(f"SELECT {call} AS step WHERE {call} BETWEEN {low} AND {high}")
        expected = [
            at for at, step in enumerate(listed) if step is not None and low <= step <= high
        ]
        assert among.rows.tolist() == expected
        assert list(among["step"]) == [listed[at] for at in expected]
    ds.runs.delete(name)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CASES))
def test_a_run_knows_the_rows_of_its_steps(numbers, number):
    run_case(numbers, number)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(CASES, SOAK_CASES))
def test_a_run_knows_the_rows_of_its_steps_in_many_cases(numbers, number):
    run_case(numbers, number)


def test_the_time_between_batches_is_that_of_the_step_before(numbers):
    with numbers.run("timed") as run:
        for number, _ in enumerate(run.loader(batch_size=20)):
            time.sleep(0.05 if number == 1 else 0)

    taken = numbers.runs["timed"].steps.column("compute_s").to_pylist()

    assert len(taken) == 4
    assert taken[1] >= 0.05
