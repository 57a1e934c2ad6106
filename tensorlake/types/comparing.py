"""Convert samples of one tensor from two versions to a common form for comparison.

Between two versions a tensor may have been widened, in either direction of time, or its class names
may have changed. The samples are the same where their values are: 5 as int8 and as int64, a fixed
shape that became ragged, a class that was renamed, or that got another code on another branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorlake.types.base.base import SampleType
from tensorlake.types.base.column import Column, EncodedColumn, RaggedColumn, as_ragged
from tensorlake.types.base.dtypes import is_narrow_float, widened_floats
from tensorlake.types.scalar.class_label import ClassLabel

__all__ = ["in_same_terms"]


def in_same_terms(
    a: Column, type_a: SampleType, b: Column, type_b: SampleType
) -> tuple[Column, Column]:
    """Return both columns with one dtype and layout, and b's class codes as a's.

    A class of b that a does not have gets a negative code, which is not a class of a.
    """
    if isinstance(a, EncodedColumn) or isinstance(b, EncodedColumn):
        return a, b
    if isinstance(type_a, ClassLabel) and isinstance(type_b, ClassLabel) and b.values.size:
        table = _codes_by_class(type_a.names, type_b.names)
        if table is not None:
            b = replace(b, values=table[b.values])
    if is_narrow_float(a.values.dtype) or a.values.dtype != b.values.dtype:
        # NumPy has no rules for narrow floats, and warns where it compares their NaNs
        a, b = (
            replace(a, values=widened_floats(a.values)),
            replace(b, values=widened_floats(b.values)),
        )
        common = np.result_type(a.values.dtype, b.values.dtype)
        a = replace(a, values=a.values.astype(common))
        b = replace(b, values=b.values.astype(common))
    if isinstance(a, RaggedColumn) is not isinstance(b, RaggedColumn):
        return as_ragged(a), as_ragged(b)
    return a, b


def _codes_by_class(a: Sequence[str], b: Sequence[str]) -> np.ndarray | None:
    """Return the code in a of each class of b; None where all are the same."""
    if tuple(a) == tuple(b):
        return None
    code_of = {name: code for code, name in enumerate(a) if name}
    table = np.empty(len(b), np.int64)
    for code, name in enumerate(b):
        was_renamed = code < len(a) and a[code] not in b
        table[code] = code_of.get(name, code if was_renamed or not name else -1 - code)
    return table
