"""Which part of each global batch is this process's: four ways to say it, and who is asked.

    rank=, world_size=      as they say; nobody else is asked, so it may be a loader of one rank.
                            One of them alone takes the other from the framework
    mesh=                   of the processes that repeat each other's data, all have one rank
    sharding=               JAX: the rows that this process's devices hold
    none of them            the framework's own rank and world size

Two that are given must say the same: a rank that reads another's rows trains on them twice, and
nothing else would ever tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidInputError
from tensorlake.loader.mesh import place_in_mesh

if TYPE_CHECKING:
    from tensorlake.loader.arguments import LoaderArguments
    from tensorlake.loader.converter import Converter

__all__ = ["Standing", "standing_of"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A process among those that read one order.

    Attributes:
        rank: Which part of each global batch it reads.
        world_size: How many parts there are.
        has_others: Whether other processes may read the same order, to be compared with.
    """

    rank: int
    world_size: int
    has_others: bool


def standing_of(arguments: LoaderArguments, converter: Converter) -> Standing:
    """Find which part of each global batch is this process's.

    Raises:
        InvalidInputError: Two ways to say it disagree, or one is impossible.
    """
    process, num_processes = converter.rank_and_world()
    said: dict[str, tuple[int, int]] = {}
    is_numbered = arguments.rank is not None or arguments.world_size is not None
    if is_numbered:
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
    return Standing(rank, world_size, has_others=not is_numbered and num_processes > 1)


def _numbered(arguments: LoaderArguments, process: int, num_processes: int) -> tuple[int, int]:
    """Return the rank and world size, of which one may be the framework's own.

    Raises:
        InvalidInputError: One of the two is given, and the framework does not tell the other.
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
