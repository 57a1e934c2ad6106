"""``placement="home"`` beside everything that divides rows: mixes, tokens, sequences, windows."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

ROWS = 120
WORLDS = [3]

pytestmark = pytest.mark.filterwarnings("ignore::tensorlake.errors.ShortBatchWarning")


def documents(count: int, least: int, stop: int) -> list[np.ndarray]:
    """Documents of numbers that are in no other."""
    rng = np.random.default_rng(count)
    lengths = rng.integers(least, stop, count)
    return [rng.integers(1, 2**60, length) for length in lengths]


@pytest.fixture(scope="module")
def ds():
    made = tl.create(
        "memory://placed-batches", {"x": "int64", "tokens": tl.Array("int64", (None,))}
    )
    made.extend({"x": np.arange(ROWS) // 12, "tokens": documents(ROWS, 1, 40)})
    made.commit("documents")
    return made


@pytest.fixture(scope="module")
def other():
    made = tl.create("memory://placed-others", {"x": "int64", "tokens": tl.Array("int64", (None,))})
    made.extend({"x": np.arange(40), "tokens": documents(40, 7, 8)})
    made.commit("others")
    return made


WAYS: dict[str, dict[str, Any]] = {
    "rows": {},
    "tokens": {"batch_by": "tokens", "global_batch_size": 500},
    "padded": {"batch_by": "tokens", "global_batch_size": 500, "collate": {"tokens": "pad"}},
    "balanced": {"balance": "tokens"},
    "squares": {"balance": "squares"},
    "balanced tokens": {"batch_by": "tokens", "balance": "tokens", "global_batch_size": 500},
    "weighted": {"weights": "x"},
    "mix": {},
    "mix by tokens": {"batch_by": "tokens", "global_batch_size": 500},
    "balanced mix": {"balance": "tokens"},
    "classes": {"weights": lambda _: {"x": "balanced"}},
    "whole": {},
    "packed mix": {},
    "windows": {},
    "windows of arrays": {},
}


def rows_of(ds, other, way):
    mixed = {"a": (ds, 0.7), "b": (other, 0.3)}
    match way:
        case "mix" | "mix by tokens" | "balanced mix":
            return tl.mix(mixed, stop="all")
        case "packed mix":
            return tl.mix(mixed, by="tokens", stop="all").pack("tokens", 64, eos=0, split=False)
        case "whole":
            return ds.pack("tokens", 64, eos=0, split=False)
        case "windows":
            return ds.windows(["tokens"], by="x", size=4, step=2)
        case "windows of arrays":
            return ds.windows(["tokens"], size=3)
    return ds


def make(ds, other, way, **given):
    """The loader of one rank; batches of 60 rows on all ranks together, or fewer units."""
    size = 12 if way in ("whole", "packed mix", "windows") else 30
    options = {"global_batch_size": size, "shuffle": True, "seed": 3, **WAYS[way], **given}
    return rows_of(ds, other, way).loader(**options)


def names(batch) -> list[str]:
    """Name the rows, sequences or windows of a batch by all that they hold."""
    tokens = batch["tokens"]
    own = [*range(len(tokens))]
    if "_valid" in batch:
        own = [at for at in own if batch["_valid"][at]]
    if "tokens_mask" in batch:
        tokens = [one[mask] for one, mask in zip(tokens, batch["tokens_mask"], strict=True)]
    start = batch.get("_start", np.zeros(len(tokens), int))
    listed = [
        [np.asarray(one).tolist() for one in tokens[at]]
        if isinstance(tokens[at], list)
        else np.asarray(tokens[at]).tolist()
        for at in range(len(tokens))
    ]
    return [f"{listed[at]} {start[at]}" for at in own]


@pytest.fixture
def placed(tmp_path) -> dict[str, Any]:
    return {"placement": "home", "cache": {"disk": "6kB"}, "cache_dir": tmp_path}


@pytest.mark.parametrize("way", WAYS)
def test_ranks_together_have_each_global_batch_as_it_was(ds, other, placed, way):
    whole = [sorted(names(one)) for one in make(ds, other, way, rank=0, world_size=1)]
    for world in WORLDS:
        ranks = [
            [names(one) for one in make(ds, other, way, rank=rank, world_size=world, **placed)]
            for rank in range(world)
        ]
        found = [sorted(chain(*parts)) for parts in zip(*ranks, strict=True)]
        assert found == whole
        if way != "tokens" and "tokens" not in way.split():
            sizes = [[len(part) for part in parts] for parts in zip(*ranks, strict=True)]
            assert all(max(own) - min(own) <= 1 for own in sizes)


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_goes_on_with_the_same_batches_on_other_ranks(ds, other, placed, way):
    whole = [sorted(names(one)) for one in make(ds, other, way, rank=0, world_size=1)]
    loader = make(ds, other, way, rank=1, world_size=3, **placed)
    passed = iter(loader)
    next(passed), next(passed)
    state = loader.state_dict()
    del passed

    assert state["batches"]["placement"]["capacity"] == pytest.approx(0.3, abs=0.2)
    parts = []
    for rank in range(2):
        rest = make(ds, other, way, rank=rank, world_size=2, **placed)
        rest.load_state_dict(state)
        parts.append([names(one) for one in rest])
    assert [sorted(chain(*both)) for both in zip(*parts, strict=True)] == whole[2:]


def test_a_balanced_batch_is_balanced_as_without_homes(ds, placed):
    options = {"global_batch_size": 30, "shuffle": True, "balance": "tokens", "world_size": 4}
    ranks = [
        [[len(own) for own in one["tokens"]] for one in ds.loader(rank=rank, **options, **placed)]
        for rank in range(4)
    ]
    for parts in zip(*ranks, strict=True):
        sums = [sum(lengths) for lengths in parts]
        every = [*chain(*parts)]
        assert max(sums) - min(sums) <= max(every) - min(every)


def test_a_state_of_tokens_at_home_makes_its_loader_again(ds, placed):
    options = {"batch_by": "tokens", "balance": "tokens", "global_batch_size": 500}
    loader = ds.loader(shuffle=True, rank=0, world_size=2, **options, **placed)
    first = iter(loader)
    next(first)
    state = loader.state_dict()

    assert set(state["batches"]) == {"column", "tokens", "balance", "placement", "world_size"}
    rest = tl.loader_from_state(state, global_batch_size=500, rank=0, world_size=2)
    assert [names(one) for one in rest] == [names(one) for one in first]


def test_a_placement_of_other_sources_is_refused(ds, other):
    recorded = {"capacity": 0.5, "rows_per_unit": [1, 2, 3]}
    mix = tl.mix({"a": (ds, 0.5), "b": (other, 0.5)})

    with pytest.raises(InvalidInputError, match="a mix of 3 sources, and the rows have 2"):
        mix.loader(batch_size=8, placement=recorded)


def test_sequences_that_are_cut_anew_in_each_epoch_are_not_placed(ds, placed):
    with pytest.raises(InvalidInputError, match="split=False"):
        ds.pack("tokens", 64, eos=0).loader(batch_size=8, **placed)


def test_sources_of_a_mix_have_units_of_their_own(ds, other, placed):
    loader = make(ds, other, "mix", rank=0, world_size=2, **placed)

    recorded = loader.state_dict()["batches"]["placement"]
    again = make(ds, other, "mix", rank=0, world_size=2, placement=recorded)
    assert [names(one) for one in again] == [names(one) for one in loader]
