"""Record the states and orders of plan version 2: ``python -m tests.golden.orders.make_orders``.

``states.json`` has of each case of ``golden_orders.py`` the state that was taken, the rows of the
rest of that epoch, and those of the next one; ``datasets.tar.xz`` has what they read. Recorded
cases and datasets stay as they are: only new cases are added.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tensorlake as tl
from tests.golden.golden_loaders import gathered, take_batch
from tests.golden.orders.golden_orders import (
    CASES,
    DATASETS,
    RECORDED,
    SOURCES,
    WEIGHTS,
    OrderCase,
    Sources,
    loaders_of,
    opened_sources,
)

__all__ = ["ENDLESS_ROWS", "recorded"]

ENDLESS_ROWS = 100  # recorded of a mix that never ends


def recorded(case: OrderCase, sources: Sources) -> dict[str, Any]:
    """Return a state, the rest of its epoch, and the next epoch."""
    ranks = loaders_of(case, sources, case.world)
    if case.order is not None:
        for loader in ranks:
            loader.load_state_dict(loader.state_dict() | {"order": dict(case.order)})
    passes = [iter(loader) for loader in ranks]
    for _ in range(case.batches):
        assert take_batch(passes) is not None
    states = [loader.state_dict() for loader in ranks]
    assert all(state == states[0] for state in states), states
    at_most = ENDLESS_ROWS if states[0]["num_rows"] is None else None
    rest = gathered(ranks, passes=passes, at_most=at_most)
    following = [] if at_most else gathered(ranks)
    state = {name: value for name, value in states[0].items() if name != "source"}
    return {"state": state, "rest": rest, "next": following}


def make_datasets(folder: Path) -> None:
    """Make the datasets of all cases in a folder, and put them into their archive."""
    schema = {
        "id": "int64",
        "w": "float64",
        "label": tl.ClassLabel(["cat", "dog", "owl"]),
        "key": "int64",
        "tokens": tl.Array("uint16", (None,)),
        "turns": tl.Array("uint8", (None,)),
    }
    for name, (rows, longest) in SOURCES.items():
        number = np.arange(rows)
        lengths = number * 7 % longest
        starts = np.cumsum(lengths) - lengths
        columns = {
            "id": number,
            "w": WEIGHTS[:rows],
            "label": np.where(number % 6 == 0, 2, number % 3 == 1),
            "key": number * 5 % 9,
            "tokens": [np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)],
            "turns": [np.arange(n) % 2 for n in lengths],
        }
        ds = tl.create((folder / name).as_posix(), schema)
        ds.extend(columns)
        ds.commit("all at once")
    with tarfile.open(DATASETS, "w:xz") as archive:
        for name in SOURCES:
            archive.add(folder / name, name)


def main() -> None:
    """Add the cases that are not recorded yet."""
    found = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if not DATASETS.exists():
            make_datasets(folder / "made")
        sources = opened_sources(folder / "opened")
        cases = {name: found.get(name) or recorded(case, sources) for name, case in CASES.items()}
    dumped = (
        f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
        for name, one in cases.items()
    )
    RECORDED.write_text("{" + ",\n".join(dumped) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
