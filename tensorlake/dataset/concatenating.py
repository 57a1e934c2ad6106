"""``tl.concat``: the rows of several views, one after the other, as one view.

The views are of one version, so nothing is read or written: only their row numbers are joined.
Rows of different datasets are streamed together by ``tl.mix``, or written together by ``extend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.dataset.readable import Readable
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.reading import Selection

if TYPE_CHECKING:
    from tensorlake.dataset.view import View

__all__ = ["concat"]


def concat(views: Sequence[Readable]) -> View:
    """Join the rows of datasets and views of one version, in the order given.

    A row that is in two of them comes twice.

    Args:
        views: What to join; all with the same columns.

    Raises:
        InvalidInputError: There is none, one is no view, or their columns differ.
        UnsupportedFeatureError: They are of different versions, or hold computed columns.

    Examples:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://concat", {"x": tl.Array("int32", ())})
        >>> ds.extend({"x": [1, 2, 3, 4]})
        >>> _ = ds.commit("four rows")
        >>> tl.concat([ds.query("WHERE x > 2"), ds[:1]])["x"][:].tolist()
        [3, 4, 1]
    """
    frozen = [_checked(one).frozen() for one in _listed(views)]
    first = frozen[0]
    columns = first.selection().columns
    for number, one in enumerate(frozen[1:], 1):
        _check_version(first, one, number)
        if one.selection().columns != columns:
            raise InvalidInputError(
                f"concat() joins views of the same columns: views[0] has {list(columns)}, views"
                f"[{number}] has {list(one.selection().columns)}\nselect the same of both",
                expected=columns,
                actual=one.selection().columns,
            )
    for number, one in enumerate(frozen):
        if one.computed or not one.has_rows:
            raise UnsupportedFeatureError(
                f"concat() joins rows, and views[{number}] has values that its query computed:"
                f" {', '.join(one.computed)}\njoin the rows first, then query the view",
                actual=tuple(one.computed),
            )
    rows = [one.selection().row_numbers(one.selection().all_positions()) for one in frozen]
    joined = Selection(first.selection().snapshot, columns, np.concatenate(rows))
    return type(first)(first.session, joined)


def _listed(views: Any) -> list[Any]:
    is_list = isinstance(views, Sequence) and not isinstance(views, str | Readable)
    if not is_list or not views:
        given = "an empty list" if is_list else f"{type(views).__name__} {views!r:.60}"
        raise InvalidInputError(
            f"concat() takes a list of views, got {given}\ntl.concat([first, second])"
        )
    return list(cast("Sequence[Any]", views))


def _checked(one: Any) -> Readable:
    if not isinstance(one, Readable):
        raise InvalidInputError(
            f"concat() joins datasets and views, got {type(one).__name__} {one!r:.60}", actual=one
        )
    return one


def _check_version(first: View, other: View, number: int) -> None:
    ours, theirs = first.selection().snapshot, other.selection().snapshot
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
