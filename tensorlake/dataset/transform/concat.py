"""Concatenate rows of several views of one version.

They share a version, so nothing is read or written: only their row numbers are joined.
Rows of different datasets are streamed together by ``tl.mix``, or written together by ``extend``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.query.expressions import expression_columns
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.reading import Selection

__all__ = ["concat"]


def concat(rows: Sequence[RowSet]) -> RowSet:
    """Join rows of one version, in the given order, as ``tl.concat``."""
    first = rows[0]
    columns = first.selection.columns
    for number, one in enumerate(rows[1:], 1):
        _check_version(first, one, number)
        if one.selection.columns != columns or {*one.computed} != {*first.computed}:
            raise InvalidInputError(
                f"concat() joins views of the same columns: views[0] has {list(first.columns)},"
                f" views[{number}] has {list(one.columns)}\nselect the same of both",
                expected=first.columns,
                actual=one.columns,
            )
    for number, one in enumerate(rows):
        if not (one.has_rows and all(map(one.is_expression, one.computed))):
            raise UnsupportedFeatureError(
                f"concat() joins rows, and views[{number}] has values that its query computed:"
                f" {', '.join(one.computed)}\njoin the rows first, then query the view",
                actual=tuple(one.computed),
            )
    joined = np.concatenate([one.rows for one in rows])
    whole = RowSet(first.session, Selection(first.selection.snapshot, columns))
    computed = expression_columns(whole) if first.computed else {}
    return RowSet(
        first.session,
        Selection(first.selection.snapshot, columns, joined),
        computed={name: computed[name].take(joined) for name in first.computed},
        order=first.order,
    )


def _check_version(first: RowSet, other: RowSet, number: int) -> None:
    ours, theirs = first.selection.snapshot, other.selection.snapshot
    if (ours.url, ours.digest) == (theirs.url, theirs.digest):
        return
    raise UnsupportedFeatureError(
        "concat() joins views of one version of one dataset:"
        f" views[0] is of {ours.url!r} {ours.version}, views[{number}] of {theirs.url!r}"
        f" {theirs.version}\nstream several datasets as one by tl.mix({{name: (view, weight)}}),"
        " or append the rows of one to the other by extend()",
        expected=ours.version,
        actual=theirs.version,
    )
