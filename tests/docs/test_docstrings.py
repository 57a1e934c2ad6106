"""The examples in docstrings are true: each module's run as doctests."""

import ast
import doctest
import importlib
import inspect
import re
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from types import ModuleType

import pytest

import tensorlake as tl
from tensorlake.loader import decode

ROOT = Path(__file__).resolve().parents[2]
HOMES = {"tensorlake": ROOT, "query/tensorlake_query": ROOT / "query"}
REFERENCE = ROOT / "docs" / "reference" / "sdk.md"
# What calls return: their docstrings say what they hold, and the calls have the examples.
HANDED_OUT = (tl.Commit, tl.Diff, tl.Mix, tl.Predicate, tl.Row, tl.Tensor, tl.View,
              tl.Updated, tl.Upserted, tl.MergeConflict, tl.SkippedItem)  # fmt: skip
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
        for package, home in HOMES.items()
        for path in sorted((ROOT / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


def public_callables() -> dict[str, object]:
    """What a user calls: functions, types and steps, and the methods that the reference names."""
    named = set(re.findall(r"\.(\w+)\(", REFERENCE.read_text(encoding="utf-8")))
    steps = sorted(decode.spec.STEPS)
    return (
        {f"tl.{name}": getattr(tl, name) for name in tl.__all__}
        | {f"tl.ingest.{name}": getattr(tl.ingest, name) for name in tl.ingest.__all__}
        | {f"tl.decode.{name}": getattr(tl.decode, name) for name in (*steps, "imagenet")}
        | {"tl.collate.Pad": tl.collate.Pad}
        | {
            f"{owner.__name__}.{name}": method
            for owner in (tl.Dataset, tl.View, tl.Tensor)
            for name in sorted(named)
            if inspect.isfunction(method := getattr(owner, name, None))
        }
    )


def is_shown(given: object) -> bool:
    """Whether users make or call it themselves: others are handed to them, or raised."""
    if not inspect.isclass(given):
        return inspect.isfunction(given)
    is_handed_out = given in HANDED_OUT or given.__name__.endswith("Report")
    return not is_handed_out and not issubclass(given, Exception)


@pytest.mark.parametrize("name", [n for n, one in public_callables().items() if is_shown(one)])
def test_what_a_user_calls_has_an_example(name):
    assert ">>> " in (inspect.getdoc(public_callables()[name]) or ""), name


def needs_missing(text: str) -> bool:
    """Whether an example needs a package of an extra that this environment does not have."""
    names = re.findall(r">>> import (\w+)", text) + ["h5py"] * ("to_hdf5(" in text)
    return any(find_spec(name) is None for name in names)


def run_examples(module: ModuleType) -> doctest.TestResults:
    """Run the examples of a module's own docstrings, each once.

    A method that is bound to several classes shows in each of them, and makes the same datasets.
    """
    tree = ast.parse(inspect.getsource(module))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    own = {
        ast.get_docstring(node)  # without indentation, which Python 3.13 takes away itself
        for node in ast.walk(tree)
        if isinstance(node, documented)
    }
    found = {
        test.docstring: test
        for test in doctest.DocTestFinder().find(module)
        if test.examples and cleandoc(test.docstring) in own and not needs_missing(test.docstring)
    }
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for test in found.values():
        runner.run(test)
    return runner.summarize(verbose=False)


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)

    outcome = run_examples(module)

    assert outcome.attempted > 0 or needs_missing(inspect.getsource(module))
    assert outcome.failed == 0
