"""``tensorlake bench --against``: the same rows through another loader, printed beside ours.

Each contender runs in a new process, ours first: the operating system's file cache then favours the
opponent, never us. Both report a digest of the first rows, so that every ratio is printed together
with whether the two outputs are equal.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import msgspec
import typer

from tensorlake.cli.bench.run import OURS, BenchRun, Measured
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.output import print_table
from tensorlake.errors import InvalidInputError, did_you_mean, missing_extra
from tensorlake.loader import Epoch
from tensorlake.storage import usable_cores

__all__ = ["OPPONENTS", "Contest", "check_opponent", "hold_contest", "shown_ratio"]

OPPONENTS = {"torch": "a torch Dataset that reads one row at a time, in a multi-process DataLoader"}
"""The alternatives that can be measured."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Two measured contenders.

    Attributes:
        opponent: Name of the alternative.
        ours: Results of our loader.
        theirs: Results of the opponent.
        conditions: Conditions under which both ran.
    """

    opponent: str
    ours: Measured
    theirs: Measured
    conditions: dict[str, str]

    @property
    def ratios(self) -> list[float | None]:
        """Our speedup per epoch; None where nothing was read."""
        pairs = zip(self.ours.epochs, self.theirs.epochs, strict=True)
        return [
            ours.rows_per_s / theirs.rows_per_s if theirs.rows_per_s and ours.rows_per_s else None
            for ours, theirs in pairs
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the opponent's figures, the ratios and the conditions."""
        return {
            "name": self.opponent,
            "epochs": [_figures(epoch) for epoch in self.theirs.epochs],
            "ratios": self.ratios,
            "is_same_output": self.is_same_output,
            "conditions": self.conditions,
        }

    @property
    def is_same_output(self) -> bool:
        """Whether both produced the same first rows."""
        return not _differing(self.ours, self.theirs)

    def print(self) -> None:
        """Print both results side by side, and the conditions."""
        header = ("epoch", OURS, self.opponent, "ratio", "first batch", f"{self.opponent}'s")
        rows = [
            (
                str(ours.number),
                f"{ours.rows_per_s:,.0f} rows/s",
                f"{theirs.rows_per_s:,.0f} rows/s",
                shown_ratio(ratio),
                f"{ours.first_batch_s * 1000:,.0f} ms",
                f"{theirs.first_batch_s * 1000:,.0f} ms",
            )
            for ours, theirs, ratio in zip(
                self.ours.epochs, self.theirs.epochs, self.ratios, strict=True
            )
        ]
        print()
        print_table(rows, header=header, right=range(len(header)))
        for name, value in self.conditions.items():
            print(f"{name}: {value}")


def shown_ratio(ratio: float | None) -> str:
    """Format a ratio."""
    return "-" if ratio is None else f"{ratio:.2f}"


def check_opponent(name: str, url: str) -> None:
    """Reject an unknown or missing opponent, and a dataset that other processes cannot read.

    Raises:
        MissingExtraError: The opponent is not installed.
        InvalidInputError: The dataset is in memory of this process.
    """
    if name not in OPPONENTS:
        known = "; ".join(f"{one}: {what}" for one, what in OPPONENTS.items())
        wrong_usage(f"unknown --against {name!r}{did_you_mean(name, OPPONENTS)}; known: {known}")
    if find_spec("torch") is None:
        raise missing_extra("bench --against torch", "torch")
    if url.startswith("memory://"):
        raise InvalidInputError(
            f"{url!r} is in the memory of this process, and contenders run in new processes\n"
            "copy it to a folder: tl.copy(url, 'pets.tl')",
            dataset=url,
        )


def hold_contest(run: BenchRun, opponent: str) -> Contest:
    """Measure our loader, then the opponent's, each in its own process."""
    ours = _in_fresh_process(replace(run, contender=OURS))
    theirs = _in_fresh_process(replace(run, contender=opponent))
    return Contest(opponent, ours, theirs, _conditions(run, opponent, ours, theirs))


def _in_fresh_process(run: BenchRun) -> Measured:
    command = [sys.executable, "-m", "tensorlake.cli.bench"]
    request = msgspec.json.encode(run)
    ended = subprocess.run(command, input=request, stdout=subprocess.PIPE, check=False)  # noqa: S603 - ourselves
    if ended.returncode:
        raise typer.Exit(
            ended.returncode if ended.returncode > 0 else 1
        )  # it has printed the reason
    return msgspec.json.decode(ended.stdout, type=Measured)


def _conditions(run: BenchRun, opponent: str, ours: Measured, theirs: Measured) -> dict[str, str]:
    made = ", ".join(f"{name} {what}" for name, what in ours.output.items())
    differing = _differing(ours, theirs)
    same = "equal, compared on the first batch in stored order"
    other = f"DIFFERS in {', '.join(differing)}: the ratio compares different work"
    return {
        "batches": f"{made or 'none'}; {other if differing else same}",
        "decode": f"images to {run.side}×{run.side}, by the same functions",
        "order": "shuffled" if run.shuffle else "as stored",
        OURS: _facts(ours.facts),
        opponent: f"{OPPONENTS[opponent]}; {_facts(theirs.facts)}",
        "processes": f"a new one each; {OURS} first, so that the file cache favours {opponent}",
        "machine": f"{usable_cores()} cores, {platform.system()} {platform.machine()},"
        f" Python {platform.python_version()}",
    }


def _differing(ours: Measured, theirs: Measured) -> list[str]:
    """List the columns whose values differ between the two."""
    names = sorted({*ours.digests, *theirs.digests})
    return [name for name in names if ours.digests.get(name) != theirs.digests.get(name)]


def _facts(facts: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _figures(epoch: Epoch) -> dict[str, Any]:
    figures = epoch.to_json()
    kept: Sequence[str] = ("epoch", "seconds", "first_batch_s", "rows", "rows_per_s")
    return {name: figures[name] for name in kept}
