"""``mesh=``: which processes of a mesh read the same rows, as rank and world size of the data.

    mesh={"dp": 2, "tp": 2}       processes 0 … 3, the last axis running fastest

           tp 0   tp 1
    dp 0     0      1             rank 0 of 2: both read the same rows
    dp 1     2      3             rank 1 of 2

Axes are distinguished by the names that torch, JAX and their trainers use: ranks along an axis that
splits data read different rows, ranks along an axis that repeats data read the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol, cast, runtime_checkable

from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import is_whole_number

__all__ = ["DeviceMesh", "check_mesh", "place_in_mesh"]

SPLIT_DATA = frozenset(
    {"batch", "data", "data_parallel", "ddp", "dp", "dp_replicate", "dp_shard", "fsdp"}
    | {"replica", "replicate", "shard"}
)
REPEAT_DATA = frozenset(
    {"context", "cp", "model", "pipe", "pipeline", "pp", "seq", "sequence", "sp", "stage"}
    | {"tensor", "tp"}
)


@runtime_checkable
class DeviceMesh(Protocol):
    """The used members of a ``torch.distributed.device_mesh.DeviceMesh``."""

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of its axes."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of processes along each axis."""
        ...

    def get_coordinate(self) -> list[int] | None:
        """Return this process's coordinate; None if it is not in the mesh."""
        ...


def place_in_mesh(mesh: Any, *, process: int, num_processes: int) -> tuple[int, int]:
    """Return the part of each global batch that a process reads, and the number of parts.

    Args:
        mesh: Sizes by axis name, the last running fastest over the processes; or a torch
            ``DeviceMesh``, which knows the coordinates of its processes.
        process: Number of this process.
        num_processes: Number of processes.

    Raises:
        InvalidInputError: It is not a mesh, it is a mesh of other processes, or the name of an axis
            does not show whether it splits the data.
    """
    if isinstance(mesh, Mapping):
        sizes = _checked_sizes(cast("Mapping[Any, Any]", mesh))
        _check_processes(sizes, num_processes)
        steps = [prod([*sizes.values()][axis + 1 :]) for axis in range(len(sizes))]
        coordinate = [
            process // step % size for step, size in zip(steps, sizes.values(), strict=True)
        ]
    elif isinstance(mesh, DeviceMesh):
        sizes, coordinate = _of_device_mesh(mesh)
    else:
        raise InvalidInputError(
            f"mesh= is sizes by axis name or a torch DeviceMesh, got {shown(mesh)}"
            '\nwrite mesh={"dp": 4, "tp": 2}; for a jax.sharding.Mesh give'
            " sharding=NamedSharding(mesh, PartitionSpec(…))",
            argument="mesh",
            actual=mesh,
        )
    rank, world_size = 0, 1
    for (name, size), place in zip(sizes.items(), coordinate, strict=True):
        if _splits(name):
            rank, world_size = rank * size + place, world_size * size
    return rank, world_size


def check_mesh(mesh: Any) -> None:
    """Refuse a value that is not a mesh for any number of processes.

    Raises:
        InvalidInputError: As `place_in_mesh`, but for the number of processes.
    """
    num_processes = 1
    if isinstance(mesh, Mapping):
        num_processes = prod(_checked_sizes(cast("Mapping[Any, Any]", mesh)).values())
    place_in_mesh(mesh, process=0, num_processes=num_processes)


def _checked_sizes(mesh: Mapping[Any, Any]) -> dict[str, int]:
    for name, size in mesh.items():
        is_count = is_whole_number(size) and size >= 1
        if not isinstance(name, str) or not is_count:
            raise InvalidInputError(
                "mesh= gives the number of processes along each axis, from 1 on, by its name, got"
                f' {name!r}: {shown(size)}\nwrite mesh={{"dp": 4, "tp": 2}}',
                argument="mesh",
                actual=mesh,
            )
    return {name: int(size) for name, size in mesh.items()}


def _check_processes(sizes: dict[str, int], num_processes: int) -> None:
    if prod(sizes.values()) != num_processes:
        axes = " x ".join(f"{name} {size}" for name, size in sizes.items()) or "no axis"
        raise InvalidInputError(
            f"mesh= is of {prod(sizes.values())} processes ({axes}), but there are"
            f" {num_processes}\nstart that many, and torch.distributed or jax.distributed in each;"
            " or give rank= and world_size= of the data",
            argument="mesh",
            expected=num_processes,
            actual=prod(sizes.values()),
        )


def _of_device_mesh(mesh: DeviceMesh) -> tuple[dict[str, int], list[int]]:
    names, coordinate = mesh.mesh_dim_names, mesh.get_coordinate()
    if names is None:
        raise InvalidInputError(
            f"the axes of this DeviceMesh have no names, so which split the data is unknown: {mesh}"
            '\nmake it with mesh_dim_names=("dp", "tp")',
            argument="mesh",
        )
    if coordinate is None:
        raise InvalidInputError(
            f"this process is not one of the DeviceMesh's: {mesh}"
            "\nmake loaders on the processes that train",
            argument="mesh",
        )
    return dict(zip(names, mesh.shape, strict=True)), coordinate


def _splits(name: str) -> bool:
    """Whether ranks along an axis read different rows."""
    if name in SPLIT_DATA:
        return True
    if name in REPEAT_DATA:
        return False
    raise InvalidInputError(
        f"mesh= has an axis {name!r}, of which it is unknown whether it splits the data"
        f"\naxes that split it: {', '.join(sorted(SPLIT_DATA))}"
        f"\naxes that repeat it: {', '.join(sorted(REPEAT_DATA))}"
        "\nfor others give rank= and world_size= of the data",
        argument="mesh",
        actual=name,
    )
