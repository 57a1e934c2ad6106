"""The ids of coming batches, as far as a trace is known, with the next use of each.

    ids          3    7    3    1    7   …      read from the trace and not yet used
    place       40   41   42   43   44          counted from the first id of all
    following   42   44    ?    ?    ?          the place of the same id's next use; ? is UNKNOWN

One sort for every part of the trace that is read, and array operations on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorlake.errors import InvalidInputError, shown

__all__ = ["AHEAD", "MAX_COUNT", "UNKNOWN", "Future", "Ids", "checked_ids", "grown", "ranks_of"]

Ids: TypeAlias = NDArray[np.int64]

UNKNOWN: Final = 1 << 62  # behind every place
AHEAD: Final = 4  # ids known ahead for each cached one; all of Zipf (1.05): a tenth fewer fetches
MAX_COUNT: Final = (1 << 32) - 1
MAX_ID: Final = (1 << 34) - 1  # ids are row numbers: tables by id have a few bytes for each
FIRST_LENGTH: Final = 1024


class Future:
    """The known part of a trace.

    Args:
        trace: Integer arrays, one for each coming batch. A sequence is read at once if
            ``lookahead`` is None.
        lookahead: Number of batches known beyond the next; None: until there are ``enough`` ids.
        enough: Number of ids beyond the next batch, of which each batch counts its distinct ones.
        first_use: Receives ids that had no known use, with the places of their next.
        start: Place of the first id.
    """

    def __init__(
        self,
        trace: Iterable[ArrayLike],
        *,
        lookahead: int | None,
        enough: int,
        first_use: Callable[[Ids, Ids], None],
        start: int = 0,
    ) -> None:
        self.start = start
        self._count = 0
        self._lookahead = lookahead
        self._enough = enough
        self._first_use = first_use
        self._batches: deque[tuple[int, int]] = deque()  # of the window: place behind, distinct ids
        self._distinct = 0  # the sum of these
        self._ids = np.zeros(FIRST_LENGTH, np.int64)
        self._following = np.zeros(FIRST_LENGTH, np.int64)
        self._offset = 0  # of the first id in these arrays
        self._last_places = np.zeros(0, np.int64)  # by id; of uses before `start`: none is known
        is_whole = lookahead is None and isinstance(trace, Sequence | np.ndarray)
        parts = [checked_ids(part) for part in trace] if is_whole else None
        self._trace = iter(trace if parts is None else ())
        self._has_ended = parts is not None
        if parts:
            self.add(np.concatenate(parts))

    @property
    def ids(self) -> Ids:
        """The ids of the window."""
        return self._ids[self._offset : self._offset + self._count]

    @property
    def following(self) -> Ids:
        """The place of the next use of each; UNKNOWN where the window has none."""
        return self._following[self._offset : self._offset + self._count]

    def is_known(self, count: int) -> bool:
        """Return whether the trace has any further ids; read as many as ``count``."""
        while self._count < count and self._read():
            pass
        return self._count > 0

    def look_beyond(self, count: int) -> None:
        """Read as far ahead of the next ``count`` ids as the arguments ask for."""
        while self._batches and self._batches[0][0] <= self.start + count:
            self._distinct -= self._batches.popleft()[1]
        while not self._has_ended:
            is_far = (
                self._distinct >= self._enough
                if self._lookahead is None
                else len(self._batches) >= self._lookahead
            )
            if is_far:
                return
            self._read()

    def take(self, count: int) -> None:
        """Drop the next ids: they have been used."""
        count = min(count, self._count)
        self.start += count
        self._offset += count
        self._count -= count

    def add(self, ids: Ids) -> int:
        """Append ids to the window, and return how many of them are distinct."""
        if not len(ids):
            return 0
        self._make_room(len(ids))
        self._last_places = grown(self._last_places, int(ids.max()) + 1, fill=-1)
        first, stop = self.start + self._count, self._offset + self._count
        order = np.argsort(ids, kind="stable")
        is_same = ids[order[1:]] == ids[order[:-1]]
        following = np.full(len(ids), UNKNOWN)
        following[order[:-1][is_same]] = first + order[1:][is_same]
        heads, tails = order[np.append(True, ~is_same)], order[np.append(~is_same, True)]
        unique = ids[heads]
        before = self._last_places[unique]
        is_linked = before >= self.start
        self._following[self._offset + before[is_linked] - self.start] = first + heads[is_linked]
        self._last_places[unique] = first + tails
        self._ids[stop : stop + len(ids)] = ids
        self._following[stop : stop + len(ids)] = following
        self._count += len(ids)
        self._first_use(unique[~is_linked], first + heads[~is_linked])
        return len(unique)

    def _read(self) -> bool:
        part: Any = next(self._trace, None)
        if part is None:
            self._has_ended = True
            return False
        distinct = self.add(checked_ids(part))
        self._batches.append((self.start + self._count, distinct))
        self._distinct += distinct
        return True

    def _make_room(self, more: int) -> None:
        if self._offset + self._count + more <= len(self._ids):
            return
        length = max(FIRST_LENGTH, 2 * (self._count + more))
        for name in ("_ids", "_following"):
            array = np.zeros(length, np.int64)
            array[: self._count] = getattr(self, name)[self._offset : self._offset + self._count]
            setattr(self, name, array)
        self._offset = 0


def ranks_of(following: Ids, counts: NDArray[Any]) -> Ids:
    """Rank ids, the first to be kept lowest: by next use; behind those, the most frequent first."""
    rarity = MAX_COUNT - counts.astype(np.int64)
    return np.where(following < UNKNOWN, following, UNKNOWN + rarity)


def checked_ids(given: ArrayLike) -> Ids:
    """Return ids as a flat array.

    Raises:
        InvalidInputError: They are not integers, negative, or too large for tables by id.
    """
    ids = np.asarray(given)
    if not ids.size:
        return np.zeros(0, np.int64)
    if ids.dtype.kind not in "iu":
        raise InvalidInputError(
            f"ids are integers, got an array of {ids.dtype}: {shown(given)}", actual=given
        )
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or most > MAX_ID:
        raise InvalidInputError(
            f"ids are row numbers from 0 to {MAX_ID:,}, got {least if least < 0 else most:,}"
            "\nnumber other keys first: unique, ids = np.unique(keys, return_inverse=True)",
            actual=least if least < 0 else most,
        )
    return ids.astype(np.int64, copy=False).ravel()


def grown(table: NDArray[Any], length: int, *, fill: int) -> NDArray[Any]:
    """Return a table by id of at least some length; new entries are ``fill``."""
    if length <= len(table):
        return table
    longer = np.full(max(length, 2 * len(table), FIRST_LENGTH), fill, table.dtype)
    longer[: len(table)] = table
    return longer
