"""``tl.concat``: the rows of several views, one after the other, as one view.

The views are of one version, so nothing is read or written: only their row numbers are joined.
Rows of different datasets are streamed together by ``tl.mix``, or written together by ``extend``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from tensorlake.dataset.core.rowset import rowset_of
from tensorlake.dataset.handles.dataset import View
from tensorlake.dataset.handles.rows import Rows
from tensorlake.dataset.transform import concat as concatenating
from tensorlake.errors import InvalidInputError, shown

__all__ = ["concat"]


def concat(views: Sequence[Rows]) -> View:
    """Join the rows of datasets and views of one version, in the order given.

    A row that is in two of them appears twice.

    Args:
        views: Views to join, all with the same columns.

    Raises:
        InvalidInputError: There are no views, one is not a view, or their columns differ.
        UnsupportedFeatureError: They are of different versions, or hold computed columns.

    Examples:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://concat", {"x": tl.Array("int32", ())})
        >>> ds.extend({"x": [1, 2, 3, 4]})
        >>> _ = ds.commit("four rows")
        >>> tl.concat([ds.query("WHERE x > 2"), ds[:1]])["x"][:].tolist()
        [3, 4, 1]
    """
    joined = concatenating.concat([rowset_of(_checked(one)) for one in _listed(views)])
    return View(joined)


def _listed(views: Any) -> list[Any]:
    is_list = isinstance(views, Sequence) and not isinstance(views, str | Rows)
    if not is_list or not views:
        given = "an empty list" if is_list else f"{type(views).__name__} {shown(views)}"
        raise InvalidInputError(
            f"concat() takes a list of views, got {given}\ntl.concat([first, second])"
        )
    return list(cast("Sequence[Any]", views))


def _checked(one: Any) -> Rows:
    if not isinstance(one, Rows):
        raise InvalidInputError(
            f"concat() joins datasets and views, got {type(one).__name__} {shown(one)}", actual=one
        )
    return one
