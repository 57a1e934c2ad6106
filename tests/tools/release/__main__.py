"""Check everything that a release needs, and print a table: ``make release-check``.

`python -m tests.tools.release [--torch WHAT] [CHECK…]` runs all checks, or those named. Each failed
check is printed with what to do; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tools.release import earlier, environments, statements, walk, wheel

ROOT = Path(__file__).resolve().parents[3]
Check = Callable[[], list[str]]


def checks(root: Path, folder: Path, torch: Sequence[str]) -> dict[str, Check]:
    """Return the checks by name, the cheapest first."""
    built = cache(lambda: environments.build(root, folder))

    def installed(name: str, python: str, *, is_minimum: bool = False) -> list[str]:
        made, problem = built()
        if made is None:
            return problem
        return environments.runs(
            made,
            folder / name,
            python=python,
            torch=torch if python == sys.executable else (),
            extras=statements.minimum_extras(root) if is_minimum else ("media",),  # for the demo
            constraints=root / statements.MINIMUM if is_minimum else None,
        )

    def lowest() -> list[str]:
        return installed("lowest", sys.executable, is_minimum=True) or environments.tested(
            root, folder / "lowest"
        )

    def contents() -> list[str]:
        made, problem = built()
        return problem if made is None else wheel.contents(made)

    def walked() -> list[str]:
        made, problem = built()
        return problem if made is None else walk.followed(root, made, folder / "walk", torch)

    return {
        "versions": lambda: statements.versions(root),
        "changelog": lambda: statements.changelog(root),
        "golden": lambda: statements.golden(root),
        "bounds": lambda: statements.bounds(root),
        "licences": lambda: _program(root, "tests/tools/licences.py"),
        "links": lambda: _program(root, "-m", "pytest", "-q", "tests/docs/test_links.py"),
        "site": lambda: _program(root, "-m", "tests.tools.site"),
        "earlier": lambda: earlier.compared(root, folder / "earlier"),
        "wheel": contents,
        **{
            f"python{version}": lambda name=f"python{version}", python=python: installed(
                name, python
            )
            for version, python in environments.interpreters().items()
        },
        "walk": walked,
        "lowest": lowest,
    }


def _program(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-2000:]]


def report(found: dict[str, tuple[list[str], float]]) -> str:
    """Return a row for each check, and below them the problems."""
    rows = [
        f"{name:<12} {'ok' if not problems else 'FAILED':<7} {seconds:7.1f} s"
        for name, (problems, seconds) in found.items()
    ]
    details = [
        f"\n{name}:\n" + "\n".join(problems) for name, (problems, _) in found.items() if problems
    ]
    return "\n".join([*rows, *details, ""])


def main(arguments: Sequence[str]) -> int:
    """Run the checks; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.release", description=__doc__)
    parser.add_argument("--torch", default="torch==2.13.0", help="what pip is asked for first")
    parser.add_argument("names", nargs="*", metavar="CHECK")
    given = parser.parse_args(arguments)
    found: dict[str, tuple[list[str], float]] = {}
    with TemporaryDirectory() as folder:
        known = checks(ROOT, Path(folder), given.torch.split())
        if unknown := set(given.names) - known.keys():
            parser.error(f"no check {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
        for name in given.names or known:
            sys.stderr.write(f"{name} …\n")
            began = time.monotonic()
            found[name] = known[name](), time.monotonic() - began
    sys.stdout.write(report(found))
    return 1 if any(problems for problems, _ in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
