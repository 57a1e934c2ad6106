"""Quarantine: a dataset beside the destination, for items that could not be ingested.

item      name of the item in the source      reason    why it was rejected
tensor    tensor that rejected it; NULL if the error is not about one tensor's value
values    its values, as JSON where JSON can represent them
content   encoded bytes of its first sample that has any, such as a damaged image
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset, SkippedItem, create, exists, open_dataset
from tensorlake.quantities import plural
from tensorlake.types import Bytes, Json, Text

__all__ = ["Quarantine"]

SCHEMA = {
    "item": Text(),
    "reason": Text(),
    "tensor": Text(nullable=True),
    "values": Json(),
    "content": Bytes(nullable=True),
}


class Quarantine:
    """The quarantine of one ingestion; created with the first item.

    Args:
        url: URL of the destination; the quarantine is stored beside it.
        open_arguments: Arguments for opening the destination.
    """

    def __init__(self, url: str, open_arguments: Mapping[str, Any]) -> None:
        self._url = f"{url.rstrip('/')}-quarantine"
        self._open_arguments = dict(open_arguments)
        self._dataset: Dataset | None = None
        self._staged = 0
        self._known: set[tuple[str, str]] = set()

    def stage(self, refused: Sequence[tuple[SkippedItem, Mapping[str, Any]]]) -> None:
        """Stage rejected items, each once: a run reads them again until they are valid."""
        if not refused:
            return
        if self._dataset is None:
            self._dataset = self._opened()
            dataset = self._dataset
            pairs = zip(dataset["item"][:], dataset["reason"][:], strict=True)
            self._known = {(str(item), str(reason)) for item, reason in pairs}
        refused = [one for one in refused if (one[0].item, one[0].reason) not in self._known]
        if not refused:
            return
        self._known.update((one.item, one.reason) for one, _ in refused)
        self._dataset.extend(
            {
                "item": [skipped.item for skipped, _ in refused],
                "reason": [skipped.reason for skipped, _ in refused],
                "tensor": [skipped.tensor for skipped, _ in refused],
                "values": [_as_json(values) for _, values in refused],
                "content": [_content(values) for _, values in refused],
            }
        )
        self._staged += len(refused)

    def add(self, left_out: Collection[SkippedItem]) -> str | None:
        """Commit items that never became rows, once each; return the URL, or None without any."""
        if not left_out:
            return None
        self.stage([(one, {}) for one in left_out])
        return self.commit()

    def _opened(self) -> Dataset:
        if not exists(self._url, **self._place):
            return create(self._url, SCHEMA, exist_ok=True, **self._open_arguments)
        dataset = open_dataset(self._url, **self._open_arguments)
        if "tensor" not in dataset.schema:  # made by tensorlake 0.1.0
            dataset.add_tensor("tensor", SCHEMA["tensor"], fill=None)
        return dataset

    @property
    def _place(self) -> dict[str, Any]:
        return {name: one for name, one in self._open_arguments.items() if name != "durability"}

    def commit(self) -> str | None:
        """Publish what came in since the last commit; return where it is, if anywhere."""
        if self._dataset is None:
            return None
        if self._staged:
            self._dataset.commit(f"quarantine: {plural(self._staged, 'item')}")
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
