"""The wheel, built and installed in empty environments, where the demo runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PYTHONS", "build", "interpreters", "runs", "tested"]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TIMEOUT_S = 3600
SHOWN_LINES = 12
TESTS = (  # of a minute, with every part of the core
    "tests/golden/test_v1.py",
    "tests/golden/test_v1_release.py",
    "tests/golden/test_v1_types.py",
    "tests/unit/format",
    "tests/unit/storage/stores/test_local_store.py",
)


def build(root: Path, folder: Path) -> tuple[Path | None, list[str]]:
    """Build the wheel of a checkout; return it, or what went wrong."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    problem = _ran([*command, str(folder), str(root)], "mend the build")
    found = sorted(folder.glob("*.whl"))
    return (found[0], []) if found and not problem else (None, problem or ["no wheel was made"])


def interpreters() -> dict[str, str]:
    """Return the supported versions of Python that are installed here, with their programs."""
    found = {".".join(map(str, sys.version_info[:2])): sys.executable}
    for version in PYTHONS:
        program = shutil.which(f"python{version}")
        if version in found or program is None:
            continue
        asked = subprocess.run([program, "-c", "import venv, ensurepip"], check=False, timeout=60,
                               capture_output=True)  # fmt: skip
        if asked.returncode == 0:  # a shim may be there without its Python
            found[version] = program
    return found


def runs(
    wheel: Path,
    folder: Path,
    *,
    python: str,
    torch: Sequence[str] = (),
    extras: Sequence[str] = (),
    constraints: Path | None = None,
) -> list[str]:
    """Install a wheel in an empty environment, and run what a user runs first.

    Args:
        wheel: The wheel.
        folder: Where to make the environment.
        python: The interpreter.
        torch: What pip is asked for first; none: everything is run but the demo.
        extras: Extras to install.
        constraints: Versions of the packages; without it the newest.
    """
    shutil.rmtree(folder, ignore_errors=True)
    program, tensorlake = folder / "bin" / "python", folder / "bin" / "tensorlake"
    pip = [str(program), "-m", "pip", "install", "--quiet", "--no-compile"]
    pip += [] if constraints is None else ["-c", str(constraints)]
    steps = [
        ([python, "-m", "venv", str(folder)], "install the module venv"),
        ([*pip, *torch], "give another torch: TORCH="),
        ([*pip, f"{wheel}[{','.join(extras)}]" if extras else str(wheel)], "mend the bounds"),
        ([str(program), "-P", "-c", SMOKE], "mend the package, or a bound in pyproject.toml"),
        ([str(tensorlake), "--help"], "mend the command line, or a bound in pyproject.toml"),
        ([str(tensorlake), "demo", "--lake", str(folder / "demo")], "mend the demo"),
    ]
    if not torch:
        steps = [one for one in steps if one[0] != pip and "demo" not in one[0]]
    for command, remedy in steps:
        problem = _ran(command, remedy, cwd=folder.parent)
        if problem:
            return problem
    return []


SMOKE = """
import tensorlake as tl
with tl.create("memory://smoke", {"x": "float32"}) as ds:
    ds.extend({"x": [1.0, 2.0]})
    ds.commit("first")
    assert ds.query("WHERE x > 1")["x"][:].tolist() == [2.0]
assert len(tl.datasets.scenes()) == 19
from tensorlake_query.syntax import grammar
assert grammar.loaded(grammar.GRAMMAR.parent) is not None, "the compiled grammar is not used"
"""


def tested(root: Path, folder: Path) -> list[str]:
    """Run a part of the tests, of a checkout, with the packages of an environment."""
    python = str(folder / "bin" / "python")
    tools = ["pytest", "pytest-timeout", "hypothesis"]
    return _ran(
        [python, "-m", "pip", "install", "--quiet", "-c", str(root / "constraints.txt"), *tools],
        "mend the versions",
    ) or _ran(
        # old versions of packages warn about what newer ones of others deprecate
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", *TESTS],
        "raise the bound of the package that fails, in pyproject.toml",
        cwd=root,
    )


def _ran(command: Sequence[str], remedy: str, cwd: Path | None = None) -> list[str]:
    """Run a command; return its last lines and what to do where it fails."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=cwd, env=kept
    )
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).strip().splitlines()[-SHOWN_LINES:]
    return ["\n    ".join([" ".join(command)[:200], *lines]) + f"\n  {remedy}"]
