"""Bytes as users write them, and how many of them this process may take.

``"auto"`` is a quarter of the available memory, where a container's limit counts as much as the
machine's: cgroup v2 and v1 are asked where they exist.
"""

from __future__ import annotations

import re
from pathlib import Path

from tensorlake.errors import InvalidInputError

__all__ = ["available_nbytes", "parse_nbytes"]

AUTO_SHARE = 4
UNKNOWN_AVAILABLE = 4 << 30  # where the system does not tell: as a small machine has
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("kmgt", start=1)
}
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", re.IGNORECASE)
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def parse_nbytes(value: int | str, *, name: str) -> int:
    """Read a number of bytes: 1048576, "256MiB", "4 GB", or "auto".

    >>> parse_nbytes("256MiB", name="prefetch") == 256 << 20
    True
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if value == "auto":
        return available_nbytes() // AUTO_SHARE
    match = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidInputError(
            f"{name} is a number of bytes, a text like '256MiB', or 'auto', got {value!r}",
            actual=value,
        )
    return int(float(match[1]) * UNITS[match[2].lower()])


def available_nbytes(*, cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> int:
    """Return the memory that could still be taken without swapping or being killed."""
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
