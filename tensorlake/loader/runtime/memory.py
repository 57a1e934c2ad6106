"""The bytes of memory that this process may take.

``"auto"`` is a quarter of the available memory, the smaller of the machine's and the container's:
cgroup v2 and v1 are read where they exist.
"""

from __future__ import annotations

import re
from pathlib import Path

from tensorlake.quantities import parse_nbytes

__all__ = ["available_nbytes", "memory_nbytes"]

AUTO_SHARE = 4
UNKNOWN_AVAILABLE = 4 << 30  # if the system does not report it: that of a small machine
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def memory_nbytes(value: int | str, *, name: str) -> int:
    """Parse a number of bytes: as `parse_nbytes` does, or "auto".

    >>> memory_nbytes("256MiB", name="prefetch") == 256 << 20
    True
    """
    if isinstance(value, str) and value == "auto":
        return available_nbytes() // AUTO_SHARE
    return parse_nbytes(value, name=name)


def available_nbytes(*, cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> int:
    """Return the memory that can still be allocated without swapping or being killed."""
    limits = [_machine_available(meminfo)]
    for limit_name, usage_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, usage = _number(cgroup / limit_name), _number(cgroup / usage_name)
        if limit is not None and usage is not None:
            limits.append(max(0, limit - usage))
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else UNKNOWN_AVAILABLE


def _machine_available(meminfo: Path) -> int | None:
    if not meminfo.exists():
        return None
    found = re.search(r"^MemAvailable:\s+([0-9]+) kB", meminfo.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _number(path: Path) -> int | None:
    if not path.exists():
        return None
    text = path.read_text().strip()
    return int(text) if text.isdigit() else None  # "max": no limit
