"""No query takes a process past its ceiling: a child asks the worst, and its memory is watched.

It asks them through the SDK, or of a real server over HTTP, and reports how far its peak rose above
what it had before each (tests/support/query_attacks.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20
CEILING = 64 * MIB
MARGIN = 96 * MIB  # what the reader and the allocator keep, and what is read before it is counted
CLEAR_REFS = "/proc/self/clear_refs"

pytestmark = pytest.mark.skipif(
    not os.access(CLEAR_REFS, os.W_OK), reason="Linux alone counts a peak anew"
)


def asked(way: str, which: str, folder: Path) -> dict[str, Any]:
    """What became of each query, and how far the process rose for it."""
    script = str(ROOT / "tests/support/query_attacks.py")
    done = subprocess.run(
        [sys.executable, script, way, which, str(CEILING), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def check(found: dict[str, Any]) -> None:
    too_high = {
        text: f"{one['peak'] // MIB} MiB: {one['told']}"
        for text, one in found.items()
        if one["peak"] > CEILING + MARGIN
    }
    assert too_high == {}
    refused = [one["told"] for one in found.values() if one["told"]]
    assert len(refused) > len(found) // 2
    assert [told for told in refused if "would hold" not in told and "timeout" not in told] == []


@pytest.mark.slow
def test_no_query_of_the_sdk_takes_more_memory_than_it_may(tmp_path: Path) -> None:
    check(asked("sdk", "few", tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("way", ["sdk", "server"])
def test_no_query_takes_more_memory_than_it_may(way: str, tmp_path: Path) -> None:
    check(asked(way, "all", tmp_path))
