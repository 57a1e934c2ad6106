"""Conditions of WHERE, as an index gets them: each with the test that a scan would evaluate.

A condition comes with the function that a scan would evaluate, ``matches``. An index calls it with
values that it has, so its answer is the scan's whatever casts, collations and class names are
involved; ``op`` and ``value`` only tell where among its values to look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensorlake.types import Column

__all__ = ["Condition", "Operator"]

Operator = Literal["=", "<", "<=", ">", ">=", "in", "any", "match", "other"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of one column.

    Attributes:
        op: How its value is compared; "any": how an item of it is; "match": a
            text that has all of these words; "other": not known.
        values: The operands: one value, or those of "in".
        matches: Whether the condition is true of each sample of a column.
        key: The same object whenever the same condition is asked again; None where its answer for
            a sample may change.
    """

    op: Operator
    values: tuple[object, ...]
    matches: Callable[[Column], npt.NDArray[np.bool_]]
    key: object = None
