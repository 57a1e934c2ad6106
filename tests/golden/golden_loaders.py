"""The loaders whose states and orders release 0.1.0 recorded, and how their batches are gathered.

A case names what is read, with which loader, and where its state was taken. The rows that come
after it are the same for every number of ranks and every batch size: the ranks' shares of each
global batch, one after the other, are the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl

__all__ = ["CASES", "ENDLESS_ROWS", "LEFT", "RIGHT", "Case", "gathered", "ranks_of", "take_batch"]

LEFT, RIGHT = 1000, 300
ENDLESS_ROWS = 400  # recorded of a mix that never ends


def _draws(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"id": row["id"], "drawn": rng.integers(0, 2**31, 2)}


def _more_later(place: int) -> float:
    return 0.25 if place < 65_536 else 0.75


@dataclass(frozen=True)
class Case:
    """One loader, and where its state was taken.

    Attributes:
        opened: Opens what it reads, given the folder of the datasets.
        batches: How many global batches were handed out before the state was taken.
        world: By how many ranks.
        order: Put into the state before the rest is recorded; no small dataset gets such windows.
        any_batches: Whether any batch size gives the same rows.
    """

    opened: Callable[[Path], Any]
    arguments: Mapping[str, Any]
    batches: int
    framework: str = "loader"
    world: int = 1
    epoch: int = 0
    skipped: int = 0
    order: Mapping[str, Any] | None = None
    any_batches: bool = True
    again: bool = False  # loader_from_state makes it
    columns: tuple[str, ...] = ("id", "_row")
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def loader(self, folder: Path, *, world: int, rank: int, batch_size: int | None = None) -> Any:
        """Make the loader of one rank."""
        arguments = dict(self.arguments) | self.more
        arguments["batch_size"] = batch_size or arguments["batch_size"]
        columns = [*self.columns, "_valid"]
        return getattr(self.opened(folder), self.framework)(
            columns=columns, rank=rank, world_size=world, workers=1, **arguments
        )


def take_batch(passes: list[Iterator[Any]]) -> list[list[Any]] | None:
    """Return one global batch as rows of plain values; None at the end."""
    batches = [next(one, None) for one in passes]
    if batches[0] is None:
        return None
    rows: list[list[Any]] = []
    for batch in batches:
        valid = np.asarray(batch.pop("_valid", True))  # a loader of windows has none
        names = sorted(batch)
        columns = [np.asarray(batch[name]) for name in names]
        columns = [(column[valid] if valid.ndim else column).tolist() for column in columns]
        rows += [list(row) for row in zip(*columns, strict=True)]
    return rows


def gathered(
    loaders: list[Any], *, passes: list[Iterator[Any]] | None = None, at_most: int | None = None
) -> list[list[Any]]:
    """Return the rows of the ranks' next pass, or of the one under way, in their places' order."""
    passes = [iter(one) for one in loaders] if passes is None else passes
    rows: list[list[Any]] = []
    while at_most is None or len(rows) < at_most:
        batch = take_batch(passes)
        if batch is None:
            return rows
        rows += batch
    return rows[:at_most]


def ranks_of(case: Case, folder: Path, world: int, batch_size: int | None = None) -> list[Any]:
    """Make the loaders of all ranks."""
    return [
        case.loader(folder, world=world, rank=rank, batch_size=batch_size) for rank in range(world)
    ]


def _dataset(name: str) -> Callable[[Path], tl.Dataset]:
    return lambda folder: tl.open((folder / name).as_posix(), read_only=True)


def _left(change: Callable[[tl.Dataset], Any]) -> Callable[[Path], Any]:
    return lambda folder: change(_dataset("left")(folder))


def _mix(stop: str, weights: tuple[Any, Any]) -> Callable[[Path], Any]:
    return lambda folder: tl.mix(
        {
            "left": (_dataset("left")(folder), weights[0]),
            "right": (_dataset("right")(folder), weights[1]),
        },
        stop=stop,
    )


_FULL = {"shuffle": "full", "seed": 7}
_MIXED = ("_source", "id")

CASES: dict[str, Case] = {
    "in order": Case(_dataset("left"), {"batch_size": 50}, 3, again=True),
    "full": Case(_dataset("left"), {"batch_size": 32, **_FULL}, 5, again=True),
    "full of the largest seed": Case(
        _dataset("left"), {"batch_size": 100, "shuffle": "full", "seed": 2**64 - 1}, 2
    ),
    "shuffled by default": Case(
        _dataset("left"), {"batch_size": 64, "shuffle": True, "seed": 3}, 1
    ),
    "full on two ranks": Case(_dataset("left"), {"batch_size": 24, **_FULL}, 4, world=2),
    "full on three ranks, torch": Case(
        _dataset("left"), {"batch_size": 17, **_FULL}, 6, "torch", world=3, again=True
    ),
    "window": Case(_dataset("left"), {"batch_size": 32, "shuffle": "window", "seed": 7}, 5),
    "window of many blocks": Case(
        _dataset("left"),
        {"batch_size": 32, "shuffle": "window", "seed": 7},
        5,
        order={"kind": "window", "block": 16, "window": 4},
    ),
    "window of many blocks, torch, two ranks": Case(
        _dataset("left"),
        {"batch_size": 10, "shuffle": "window", "seed": 8},
        9,
        "torch",
        world=2,
        order={"kind": "window", "block": 7, "window": 3},
    ),
    "nothing handed out yet": Case(_dataset("left"), {"batch_size": 40, **_FULL}, 0, epoch=4),
    "an epoch handed out": Case(_dataset("right"), {"batch_size": 100, **_FULL}, 3),
    "the fifth epoch": Case(_dataset("right"), {"batch_size": 16, **_FULL}, 7, epoch=5),
    "without the short last batch": Case(
        _dataset("left"), {"batch_size": 96, "drop_last": True, **_FULL}, 4, any_batches=False
    ),
    "after a skip": Case(_dataset("left"), {"batch_size": 30, **_FULL}, 2, skipped=3),
    "a query": Case(
        _left(lambda ds: ds.query("WHERE id >= $low", low=500)),
        {"batch_size": 32, **_FULL}, 3, again=True,
    ),
    "a saved view": Case(
        _left(lambda ds: ds.views["chosen"]), {"batch_size": 20, **_FULL}, 3, "torch", again=True
    ),
    "repeated rows": Case(
        _left(lambda ds: ds[[5, 1, 1, 900, *range(40, 90)]]), {"batch_size": 8, **_FULL}, 2
    ),
    "an older version": Case(
        _left(lambda ds: ds.at("main@1")), {"batch_size": 64, **_FULL}, 2, again=True
    ),
    "mix to the first end": Case(
        _mix("first", (0.75, 0.25)), {"batch_size": 32, **_FULL}, 6, columns=_MIXED
    ),
    "mix to the last end, torch, two ranks": Case(
        _mix("all", (0.5, 0.5)), {"batch_size": 25, **_FULL}, 9, "torch", world=2, columns=_MIXED
    ),
    "mix without end": Case(
        _mix("never", (3, 1)), {"batch_size": 50, **_FULL}, 30, columns=_MIXED
    ),
    "mix by a function of the place": Case(
        _mix("never", (_more_later, 1)), {"batch_size": 4096, **_FULL}, 17, columns=_MIXED
    ),
    "drawn in a transform": Case(
        _dataset("right"), {"batch_size": 16, **_FULL}, 4, columns=("id",),
        more={"transform": _draws},
    ),
    "flipped at random": Case(
        _dataset("pets"), {"batch_size": 6, **_FULL}, 3, columns=("id", "image"),
        more={"decode": {"image": tl.decode.Flip()}},
    ),
}  # fmt: skip
