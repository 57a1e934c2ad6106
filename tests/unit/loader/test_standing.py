"""Which part of each global batch is a process's: by rank=, mesh= and sharding=, and by two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.loader.arguments import parse_arguments
from tensorlake.loader.mesh import place_in_mesh
from tensorlake.loader.plain import NumpyConverter
from tensorlake.loader.sharding import Sharding
from tensorlake.loader.standing import standing_of


@dataclass(frozen=True, slots=True)
class OneOf(NumpyConverter):
    """A converter of a framework that knows its processes."""

    process: tuple[int, int] = (0, 1)

    def rank_and_world(self):
        return self.process


@dataclass(frozen=True)
class NamedMesh:
    """What is used of a torch DeviceMesh."""

    mesh_dim_names: tuple[str, ...] | None
    shape: tuple[int, ...]
    coordinate: list[int] | None

    def get_coordinate(self):
        return self.coordinate


def standing(framework="numpy", process=(0, 1), placed=None, **arguments):
    parsed = parse_arguments(framework, {"batch_size": 4, **arguments})
    return standing_of(parsed, OneOf(process=process, placed=placed))


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
        ({"dp": 2, "ep": 2}, "an axis 'ep', which does not say whether it splits the data"),
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
def test_a_mesh_that_says_nothing_certain_is_refused(mesh, message):
    with pytest.raises(InvalidInputError, match=message):
        standing(process=(1, 4), mesh=mesh)


def test_who_says_nothing_is_asked_of_the_framework():
    found = standing(process=(2, 3))

    assert (found.rank, found.world_size, found.has_others) == (2, 3, True)
    assert not standing().has_others


def test_a_numbered_loader_may_be_of_one_rank_alone():
    found = standing(process=(2, 3), rank=0, world_size=1)

    assert (found.rank, found.world_size, found.has_others) == (0, 1, False)


def test_one_of_rank_and_world_size_takes_the_other_from_the_framework():
    found = [
        standing(process=(2, 4), world_size=4),
        standing(process=(2, 4), rank=1),
        standing(process=(2, 4), world_size=1),
        standing(rank=0),
    ]

    assert [(one.rank, one.world_size) for one in found] == [(2, 4), (1, 4), (0, 1), (0, 1)]


@pytest.mark.parametrize("process", [(0, 1), (2, 4)])
def test_a_world_size_without_a_rank_is_refused_where_nobody_knows_the_rank(process):
    """Every rank would take itself for rank 0, and all read the same rows."""
    with pytest.raises(InvalidInputError, match="without rank=") as caught:
        standing(process=process, world_size=8)

    assert "give rank=0 … 7 too" in str(caught.value)


def test_ranks_that_repeat_data_are_compared_with_others_too():
    found = standing(process=(3, 4), mesh={"tp": 4})

    assert (found.rank, found.world_size, found.has_others) == (0, 1, True)


def test_ways_that_agree_are_one_and_those_that_disagree_raise():
    mesh = {"dp": 2, "tp": 2}
    agreeing = standing("jax", (3, 4), (1, 2), mesh=mesh, rank=1, world_size=2)
    assert (agreeing.rank, agreeing.world_size) == (1, 2)

    with pytest.raises(InvalidInputError) as caught:
        standing("jax", (3, 4), (3, 4), mesh=mesh)

    assert "mesh=  rank 1 of 2" in str(caught.value)
    assert "sharding=  rank 3 of 4" in str(caught.value)


def test_batches_that_have_no_equal_parts_are_refused_before_they_come():
    with pytest.raises(InvalidInputError, match="6 rows has no 4 equal parts"):
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
            ds.loader(batch_size=4, mesh={"dp": 4, "tp": 2})
