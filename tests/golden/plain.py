"""Values as plain JSON, bit for bit: what golden datasets are compared in.

a class         {"class": "cat"}, several {"classes": ["cat", "dog"]}
numbers         {"dtype": "float32", "shape": [2], "hex": "0000803f00000040"}, little-endian
bytes           {"bytes": "00ff"}
a UUID          {"uuid": "…"}
text, JSON, NULL as they are; lists of any of these as lists
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["digest", "plain", "plain_class", "plain_classes", "plain_number"]


def plain_class(name: str) -> dict[str, Any]:
    """Write one class."""
    return {"class": name}


def plain_classes(names: Sequence[str]) -> dict[str, Any]:
    """Write several classes."""
    return {"classes": list(names)}


def plain_number(values: Any, dtype: Any = None) -> dict[str, Any]:
    """Write a number or an array of them."""
    array = np.ascontiguousarray(values, dtype)
    shape = list(np.shape(values)) if dtype is None else list(array.shape)
    if dtype is not None and np.ndim(values) == 0:
        shape = []
    return {"dtype": str(array.dtype), "shape": shape, "hex": array.tobytes().hex()}


def plain(value: Any) -> Any:
    """Write a value as it was read."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if hasattr(value, "as_names"):
        return plain_classes(value.as_names())
    if hasattr(value, "names"):  # one label
        return plain_class(value.name)
    if isinstance(value, (np.generic, np.ndarray)):
        return plain_number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, uuid.UUID):
        return {"uuid": str(value)}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "offsets"):
        return [plain(one) for one in value]
    if isinstance(value, (int, float)):
        return value
    raise TypeError(type(value))


def digest(rows: Sequence[dict[str, Any]]) -> str:
    """Return the digest of the content of rows: of all values, in their order."""
    text = json.dumps(rows, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
