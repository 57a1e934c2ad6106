"""Versions that expired because rows of them were forgotten.

    forgotten/<id>-cleaned.json   {"clean": {"main": 12}, …}: main@12 is the first without the rows

Others that expired can be opened until they are collected; these cannot, from the first call on.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from tensorlake.errors import CorruptionError
from tensorlake.format import FORGOTTEN
from tensorlake.storage import Store, runtime

__all__ = ["CLEANED", "REPORT", "clean_of", "forgotten_before"]

CLEANED = "-cleaned.json"
REPORT = "-report.json"
READS_AT_ONCE = 32


async def forgotten_before(store: Store, branch: str) -> int:
    """Return the number of a branch's first version without rows that were forgotten; 0: of any.

    Raises:
        CorruptionError: A record is damaged.
    """
    paths = [meta.path async for meta in store.list(FORGOTTEN) if meta.path.endswith(CLEANED)]
    reads = [partial(store.get, path) for path in paths]
    found = await runtime.gather_bounded(reads, limit=READS_AT_ONCE)
    stops = [clean_of(data, path).get(branch, 0) for path, data in zip(paths, found, strict=True)]
    return max(stops, default=0)


def clean_of(data: bytes | None, path: str) -> dict[str, int]:
    """Return the first version of each branch without the rows, as a record has it.

    Raises:
        CorruptionError: It is damaged.
    """
    try:
        content: Any = json.loads(data or b"{}")
        return {str(branch): int(number) for branch, number in content.get("clean", {}).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error
