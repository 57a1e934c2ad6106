"""The Loader: batches of a selection, epoch after epoch, resumable on any number of ranks.

    loader.load_state_dict(state)                 # the same dict on every rank
    for epoch in range(loader.epoch, 90):
        for batch in loader:                      # first after a load: the rest of that epoch
            state = loader.state_dict()           # counts batches handed out, not prefetched

``iter()`` starts the next epoch, after ``break`` too, except the first after a load. One iterator
is alive at a time; leaving the loop, Ctrl-C and forgetting the iterator end its threads. The
memory tier belongs to the loader and serves all epochs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader.channels import channels_first
from tensorlake.loader.chunks import ChunkCache
from tensorlake.loader.columns import ROW, ColumnPlan, as_stored, plan_columns, valid_column
from tensorlake.loader.concurrency import ConcurrencyLimit
from tensorlake.loader.converter import Converter
from tensorlake.loader.counters import Counters
from tensorlake.loader.explain import describe_loader, describe_plan
from tensorlake.loader.iteration import BatchIterator, Pass
from tensorlake.loader.mix_order import AnyOrder, MixOrder
from tensorlake.loader.opening import Opening, open_pass
from tensorlake.loader.progress import Progress
from tensorlake.loader.remote import check_remote
from tensorlake.loader.sharding import Sharding, Share, global_batch_size_of
from tensorlake.loader.slabs import SlabPool
from tensorlake.loader.standing import standing_of
from tensorlake.loader.state import LoaderState, checked_epoch
from tensorlake.loader.stats import LoaderStats
from tensorlake.loader.strategy import (
    row_nbytes_of,
    shape_bounds,
    stored_nbytes_of,
)
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.loader.arguments import LoaderArguments
    from tensorlake.loader.ordered_rows import OrderedRows

__all__ = ["Loader"]


class Loader:
    """Iterate over batches; made by ``ds.loader()``, ``ds.torch()`` and ``ds.jax()``."""

    def __init__(
        self,
        rows: OrderedRows,
        arguments: LoaderArguments,
        converter: Converter,
        *,
        remake: Callable[..., Loader] | None = None,
    ) -> None:
        self._arguments = arguments
        self._converter = converter
        self._remake = remake
        standing = standing_of(arguments, converter)
        self._agrees = not standing.has_others  # or there is nobody to ask
        batch_size, world_size = arguments.batch_size, standing.world_size
        self._sharding = Sharding(
            standing.rank,
            world_size,
            global_batch_size_of(batch_size, arguments.global_batch_size, world_size),
            arguments.drop_last,
            converter.equal_parts,
        )
        self._seed = arguments.seed or 0
        self._counters = Counters()
        self._limit = ConcurrencyLimit()
        self._pass_start = LoaderStats()
        self._slabs = SlabPool(arguments.prefetch_nbytes)
        self._epoch = 0
        self._position = 0
        self._skipped = 0
        self._is_fresh = True  # the next iter() continues here instead of starting a new epoch
        self._finished: int | None = None  # the epoch that ended last, while none began after it
        self._live: weakref.ref[BatchIterator] | None = None
        self._last_pass: Pass | None = None
        self._order: AnyOrder | None = None
        if arguments.decode_on == "server":
            check_remote(arguments, rows.server)
        self._read_from(rows)
        self._check_last()

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch, or continue where a loaded state stands; so does an endless mix."""
        self._refuse_while_live("a second iterator")
        self._await_last_pass()
        if not self._is_fresh and not self._rows.is_endless:
            self._start_epoch(self._epoch + 1)
        self._check_last()
        self._agree()
        self._is_fresh, self._finished = False, None
        self._pass_start = self._stats_now()
        opened, start = open_pass(self._opening(), self._shares(self._position))
        iterator = BatchIterator(
            opened,
            finish=self._finish_batch,
            handed_out=self._handed_out,
            ended=self._ended,
            counters=self._counters,
        )
        self._live, self._last_pass = weakref.ref(iterator), opened
        iterator.start(start)
        return iterator

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, the same on every rank.

        Raises:
            TypeError: It is a mix that never stops.
        """
        batches = self._sharding.num_batches(self._num_places("len()"))
        return len(range(*self._turns(batches)))

    @property
    def epoch(self) -> int:
        """The epoch under way, or that the next ``iter()`` starts with."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next ``iter()`` start this epoch from its beginning."""
        self._refuse_while_live("set_epoch()")
        epoch = checked_epoch(epoch)
        if epoch and self._rows.is_endless:
            raise InvalidInputError(
                f"set_epoch({epoch}): a mix that never stops has one epoch, 0"
                "\nuse skip(batches) to move on within it"
            )
        self._start_epoch(epoch)

    @property
    def remaining(self) -> int:
        """The number of batches left in the epoch under way."""
        places = self._num_places("remaining")
        batches = self._sharding.num_batches(places, self._position)
        return len(range(*self._turns(batches)))

    def skip(self, batches: int) -> None:
        """Pass over batches of the epoch under way; the state records it."""
        self._refuse_while_live("skip()")
        if not is_whole_number(batches) or batches < 0:
            raise InvalidInputError(f"skip() takes a number of batches from 0 on, got {batches!r}")
        start = self._position
        rows = int(batches) * self._sharding.global_batch_size
        self._position = min(start + rows, self._rows.num_places)
        self._skipped += self._position - start
        self._is_fresh, self._finished = True, None

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands, as JSON values; the same on every rank."""
        return self._state().to_json()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where a state stands, on this number of ranks, whatever it was then.

        Raises:
            StateMismatchError: The state is of another selection, seed or shuffle.
        """
        self._refuse_while_live("load_state_dict()")
        recorded = LoaderState.from_json(state)
        arguments = self._arguments
        rows = self._rows.returned_to(recorded, seed=arguments.seed, shuffle=arguments.shuffle)
        self._seed, self._order = recorded.seed, recorded.order
        if rows.selection.digest != self._rows.selection.digest:
            self._read_from(rows)
        else:
            self._rows = rows
            self._plan_columns()  # their random numbers follow the seed
        self._epoch, self._position = recorded.epoch, recorded.position
        self._skipped, self._is_fresh, self._finished = recorded.skipped, True, None
        *_, turns = self._turns(0)
        is_alone = turns == 1  # a worker whose turns are over has others that go on
        if is_alone and not rows.is_endless and self.remaining == 0:
            self._start_epoch(recorded.epoch + 1)

    # ---- what it does

    def stats(self) -> LoaderStats:
        """Return what the loader did so far; its ``str`` is a table that names the bottleneck."""
        return self._stats_now(cache_short_nbytes=self._cache_short())

    def _stats_now(self, **known: int) -> LoaderStats:
        return self._counters.snapshot(
            cache_hits=self._cache.hits,
            cache_misses=self._cache.misses,
            cache_nbytes=self._cache.nbytes,
            cache_capacity=self._cache.capacity,
            refetched_nbytes=self._cache.refetched_nbytes,
            batch_nbytes=self._slabs.nbytes,
            threads=self._arguments.worker_count,
            **known,
        )

    def progress(self) -> Progress:
        """Return how far the pass under way is; its ``str`` is one line with rate and time left."""
        rows, finished = self._rows, self._finished
        done = self._stats_now() - self._pass_start
        snapshot = rows.selection.snapshot
        return Progress(
            what=f"{snapshot.url.rstrip('/').rpartition('/')[2]} {snapshot.version}",
            epoch=self._epoch if finished is None else finished,
            places=self._position if finished is None else rows.num_places,
            num_places=None if rows.is_endless else rows.num_places,
            batches=done.batches,
            remaining=None if rows.is_endless else self.remaining if finished is None else 0,
            stats=done,
        )

    def explain(self) -> str:
        """Describe the plan, before anything is run; and the ceilings that were measured so far."""
        return describe_plan(
            selection=self._rows.selection,
            ordered=self._rows.describe(self.order),
            num_places=None if self._rows.is_endless else self._rows.num_places,
            sharding=self._sharding,
            columns=self._shown_columns(),
            sparse=self._opening().sparse,
            row_nbytes=self._row_nbytes(),
            arguments=self._arguments,
            stages=self.stats().stages,
            channels_first=self._channels_first,
        )

    def __repr__(self) -> str:
        return describe_loader(
            selection=self._rows.selection,
            epoch=self._epoch,
            batches=None if self._rows.is_endless else (len(self), self.remaining),
            sharding=self._sharding,
            columns=self._shown_columns(),
            channels_first=self._channels_first,
        )

    @property
    def columns(self) -> tuple[ColumnPlan, ...]:
        """What each column of a batch is."""
        return self._columns

    @property
    def order(self) -> AnyOrder:
        """How epochs are ordered; for ``shuffle=True`` the version's rows and bytes decide."""
        if self._order is None:
            self._order = self._rows.choose(self._arguments.shuffle, tuple(self._cache.tensors))
        return self._order

    def close(self) -> None:
        """End the iterator and give the memory back."""
        live = self._live() if self._live is not None else None
        if live is not None:
            live.close()
        if self._last_pass is not None:
            self._last_pass.close()
        self._cache.clear()
        self._slabs.clear()

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle what makes the same loader elsewhere, of the same rank, and where it stands."""
        if self._remake is None:
            raise InvalidStateError(
                "this loader cannot be pickled: it was made by make_loader() without remake="
                "\nmake it by ds.torch(…), ds.jax(…) or ds.loader(…)"
            )
        own: dict[str, Any] = {}
        if self._arguments.sharding is None:
            own = {"rank": self._sharding.rank, "world_size": self._sharding.world_size}
            if self._arguments.mesh is not None:  # it is not of the processes of elsewhere
                own["mesh"] = None
        return _made_again, (self._remake, own, self.state_dict())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # ---- inside

    def _read_from(self, rows: OrderedRows) -> None:
        self._rows = rows
        self._plan_columns()
        virtual = (ROW, *rows.virtual)
        names = tuple(column.name for column in self._columns if column.name not in virtual)
        self._cache = ChunkCache(
            names,
            capacity=self._arguments.cache_nbytes,
            spare=self._arguments.prefetch_nbytes,
        )

    def _plan_columns(self) -> None:
        arguments = self._arguments
        selection = self._rows.selection
        chosen = arguments.columns
        if chosen is None:
            chosen = (*selection.columns, *self._rows.virtual)
        self._columns: tuple[ColumnPlan, ...] = plan_columns(
            selection.snapshot,
            chosen,
            decode=arguments.decode,
            collate=arguments.collate,
            seed=self._seed,
            framework=self._converter.name,
            bounds=partial(shape_bounds, self._rows.reader),
            virtual=self._rows.virtual,
        )
        decoded = arguments.decode if arguments.layout == "NCHW" else None
        self._channels_first = frozenset(
            one.name
            for one in self._columns
            if one.spec is not None and one.name in (decoded or ())
        )
        if not self._converter.presents:
            self._columns = tuple(map(as_stored, self._columns))

    def _shown_columns(self) -> tuple[ColumnPlan, ...]:
        return (*self._columns, *((valid_column(),) if self._arguments.asks_valid else ()))

    def _row_nbytes(self) -> int:
        return row_nbytes_of(self._rows.reader, tuple(self._cache.tensors))

    def _cache_short(self) -> int:
        reader = self._rows.reader
        if reader.store.is_local or not self._counters.has_rows:
            return 0
        stored = stored_nbytes_of(reader, tuple(self._cache.tensors))
        return max(0, stored - self._cache.capacity)

    def _opening(self) -> Opening:
        return Opening(
            rows=self._rows,
            order=self.order,
            seed=self._seed,
            epoch=self._epoch,
            position=self._position,
            state=self._state,
            arguments=self._arguments,
            columns=self._columns,
            sharding=self._sharding,
            converter=self._converter,
            cache=self._cache,
            slabs=self._slabs,
            counters=self._counters,
            limit=self._limit,
        )

    def _await_last_pass(self) -> None:
        """Let a pass that was left end its work on the memory tier, which has one user at a time.

        Raises:
            InvalidStateError: One of its threads does not come back.
        """
        if self._last_pass is not None and not self._last_pass.join():
            raise InvalidStateError(
                "the pass that was left before has not ended: a transform= or a read of the store"
                " does not return\nmake another loader, and let that function return"
            )
        self._last_pass = None

    def _shares(self, start: int) -> Iterator[Share]:
        sharding, places = self._sharding, self._rows.num_places
        numbers = range(*self._turns(sharding.num_batches(places, start)))
        return (sharding.share(number, places, start) for number in numbers)

    def _check_last(self) -> None:
        if not self._rows.is_endless:
            self._sharding.check_last(self._rows.num_places, self._position)

    def _agree(self) -> None:
        if self._agrees:
            return
        plan = self.state_dict() | {
            "world_size": self._sharding.world_size,
            "global_batch_size": self._sharding.global_batch_size,
            "drop_last": self._sharding.drop_last,
        }
        what = f"{self._rows.selection.snapshot.url} {','.join(one.name for one in self._columns)}"
        self._converter.agree(what, plan, timeout_s=self._arguments.timeout)
        self._agrees = True

    def _num_places(self, what: str) -> int:
        if self._rows.is_endless:
            raise TypeError(
                f"{what}: this mix never stops (stop='never')\ncount batches in your own loop"
            )
        return self._rows.num_places

    def _turns(self, batches: int) -> tuple[int, int, int]:
        turn, turns = self._converter.turn_and_turns()
        return turn, batches, turns

    def _state(self) -> LoaderState:
        rows = self._rows
        # a mix lists the version of each source in its order
        version = "mix" if isinstance(self.order, MixOrder) else rows.selection.snapshot.version
        return LoaderState(
            version=version,
            selection=rows.selection.digest,
            num_rows=None if rows.is_endless else rows.num_places,
            order=rows.recorded(self.order, self._position),
            seed=self._seed,
            epoch=self._epoch,
            position=self._position,
            skipped=self._skipped,
            source=rows.source,
        )

    def _handed_out(self, share: Share) -> None:
        # of several workers each counts whole rounds, so that from its own state it takes its next
        # turn; a loader that is alone has none to wait for
        turn, _, turns = self._turns(0)
        others = (turns - 1 - turn) * self._sharding.global_batch_size
        self._position = min(share.next_place + others, self._rows.num_places)

    def _ended(self) -> None:
        finished = self._epoch
        self._start_epoch(finished + 1)
        self._finished = finished

    def _start_epoch(self, epoch: int) -> None:
        self._epoch, self._position, self._skipped, self._is_fresh = epoch, 0, 0, True
        self._finished = None

    def _refuse_while_live(self, what: str) -> None:
        live = self._live() if self._live is not None else None
        if live is not None and live.is_live:
            raise InvalidStateError(
                f"{what} while this loader has an iterator that is not finished: both would move"
                " its one position\nend the loop, or close the iterator: it.close()"
            )

    def _finish_batch(self, batch: dict[str, Any]) -> Any:
        for name in self._channels_first & batch.keys():
            batch[name] = channels_first(batch[name])
        converted = self._converter.convert(batch)
        if self._arguments.batch_transform is None:
            return converted
        return self._arguments.batch_transform(converted)


def _made_again(
    remake: Callable[..., Loader], own: dict[str, Any], state: dict[str, Any]
) -> Loader:
    loader = remake(**own)
    loader.load_state_dict(state)
    return loader
