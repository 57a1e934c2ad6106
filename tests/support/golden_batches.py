"""Batches that every framework must give, as digests of one epoch.

``golden_batches.json`` has them; they were made by ``python -m tests.support.golden_batches``, with
NumPy loaders. No step resizes: libraries that do differ by 1 of 255.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import tensorlake as tl
from tests.unit.loader.conftest import fill_pets

FILE = Path(__file__).with_suffix(".json")
READ: dict[str, Any] = {
    "global_batch_size": 12,
    "shuffle": True,
    "seed": 11,
    "columns": ["image", "label", "boxes", "name", "tokens", "_row"],
    "decode": {"image": [tl.decode.CenterCrop(16, 20), tl.decode.Flip(), tl.decode.ToFloat()]},
    "collate": {"boxes": "pad"},
    "drop_last": True,
}


def golden() -> list[str]:
    """The digests of the batches of epoch 0."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def digest_of(batch: dict[str, Any]) -> str:
    """Digest a batch of any framework: names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(batch):
        if name == "_valid":
            continue  # only batches of JAX and TensorFlow keep their size
        value = batch[name]
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            texts = [one.decode() if isinstance(one, bytes) else one for one in array.tolist()]
            digest.update(json.dumps([name, texts]).encode())
            continue
        if array.dtype == np.int32:  # JAX, unless it is told to keep 64 bits
            array = array.astype(np.int64)
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def digests_of(batches: Any) -> list[str]:
    """Digest batches."""
    return [digest_of(batch) for batch in batches]


def make() -> None:
    """Write the file anew."""
    with fill_pets("memory://golden-batches") as dataset:
        digests = digests_of(dataset.loader(**READ))
    FILE.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()
