"""Compile the TQL grammar: hatch's build hook, and `python query/build_grammar.py` in a checkout.

The hook also puts the files of `tensorlake.datasets`, in a checkout examples/data, into a wheel.

A wheel gets the compiled grammar beside `tql.lark`; so does the source tree, where git ignores it.
Without it every process builds its parser again, which takes half a second. `grammar.py` documents
when the file is used.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SYNTAX = Path(__file__).parent / "tensorlake_query" / "syntax"


class GrammarHook(BuildHookInterface[Any]):
    """Writes the compiled grammar before the files of a wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel include what git ignores, and the files of datasets."""
        if version != "editable":
            build_data["force_include"]["examples/data"] = "tensorlake/datasets/data"
        path = compile_grammar()
        build_data["artifacts"].append(f"/{path.relative_to(self.root).as_posix()}")


def compile_grammar() -> Path:
    """Write the compiled grammar beside its text; remove those of other versions."""
    path: Path = _grammar_module(SYNTAX / "grammar.py").save_compiled(SYNTAX)
    for other in set(SYNTAX.glob("tql.lark-*")) - {path}:
        other.unlink(missing_ok=True)
    return path


def _grammar_module(path: Path) -> ModuleType:
    """Load a file of the package by its path: the build has not installed its dependencies."""
    spec = importlib.util.spec_from_file_location("tql_grammar", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    compile_grammar()
