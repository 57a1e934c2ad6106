"""A copy killed at any moment, and made again, ends as one that was left alone.

SIGKILL reaches the process at the n-th time that it turns to a file, spread over its whole run.
"""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tests.support.copiers import copy
from tests.support.writers import fork_server

COMMITS = 12
POINTS = 9
PATIENCE_S = 120


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    url = tmp_path_factory.mktemp("source") / "pets.tl"
    with tl.create(str(url), {"x": tl.Array("uint8", (5000,))}, durability="none") as ds:
        for commit in range(COMMITS):
            ds.extend({"x": np.random.default_rng(commit).integers(0, 255, (3, 5000), np.uint8)})
            ds.commit(f"commit {commit}")
        ds.tag("v1", at="main@5")
    return url


def copied(
    src: Path, dst: Path, workers: int, killed_at: int | None = None
) -> tuple[int, int, int] | None:
    """Copy in a process of its own: turns, packs copied and found; None if it was killed."""
    context = fork_server()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=copy, args=(src, dst, workers, sender, killed_at))
    process.start()
    sender.close()
    process.join(PATIENCE_S)
    assert process.exitcode in {0, -signal.SIGKILL}, f"it ended with {process.exitcode}"
    return receiver.recv() if process.exitcode == 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 8])
def test_a_killed_copy_goes_on_where_it_was(source: Path, tmp_path: Path, workers: int) -> None:
    whole = copied(source, tmp_path / "whole.tl", workers)
    assert whole is not None
    turns, packs, _ = whole
    found: list[int] = []

    for point in range(1, POINTS + 1):
        target = tmp_path / f"{point}.tl"
        assert copied(source, target, workers, turns * point // (POINTS + 1)) is None
        assert not tl.exists(str(target))
        again = copied(source, target, workers)
        assert again is not None
        found.append(again[2])
        assert again[1] + again[2] == packs
        with tl.open(str(target)) as ds, tl.open(str(source)) as original:
            assert ds.check().ok
            assert [one.digest for one in ds.log()] == [one.digest for one in original.log()]
            assert np.array_equal(ds["x"][:], original["x"][:])
            assert list(ds.tags) == ["v1"]

    assert max(found) == packs  # killed after the packs, the copy has only the rest to do
    assert any(0 < some < packs for some in found) or workers > 1
