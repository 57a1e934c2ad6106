"""Methods of a View: its value, its plan, and its saved name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tensorlake.dataset.core.rowset import HasRows, HasSession, HasViews
from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.history.ingest_report import IngestReport
    from tensorlake.dataset.sync.rows import OnConflict

__all__ = ["explain", "item", "materialize", "refresh_copy", "rerun", "save"]

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

    Samples are copied as stored, unless ``encode`` has another form for them. Links lead to the
    same files. Rows get new ids. All rows are one commit: a call that is interrupted leaves
    none.

    With ``encode`` the new dataset is a copy to train from, which ``refresh_copy`` brings to the
    newest version of this one later; ``encode={}`` copies samples as stored. Rows are encoded in
    threads, one for each core, and stay in order.

    Args:
        url: URL of the new dataset. If interrupted, repeat the call to start over.
        encode: How some columns are encoded, by name. A type: ``tl.Image("jpeg", max_side=512,
            quality=90)`` scales larger images down, and files that fit are kept as they are;
            ``tl.Video()`` for links to videos copies the files. Decode steps that are not random:
            ``[tl.decode.Resize(256), tl.decode.CenterCrop(224)]`` stores the arrays that they make,
            with annotations ``of=`` the image moved as a loader moves them. A pair: steps and the
            type that encodes their images, or a function of a value and the type of what it
            returns, as in ``(tokenize, tl.Array("int32", (None,)))``; NULL stays NULL.
        message: Message of its first commit.
        storage_options: Credentials and endpoint of the new dataset.

    Raises:
        InvalidInputError: There is a dataset with rows already, or a sample does not fit its type.
        UnsupportedFeatureError: Annotations of an image could not be moved with it.

    Example:
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-materialize", {"x": "int64", "image": tl.Image("png")})
        >>> ds.extend({"x": [1, 2], "image": [np.zeros((8, 16, 3), np.uint8)] * 2})
        >>> _ = ds.commit("two")
        >>> ds.where("x > 1").materialize("memory://doc-materialized")["x"][:]
        array([2])
        >>> resized = {"image": [tl.decode.Resize(4, 4)]}
        >>> ds[:].materialize("memory://doc-encoded", encode=resized)["image"][:].shape
        (2, 4, 4, 3)
    """
    from tensorlake.dataset.transform.materialize import materialize

    rows = self.__rowset__
    return self.__dataset__(
        materialize(rows, url, encode=encode, message=message, storage_options=storage_options)
    )


def refresh_copy(  # noqa: D417 - a method: self
    self: HasSession,
    *,
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
    on_conflict: OnConflict = "keep",
    source: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> IngestReport:
    """Bring a copy, made by ``materialize(url, encode=…)``, to the newest version of its source.

    The query that led to the view is done again, and what changed is encoded as before: rows that
    are new are appended, those that changed are updated in place, those that are gone are deleted,
    all in one commit; without a change there is none. The handle moves to the branch's head. Where
    rows of the view were chosen by hand, the same rows are followed.

    Args:
        functions: The functions that made columns, by name: datasets store no code.
        on_conflict: The outcome where a hand changed in the copy what has changed in the source:
            "keep" what the copy has, take the "source", or raise an "error". Other
            changes by hand stay.
        source: URL of the source, if it is elsewhere now.
        storage_options: Credentials and endpoint of the source.

    Returns:
        A report: rows ``.added``, ``.updated``, ``.deleted``, ``.unchanged``, and ``.conflicts``.

    Raises:
        InvalidStateError: The dataset is not such a copy, or its source is gone, lacks a column, or
            has one of another type. Nothing is changed.
        ConflictError: With ``on_conflict="error"``.
        UncommittedChangesError: The copy has staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-source", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> copy = ds.where("x > 1").materialize("memory://doc-followed", encode={})
        >>> ds.extend({"x": [9]})
        >>> ds["x"][1] = 7
        >>> _ = ds.commit("more")
        >>> report = copy.refresh_copy()
        >>> report.added, report.updated, copy["x"][:]
        (1, 1, array([7, 3, 9]))
    """
    from tensorlake.dataset.transform.materialize import refresh_copy as refresh

    return refresh(
        self.__session__,
        functions=functions,
        on_conflict=on_conflict,
        source=source,
        storage_options=storage_options,
    )
