"""Every snippet of the README and of docs/ runs, as a reader would run it.

A page is one session: its ```python and ```console blocks run from top to bottom in one namespace
and one fresh folder, in which lie the small real data of ``tests/support/page_data.py``.

In a console block a line ``$ tensorlake …`` runs through the command line program, and the first
words of each line printed under it in the page, up to ``…``, must appear in what it prints; lines
with other commands are for the reader. A block that begins with ``# not run: `` and a reason does
not run, nor does one that imports a package of an extra that is not installed. Fences have a
language and nothing else: the site shows other fences as text.
"""

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.commands import tensorlake
from tests.support.page_data import lay_out_data

ROOT = Path(__file__).resolve().parents[2]
SLOW = {  # pages of ten seconds and more
    "docs/how-to/come-from-another-library.md",
    "docs/how-to/correct-labels.md",
    "docs/start/platform.md",
    "docs/tutorial/slow-training.md",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|console)([^\n]*)\n(.*?)^```[ ]*$", flags=re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"#\s+not run: \S.{7,}")


@dataclass(frozen=True, slots=True)
class Snippet:
    """One fenced block of a page."""

    language: str
    options: str
    text: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    return [
        Snippet(
            language=found[1],
            options=found[2].strip(),
            text=found[3],
            line=text.count("\n", 0, found.start()) + 2,
        )
        for found in FENCE.finditer(text)
    ]


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_missing(text: str) -> bool:
    """Whether a block imports a package of an extra that this environment does not have."""
    names = re.findall(r"^(?:from|import) (\w+)", text, flags=re.MULTILINE)
    return any(find_spec(name) is None for name in names)


def run_console(snippet: Snippet, folder: Path) -> None:
    for session in re.split(r"^\$ ", snippet.text, flags=re.MULTILINE)[1:]:
        command, _, expected = session.partition("\n")
        words = shlex.split(command, comments=True)
        if words[0] != "tensorlake":
            continue
        if words[1] == "serve":
            check_that_it_serves(words, folder)
            continue
        status, printed = tensorlake(words[1:], folder=folder)
        assert status == 0, f"$ {command}\n{printed}"
        for line in expected.splitlines():
            wanted = line.split("…")[0].split()
            assert " ".join(wanted) in " ".join(printed.split()), f"$ {command}\n{printed}"


def check_that_it_serves(words: list[str], folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *words, "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline().startswith("Viewer at http://127.0.0.1:")
        finally:
            server.terminate()


RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if shown(page) in SLOW else [], id=shown(page))
    for page in PAGES
    if snippets(page)
]


@pytest.mark.parametrize("page", RUN)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    lay_out_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}

    for snippet in snippets(page):
        if NOT_RUN.match(snippet.text):
            continue
        if is_missing(snippet.text):
            continue
        if snippet.language == "console":
            run_console(snippet, tmp_path)
            continue
        source = "\n" * (snippet.line - 1) + snippet.text  # line numbers of the page itself
        exec(compile(source, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_fence_has_a_language_and_nothing_else(page):
    for snippet in snippets(page):
        assert not snippet.options, f"{shown(page)}:{snippet.line}"


@pytest.mark.parametrize("page", RUN)
def test_the_first_block_of_a_page_that_needs_the_package_imports_it(page):
    blocks = [one for one in snippets(page) if one.language == "python"]
    using = next((one for one in blocks if re.search(r"\btl\.", one.text)), None)

    before = [one.text for one in blocks if using is not None and one.line <= using.line]

    assert using is None or any("import tensorlake as tl\n" in text for text in before), (
        f"{shown(page)}:{using.line} uses tl and no block has imported it"
    )
