"""Record loaders of release 0.1.0: ``python -m tests.golden.make_v1_loaders FOLDER``.

Run once, by 0.1.0 as it was released, on datasets that it makes beside. ``loaders.json`` says for
each case of ``golden_loaders.py`` the state that was taken, the rows of the rest of that epoch,
and those of the next one: as loaders that resumed gave them, and as those that never stopped did.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl
from tests.golden.golden_loaders import (
    CASES,
    ENDLESS_ROWS,
    LEFT,
    RIGHT,
    Case,
    gathered,
    ranks_of,
    take_batch,
)
from tests.golden.release_images import png


def datasets(folder: Path) -> None:
    left = tl.create((folder / "left").as_posix(), {"id": "int64", "x": "float32"})
    left.extend({"id": range(LEFT), "x": np.arange(LEFT) / 2})
    left.commit("all at once")
    left["x"][[3, 500]] = [-1, -2]
    left.delete([0, 10, 11, 998])
    left.extend({"id": [LEFT, LEFT + 1], "x": [0, 0]})
    left.commit("changed")
    left.query("SELECT id WHERE id % 7 = 0 ORDER BY id DESC").save("chosen")
    right = tl.create((folder / "right").as_posix(), {"id": "int64"})
    right.extend({"id": range(10_000, 10_000 + RIGHT)})
    right.commit("all at once")
    pets = tl.create((folder / "pets").as_posix(), {"id": "int64", "image": tl.Image("png")})
    images = [np.array([[[row, 0, 0], [0, row, 9]]], np.uint8) for row in range(40)]
    pets.extend({"id": range(40), "image": [png(image) for image in images]})
    pets.commit("forty")


def recorded(case: Case, folder: Path) -> dict[str, Any]:
    ranks = ranks_of(case, folder, case.world)
    for loader in ranks:
        loader.set_epoch(case.epoch)
    if case.order is not None:
        for loader in ranks:
            loader.load_state_dict(loader.state_dict() | {"order": dict(case.order)})
    passes = [iter(loader) for loader in ranks] if case.batches else []
    for _ in range(case.batches):
        assert take_batch(passes) is not None
    if case.skipped:
        for loader, one in zip(ranks, passes, strict=True):
            one.close()
            loader.skip(case.skipped)
        passes = [iter(loader) for loader in ranks]
    states = [loader.state_dict() for loader in ranks]
    assert all(state == states[0] for state in states), states
    at_most = ENDLESS_ROWS if states[0]["num_rows"] is None else None
    resumed = ranks_of(case, folder, case.world)
    for loader in resumed:
        loader.load_state_dict(states[0])
    rest = gathered(resumed, at_most=at_most)
    after = [] if at_most else gathered(resumed)
    if passes and states[0]["position"] != states[0]["num_rows"]:
        went_on = gathered(ranks, passes=passes, at_most=at_most)
        assert went_on == rest  # those that never stopped gave the same
    return {"state": states[0], "rest": rest, "next": after}


def main(folder: Path) -> None:
    datasets(folder)
    cases = {name: recorded(case, folder) for name, case in CASES.items()}
    (folder / "loaders.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
