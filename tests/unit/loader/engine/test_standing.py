"""Which part of each global batch is a process's: by rank=, mesh= and sharding=, and by two."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset import serve_loader
from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.arguments import parse_arguments
from tensorlake.loader.config.mesh import place_in_mesh
from tensorlake.loader.engine.rank import process_rank_of
from tensorlake.loader.frameworks.numpy import NumpyConverter
from tensorlake.loader.plan.sharding import Sharding


@dataclass(frozen=True)
class NamedMesh:
    """What is used of a torch DeviceMesh."""

    mesh_dim_names: tuple[str, ...] | None
    shape: tuple[int, ...]
    coordinate: list[int] | None

    def get_coordinate(self):
        return self.coordinate


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def process_rank(monkeypatch):
    """Ask for the process_rank of a process among others, as the environment says."""

    def ask(framework="numpy", process=None, placed=None, **arguments):
        for name, value in zip(("RANK", "WORLD_SIZE"), process or (), strict=False):
            monkeypatch.setenv(name, str(value))
        parsed = parse_arguments(framework, {"global_batch_size": 24, **arguments})
        return process_rank_of(parsed, NumpyConverter(placed=placed))

    return ask


def place(found):
    return found.sharding.rank, found.sharding.world_size


@pytest.mark.parametrize(
    ("mesh", "places"),
    [
        ({"dp": 2, "tp": 2}, [(0, 2), (0, 2), (1, 2), (1, 2)]),
        ({"tp": 2, "dp": 2}, [(0, 2), (1, 2), (0, 2), (1, 2)]),
        ({"dp": 4}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
        ({"tp": 4}, [(0, 1)] * 4),
        ({"pp": 2, "dp_replicate": 1, "dp_shard": 2}, [(0, 2), (1, 2), (0, 2), (1, 2)]),
        ({"replica": 2, "fsdp": 2, "cp": 1}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
    ],
)
def test_axes_that_split_data_make_ranks_and_others_repeat_them(mesh, places):
    found = [place_in_mesh(mesh, process=one, num_processes=4) for one in range(4)]

    assert found == places


@given(sizes=st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=4))
def test_a_mesh_gives_every_rank_to_as_many_processes(sizes):
    splitting, repeating = iter(["dp", "fsdp", "batch", "ddp"]), iter(["tp", "pp", "cp", "sp"])
    mesh = {next(splitting if splits else repeating): size for splits, size in sizes}
    shape = [size for _, size in sizes]
    processes = int(np.prod(shape, dtype=int))
    world = int(np.prod([size for splits, size in sizes if splits], dtype=int))

    found = [place_in_mesh(mesh, process=one, num_processes=processes) for one in range(processes)]

    assert {size for _, size in found} == {world}
    ranks, counts = np.unique([rank for rank, _ in found], return_counts=True)
    assert ranks.tolist() == list(range(world))
    assert set(counts.tolist()) == {processes // world}
    for process, coordinate in enumerate(np.ndindex(*shape)):  # as torch lays processes out
        names = tuple(mesh)
        device_mesh = NamedMesh(names, tuple(shape), list(coordinate))
        assert place_in_mesh(device_mesh, process=0, num_processes=1) == found[process]


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ({"dp": 2, "ep": 2}, "an axis 'ep', of which it is unknown whether it splits the data"),
        ({"dp": 2}, "mesh= is of 2 processes .dp 2., but there are 4"),
        ({}, "mesh= is of 1 processes .no axis., but there are 4"),
        ({"dp": 0}, "from 1 on, by its name, got 'dp': 0"),
        ({"dp": True}, "got 'dp': True"),
        ({"dp": "4"}, "got 'dp': '4'"),
        ({0: 4}, "got 0: 4"),
        ([2, 2], "sizes by axis name or a torch DeviceMesh, got \\[2, 2\\]"),
        (NamedMesh(None, (4,), [0]), "have no names"),
        (NamedMesh(("dp",), (2,), None), "this process is not one of the DeviceMesh's"),
        (NamedMesh(("x",), (2,), [0]), "an axis 'x'"),
    ],
)
def test_a_mesh_that_says_nothing_certain_is_refused(process_rank, mesh, message):
    with pytest.raises(InvalidInputError, match=message):
        process_rank(process=(1, 4), mesh=mesh)


# ---- who is asked


def test_the_environment_tells_where_nothing_else_does(process_rank):
    found = process_rank(process=(2, 3))

    assert place(found) == (2, 3)
    assert found.is_known


def test_a_process_that_nothing_tells_of_others_is_alone(process_rank, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("WORLD_SIZE", "1")

    found = process_rank()

    assert place(found) == (0, 1)
    assert not found.is_known


def test_several_processes_without_a_rank_are_refused(monkeypatch, pets):
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = pets.loader(batch_size=4, columns=["label"])

    for ask in (iter, len, pickle.dumps, lambda one: one.remaining, lambda one: one.skip(1)):
        with pytest.raises(InvalidInputError, match=r"WORLD_SIZE=2 and no RANK.*\nset RANK=0 … 1"):
            ask(loader)


@pytest.mark.parametrize("given", [("-1", "2"), ("2", "2"), ("x", "2"), ("0", "0"), ("0", "2.0")])
def test_an_environment_that_names_no_process_is_refused(process_rank, given):
    with pytest.raises(InvalidInputError, match="the environment has"):
        process_rank(process=given)


def test_a_numbered_loader_is_of_that_rank_whatever_the_environment_says(process_rank):
    found = process_rank(process=("x", "y"), rank=0, world_size=1)

    assert place(found) == (0, 1)
    assert found.compared is None


def test_one_of_rank_and_world_size_takes_the_other_from_what_is_found(process_rank):
    found = [
        process_rank(rank=0),
        process_rank(process=(2, 4), world_size=4),
        process_rank(process=(2, 4), rank=1),
        process_rank(process=(2, 4), world_size=1),
    ]

    assert [place(one) for one in found] == [(0, 1), (2, 4), (1, 4), (0, 1)]


@pytest.mark.parametrize("process", [None, (2, 4)])
def test_a_world_size_without_a_rank_is_refused_where_nothing_tells_the_rank(process_rank, process):
    """Every rank would take itself for rank 0, and all read the same rows."""
    with pytest.raises(InvalidInputError, match="without rank=") as caught:
        process_rank(process=process, world_size=8)

    assert "give rank=0 … 7 too" in str(caught.value)


@pytest.mark.parametrize("framework", ["loader", "torch", "jax"])
def test_ranks_are_asked_at_each_use_and_not_when_the_loader_is_made(pets, monkeypatch, framework):
    """As Lightning, Accelerate and jobs do that make their loaders first."""
    if framework != "loader":
        pytest.importorskip(framework)
    loader = getattr(pets, framework)(batch_size=10, columns=["_row"])
    assert (len(loader), loader.remaining) == (6, 6)

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (len(loader), loader.remaining) == (3, 3)
    loader.skip(1)
    batches = iter(loader)
    monkeypatch.delenv("RANK")  # a pass keeps its answer to its end
    monkeypatch.delenv("WORLD_SIZE")
    rows = [next(batches)["_row"].tolist()]
    assert loader.remaining == 1
    rows += [batch["_row"].tolist() for batch in batches]

    assert rows == [list(range(30, 40)), list(range(50, 60))]
    assert len(next(iter(loader))["_row"]) == 10
    assert loader.remaining == 5


def test_a_pickled_copy_is_of_the_rank_that_was_told_and_else_asks_for_itself(pets, monkeypatch):
    loader = pets.loader(batch_size=10, columns=["_row"])
    untold = pickle.dumps(loader)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    told = pickle.dumps(loader)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")

    first = [next(iter(pickle.loads(one)))["_row"][0] for one in (untold, told)]

    assert first == [0, 10]
    assert [len(pickle.loads(one)) for one in (untold, told)] == [2, 3]


def test_the_batches_of_a_served_loader_are_of_the_ranks_that_its_client_says(pets, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    loader = serve_loader(pets, {"batch_size": 10, "columns": ["_row"]}, state=None)

    assert len(loader) == 6


def test_ways_that_agree_are_one_and_those_that_disagree_raise(process_rank):
    mesh = {"dp": 2, "tp": 2}
    agreeing = process_rank("jax", (3, 4), mesh=mesh, rank=1, world_size=2)
    assert place(agreeing) == (1, 2)

    with pytest.raises(InvalidInputError) as caught:
        process_rank("jax", (3, 4), mesh=mesh, rank=3, world_size=4)

    assert "mesh=  rank 1 of 2" in str(caught.value)
    assert "rank= and world_size=  rank 3 of 4" in str(caught.value)


def test_batches_that_have_no_equal_parts_are_refused_before_they_come():
    with pytest.raises(InvalidInputError, match="6 rows cannot be divided into 4 equal parts"):
        Sharding(0, 1, 6, equal_parts=4)

    sharding = Sharding(0, 1, 8, equal_parts=4)
    sharding.check_last(20)
    with pytest.raises(InvalidInputError, match=r"would have 6 rows.*\n.*drop_last=True"):
        sharding.check_last(22)
    sharding.check_last(22, 6)  # after a state that was taken elsewhere
    Sharding(0, 1, 8, drop_last=True, equal_parts=4).check_last(22)


def test_a_mesh_s_sizes_may_be_numpy_s_but_no_truth_values():
    sizes = {"dp": np.int32(2), "tp": np.int64(2)}

    assert place_in_mesh(sizes, process=3, num_processes=4) == (1, 2)
    with pytest.raises(InvalidInputError, match="number of processes along each axis"):
        place_in_mesh({"dp": True}, process=0, num_processes=1)


def test_the_rows_of_a_mesh_are_those_of_its_ranks():
    with tl.create("memory://loader-mesh", {"x": tl.Array("int32", ())}) as ds:
        ds.extend({"x": np.arange(12, dtype="int32")})
        ds.commit("rows")

        loader = ds.loader(batch_size=4, mesh={"dp": 1, "tp": 1})
        assert next(iter(loader))["x"].tolist() == [0, 1, 2, 3]
        with pytest.raises(InvalidInputError, match=r"mesh= is of 8 processes \(dp 4 x tp 2\)"):
            iter(ds.loader(batch_size=4, mesh={"dp": 4, "tp": 2}))
