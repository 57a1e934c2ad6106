"""Formatting of values in ``repr``, ``summary`` and messages."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tensorlake.types import Embedding, SampleType

__all__ = ["describe_sample", "describe_value"]

SHOWN_CHARACTERS = 60
SHOWN_ELEMENTS = 8
FIRST_ELEMENTS = 3
WHOLE_DIGITS_BELOW = 1e7  # 148393, an area in pixels, and not 1.484e+05


def describe_value(value: Any, *, names: Sequence[str] | None = None) -> str:
    """Format one value on one line: a class by its name, an array by its dtype and shape."""
    if value is None:
        return "NULL"
    names = names or getattr(value, "names", None) or None  # labels that a query computed
    if names is not None and np.ndim(value) == 0:
        return f"{int(value)} {names[int(value)]!r}"
    if names is not None:
        return f"{[names[code] for code in np.asarray(value).tolist()[:SHOWN_ELEMENTS]]}"
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} {value.shape}{_elements(value)}"
    if isinstance(value, dt.datetime | uuid.UUID | np.datetime64 | np.timedelta64):
        return str(value)
    text = repr(value.item() if isinstance(value, np.generic | np.ndarray) else value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def describe_sample(sample_type: SampleType, value: Any) -> str:
    """Format one sample of a tensor on one line: a class by its name, an embedding with its norm.

    >>> describe_sample(Embedding(2), np.array([0.6, 0.8], np.float32))
    'float32 (2,) [0.6, 0.8] norm 1.000'
    """
    described = describe_value(value, names=getattr(sample_type, "names", None))
    if isinstance(sample_type, Embedding) and value is not None:
        described += f" norm {float(np.linalg.norm(value)):.3f}"
    return described


def _elements(array: np.ndarray) -> str:
    """Format all of a few elements, or the first of a long vector; shape of a large array."""
    if array.size <= SHOWN_ELEMENTS:
        return f" {_nested(array.tolist())}"
    if array.ndim > 1:
        return ""
    return f" {_nested(array[:FIRST_ELEMENTS].tolist())[:-1]}, …]"


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, cast('list[Any]', value)))}]"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Format four digits, without an exponent if the integer part fits in a line."""
    short = f"{value:.4g}"
    return f"{value:.0f}" if "e+" in short and abs(value) < WHOLE_DIGITS_BELOW else short
