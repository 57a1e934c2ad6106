"""Product code asks before it calls what Windows or macOS lack, and runs without it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tools.platforms import MODULES, lacking, module_names

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("tensorlake", "query/tensorlake_query", "server/tensorlake_server")
SHARED = "engine='processes' is refused where has_shared_memory() is false"
CHECKED_ELSEWHERE = {  # file -> what keeps its calls from a system that lacks them
    "tensorlake/loader/runtime/fork_server.py": SHARED,
    "tensorlake/loader/runtime/worker_processes.py": SHARED,
    "tensorlake/loader/runtime/shared_slabs.py": SHARED,
    "tensorlake/loader/runtime/batch_slabs.py": "SlabReader.offered() asks has_shared_memory()",
    "server/tensorlake_server/request/slab_socket.py": "SlabSocket.asked() asks likewise",
    "tensorlake/loader/caches/claims.py": "opened_folder() refuses cache_dir= without fcntl",
    "tensorlake/loader/caches/disk_folder.py": "opened_folder() refuses cache_dir= without fcntl",
    "server/tensorlake_server/app/workers.py": "the settings refuse --workers without os.fork",
    "tensorlake/loader/config/rank_board.py": "check_workers() refuses workers without fcntl",
    "tensorlake/loader/frameworks/torch.py": "likewise, before it is imported",
    "tensorlake/workloads/flows/executors.py": "Executor.is_possible() asks for fcntl",
}
IMPORTS = re.compile(rf"^\s*(?:import|from) (?:{'|'.join(MODULES)})\b", re.MULTILINE)
SYSTEMS = {"win32": "Windows", "darwin": "macOS"}


def files() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file; one that imports none of the modules is empty."""
    text = path.read_text(encoding="utf-8")
    return ast.parse(text if IMPORTS.search(text) else "")


@cache
def names(path: Path) -> list[tuple[int, str, str]]:
    """Return line, module and name of all that a file takes from the modules."""
    return [
        (node.lineno, module, name)
        for node in ast.walk(tree(path))
        for module, name in _names(node)
        if module in MODULES
    ]


def uses(path: Path, platform: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name of what a platform lacks and the file does not ask for."""
    missing = [one for one in names(path) if _lacks(platform, *one[1:])]
    checks = list(_scopes(tree(path))) if missing else []
    for line, module, name in missing:
        if not any(start <= line <= stop and module in known for start, stop, known in checks):
            yield line, module, name


def _lacks(platform: str, module: str, name: str) -> bool:
    return name in lacking(platform)[module] or (name == "*" and not module_names(module, platform))


def _names(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield node.value.id, node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from ((str(node.module), alias.name) for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from ((alias.name, "*") for alias in node.names)


def _scopes(module: ast.Module) -> Iterator[tuple[int, int, set[str]]]:
    """Yield functions and conditions that ask about a module before they use it."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            tests = [
                one.test
                for one in ast.walk(node)
                if isinstance(one, ast.If | ast.IfExp | ast.Assert)
            ]
        elif isinstance(node, ast.If | ast.IfExp):
            tests = [node.test]
        else:
            continue
        known = {name for test in tests for name in _asked(test)}
        if known:
            yield node.lineno, node.end_lineno or 0, known


def _asked(test: ast.expr) -> Iterator[str]:
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hasattr":
            yield ast.unparse(node.args[0])
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in {
            "ON_WINDOWS",
            "sys.platform",
        }:
            yield from lacking("win32")


@pytest.mark.parametrize("platform", SYSTEMS)
def test_what_a_system_lacks_is_asked_for_before_it_is_used(platform):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {module}.{name} does not exist on {SYSTEMS[platform]}"
        for path in files()
        if str(path.relative_to(ROOT)) not in CHECKED_ELSEWHERE
        for line, module, name in uses(path, platform)
    ]

    assert found == []


def test_each_exception_is_needed():
    needed = {str(path.relative_to(ROOT)) for path in files() if any(uses(path, "win32"))}

    assert set(CHECKED_ELSEWHERE) == needed


def test_a_use_without_a_question_is_found(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("import os\nimport fcntl\n\n\ndef run():\n    return os.fork()\n")
    good = tmp_path / "good.py"
    good.write_text(
        "import os\n\n\ndef run():\n    return os.fork() if hasattr(os, 'fork') else 0\n"
    )

    assert [(line, f"{module}.{name}") for line, module, name in uses(bad, "win32")] == [
        (2, "fcntl.*"),
        (6, "os.fork"),
    ]
    assert [*uses(bad, "darwin")] == []
    assert [*uses(good, "win32")] == []


PROGRAM = "tests.support.other_systems"
LIBRARY_NEEDS = {"AF_UNIX", "SIGKILL"}  # asyncio and subprocess on this system


@pytest.mark.parametrize("platform", ["win32", pytest.param("darwin", marks=pytest.mark.slow)])
def test_the_package_runs_without_what_a_system_lacks(platform, tmp_path):
    missing: dict[str, list[str]] = {}
    for path in files():
        for _, module, name in names(path):
            if _lacks(platform, module, name) and name not in LIBRARY_NEEDS:
                missing.setdefault(module, []).append(name)

    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, platform, str(tmp_path), json.dumps(missing)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )

    assert done.stdout == "done\n", done.stderr
