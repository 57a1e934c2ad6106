"""The files of a folder as a store lists its objects: in the order of their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from tensorlake.storage.api.store import SCRATCH, ObjectMeta
from tensorlake.storage.files.errors import ABSENT

__all__ = ["meta_of", "walk"]


def walk(folder: str, base: str, prefix: str) -> Iterator[list[ObjectMeta]]:
    """Yield the objects below a folder in the order of their paths, in batches never empty.

    Args:
        folder: Where to look.
        base: Prefix of the paths of its objects: "" or "packs/3f/".
        prefix: Only objects whose paths begin with it.
    """
    try:
        with os.scandir(folder) as scan:
            # "a/b" sorts between "a.c" and "a0": a folder's place is that of its name and "/".
            entries = sorted((entry.name + "/" * entry.is_dir(), entry) for entry in scan)
    except ABSENT:
        return
    batch: list[ObjectMeta] = []
    for name, entry in entries:
        path = base + name
        if not path.startswith(prefix) or name == f"{SCRATCH}/":
            continue
        if not name.endswith("/"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                batch.append(meta_of(path, entry.stat()))
            continue
        if batch:
            yield batch
            batch = []
        yield from walk(entry.path, path, prefix)
    if batch:
        yield batch


def meta_of(path: str, found: os.stat_result) -> ObjectMeta:
    """Return a file's metadata as an object's."""
    return ObjectMeta(path, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))
