"""The loaders of plan version 2 whose states and orders were recorded, and what they read.

A case names the rows, the arguments of their loader, and where its state was taken.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl

__all__ = [
    "CASES",
    "DATASETS",
    "RECORDED",
    "SOURCES",
    "WEIGHTS",
    "OrderCase",
    "Sources",
    "loaders_of",
    "opened_sources",
]

RECORDED = Path(__file__).with_name("states.json")
DATASETS = Path(__file__).with_name("datasets.tar.xz")
SOURCES = {"ds": (120, 11), "few": (30, 23)}  # rows, and the lengths of their tokens: below this
WEIGHTS = np.arange(120) % 7 / 2


@dataclass(frozen=True)
class Sources:
    """Datasets of the same columns: ``few`` has fewer and longer rows."""

    ds: tl.Dataset
    few: tl.Dataset


def opened_sources(folder: Path) -> Sources:
    """Extract the datasets of all cases to a folder, and open them."""
    with tarfile.open(DATASETS) as archive:
        archive.extractall(folder, filter="data")
    return Sources(*(tl.open((folder / name).as_posix(), read_only=True) for name in SOURCES))


@dataclass(frozen=True)
class OrderCase:
    """One loader, and where its state was taken.

    Attributes:
        rows: What it reads.
        batches: How many global batches were handed out before the state was taken.
        world: By how many ranks.
        order: Put into the state before the rest is recorded; no small dataset gets such windows.
        is_dealt: Whether the places of a global batch are dealt to ranks; others get parts of it.
    """

    rows: Callable[[Sources], Any]
    arguments: Mapping[str, Any]
    batches: int = 3
    world: int = 1
    order: Mapping[str, Any] | None = None
    is_dealt: bool = False
    columns: tuple[str, ...] | None = ("id",)


def loaders_of(
    case: OrderCase, sources: Sources, world: int, batch_size: int | None = None
) -> list[tl.Loader]:
    """Make the loaders of all ranks."""
    arguments = dict(case.arguments)
    if batch_size is not None:
        arguments["batch_size"] = batch_size
    if case.columns is not None:
        arguments["columns"] = [*case.columns, "_valid"]
    return [
        case.rows(sources).loader(rank=rank, world_size=world, workers=1, **arguments)
        for rank in range(world)
    ]


def _ds(sources: Sources) -> tl.Dataset:
    return sources.ds


def _mix(by: Any = "rows", stop: Any = "all") -> Callable[[Sources], tl.Mix]:
    return lambda s: tl.mix({"ds": (s.ds, 0.6), "few": (s.few, 0.4)}, by=by, stop=stop)


def _staged(sources: Sources) -> tl.Mix:
    first = {"ds": (sources.ds, 3), "few": (sources.few, 1)}
    then = {"few": (sources.few, 1), "ten": (sources.ds[:10], 1)}
    stages = [(50, tl.mix(then, stop="never"))]
    return tl.mix(first, stages=stages, stop="never")


def _nested(sources: Sources) -> tl.Mix:
    inner = tl.mix({"few": (sources.few, 1), "ten": (sources.ds[:10], 2)})
    return tl.mix({"ds": (sources.ds, 0.5), "inner": (inner, 0.5)}, stop="all")


_SHUFFLED = {"batch_size": 8, "shuffle": True, "seed": 7}
_BY_TOKENS = {"batch_size": 40, "batch_by": "tokens", "shuffle": True, "seed": 7}
_MIXED = ("_source", "id")
_WINDOW = {"kind": "window", "block": 4, "window": 3}

CASES: dict[str, OrderCase] = {
    "weights of a column": OrderCase(_ds, {**_SHUFFLED, "weights": "w"}, world=2),
    "weights of an array, in order": OrderCase(_ds, {"batch_size": 10, "weights": WEIGHTS}),
    "balanced classes": OrderCase(_ds, {**_SHUFFLED, "weights": {"label": "balanced"}}),
    "classes by factors": OrderCase(
        _ds, {**_SHUFFLED, "weights": {"label": {"owl": 3.0, "dog": 0}}}, 5
    ),
    "stratified": OrderCase(_ds, {**_SHUFFLED, "stratify": "label"}, world=3),
    "grouped": OrderCase(_ds, {**_SHUFFLED, "group": "key"}),
    "repeated and limited": OrderCase(_ds, {**_SHUFFLED, "repeat": 3, "limit": 200}, 17),
    "stratified, repeated and limited": OrderCase(
        _ds, {**_SHUFFLED, "stratify": "label", "repeat": 2, "limit": 150}, 16
    ),
    "full": OrderCase(_ds, {**_SHUFFLED, "shuffle": "full"}),
    "window": OrderCase(_ds, {**_SHUFFLED, "shuffle": "window"}, order=_WINDOW, is_dealt=True),
    "window on two ranks": OrderCase(
        _ds, {**_SHUFFLED, "shuffle": "window"}, world=2, order=_WINDOW, is_dealt=True
    ),
    "in batches by tokens": OrderCase(_ds, _BY_TOKENS, 5),
    "in batches by tokens, balanced": OrderCase(
        _ds, {**_BY_TOKENS, "balance": "squares"}, world=2, is_dealt=True
    ),
    "balanced ranks": OrderCase(
        _ds, {**_SHUFFLED, "balance": "tokens"}, world=2, is_dealt=True
    ),
    "packed": OrderCase(
        lambda s: s.ds.pack("tokens", 16, eos=0, mask="turns"),
        {**_SHUFFLED, "batch_size": 4}, world=2, columns=None,
    ),
    "packed whole": OrderCase(
        lambda s: s.ds.pack("tokens", 16, split=False),
        {**_SHUFFLED, "batch_size": 4}, columns=None,
    ),
    "windows by a key": OrderCase(
        lambda s: s.ds.windows(["id"], by="key", size=4, step=3, tail="pad"),
        _SHUFFLED, 2, columns=None,
    ),
    "windows of arrays": OrderCase(
        lambda s: s.ds.windows(["tokens"], size=3, stride=2), _SHUFFLED, 4, columns=None
    ),
    "mix": OrderCase(_mix(), _SHUFFLED, world=2, columns=_MIXED),
    "mix by tokens": OrderCase(_mix("tokens", "never"), _SHUFFLED, columns=_MIXED),
    "mix in stages, before them": OrderCase(_staged, _SHUFFLED, columns=_MIXED),
    "mix in stages, within one": OrderCase(_staged, _SHUFFLED, 9, world=2, columns=_MIXED),
    "mix of a mix": OrderCase(_nested, _SHUFFLED, 6, columns=_MIXED),
    "packed mix": OrderCase(
        lambda s: _mix("tokens")(s).pack("tokens", 16, eos=0),
        {**_SHUFFLED, "batch_size": 4}, columns=None,
    ),
    "limited mix": OrderCase(_mix(), {**_SHUFFLED, "limit": 60}, columns=_MIXED),
    "limited mix in stages": OrderCase(
        _staged, {**_SHUFFLED, "limit": 120}, 6, world=2, columns=_MIXED
    ),
    "packed, weighted": OrderCase(
        lambda s: s.ds.pack("tokens", 16, eos=0),
        {**_SHUFFLED, "batch_size": 4, "weights": "w"}, world=2, columns=None,
    ),
    "packed, stratified, repeated and limited": OrderCase(
        lambda s: s.ds.pack("tokens", 16, eos=0),
        {**_SHUFFLED, "batch_size": 4, "stratify": "label", "repeat": 2, "limit": 60}, 12,
        columns=None,
    ),
    "packed whole, grouped": OrderCase(
        lambda s: s.ds.pack("tokens", 16, split=False),
        {**_SHUFFLED, "batch_size": 4, "group": "key"}, columns=None,
    ),
    "packed whole, by classes": OrderCase(
        lambda s: s.ds.pack("tokens", 16, eos=0, split=False),
        {**_SHUFFLED, "batch_size": 4, "weights": {"label": "balanced"}, "repeat": 2},
        columns=None,
    ),
    "windows by a key, weighted by class": OrderCase(
        lambda s: s.ds.windows(["id"], by="key", size=4, step=3, tail="pad"),
        {**_SHUFFLED, "weights": {"label": {"owl": 3.0}}}, 2, columns=None,
    ),
    "windows of arrays, grouped and repeated": OrderCase(
        lambda s: s.ds.windows(["tokens"], size=3, stride=2),
        {**_SHUFFLED, "group": "key", "repeat": 2}, 14, columns=None,
    ),
    "packed mix, whole": OrderCase(
        lambda s: _mix("tokens")(s).pack("tokens", 16, eos=0, split=False),
        {**_SHUFFLED, "batch_size": 4}, columns=None,
    ),
}  # fmt: skip
