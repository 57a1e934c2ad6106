"""Any order, ranks, batches, cut and resume: no row of the epoch is lost, and none comes twice."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.loader.plan.arrangement import WeightedPlan, weight_units
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.plan import PlanKey
from tests.support.examples import examples

ROWS = 97
LENGTHS = np.random.default_rng(2).integers(0, 30, ROWS)


@pytest.fixture(scope="module")
def sets():
    schema = {"tokens": tl.Array("uint16", (None,)), "label": "int64", "w": "float32"}
    made = []
    for name, rows in (("left", ROWS), ("right", 31)):
        dataset = tl.create(f"memory://orders-{name}", schema)
        dataset.extend(
            {
                "tokens": [np.full(LENGTHS[row], row, np.uint16) for row in range(rows)],
                "label": np.arange(rows) ** 2 % 7,
                "w": np.arange(rows) % 5 + 0.5,
            }
        )
        dataset.commit("rows")
        made.append(dataset)
    yield made
    for dataset in made:
        dataset.close()


def mixed(sets, stop):
    left, right = sets
    if stop == "never":
        late = tl.mix({"left": (left, 1), "right": (right, 3)})
        return tl.mix({"left": (left, 1)}, stages=[(60, late)], stop="never")
    inner = tl.mix({"l": (left[:20], 2), "r": (right, 1)}, stop="all")
    return tl.mix({"left": (left, 0.6), "inner": (inner, 0.4)}, stop=stop)


SOURCES = {
    "view": lambda sets: sets[0],
    "query": lambda sets: sets[0].where("label > 1"),
    "mix until the first": lambda sets: mixed(sets, "first"),
    "mix until all": lambda sets: mixed(sets, "all"),
    "staged mix": lambda sets: mixed(sets, "never"),
}
ORDERS = st.sampled_from(
    [
        {},
        {"weights": "w"},
        {"weights": {"label": "balanced"}},
        {"stratify": "label"},
        {"group": "label"},
        {"repeat": 3},
        {"limit": 40},
        {"group": "label", "repeat": 2, "limit": 150},
    ]
)
BATCHES = st.one_of(
    st.integers(6, 60).map(lambda rows: {"global_batch_size": rows}),
    st.integers(40, 300).map(lambda tokens: {"global_batch_size": tokens, "batch_by": "tokens"}),
)
BALANCES = st.sampled_from([None, "tokens", "squares"])


def passes_of(source, arguments, world):
    return [source.loader(rank=rank, world_size=world, **arguments) for rank in range(world)]


def taken(loaders, batches):
    """The valid rows of the next global batches of all ranks, one list for each batch."""
    made = itertools.islice(zip(*loaders, strict=True), batches)
    return [
        sorted(
            key
            for batch in parts
            for key in zip(
                batch["_source"][batch["_valid"]].tolist()
                if "_source" in batch
                else [0] * int(batch["_valid"].sum()),
                batch["_row"][batch["_valid"]].tolist(),
                strict=True,
            )
        )
        for parts in made
    ]


@examples(6)
@pytest.mark.filterwarnings("ignore::tensorlake.errors.ShortBatchWarning")
@given(
    st.sampled_from([*SOURCES]),
    ORDERS,
    st.sampled_from([False, True, "window"]),
    st.tuples(BATCHES, BATCHES),
    st.tuples(BALANCES, BALANCES),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(0, 6),
    st.integers(0, 3),
)
def test_no_row_is_lost_and_none_comes_twice(
    sets, name, order, shuffle, batches, balances, worlds, cut, seed
):
    source = SOURCES[name](sets)
    if "mix" in name:
        order = {}
    elif shuffle == "window" and not {"repeat", "limit"} >= order.keys():
        shuffle = True
    columns = ["_row", "_valid", *(["_source"] if "mix" in name else [])]
    same = {"columns": columns, "shuffle": shuffle, "seed": seed, **order}
    first, second = (
        {**same, **one, "balance": balance} for one, balance in zip(batches, balances, strict=True)
    )
    plan = source.loader(global_batch_size=6, **same).plan
    places = np.arange(300 if name == "staged mix" else len(plan))
    positions = plan.plan.at(places)
    numbers = plan.selection.source_of(positions) if "mix" in name else np.zeros_like(places)
    expected = [*zip(numbers.tolist(), plan.rows_at(places).tolist(), strict=True)]

    ranks = passes_of(source, first, worlds[0])
    iterators = [iter(one) for one in ranks]
    before = taken(iterators, cut)
    states = [json.loads(json.dumps(one.state_dict())) for one in ranks]
    for one in iterators:
        one.close()
    resumed = passes_of(source, second, worlds[1])
    for one in resumed:
        one.load_state_dict(states[0])
    is_over = states[0]["epoch"] or states[0]["position"] == states[0]["num_rows"]
    after = [] if is_over else taken(resumed, 40 if name == "staged mix" else 1000)

    assert all(one == states[0] for one in states)
    position = sum(map(len, before))
    assert is_over or states[0]["position"] == position
    found = [key for keys in (*before, *after) for key in keys]
    start = 0
    for batch in (*before, *after):  # each has the rows of its places
        stop = min(start + len(batch), len(expected))
        assert sorted(expected[start:stop]) == batch or stop - start < len(batch)
        start = stop
    assert name == "staged mix" or sorted(found) == sorted(expected)


@given(
    weights=st.lists(
        st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-9, 1e9)), min_size=1, max_size=60
    ).filter(any),
    places=st.integers(1, 200),
    seed=st.integers(0, 2**40),
)
def test_rows_drawn_by_weight_are_listed_as_a_search_finds_them(weights, places, seed):
    key = PlanKey("listed", Order("full"), seed, 0)
    plan = WeightedPlan(key, weight_units(weights), places)
    for offset in (plan._offset, 0, int(plan.sums[-1]) - 1, int(plan.sums[-1]) // places):
        plan.__dict__.pop("_listed", None)
        plan.__dict__["_offset"] = offset

        assert plan._listed.tolist() == plan._found(np.arange(places)).tolist()
