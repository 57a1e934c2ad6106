"""Ranges of a folder's objects that are read without waiting: what is in memory, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tensorlake.storage import LocalStore, run

NBYTES = 300_000


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (7, 200_000), (NBYTES - 10, NBYTES + 90)])
def test_what_is_at_hand_is_what_the_object_has(tmp_path: Path, start: int, stop: int) -> None:
    store, data = LocalStore(tmp_path), os.urandom(NBYTES)
    run(store.put_if_absent("pack", data))

    found = store.range_if_cached("pack", start, stop)

    # None: this system cannot read so, or has given up the pages
    assert found in (None, (data[start:stop], NBYTES))


def test_nothing_large_absent_or_of_a_folder_or_pipe_is_at_hand(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    run(store.put_if_absent("packs/large", bytes(1 << 20)))
    os.mkfifo(tmp_path / "pipe")

    large = store.range_if_cached("packs/large", 0, 1 << 20)
    others = [store.range_if_cached(path, 0, 10) for path in ("absent", "packs", "packs/large/no")]
    pipe = store.range_if_cached("pipe", 0, 10)  # and nobody waits for a writer

    assert (large, others) == (None, [None] * 3)
    assert pipe in (None, (b"", 0))
