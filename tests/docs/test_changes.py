"""Fragments of the changelog have names that towncrier takes, and one sentence for users each."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TYPES = ("feature", "fix", "perf", "doc", "removal")
NAME = re.compile(rf"(?:\d+|\+[a-z0-9-]+)\.(?:{'|'.join(TYPES)})(?:\.\d+)?\.md")
MOST_CHARACTERS = 400


def problem(name: str, text: str) -> str | None:
    """Return why a fragment cannot be in the changelog; None where it can."""
    if not NAME.fullmatch(name):
        return f"{name}: the name is <issue>.<type>.md, with a type of {', '.join(TYPES)}"
    words = text.strip()
    if not words.endswith((".", "!")) or words[:1] in {"-", "*", "#"} or "\n\n" in words:
        return f"{name}: write one sentence that ends with a dot, without a heading or bullet"
    if len(words) > MOST_CHARACTERS:
        return f"{name}: {len(words)} characters; an entry has at most {MOST_CHARACTERS}"
    return None


def draft(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    return subprocess.run(
        [*command, "--dir", str(folder)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def copy_of_settings(folder: Path) -> Path:
    for name in ("pyproject.toml", "CHANGELOG.md", "changes/README.md"):
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return folder / "changes"


def test_every_fragment_has_a_valid_name_and_one_sentence():
    fragments = [file for file in (ROOT / "changes").iterdir() if file.name != "README.md"]

    problems = [problem(file.name, file.read_text(encoding="utf-8")) for file in fragments]

    assert [one for one in problems if one] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("12.feature.md", "`ds.repair()` repairs a dataset."),
        ("12.fix.2.md", "A second fix."),
        ("+empty-batches.perf.md", "Empty batches\ncost nothing."),
    ],
)
def test_valid_fragments_pass(name, text):
    assert problem(name, text) is None


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("12.bugfix.md", "A fix.", "the name is"),
        ("fix.md", "A fix.", "the name is"),
        ("12.fix.txt", "A fix.", "the name is"),
        ("12.fix.md", "", "one sentence"),
        ("12.fix.md", "- A bullet.", "one sentence"),
        ("12.fix.md", "No dot", "one sentence"),
        ("12.fix.md", "One.\n\nTwo.", "one sentence"),
        ("12.fix.md", "x" * 400 + ".", "401 characters"),
    ],
)
def test_other_fragments_are_refused(name, text, told):
    assert told in (problem(name, text) or "")


def test_the_types_are_those_of_the_settings_and_of_the_page():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (ROOT / "changes" / "README.md").read_text(encoding="utf-8")

    assert tuple(settings["tool"]["towncrier"]["fragment"]) == TYPES
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(TYPES)


def test_towncrier_makes_a_section_of_them(tmp_path):
    changes = copy_of_settings(tmp_path)
    (changes / "12.feature.md").write_text("`tl.open` opens.\n")
    (changes / "+words.removal.md").write_text("A word goes.\n")

    done = draft(tmp_path)

    assert done.returncode == 0, done.stderr
    assert "### Features\n\n- `tl.open` opens. (#12)" in done.stdout
    assert "### Removals and deprecations\n\n- A word goes." in done.stdout
    assert "Fragments of the changelog" not in done.stdout  # changes/README.md


def test_towncrier_stops_at_a_file_of_another_name(tmp_path):
    (copy_of_settings(tmp_path) / "12.bugfix.md").write_text("A fix.\n")

    done = draft(tmp_path)

    assert done.returncode != 0
    assert "12.bugfix.md" in done.stdout + done.stderr


def test_new_sections_go_above_the_first_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert text.count("<!-- towncrier release notes start -->\n\n## ") == 1
    assert re.search(r"^## 0\.1\.0\b", text, re.MULTILINE)
