"""The arguments of ``ds.torch()``, ``ds.jax()`` and ``ds.loader()``, for their signatures.

Type checkers read the TypedDicts; ``help()`` and editors a signature of them and of `DEFAULTS`.
`LoaderArguments` checks what was given, and a test compares it with both. It is not imported here:
a program that makes no loader does not load one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from tensorlake.errors import InvalidInputError, shown

if TYPE_CHECKING:
    import os

    from tensorlake.loader import Balance, Shuffle
    from tensorlake.quantities import Duration

__all__ = [
    "DEFAULTS",
    "JaxOptions",
    "LoaderOptions",
    "ResumeOptions",
    "TorchOptions",
    "refuse_of_rows",
]

DEFAULTS: Final[JaxOptions] = {
    "batch_size": None,
    "columns": None,
    "shuffle": False,
    "seed": None,
    "weights": None,
    "stratify": None,
    "group": None,
    "limit": None,
    "repeat": None,
    "batch_by": None,
    "balance": None,
    "placement": None,
    "decode": None,
    "transform": None,
    "batch_transform": None,
    "collate": None,
    "null": None,
    "layout": "NHWC",
    "device": None,
    "rank": None,
    "world_size": None,
    "global_batch_size": None,
    "mesh": None,
    "drop_last": False,
    "workers": None,
    "engine": "threads",
    "prefetch": "256MiB",
    "cache": "auto",
    "cache_dir": None,
    "cache_decoded": False,
    "on_error": "raise",
    "deterministic": True,
    "decode_on": "client",
    "timeout": 300.0,
    "sharding": None,
}
"""The default of each, in the order that signatures show."""


class BatchOptions(TypedDict, total=False):
    """How batches are made: the arguments of every loader (docs/reference/loader.md)."""

    batch_size: int | None
    columns: Sequence[str] | None
    decode: Mapping[str, Any] | None
    transform: Callable[..., Mapping[str, Any]] | None
    batch_transform: Callable[[dict[str, Any]], Any] | None
    collate: Mapping[str, Any] | None
    null: Mapping[str, Any] | None
    layout: Literal["NHWC", "NCHW"]
    rank: int | None
    world_size: int | None
    global_batch_size: int | None
    batch_by: str | Mapping[str, Any] | None  # "tokens", or a column: what batch_size counts; rows
    balance: Balance | None  # "tokens" or "squares": what ranks have as much of; None: rows
    placement: str | Mapping[str, Any] | None  # "home": rows to the ranks whose disks have them
    mesh: Any  # sizes by axis name, or a torch DeviceMesh
    drop_last: bool
    workers: int | None
    engine: Literal["threads", "processes"]
    prefetch: int | str
    cache: int | str | Mapping[str, int | str]  # of memory; or by tier: "memory", "disk"
    cache_dir: str | os.PathLike[str] | None
    cache_decoded: bool
    on_error: Literal["raise", "skip"]
    deterministic: bool
    decode_on: Literal["client", "server"]
    timeout: Duration


class LoaderOptions(BatchOptions, total=False):
    """The arguments of ``ds.loader()``: also the order, which a state has."""

    shuffle: Shuffle
    seed: int | None
    weights: Any  # a column, numbers by row, weights by class of a column, a function of these
    stratify: str | None
    group: str | None
    limit: int | None
    repeat: int | None


class TorchOptions(LoaderOptions, total=False):
    """The arguments of ``ds.torch()``."""

    device: Any  # as the framework names a device


class JaxOptions(TorchOptions, total=False):
    """The arguments of ``ds.jax()``."""

    sharding: Any  # a jax.sharding.Sharding


class ResumeOptions(BatchOptions, total=False):
    """The arguments of ``tl.loader_from_state()``, of any framework."""

    device: Any
    sharding: Any


def refuse_of_rows(given: Mapping[str, Any], units: str, advice: Mapping[str, str]) -> None:
    """Refuse arguments about rows, which batches of units do not have.

    Args:
        given: The arguments of a loader.
        units: Words for its units: "sequences of tokens".
        advice: The arguments that are refused, and what to write instead.

    Raises:
        InvalidInputError: One of them is given.
    """
    for name, remedy in advice.items():
        value = given.get(name)
        is_default = value is None or (isinstance(value, str) and value == DEFAULTS.get(name))
        if not is_default:
            raise InvalidInputError(
                f"{name}={shown(value)} is about rows, and batches have {units}\n{remedy}",
                argument=name,
                actual=value,
            )
