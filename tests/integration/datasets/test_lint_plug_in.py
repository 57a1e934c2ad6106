"""A package brings lint rules by entry points: the SDK and the command line apply them."""

from __future__ import annotations

import importlib
import sys

import pytest

import tensorlake as tl

RULES = """
import tensorlake as tl

def find(view):
    yield tl.Suspect("note", "is short", "LENGTH(note) < 3", "write more", "note")

short = tl.LintRule("short-notes", "notes of fewer than three letters", find)
other = "no rule"
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    def install(points: str) -> None:
        (tmp_path / "my_rules.py").write_text(RULES, "utf-8")
        info = tmp_path / "my_rules-1.0.dist-info"
        info.mkdir()
        metadata = "Metadata-Version: 2.1\nName: my-rules\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, "utf-8")
        (info / "entry_points.txt").write_text(f"[tensorlake.lint]\n{points}\n", "utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()

    yield install
    sys.modules.pop("my_rules", None)


@pytest.fixture(scope="module")
def ds():
    ds = tl.create("memory://lint-plug-in", {"note": "str"})
    ds.extend({"note": ["a letter", "no", "another"]})
    ds.commit("three")
    return ds


def test_a_rule_of_a_package_is_applied(install, ds):
    install("short-notes = my_rules:short")

    (finding,) = ds.lint()

    assert (finding.rule, finding.rows.tolist()) == ("short-notes", [1])
    assert ds.lint(["constant"]).ok


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("other = my_rules:other", "is not a LintRule but 'no rule'"),
        ("short-texts = my_rules:short", "is named 'short-notes'"),
        ("gone = my_rules_of_another:rule", "cannot be loaded: No module named"),
        ("gone = my_rules:gone", "cannot be loaded"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_named(install, ds, points, message):
    install(points)

    with pytest.raises(tl.UnsupportedFeatureError, match=message):
        ds.lint()


def test_two_rules_of_one_name_are_refused(install, ds):
    install("constant = my_rules:constant")
    with pytest.raises(tl.UnsupportedFeatureError, match="cannot be loaded"):
        ds.lint()

    module = importlib.import_module("my_rules")
    module.constant = tl.LintRule("constant", "as the built-in one", list)
    with pytest.raises(tl.InvalidInputError, match="two lint rules are named 'constant'"):
        ds.lint()
