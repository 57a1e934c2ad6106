"""Quarantine: a dataset beside the one that is made, for what could not be taken into it.

item      what the source calls it            reason    why it was refused
values    its values, as JSON where JSON can hold them
content   the encoded bytes of its first sample that has any, such as a damaged picture
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.report import SkippedItem
from tensorlake.dataset.open import create
from tensorlake.quantities import plural
from tensorlake.types import Bytes, Json, Text

__all__ = ["Quarantine"]

SCHEMA = {
    "item": Text(),
    "reason": Text(),
    "values": Json(),
    "content": Bytes(nullable=True),
}


class Quarantine:
    """The quarantine of one ingestion; made when something comes in.

    Args:
        url: Of the dataset beside which it lies.
        open_arguments: How to open that.
    """

    def __init__(self, url: str, open_arguments: Mapping[str, Any]) -> None:
        self._url = f"{url.rstrip('/')}-quarantine"
        self._open_arguments = dict(open_arguments)
        self._dataset: Dataset | None = None
        self._staged = 0

    def stage(self, refused: Sequence[tuple[SkippedItem, Mapping[str, Any]]]) -> None:
        """Take in what was refused."""
        if not refused:
            return
        if self._dataset is None:
            self._dataset = create(self._url, SCHEMA, exist_ok=True, **self._open_arguments)
        self._dataset.extend(
            {
                "item": [skipped.item for skipped, _ in refused],
                "reason": [skipped.reason for skipped, _ in refused],
                "values": [_as_json(values) for _, values in refused],
                "content": [_content(values) for _, values in refused],
            }
        )
        self._staged += len(refused)

    def commit(self, key: str) -> str | None:
        """Publish what came in since the last commit, once for a key; where it is, if anywhere."""
        if self._dataset is None:
            return None
        if self._staged:
            self._dataset.commit(f"quarantine: {plural(self._staged, 'item')}", key=key)
            self._staged = 0
        return self._url


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in values.items():
        plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        try:
            shown[name] = json.loads(json.dumps(plain, allow_nan=False))
        except (TypeError, ValueError):  # bytes, NaN, objects: told by its kind
            shown[name] = f"<{type(value).__name__}>"
    return shown


def _content(values: Mapping[str, Any]) -> bytes | None:
    found = (one for one in values.values() if isinstance(one, bytes | bytearray | memoryview))
    first = next(found, None)
    return None if first is None else bytes(first)
