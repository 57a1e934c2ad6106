"""Resume on any world: random (world, batch, cut) cases through real loaders, selections and mixes.

Each case streams an epoch in legs. A leg has its own number of ranks, global batch and DataLoader
workers; it ends at a random batch, where rank 0's state goes through JSON to all ranks of the next.
What all legs handed out together, in order, is the order of one undisturbed pass: nothing is lost,
nothing comes twice.
"""

from __future__ import annotations

import json
import random
from itertools import islice

import numpy as np
import pytest

import tensorlake as tl

CASES, SOAK_CASES = 20, 1000
MAX_LEGS = 6
ROWS = (97, 41)


@pytest.fixture(scope="module")
def sources():
    made = []
    for number, rows in enumerate(ROWS):
        dataset = tl.create(f"memory://resume-{number}", {"x": "int64"})
        for start in range(0, rows, 30):  # several commits: several chunks
            dataset.extend(
                {"x": range(1000 * number + start, 1000 * number + min(start + 30, rows))}
            )
            dataset.commit("rows")
        made.append(dataset)
    return made


def streamable(sources, case):
    first, second = sources
    kinds = [
        first,
        first[list(range(0, ROWS[0], 3))],
        tl.mix({"a": (first, 0.7), "b": (second, 0.3)}, stop=case.choice(["first", "all"])),
    ]
    return case.choice(kinds)


def run_case(sources, seed):
    case = random.Random(seed)
    data = streamable(sources, case)
    how = {"shuffle": case.choice([False, "full", "window"]), "seed": case.randrange(2**32)}
    epoch = case.randrange(3)
    whole = data.loader(batch_size=10_000, **how)
    whole.set_epoch(epoch)
    (expected,) = whole
    in_order = list if how["shuffle"] != "window" else sorted  # ranks are dealt blocks of a window

    seen, state = 0, None
    for leg in range(MAX_LEGS):
        world = case.randint(1, 5)
        global_batch_size = case.randint(world, 40)
        ranks = [
            data.loader(
                global_batch_size=global_batch_size, rank=rank, world_size=world, workers=1, **how
            )
            for rank in range(world)
        ]
        for rank in ranks:
            if state is None:
                rank.set_epoch(epoch)
            else:
                rank.load_state_dict(json.loads(state))
        left = ranks[0].remaining
        assert {rank.remaining for rank in ranks} == {left}
        steps = left if leg == MAX_LEGS - 1 else case.randint(0, left)
        iterators = [iter(rank) for rank in ranks]
        for batches in zip(*(islice(one, steps) for one in iterators), strict=True):
            found = []
            for batch in batches:
                valid = batch.get("_valid", np.ones(len(batch["x"]), dtype=bool))
                found += batch["x"][valid].tolist()
            wanted = expected["x"][seen : seen + len(found)].tolist()
            assert in_order(found) == in_order(wanted), (seed, world, global_batch_size)
            seen += len(found)
        for iterator in iterators:
            iterator.close()
        states = {json.dumps(rank.state_dict()) for rank in ranks}
        assert len(states) == 1
        (state,) = states
        assert len(state) < 1024
        if json.loads(state)["position"] in (0, len(expected["x"])) and steps == left:
            break
    assert seen == len(expected["x"]), (seed, world, global_batch_size)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tensorlake.loader.ShortBatchWarning")
def test_random_worlds_batches_and_cuts_continue_one_order(sources):
    for seed in range(CASES):
        run_case(sources, seed)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::tensorlake.loader.ShortBatchWarning")
def test_a_thousand_random_worlds_batches_and_cuts_continue_one_order(sources):
    for seed in range(CASES, CASES + SOAK_CASES):
        run_case(sources, seed)
