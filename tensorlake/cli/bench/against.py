"""``tensorlake bench --against``: the same rows through another loader, printed beside ours.

    BenchRun ─► a new process: measure_ours ─► Measured ┐
    BenchRun ─► a new process: OPPONENTS[…] ─► Measured ┴► Contest

Neither profits from imports, caches or threads of the other, and ours runs first: the operating
system's file cache then favours the opponent, never us. Runs have credentials, and go by a pipe:
every user of the machine can read a command line.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO
from multiprocessing import get_context, set_start_method
from typing import Any

from tensorlake.cli.bench.run import BenchRun, Measured, measure_ours
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.output import print_table
from tensorlake.errors import InvalidInputError, MissingExtraError, did_you_mean, missing_extra
from tensorlake.storage import usable_cores

__all__ = ["Contest", "check_opponent", "hold_contest"]

OPPONENTS = {
    "torch": "a torch Dataset that reads one row at a time, in a multi-process DataLoader",
    "webdataset": "tar shards, read by webdataset in a multi-process DataLoader",
    "mds": "MDS shards, read by streaming.StreamingDataset in a multi-process DataLoader",
    "litdata": "chunks of LitData, read by its StreamingDataLoader",
    "lance": "a table of Lance, read by lance.torch.data in a multi-process DataLoader",
}
"""The alternatives that can be measured."""
PACKAGES = {
    "webdataset": ("webdataset", "webdataset"),
    "mds": ("streaming", "mosaicml-streaming"),
    "litdata": ("litdata", "litdata"),
    "lance": ("lance", "pylance"),
}
"""The module, and the package to install, of those that are not an extra."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Two measured contenders: our loader and an opponent."""

    opponent: str
    ours: Measured
    theirs: Measured
    run: BenchRun

    @property
    def ratios(self) -> list[float | None]:
        """Our speedup per epoch; None where nothing was read."""
        pairs = zip(self.ours.epochs, self.theirs.epochs, strict=True)
        rates = ((one.rows_per_s, other.rows_per_s) for one, other in pairs)
        return [one / other if one and other else None for one, other in rates]

    @property
    def differing(self) -> list[str]:
        """The columns whose values differ in the first batch."""
        ours, theirs = self.ours.first, self.theirs.first
        return sorted(n for n in {*ours, *theirs} if ours.get(n) != theirs.get(n))

    @property
    def conditions(self) -> dict[str, str]:
        """Conditions under which both ran."""
        made = ", ".join(f"{name} {what}" for name, (what, _) in self.ours.first.items()) or "none"
        same = "equal, compared on the first batch in stored order"
        other = f"DIFFERS in {', '.join(self.differing)}: the ratio compares different work"
        side = self.run.side
        return {
            "batches": f"{made}; {other if self.differing else same}",
            "decode": f"images to {side}×{side}, by the same functions",
            "order": "shuffled" if self.run.shuffle else "as stored",
            "tensorlake": self.ours.facts,
            self.opponent: f"{OPPONENTS[self.opponent]}; {self.theirs.facts}",
            "processes": "a new one each; tensorlake first, so that the file cache favours"
            f" {self.opponent}",
            "machine": f"{usable_cores()} cores, {platform.system()} {platform.machine()},"
            f" Python {platform.python_version()}",
        }

    @property
    def report(self) -> str:
        """Both results side by side, and the conditions."""
        name, text = self.opponent, StringIO()
        header = ("epoch", "tensorlake", name, "ratio", "first batch", f"{name}'s")
        rows = [
            (
                str(ours.number),
                *(f"{one.rows_per_s:,.0f} rows/s" for one in (ours, theirs)),
                "-" if ratio is None else f"{ratio:.2f}",
                *(f"{one.first_batch_s * 1000:,.0f} ms" for one in (ours, theirs)),
            )
            for ours, theirs, ratio in zip(
                self.ours.epochs, self.theirs.epochs, self.ratios, strict=True
            )
        ]
        print_table(rows, header=header, right=range(len(header)), file=text)
        return text.getvalue() + "\n".join(f"{key}: {one}" for key, one in self.conditions.items())

    def to_json(self) -> dict[str, Any]:
        """Return the opponent's figures, the ratios and the conditions."""
        kept = ("epoch", "seconds", "first_batch_s", "rows", "rows_per_s")
        figures = [epoch.to_json() for epoch in self.theirs.epochs]
        return {
            "name": self.opponent,
            "epochs": [{key: epoch[key] for key in kept} for epoch in figures],
            "ratios": self.ratios,
            "is_same_output": not self.differing,
            "conditions": self.conditions,
        }


def check_opponent(name: str, run: BenchRun) -> None:
    """Reject an unknown or missing opponent, and rows that other processes cannot read.

    Raises:
        MissingExtraError: The opponent is not installed.
        InvalidInputError: The dataset is in memory of this process.
    """
    if name not in OPPONENTS:
        known = "; ".join(f"{one}: {what}" for one, what in OPPONENTS.items())
        wrong_usage(f"unknown --against {name!r}{did_you_mean(name, OPPONENTS)}; known: {known}")
    if find_spec("torch") is None:
        raise missing_extra(f"bench --against {name}", "torch")
    module, package = PACKAGES.get(name, ("torch", "torch"))
    if find_spec(module) is None:
        raise MissingExtraError(
            f"bench --against {name} needs {package}, which is not installed"
            f"\npip install {package}",
            extra=package,
        )
    if run.url.startswith("memory://"):
        raise InvalidInputError(
            f"{run.url!r} is in the memory of this process, and contenders run in new processes\n"
            "copy it to a folder: tl.copy(url, 'pets.tl')",
            dataset=run.url,
        )
    with run.open():
        pass  # here: what cannot be opened is reported once, before any process is started


def hold_contest(run: BenchRun, opponent: str) -> Contest:
    """Measure our loader, then the opponent's, each in its own process."""
    measure = _measure_torch if opponent == "torch" else partial(_measure_peer, opponent)
    ours, theirs = (_in_new_process(one, run) for one in (measure_ours, measure))
    return Contest(opponent, ours, theirs, run)


def _in_new_process(measure: Callable[[BenchRun], Measured], run: BenchRun) -> Measured:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, run).result()


def _measure_torch(run: BenchRun) -> Measured:
    from tensorlake.cli.bench.torch import measure_torch  # lazy: imports torch

    set_start_method(None, force=True)  # the pool's is spawn; a program's DataLoader has its own
    return measure_torch(run)


def _measure_peer(name: str, run: BenchRun) -> Measured:
    from tensorlake.cli.bench.peers import measure_peer  # lazy: imports torch

    set_start_method(None, force=True)
    return measure_peer(name, run)
