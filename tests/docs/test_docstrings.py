"""The examples in docstrings are true: each module's run as doctests."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOMES = {"tensorlake": ROOT, "query/tensorlake_query": ROOT / "query"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
        for package, home in HOMES.items()
        for path in sorted((ROOT / package).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)

    outcome = doctest.testmod(module, optionflags=OPTIONS)

    assert outcome.attempted > 0
    assert outcome.failed == 0
