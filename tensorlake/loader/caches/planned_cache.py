"""A cache of rows by id that knows the coming batches, and so fetches the fewest rows.

    future   the ids of coming batches in order, as far as they are known (``caches/future.py``)
    rank     of a cached id: the place of its next use; behind all places, where none is known,
             the ids used most often first
    keep     after each batch: of the cached ids and the batch's, the ``capacity`` lowest ranks; of
             equal ones those cached already, so that an epoch, which uses every id once, keeps
             what it has

Where the whole future is known no cache fetches fewer rows: L. A. Belady, "A study of replacement
algorithms for a virtual-storage computer", IBM Systems Journal 5 (1966), with bypass: ids that
are needed latest are not kept. Tables by id have 16 bytes for each id up to the largest; the rest
is as large as the cache and the known future. One thread uses a cache at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.loader.caches.future import (
    AHEAD,
    MAX_COUNT,
    UNKNOWN,
    Future,
    Ids,
    checked_ids,
    grown,
    ranks_of,
)
from tensorlake.quantities import checked_integer
from tensorlake.versions import distinct

__all__ = ["PlannedCache"]

Rows: TypeAlias = NDArray[Any]  # of the caller's dtype

MAX_CAPACITY: Final = (1 << 31) - 1  # slots are 32-bit numbers


@dataclass(frozen=True, slots=True)
class Uses:
    """The distinct ids of a batch."""

    ids: Ids
    slots: NDArray[np.int32]  # -1: not cached
    following: Ids  # places of their next uses


class PlannedCache:
    """Keep the rows that coming batches use soonest; fetch the others.

    Args:
        capacity: Maximum number of rows kept.
        trace: The ids of coming batches, one integer array for each ``gather``, in order. A
            sequence is read at once, an iterable as far ahead as ``lookahead``. Empty: the most
            frequent ids are kept.
        lookahead: Number of batches known beyond the one that is gathered. None: all of a
            sequence; of an iterable, until they have four times as many ids as the cache, each
            counted once a batch.
        evicted: Receives the ids and rows, both arrays, that ``put`` changed and the cache no
            longer keeps.

    Attributes:
        hits: Number of ids found, each counted once a batch.
        misses: Number of ids fetched.

    Example:
        >>> import numpy as np
        >>> from tensorlake.loader import PlannedCache
        >>> table = np.arange(20.0).reshape(10, 2)
        >>> batches = [np.array([1, 2]), np.array([3, 4]), np.array([2, 1])]
        >>> cache = PlannedCache(2, batches)
        >>> [cache.gather(ids, lambda missing: table[missing])[0, 0].item() for ids in batches]
        [2.0, 6.0, 4.0]
        >>> cache.hits, cache.misses
        (2, 4)
    """

    def __init__(
        self,
        capacity: int,
        trace: Iterable[ArrayLike] = (),
        *,
        lookahead: int | None = None,
        evicted: Callable[[Ids, Rows], None] | None = None,
    ) -> None:
        self.capacity = checked_integer(capacity, name="capacity", least=0, most=MAX_CAPACITY)
        if lookahead is not None:
            lookahead = checked_integer(lookahead, name="lookahead", least=0)
        self.hits = 0
        self.misses = 0
        self._lookahead = lookahead
        self._evicted = evicted
        self._rows: Rows | None = None  # by slot, as the next three
        self._ids = np.zeros(self.capacity, np.int64)
        self._ranks = np.zeros(self.capacity, np.int64)
        self._is_changed = np.zeros(self.capacity, np.bool_)
        self._size = 0  # slots in use: the first ones
        self._slots = np.zeros(0, np.int32)  # by id; -1: not cached
        self._counts = np.zeros(0, np.uint32)  # by id: batches that used it
        self._future = self._future_of(trace, start=0)

    @property
    def fetched(self) -> int:
        """Number of rows fetched: another name of ``misses``."""
        return self.misses

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are kept."""
        return 0 if self._rows is None else self._rows[: self._size].nbytes

    def __len__(self) -> int:
        """Number of rows kept."""
        return self._size

    def follow(self, trace: Iterable[ArrayLike]) -> None:
        """Replace the known future by another trace; the rows in the cache stay."""
        ids = self._ids[: self._size]
        self._ranks[: self._size] = self._rank_of(ids, np.full(len(ids), UNKNOWN))
        self._future = self._future_of(trace, start=self._future.start)

    def missing(self, ids: ArrayLike) -> Ids:
        """Return which of some ids are not cached: sorted and distinct, for reading ahead."""
        unique = distinct(self._known(ids))
        return unique[self._slots[unique] < 0]

    def gather(self, ids: ArrayLike, fetch: Callable[[Ids], Rows]) -> Rows:
        """Return the rows of some ids, and keep those that are needed soonest.

        An error, of ``fetch`` too, leaves the cache and its future as they were.

        Args:
            ids: Integers of any shape, repeats included: the next of the trace, in any order.
            fetch: Returns the rows of missing ids: an array (k, …) for sorted and distinct ids
                (k,). It is called once, if there are any; and by the first ``gather``.

        Returns:
            An array of the shape of ``ids`` followed by that of a row.

        Raises:
            InvalidInputError: The ids are not integers of 0 or more, or differ from the next ones
                of the trace; or ``fetch`` returned other than one row for each id, or rows of
                another shape or dtype than before.
        """
        asked = self._known(ids)
        is_known = self._checked_next(asked)
        missing = self.missing(asked)
        fetched = self._fetched(missing, fetch)
        rows = self._joined(asked, missing, fetched)
        if is_known:
            self._future.look_beyond(len(asked))
        uses = self._uses(asked, is_known=is_known)
        self._keep(uses, missing, fetched)
        if is_known:
            self._future.take(len(asked))
        self.misses += len(missing)
        self.hits += len(uses.ids) - len(missing)
        return rows.reshape(*np.shape(ids), *rows.shape[1:])

    def put(self, ids: ArrayLike, rows: ArrayLike) -> None:
        """Change the rows of some ids, in the cache or, of those not cached, by ``evicted``.

        Args:
            ids: Distinct integers, of any shape.
            rows: An array of the shape of ``ids`` followed by that of a row.

        Raises:
            InvalidStateError: The cache was made without ``evicted``, or has no row yet.
            InvalidInputError: An id is given twice, or the rows are of another shape or dtype.
        """
        if self._evicted is None or self._rows is None:
            lacks = "evicted=" if self._evicted is None else "rows: gather some first"
            raise InvalidStateError(
                f"this cache cannot change rows: it has no {lacks}"
                "\nwrite PlannedCache(capacity, trace, evicted=function of ids and rows)"
            )
        flat = self._known(ids)
        new = np.asarray(rows)
        expected = (*np.shape(ids), *self._rows.shape[1:])
        if new.shape != expected or new.dtype != self._rows.dtype:
            raise InvalidInputError(
                f"rows are an array {expected} of {self._rows.dtype}, got {new.shape} of"
                f" {new.dtype}",
                actual=new.shape,
            )
        if len(distinct(flat)) < len(flat):
            raise InvalidInputError(
                f"each id is put once, got {shown(ids)}\nadd up the changes of an id first",
                actual=ids,
            )
        new = new.reshape(len(flat), *self._rows.shape[1:])
        slots = self._slots[flat]
        is_cached = slots >= 0
        if not is_cached.all():
            self._evicted(flat[~is_cached], new[~is_cached])
        self._rows[slots[is_cached]] = new[is_cached]
        self._is_changed[slots[is_cached]] = True

    def flush(self) -> None:
        """Hand all changed rows to ``evicted``; they stay in the cache."""
        self._write_back(np.flatnonzero(self._is_changed[: self._size]))

    def clear(self) -> None:
        """Drop all rows, changed ones too. The known future stays."""
        self._slots[self._ids[: self._size]] = -1
        self._is_changed[: self._size] = False
        self._size = 0

    def _future_of(self, trace: Iterable[ArrayLike], *, start: int) -> Future:
        return Future(
            trace,
            lookahead=self._lookahead,
            enough=AHEAD * max(1, self.capacity),
            first_use=self._found_use,
            start=start,
        )

    def _found_use(self, ids: Ids, places: Ids) -> None:
        """Rank cached ids by a use that has just become known."""
        ids, places = ids[ids < len(self._slots)], places[ids < len(self._slots)]
        slots = self._slots[ids]
        self._ranks[slots[slots >= 0]] = places[slots >= 0]

    def _known(self, ids: ArrayLike) -> Ids:
        """Return ids as a flat array, for which the tables have entries."""
        flat = checked_ids(ids)
        length = int(flat.max()) + 1 if len(flat) else 0
        self._slots = grown(self._slots, length, fill=-1)
        self._counts = grown(self._counts, length, fill=0)
        return flat

    def _checked_next(self, asked: Ids) -> bool:
        """Return whether the trace knows a batch, and check that it is the next one."""
        if not self._future.is_known(len(asked)):
            return False
        coming = self._future.ids[: len(asked)]
        if not np.array_equal(coming, asked) and not np.array_equal(
            np.sort(coming), np.sort(asked)
        ):
            raise InvalidInputError(
                f"the trace has other ids next: {shown(coming)}, got {shown(asked)}"
                "\ngather the batches of the trace in its order, or call follow() with another",
                expected=coming,
                actual=asked,
            )
        return True

    def _fetched(self, missing: Ids, fetch: Callable[[Ids], Rows]) -> Rows:
        if self._rows is not None and not len(missing):
            return self._rows[:0]
        fetched = np.asarray(fetch(missing))
        row = fetched.shape[1:] if self._rows is None else self._rows.shape[1:]
        dtype = fetched.dtype if self._rows is None else self._rows.dtype
        if fetched.shape != (len(missing), *row) or fetched.dtype != dtype:
            raise InvalidInputError(
                f"fetch returns a row for each of {len(missing)} ids, an array"
                f" {(len(missing), *row)} of {dtype}, got {fetched.shape} of {fetched.dtype}",
                expected=(len(missing), *row),
                actual=fetched.shape,
            )
        if self._rows is None:  # pages of it take memory when rows are kept in them
            self._rows = np.empty((self.capacity, *row), dtype)
        return fetched

    def _joined(self, asked: Ids, missing: Ids, fetched: Rows) -> Rows:
        """Put cached and fetched rows in the order asked for."""
        assert self._rows is not None, "set by the first fetch"
        slots = self._slots[asked]
        is_cached = slots >= 0
        if not is_cached.any():
            return fetched[np.searchsorted(missing, asked)]
        rows = self._rows[slots]  # of -1: some row, replaced now
        rows[~is_cached] = fetched[np.searchsorted(missing, asked[~is_cached])]
        return rows

    def _uses(self, asked: Ids, *, is_known: bool) -> Uses:
        ids = self._future.ids[: len(asked)] if is_known else asked
        unique, from_end = np.unique(ids[::-1], return_index=True)  # the last use in the batch
        following = np.full(len(unique), UNKNOWN)
        if is_known:
            following = self._future.following[: len(asked)][::-1][from_end]
        return Uses(unique, self._slots[unique], following)

    def _rank_of(self, ids: Ids, following: Ids) -> Ids:
        return ranks_of(following, self._counts[ids])

    def _keep(self, uses: Uses, missing: Ids, fetched: Rows) -> None:
        """Keep the lowest ranks of cached and fetched rows.

        A fetched id is ranked by its uses before this one: in the middle of an epoch an id that
        has been used would else count more than a cached one whose turn comes.
        """
        assert self._rows is not None, "set by the first fetch"
        is_missing = uses.slots < 0
        hit = uses.slots[~is_missing]
        ranks = self._ranks[: self._size].copy()
        ranks[hit] = self._rank_of(uses.ids[~is_missing], uses.following[~is_missing])
        ranks = np.append(ranks, self._rank_of(missing, uses.following[is_missing]))
        is_kept = lowest(ranks, self.capacity)
        left = np.flatnonzero(~is_kept[: self._size])
        self._write_back(left[self._is_changed[left]])

        new = np.flatnonzero(is_kept[self._size :])
        free = np.append(left, np.arange(self._size, self._size + len(new) - len(left)))
        self._slots[self._ids[left]] = -1
        self._ids[free], self._slots[missing[new]] = missing[new], free
        self._rows[free] = fetched[new]
        self._is_changed[free] = False
        self._size += len(free) - len(left)
        self._counts[uses.ids] = np.minimum(self._counts[uses.ids], MAX_COUNT - 1) + 1
        slots = self._slots[uses.ids]
        is_cached = slots >= 0
        self._ranks[slots[is_cached]] = self._rank_of(uses.ids, uses.following)[is_cached]

    def _write_back(self, slots: NDArray[np.intp]) -> None:
        if len(slots):
            assert self._evicted is not None, "put() needs it"
            assert self._rows is not None, "put() needs one"
            self._evicted(self._ids[slots], self._rows[slots])
            self._is_changed[slots] = False


def lowest(ranks: Ids, count: int) -> NDArray[np.bool_]:
    """Return which are the ``count`` lowest ranks; of equal ones the first."""
    if count >= len(ranks):
        return np.ones(len(ranks), np.bool_)
    if not count:
        return np.zeros(len(ranks), np.bool_)
    limit = np.partition(ranks, count - 1)[count - 1]
    is_low = ranks < limit
    equal = np.flatnonzero(ranks == limit)
    is_low[equal[: count - np.count_nonzero(is_low)]] = True
    return is_low
