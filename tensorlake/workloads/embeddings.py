"""``tl.embeddings``: a tensor as a table of embeddings, cached by the batches that will come.

    loader ──read ahead──► batches and their ids ──► planned cache ◄──► table[ids], table[ids] = …
                                                          │ changed rows, when evicted
    dataset ◄──staged, in one piece──  rows to write  ◄───┘

A row's number is its id. The loader's own order tells which rows coming batches need: rows are
fetched once for several batches, kept while they are needed soonest, and written back when they
leave. A thread reads the rows of coming batches while the caller uses the batch at hand; it reads
none that the table has changed, so training is equal, bit by bit, to training on an array in memory
(Agarwal et al., "Bagpipe", SOSP 2023, https://arxiv.org/abs/2202.12429). One thread uses a table at
a time.

Rows are kept as of one state of the dataset. Where that changes otherwise (a commit that combined
another trainer's rows, ``ds.refresh()``, an assignment by hand), kept rows are read again; a change
of rows that the table itself has changed is a conflict, never overwritten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Commit, Dataset, RowSet, rowset_of
from tensorlake.errors import (
    ConflictError,
    DTypeMismatchError,
    InvalidInputError,
    InvalidStateError,
    RowNotFoundError,
    SchemaError,
    ShapeMismatchError,
    StaleViewError,
    shown,
)
from tensorlake.loader import PlannedCache
from tensorlake.quantities import checked_integer
from tensorlake.types import UniformColumn
from tensorlake.versions import distinct

__all__ = ["Table"]

Int64Array = npt.NDArray[np.int64]
Rows = npt.NDArray[Any]

CAPACITY = 65_536
TOGETHER = 32
"""Coming batches whose rows are fetched ahead, half of them in one read."""
STAGED_ROWS = 65_536
"""Rows that are written back together: staging a few at a time would rewrite chunks for each."""
SHOWN = 3
"""Rows that an error names."""


class Table:
    """Rows of a tensor by id, and of the state that an optimizer has for them.

    Args:
        ds: The dataset, at a branch.
        name: The tensor: numbers of one shape, without NULL.
        ids: Returns the ids of a batch, integers of any shape.
        lookahead: The loader, or what yields batches.
        capacity: Rows that the cache keeps.
        state: Tensors of the same dtype that change with it, ``["w.m", "w.v"]``.

    Raises:
        SchemaError: A tensor is not of numbers of one shape, or the dtypes differ.

    Example:
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-table", {"w": tl.Array("float32", (2,))})
        >>> ds.extend({"w": np.zeros((10, 2), "float32")})
        >>> _ = ds.commit("zeros")
        >>> batches = [{"cats": np.array([1, 2])}, {"cats": np.array([2, 3])}]
        >>> table = tl.embeddings.Table(ds, "w", ids=lambda batch: batch["cats"], lookahead=batches)
        >>> for batch in table.batches():
        ...     table[batch["cats"]] = table[batch["cats"]] + 1
        >>> _ = table.commit("one step each")
        >>> ds["w"][:][:4, 0].tolist(), table.stats()["fetched"]
        ([0.0, 1.0, 2.0, 1.0], 3)
    """

    def __init__(
        self,
        ds: Dataset,
        name: str,
        *,
        ids: Callable[[Any], Any],
        lookahead: Iterable[Any] = (),
        capacity: int = CAPACITY,
        state: Sequence[str] = (),
    ) -> None:
        if not isinstance(ds, Dataset):
            raise InvalidInputError(f"a table is of a dataset, got {type(ds).__name__}", actual=ds)
        if isinstance(state, str) or len({name, *state}) <= len(state):
            raise InvalidInputError(
                f"state={shown(state)} names the other tensors of {name!r}, each once\nwrite"
                f" state=[{name + '.m'!r}]",
                argument="state",
                actual=state,
            )
        if not isinstance(lookahead, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"lookahead={shown(lookahead)} is not a loader: give what yields batches",
                argument="lookahead",
                actual=lookahead,
            )
        self._ds = ds
        self._names = (name, *state)
        self._shapes = _shapes_of(ds, self._names)
        self._dtype = np.dtype(ds.schema[name].dtype)
        self._ids_of = ids
        self._loader = lookahead
        capacity = checked_integer(capacity, name="capacity", least=0)
        self._cache = PlannedCache(capacity, evicted=self._write_back)
        self._ahead: deque[tuple[Any, Int64Array, Any]] = deque()  # batch, sorted ids, the state
        self._now: tuple[Int64Array, Rows] | None = None  # sorted ids of the batch, and their rows
        self._state: Any = None
        self._early: dict[int, Rows] = {}  # fetched, and not used yet
        self._asked: tuple[frozenset[int], Future[tuple[Int64Array, Rows]]] | None = None
        self._covered = 0  # coming batches whose rows are there, or asked for
        self._unwritten: dict[int, Rows] = {}
        self._read_of: RowSet = rowset_of(ds)  # the state that kept rows are of
        self._fetched = self._requests = self._written = 0

    def __len__(self) -> int:
        return len(self._ds)

    def batches(self) -> Iterator[Any]:
        """Yield the batches of an epoch, as the loader gives them.

        ``table[ids]`` has the rows of a batch, and the next batches have the changes.

        Raises:
            RowNotFoundError: A batch has an id that is not a row.
        """
        source = iter(self._loader)
        peeked: deque[Int64Array] = deque()  # ids of batches that the cache does not know yet
        self._ahead.clear()

        def read() -> bool:
            batch = next(source, None)
            if batch is not None:
                state = getattr(self._loader, "state_dict", None)
                ids = distinct(self._checked(self._ids_of(batch)))
                self._ahead.append((batch, ids, None if state is None else state()))
            return batch is not None

        def coming() -> Iterator[Int64Array]:
            while peeked or read():
                yield peeked.popleft() if peeked else self._ahead[-1][1]

        self._cache.follow(coming())
        self._covered = 0
        reader = ThreadPoolExecutor(1, "tensorlake-table")
        try:
            while True:
                if not self._ahead:
                    if not read():
                        break
                    peeked.append(self._ahead[-1][1])
                batch, ids, self._state = self._ahead.popleft()
                self._follow()
                self._covered = max(0, self._covered - 1)
                self._now = ids, self._cache.gather(ids, self._fetch)
                self._ask(reader)
                self._stage(least=STAGED_ROWS)
                yield batch
                self._now = None
        finally:
            self._now = self._asked = None
            self._cache.follow(())
            reader.shutdown()

    def __getitem__(self, ids: Any) -> Any:
        """Return the rows of ids: an array of their shape followed by that of a row.

        With ``state``, a tuple of arrays: of the weights, then of each tensor of the state.

        Raises:
            RowNotFoundError: An id is not a row, or in ``batches()`` not of the batch.
            ConflictError: As for ``commit()``.
        """
        flat = self._checked(ids)
        self._follow()
        if self._now is None:
            rows = self._cache.gather(flat, self._fetch)
        else:
            rows = self._now[1][self._places(flat)]
        return self._split(rows, np.shape(_array(ids)))

    def __setitem__(self, ids: Any, values: Any) -> None:
        """Change the rows of distinct ids, which the next batches and the next commit have.

        Raises:
            RowNotFoundError: An id is not a row, or in ``batches()`` not of the batch.
            InvalidInputError: An id is given twice.
            ShapeMismatchError: The values are not a row for each id.
            DTypeMismatchError: The values are of another kind.
        """
        flat = self._checked(ids)
        if not (np.diff(flat) > 0).all() and len(distinct(flat)) < len(flat):
            raise InvalidInputError(
                "an id is given twice, and a row has one value\nadd the gradients of an id first:"
                " np.unique(ids, return_inverse=True)",
                actual=ids,
            )
        rows = self._joined(values, np.shape(_array(ids)), len(flat))
        self._follow()
        if self._now is None:
            self._cache.gather(flat, self._fetch)
        else:
            self._now[1][self._places(flat)] = rows
        self._cache.put(flat, rows)
        self._stage(least=STAGED_ROWS)

    def commit(self, message: str = "") -> Commit:
        """Write all changed rows, and publish them with what else is staged.

        Raises:
            ConflictError: Another commit, or an assignment to the dataset, changed the same rows;
                the changes are kept, until ``discard()``.
            ReadOnlyError: The dataset is at a version.
        """
        self._follow()
        self._cache.flush()
        self._stage()
        before = self._ds.version
        commit = self._ds.commit(message)
        is_next = _number(commit.version) == _number(before) + 1
        if is_next or commit.version == before:  # nobody else's rows came with it
            self._read_of = rowset_of(self._ds)
        self._follow()
        return commit

    def discard(self) -> None:
        """Forget all changes that are not committed, of the table and of the dataset."""
        self._ds.discard()
        self._forget()
        self._unwritten.clear()

    def stats(self) -> dict[str, int]:
        """Count rows fetched and requests for them, hits of the cache, and rows written back."""
        return {
            "fetched": self._fetched,
            "requests": self._requests,
            "hits": self._cache.hits,
            "written": self._written,
        }

    def state_dict(self) -> Any:
        """Return the loader's state after the batch at hand; the loader itself is further ahead.

        Raises:
            InvalidStateError: There was no batch yet, or the loader has no state.
        """
        if self._state is None:
            raise InvalidStateError(
                "there is no state: no batch was read, or the loader has no state_dict()"
                "\ncall it in a loop over table.batches(), of a loader such as ds.loader()"
            )
        return self._state

    def __repr__(self) -> str:
        return f"Table of {', '.join(map(repr, self._names))} of {self._ds!r}"

    def _checked(self, ids: Any) -> Int64Array:
        array = _array(ids)
        if array.size and array.dtype.kind not in "iu":
            raise InvalidInputError(f"ids are integers, got {array.dtype}", actual=ids)
        given = array.reshape(-1)
        wrong = given[(given < 0) | (given >= len(self._ds))]
        if len(wrong):
            raise RowNotFoundError(
                f"there is no row {wrong[0]} of {self._names[0]!r}: {self._ds.url!r} has"
                f" {len(self._ds):,}\nappend rows for new ids first: ds.extend(…)",
                row=int(wrong[0]),
            )
        return given.astype(np.int64)

    def _places(self, flat: Int64Array) -> Int64Array:
        """Return where ids are among those of the batch."""
        assert self._now is not None
        known = self._now[0]
        places = np.searchsorted(known, flat)
        is_known = known[np.minimum(places, len(known) - 1)] == flat if len(known) else flat < 0
        if not is_known.all():
            raise RowNotFoundError(
                f"the id {flat[~is_known][0]} is not of this batch\nids= has to return all ids that"
                " a batch reads or changes",
                row=int(flat[~is_known][0]),
            )
        return places

    def _follow(self) -> None:
        """Give up kept rows where the dataset has changed otherwise.

        Raises:
            ConflictError: A row that the table changed, or that the batch at hand has, changed.
        """
        now = rowset_of(self._ds)
        if now.selection.snapshot.digest == self._read_of.selection.snapshot.digest:
            return
        self._cache.flush()
        held = np.array(sorted(self._unwritten), np.int64)
        if self._now is not None:
            held = distinct(np.concatenate([held, self._now[0]]))
        differ = held[self._differs(held, now)] if len(held) else held
        if len(differ):
            named = ", ".join(map(str, differ[:SHOWN])) + (", …" if len(differ) > SHOWN else "")
            raise ConflictError(
                f"rows {named} of {self._names[0]!r} changed in the dataset after this table read"
                " them, and the table has changes of them\ncall table.commit() before ds.refresh()"
                " and before assignments; table.discard() forgets the changes of the table",
                rows=differ.tolist(),
            )
        self._forget(now)

    def _differs(self, ids: Int64Array, now: RowSet) -> npt.NDArray[np.bool_]:
        """Return whether rows are others now than when they were read."""
        is_other = ids >= len(now)
        there = ids[~is_other]
        found = np.zeros(len(there), np.bool_)
        try:
            for name in self._names:
                one, other = (_bytes(rows, name, there) for rows in (self._read_of, now))
                found |= (one != other).any(axis=1)
        except StaleViewError:  # staged rows that were discarded: what they were is unknown
            found[:] = True
        is_other[~is_other] = found
        return is_other

    def _forget(self, now: RowSet | None = None) -> None:
        """Drop rows that were read; changed ones have been handed out."""
        self._cache.clear()
        self._early.clear()
        self._asked, self._covered = None, 0
        self._read_of = rowset_of(self._ds) if now is None else now

    def _fetch(self, missing: Int64Array) -> Rows:
        """Return rows that are not cached: those to be written, or fetched before, or now."""
        if self._asked is not None and not self._asked[0].isdisjoint(missing.tolist()):
            self._receive()
        kept = {one: self._early.pop(one, None) for one in missing.tolist()}
        kept = {one: self._unwritten.get(one) if row is None else row for one, row in kept.items()}
        needed = np.array([one for one, row in kept.items() if row is None], np.int64)
        if len(needed):
            more = np.setdiff1d(self._lacking(0), missing, assume_unique=True)
            fetched, rows = self._read(np.sort(np.concatenate([needed, more])), self._read_of)
            self._early.update(zip(fetched.tolist(), rows, strict=True))
            kept.update((one, self._early.pop(one)) for one in needed.tolist())
            self._covered = min(TOGETHER, len(self._ahead))
        made = np.empty((len(missing), sum(map(_size_of, self._shapes))), self._dtype)
        for at, one in enumerate(missing.tolist()):
            made[at] = kept[one]
        return made

    def _ask(self, reader: ThreadPoolExecutor) -> None:
        """Have rows of coming batches read while the caller uses the batch at hand."""
        if self._asked is not None and self._asked[1].done():
            self._receive()
        known = min(TOGETHER, len(self._ahead))
        if self._asked is not None or self._covered > known // 2:
            return
        assert self._now is not None
        # those at hand that the cache did not keep are about to change
        ids = np.setdiff1d(self._lacking(self._covered), self._now[0], assume_unique=True)
        self._covered = known
        if len(ids):
            future = reader.submit(self._read, ids, self._read_of)
            self._asked = frozenset(ids.tolist()), future

    def _receive(self) -> None:
        """Take the rows that were asked for."""
        assert self._asked is not None
        (_, future), self._asked = self._asked, None
        try:
            ids, rows = future.result()
        except StaleViewError:  # a commit wrote what was staged then: they are read when needed
            return
        self._early.update(zip(ids.tolist(), rows, strict=True))

    def _lacking(self, first: int) -> Int64Array:
        """Return ids of coming batches, from one on, whose rows are neither kept nor asked for."""
        coming = [ids for _, ids, _ in islice(self._ahead, first, TOGETHER)]
        ids = self._cache.missing(np.concatenate([*coming, np.zeros(0, np.int64)]))
        asked = frozenset[int]() if self._asked is None else self._asked[0]
        held = {*self._early, *self._unwritten, *asked}
        return np.array([one for one in ids.tolist() if one not in held], np.int64)

    def _read(self, ids: Int64Array, rows: RowSet) -> tuple[Int64Array, Rows]:
        self._requests += 1
        self._fetched += len(ids)
        parts = [_values(rows, name, ids).reshape(len(ids), -1) for name in self._names]
        return ids, np.concatenate(parts, axis=1)

    def _write_back(self, ids: Int64Array, rows: Rows) -> None:
        self._unwritten.update(zip(ids.tolist(), rows, strict=True))

    def _stage(self, *, least: int = 1) -> None:
        """Stage the rows that were handed back, if there are enough of them."""
        if len(self._unwritten) < least:
            return
        ids = np.array(sorted(self._unwritten), np.int64)
        rows = np.stack([self._unwritten[one] for one in ids.tolist()])
        for name, part in zip(self._names, self._parts(rows, (len(ids),)), strict=True):
            self._ds[name][ids] = part
        self._written += len(ids)
        self._unwritten.clear()
        self._read_of = rowset_of(self._ds)

    def _parts(self, rows: Rows, shape: tuple[int, ...]) -> list[Rows]:
        stops = np.cumsum([_size_of(one) for one in self._shapes])[:-1]
        parts = np.split(rows, stops, axis=1)
        return [part.reshape(*shape, *own) for part, own in zip(parts, self._shapes, strict=True)]

    def _split(self, rows: Rows, shape: tuple[int, ...]) -> Any:
        parts = self._parts(rows, shape)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _joined(self, values: Any, shape: tuple[int, ...], count: int) -> Rows:
        """Return values as rows of the cache: the tensors side by side."""
        given = [values] if len(self._names) == 1 else values
        if len(self._names) > 1 and not (
            isinstance(given, tuple | list) and len(given) == len(self._names)
        ):
            raise InvalidInputError(
                f"values are a tuple of arrays for {', '.join(map(repr, self._names))}, got"
                f" {type(values).__name__}"
            )
        parts: list[Rows] = []
        for name, own, one in zip(self._names, self._shapes, given, strict=True):
            array = _array(one)
            if array.shape != (*shape, *own):
                raise ShapeMismatchError(
                    f"{name!r} has rows of shape {own}, so values are {(*shape, *own)}, got"
                    f" {array.shape}",
                    tensor=name,
                    expected=(*shape, *own),
                    actual=array.shape,
                )
            if not np.can_cast(array.dtype, self._dtype, "same_kind"):
                raise DTypeMismatchError(
                    f"{name!r} has {self._dtype}, got {array.dtype}", tensor=name
                )
            parts.append(array.astype(self._dtype).reshape(count, _size_of(own)))
        return np.concatenate(parts, axis=1)


def _values(rows: RowSet, name: str, places: Int64Array) -> Rows:
    column = rows.read(name, places)
    assert isinstance(column, UniformColumn), "checked when the table was made"
    return column.values


def _bytes(rows: RowSet, name: str, places: Int64Array) -> npt.NDArray[np.uint8]:
    values = np.ascontiguousarray(_values(rows, name, places))
    return values.view(np.uint8).reshape(len(places), -1)


def _number(version: str) -> int:
    return int(version.rpartition("@")[2])


def _array(values: Any) -> npt.NDArray[Any]:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _size_of(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _shapes_of(ds: Dataset, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the shapes of rows, of tensors that a table can have."""
    shapes: list[tuple[int, ...]] = []
    dtype = ds[names[0]].dtype
    for name in names:
        kind = ds[name].type
        shape = tuple(size for size in kind.shape if size is not None)
        if kind.dtype is None or len(shape) < len(kind.shape) or kind.nullable or kind.is_media:
            raise SchemaError(
                f"{name!r} is {kind.describe()}, and a table has numbers of one shape, without NULL"
                "\nwrite it as tl.Array('float32', (64,))",
                tensor=name,
            )
        if kind.dtype != dtype:
            raise SchemaError(
                f"{name!r} has {kind.dtype}, and {names[0]!r} {dtype}: a table has one dtype\nmake"
                f" a table of its own for {name!r}",
                tensor=name,
            )
        shapes.append(shape)
    return shapes
