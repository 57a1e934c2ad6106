"""How often classes, words, strings and booleans occur, and in how many rows.

Classes and booleans have codes and are counted by NumPy; words and texts are counted as they
come, and only where they repeat: a column of captions that are all different has no classes.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake_server.messages.messages import ClassCount, ClassCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

__all__ = ["count_codes", "count_words", "row_of_values"]

MOST_WORDS = 1000  # of texts and words, the most frequent
LONGEST = 200  # characters of a text that can be a class
MOST_PAIRS = 1 << 23  # rows × classes that are marked in a table; beyond that pairs are sorted


def count_codes(
    batches: Iterable[tql.UniformBatch | tql.RaggedBatch], names: Sequence[str], counted: int
) -> ClassCounts:
    """Count codes; one outside of `names`, a mask's "no class", is not counted."""
    counts = np.zeros(len(names), dtype=np.int64)
    rows = np.zeros(len(names), dtype=np.int64)
    for batch in batches:
        owners, codes = row_of_values(batch)
        is_class = (codes >= 0) & (codes < len(names))
        if not bool(is_class.all()):
            owners, codes = owners[is_class], codes[is_class]
        counts += np.bincount(codes, minlength=len(names))
        rows += _rows_of(owners, codes.astype(np.int64), len(names))
    entries = [
        ClassCount(code=code, name=name, count=count, rows=holding)
        for code, (name, count, holding) in enumerate(
            zip(names, counts.tolist(), rows.tolist(), strict=True)
        )
        if name  # a class that was dropped has none
    ]
    distinct = int(np.count_nonzero(counts))
    return ClassCounts(
        counted=counted, values=int(counts.sum()), distinct=distinct, entries=entries
    )


def count_words(batches: Iterable[tql.ObjectBatch], counted: int) -> ClassCounts | None:
    """Count texts, or the texts of lists; None where hardly any repeats, or one is prose."""
    found: Counter[str] = Counter()
    values = 0
    for batch in batches:
        before = len(found)
        words = [word for one in batch.values if one is not None for word in _words(one)]
        found.update(words)
        values += len(words)
        if len(found) - before > MOST_WORDS and 2 * len(found) > values:
            return None  # the rest would be held in memory for nothing
    if 2 * len(found) > values or any(len(word) > LONGEST for word in found):
        return None
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:MOST_WORDS]
    entries = [
        ClassCount(code=code, name=word, count=count, rows=count)  # words of a row are different
        for code, (word, count) in enumerate(ranked)
    ]
    return ClassCounts(counted=counted, values=values, distinct=len(found), entries=entries)


def row_of_values(
    batch: tql.UniformBatch | tql.RaggedBatch,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Flatten a batch: the values of its rows that are not NULL, and whose each is."""
    if isinstance(batch, tql.RaggedBatch):  # NULLs have no elements there
        sizes = np.multiply.reduce(batch.shapes, axis=1)
        return np.repeat(np.arange(len(sizes)), sizes), batch.values
    owners, values = np.arange(len(batch.values)), batch.values
    if batch.valid is not None:
        owners, values = owners[batch.valid], values[batch.valid]
    per_row = math.prod(values.shape[1:])
    return np.repeat(owners, per_row) if per_row != 1 else owners, values.reshape(-1)


def _rows_of(
    owners: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], classes: int
) -> npt.NDArray[np.int64]:
    """How many rows have each class."""
    if len(owners) == 0:
        return np.zeros(classes, dtype=np.int64)
    pairs = owners * classes + codes
    if (int(owners[-1]) + 1) * classes <= MOST_PAIRS:
        is_there = np.zeros((int(owners[-1]) + 1) * classes, dtype=np.bool_)
        is_there[pairs] = True
        return is_there.reshape(-1, classes).sum(axis=0)
    return np.bincount(np.unique(pairs) % classes, minlength=classes)


def _words(one: object) -> list[str]:
    return one if isinstance(one, list) else [str(one)]
