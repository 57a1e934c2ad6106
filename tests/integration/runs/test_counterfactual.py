"""Runs without some rows: all other rows are where they were, and a planted row is found."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

ROWS = 60


@pytest.fixture
def lake(tmp_path):
    rng = np.random.default_rng(1)
    ds = tl.create(tmp_path / "pets.tl", {"image": tl.Image("png"), "y": "float64", "name": "str"})
    images = [rng.integers(0, 256, (10, 10, 3), np.uint8) for _ in range(ROWS)]
    names = [f"row {row}" for row in range(ROWS)]
    ds.extend({"image": images, "y": rng.random(ROWS), "name": names})
    ds.commit("rows")
    return ds


CROP = {"image": [tl.decode.RandomResizedCrop(6, 6), tl.decode.Flip()]}


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"shuffle": True}, {"shuffle": "window"}, {"weights": "y"}])
def test_all_other_rows_keep_their_places_and_pixels(lake, how):
    seen = []
    with lake.run("all") as run:
        loader = run.loader(batch_size=8, seed=2, decode=CROP, **how)
        for _epoch in range(2):
            seen += [{name: value.copy() for name, value in batch.items()} for batch in loader]
    left_out = lake.query("WHERE name IN ('row 3', 'row 17', 'row 40')")
    rows = left_out.rows
    lake.append({"image": np.zeros((10, 10, 3), np.uint8), "y": 0.0, "name": "another"})
    lake.commit("one more")  # the run is of the version before

    other = lake.runs["all"].without(left_out)

    again = other.loader()
    made = [batch for _epoch in range(2) for batch in again]
    assert len(made) == len(seen)
    for step, (batch, was) in enumerate(zip(made, seen, strict=True)):
        holes = np.isin(was["_row"], rows)
        assert batch["_row"].tolist() == was["_row"].tolist()
        assert batch["_valid"].tolist() == (~holes).tolist()
        assert batch["image"][~holes].tobytes() == was["image"][~holes].tobytes()
        assert not batch["image"][holes].any()
        assert [name for name, hole in zip(batch["name"], holes, strict=True) if hole] == (
            [""] * int(holes.sum())
        )
        alone = other.batch(step)
        assert alone["image"].tobytes() == batch["image"].tobytes()


def test_rows_are_left_out_of_the_sources_of_a_mix(lake, tmp_path):
    other = tl.create(tmp_path / "other.tl", {"y": "float64"})
    other.extend({"y": np.arange(ROWS) + 10.0})
    other.commit("rows")
    mixed = tl.mix({"pets": (lake[["y"]], 1), "other": (other, 2)})
    seen = []
    with tl.run(tmp_path / "runs", "mixed") as run:
        loader = run.loader(mixed, batch_size=9, shuffle=True, seed=4)
        seen = [{name: array.copy() for name, array in batch.items()} for batch in loader]
    recorded = tl.runs(tmp_path / "runs")["mixed"].of(mixed)

    for view, source in ((lake.query("WHERE y > 0.5"), 0), (other.query("WHERE y < 40"), 1)):
        made = list(recorded.without(view).loader())
        assert len(made) == len(seen)
        for batch, was in zip(made, seen, strict=True):
            holes = np.isin(was["y"], view["y"][:])
            assert (was["_source"][holes] == source).all()
            assert batch["_valid"].tolist() == (~holes).tolist()
            assert batch["y"].tolist() == np.where(holes, 0, was["y"]).tolist()
            assert batch["_source"].tolist() == was["_source"].tolist()
        assert recorded.without(view).batch(1)["y"].tolist() == made[1]["y"].tolist()
    third = tl.create(tmp_path / "third.tl", {"y": "float64"})
    third.extend({"y": [1.0]})
    third.commit("one")
    with pytest.raises(tl.InvalidInputError, match="none of these 1 rows"):
        recorded.without(third).loader()


def test_ranks_and_torch_have_the_same_holes(lake):
    import torch

    with lake.run("ranks") as run:
        _ = list(run.torch(batch_size=9, shuffle=True, seed=4, columns=["y"]))
    other = lake.runs["ranks"].without(lake[[5, 6, 7]])

    whole = list(other.torch())
    parts = [list(other.torch(rank=rank, world_size=3)) for rank in range(3)]

    assert isinstance(whole[0]["y"], torch.Tensor)
    for step, batch in enumerate(whole):
        joined = torch.cat([part[step]["y"] for part in parts])
        assert torch.equal(joined, batch["y"])
        assert torch.equal(
            batch["_valid"], torch.isin(batch["_row"], torch.arange(5, 8)).logical_not()
        )
        assert torch.equal(batch["y"] == 0, ~batch["_valid"])


def fitted(batches):
    """Fit a mean by gradient descent, over valid rows."""
    mean = 0.0
    for batch in batches:
        valid = batch["_valid"]
        if valid.any():
            mean -= 0.5 * float((mean - batch["y"][valid]).mean())
    return mean


def test_a_planted_row_is_found_by_halves(lake):
    lake["y"][37] = 1e6
    lake.commit("a poisoned row")
    with lake.run("poisoned") as run:
        _ = list(run.loader(batch_size=6, shuffle=True, seed=3, columns=["y"]))
    run = lake.runs["poisoned"]
    low, high, runs = 0, ROWS, 0

    while high - low > 1:
        middle = (low + high) // 2
        runs += 1
        mean = fitted(run.without(lake[list(range(low, middle))]).loader())
        low, high = (low, middle) if abs(mean) < 100 else (middle, high)

    assert (low, runs <= 6) == (37, True)


def test_what_has_parts_of_rows_is_refused(lake, tmp_path):
    with lake.run("windows") as run:
        _ = list(run.loader(lake.windows(["y"], size=4, by="name", tail="pad"), batch_size=2))
    with lake.run("batched") as run:
        _ = list(run.loader(batch_size=6, columns=["y"], batch_transform=lambda batch: batch))

    with pytest.raises(tl.InvalidInputError, match="does not say how to find"):
        lake.runs["windows"].without(lake[[1]]).loader()
    with pytest.raises(tl.InvalidInputError, match="batch_transform= sees several rows"):
        lake.runs["batched"].without(lake[[1]]).loader()
    with pytest.raises(tl.InvalidInputError, match="no step 10"):
        lake.runs["batched"].without(lake[[1]]).batch(10)
    other = tl.create(tmp_path / "other.tl", {"x": "int64"})
    with pytest.raises(tl.InvalidInputError, match=r"got rows of .*other\.tl"):
        lake.runs["batched"].without(other)
    with lake.run("none") as run:
        run.log(loss=1.0)
    with pytest.raises(tl.InvalidInputError, match="recorded no batch"):
        lake.runs["none"].without(lake[[1]]).loader()


def test_a_run_without_rows_is_shown_in_a_line(lake):
    with lake.run("all") as run:
        list(run.loader(batch_size=8))

    other = lake.runs["all"].without(lake.query("WHERE name = 'row 3'"))

    assert repr(other) == f"Run 'all' without 1 row of {lake.url!r}"
