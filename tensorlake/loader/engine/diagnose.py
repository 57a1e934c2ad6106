"""Diagnose a loader: probe its stages with loaders like it, then model, propose and try.

    loader as it is          with the step: its rate, and what each stage takes in it
    … without the functions  reading and decoding alone, with the same prefetch and workers
    step, transform          on a held batch, on held rows
    store                    the plan's reads with 1 to 64 requests in flight
    cores                    between the others: the load of a machine changes

The user's loader keeps its position: every probe streams with a loader of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, TensorlakeError, shown
from tensorlake.loader.diagnosis import Diagnosis, Estimate
from tensorlake.loader.diagnosis.model import Demand, Model, StoreFigures
from tensorlake.loader.diagnosis.passes import (
    HeldBatch,
    HeldRows,
    HeldSamples,
    PassFigures,
    Streamed,
    stream,
)
from tensorlake.loader.diagnosis.probes import (
    core_shares,
    probe_collate,
    probe_step,
    probe_transform,
)
from tensorlake.loader.diagnosis.requests import Curve, Request, probe_store
from tensorlake.loader.diagnosis.settings import Resources, faster
from tensorlake.loader.engine.composed.rows import ComposedPlan
from tensorlake.loader.runtime.memory import memory_nbytes
from tensorlake.loader.runtime.rng import takes_rng
from tensorlake.loader.sources.read_strategy import row_nbytes_of
from tensorlake.loader.stages.process_transform import check_transform
from tensorlake.loader.stages.transform import TransformCall
from tensorlake.quantities import seconds_of
from tensorlake.storage import usable_cores

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.engine.iterator import Finish
    from tensorlake.loader.engine.passes.opening import Opening
    from tensorlake.loader.runtime.stats import LoaderStats

__all__ = ["Likeness", "diagnose_loader"]

MOST_BUDGET_S = 600.0
MAX_REQUESTS = 256  # of the store's probe, listed before; then again from the first
RANGE_NBYTES = 4 << 20  # of one request, as the fetch stage divides a large chunk
BUSY, IDLE = 0.5, 0.7  # of the time: a store that is busy while the threads are not is the limit

# Shares of the budget
CORES, WHOLE, INPUT, STEP, TRANSFER, TRANSFORM, STORE, TRIAL = (
    *(0.012, 0.20, 0.18, 0.06, 0.04, 0.10, 0.10, 0.22),
)

FEWER, TURNS = (2, 4), 2  # of trials: workers divided by these, and repetitions
ALIKE = 0.98  # of the best rate

DECODED = ("gather_s", "decode_s", "cut_s")
Step = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Likeness:
    """A loader to be diagnosed: its parts, and how to make others like it.

    Attributes:
        make: Makes a loader of the same rows in the same order with other arguments.
        opening: Its parts, at the beginning of the current epoch.
        finish: How it converts batches.
        stats: Its counters so far.
    """

    make: Callable[[LoaderArguments, Converter], Streamed]
    opening: Opening
    finish: Finish
    stats: LoaderStats


def diagnose_loader(like: Likeness, step: Step | None, budget_s: Any) -> Diagnosis:
    """Diagnose a loader in about ``budget_s`` seconds.

    Raises:
        InvalidInputError: The step is not a function, the budget is not a duration, or the loader
            has no batch.
    """
    if step is not None and not callable(step):
        raise InvalidInputError(
            f"step= is a function of a batch, got {shown(step)}\ngive the training step, or leave"
            " it out",
            argument="step",
            actual=step,
        )
    seconds = seconds_of(budget_s, what="budget_s")
    if not 0 < seconds <= MOST_BUDGET_S:
        raise InvalidInputError(
            f"budget_s is a duration above 0 and at most {MOST_BUDGET_S:.0f} s, got"
            f" {shown(budget_s)}\nleave it out: 20 s are enough for most loaders",
            argument="budget_s",
            actual=budget_s,
        )
    return _Study(like, step, seconds).diagnosis()


class _Study:
    """The probes of one diagnosis."""

    def __init__(self, like: Likeness, step: Step | None, budget_s: float) -> None:
        self._like = like
        self._step = step
        self._budget_s = budget_s
        opening = like.opening
        self._arguments = replace(opening.arguments, **opening.own_place)
        self._held = HeldBatch(opening.converter)
        self._notes: list[str] = []
        self._cores: list[float] = []
        self._began = time.perf_counter()

    def diagnosis(self) -> Diagnosis:
        """Probe, model, propose and try."""
        collate, kept = _kept(self._arguments.collate)
        arguments = replace(self._arguments, collate=collate)
        self._sample_cores()
        whole = self._stream(arguments, self._held, self._step, WHOLE)
        model = self._model(whole, kept)
        settings, changed = faster(model, self._resources())
        tried = None
        at_once = {name: value for name, value in settings.items() if name != "cache"}
        if "cache" in settings:
            self._notes.append("cache= helps from the second epoch on: the first one fills it")
        if at_once:
            best, tried = self._tried(at_once)
            settings |= best
            if "workers" in best:
                changed = replace(changed, workers=best["workers"])
            if tried.value < whole.rate.value:
                given = ", ".join(f"{name}={value!r}" for name, value in best.items())
                self._notes.append(
                    f"{given} should be faster by the model, but gave {tried.value:,.0f} rows/s"
                )
                settings = {name: one for name, one in settings.items() if name not in at_once}
                changed, tried = model, None
        return Diagnosis(
            model=model,
            measured=_balanced(whole, model.store),
            settings=settings,
            expected=changed.rate,
            tried=tried,
            has_step=model.step.wall.value > 0,
            notes=tuple(self._notes),
        )

    def _model(self, whole: PassFigures, kept: Sequence[HeldSamples]) -> Model:
        opening, arguments = self._like.opening, self._arguments
        rows = round(whole.batch_rows) or 1
        self._sample_cores()
        step, transfer = self._probe_loop(rows)
        self._sample_cores()
        read, transform = self._probe_input()
        self._sample_cores()
        curve = self._probe_store()
        self._sample_cores()
        stored = row_nbytes_of(opening.rows.reader, tuple(opening.cache.tensors))
        taken = _Input(read, stored)
        is_read = read.stats.fetched_nbytes and not opening.rows.reader.store.is_local
        return Model(
            workers=arguments.worker_count,
            cores=_seen(Estimate.of(self._cores), whole, read),
            batch_rows=whole.batch_rows,
            step=step,
            transfer=transfer,
            decode=Demand(taken.decode, taken.decode),
            collate=self._probe_collate(whole.per_row("collate_s"), kept),
            transform=transform,
            rest_cpu=Estimate.exactly(taken.rest_cpu),
            store=taken.store(curve, workers=arguments.worker_count) if is_read else None,
            by_processes=arguments.engine == "processes",
        )

    def _tried(self, settings: dict[str, Any]) -> tuple[dict[str, Any], Estimate]:
        """Measure settings, and fewer workers, in turns; return the best, and its rate.

        The model does not know what threads cost each other: switches, and the interpreter's lock.
        Rates that hardly differ are decided by the fewest workers.
        """
        candidates = [settings]
        most, few = settings.get("workers", 0), self._arguments.worker_count
        if settings.get("engine", self._arguments.engine) == "threads":
            fewer = (most // divisor for divisor in FEWER)
            candidates += [{**settings, "workers": count} for count in fewer if count > few]
        # time that other probes had no need for: a local dataset has no store
        left = max(TRIAL, 1 - (time.perf_counter() - self._began) / self._budget_s)
        share = left / (TURNS * len(candidates))
        rates: list[list[float]] = [[] for _ in candidates]
        for _ in range(TURNS):
            for rate, candidate in zip(rates, candidates, strict=True):
                arguments = replace(self._arguments, **candidate)
                converter = self._like.opening.converter
                rate.append(self._stream(arguments, converter, self._step, share).rate.value)
        found = [Estimate(sum(rate) / TURNS, min(rate), max(rate)) for rate in rates]
        enough = ALIKE * max(one.value for one in found)
        best = max(number for number, one in enumerate(found) if one.value >= enough)
        return candidates[best], found[best]

    def _sample_cores(self) -> None:
        self._cores += core_shares(usable_cores(), seconds=CORES * self._budget_s)

    def _probe_loop(self, rows: int) -> tuple[Demand, Demand]:
        """Probe the program's own thread: its step, and the conversion of batches."""
        step = self._step
        raw = self._held.batch
        assert raw is not None, "a pass has handed out a batch"
        finish = replace(self._like.finish)  # whose counters are not the loader's
        seconds = TRANSFER * self._budget_s
        transfer = probe_step(lambda batch: finish(dict(batch)), raw, rows=rows, seconds=seconds)
        if step is not None:
            batch = finish(dict(raw))
            return probe_step(step, batch, rows=rows, seconds=STEP * self._budget_s), transfer
        stats = self._like.stats
        if not stats.rows or not stats.user_s:
            return Demand(), transfer
        self._notes.append("the step is what the program's loop has taken so far between batches")
        used = Estimate.exactly(stats.user_s / stats.rows)
        return Demand(used), transfer

    def _probe_input(self) -> tuple[PassFigures, Demand]:
        """Probe reading and decoding, without the functions; then the transform on held rows."""
        opening = self._like.opening
        function = self._arguments.transform
        held = HeldRows()
        plain = replace(self._arguments, batch_transform=None)
        if function is not None:
            plain = replace(plain, transform=held, engine="threads", collate=None)
        read = self._stream(plain, opening.converter, None, INPUT)
        if function is None or not held.rows:
            return read, Demand()
        call = TransformCall(
            function,
            seed=opening.seed,
            epoch=opening.epoch,
            takes_rng=takes_rng(function),
            is_deterministic=self._arguments.deterministic,
        )
        return read, probe_transform(
            lambda row, place: call.call(row, row=place, place=place),
            held.rows,
            seconds=TRANSFORM * self._budget_s,
        )

    def _probe_collate(self, wall: Estimate, kept: Sequence[HeldSamples]) -> Demand:
        """Probe functions that collate: they may wait, and only what they run takes a core."""
        held = [one for one in kept if one.samples]
        if not held:
            return Demand(wall, wall)
        seconds = TRANSFER * self._budget_s / len(held)
        taken = [probe_collate(one.function, one.samples, seconds=seconds) for one in held]
        ready_s, running_s = (sum(column) for column in zip(*taken, strict=True))
        return Demand(wall, wall.times(running_s / ready_s if ready_s else 1.0))

    def _probe_store(self) -> Curve | None:
        requests = [*islice(_requests(self._like.opening), MAX_REQUESTS)]
        return probe_store(requests, seconds=STORE * self._budget_s)

    def _stream(
        self, arguments: LoaderArguments, converter: Any, use: Step | None, share: float
    ) -> PassFigures:
        with closing(self._like.make(arguments, converter)) as loader:
            figures = stream(loader, use, seconds=share * self._budget_s)
        if figures is None:
            raise InvalidInputError(
                "diagnose() of a loader that has no batch: there is nothing to measure\ngive it"
                " rows, or a smaller batch_size"
            )
        return figures

    def _resources(self) -> Resources:
        opening, arguments = self._like.opening, self._arguments
        stored = row_nbytes_of(opening.rows.reader, tuple(opening.cache.tensors))
        places = 0 if opening.rows.is_endless else opening.rows.num_places
        return Resources(
            cores=usable_cores(),
            memory_nbytes=memory_nbytes("auto", name="cache"),
            prefetch_nbytes=arguments.prefetch_nbytes,
            cache_nbytes=arguments.cache_nbytes,
            row_nbytes=sum(column.sample_nbytes for column in opening.columns),
            epoch_nbytes=stored * places,
            can_fork=_can_fork(arguments),
        )


def _balanced(whole: PassFigures, store: StoreFigures | None) -> Estimate:
    """Return the rate of a pass, whose range reaches to the rate at which its rows were read.

    The model is of a pass in balance. One that waits for a store has rows on the way, more of them
    the longer its requests take: what it read is what it will hand out.
    """
    rate = whole.rate
    if store is None or store.own is None or not store.row_nbytes:
        return rate
    read = whole.stats.fetched_nbytes / whole.seconds / store.row_nbytes
    return replace(rate, high=max(rate.high, read))


def _seen(free: Estimate, whole: PassFigures, read: PassFigures) -> Estimate:
    """Return the cores of this process: those that the pass got, if threads waited for them.

    Else those that the probes found free, and at least what passes have used.
    """
    used = max(whole.used_cores, read.used_cores)
    value = whole.used_cores if whole.is_starved else max(free.value, used)
    return Estimate(value, min(free.low, value), max(free.high, used))


def _kept(
    collate: Mapping[str, Any] | None,
) -> tuple[Mapping[str, Any] | None, list[HeldSamples]]:
    """Return how samples are collated, with functions that keep samples, and these functions."""
    forms = collate or {}
    wrapped = {name: HeldSamples(one) for name, one in forms.items() if callable(one)}
    return ({**forms, **wrapped} if wrapped else collate), [*wrapped.values()]


def _can_fork(arguments: LoaderArguments) -> bool:
    try:
        check_transform(arguments.transform)
    except TensorlakeError:
        return False
    return arguments.transform is not None


@dataclass(frozen=True, slots=True)
class _Input:
    """Figures per row of a pass of reading and decoding.

    A pass that is shorter than its read-ahead reads and unpacks more rows than it hands out, so
    the bytes of a row are those stored, and those read again; the rest was for later rows.
    """

    figures: PassFigures
    stored_nbytes: float

    @property
    def row_nbytes(self) -> float:
        stats = self.figures.stats
        again = self.stored_nbytes + stats.refetched_nbytes / stats.rows
        return min(stats.fetched_nbytes / stats.rows, again)

    @property
    def ahead(self) -> float:
        """The share of the bytes read that belongs to the rows handed out."""
        stats = self.figures.stats
        return self.row_nbytes * stats.rows / max(stats.fetched_nbytes, 1) or 1.0

    @property
    def decode(self) -> Estimate:
        unpacked = self.figures.per_row("unpack_s").times(self.ahead)
        return unpacked.plus(self.figures.per_row(*DECODED, less="queued_s"))

    @property
    def rest_cpu(self) -> float:
        whole = self.figures.cpu_s / self.figures.stats.rows
        return max(whole * self.ahead - self.decode.value, 0.0)

    def store(self, curve: Curve | None, *, workers: int) -> StoreFigures:
        figures, stats = self.figures, self.figures.stats
        worked_s = sum(getattr(stats, name) for name in ("unpack_s", *DECODED, "waiting_s"))
        is_idle = worked_s / workers < IDLE * figures.seconds
        is_limit = stats.fetch_s > BUSY * figures.seconds and is_idle
        return StoreFigures(
            row_nbytes=self.row_nbytes,
            own=figures.per_s("fetched_nbytes") if is_limit else None,
            curve=() if curve is None else curve.rates,
            latency_s=0.0 if curve is None else curve.latency_s,
            held=stats.held_s / stats.fetch_s if stats.fetch_s else 0.0,
        )


def _requests(opening: Opening) -> Iterator[Request]:
    """List the reads of a pass in the order of the plan; none of a local dataset or a server.

    Parts of samples, such as those of videos, are chosen by their steps, and are left out.
    """
    rows = opening.rows
    reader, selection = rows.reader, rows.selection
    if reader.store.is_local or opening.arguments.decode_on == "server":
        return
    by_row = [name for name in opening.sparse if name not in opening.decoders]
    by_chunk = [name for name in opening.cache.tensors if name not in opening.sparse]
    sizes = dict(zip(by_row, reader.row_nbytes(by_row), strict=True))
    plan = rows.plan(opening.order, seed=opening.seed, epoch=opening.epoch)
    turn, turns = opening.converter.turn_and_turns()
    shares = map(opening.batches.share, range(turn, opening.batches.count, turns))
    if isinstance(plan, ComposedPlan):
        shares = map(plan.unpack, shares)
    packs, seen = reader.snapshot.packs, set[Any]()
    for share in shares:
        physical = selection.physical(plan.at(plan.deal(share)))
        for name in by_row:
            for row in range(len(physical)):
                yield sizes[name], partial(reader.fetch, name, physical[row : row + 1])
        for name in by_chunk:
            located = reader.locate(name, physical)
            for number in np.unique(located.chunk).tolist():
                key = located.chunks[number]
                if key.is_fill or key in seen:
                    continue
                seen.add(key)
                for start in range(0, key.nbytes, RANGE_NBYTES):
                    nbytes = min(RANGE_NBYTES, key.nbytes - start)
                    yield nbytes, partial(packs.read_range, key.pack, key.offset + start, nbytes)
