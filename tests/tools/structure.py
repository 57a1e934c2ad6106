"""The structure of the packages in numbers: `make structure` prints it, test_structure.py holds it.

    entries   modules and folders that a folder shows; `__init__`, `__main__` and `py.typed` are not
    circles   files that import each other, type-only and in-function imports counted
    depth     classes of ours that a public class inherits from
    walks     files of ours that are entered by four everyday calls, in the caller's thread and on
              the storage loop where it works for the call

`python -m tests.tools.structure` prints them; a folder in `LISTS` holds many things of one kind.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tensorlake as tl
from tensorlake.storage import runtime

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "tensorlake": ROOT / "tensorlake",
    "tensorlake_query": ROOT / "query/tensorlake_query",
    "tensorlake_server": ROOT / "server/tensorlake_server",
}
MAX_ENTRIES = 15
LISTS = {
    "tensorlake": "rooms",
    "tensorlake/cli/commands": "commands",
    "tensorlake/types/base": "what types share",
    "tensorlake/types/vision": "sample types",
    "tests/unit/server/routes": "routes",
}
"""Folders that may show more: lists of one kind."""
MAX_WALKS = {"append": 12, "tiny commit": 39, "one cell": 12, "next batch": 12}
"""Most files that everyday calls enter; docs/decisions/0072 names those of a commit."""


def entries(folder: Path) -> list[str]:
    """Return the modules and folders that a folder shows."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.name not in ("__init__.py", "__main__.py"))
        or (path.is_dir() and any(path.glob("**/*.py")) and path.name != "__pycache__")
    )


def crowded() -> dict[str, int]:
    """Return the folders that show more entries than a reader takes in at once."""
    folders = [
        folder
        for root in (*PACKAGES.values(), ROOT / "tests/unit")
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir()))
        if folder.name != "__pycache__"
    ]
    counts = {folder.relative_to(ROOT).as_posix(): len(entries(folder)) for folder in folders}
    return {
        name: count for name, count in counts.items() if count > MAX_ENTRIES and name not in LISTS
    }


@cache
def modules() -> Mapping[str, Path]:
    """Return the packages' modules by dotted name."""
    found: dict[str, Path] = {}
    for name, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = [name, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(module: str) -> set[str]:
    """Return the modules of ours that a module names in any import statement."""
    known, found = modules(), set[str]()
    for node in ast.walk(ast.parse(known[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name in known and name != module}


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other (Tarjan 1972), each sorted."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            place = stack.index(node)
            group = sorted(stack[place:])
            del stack[place:]
            if len(group) > 1:
                found.append(group)

    for node in graph:
        if node not in order:
            visit(node)
    return found


def import_circles() -> list[list[str]]:
    """Return the groups of files that import each other."""
    return circles({module: sorted(imports(module)) for module in modules()})


def depth(kind: type) -> int:
    """Return how many classes of ours a class inherits from, one above the other."""
    return max(
        (1 + depth(base) for base in kind.__bases__ if base.__module__.startswith("tensorlake")),
        default=0,
    )


def files_entered(call: Callable[[], Any], *, on_loop: bool = False) -> list[str]:
    """Return the packages' files in which a function runs while a call is under way.

    Args:
        call: The call.
        on_loop: Also on the storage loop, for a call that hands work to it. A call that does enters
            `concurrency/runtime.py`; others would count what the loop does for earlier calls.
    """
    seen: set[str] = set()
    is_under_way = False

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and is_under_way:
            seen.add(frame.f_code.co_filename)

    async def profile_loop(hook: Callable[[FrameType, str, Any], None] | None) -> None:
        sys.setprofile(hook)

    if on_loop:
        runtime.run(profile_loop(note))
    sys.setprofile(note)
    is_under_way = True
    try:
        call()
    finally:
        is_under_way = False
        sys.setprofile(None)
        if on_loop:
            runtime.run(profile_loop(None))
    roots = {f"{folder}{os.sep}" for folder in PACKAGES.values()}
    return sorted(
        Path(name).relative_to(ROOT).as_posix()
        for name in seen
        if any(name.startswith(root) for root in roots)
    )


def walks(url: str) -> dict[str, list[str]]:
    """Return the files entered by an append, a commit of one row, one cell and the next batch."""
    ds = tl.create(url, {"x": "float32", "label": tl.ClassLabel(["a", "b"])})
    ds.extend({"x": np.arange(512, dtype=np.float32), "label": ["a", "b"] * 256})
    ds.commit("rows")
    found = {
        "append": files_entered(lambda: ds.append({"x": 1.0, "label": "a"})),
        "tiny commit": files_entered(lambda: ds.commit("a row"), on_loop=True),
    }
    ds = tl.open(url)
    ds["x"][3]
    found["one cell"] = files_entered(lambda: ds["x"][4])
    batches = iter(ds.loader(batch_size=32, shuffle=True))
    next(batches)
    found["next batch"] = files_entered(lambda: next(batches))
    return found


def report() -> Iterator[str]:
    """Yield the structure, line by line."""
    for name, folder in PACKAGES.items():
        rooms = (path.parent for path in folder.rglob("__init__.py"))
        for path in sorted(rooms):
            inside = [one.removesuffix(".py") for one in entries(path)]
            yield f"{len(inside):3}  {path.relative_to(ROOT)}  {' '.join(inside)}"
        yield f"     {name}: {sum(module.split('.')[0] == name for module in modules())} modules"
    yield f"\ncircles  {len(import_circles())}"
    for kind in (tl.Dataset, tl.View, tl.Tensor, tl.Row):
        yield f"depth    {depth(kind)}  {kind.__name__}"
    for name, files in walks("memory://structure").items():
        yield f"\n{name}: {len(files)} files"
        yield from (f"   {file}" for file in files)


if __name__ == "__main__":
    for line in report():
        sys.stdout.write(f"{line}\n")
