"""Methods of a View: its value, its plan, and its saved name."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tensorlake.dataset.core.rowset import HasRows, HasViews
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session

__all__ = ["explain", "item", "materialize", "rerun", "save"]

View = TypeVar("View")  # the class of views: it has these methods, and stands above this module
Dataset = TypeVar("Dataset")  # likewise
DatasetT_co = TypeVar("DatasetT_co", covariant=True)


class HasRowsAndDatasets(HasRows, Protocol[DatasetT_co]):
    """An object with rows that makes handles of new datasets."""

    def __dataset__(self, session: Session) -> DatasetT_co:
        """Make a handle."""
        ...


def item(self: HasRows) -> Any:
    """The one value of a view with one row and one column, as an aggregate gives.

    Raises:
        InvalidInputError: It has more, or less.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-item", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.query("SELECT SUM(x) AS total").item()
        6
        >>> ds.discard()
    """
    rows = self.__rowset__
    if len(rows) != 1 or len(rows.computed) != 1:
        raise InvalidInputError(
            f"item() is for one row and one computed column; this view has {len(rows)} rows"
            f" and columns {[*rows.columns]}"
        )
    value = next(iter(rows.computed.values())).present_one(0)
    return value.item() if isinstance(value, np.generic) else value


def explain(self: HasRows) -> str:
    """Query plan, with an upper bound of bytes read, and how far single rows are read ahead.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-explain", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> print(ds.where("x > 1").explain())
        Project x
          Filter x > 1   (reads x)
        ...
        >>> ds.discard()
    """
    rows = self.__rowset__
    ahead = rows.session.ahead.describe(rows.selection)
    is_all = rows.selection.rows is None
    chosen = f"all {len(rows):,} rows" if is_all else f"rows given directly: {len(rows):,}"
    shown = f"{chosen} of {rows.version}"
    return "\n".join(filter(None, [str(rows.explanation or shown), ahead]))


def save(self: HasViews[View], name: str, message: str = "") -> View:  # noqa: D417 - a method: self
    """Name the rows, for good and for everyone: ``ds.views[name]`` opens the same view.

    The name shares the namespace of tags: it is never reused, and ``ds.delete_tag(name)`` deletes
    the view. Its rows are protected from garbage collection.

    Args:
        name: The view's name.
        message: Purpose of the view.

    Raises:
        InvalidInputError: The name is taken, or the view has no rows of the dataset.
        UncommittedChangesError: It shows staged changes.
        SnapshotExpiredError: Its version has expired.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-save", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> _ = ds.where("x > 1").save("large")
        >>> tl.open("memory://doc-save").views["large"]["x"][:]
        array([2, 3])
    """
    from tensorlake.dataset.query import saved_views as view_storage

    return self.__view__(view_storage.save(self.__rowset__, name, message))


def rerun(self: HasViews[View]) -> View:
    """Rerun the view's query over the newest version of its branch.

    Raises:
        InvalidStateError: Rows were chosen by hand.
        QueryError: The newest version lacks what the query names.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-rerun", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> large = ds.where("x > 1")
        >>> ds.append({"x": 9})
        >>> _ = ds.commit("nine")
        >>> large["x"][:], large.rerun()["x"][:]
        (array([2, 3]), array([2, 3, 9]))
    """
    from tensorlake.dataset.query import saved_views as view_storage

    return self.__view__(view_storage.rerun(self.__rowset__))


def materialize(  # noqa: D417 - a method: self
    self: HasRowsAndDatasets[Dataset],
    url: str | PathLike[str],
    *,
    encode: Mapping[str, Any] | None = None,
    message: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write a new dataset with these rows and columns, and open it.

    Samples are copied as stored: no image is encoded again. Links lead to the same files. Rows get
    new ids.

    Args:
        url: URL of the new dataset. If interrupted, repeat the call to start over.
        encode: Other types for some tensors; ``{"clip": tl.Video()}`` for links to videos copies
            the files into the new dataset.
        message: Message of its first commit.
        storage_options: Credentials and endpoint of the new dataset.

    Raises:
        InvalidInputError: There is a dataset with rows already.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-materialize", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> ds.where("x > 1").materialize("memory://doc-materialized")["x"][:]
        array([2, 3])
    """
    from tensorlake.dataset.transform.materialize import materialize

    rows = self.__rowset__
    return self.__dataset__(
        materialize(rows, url, encode=encode, message=message, storage_options=storage_options)
    )
