"""The rows that a search looks at, as masks over physical rows.

A search of a whole dataset that nothing was deleted from has no masks, so that its cost does not
grow with the dataset. ``corpus`` are the rows searched, and decide what a word is worth;
``allowed`` are those of them that may be found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.reading import Snapshot
from tensorlake.versions import distinct

__all__ = ["Scope", "meet"]

Int64Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_shown: WeakKeyDictionary[Snapshot, tuple[Mask, Int64Array]] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True)
class Scope:
    """Rows that are searched.

    Attributes:
        rows: The rows.
        positions: Those of them that may be found, by position; None: all.
        check: Called between batches with the rows done and their total; it raises to end a search.
    """

    rows: RowSet
    positions: Int64Array | None = None
    check: Callable[[int, int], None] = field(default=lambda done, total: None, repr=False)  # noqa: ARG005 - nothing ends it

    @property
    def snapshot(self) -> Snapshot:
        """The version."""
        return self.rows.selection.snapshot

    @cached_property
    def corpus(self) -> Mask | None:
        """Which physical rows are searched; None: all."""
        snapshot, selection = self.snapshot, self.rows.selection
        if selection.rows is not None:
            return _mask(snapshot, selection.physical(selection.all_positions()))
        if snapshot.num_rows == snapshot.state.physical:
            return None
        return self._shown[0]

    @property
    def _shown(self) -> tuple[Mask, Int64Array]:
        """The mask of all rows of the version, and the physical row of each; kept with it."""
        with _lock:
            found = _shown.get(self.snapshot)
        if found is None:
            physical = self.snapshot.physical(np.arange(self.snapshot.num_rows))
            found = _mask(self.snapshot, physical), physical
            with _lock:
                _shown[self.snapshot] = found
        return found

    @cached_property
    def allowed(self) -> Mask | None:
        """Which physical rows may be found; None: all."""
        if self.positions is None:
            return self.corpus
        return _mask(self.snapshot, self.rows.selection.physical(self.positions))

    @cached_property
    def num_allowed(self) -> int:
        """The number of physical rows that may be found."""
        return self.snapshot.state.physical if self.allowed is None else int(self.allowed.sum())

    def allowed_rows(self) -> Int64Array:
        """List the physical rows that may be found, ascending."""
        if self.allowed is None:
            return np.arange(self.snapshot.state.physical)
        return np.flatnonzero(self.allowed)

    def positions_of(self, physical: Int64Array) -> Int64Array:
        """Return all positions that may be found of physical rows, ascending."""
        selection = self.rows.selection
        if selection.rows is None:
            return np.sort(self.position_of(distinct(physical)))
        positions = selection.all_positions() if self.positions is None else self.positions
        return positions[_mask(self.snapshot, physical)[selection.physical(positions)]]

    def position_of(self, physical: Int64Array) -> Int64Array:
        """Return the position of physical rows, the first one of a row that is there twice."""
        selection = self.rows.selection
        if selection.rows is None and self.snapshot.first_physical is not None:
            return physical - self.snapshot.first_physical
        if selection.rows is None:
            own = self._shown[1]
            places = np.minimum(np.searchsorted(own, physical), len(own) - 1)
            if np.array_equal(own[places], physical):  # rows are in physical order
                return places
            return self.snapshot.rows_of(physical)
        own = selection.physical(selection.all_positions())
        order = np.argsort(own, kind="stable")
        return order[np.searchsorted(own[order], physical)]


def meet(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the rows of both masks; None: all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _mask(snapshot: Snapshot, physical: Int64Array) -> Mask:
    mask = np.zeros(snapshot.state.physical, np.bool_)
    mask[physical] = True
    return mask
