"""Write golden data of a personal tensor: ``python tests/golden/make_v1_personal.py FOLDER``.

Run once. Its bytes are in the repository and are never made again: they must be readable for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorlake as tl

NAMES = ["Ada", "", None, "Grace", "Ada"]


def main(folder: Path) -> None:
    ds = tl.create(folder, {"name": tl.Text(personal=True, nullable=True), "x": "int32"})
    ds.extend({"name": NAMES, "x": [1, 2, 3, 4, 5]})
    ds.commit("five")
    ds["name"][4] = "Alan"
    ds.commit("one cell")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
