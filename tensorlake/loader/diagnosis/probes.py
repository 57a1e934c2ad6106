"""Probes of functions: the free cores, the step on a held batch, the transform on threads.

A thread's time is running + queued (runnable without a processor) + blocked. The demand of a
function leaves the queue out, so that other programs on the machine change it little.

Two threads that hold the interpreter's lock all the time run one after the other. So slices of two
threads with the transform alternate with slices of two threads that need no lock, and both get the
same share of a busy machine:

    cores of the transform ÷ cores without a lock    1: no lock;  1/2: the lock all the time
    seconds with the lock                            processor seconds ÷ (2 · this ratio)
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import astuple, dataclass, replace
from typing import Any

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.model import Demand
from tensorlake.loader.runtime.clocks import thread_times

__all__ = ["core_shares", "held_row", "probe_collate", "probe_step", "probe_transform"]

WORK_NBYTES = 256 << 10  # 0.1 ms of CRC-32, without the interpreter's lock
LEAST_CORES = 0.05  # of a process that others starve
LEAST_CPU_S = 1e-3  # of a slice: what starts and ends threads is not taken for the function's own
WARM_UP = 1  # calls of a step that are not counted: allocations, compilation
LEAST_CALLS = 3
SLICES = 6  # of each kind
NO_LOCK = 0.8  # a larger ratio is noise of the scheduler


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function, in seconds."""

    ready_s: float  # running or blocked: without the queue for a processor
    running_s: float
    native_s: float  # processor time of the process's other threads: those that the function runs


def core_shares(most: int, *, seconds: float) -> list[float]:
    """Measure several times how many cores this process gets now, at most ``most``.

    Threads do work that needs no lock, in rounds; the cores are the processor time over the time.
    """
    return [_share_of_cores(most, seconds / LEAST_CALLS) for _ in range(LEAST_CALLS)]


def _share_of_cores(threads: int, seconds: float) -> float:
    data, stop = bytes(WORK_NBYTES), time.perf_counter() + seconds
    ran = [0.0] * threads

    def work(number: int) -> None:
        before = time.thread_time()
        while time.perf_counter() < stop:
            zlib.crc32(data)
        ran[number] = time.thread_time() - before

    began = time.perf_counter()
    _in_threads([lambda number=number: work(number) for number in range(threads)])
    return min(max(sum(ran) / (time.perf_counter() - began), LEAST_CORES), threads)


def probe_step(step: Callable[[Any], Any], batch: Any, *, rows: int, seconds: float) -> Demand:
    """Call a step on a batch that is in memory, and return what a row takes."""
    for _ in range(WARM_UP):
        step(batch)
    walls: list[float] = []
    cpus: list[float] = []
    stop = time.perf_counter() + seconds
    while len(walls) < LEAST_CALLS or time.perf_counter() < stop:
        cpu, began, queued = time.process_time(), time.perf_counter(), thread_times().queued_s
        step(batch)
        passed, ended = thread_times().queued_s - queued, time.perf_counter()
        walls.append(max(ended - began - passed, 0.0))
        cpus.append(time.process_time() - cpu)
    return Demand(Estimate.of(walls).times(1 / rows), Estimate.of(cpus).times(1 / rows))


def held_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a row: the loader uses its arrays again."""
    return {name: copy(value) for name, value in row.items()}


def probe_transform(
    call: Callable[[Mapping[str, Any], int], Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    seconds: float,
) -> Demand:
    """Call a transform on held rows, on one thread and on two, and return what a row takes.

    Args:
        call: The transform of a row, and the row's place.
        rows: The rows; each call gets a copy.
        seconds: The time that it may take.
    """
    alone = _calls(call, rows, time.perf_counter() + seconds / 3)
    wall, cpu = (
        Estimate.of([getattr(one, name) for one in alone]) for name in ("ready_s", "running_s")
    )
    native = Estimate.of([one.native_s for one in alone])
    found = Demand(wall, cpu.plus(native), native=native)
    if found.kind in ("sleeps", "runs threads of its own"):
        return found
    found = Demand(wall, cpu)
    share_s = 2 * seconds / 3 / (2 * SLICES)
    ratios: list[float] = []
    others: list[float] = []
    for _ in range(SLICES):
        free = _share_of_cores(2, share_s)
        cores, share = _cores_of_calls(call, rows, share_s)
        ratios.append(cores / free)
        others.append(share)
    native = cpu.times(Estimate.of(others).value)  # a BLAS may use its threads for some calls only
    threaded = Demand(wall, cpu.plus(native), native=native)
    if threaded.kind == "runs threads of its own":
        return threaded
    ratio = Estimate.of(ratios)
    if ratio.value > NO_LOCK:
        return found
    lock = ratio.times(2).inverse(cpu.value)
    return replace(found, lock=Estimate(*(min(one, cpu.value) for one in astuple(lock))))


def probe_collate(
    function: Callable[[list[Any]], Any], samples: Sequence[Any], *, seconds: float
) -> tuple[float, float]:
    """Call a collate function on held samples, on one thread.

    Returns:
        Seconds of a call without the queue for a processor, and its processor seconds.
    """
    row = {"samples": [*samples]}
    stop = time.perf_counter() + seconds
    calls = _calls(lambda held, _place: function(held["samples"]), [row], stop)
    ready, running = ([getattr(one, name) for one in calls] for name in ("ready_s", "running_s"))
    return Estimate.of(ready).value, Estimate.of(running).value


def _cores_of_calls(
    call: Callable[[Mapping[str, Any], int], Any], rows: Sequence[Mapping[str, Any]], seconds: float
) -> tuple[float, float]:
    """Return the cores that two threads with a function get.

    Also the processor time of the process's other threads, as a share of these two's.
    """
    stop, ran = time.perf_counter() + seconds, [0.0, 0.0]

    def work(number: int) -> None:
        before = time.thread_time()
        call(held_row(rows[0]), 0)  # however short the slice is
        while time.perf_counter() < stop:
            call(held_row(rows[0]), 0)
        ran[number] = time.thread_time() - before

    began, process_s = time.perf_counter(), time.process_time()
    _in_threads([lambda: work(0), lambda: work(1)])
    process_s, own_s = time.process_time() - process_s, max(sum(ran), LEAST_CPU_S)
    cores = own_s / (time.perf_counter() - began)
    return max(cores, LEAST_CORES), max(process_s / own_s - 1, 0.0)


def _calls(
    call: Callable[[Mapping[str, Any], int], Any], rows: Sequence[Mapping[str, Any]], stop: float
) -> list[Call]:
    """Call a function on rows, again and again, until a time."""
    calls: list[Call] = []
    while len(calls) < LEAST_CALLS or time.perf_counter() < stop:
        place = len(calls) % len(rows)
        row = held_row(rows[place])
        times, began, process_s = thread_times(), time.perf_counter(), time.process_time()
        call(row, place)
        process_s = time.process_time() - process_s
        wall_s, passed = time.perf_counter() - began, thread_times().since(times)
        running_s = passed.running_s
        ready_s = max(wall_s - passed.queued_s, running_s)
        calls.append(Call(ready_s, running_s, max(process_s - running_s, 0.0)))
    return calls


def _in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run functions at once; the first exception is raised when all have ended."""
    failed: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
