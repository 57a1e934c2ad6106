"""The Loader: batches of a selection, epoch after epoch, resumable on any number of ranks.

    loader.load_state_dict(state)                 # the same dict on every rank
    for epoch in range(loader.epoch, 90):
        for batch in loader:                      # first after a load: the rest of that epoch
            state = loader.state_dict()           # counts batches handed out, not prefetched

``iter()`` starts the next epoch, also after ``break``, except the first after a load. One iterator
is alive at a time: an iterator that handed out its last batch is finished, and one that handed out
none is replaced. Leaving the loop, Ctrl-C and garbage collection of the iterator end its threads.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader.caches.disk_cache import DiskTier
from tensorlake.loader.config.column_plan import ROW, ColumnPlan
from tensorlake.loader.config.converter import Converter
from tensorlake.loader.config.rank_check import compare_with_rank_0, plan_to_compare
from tensorlake.loader.engine.batching import batching_of
from tensorlake.loader.engine.composed.rows import ShownOrder, epoch_order, form_of, shown_columns
from tensorlake.loader.engine.explain import describe_loader, describe_plan
from tensorlake.loader.engine.iterator import BatchIterator, Finish, Pass, Watcher, await_end
from tensorlake.loader.engine.memory_budget import bounds
from tensorlake.loader.engine.passes import Opening, check_remote, open_pass
from tensorlake.loader.engine.progress import Progress, progress_of
from tensorlake.loader.engine.rank import (
    ProcessRank,
    early_process_rank,
    pickled_rank,
    process_rank_of,
)
from tensorlake.loader.plan.mix_order import AnyOrder
from tensorlake.loader.plan.sharding import RowBatches, check_batch_size
from tensorlake.loader.plan.state import LoaderState, Place, checked_epoch
from tensorlake.loader.runtime.counters import Counters
from tensorlake.loader.runtime.stats import LoaderStats
from tensorlake.loader.sources.arrangement import SPLICED, advanced, returned
from tensorlake.loader.sources.buffer_pool import SlabPool
from tensorlake.loader.sources.chunk_cache import ChunkCache
from tensorlake.loader.sources.read_strategy import cache_short_nbytes
from tensorlake.loader.sources.rows import state_of
from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
from tensorlake.loader.stages.batch_contents import Contents
from tensorlake.loader.stages.process_transform import check_transform
from tensorlake.quantities import checked_integer
from tensorlake.storage import ForkLock

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.diagnosis import Diagnosis
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.sharding import Batches, Sharding
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["Loader", "made_again"]


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
        check_batch_size(arguments.batch_size, arguments.global_batch_size)
        self._seed = arguments.seed or 0
        self._counters = Counters()
        self._disk = DiskTier(arguments.cache_dir, arguments.disk_nbytes, self._counters)
        self._limit = ConcurrencyLimit()
        self._pass_start = LoaderStats()
        self._slabs = SlabPool(arguments.prefetch_nbytes)
        self._finish = Finish(converter, arguments.batch_transform)
        self._place = Place()
        self._beginning = ForkLock()  # only one pass begins at a time
        self._live: weakref.ref[BatchIterator] | None = None
        self._last_pass: Pass | None = None
        self._order: AnyOrder | None = None
        self._agreed: AnyOrder | None = None  # with the other ranks
        self._watcher: Watcher | None = None
        self._left_out: Sequence[Int64Array] | None = None
        if arguments.engine == "processes":
            check_transform(arguments.transform)
        if arguments.decode_on == "server":
            check_remote(rows)
        self._read_from(rows)
        if (early := early_process_rank(arguments, converter)) is not None:
            self._batching.check_last(early.sharding)

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch, or continue from a loaded state; an endless mix always continues.

        An earlier iterator ends: if it was not finished, its next batch raises.

        Raises:
            StateMismatchError: Another rank would stream a different order.
        """
        with self._beginning:
            return self._begin_pass()

    def _begin_pass(self) -> BatchIterator:
        if (live := self._running()) is not None:
            live.leave()
        if self._last_pass is not None:
            await_end(self._last_pass)
        self._disk.begin_pass(is_whole=self._place.finished is not None)
        sharding = (process_rank := self._process_rank(starts=True)).sharding
        self._settle_epoch(sharding)
        self._batching.check_last(sharding, self._place.position)
        self._agree(process_rank)
        self._place.finished = None
        self._pass_start = self._stats_now()
        batches = self._batches(sharding)
        numbers = self._numbers(batches)
        opened, start = open_pass(self._opening(sharding, batches), map(batches.share, numbers))
        left = None if self._rows.is_endless else len(numbers)
        iterator = BatchIterator(
            opened,
            sharding=sharding,
            batches=left,
            finish=self._finish,
            handed_out=self._place.counted(
                batches, numbers, partial(self._agree_again, process_rank)
            ),
            ended=self._place.end,
            counters=self._counters,
            watcher=self._watcher,
        )
        if self._watcher is not None:
            self._watcher.begin(sharding, left, self._place.returned)
        self._live, self._last_pass = weakref.ref(iterator), opened
        iterator.start(start)
        return iterator

    def __len__(self) -> int:
        """Return the number of batches of an epoch (by tokens: of this one), equal on all ranks.

        Raises:
            TypeError: The loader reads a mix that never stops, or a mix in batches by tokens.
        """
        self._batching.check("len()")
        return len(self._numbers(self._batches(self.sharding, 0)))

    @property
    def epoch(self) -> int:
        """The current epoch, or the one that the next ``iter()`` starts."""
        return self._place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter()`` start this epoch from its beginning."""
        self._end_idle("set_epoch()")
        epoch = checked_epoch(epoch)
        if epoch and self._rows.is_endless:
            raise InvalidInputError(
                f"set_epoch({epoch}): a mix that never stops has one epoch, 0"
                "\nuse skip(batches) to move on within it"
            )
        self._place.start(epoch)

    @property
    def remaining(self) -> int:
        """The number of batches left in the current epoch."""
        self._batching.check("remaining")
        return len(self._numbers(self._batches(self.sharding)))

    def skip(self, batches: int) -> None:
        """Skip batches of the current epoch, or of the next if none is left of it."""
        self._end_idle("skip()")
        batches = checked_integer(batches, name="batches")
        if self._is_over():
            self._place.start(self._place.epoch + 1)
        self._place.skip_to(self._batches(self.sharding).stop(batches - 1))

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's position as JSON values; the same on every rank."""
        return self._state().to_json()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, on any number of ranks.

        Raises:
            StateMismatchError: The state is of another selection, seed or shuffle.
        """
        self._end_idle("load_state_dict()")
        recorded = LoaderState.from_json(state)
        rows = returned(self._rows, recorded, self._arguments, self._place)
        self._seed, self._order = recorded.seed, recorded.order
        is_spliced = isinstance(rows, SPLICED) or isinstance(self._rows, SPLICED)
        if is_spliced or rows.selection.digest != self._rows.selection.digest:
            self._read_from(rows)
        else:
            self._show(rows, self._contents(rows))  # random numbers of columns follow the seed
        self._place.return_to(recorded)
        if self._is_over():
            self._place.start(recorded.epoch + 1)

    def advance(
        self,
        version: str | Mapping[str, str] | None = None,
        *,
        mix: Any = None,
        where: str | None = None,
        without: str | None = None,
    ) -> None:
        """Continue with other rows, of a version or a condition, in the epoch under way.

        The rest has its values of then, without rows that are gone, and evenly mixed with new ones.
        Leave the loop first, and make the same call on every rank.

        Args:
            version: The version; of a mix, versions of some of its sources by name. None: those
                that are read now.
            mix: Another mix, for the loader of a mix; sources of the same name continue.
            where: A condition in TQL, in place of an earlier one; "" ends it, None keeps it.
            without: Path of a list of rows to leave out, as ``run.skip()`` stores it.

        Raises:
            InvalidStateError: A pass is under way, or workers of a DataLoader read.
            InvalidInputError: The order has no rest that could continue.
        """
        asked = {"version": version, "mix": mix, "where": where, "without": without}
        self._end_idle("advance()")
        if self._is_over():
            self._place.start(self._place.epoch + 1)
        self._place.is_fresh = True  # of a refused call, too, the rest follows
        rows = advanced(self._rows, asked, self._arguments, self.order, self._seed, self._place)
        self._read_from(rows)
        self._order = rows.order

    def stats(self) -> LoaderStats:
        """Return the statistics so far; their ``str`` is a table that names the bottleneck."""
        has_rows, of = self._counters.has_rows, (self._rows.reader, self._cache)
        return self._stats_now(cache_short_nbytes=cache_short_nbytes(*of) if has_rows else 0)

    def _stats_now(self, **known: int) -> LoaderStats:
        return self._counters.snapshot(
            **self._cache.counts() | self._disk.counts(),
            batch_nbytes=self._slabs.nbytes,
            prefetch_nbytes=self._arguments.prefetch_nbytes,
            convert_s=self._finish.convert_s,
            batch_transform_s=self._finish.batch_transform_s,
            threads=self._arguments.worker_count,
            **known,
        )

    def progress(self) -> Progress:
        """Return the current pass's progress; its ``str`` is one line with rate and time left."""
        is_counted = not self._rows.is_endless and self._place.finished is None
        left = len(self._numbers(self._batches(self.sharding))) if is_counted else None
        done = self._stats_now() - self._pass_start
        return progress_of(self._rows, self._place, remaining=left, stats=done)

    def diagnose(
        self, step: Callable[[Any], Any] | None = None, budget_s: float | str = 20
    ) -> Diagnosis:
        """Measure each stage alone, name what limits the rate, and propose faster settings.

        Args:
            step: The training step of a batch; without one, the time between batches so far counts.
            budget_s: About how long it may take, in seconds.
        """
        from tensorlake.loader.engine.diagnose import Likeness, diagnose_loader

        batches = self._batches(self.sharding, 0 if self._is_over() else None)
        parts = self._opening(self.sharding, batches), self._finish, self._stats_now()
        return diagnose_loader(Likeness(self._like, *parts), step, budget_s)

    def _like(self, arguments: LoaderArguments, converter: Converter) -> Loader:
        """Make a loader of the same rows, at the same position."""
        made = type(self)(self._rows, arguments, converter)
        made._order = self._order  # noqa: SLF001 - of the same class
        made._place = replace(self._place, is_fresh=True)  # noqa: SLF001 - as above
        return made

    def explain(self) -> str:
        """Describe the plan, and ceilings: measured, or estimated in 2 s before any batch."""
        return describe_plan(
            self._opening(self.sharding, RowBatches(self.sharding, self._rows.num_places)),
            drawn=self._batching.num_drawn,
            batched=self._batching.describe(self.sharding, self.__len__, is_priced=True),
            columns=self._shown_columns(),
            stages=self.stats().stages,
            like=self._like,
            channels_first=self._finish.channels_first,
        )

    def __repr__(self) -> str:
        return describe_loader(
            selection=self._rows.selection,
            epoch=self._place.epoch,
            batched=self._batching.describe(self.sharding, self.__len__),
            left=None if self._batching.by_tokens or self._rows.is_endless else self.remaining,
            sharding=self.sharding,
            columns=self._shown_columns(),
            channels_first=self._finish.channels_first,
        )

    @property
    def columns(self) -> tuple[ColumnPlan, ...]:
        """The columns of a batch."""
        return self._columns

    @property
    def order(self) -> AnyOrder:
        """The order of epochs; ``shuffle=True`` chooses it by the version's rows and bytes."""
        if self._order is None:
            arguments, tensors = self._arguments, tuple(self._cache.tensors)
            prefetch = arguments.prefetch_nbytes
            self._order = self._rows.choose(arguments.shuffle, tensors, prefetch_nbytes=prefetch)
        return self._order

    def watch(self, watcher: Watcher) -> None:
        """Report passes that begin after this to a watcher, which a pickled copy lacks."""
        self._watcher = watcher

    def leave_out(self, rows: Sequence[Int64Array]) -> None:
        """Make holes of rows, by number in each source: batches have ``_row`` and ``_valid``."""
        self._left_out = rows
        self._finish.holes = rows if form_of(self._rows) is None else None

    def batches_from(self, place: int, *, size: int) -> Batches:
        """Return the epoch's global batches of ``size`` rows, or tokens, from a place on."""
        size = checked_integer(size, name="size", least=1)
        whole = {"rank": 0, "world_size": 1, "global_batch_size": size, "equal_parts": 1}
        return self._batches(replace(self.sharding, **whole), checked_integer(place, name="place"))

    def places_of(self, number: int) -> Int64Array:
        """Return the places of this rank's part of a batch, counted from the next one."""
        number = checked_integer(number, name="number")
        return self._plan().deal(self._batches(self.sharding).share(number))

    @property
    def plan(self) -> ShownOrder:
        """The order of the current epoch: which rows it gives at which positions."""
        return epoch_order(self._rows, self._plan())

    def close(self) -> None:
        """End the iterator and free the memory."""
        if (live := self._running()) is not None:
            live.close()
        if self._last_pass is not None:
            self._last_pass.close()
        self._cache.clear()
        self._disk.close()
        self._slabs.clear()

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle the arguments of the same loader, with its current rank and position.

        If no rank is known yet, the unpickled loader determines its own: a trainer that spawns its
        processes joins them there.
        """
        if self._remake is None:
            raise InvalidStateError(
                "this loader cannot be pickled: it was made by make_loader() without remake="
                "\nmake it by ds.torch(…), ds.jax(…) or ds.loader(…)"
            )
        own = pickled_rank(self._process_rank(), self._arguments)
        return made_again, (self._remake, own, self.state_dict())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- inside

    def _plan(self) -> Plan:
        return self._rows.plan(self.order, seed=self._seed, epoch=self._place.epoch)

    def _read_from(self, rows: OrderedRows) -> None:
        made = self._contents(rows)
        names = tuple(one.name for one in made.columns if one.name not in (ROW, *rows.virtual))
        parts = self._converter.equal_parts
        self._batching = batching_of(rows, self._arguments, names, equal_parts=parts)
        self._show(rows, made)
        spare = bounds(self._arguments.prefetch_nbytes)[0]
        self._cache = ChunkCache(names, capacity=self._arguments.cache_nbytes, spare=spare)

    def _contents(self, rows: OrderedRows) -> Contents:
        return Contents.planned(rows, self._arguments, self._converter, seed=self._seed)

    def _show(self, rows: OrderedRows, made: Contents) -> None:
        self._rows = rows
        self._columns: tuple[ColumnPlan, ...] = made.columns
        self._outputs, self._finish.channels_first = made.outputs, made.channels_first

    def _shown_columns(self) -> tuple[ColumnPlan, ...]:
        return shown_columns(self._rows, self._columns, with_valid=self._arguments.asks_valid)

    @property
    def sharding(self) -> Sharding:
        """Which rank reads which rows: as the current pass began, else by the current ranks."""
        if (live := self._running()) is not None:
            return live.sharding
        return self._process_rank().sharding

    def _process_rank(self, *, starts: bool = False) -> ProcessRank:
        return process_rank_of(self._arguments, self._converter, starts=starts)

    def _settle_epoch(self, sharding: Sharding) -> None:
        """Move to the start of the pass: an endless mix continues from its position."""
        is_over = not self._place.is_fresh or self._is_over(sharding)
        if is_over and not self._rows.is_endless:
            self._place.start(self._place.epoch + 1)

    def _opening(self, sharding: Sharding, batches: Batches) -> Opening:
        return Opening(
            rows=self._rows,
            order=self.order,
            seed=self._seed,
            epoch=self._place.epoch,
            batches=batches,
            state=self._state,
            arguments=self._arguments,
            columns=self._columns,
            outputs=self._outputs,
            sharding=sharding,
            converter=self._converter,
            cache=self._cache,
            disk=self._disk,
            slabs=self._slabs,
            counters=self._counters,
            limit=self._limit,
            left_out=self._left_out,
        )

    def _batches(self, sharding: Sharding, start: int | None = None) -> Batches:
        """Return the batches of the epoch from a place on, by default the current one."""
        epoch = self.order, self._seed, self._place.epoch
        start = self._place.position if start is None else start
        return self._batching.batches(sharding, start, epoch, self._plan)

    def _numbers(self, batches: Batches) -> range:
        """List the batches that this process makes."""
        turn, turns = self._converter.turn_and_turns()
        return range(turn, batches.count, turns)

    def _is_over(self, sharding: Sharding | None = None) -> bool:
        """Whether the current epoch, of which some rows were handed out, has no batch left."""
        rows, position = self._rows, self._place.position
        is_alone = self._converter.turn_and_turns()[1] == 1
        if rows.is_endless or position == 0 or not is_alone:
            return False  # a worker without turns left has others that continue
        if position >= rows.num_places or not self._arguments.drop_last:
            return position >= rows.num_places
        return self._batches(sharding or self.sharding).count == 0

    def _agree(self, process_rank: ProcessRank) -> None:
        if process_rank.compared is None:
            return
        what = f"{self._rows.selection.snapshot.url} {','.join(one.name for one in self._columns)}"
        plan = plan_to_compare(self._state(), self._arguments, process_rank.sharding)
        timeout = self._arguments.timeout
        compare_with_rank_0(process_rank.compared, what=what, plan=plan, timeout_s=timeout)
        self._agreed = self._rows.recorded(self.order, self._place)

    def _state(self) -> LoaderState:
        batches = self._batching.recorded(lambda: self.sharding)
        return state_of(self._rows, self.order, self._place, seed=self._seed, batches=batches)

    def _agree_again(self, process_rank: ProcessRank) -> None:
        own = self.order, self._place  # of weight functions, which may differ by rank
        if process_rank.compared is not None and self._agreed != self._rows.recorded(*own):
            self._agree(process_rank)

    def _running(self) -> BatchIterator | None:
        live = self._live() if self._live is not None else None
        return live if live is not None and live.is_live and live.is_here else None

    def _end_idle(self, what: str) -> None:
        if (live := self._running()) is not None:
            live.leave_idle(what)


def made_again(remake: Callable[..., Loader], own: dict[str, Any], state: dict[str, Any]) -> Loader:
    """Recreate a pickled loader."""
    loader = remake(**own)
    Loader.load_state_dict(loader, state)  # no worker has a copy yet that would need to follow
    return loader
