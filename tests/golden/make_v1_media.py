"""Write the golden dataset of media: ``python -m tests.golden.make_v1_media FOLDER``.

Run once, when the types of media were whole. Its bytes are in the repository and are never made
again: their contents must stay readable.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorlake as tl
from tests.golden.media_contents import LINKED, RATE, SCHEMA, row, wave


def main(folder: Path) -> None:
    made = tl.create("memory://golden-media", {"audio": tl.Audio(rate=RATE)})
    made.append({"audio": wave(7)})
    ds = tl.create(str(folder), SCHEMA)
    (folder / LINKED).parent.mkdir()
    (folder / LINKED).write_bytes(made["audio"].bytes(0))
    made.discard()
    ds.extend([row(0), dict.fromkeys(SCHEMA), row(1)])
    ds.commit("media, and NULLs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
