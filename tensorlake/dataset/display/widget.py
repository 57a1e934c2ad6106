"""``ds.widget()``: the viewer in a cell of a notebook, whose selection is Python's too.

    Python           selection (row ids)        widget.js                    the page in its frame
    _wanted ────────── version, rows ──────────► postMessage ───────────────► selects them
    _page   ◄───────── version, rows ─────────── message of the frame ◄────── version, selection

The page knows rows by their numbers in the version that it shows, as ranges ``start, stop, …``;
``selection`` has their ids, which are the same in every version. The page and the widget share a
key that nothing else has: messages without it, or of another origin, are ignored on both sides.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tensorlake.dataset.core.row_identity import id_of_text, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.history import versions as versioning
from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.format import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ViewerWidget", "widget_of"]

SCRIPT = Path(__file__).with_name("widget.js")
KEY_NBYTES = 24


class ViewerWidget(Protocol):
    """The viewer in a cell of a notebook: an ``anywidget.AnyWidget`` with these attributes.

    Attributes:
        selection: The ids of the selected rows, as ``ds.row_ids`` lists them. Assigned, they are
            selected in the page; observed (``w.observe(f, "selection")``), they follow it.
        address: The page's address, with the token that opens it.
        height: Height of the frame, in pixels.
    """

    selection: list[str]
    address: str
    height: int

    @property
    def selected(self) -> Any:
        """The selected rows as a View of the version that the page shows."""
        ...

    def observe(self, handler: Callable[[Any], None], names: str) -> None:
        """Call a function with each change of an attribute."""
        ...


def widget_of(
    rows: RowSet, address: str, make_view: Callable[[RowSet], Any], *, height: int = 640
) -> ViewerWidget:
    """Make the widget that shows an address of the dataset of these rows."""
    return _widget_class()(
        rows.session,
        make_view,
        address=address,
        key=secrets.token_urlsafe(KEY_NBYTES),
        height=height,
    )


@cache
def _widget_class() -> Any:
    import anywidget  # pyright: ignore[reportMissingImports] - of the extra `notebook`
    import traitlets  # pyright: ignore[reportMissingImports] - anywidget requires it

    traits: Any = traitlets  # it has no types here

    class Widget(anywidget.AnyWidget):  # pyright: ignore[reportUntypedBaseClass, reportUnknownMemberType] - likewise
        _esm = SCRIPT
        address: Any = traits.Unicode().tag(sync=True)
        key: Any = traits.Unicode().tag(sync=True)
        height: Any = traits.Int().tag(sync=True)
        selection: Any = traits.List(traits.Unicode())
        _page: Any = traits.Dict().tag(sync=True)
        _wanted: Any = traits.Dict().tag(sync=True)

        def __init__(self, session: Any, make_view: Callable[[RowSet], Any], **state: Any) -> None:
            self._session = session
            self._make_view = make_view
            self._is_told = False  # whether `selection` changes because the page reports it
            super().__init__(**state)  # pyright: ignore[reportUnknownMemberType] - likewise

        @property
        def selected(self) -> Any:
            rows = self._rows()
            return self._make_view(rows.take(numbers_of_ids(self.selection, rows)))

        def _rows(self) -> RowSet:
            """All rows of the version that the page shows."""
            version = self._page.get("version")
            session = self._session
            return everything(session if version is None else versioning.at(session, version))

        @traits.validate("selection")
        def _check(self, proposal: Any) -> list[str]:
            if not self._is_told:
                numbers_of_ids(proposal["value"], self._rows())
            return proposal["value"]

        @traits.observe("_page")
        def _hear(self, change: Any) -> None:
            if not change["old"] and self.selection:  # made before the page was there
                return self._tell(None)
            rows = self._rows()
            self._is_told = True
            try:
                numbers = rows_of_ranges(self._page["rows"], len(rows))
                self.selection = rows.take(numbers).row_ids
            finally:
                self._is_told = False

        @traits.observe("selection")
        def _tell(self, _: Any) -> None:
            if not self._is_told and self._page:
                numbers = numbers_of_ids(self.selection, self._rows())
                self._wanted = {"version": self._page["version"], "rows": ranges_of_rows(numbers)}

    return Widget


def numbers_of_ids(ids: Sequence[str], rows: RowSet) -> np.ndarray:
    """Return the numbers of rows in a version, int64, sorted.

    Raises:
        InvalidInputError: A text is not a row id, or the version does not have the row.
    """
    wanted = np.concatenate([np.zeros(0, ROW_ID), *map(id_of_text, ids)])
    numbers = rows_of_ids(wanted, rows.selection.snapshot)
    missing = np.flatnonzero(numbers < 0)
    if len(missing):
        raise InvalidInputError(
            f"{rows.version} of {rows.url!r} has no row {shown(ids[missing[0]])}"
            "\nselect rows of the version that is shown: ds.row_ids lists their ids",
            actual=ids[missing[0]],
        )
    return np.unique(numbers)


def ranges_of_rows(rows: np.ndarray) -> list[int]:
    """Return sorted rows as ranges ``start, stop, …``.

    >>> ranges_of_rows(np.array([3, 4, 5, 9]))
    [3, 6, 9, 10]
    """
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) > 1)
    starts = rows[np.concatenate([[0], breaks + 1])]
    stops = rows[np.concatenate([breaks, [len(rows) - 1]])] + 1
    return np.stack([starts, stops], axis=1).ravel().tolist()


def rows_of_ranges(ranges: Sequence[int], num_rows: int) -> np.ndarray:
    """Return rows of ranges that a page sent, int64.

    Raises:
        InvalidStateError: The ranges do not fit the number of rows.
    """
    edges = np.array(ranges, np.int64)
    is_sorted = bool((np.diff(edges) >= 0).all())
    if (
        len(edges) % 2
        or not is_sorted
        or (len(edges) and not 0 <= edges[0] <= edges[-1] <= num_rows)
    ):
        raise InvalidStateError(
            f"the page selected {shown(ranges)} of {num_rows} rows\nreload the cell's page"
        )
    parts = [np.arange(start, stop) for start, stop in edges.reshape(-1, 2)]
    return np.concatenate([np.zeros(0, np.int64), *parts])
