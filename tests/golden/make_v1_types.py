"""Write the golden dataset of every type: ``python tests/golden/make_v1_types.py FOLDER``.

Run once, when the types were whole. Its bytes are in the repository and are never made again: what
they hold must be readable for ever. ``type_contents.py`` says what that is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from type_contents import ROWS, SCHEMA

import tensorlake as tl


def main(folder: Path) -> None:
    ds = tl.create(str(folder), SCHEMA)
    ds.extend(ROWS[:2])
    ds.commit("one of each, and NULLs")
    ds.append(ROWS[2])
    ds.commit("empty ones")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
