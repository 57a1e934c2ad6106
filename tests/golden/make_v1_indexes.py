"""Write golden data of indexes: ``python -m tests.golden.make_v1_indexes FOLDER``.

Run once, when commits began to name the indexes that they change. Its bytes are in the repository
and are never made again: they must be readable for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorlake as tl
from tests.golden.index_contents import CHANGED, DELETED, MORE, ROWS, SCHEMA, columns_of, row_of


def main(folder: Path) -> None:
    ds = tl.create(folder, SCHEMA)
    ds.extend(columns_of(range(ROWS)))
    ds.commit("rows")
    for name in ("label", "tags", "price", "name"):
        ds.create_index(name)
    ds.create_index("meta", path="source")
    ds.create_index("text", "text", positions=True)
    ds.create_index("vector", lists=8)
    ds.commit("seven indexes")
    for row in CHANGED:
        for name, value in row_of(row, is_changed=True).items():
            ds[name][row] = value
    ds.extend(columns_of(range(ROWS, ROWS + MORE)))
    ds.delete(DELETED)
    ds.commit("rows that no index has")
    ds.optimize()
    ds.drop_index("name")
    ds.append(row_of(ROWS + MORE))
    ds.commit("one index less, one row more")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
