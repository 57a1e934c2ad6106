"""The limit of a local folder: the same ranges of the same files, read and hashed by a bare loop.

    recorded   which ranges of which packs we read, in an uncounted run of ours
    made       the same by ``os.pread``, a file opened once, and xxh3 of each

Nothing is looked up, compared, gathered or sorted. The bytes are dropped at once, so no new memory
is taken either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.runs import Measurement, stopwatch, warm_up

if TYPE_CHECKING:
    from tensorlake import Dataset

__all__ = ["bare_preads"]

FileRanges = tuple[str, list[tuple[int, int]]]


def bare_preads(folder: Path, use: Callable[[Dataset], object]) -> Measurement:
    """Read and hash the ranges that `use` reads of a dataset."""
    from xxhash import xxh3_64_intdigest

    import tensorlake as tl

    warm_up()
    with tl.open(str(folder), read_only=True) as ds, _noted_ranges() as noted:
        use(ds)
    if not noted:
        raise SystemExit(f"benchmarks: no parts of chunks of {str(folder)!r} were read")
    with stopwatch() as watch:
        for path, ranges in noted:
            descriptor = os.open(folder / path, os.O_RDONLY)
            for start, stop in ranges:
                xxh3_64_intdigest(os.pread(descriptor, stop - start, start))
            os.close(descriptor)
    facts = {
        "ranges": float(sum(len(ranges) for _, ranges in noted)),
        "MB": sum(stop - start for _, ranges in noted for start, stop in ranges) / 1e6,
    }
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds, facts)


@contextmanager
def _noted_ranges() -> Generator[list[FileRanges]]:
    from tensorlake.storage import LocalStore

    noted: list[FileRanges] = []
    read_in_turn = LocalStore.read_in_turn

    def note(self: LocalStore, path: str, ranges: Sequence[tuple[int, int]]) -> Generator[bytes]:
        noted.append((path, [(start, stop) for start, stop in ranges]))
        return read_in_turn(self, path, ranges)

    LocalStore.read_in_turn = note
    try:
        yield noted
    finally:
        LocalStore.read_in_turn = read_in_turn
