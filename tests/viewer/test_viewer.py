"""Headless Chromium against a real server: the tests of viewer/e2e, one by one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SPECS = Path(__file__).parents[2] / "viewer/e2e"
CLAIMS = [
    claim
    for spec in sorted(SPECS.glob("*.spec.ts"))
    for claim in re.findall(r'^test\("([^"]+)"', spec.read_text(), re.MULTILINE)
]


@pytest.mark.viewer
@pytest.mark.timeout(900)  # the first also builds the viewer and waits for the whole run
@pytest.mark.parametrize("claim", CLAIMS)
def test_in_a_browser(claim: str, browser_results: dict[str, list[str]]) -> None:
    assert browser_results[claim] == []
