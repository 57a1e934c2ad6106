"""Timestamps out of order, in columns that are otherwise in order."""

from __future__ import annotations

from collections.abc import Iterator

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.types import Timestamp

__all__ = ["OUT_OF_ORDER"]

FEW = 0.2
"""Share of the rows before which time may go back; of rows in random order, it is one half."""


def _out_of_order(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        if not isinstance(kind, Timestamp):
            continue
        time = tql.print_name(name)
        condition = f"ROW_NUMBER() > 0 AND {time} < DATA({time}, ROW_NUMBER() - 1)"
        if len(view.where(condition)) <= FEW * len(view):
            remedy = "correct the times, or sort the rows: ds.optimize(order_by=…)"
            yield Suspect(name, "is earlier than in the row before", condition, remedy)


OUT_OF_ORDER = LintRule("time-order", "few timestamps before that of the row before", _out_of_order)
