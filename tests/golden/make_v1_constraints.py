"""Write golden data of constraints: ``python tests/golden/make_v1_constraints.py FOLDER``.

Run once. Its bytes are in the repository and are never made again: they must be readable for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorlake as tl


def main(folder: Path) -> None:
    count = tl.Scalar("int64", nullable=True)
    ds = tl.create(folder, {"id": "int64", "count": count, "sent": "int64"}, unique="id")
    ds.extend({"id": [1, 2, 3], "count": [5, 3, None], "sent": [5, 0, 9]})
    ds.add_check("not more than ordered", "sent <= count")
    ds.commit("three orders")
    ds.add_check("at least four", "count >= 4", valid=False)
    ds["sent"][1] = 3
    ds.commit("sent")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
