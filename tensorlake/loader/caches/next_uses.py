"""Groups of batches planned ahead, so that the memory tier knows when chunks are used next.

    segments ─► planned ─► waiting: uses of chunks, in order ─► the next group, with for each of its
                           and the next use of each             chunks the place of the use after it

Which rows come is known without reading them, and a group is planned once, only earlier. Groups are
planned ahead until they use four times as many chunks as memory holds, each counted once a group:
no more than one segment ahead for every group handed out, since a pass may be left at any time, and
no more rows than take ``WAITING_NBYTES``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from tensorlake.loader.caches.future import AHEAD, Future, Ids

__all__ = ["NextUses", "UsedChunks"]

WAITING_NBYTES: Final = 32 << 20  # an eighth of the usual prefetch
ROW_NBYTES, LOCATED_NBYTES = 24, 16  # of a row of a planned group; and of it, for each tensor


class UsedChunks(Protocol):
    """Chunks of a tensor that a group uses."""

    @property
    def used(self) -> Ids:
        """Their distinct ordinals."""
        ...


class Planned(Protocol):
    """A planned group."""

    @property
    def tensors(self) -> Mapping[str, UsedChunks]:
        """The chunks, by tensor."""
        ...

    @property
    def places(self) -> Ids:
        """The place of each row."""
        ...

    next_uses: dict[str, Ids]


class Followed(Protocol):
    """A cache that ranks chunks by their next uses."""

    @property
    def room(self) -> float:
        """The number of chunks that it can hold, by the mean of those that it holds."""
        ...

    def expect(self, tensor: str, numbers: Ids, places: Ids) -> None:
        """Receive next uses that have just become known."""
        ...


GroupT = TypeVar("GroupT", bound=Planned)


class NextUses(Generic[GroupT]):
    """The planned groups of one pass; used by the thread that plans it.

    Args:
        cache: The memory tier.
        tensors: The tensors whose chunks it ranks.
        may_look: Whether groups may be planned before they are needed.
    """

    def __init__(
        self, cache: Followed, tensors: tuple[str, ...], *, may_look: Callable[[], bool]
    ) -> None:
        self._cache = cache
        self._tensors = tensors
        self._may_look = may_look
        self._waiting: deque[GroupT] = deque()
        self._uses = self._rows = 0  # of the waiting groups
        self._most_rows = WAITING_NBYTES // (ROW_NBYTES + LOCATED_NBYTES * len(tensors))
        self._future = Future((), lookahead=0, enough=0, first_use=self._found)

    def groups(self, segments: Iterable[Iterable[GroupT]]) -> Iterator[GroupT]:
        """Hand groups out in order, each with the next uses of its chunks."""
        coming = iter(segments)
        while self._waiting or self._plan(coming):
            if self._is_short and self._may_look():
                self._plan(coming)
            yield self._next()

    @property
    def _is_short(self) -> bool:
        return self._uses < AHEAD * self._cache.room and self._rows < self._most_rows

    def _plan(self, coming: Iterator[Iterable[GroupT]]) -> bool:
        """Plan a segment; return whether there was one."""
        segment = next(coming, None)
        for group in segment or ():
            self._add(group)
        return segment is not None

    def _add(self, group: GroupT) -> None:
        ids = self._ids(group)
        self._future.add(ids)
        self._waiting.append(group)
        self._uses += len(ids)
        self._rows += len(group.places)

    def _next(self) -> GroupT:
        group = self._waiting.popleft()
        counts = [len(group.tensors[tensor].used) for tensor in self._tensors]
        following = self._future.following[: sum(counts)]
        parts = np.split(following.copy(), np.cumsum(counts)[:-1])
        group.next_uses = dict(zip(self._tensors, parts, strict=True))
        self._future.take(len(following))
        self._uses -= len(following)
        self._rows -= len(group.places)
        return group

    def _ids(self, group: GroupT) -> Ids:
        """Number the chunks of all tensors: ordinals of the first, of the second, … alternate."""
        count = len(self._tensors)
        parts = [group.tensors[tensor].used * count + at for at, tensor in enumerate(self._tensors)]
        return np.concatenate(parts)

    def _found(self, ids: Ids, places: Ids) -> None:
        numbers, at = np.divmod(ids, len(self._tensors))
        for own, tensor in enumerate(self._tensors):
            self._cache.expect(tensor, numbers[at == own], places[at == own])
