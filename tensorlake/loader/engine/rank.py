"""This process's part of each global batch, determined whenever it is needed.

    rank=, world_size=      used as given; nothing else is consulted, so one rank alone is possible.
                            If only one is given, the other comes from the sources below
    mesh=                   processes that repeat each other's data share a rank
    sharding=               JAX: the rows that this process's devices hold
    the framework's group   torch.distributed or jax.distributed, once it is initialized
    TF_CONFIG               of the environment, for TensorFlow: the cluster of tf.distribute
    RANK and WORLD_SIZE     of the environment, as torchrun sets them
    none of them            this process is the only one

The first source with an answer is used. Nothing is cached from the loader's construction: a trainer
joins its processes later. If two of the first three are given, they must agree: a rank that reads
another's rows trains on them twice, which nothing else would detect.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.config.mesh import check_mesh, place_in_mesh
from tensorlake.loader.plan.sharding import Sharding, global_batch_size_of

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.config.rank_check import Group

__all__ = ["ProcessRank", "early_process_rank", "pickled_rank", "process_rank_of"]


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The rank of a process among those that read one order.

    Attributes:
        sharding: The part of each global batch that it reads, and the number of parts.
        is_known: Whether a source determined it; otherwise the process assumes to be the only one.
        compared: The processes to compare with; None if rank and world size are given.
    """

    sharding: Sharding
    is_known: bool
    compared: Group | None


def process_rank_of(
    arguments: LoaderArguments, converter: Converter, *, starts: bool = False
) -> ProcessRank:
    """Determine this process's current part of each global batch.

    Args:
        arguments: The user's arguments.
        converter: The framework's converter.
        starts: Whether the framework may start its devices: a pass begins.

    Raises:
        InvalidInputError: Two sources disagree, one is impossible, or the environment names other
            processes and not this process's rank.
    """
    is_given = arguments.rank is not None and arguments.world_size is not None
    asks = not is_given or arguments.mesh is not None
    group = _group(converter.name, starts=starts) if asks else None
    found: tuple[int, int] | None = None
    if group is not None:
        found = group.rank, group.size
    elif asks and converter.placed is None:
        found = _of_cluster(converter.name) or _of_environment()
    process, num_processes = found or (0, 1)
    given: dict[str, tuple[int, int]] = {}
    if arguments.rank is not None or arguments.world_size is not None:
        given["rank= and world_size="] = _numbered(arguments, process, num_processes)
    if arguments.mesh is not None:
        given["mesh="] = place_in_mesh(arguments.mesh, process=process, num_processes=num_processes)
    if converter.placed is not None:
        given["sharding="] = converter.placed
    if len(set(given.values())) > 1:
        each = "\n".join(
            f"   {word}  rank {rank} of {size}" for word, (rank, size) in given.items()
        )
        raise InvalidInputError(
            f"{' and '.join(given)} give this process different parts of a batch\n{each}"
            "\ngive one of them",
            actual=given,
        )
    rank, world_size = next(iter(given.values()), (process, num_processes))
    sharding = Sharding(
        rank,
        world_size,
        global_batch_size_of(arguments.batch_size, arguments.global_batch_size, world_size),
        arguments.drop_last,
        # of rows: batches by tokens have as many rows as can be divided
        converter.equal_parts if arguments.batch_by is None else 1,
    )
    return ProcessRank(
        sharding, is_known=bool(given or found), compared=None if is_given else group
    )


def pickled_rank(process_rank: ProcessRank, arguments: LoaderArguments) -> dict[str, Any]:
    """Return the arguments of a pickled loader that keep its current rank, if one is known."""
    if arguments.sharding is not None or not process_rank.is_known:
        return {}
    known = process_rank.sharding
    own: dict[str, Any] = {"rank": known.rank, "world_size": known.world_size}
    if arguments.mesh is not None:  # a mesh is of this program's processes only
        own["mesh"] = None
    return own


def early_process_rank(arguments: LoaderArguments, converter: Converter) -> ProcessRank | None:
    """Determine it when a loader is made, to refuse mistakes early; None if it may still change.

    Raises:
        InvalidInputError: As `process_rank_of`.
    """
    is_given = arguments.rank is not None and arguments.world_size is not None
    if is_given or converter.placed is not None or _group(converter.name) is not None:
        return process_rank_of(arguments, converter)
    if arguments.mesh is not None:
        check_mesh(arguments.mesh)
    return None


def _group(framework: str, *, starts: bool = False) -> Group | None:
    """Return the group of a loader's framework, else of any other framework in this process."""
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


def _of_cluster(framework: str) -> tuple[int, int] | None:
    """Return rank and world size of TensorFlow's ``TF_CONFIG``; None if it is not set.

    Its processes that train are the chief, if there is one, and the workers.

    Raises:
        InvalidInputError: It is not valid, or this process is not one that trains.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if framework != "tensorflow" or not text:
        return None
    try:
        config: dict[str, Any] = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        sizes = {name: len(cluster.get(name, ())) for name in ("chief", "worker")}
        if not sum(sizes.values()):
            return None
        kind, index = task["type"], int(task["index"])
        is_trained = index in range(sizes[kind])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_in_cluster(text) from error
    if not is_trained:
        raise _not_in_cluster(text)
    return index + (sizes["chief"] if kind == "worker" else 0), sum(sizes.values())


def _not_in_cluster(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"the environment has TF_CONFIG={shown(text)}, by which this process is none of the"
        " cluster's chief and workers\nset its task in each process, such as"
        ' {"type": "worker", "index": 0}; or give rank= and world_size=',
        argument="rank",
        actual=text,
    )


def _of_environment() -> tuple[int, int] | None:
    """Return rank and world size from ``RANK`` and ``WORLD_SIZE``; None if they are not set.

    Variables of a scheduler (``SLURM_PROCID``) are ignored: an interactive job has them too.

    Raises:
        InvalidInputError: They are not valid, or ``RANK`` is missing with several processes.
    """
    rank, world_size = (_number_of_environment(name) for name in ("RANK", "WORLD_SIZE"))
    if rank is None and world_size is not None and world_size > 1:
        raise InvalidInputError(
            f"the environment has WORLD_SIZE={world_size} and no RANK: every process would read"
            f" the rows of rank 0\nset RANK=0 … {world_size - 1}, a different one in each process,"
            " as torchrun does; or give rank= and world_size=",
            argument="rank",
            expected=world_size,
        )
    if rank is None or world_size is None:
        return None
    if rank >= world_size:
        raise InvalidInputError(
            f"the environment has RANK={rank}, which is not below WORLD_SIZE={world_size}"
            f"\nset RANK=0 … {world_size - 1}, a different one in each process",
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
            f"the environment has {name}={text!r}, which is not a process number"
            f"\nunset {name}, or start the processes with torchrun, which sets it",
            argument="rank" if name == "RANK" else "world_size",
            actual=text,
        )
    return int(text)


def _numbered(arguments: LoaderArguments, process: int, num_processes: int) -> tuple[int, int]:
    """Return the rank and world size, completing one of them from the process group.

    Raises:
        InvalidInputError: One of the two is given, and no source has the other.
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
                else " this process's own rank is unknown: every rank would read the rows of rank 0"
            )
            + f"\ngive rank=0 … {world_size - 1} too, a different one on each rank",
            argument="rank",
            expected=world_size,
            actual=num_processes,
        )
    return (process if world_size == num_processes else 0), world_size
