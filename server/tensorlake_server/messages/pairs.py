"""Rows counted by the values of two tensors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tensorlake_server.messages.messages import ClassCounts, Histogram, Message

__all__ = ["PairAxis", "PairStatistics"]


class PairAxis(Message):
    """One of two tensors: its most frequent ``classes``, or a ``histogram``; the other is null.

    Classes are those that the most rows hold, in that order; ``classes.distinct`` is the number of
    all.
    """

    tensor: str
    classes: ClassCounts | None
    histogram: Histogram | None


class PairStatistics(Message):
    """``counts[j][i]`` rows have a value in place i of ``x`` and one in place j of ``y``.

    A place is a class or a bar. A row that holds many classes is counted in each of them. Rows
    with a NULL, NaN or infinity, and those of classes that are not listed, are in no place.
    """

    rows: int
    counted: Annotated[int, Field(description="rows that were looked at")]
    placed: Annotated[int, Field(description="rows that are in one place or more")]
    x: PairAxis
    y: PairAxis
    counts: list[list[int]]
    medians: Annotated[
        list[float | None] | None,
        Field(description="of one number by the classes of the other tensor; else null"),
    ]
