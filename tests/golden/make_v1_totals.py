"""Write the golden dataset of small chunks: ``python tests/golden/make_v1_totals.py FOLDER``.

Run once, when references to pages began to say what the chunks below weigh. Its bytes are in the
repository and are never made again: what they hold must be readable for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tensorlake as tl
from tensorlake.format import Schema
from tensorlake.storage import open_store, runtime
from tensorlake.versions import create_dataset

ROWS = 1500
CHUNK_NBYTES = 256  # as many chunks as a tail cannot hold, in one commit


def main(folder: Path) -> None:
    schema = Schema.new({"text": tl.Text(), "number": "int64"}).to_json()
    for tensor in schema["tensors"]:
        tensor["chunk_nbytes"] = CHUNK_NBYTES
    store = open_store(str(folder))
    runtime.run(create_dataset(store, schema, grace_s=86_400, exist_ok=False))
    ds = tl.open(str(folder))
    numbers = np.arange(ROWS)
    ds.extend({"text": [f"row {row} " * (row % 9) for row in range(ROWS)], "number": numbers})
    ds.commit("in small chunks, more than a tail holds")
    ds["text"][700] = "assigned"
    ds.commit("one cell")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
