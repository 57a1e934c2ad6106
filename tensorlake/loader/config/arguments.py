"""The arguments of ``ds.torch()``, ``ds.jax()`` and the like: checked once, then a value.

Keywords of other libraries (``num_workers``, ``collate_fn``, ``sampler``) raise an error that names
ours. No keyword is silently ignored.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader.config.column_plan import VALID
from tensorlake.loader.plan.balance import Balance
from tensorlake.loader.plan.order import Shuffle
from tensorlake.loader.plan.plan import SEED_STOP
from tensorlake.loader.runtime.memory import memory_nbytes
from tensorlake.quantities import (
    check_flags,
    checked_integer,
    is_whole_number,
    parse_nbytes,
    seconds_of,
)
from tensorlake.storage import usable_cores

__all__ = ["Framework", "LoaderArguments", "parse_arguments"]

Framework = Literal["numpy", "torch", "jax", "tensorflow"]

OUR_WORDS = {
    "num_workers": "workers=, which counts decode threads; no worker process is needed",
    "collate_fn": "collate={'name': 'list' | 'pad' | 'concat' | function}",
    "sampler": "shuffle=, weights=, stratify= or group=, and a view for which rows: ds.query(…)",
    "batch_sampler": "batch_size=, batch_by=, drop_last= and shuffle=",
    "pin_memory": "device='cuda', which pins and copies ahead",
    "persistent_workers": "workers= alone: threads start within a millisecond",
    "prefetch_factor": "prefetch='256MiB'",
    "worker_init_fn": "transform= with a parameter rng",
    "generator": "seed=",
    "shuffle_buffer": "shuffle='window'",
    "world": "world_size=",
}
LEAST: dict[str, int] = {
    **dict.fromkeys(
        ("batch_size", "global_batch_size", "workers", "world_size", "limit", "repeat"), 1
    ),
    **dict.fromkeys(("rank", "seed"), 0),
}
"""The arguments that are counts, with their minimum."""
MOST: dict[str, int] = {"seed": SEED_STOP - 1}
"""Upper bounds of some of them."""
CHOICES: dict[str, tuple[bool | str | None, ...]] = {
    "shuffle": (True, False, "full", "window"),
    "balance": (None, "tokens", "squares"),
    "layout": ("NHWC", "NCHW"),
    "on_error": ("raise", "skip"),
    "engine": ("threads", "processes"),
    "decode_on": ("client", "server"),
}
WORKERS_LIMIT = 1024  # systems refuse thousands of threads, after some of them have started
TIMEOUT_LIMIT_S = threading.TIMEOUT_MAX
TIERS = ("memory", "disk")  # of the cache
MAX_WORKERS = 32  # more decode threads than this wait for each other in the interpreter


@dataclass(frozen=True, slots=True)
class LoaderArguments:
    """The arguments of a loader, as given by the user."""

    batch_size: int | None = None
    columns: Sequence[str] | None = None
    shuffle: Shuffle = False
    seed: int | None = None
    weights: Any = None  # a column's name, numbers by row, or weights by class; see class_mix.py
    stratify: str | None = None
    group: str | None = None
    limit: int | None = None
    repeat: int | None = None
    # What batch_size counts: None: rows; "tokens", or a column; or as a state recorded it.
    batch_by: str | Mapping[str, Any] | None = None
    balance: Balance | None = None  # what ranks have as much of; rows
    placement: str | Mapping[str, Any] | None = None  # "home", or as a state recorded it
    decode: Mapping[str, Any] | None = None
    transform: Callable[..., Mapping[str, Any]] | None = None  # one row in, one row out
    batch_transform: Callable[[dict[str, Any]], Any] | None = None
    collate: Mapping[str, Any] | None = None
    null: Mapping[str, Any] | None = None
    layout: Literal["NHWC", "NCHW"] = "NHWC"
    device: Any = None  # as the framework names a device
    rank: int | None = None
    world_size: int | None = None
    global_batch_size: int | None = None
    mesh: Any = None  # sizes by axis name, or a torch DeviceMesh
    drop_last: bool = False
    workers: int | None = None
    engine: Literal["threads", "processes"] = "threads"  # where a transform runs
    prefetch: int | str = "256MiB"
    cache: int | str | Mapping[str, int | str] = "auto"  # of memory, or by tier: memory, disk
    cache_dir: str | os.PathLike[str] | None = None
    cache_decoded: bool = False
    on_error: Literal["raise", "skip"] = "raise"
    deterministic: bool = True
    decode_on: Literal["client", "server"] = "client"
    timeout: Any = 300.0  # a duration, until it is parsed; then seconds
    sharding: Any = None  # a jax.sharding.Sharding

    @property
    def worker_count(self) -> int:
        """Number of decode threads: as given, else one per core that this process may use."""
        if self.workers is not None:
            return self.workers
        return min(MAX_WORKERS, usable_cores())

    @property
    def asks_valid(self) -> bool:
        """Whether every batch is to mark which of its rows are valid."""
        return VALID in (self.columns or ())

    @property
    def prefetch_nbytes(self) -> int:
        """Maximum bytes buffered between fetch and user."""
        return memory_nbytes(self.prefetch, name="prefetch")

    @property
    def cache_nbytes(self) -> int:
        """Maximum bytes in the memory tier."""
        return memory_nbytes(self._cache_size("memory"), name="cache")

    @property
    def disk_nbytes(self) -> int | None:
        """Maximum bytes in the disk tier; None: as the disk has room."""
        size = self._cache_size("disk")
        return None if size == "auto" else parse_nbytes(size, name="cache")

    @property
    def placement_nbytes(self) -> int | None:
        """Bytes of the disk tier by which rows are placed; None: as recorded, or they are not."""
        return self.disk_nbytes if self.placement == "home" else None

    def _cache_size(self, tier: str) -> int | str:
        if isinstance(self.cache, Mapping):
            return self.cache.get(tier, "auto")
        return self.cache if tier == "memory" else "auto"


def parse_arguments(framework: Framework, given: Mapping[str, Any]) -> LoaderArguments:
    """Check a user's arguments.

    Raises:
        InvalidInputError: A keyword belongs to another library, is unknown, or has an invalid
            value.
    """
    known = set(LoaderArguments.__dataclass_fields__)
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            taken[name] = _count(name, value) if name in LEAST else _plain(value)
        elif name in OUR_WORDS:
            raise InvalidInputError(
                f"a loader has no {name!r} (got {shown(value)})\nuse {OUR_WORDS[name]}",
                argument=name,
            )
        else:
            slip = did_you_mean(name, known)
            raise InvalidInputError(
                f"a loader has no {name!r} (got {shown(value)}){slip}"
                f"\nit takes {', '.join(sorted(known))}",
                argument=name,
            )
    arguments = LoaderArguments(**taken)
    _check(framework, arguments)
    return replace(arguments, timeout=_timeout_s(arguments.timeout))


def _check(framework: Framework, arguments: LoaderArguments) -> None:
    for name, allowed in CHOICES.items():
        value = getattr(arguments, name)
        is_known = value is None or isinstance(value, bool | str)  # 1 is not True here
        if not is_known or value not in allowed:
            raise InvalidInputError(
                f"{name} is one of {', '.join(map(repr, allowed))}, got {shown(value)}",
                argument=name,
                actual=value,
            )
    _check_kinds(arguments)
    for name in ("transform", "batch_transform"):
        value = getattr(arguments, name)
        if value is not None and not callable(value):
            raise InvalidInputError(
                f"{name} is a function of a row or batch (a dict), got {shown(value)}", actual=value
            )
    if arguments.sharding is not None and framework != "jax":
        raise InvalidInputError(
            f"sharding= is for ds.jax(); this loader is for {framework}"
            "\ngive rank= and world_size=",
            actual=arguments.sharding,
        )
    if arguments.device is not None and framework in ("numpy", "tensorflow"):
        instead = "tf.data.experimental.prefetch_to_device" if framework == "tensorflow" else ""
        raise InvalidInputError(
            f"device={shown(arguments.device)}: batches for {framework} are in main"
            f" memory\nuse {instead or 'ds.torch(device=…)'}",
            actual=arguments.device,
        )
    _check_cache(arguments)
    _check_placement(arguments)
    # refuse what cannot be parsed
    _ = arguments.prefetch_nbytes, arguments.cache_nbytes, arguments.disk_nbytes


def _check_cache(arguments: LoaderArguments) -> None:
    folder, size = arguments.cache_dir, arguments.cache
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
        raise InvalidInputError(
            f"cache_dir is the path of a folder on a local disk, got {shown(folder)}"
            "\nwrite cache_dir='/nvme/cache'",
            argument="cache_dir",
            actual=folder,
        )
    if folder is not None and "://" in os.fspath(folder):
        raise InvalidInputError(
            f"cache_dir is the path of a folder on a local disk, got the URL {shown(folder)}",
            argument="cache_dir",
            actual=folder,
        )
    if arguments.cache_decoded and (folder is None or arguments.decode_on == "server"):
        reason = "it needs cache_dir=" if folder is None else "the server decodes"
        raise InvalidInputError(
            f"cache_decoded=True keeps decoded images on a local disk, but {reason}"
            + ("\nadd cache_dir=, a folder on a local disk" if folder is None else "")
            + ("" if folder is None else "\ngive decode_on='client', or leave cache_decoded out"),
            argument="cache_decoded",
            actual=True,
        )
    if not isinstance(size, Mapping):
        return
    unknown = [name for name in size if name not in TIERS]
    if unknown:
        raise InvalidInputError(
            f"cache has sizes of {' and '.join(map(repr, TIERS))}, got one of {shown(unknown[0])}"
            "\nwrite cache={'memory': '8GiB', 'disk': '500GiB'}",
            argument="cache",
            actual=size,
        )
    if "disk" in size and folder is None:
        raise InvalidInputError(
            f"cache has a size of the disk tier, {shown(size['disk'])}, but cache_dir is not given"
            "\nadd cache_dir=, a folder on a local disk",
            argument="cache",
            actual=size,
        )


def _check_placement(arguments: LoaderArguments) -> None:
    """Refuse a placement that cannot be the same on all ranks."""
    given = arguments.placement
    if given is None:
        return
    if isinstance(given, Mapping):
        capacity, units = given.get("capacity"), given.get("rows_per_unit")
        each: Sequence[Any] = units if isinstance(units, list | tuple) and units else [units]
        is_known = isinstance(capacity, float | int) and 0 <= capacity <= 1
        is_known = is_known and all(is_whole_number(one) and one >= 1 for one in each)
    else:
        is_known = isinstance(given, str) and given == "home"
    if not is_known:
        raise InvalidInputError(
            f"placement is 'home', or None, got {shown(given)}", argument="placement", actual=given
        )
    if isinstance(given, str) and arguments.disk_nbytes is None:
        raise InvalidInputError(
            "placement='home' depends on the size of each node's cache, which has to be the same on"
            " all ranks\ngive it: cache={'disk': '500GiB'}, cache_dir='/nvme/cache'",
            argument="placement",
        )


def _check_kinds(arguments: LoaderArguments) -> None:
    """Refuse values of a wrong type at entry, naming the argument."""
    if arguments.workers is not None and arguments.workers > WORKERS_LIMIT:
        raise InvalidInputError(
            f"workers counts threads that decode, at most {WORKERS_LIMIT}, got"
            f" {shown(arguments.workers)}\nleave it out: decoding uses one thread per core",
            argument="workers",
            actual=arguments.workers,
        )
    by: Any = arguments.batch_by
    if isinstance(by, Mapping):
        is_column = isinstance(by.get("column"), str)
        is_column = is_column and is_whole_number(by.get("parts")) and by["parts"] >= 1
    else:
        is_column = by is None or isinstance(by, str)
    if not is_column:
        raise InvalidInputError(
            "batch_by is 'tokens', or the name of a column of lists, got"
            f" {shown(arguments.batch_by)}",
            argument="batch_by",
            actual=arguments.batch_by,
        )
    check_flags(
        drop_last=arguments.drop_last,
        deterministic=arguments.deterministic,
        cache_decoded=arguments.cache_decoded,
    )
    columns: Any = arguments.columns
    is_list = columns is None or (isinstance(columns, Sequence) and not isinstance(columns, str))
    if not is_list or not all(isinstance(name, str) for name in columns or ()):
        write = f"\nwrite columns=[{shown(columns)}]" if isinstance(columns, str) else ""
        raise InvalidInputError(
            f"columns is a list of names, got {shown(columns)}{write}",
            argument="columns",
            actual=columns,
        )
    for name in ("decode", "collate", "null"):
        value = getattr(arguments, name)
        if value is not None and not isinstance(value, Mapping):
            examples = {"decode": "tl.decode.Resize(224, 224)", "collate": "'pad'", "null": "0"}
            example = examples[name]
            raise InvalidInputError(
                f"{name} must be a mapping by column name, got {shown(value)}"
                f"\nwrite {name}={{'image': {example}}}",
                argument=name,
                actual=value,
            )


def _timeout_s(timeout: Any) -> float:
    seconds = seconds_of(timeout, what="timeout")
    if not 0 < seconds <= TIMEOUT_LIMIT_S:
        raise InvalidInputError(
            f"timeout is a duration above 0 and at most {TIMEOUT_LIMIT_S:.0f} s,"
            f" got {shown(timeout)}",
            argument="timeout",
            actual=timeout,
        )
    return seconds


def _plain(value: Any) -> Any:
    return bool(value) if isinstance(value, np.bool_) else value


def _count(name: str, value: Any) -> int | None:
    if value is None:
        return None
    return checked_integer(value, name=name, least=LEAST[name], most=MOST.get(name))
