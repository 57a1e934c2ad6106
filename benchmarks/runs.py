"""The order of a run asked backwards, ranges of its steps, and splices: processor time.

full, window     10⁶ rows among 10⁹: their places in an epoch
STEP BETWEEN     a query for the rows of 100 steps of 10⁷ rows, the run opened again each time
steps of all     1,000 rows of a run with 15 splices in its epoch
advance          a loader over 10⁷ rows continues with another version
record           what recording takes of a step: epochs with it and without it, in turns
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, warm_up

__all__ = ["BENCHMARKS"]

ROWS, PLACES, LOOKED_UP = 10_000_000, 1_000_000_000, 1_000_000
SPLICES, SPLICED_ROWS = 15, 1_000
ROUNDS = 5
RECORDED_STEPS, RECORDED_BATCH = 2_000, 8
CPU, OF_STEP = "CPU s", "% of a step of 10 ms"


def measured(call: Callable[[], Any], amount: int) -> Measurement:
    """Call several times; the median of the processor time counts."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    median = sorted(seconds)[ROUNDS // 2]
    return Measurement(median, amount, facts={CPU: median})


def look_up(_: Workspace, *, kind: str) -> Measurement:
    """Find the places of rows by the inverse of an order."""
    from tensorlake.loader.plan.order import Order
    from tensorlake.loader.plan.plan import PlanKey, build_access_plan

    order = Order("full") if kind == "full" else Order("window", 3, 800)
    plan = build_access_plan(PlanKey("", order, 1, 0), PLACES)
    rows = np.random.default_rng(0).integers(0, PLACES, LOOKED_UP)
    return measured(partial(plan.places_of, rows), LOOKED_UP)


@cache
def large() -> Any:
    """Make a dataset of 10⁷ rows with a run."""
    import tensorlake as tl

    warm_up()
    ds = tl.create("memory://benchmark-runs", {"x": "int8"})
    ds.extend({"x": np.zeros(ROWS, np.int8)})
    ds.commit("rows")
    with ds.run("r") as run:
        loader = run.loader(batch_size=1000, shuffle=True, seed=1)
        batches = iter(loader)
        for _ in range(250):
            next(batches)
    return ds


def query_steps(_: Workspace) -> Measurement:
    """Query the rows of 100 steps."""
    ds = large()
    text = "WHERE STEP('r', epoch => 0) BETWEEN 100 AND 199"
    return measured(lambda: ds.query(text), 100)


def advance(_: Workspace) -> Measurement:
    """Continue a loader with a version that lacks rows and has others, and find its next rows."""
    ds = large()
    loaders: list[Any] = []
    for _ in range(ROUNDS):
        loaders.append(ds.loader(batch_size=1000, shuffle=True, seed=1))
        next(iter(loaders[-1]))
    ds.delete([5, ROWS // 2])
    ds.extend({"x": np.ones(1000, np.int8)})
    ds.commit("edited")

    def move() -> None:
        loader = loaders.pop()
        loader.advance(ds.version)
        loader.plan.rows_at(np.arange(2000, 3000))

    return measured(move, 1)


def steps_of_all(_: Workspace) -> Measurement:
    """Find the steps of all rows of a run that was spliced many times."""
    import tensorlake as tl

    warm_up()
    ds = tl.create("memory://benchmark-splices", {"x": "int64"})
    ds.extend({"x": np.arange(SPLICED_ROWS)})
    ds.commit("rows")
    with ds.run("deep") as run:
        loader = run.loader(batch_size=10, shuffle=True, seed=1)
        for number in range(SPLICES):
            next(iter(loader))
            ds["x"][number] = 0
            ds.commit("edit")
            loader.advance(ds.version)
        list(loader)
    rows = np.arange(SPLICED_ROWS)
    return measured(lambda: ds.runs["deep"].steps_of(rows), SPLICED_ROWS)


def record(_: Workspace) -> Measurement:
    """Stream epochs in turns: recorded, with a logged scalar for each step, and not."""
    import tensorlake as tl

    warm_up()
    ds = tl.create("memory://benchmark-records", {"x": "int64"})
    ds.extend({"x": np.arange(RECORDED_STEPS * RECORDED_BATCH)})
    ds.commit("rows")
    options = {"batch_size": RECORDED_BATCH, "shuffle": True, "seed": 1}
    taken: list[float] = []
    with ds.run("r") as run, run.loader(**options) as recorded, ds.loader(**options) as plain:
        for loader in (recorded, plain) * 2:
            list(loader)
        for _ in range(ROUNDS):
            spent: list[float] = []
            for loader in (recorded, plain):
                began = time.process_time()
                for _batch in loader:
                    if loader is recorded:
                        run.log(loss=1.0)
                spent.append(time.process_time() - began)
            taken.append((spent[0] - spent[1]) / RECORDED_STEPS)
    step = sorted(taken)[ROUNDS // 2]
    facts = {"CPU µs a step": 1e6 * step, OF_STEP: 100 * step / 0.01}
    return Measurement(step * RECORDED_STEPS, RECORDED_STEPS, facts=facts)


BENCHMARKS = (
    Benchmark(
        name="runs",
        question="rows of a step, steps of a row, a splice, a record: how long do they take?",
        unit="answers/s",
        contenders=(
            Contender("full", partial(look_up, kind="full")),
            Contender("window", partial(look_up, kind="window")),
            Contender("STEP BETWEEN", query_steps),
            Contender("steps of all", steps_of_all),
            Contender("advance", advance),
            Contender("record", record),
        ),
        limits=(
            Limit("full", CPU, at_most=0.15),
            Limit("window", CPU, at_most=0.4),
            Limit("STEP BETWEEN", CPU, at_most=0.1),
            Limit("steps of all", CPU, at_most=0.25),
            Limit("advance", CPU, at_most=0.05),
            Limit("record", OF_STEP, at_most=0.5),
        ),
    ),
)
