"""Budgets of seconds: every room of the tree has one, and a run over one of them fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.room_times import (
    BUDGETS,
    COLLECTION,
    Budgets,
    Sum,
    busy_s,
    over_budget,
    read_budgets,
    room_of,
)

ROOT = Path(__file__).parents[3]
OUTSIDE = "extras"  # run by make test-extras, in environments of their own
UNIT = Sum("unit", ("unit", "unit/*"), ("unit/query",), 12.0)


@pytest.mark.parametrize(
    ("nodeid", "room"),
    [
        ("tests/unit/format/test_x.py::test_y[a/b]", "unit/format"),
        ("tests/unit/query/rules/test_x.py::test_y", "unit/query"),
        ("tests/unit/test_x.py::test_y", "unit"),
        ("tests/property/model/test_x.py::test_y", "property"),
        ("test_x.py::test_y", "tests"),
    ],
)
def test_a_room_is_the_folder_of_a_test(nodeid, room):
    assert room_of(nodeid) == room


@pytest.mark.parametrize("suite", ["default", "slow"])
def test_every_room_of_the_tree_has_a_budget_and_no_other(suite):
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    rooms = {room_of(f"{name}::test") for name in files} - {OUTSIDE}

    budgeted = set(read_budgets(BUDGETS, suite).rooms)

    assert budgeted <= rooms | {COLLECTION}
    if suite == "default":
        assert budgeted == rooms | {COLLECTION}


@pytest.mark.parametrize("suite", ["default", "slow"])
def test_every_pattern_of_a_sum_matches_a_room(suite):
    budgets = read_budgets(BUDGETS, suite)

    for one in budgets.sums:
        assert any(one.holds(room) for room in budgets.rooms), one.name


def test_a_room_or_a_sum_over_its_budget_is_named():
    budgets = Budgets({"unit/format": 10.0, "unit/query": 50.0, "unit": 10.0}, (UNIT,))

    lines = over_budget({"unit/format": 9.0, "unit/query": 51.0, "unit": 4.5, "new": 0.0}, budgets)

    assert lines == [
        "new: no budget; add a line to tests/budgets.toml",
        "unit/query: 51.0 s, 50 s allowed",
        "unit: 13.5 s, 12 s allowed",
    ]


def test_nothing_is_said_of_rooms_within_their_budgets():
    assert over_budget({"unit": 10.0}, Budgets({"unit": 10.0}, (UNIT,))) == []


def test_busy_time_counts_neither_idling_nor_waiting_for_disks():
    stat = "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"

    assert busy_s(stat) == (100 + 20 + 30 + 6 + 7) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("folder", "code", "line"),
    [
        ("golden", 0, "golden"),
        ("unheard_of", 1, "over budget: unheard_of: no budget; add a line to tests/budgets.toml"),
    ],
)
def test_a_run_over_its_budget_fails_and_prints_why(tmp_path, folder, code, line):
    file = tmp_path / "tests" / folder / "test_one.py"
    file.parent.mkdir(parents=True)
    file.write_text("def test_passes():\n    pass\n")
    file.with_name("conftest.py").touch()  # where there is one, pytest compares plugins
    options = [
        "-q",
        "-n",
        "0",
        "-p",
        "tests.tools.room_times",
        "--import-mode=importlib",
        "-m",
        "not soak",
    ]

    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "--rootdir",
            tmp_path,
            "-c",
            os.devnull,
            "tests",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=100,
    )

    assert run.returncode == code, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    assert any(one.startswith(line) for one in run.stdout.splitlines()), run.stdout
