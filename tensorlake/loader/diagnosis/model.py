"""The model: demands of the stages, capacities of what they use, and the rate that follows.

    resource     capacity, in rows per second
    loop         1 ÷ (step + transfer)                         one thread, the program's own
    threads      workers ÷ (decode + collate + transform)      the loader's threads
    lock         1 ÷ time with the interpreter's lock          one thread at a time has it
    cores        cores ÷ processor time of all stages
    store        bytes per second at the requests in flight ÷ bytes of a row

Stages overlap, so the rate is the least capacity (the utilisation law of operational analysis:
Denning and Buzen, 1978). The stall of a step is split by adding one stage after the other to a loop
whose batch is in memory: what a stage adds to a step is its stall. Nothing is measured here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from tensorlake.loader.diagnosis.estimate import ZERO, Estimate

__all__ = ["STALLS", "Ceiling", "Demand", "Model", "StoreFigures"]

LOCKED_SHARE = 0.6  # of its processor time: from here on a function holds the interpreter's lock
NATIVE_SHARE = 0.2  # of its processor time: from here on a function's own threads take part in it
SLEEPS_SHARE = 0.5  # of its time without a processor: from here on a function waits
MORE = 1.25  # a store that gives so much more with more requests is not used up

STALLS: tuple[str, ...] = (
    "compute",
    "transfer",
    "decode",
    "collate",
    "transform",
    "bandwidth",
    "latency",
)
"""The parts of a step, in the order in which they are added to it."""

Kind = Literal["sleeps", "computes", "holds the lock", "runs threads of its own"]


@dataclass(frozen=True, slots=True)
class Demand:
    """Seconds that a row takes in one stage.

    Attributes:
        wall: With a thread of its own and a free core.
        cpu: Processor time, of all threads.
        lock: With the interpreter's lock, where that was measured.
        native: Processor time of threads that the function runs, such as those of a BLAS.
    """

    wall: Estimate = ZERO
    cpu: Estimate = ZERO
    lock: Estimate = ZERO
    native: Estimate = ZERO

    @property
    def kind(self) -> Kind:
        """The main activity of the stage."""
        if self.native.value > NATIVE_SHARE * self.cpu.value:
            return "runs threads of its own"
        if self.cpu.value < (1 - SLEEPS_SHARE) * self.wall.value:
            return "sleeps"
        return "holds the lock" if self.lock.value > LOCKED_SHARE * self.cpu.value else "computes"


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The speed of a store.

    Attributes:
        row_nbytes: Bytes that are read per row.
        own: Bytes per second with the loader's own requests in flight; None: the store was not
            what the loader waited for.
        curve: Bytes per second by number of requests in flight, ascending.
        latency_s: Median seconds of a request that is alone.
        held: Share of the time of reading in which ``prefetch`` prevented more requests.
    """

    row_nbytes: float
    own: Estimate | None
    curve: tuple[tuple[int, Estimate], ...]
    latency_s: float
    held: float

    @property
    def most(self) -> Estimate | None:
        """The largest of the measured bytes per second; None if none was measured."""
        rates = [rate for _, rate in self.curve]
        rates += [] if self.own is None else [self.own]
        return max(rates, key=lambda rate: rate.value, default=None)

    @property
    def is_saturated(self) -> bool:
        """Whether more requests at once give little more: the bandwidth is used up."""
        if len(self.curve) < 2:  # noqa: PLR2004 - a slope needs two points
            return False
        (few, low), (many, high) = self.curve[-2:]
        return high.value < low.value * min(MORE, math.sqrt(many / few))

    @property
    def cause(self) -> Literal["bandwidth", "prefetch", "latency"]:
        """Why the loader's own reading is not faster."""
        own, most = self.own, self.most
        if own is None or most is None:
            return "latency"
        has_more = most.value > own.value * MORE
        if has_more and self.held >= 0.5:  # noqa: PLR2004 - most of the time
            return "prefetch"
        return "bandwidth" if self.is_saturated else "latency"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The rate that one resource allows.

    Attributes:
        resource: ``loop``, ``threads``, ``lock``, ``cores`` or ``store``.
        stage: The stage that takes most of it; of the store why it is not faster.
        rate: Rows per second.
        formula: How it follows from the demands.
    """

    resource: str
    stage: str
    rate: Estimate
    formula: str


@dataclass(frozen=True, slots=True)
class Model:
    """A loader: its demands and what they use.

    Attributes:
        workers: Threads that decode and transform.
        cores: Cores that are free, by measurement.
        batch_rows: Rows of a batch.
        step, transfer, decode, collate, transform: The stages.
        rest_cpu: Processor seconds per row of everything else: planning, requests.
        store: The store; None if nothing is requested of one.
        by_processes: Whether the transform runs in processes, with interpreters of their own.
    """

    workers: int
    cores: Estimate
    batch_rows: float
    step: Demand = Demand()
    transfer: Demand = Demand()
    decode: Demand = Demand()
    collate: Demand = Demand()
    transform: Demand = Demand()
    rest_cpu: Estimate = ZERO
    store: StoreFigures | None = None
    by_processes: bool = False

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """The capacity of each resource that is used, in rows per second."""
        # the store before cores: of equal ceilings the first counts, and passes that waited for a
        # store bound the cores by what they used
        found = (self._loop(), self._threads(), self._lock(), self._store(), self._cores())
        return tuple(one for one in found if one is not None)

    @property
    def rate(self) -> Estimate:
        """Rows per second: the least of the ceilings, and of the ends of their ranges."""
        rates = [one.rate for one in self.ceilings]
        if not rates:
            return Estimate.exactly(math.inf)
        least = (min(getattr(rate, name) for rate in rates) for name in ("value", "low", "high"))
        return Estimate(*least)

    @property
    def limit(self) -> Ceiling | None:
        """The lowest ceiling; None if nothing takes time."""
        return min(self.ceilings, key=lambda one: one.rate.value, default=None)

    @property
    def rivals(self) -> tuple[Ceiling, ...]:
        """Ceilings of other stages that may be the lowest: their ranges reach into its own."""
        limit = self.limit
        if limit is None:
            return ()
        others = [one for one in self.ceilings if one.stage != limit.stage]
        return tuple(one for one in others if one.rate.low < limit.rate.high)

    @property
    def stalls(self) -> dict[str, float]:
        """Seconds of a step by what takes them: its own time, then what it waits for."""
        none = Demand()
        without = replace(self, decode=none, collate=none, transform=none, store=None)
        without = replace(without, rest_cpu=ZERO)
        models = {
            "compute": replace(without, transfer=none),
            "transfer": without,
            "decode": replace(without, decode=self.decode, rest_cpu=self.rest_cpu),
        }
        models["collate"] = replace(models["decode"], collate=self.collate)
        models["transform"] = replace(models["collate"], transform=self.transform)
        models["bandwidth"] = replace(models["transform"], store=_at_best(self.store))
        models["latency"] = self
        before, found = 0.0, dict[str, float]()
        for name in STALLS:
            rate = models[name].rate.value
            step_s = max(before, self.batch_rows / rate if rate > 0 else before)
            found[name] = step_s - before
            before = step_s
        return found

    def _loop(self) -> Ceiling | None:
        row = self.step.wall.plus(self.transfer.wall)
        if row.value <= 0:
            return None
        name = "step" if self.step.wall.value >= self.transfer.wall.value else "transfer"
        return Ceiling("loop", name, row.inverse(), "1 ÷ (step + transfer)")

    def _threads(self) -> Ceiling | None:
        stages = {"decode": self.decode, "collate": self.collate, "transform": self.transform}
        row = self.decode.wall.plus(self.collate.wall).plus(self.transform.wall)
        if row.value <= 0:
            return None
        name = max(stages, key=lambda one: stages[one].wall.value)
        formula = f"{self.workers} workers ÷ (decode + collate + transform)"
        return Ceiling("threads", name, row.inverse(self.workers), formula)

    def _lock(self) -> Ceiling | None:
        lock = self.transform.lock
        if lock.value <= 0 or self.by_processes:
            return None
        return Ceiling("lock", "transform", lock.inverse(), "1 ÷ transform with the lock")

    def _cores(self) -> Ceiling | None:
        stages = {
            "decode": self.decode.cpu,
            "rest": self.rest_cpu,
            "collate": self.collate.cpu,
            "transform": self.transform.cpu,
            "step": self.step.cpu,
            "transfer": self.transfer.cpu,
        }
        row = ZERO
        for cpu in stages.values():
            row = row.plus(cpu)
        if row.value <= 0:
            return None
        name = max(stages, key=lambda one: stages[one].value)
        formula = "cores ÷ processor time of all stages"
        return Ceiling("cores", name, self.cores.over(row), formula)

    def _store(self) -> Ceiling | None:
        store = self.store
        if store is None or store.own is None or store.row_nbytes <= 0:
            return None
        formula = "bytes per second ÷ bytes of a row"
        return Ceiling("store", store.cause, store.own.times(1 / store.row_nbytes), formula)


def _at_best(store: StoreFigures | None) -> StoreFigures | None:
    """Return a store whose latency is hidden: with as many requests in flight as it can use."""
    if store is None or store.own is None:
        return store
    most = store.most
    if most is None or not store.is_saturated:
        return None
    return replace(store, own=most)
