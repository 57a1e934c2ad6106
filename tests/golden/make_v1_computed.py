"""Write golden data of computed columns: ``python tests/golden/make_v1_computed.py FOLDER``.

Run once. Its bytes are in the repository and are never made again: they must be readable for ever.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl

TEXTS = ["a tensor lake", "two words", "", "more"]


def initials(row: dict[str, Any]) -> str:
    """Return the first letter of each word; of no word, an error."""
    words = row["text"].split()
    if not words:
        raise ValueError("no words")
    return "".join(word[0] for word in words)


def lengths(row: dict[str, Any]) -> Any:
    """Return the length of each word."""
    return np.array([len(word) for word in row["text"].split()], np.uint16)


def main(folder: Path) -> None:
    ds = tl.create(folder, {"text": "str"})
    ds.extend({"text": TEXTS})
    ds.add_tensor("characters", "int64", compute="LENGTH(text)")
    ds.add_tensor("lengths", tl.Array("uint16", (None,)), compute=lengths, inputs=["text"])
    ds.add_tensor("initials", "str", compute=initials, inputs=["text"], version="first")
    with warnings.catch_warnings(action="ignore"):  # one row has no words
        ds.refresh_columns()
    ds.commit("all fresh")
    ds["text"][1] = "three short words"
    ds.append({"text": "one more"})
    ds.commit("two stale rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
