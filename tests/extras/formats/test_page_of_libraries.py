"""The sections of the page of other libraries that need a package of this group run here."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "come-from-another-library.md"
SECTIONS = {"Lance": "lance"}

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def blocks_of(section: str) -> list[str]:
    """Return the Python blocks of a section."""
    (_, text) = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")
    return re.findall(r"^```python\n(.*?)^```$", text.split("\n## ")[0], re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_runs_from_top_to_bottom(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(SECTIONS[section])
    monkeypatch.chdir(tmp_path)
    session: dict[str, Any] = {"tl": tl}

    for block in blocks_of(section):
        exec(compile(block, os.fspath(PAGE), "exec"), session)

    assert SECTIONS[section] in session  # the block that imports it has run
