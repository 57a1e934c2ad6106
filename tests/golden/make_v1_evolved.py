"""Write the golden dataset of changed schemas: ``python tests/golden/make_v1_evolved.py FOLDER``.

Run once, when types could be altered and views saved. Its bytes are in the repository and are never
made again: what they hold must be readable for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tensorlake as tl

ROWS = 3000


def main(folder: Path) -> None:
    ds = tl.create(
        str(folder),
        {
            "count": "uint8",
            "ratio": "int16",
            "tokens": tl.Array("uint16", shape=(2,), nullable=True),
            "note": tl.Text(nullable=True),
            "label": tl.ClassLabel(["cat", "dog", "cow"]),
        },
    )
    numbers = np.arange(ROWS)
    ds.extend(
        {
            "count": (numbers % 256).astype(np.uint8),
            "ratio": (numbers - 1500).astype(np.int16),
            "tokens": [None if row % 1000 == 0 else [row, row + 1] for row in range(ROWS)],
            "note": ["" if row % 2 else None for row in range(ROWS)],
            "label": [("cat", "dog")[row % 2] for row in range(ROWS)],
        }
    )
    ds.commit("as first declared")
    order = np.random.Generator(np.random.Philox(7)).permutation(ROWS)[:2000]
    ds[order].save("scattered", "by hand, in pages of its own")
    ds.query(
        "SELECT count, ratio * 2 AS twice WHERE ratio >= $low ORDER BY ratio DESC", low=1490
    ).save("largest")
    with ds.transaction("altered"):
        ds["note"][ds["note"].is_null()] = "none"
        ds.alter_tensor("note", nullable=False)
        ds.alter_tensor("count", dtype="int32", metadata={"unit": "animals"})
        ds.alter_tensor("ratio", dtype="float32")
        ds.alter_tensor("tokens", shape=(None,))
        ds["label"].drop_names(["cow"])
        ds["count"][0] = 70_000
        ds["ratio"][1] = 0.5
        ds["tokens"][2] = [9, 9, 9]
    # Two writers add classes: the later one's codes are mapped.
    first, second = tl.open(str(folder)), tl.open(str(folder))
    row = {"count": -1, "ratio": 1.5, "tokens": [], "note": "late"}
    first["label"].add_names(["owl", "hen"])
    first.append({**row, "label": "hen"})
    second["label"].add_names(["emu", "hen"])
    second.extend({name: [value] * 2 for name, value in row.items()} | {"label": ["emu", "hen"]})
    first.commit("owl and hen")
    second.commit("emu and hen")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
