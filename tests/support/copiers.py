"""What copying processes do in tests of kills; importable, for they are spawned."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import tensorlake as tl
from tests.support.ingesters import count_turns


def copy(
    src: Path, dst: Path, workers: int, told: Connection, killed_at: int | None = None
) -> None:
    """Copy; tell how often files were turned to and what was found, or die at the n-th time."""
    turns = count_turns((src, dst), killed_at)
    report = tl.copy(str(src), str(dst), workers=workers, durability="none", progress=False)
    told.send((turns(), report.packs, report.present))
