"""`make test-extras`: each group has versions to install and tests to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
GROUPS = re.findall(r"^EXTRAS := (.+)$", MAKEFILE, re.MULTILINE)[0].split()


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_packages_versions_and_tests(group: str) -> None:
    assert re.search(rf"^EXTRAS_{group} := \S", MAKEFILE, re.MULTILINE)
    assert (ROOT / "constraints" / f"{group}.txt").is_file()
    assert [*(ROOT / "tests/extras" / group).glob("test_*.py")]


def test_each_room_of_extras_is_a_group() -> None:
    rooms = {path.parent.name for path in (ROOT / "tests/extras").glob("*/test_*.py")}

    assert rooms == {*GROUPS}
