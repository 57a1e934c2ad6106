"""Which part of each global batch is this process's, asked whenever it matters.

    rank=, world_size=      as they say; nothing else is asked, so it may be a loader of one rank.
                            One of them alone takes the other from those below
    mesh=                   of the processes that repeat each other's data, all have one rank
    sharding=               JAX: the rows that this process's devices hold
    the framework's group   torch.distributed or jax.distributed, once it is initialized
    RANK and WORLD_SIZE     of the environment, as torchrun sets them
    none of them            this process is alone

The first that answers counts. Nothing is kept from when the loader was made: a trainer joins its
processes later. Of the first three, two that are given must say the same: a rank that reads
another's rows trains on them twice, and nothing else would ever tell.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.mesh import check_mesh, place_in_mesh
from tensorlake.loader.plan.sharding import Sharding, global_batch_size_of

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.config.rank_check import Group

__all__ = ["Standing", "early_standing", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A process among those that read one order.

    Attributes:
        sharding: Which part of each global batch it reads, and of how many.
        is_told: Whether anything told so; else the process takes itself for the only one.
        compared: The processes to compare with; None where rank and world size are given.
    """

    sharding: Sharding
    is_told: bool
    compared: Group | None


def standing_of(
    arguments: LoaderArguments, converter: Converter, *, starts: bool = False
) -> Standing:
    """Find which part of each global batch is this process's, now.

    Args:
        arguments: What the user gave.
        converter: The framework's.
        starts: Whether the framework may start its devices: a pass begins.

    Raises:
        InvalidInputError: Two ways to say it disagree, one is impossible, or the environment tells
            of other processes and not which this is.
    """
    is_given = arguments.rank is not None and arguments.world_size is not None
    asks = not is_given or arguments.mesh is not None
    group = _group(converter.name, starts=starts) if asks else None
    told: tuple[int, int] | None = None
    if group is not None:
        told = group.rank, group.size
    elif asks and converter.placed is None:
        told = _of_environment()
    process, num_processes = told or (0, 1)
    said: dict[str, tuple[int, int]] = {}
    if arguments.rank is not None or arguments.world_size is not None:
        said["rank= and world_size="] = _numbered(arguments, process, num_processes)
    if arguments.mesh is not None:
        said["mesh="] = place_in_mesh(arguments.mesh, process=process, num_processes=num_processes)
    if converter.placed is not None:
        said["sharding="] = converter.placed
    if len(set(said.values())) > 1:
        each = "\n".join(f"   {word}  rank {rank} of {size}" for word, (rank, size) in said.items())
        raise InvalidInputError(
            f"{' and '.join(said)} say different parts of a batch for this process\n{each}"
            "\ngive one of them",
            actual=said,
        )
    rank, world_size = next(iter(said.values()), (process, num_processes))
    sharding = Sharding(
        rank,
        world_size,
        global_batch_size_of(arguments.batch_size, arguments.global_batch_size, world_size),
        arguments.drop_last,
        converter.equal_parts,
    )
    return Standing(sharding, is_told=bool(said or told), compared=None if is_given else group)


def early_standing(arguments: LoaderArguments, converter: Converter) -> Standing | None:
    """Find it when a loader is made, to refuse mistakes at once; None where it may still change.

    Raises:
        InvalidInputError: As `standing_of`.
    """
    is_given = arguments.rank is not None and arguments.world_size is not None
    if is_given or converter.placed is not None or _group(converter.name) is not None:
        return standing_of(arguments, converter)
    if arguments.mesh is not None:
        check_mesh(arguments.mesh)
    return None


def _group(framework: str, *, starts: bool = False) -> Group | None:
    """Ask the framework of a loader for its group, then any other that this process uses."""
    for name in ("jax", "torch") if framework == "jax" else ("torch", "jax"):
        group = None
        if name == "torch" and "torch.distributed" in sys.modules:
            from tensorlake.loader.engine.torch_group import torch_group

            group = torch_group()
        elif name == "jax" and "jax" in sys.modules:
            from tensorlake.loader.engine.jax_group import jax_group

            group = jax_group(starts=starts and framework == "jax")
        if group is not None:
            return group
    return None


def _of_environment() -> tuple[int, int] | None:
    """Return what ``RANK`` and ``WORLD_SIZE`` say; None where they say nothing.

    Variables of a scheduler alone (``SLURM_PROCID``) mean nothing: an interactive job has them too.

    Raises:
        InvalidInputError: They are no such numbers, or ``RANK`` is missing among several.
    """
    rank, world_size = (_number_of_environment(name) for name in ("RANK", "WORLD_SIZE"))
    if rank is None and world_size is not None and world_size > 1:
        raise InvalidInputError(
            f"the environment says WORLD_SIZE={world_size} and no RANK: every process would read"
            f" the rows of rank 0\nset RANK=0 … {world_size - 1}, another in each process, as"
            " torchrun does; or give rank= and world_size=",
            argument="rank",
            expected=world_size,
        )
    if rank is None or world_size is None:
        return None
    if rank >= world_size:
        raise InvalidInputError(
            f"the environment says RANK={rank}, which is not one of WORLD_SIZE={world_size}"
            f"\nset RANK=0 … {world_size - 1}, another in each process",
            argument="rank",
            expected=world_size,
            actual=rank,
        )
    return rank, world_size


def _number_of_environment(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or (name == "WORLD_SIZE" and int(text) == 0):
        raise InvalidInputError(
            f"the environment says {name}={text!r}, which is not a process number"
            f"\nunset {name}, or start the processes with torchrun, which sets it",
            argument="rank" if name == "RANK" else "world_size",
            actual=text,
        )
    return int(text)


def _numbered(arguments: LoaderArguments, process: int, num_processes: int) -> tuple[int, int]:
    """Return the rank and world size, of which one may be the one that was found.

    Raises:
        InvalidInputError: One of the two is given, and nothing tells the other.
    """
    rank, world_size = arguments.rank, arguments.world_size
    if world_size is None:
        return rank or 0, num_processes
    if rank is not None:
        return rank, world_size
    if world_size not in (1, num_processes):
        raise InvalidInputError(
            f"world_size={world_size} is given without rank=, and"
            + (
                f" there are {num_processes} processes"
                if num_processes > 1
                else " this process does not know its own: every rank would read the rows of rank 0"
            )
            + f"\ngive rank=0 … {world_size - 1} too, another on each rank",
            argument="rank",
            expected=world_size,
            actual=num_processes,
        )
    return (process if world_size == num_processes else 0), world_size
