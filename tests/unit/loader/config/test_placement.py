"""``placement="home"``: which ranks get the rows of a batch, and what a state records of it."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

ROWS = 500
ROW_NBYTES = 65_536


@pytest.fixture(scope="module")
def ds():
    made = tl.create("memory://placed", {"x": "int64", "y": tl.Array("float32", (100,))})
    made.extend({"x": np.arange(ROWS), "y": np.zeros((ROWS, 100), np.float32)})
    made.commit()
    return made


@pytest.fixture
def placed(tmp_path) -> dict[str, Any]:
    return {"placement": "home", "cache": {"disk": "50kB"}, "cache_dir": tmp_path}


def batches(ds, rank, world, **options):
    loader = ds.loader(batch_size=8, seed=3, rank=rank, world_size=world, **options)
    return [batch["x"].tolist() for batch in loader]


@pytest.mark.parametrize("shuffle", [False, True, "window"])
@pytest.mark.parametrize("world", [1, 2, 5])
def test_each_global_batch_has_the_same_rows_and_each_rank_as_many(ds, placed, shuffle, world):
    own, plain = (
        [batches(ds, rank, world, shuffle=shuffle, **options) for rank in range(world)]
        for options in (placed, {})
    )

    for with_homes, without in zip(zip(*own, strict=True), zip(*plain, strict=True), strict=True):
        assert sorted(chain(*with_homes)) == sorted(chain(*without))
        assert list(map(len, with_homes)) == list(map(len, without))
    assert (own == plain) is (world == 1)


def test_a_state_records_the_capacity_and_any_world_resumes(ds, placed):
    loader = ds.loader(batch_size=8, shuffle=True, seed=3, rank=0, world_size=4, **placed)
    passed = iter(loader)
    for _ in range(3):
        next(passed)
    state = loader.state_dict()

    assert state["batches"] == {
        "placement": {"capacity": pytest.approx(0.24, abs=0.03), "rows_per_unit": 1},
        "world_size": 4,
    }
    rest = [tl.loader_from_state(state, batch_size=8, rank=rank, world_size=4) for rank in range(4)]
    found = [[batch["x"].tolist() for batch in one] for one in rest]
    assert found == [batches(ds, rank, 4, shuffle=True, **placed)[3:] for rank in range(4)]
    other = ds.loader(batch_size=16, shuffle=True, seed=3, rank=0, world_size=1)
    other.load_state_dict(state)
    assert sum(len(batch["x"]) for batch in other) == ROWS - 3 * 32


def test_the_plan_says_how_ranks_are_placed(ds, placed):
    loader = ds.loader(batch_size=8, shuffle=True, rank=1, world_size=4, **placed)

    assert "placed on 4 ranks that can each cache 2" in str(loader.explain())


def test_ranks_of_a_node_share_its_disk(ds, placed, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    loader = ds.loader(batch_size=8, rank=0, world_size=4, **placed)

    capacity = loader.state_dict()["batches"]["placement"]["capacity"]
    assert capacity == pytest.approx(0.12, abs=0.02)


def test_a_large_cache_holds_everything(ds, placed):
    loader = ds.loader(batch_size=8, rank=0, world_size=4, **placed | {"cache": {"disk": "9GB"}})

    assert loader.state_dict()["batches"]["placement"]["capacity"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "home"}, "the size of each node's cache"),
        ({"placement": "home", "cache_dir": "x"}, "the size of each node's cache"),
        ({"placement": "away"}, "placement is 'home', or None"),
        ({"placement": 1}, "placement is 'home', or None"),
        ({"placement": {"capacity": 2, "rows_per_unit": 1}}, "placement is 'home', or None"),
        ({"placement": {"capacity": 0.5, "rows_per_unit": 0}}, "placement is 'home', or None"),
        ({"placement": {}, "balance": "tokens"}, "placement is 'home', or None"),
        ({"placement": {"capacity": 0.5, "rows_per_unit": [1, 0]}}, "placement is 'home', or"),
        ({"placement": {"capacity": 0.5, "rows_per_unit": []}}, "placement is 'home', or None"),
        ({"placement": {"capacity": 0.5, "rows_per_unit": [1, 2]}}, "2 sources, and the rows have"),
    ],
)
def test_a_placement_that_ranks_could_differ_in_is_refused(ds, options, message):
    with pytest.raises(InvalidInputError, match=message):
        ds.loader(batch_size=8, **options)


def test_a_run_makes_the_batches_of_all_ranks_again(ds, placed):
    options = {"shuffle": True, **placed}
    with ds.run("placed") as run:
        loader = run.loader(batch_size=8, seed=3, rank=0, world_size=3, **options)
        for _ in loader:
            run.log(loss=0.0)

    again = [ds.runs["placed"].batch(4, rank=rank)["x"].tolist() for rank in range(3)]
    assert again == [batches(ds, rank, 3, **options)[4] for rank in range(3)]


@pytest.fixture(scope="module")
def large():
    """400 rows of 64 kB in ten chunks, whose rows are read alone."""
    made = tl.create("memory://large", {"x": tl.Array("uint8", (ROW_NBYTES,))})
    rng = np.random.default_rng(0)
    for _ in range(10):
        made.extend({"x": rng.integers(0, 255, (40, ROW_NBYTES), np.uint8)})
        made.commit()
    return made


def test_the_disk_of_a_rank_keeps_the_rows_that_come_back_to_it(large, tmp_path):
    options = {"placement": "home", "cache": {"memory": "1kB", "disk": "2500kB"}}
    loader = large.loader(
        batch_size=16,
        shuffle="full",
        seed=3,
        rank=0,
        world_size=4,
        cache_dir=tmp_path,
        **options,
    )

    for epoch in range(2):
        before = loader.stats()
        rows = sum(len(batch["x"]) for batch in loader)
        after = loader.stats()
        if epoch == 0:
            assert after.disk_cache_nbytes > 0.8 * after.disk_cache_capacity
    hits = after.disk_hits - before.disk_hits

    capacity = loader.state_dict()["batches"]["placement"]["capacity"]
    assert hits >= 0.85 * capacity * large.count(), "of the rows that fit"
    assert hits < rows
