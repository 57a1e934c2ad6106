"""Classes of a source, known by what they were ingested as: a hand may have renamed them since.

    ledger, for each source and tensor    {"cat": 0, "dog": 1, "fox": "k3…"}

A class that was declared with its tensor is known by its code, one that was added by its id, for
these stay where a name or, on another branch, a code changes (decision 0013).
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorlake.format import TensorSpec
from tensorlake.types import ClassLabel

__all__ = ["ClassKeys", "class_codes", "class_keys"]

ClassKeys = Mapping[str, int | str]
"""The classes of a source's names: codes, or ids of added classes."""


def class_keys(spec: TensorSpec, names: Mapping[str, str]) -> dict[str, int | str]:
    """Return the classes of names of a source.

    Args:
        spec: The tensor.
        names: By name in the source: the name in the dataset, which may lack some.
    """
    assert isinstance(spec.type, ClassLabel)
    codes = {name: code for code, name in enumerate(spec.type.names)}
    ids = {code: id_ for id_, code in spec.class_ids.items()}
    return {
        name: ids.get(codes[here], codes[here]) for name, here in names.items() if here in codes
    }


def class_codes(spec: TensorSpec, keys: ClassKeys) -> dict[str, int]:
    """Return the codes of names of a source, without those of classes that were dropped."""
    assert isinstance(spec.type, ClassLabel)
    there = {code for code, name in enumerate(spec.type.names) if name}
    codes = {
        name: spec.class_ids.get(key, -1) if isinstance(key, str) else key
        for name, key in keys.items()
    }
    return {name: code for name, code in codes.items() if code in there}
