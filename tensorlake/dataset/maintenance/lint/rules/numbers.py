"""Numbers that are not finite, and columns with one value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.types import Link, Text, holds_floats

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["CONSTANT", "NOT_FINITE"]

LEAST_ROWS = 5
"""Fewer rows may well have one value."""


def _not_finite(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        if kind.is_media or isinstance(kind, Link) or kind.query_kind != "number":
            continue
        if kind.dtype is None or not holds_floats(kind.dtype):
            continue
        column = tql.print_name(name)
        wrong = f"{column} - {column} != 0"  # of NaN and the infinities it is NaN
        condition = wrong if kind.shape == () else f"ANY({wrong})"
        remedy = "correct the values, or declare the tensor nullable=True and store NULL"
        yield Suspect(name, "has NaN or infinity", condition, remedy, "error")


def _constant(view: Linted) -> Iterator[Suspect]:
    if len(view) < LEAST_ROWS:
        return
    names = [
        name
        for name, kind in view.schema.items()
        if _is_scalar(kind) and not name.endswith(".error")  # reasons of failures: best all NULL
    ]
    columns = [tql.print_name(name) for name in names]
    measures = [f"{each}({column})" for column in columns for each in ("COUNT", "MIN", "MAX")]
    if not measures:
        return
    chosen = ", ".join(f"{each} AS m{at}" for at, each in enumerate(measures))
    facts = view.query(f"SELECT {chosen}")
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        count, low, high = (facts[f"m{3 * at + which}"][0] for which in range(3))
        remedy = "drop the tensor if it is not needed, or find out why it was never set"
        if not count:
            yield Suspect(name, "has no values", f"{column} IS NULL", remedy, "note")
        elif count >= LEAST_ROWS and low == high:
            what = f"has one value, {low!s:.40}"
            yield Suspect(name, what, f"{column} IS NOT NULL", remedy, "note")


def _is_scalar(kind: SampleType) -> bool:
    if isinstance(kind, Link):
        return False
    return isinstance(kind, Text) or (kind.layout == "uniform" and kind.shape == ())


NOT_FINITE = LintRule("not-finite", "NaN and infinities among numbers", _not_finite)
CONSTANT = LintRule("constant", "columns with one value, or none", _constant)
