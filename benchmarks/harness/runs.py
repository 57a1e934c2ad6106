"""How things are measured: fresh processes, interleaved rounds, ratios within a round.

A `Benchmark` has contenders, functions that do the same work on the same bytes and answer with a
`Measurement`. Each run of each contender is a process of its own, so that no contender finds
another's caches, threads or imports; a round runs every contender once, and ratios are taken within
a round, because a shared machine drifts from minute to minute. Figures exclude what a contender
imports or prepares before it starts its clock.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from benchmarks.harness.data import REPOSITORY, Workspace

__all__ = [
    "Benchmark",
    "Contender",
    "Goal",
    "Limit",
    "Measurement",
    "Stopwatch",
    "durable_file",
    "folder_nbytes",
    "print_measurement",
    "run_alone",
    "run_rounds",
    "stopwatch",
    "touch_memory",
    "warm_up",
]

RUN_TIMEOUT_S = 600
TICK_S = 0.01  # what the system counts processor time in


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one run of one contender."""

    seconds: float
    amount: float
    """The count in the benchmark's unit: images, rows, megabytes."""
    cpu_seconds: float = 0.0
    facts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    """Why there is no figure: a peer that does not install."""

    @property
    def rate(self) -> float:
        return self.amount / self.seconds if self.seconds else float("inf")


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work."""

    name: str
    run: Callable[[Workspace], Measurement]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal for the ratio of two contenders' rates."""

    contender: str
    against: str
    at_least: float
    per: Literal["second", "CPU second", "memory MB", "read MB/s"] = "second"

    def rate(self, measured: Measurement) -> float:
        """Say how much one run did per what counts here; of memory, how many runs a MB holds.

        Reading is a separate figure: how fast, after writing.
        """
        if self.per == "second":
            return measured.rate
        if self.per == "memory MB":
            return 1 / measured.facts[self.per]
        if self.per == "read MB/s":
            return measured.facts[self.per]
        return measured.amount / max(measured.cpu_seconds, TICK_S)

    def __str__(self) -> str:
        what = {"second": "", "read MB/s": ", reading"}.get(self.per, f", per {self.per}")
        return f"{self.contender} ÷ {self.against}{what}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A goal for a figure of one contender: at most, or at least, a value."""

    contender: str
    fact: str
    """Which of its facts; "" is the benchmark's own figure."""
    at_most: float = float("inf")
    at_least: float = 0.0

    def holds(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_most == float("inf") else f"≤ {self.at_most:g}"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A question, and those who answer it side by side."""

    name: str
    question: str
    unit: str
    contenders: tuple[Contender, ...]
    goals: tuple[Goal, ...] = ()
    limits: tuple[Limit, ...] = ()
    prepare: Callable[[Workspace], object] | None = None


def warm_up() -> None:
    """Load what tensorlake loads when it is first used: imports are in no figure."""
    import numpy as np

    import tensorlake as tl

    _ = tl.ingest
    schema = {"image": tl.Image(codec="jpeg"), "x": tl.Array("float32", shape=(4,))}
    with tl.create("memory://warm-up", schema) as ds:
        ds.append({"image": np.zeros((16, 16, 3), np.uint8), "x": [0, 0, 0, 0]})
        ds.commit("one row")
        for _ in ds.torch(batch_size=1, decode={"image": tl.decode.Resize(8, 8)}):
            pass


def touch_memory(nbytes: int) -> None:
    """Take memory and give it back, so that later allocations are not new to the machine.

    The first touch of 2 MiB by anybody took 0.6 to 12 ms of a virtual machine, its host's time
    (docs/decisions/0026), and whose run that falls into is chance.
    """
    import numpy as np

    np.ones(nbytes, np.uint8)


@dataclass(slots=True)
class Stopwatch:
    """Wall and processor time between entering and leaving, worker processes included."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def stopwatch() -> Generator[Stopwatch]:
    """Time the block."""
    watch = Stopwatch()
    cpu, started = _cpu_seconds(), time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - started
    watch.cpu_seconds = _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    import psutil

    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):  # workers that still live, in ticks
        times = child.cpu_times()
        total += times.user + times.system
    return float(total)


def run_alone(benchmark: str, contender: str, workspace: Workspace) -> Measurement:
    """Run one contender in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "--one", benchmark, contender]
    command += ["--workspace", str(workspace.folder)]
    if workspace.images:
        command += ["--images", str(workspace.images)]
    if workspace.is_quick:
        command += ["--quick"]
    ours = (REPOSITORY, REPOSITORY / "query", REPOSITORY / "server")  # not what is installed
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ours))}
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{benchmark}, {contender}: failed\n{done.stdout}{done.stderr}")
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def run_rounds(
    benchmark: Benchmark, workspace: Workspace, *, rounds: int
) -> dict[str, list[Measurement]]:
    """Run every contender once a round; show on a terminal how far it is.

    One that had no figure, because it does not install, fails or takes too long, is not run again.
    """
    if benchmark.prepare is not None:
        benchmark.prepare(workspace)
    runs: dict[str, list[Measurement]] = {c.name: [] for c in benchmark.contenders}
    for number in range(rounds):
        for contender in benchmark.contenders:
            _show(f"{benchmark.name}: round {number + 1} of {rounds}, {contender.name}")
            failed = [one for one in runs[contender.name] if one.note]
            runs[contender.name].append(
                failed[0] if failed else run_alone(benchmark.name, contender.name, workspace)
            )
    _show("")
    return runs


def _show(progress: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)


def print_measurement(measurement: Measurement) -> None:
    """Answer the process that started this one: one line of JSON, the last."""
    print(json.dumps(asdict(measurement)))


@contextmanager
def durable_file(path: Path, mode: Literal["wb", "xb"] = "wb") -> Generator[BinaryIO]:
    """Open a file that is on the disk when the block ends."""
    with path.open(mode) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def folder_nbytes(folder: Path) -> int:
    """Add up the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
