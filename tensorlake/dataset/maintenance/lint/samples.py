"""Samples of a column, decoded a batch at a time; a damaged one does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tensorlake.errors import CorruptSampleError

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.maintenance.lint.rule import Linted

__all__ = ["facts_of"]

Fact = TypeVar("Fact")

BATCH_ROWS = 64
BATCH_NBYTES = 16 << 20
"""Encoded bytes decoded together: about 200 MB of pixels."""


def facts_of(
    view: Linted, name: str, fact: Callable[[Any], Fact]
) -> Iterator[tuple[int, Fact | None]]:
    """Yield the position and a fact of each sample that is not NULL; None where it is damaged.

    Args:
        view: The view.
        name: A tensor of images, videos or audio.
        fact: Computes the fact from an array, or from a handle of a lazy type.
    """
    spans = view.__rowset__.spans([name], rows_max=BATCH_ROWS, nbytes=BATCH_NBYTES)
    for start, stop in spans:
        positions = np.arange(start, stop)
        yield from _facts(view.__rowset__, name, positions, fact)


def _facts(
    rows: RowSet, name: str, positions: np.ndarray, fact: Callable[[Any], Fact]
) -> Iterator[tuple[int, Fact | None]]:
    kind = rows.selection.snapshot.spec(name).type
    try:
        if kind.is_lazy:
            samples: list[Any] = [*rows.handles(name, positions)]
        else:
            column = rows.read(name, positions)
            samples = [kind.present_one(column, at) for at in range(len(column))]
    except CorruptSampleError:
        if len(positions) == 1:
            yield int(positions[0]), None
        else:
            for each in np.split(positions, len(positions)):
                yield from _facts(rows, name, each, fact)
        return
    for at, sample in zip(positions.tolist(), samples, strict=True):
        if sample is not None:
            yield at, _fact(sample, fact)


def _fact(sample: Any, fact: Callable[[Any], Fact]) -> Fact | None:
    try:
        return fact(sample)
    except CorruptSampleError:
        return None
