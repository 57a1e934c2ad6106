"""The repr of a type: the Python expression that creates it, without defaults.

    Array('float32', (None, 4))    ClassLabel(('cat', 'dog'), per='boxes')    Embedding(768)

Evaluating it creates an equal type, unless a long tuple was truncated.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np

__all__ = ["written"]

MAX_ITEMS = 12
"""Most items shown of a tuple such as class names, so that a schema stays readable."""


def written(sample_type: Any) -> str:
    """Write a `SampleType` as Python: required parameters by position, others if not default.

    Untyped, since base.py imports this module.
    """
    parts: list[str] = []
    own_first = sorted(fields(sample_type), key=lambda one: one.kw_only is True)
    for place, one in enumerate(own_first):
        value = getattr(sample_type, one.name)
        if one.default is not MISSING and value == one.default:
            continue
        by_position = len(parts) == place and (place == 0 or one.default is MISSING)
        name = "" if by_position and not one.kw_only else f"{one.name}="
        parts.append(name + _value(value))
    return f"{type(sample_type).__name__}({', '.join(parts)})"


def _value(value: Any) -> str:
    if isinstance(value, np.dtype):
        return repr(value.name)
    if isinstance(value, tuple) and len(value) > MAX_ITEMS:
        shown = ", ".join(map(repr, value[:MAX_ITEMS]))
        return f"({shown}, … {len(value) - MAX_ITEMS} more)"
    return repr(value)
