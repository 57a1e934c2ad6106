"""Reports of the runs: ratios within each round (min, median, max), in text, Markdown and JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.comparison import PAGE, write_comparison
from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Goal, Limit, Measurement
from tensorlake.quantities import plural

__all__ = ["Spread", "describe_machine", "print_result", "ratios", "write_json", "write_page"]

SECTION = "\n\n## "
EQUAL_RECALL = 0.05  # by which a peer's recall may be lower where speeds are compared
COMPARED = ("tensorlake-dl", "torch", "numpy", "zarr", "simplejpeg", "pillow", "obstore")
Runs = Mapping[str, Sequence[Measurement]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the middle and the greatest of a few numbers."""

    least: float
    median: float
    greatest: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(min(values), statistics.median(values), max(values))

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.least)}–{_short(self.greatest)})"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def figures(measured: Sequence[Measurement], unit: str) -> Spread:
    """Say how fast, or, where one thing is done, how long it took."""
    if unit == "ms":
        return Spread.of([m.seconds * 1000 for m in measured])
    return Spread.of([m.rate for m in measured])


def ratios(runs: Runs, goal: Goal) -> Spread:
    """Divide the rates of two contenders, round by round."""
    pairs = zip(runs[goal.contender], runs[goal.against], strict=True)
    return Spread.of([goal.rate(one) / goal.rate(other) for one, other in pairs])


def limited(runs: Runs, limit: Limit, unit: str) -> Spread:
    """Take the figure that a limit is about."""
    measured = runs[limit.contender]
    if not limit.fact:
        return figures(measured, unit)
    return Spread.of([m.facts[limit.fact] for m in measured])


def verdict(runs: Runs, goal: Goal, spread: Spread, *, missed: str) -> str:
    """Describe whether a goal is reached; not beside a peer that finds fewer results."""
    recalls = [
        Spread.of([m.facts.get("recall", 1.0) for m in runs[name]]).median
        for name in (goal.contender, goal.against)
    ]
    if recalls[1] < recalls[0] - EQUAL_RECALL:
        mine, theirs = map(_short, recalls)
        return f"not comparable: recall {mine} and {theirs}"
    return "reached" if spread.median >= goal.at_least else missed


def failure_of(measured: Sequence[Measurement]) -> str:
    """Say why a contender has no figure: the first run that has none."""
    return next((one.note for one in measured if one.note), "")


def has_both(runs: Runs, goal: Goal) -> bool:
    """Whether both sides of a goal were measured: a peer may not install."""
    return not any(failure_of(runs[name]) for name in (goal.contender, goal.against))


def print_result(benchmark: Benchmark, runs: Runs) -> None:
    """Print one benchmark's figures."""
    print(f"\n{benchmark.name}: {benchmark.question}")
    for name, measured in runs.items():
        facts = ", ".join(f"{key} {value}" for key, value in _facts(measured).items())
        if note := failure_of(measured):
            print(f"  {name:32} {note}")
            continue
        rate = figures(measured, benchmark.unit)
        print(f"  {name:32} {rate!s:>32} {benchmark.unit:8} {facts}".rstrip())
    for goal in benchmark.goals:
        if not has_both(runs, goal):
            continue
        spread = ratios(runs, goal)
        mark = verdict(runs, goal, spread, missed="MISSED")
        print(f"  {goal}: {spread}, goal ≥ {goal.at_least:.3g}: {mark}")
    for limit in benchmark.limits:
        if failure_of(runs[limit.contender]):
            continue
        spread = limited(runs, limit, benchmark.unit)
        mark = "reached" if limit.holds(spread.median) else "MISSED"
        print(f"  {_named(limit, benchmark.unit)}: {spread}, goal {limit}: {mark}")


def _named(limit: Limit, unit: str) -> str:
    return f"{limit.contender}, {limit.fact or unit}"


def _facts(measured: Sequence[Measurement]) -> dict[str, Spread]:
    every = [key for key in measured[0].facts if all(key in m.facts for m in measured)]
    facts = {key: Spread.of([m.facts[key] for m in measured]) for key in every}
    if measured[0].cpu_seconds:
        facts["CPU s"] = Spread.of([m.cpu_seconds for m in measured])
    return facts


def describe_machine() -> dict[str, str]:
    """Say what the figures were measured on."""
    model = platform.processor() or platform.machine()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in COMPARED)
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": versions,
    }


@dataclass(frozen=True, slots=True)
class Kept:
    """The runs of one benchmark, and when they were made."""

    day: str
    runs: Runs

    @property
    def rounds(self) -> int:
        """How many there were."""
        return len(next(iter(self.runs.values())))


def write_json(results: Mapping[str, Runs], workspace: Workspace) -> Path:
    """Write every run of every contender, with earlier results of the other benchmarks."""
    target = workspace.folder / "results.json"
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    kept = kept_results(workspace) | {name: Kept(today, runs) for name, runs in results.items()}
    document = {
        "machine": describe_machine(),
        "results": {
            name: {
                "day": one.day,
                "runs": {each: [asdict(m) for m in found] for each, found in one.runs.items()},
            }
            for name, one in kept.items()
        },
    }
    target.write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")
    return target


def kept_results(workspace: Workspace) -> dict[str, Kept]:
    """Read what was kept of earlier runs on this machine; of another, nothing is comparable."""
    source = workspace.folder / "results.json"
    document = json.loads(source.read_text(encoding="utf-8")) if source.exists() else {}
    if document.get("machine") != describe_machine():
        return {}
    return {
        name: Kept(
            one["day"],
            {each: [Measurement(**m) for m in found] for each, found in one["runs"].items()},
        )
        for name, one in document["results"].items()
    }


def write_page(benchmarks: Sequence[Benchmark], workspace: Workspace) -> Path:
    """Write docs/benchmarks.md: the figures kept here, and sections of benchmarks not run here.

    The README's table follows it.

    A section stays where the page comes from a machine described alike: a fresh checkout that runs
    one benchmark does not lose the others.
    """
    if workspace.images is None:
        described = "generated JPEGs"
    else:
        described = f"the JPEGs of `{workspace.images.name}`, each under several names"
    head = [
        "# Benchmarks",
        "Generated by `make bench ARGS=--write`; the code is in `benchmarks/`. Each run is a",
        "separate process; a round runs every contender once, and ratios are computed within a",
        "round. Figures are the median of the rounds, with the minimum and maximum in parentheses.",
        "Absolute numbers depend on the machine; ratios less so.",
        "",
        *(f"- {key}: {value}" for key, value in describe_machine().items()),
        f"- images: {workspace.num_images}, {described}",
    ]
    written, kept = _sections_written("\n".join(head)), kept_results(workspace)
    blocks = ["\n".join(head)]
    for benchmark in benchmarks:
        if benchmark.name in kept:
            blocks.append("\n".join(_section(benchmark, kept[benchmark.name])))
        elif benchmark.name in written:
            blocks.append(written[benchmark.name])
    PAGE.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    write_comparison()
    return PAGE


def _sections_written(head: str) -> dict[str, str]:
    """Take the sections of the page by name, if they were measured on a machine like this."""
    if not PAGE.exists():
        return {}
    before, *sections = PAGE.read_text(encoding="utf-8").split(SECTION)
    if before.strip() != head:
        return {}
    return {one.split("\n", 1)[0]: f"## {one.rstrip()}" for one in sections}


def _section(benchmark: Benchmark, kept: Kept) -> list[str]:
    runs, question = kept.runs, benchmark.question
    end, rounds = "" if question.endswith("?") else ".", plural(kept.rounds, "round")
    lines = [
        f"## {benchmark.name}",
        f"{question[0].upper()}{question[1:]}{end} {rounds}, {kept.day}.",
        "",
        f"| contender | {benchmark.unit} | also |",
        "| --- | --- | --- |",
    ]
    for name, measured in runs.items():
        if note := failure_of(measured):
            lines.append(f"| {name} | | {note} |")
            continue
        facts = "; ".join(f"{key} {value}" for key, value in _facts(measured).items())
        lines.append(f"| {name} | {figures(measured, benchmark.unit)} | {facts} |")
    if benchmark.goals:
        lines += ["", "| ratio | measured | goal | |", "| --- | --- | --- | --- |"]
    for goal in benchmark.goals:
        if not has_both(runs, goal):
            continue
        spread = ratios(runs, goal)
        mark = verdict(runs, goal, spread, missed="**missed**")
        lines.append(f"| {goal} | {spread} | ≥ {goal.at_least:.3g} | {mark} |")
    if benchmark.limits:
        lines += ["", "| figure | measured | goal | |", "| --- | --- | --- | --- |"]
    for limit in benchmark.limits:
        if failure_of(runs[limit.contender]):
            continue
        spread = limited(runs, limit, benchmark.unit)
        mark = "reached" if limit.holds(spread.median) else "**missed**"
        lines.append(f"| {_named(limit, benchmark.unit)} | {spread} | {limit} | {mark} |")
    return lines
