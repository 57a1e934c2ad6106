"""Names of the standard library that a platform lacks, as typeshed's stubs have them.

Typeshed defines such names below ``if sys.platform != "win32":``. Its stubs come with pyright,
which reads them for the same purpose.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["MODULES", "lacking", "module_names"]

MODULES = (
    "fcntl",
    "grp",
    "mmap",
    "multiprocessing.reduction",
    "os",
    "posix",
    "pty",
    "pwd",
    "readline",
    "resource",
    "select",
    "signal",
    "socket",
    "syslog",
    "termios",
    "time",
    "tty",
)
"""Modules with names that some platform lacks; the rest of the library hides its differences."""


@cache
def lacking(platform: str) -> dict[str, frozenset[str]]:
    """Return the names that Linux has and a platform has not, by module."""
    return {
        module: module_names(module, "linux") - module_names(module, platform) for module in MODULES
    }


@cache
def module_names(module: str, platform: str) -> frozenset[str]:
    """Return the names that a module of the standard library defines on a platform."""
    return frozenset(_defined(_stub(module).body, platform))


def _stub(module: str) -> ast.Module:
    spec = find_spec("pyright")
    assert spec is not None
    assert spec.origin is not None
    stubs = Path(spec.origin).parent / "dist" / "dist" / "typeshed-fallback" / "stdlib"
    path = stubs.joinpath(*module.split("."))
    file = path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
    return ast.parse(file.read_text(encoding="utf-8"))


def _defined(body: list[ast.stmt], platform: str) -> set[str]:
    names: set[str] = set()
    for one in body:
        if isinstance(one, ast.If):
            names |= _defined(one.body if _holds(one.test, platform) else one.orelse, platform)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(one.name)
        elif isinstance(one, ast.Assign):
            names |= {target.id for target in one.targets if isinstance(target, ast.Name)}
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            names.add(one.target.id)
        elif isinstance(one, ast.ImportFrom):
            names |= _imported(one, platform)
    return names - {"__all__"}


def _imported(one: ast.ImportFrom, platform: str) -> set[str]:
    """Return the names of ``from module import …``; a star brings those of a private module."""
    if [alias.name for alias in one.names] == ["*"]:
        return set(module_names(str(one.module), platform))
    return {alias.asname for alias in one.names if alias.asname == alias.name}


def _holds(test: ast.expr, platform: str) -> bool:
    expression = compile(ast.Expression(test), "<stub>", "eval")
    facts = {"platform": platform, "version_info": sys.version_info}
    return bool(eval(expression, {"sys": type("sys", (), facts)}))
