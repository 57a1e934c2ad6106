"""Write the golden dataset of format version 1: ``python tests/golden/make_v1.py FOLDER``.

Run once, when the version was released. Its bytes are in the repository and are never made again:
what they hold must be readable for ever. ``contents.py`` says what that is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from contents import BATCHES, JPEG, SCHEMA

import tensorlake as tl


def main(folder: Path) -> None:
    ds = tl.create(str(folder), SCHEMA, grace="24h")
    ds.extend(BATCHES[0])
    ds.commit("three rows", key="golden-1")
    # Enough small commits to spill tails and to merge small leaves.
    for number in range(20):
        ds.append({**{name: values[0] for name, values in BATCHES[1].items()}, "count": number})
        ds.commit(f"row {number}")
    ds["label"][1] = "dog"
    ds["score"][[0, 5]] = [None, 0.25]
    ds.delete([2])
    ds.commit("an update and a delete")
    ds.tag("v1")
    ds.add_tensor("added", tl.Scalar("int16"), fill=7)
    ds["added"][3] = -1
    ds.rename_tensor("note", "remark")
    ds["label"].add_names(["cow"])
    ds.commit("another schema")
    branch = ds.branch("side/größe", at="v1")
    branch.append({**{name: values[0] for name, values in BATCHES[1].items()}, "label": "cat"})
    branch.commit("beside")
    assert np.array_equal(np.frombuffer(JPEG, np.uint8)[:2], [0xFF, 0xD8])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
