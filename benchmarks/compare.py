"""``python -m benchmarks.compare REF NAME …``: the same benchmarks of two commits, in turn.

    REF   ■     ■  ■     ■  ■         each ■ a process of its own; who is first alternates
    here     ■  ■     ■  ■     ■      ratios are taken of neighbours

A change of 3 % is smaller than the drift of a shared machine from minute to minute: only neighbours
are compared, and each median has an interval. Ratios are speeds, here ÷ REF: above 1 this tree is
faster. Only our own contenders run, which make their data themselves: peers are the same on both
sides.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median

from benchmarks.harness.data import REPOSITORY
from benchmarks.harness.runs import RUN_TIMEOUT_S, TICK_S, Measurement

ROUNDS = 9
CONFIDENCE = 0.95

LIST = """
import json
from benchmarks.__main__ import ALL
own = {b.name: [c.name for c in b.contenders if c.name.startswith("tensorlake")] for b in ALL}
print(json.dumps(own))
"""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout, and the folder for the datasets that its benchmarks make."""

    path: Path
    workspace: Path
    images: str
    is_quick: bool

    def python(self, *arguments: str) -> str:
        """Run Python with the packages of this tree; return what it prints."""
        paths = os.pathsep.join(str(self.path / part) for part in ("", "query", "server"))
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.path}: {arguments[-1]} failed\n{done.stdout}{done.stderr}")
        return done.stdout

    def contenders(self) -> dict[str, list[str]]:
        """List our own contenders of each benchmark."""
        found: dict[str, list[str]] = json.loads(self.python("-c", LIST))
        return found

    def run(self, benchmark: str, contender: str) -> Measurement:
        """Measure one contender in a new process."""
        self.workspace.mkdir(parents=True, exist_ok=True)
        options = ["--workspace", str(self.workspace)]
        options += ["--images", self.images] if self.images else []
        options += ["--quick"] if self.is_quick else []
        out = self.python("-m", "benchmarks", "--one", benchmark, contender, *options)
        return Measurement(**json.loads(out.splitlines()[-1]))


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """The interval that holds the median of all runs with 95 % confidence, by order statistics.

    It assumes nothing about the distribution (Conover, Practical Nonparametric Statistics, 3.2).
    Fewer than 6 values cannot give that confidence: then it is from the least to the greatest.
    """
    ordered, n = sorted(values), len(values)
    outside, below = 0.0, 0
    while below < (n - 1) // 2:
        outside += 2 * comb(n, below) / 2**n
        if outside > 1 - CONFIDENCE:
            break
        below += 1
    skipped = max(below - 1, 0)
    return ordered[skipped], ordered[n - 1 - skipped]


def compare(before: Tree, here: Tree, benchmark: str, contender: str, *, rounds: int) -> str:
    """Run one contender of both trees in turn; return a line of a table."""
    pairs: list[tuple[Measurement, Measurement]] = []
    for number in range(rounds):
        order = (before, here) if number % 2 else (here, before)
        measured = {tree.path: tree.run(benchmark, contender) for tree in order}
        pairs.append((measured[before.path], measured[here.path]))
    notes = {one.note for pair in pairs for one in pair if one.note}
    if notes:
        return f"{benchmark:22} {contender:22} {'; '.join(sorted(notes))}"
    speed = [new.rate / old.rate for old, new in pairs]
    work = [per_cpu_second(new) / per_cpu_second(old) for old, new in pairs]
    best = max(new.rate for _, new in pairs) / max(old.rate for old, _ in pairs)
    return f"{benchmark:22} {contender:22} {_shown(speed)}   {best:5.2f}   {_shown(work)}"


def per_cpu_second(one: Measurement) -> float:
    """Work done per second of processor time: hardly changed by what else the machine does."""
    return one.amount / max(one.cpu_seconds, TICK_S)


def _shown(ratios: Sequence[float]) -> str:
    low, high = interval_of_median(ratios)
    return f"{median(ratios):5.2f} ({low:.2f}–{high:.2f})"


def _checkout(ref: str, folder: Path) -> Path:
    """Make a worktree of a commit, or take the one made before."""
    git = ["git", "-C", str(REPOSITORY)]
    found = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise SystemExit(f"benchmarks: {ref!r} is not a commit of this repository")
    path = folder / found.stdout.strip()
    if not path.exists():
        subprocess.run([*git, "worktree", "prune"], check=True)
        add = [*git, "worktree", "add", "--quiet", "--detach", str(path), ref]
        subprocess.run(add, check=True)
        grammar = path / "query" / "build_grammar.py"
        if grammar.exists():  # without it the first query of each process compiles the grammar
            paths = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{path / 'query'}"}
            subprocess.run([sys.executable, str(grammar)], cwd=path, env=paths, check=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("ref", help="the commit, branch or tag to compare this tree to")
    parser.add_argument("names", nargs="+", help="benchmarks, by name")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--images", default="", help="a folder of JPEG files")
    parser.add_argument("--quick", action="store_true", help="little data")
    parser.add_argument("--workspace", type=Path, default=REPOSITORY / ".benchmarks" / "compare")
    arguments = parser.parse_args()
    folder = arguments.workspace.resolve()
    options = {"images": arguments.images, "is_quick": arguments.quick}
    before = Tree(_checkout(arguments.ref, folder / "trees"), folder / "before", **options)
    here = Tree(REPOSITORY, folder / "here", **options)
    old, new = before.contenders(), here.contenders()
    unknown = [name for name in arguments.names if name not in old or name not in new]
    if unknown:
        both = ", ".join(name for name in new if name in old)
        raise SystemExit(f"benchmarks: not in both trees: {', '.join(unknown)}; both have: {both}")
    print(f"{arguments.rounds} rounds; here ÷ {arguments.ref}: median (95 % interval)")
    print(f"{'':45} speed               best    per CPU second")
    for name in arguments.names:
        for contender in new[name]:
            if contender in old[name]:
                print(compare(before, here, name, contender, rounds=arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
