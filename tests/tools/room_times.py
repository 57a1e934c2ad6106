"""Seconds of the suite by room, held to tests/budgets.toml: the plugin of `make test-times`.

A room is a folder of tests: ``unit/<layer>``, ``property``, ``integration`` …, and ``collection``,
which is every worker's imports and search for tests. Seconds are those of one worker; on two cores
the run takes about half of their sum. Two clocks are kept for each test with its fixtures:

- the wall clock, which counts waiting and is right on an idle machine;
- processor time of the worker and of the processes that it waited for, which other work on the
  machine hardly changes, but which misses waiting.

The machine's own count of busy processors decides which of them is judged: the wall clock, or
processor time where other work took more than a tenth of the processors meanwhile (and where the
system does not say).
"""

from __future__ import annotations

import os
import time
import tomllib
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.tools.processor_time import processor_s

BUDGETS = Path(__file__).parents[1] / "budgets.toml"
COLLECTION = "collection"
IDLE = 0.1
"""Share of the processors that other work may take before the wall clock is distrusted."""
PROCESSOR, COLLECTED = "processor_s", "collected_s"
STAT = Path("/proc/stat")


@dataclass(slots=True)
class Spent:
    """What the tests of a room took, by both clocks."""

    tests: int = 0
    wall_s: float = 0.0
    processor_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sum:
    """A budget for several rooms together, by patterns of their names."""

    name: str
    rooms: tuple[str, ...]
    without: tuple[str, ...]
    seconds: float

    def holds(self, room: str) -> bool:
        """Whether the room counts."""
        return any(fnmatch(room, one) for one in self.rooms) and not any(
            fnmatch(room, one) for one in self.without
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """Seconds allowed to each room, and to several together."""

    rooms: dict[str, float]
    sums: tuple[Sum, ...]


def read_budgets(path: Path, suite: str) -> Budgets:
    """Read the budgets of one suite: ``default`` or ``slow``."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))[suite]
    sums = (
        Sum(one["name"], tuple(one["rooms"]), tuple(one.get("without", ())), one["seconds"])
        for one in table.get("sums", ())
    )
    return Budgets(dict(table["rooms"]), tuple(sums))


def room_of(nodeid: str) -> str:
    """Name the room of a test: the first folder under tests/, and the second under tests/unit."""
    folders = nodeid.split("::", 1)[0].split("/")[:-1]
    if folders[:1] == ["tests"]:
        folders = folders[1:]
    return "/".join(folders[: 2 if folders[:1] == ["unit"] else 1]) or "tests"


def over_budget(seconds: dict[str, float], budgets: Budgets) -> list[str]:
    """Return a line for each room or sum that takes longer than allowed, or has no budget."""
    lines = [
        f"{room}: no budget; add a line to tests/budgets.toml"
        if room not in budgets.rooms
        else f"{room}: {taken:.1f} s, {budgets.rooms[room]:g} s allowed"
        for room, taken in sorted(seconds.items())
        if taken > budgets.rooms.get(room, -1.0)
    ]
    for one in budgets.sums:
        taken = sum(each for room, each in seconds.items() if one.holds(room))
        if taken > one.seconds:
            lines.append(f"{one.name}: {taken:.1f} s, {one.seconds:g} s allowed")
    return lines


def busy_s(stat: str) -> float:
    """Seconds that all processors were busy since the start, from the text of /proc/stat."""
    user, nice, system, _idle, _waiting, *interrupts = map(int, stat.split("\n", 1)[0].split()[1:])
    return (user + nice + system + sum(interrupts[:2])) / os.sysconf("SC_CLK_TCK")


@dataclass(eq=False)  # pytest keeps plugins in sets
class RoomTimes:
    """Measure every test where it runs; add up, print and judge where the run was started."""

    config: pytest.Config
    spent: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    phase_start_s: float = 0.0
    first: bool = True

    def __post_init__(self) -> None:
        self.started_at = time.monotonic()
        self.busy_before_s = busy_s(STAT.read_text()) if STAT.exists() else None

    def pytest_runtest_logstart(self) -> None:
        """Begin a test."""
        self.phase_start_s = processor_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the processor time of set-up, call or tear-down into its report."""
        assert item is not None
        report = yield
        now = processor_s()
        report.user_properties.append((PROCESSOR, now - self.phase_start_s))
        if self.first:
            self.first = False
            report.user_properties.append((COLLECTED, self.phase_start_s))
        self.phase_start_s = processor_s()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what a worker, or this process, measured."""
        properties = dict(report.user_properties)
        room = self.spent[room_of(report.nodeid)]
        room.tests += report.when == "call"
        room.wall_s += report.duration
        room.processor_s += properties[PROCESSOR]
        if COLLECTED in properties:
            self.spent[COLLECTION].wall_s += properties[COLLECTED]
            self.spent[COLLECTION].processor_s += properties[COLLECTED]

    def other_work(self) -> float | None:
        """Share of the processors that other work took since the start."""
        if self.busy_before_s is None:
            return None
        own_s = sum(room.processor_s for room in self.spent.values())
        if hasattr(self.config.option, "numprocesses"):
            own_s += processor_s()
        elapsed_s = (time.monotonic() - self.started_at) * (os.cpu_count() or 1)
        return max(0.0, busy_s(STAT.read_text()) - self.busy_before_s - own_s) / elapsed_s

    def judged(self) -> tuple[dict[str, float], str]:
        """Return each room's seconds by the clock that is right here, and why this one."""
        others = self.other_work()
        if others is not None and others <= IDLE:
            return {name: room.wall_s for name, room in self.spent.items()}, (
                f"judged by the wall clock: other work took {others:.0%} of the processors"
            )
        why = "this system does not count it" if others is None else f"{others:.0%} of them"
        return {name: room.processor_s for name, room in self.spent.items()}, (
            f"judged by processor time, which misses waiting: other work on the processors: {why}"
        )

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that is over its budget."""
        if hasattr(self.config, "workerinput"):
            return
        self.seconds, self.clock = self.judged()
        self.suite = "slow" if self.config.option.markexpr == "slow" else "default"
        self.over = over_budget(self.seconds, read_budgets(BUDGETS, self.suite))
        if self.over and session.exitstatus in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the rooms, the sums and what is over its budget."""
        budgets = read_budgets(BUDGETS, self.suite)
        write = terminalreporter.write_line
        terminalreporter.section(f"seconds by room, {self.suite} suite")
        write(f"{'room':28}{'tests':>7}{'wall':>9}{'processor':>11}{'budget':>9}")
        for name, room in sorted(self.spent.items()):
            allowed = f"{budgets.rooms[name]:g}" if name in budgets.rooms else "none"
            write(f"{name:28}{room.tests:7}{room.wall_s:9.1f}{room.processor_s:11.1f}{allowed:>9}")
        for one in budgets.sums:
            held = [room for name, room in self.spent.items() if one.holds(name)]
            tests, wall_s, used_s = (
                sum(getattr(room, name) for room in held)
                for name in ("tests", "wall_s", "processor_s")
            )
            write(f"{one.name:28}{tests:7}{wall_s:9.1f}{used_s:11.1f}{one.seconds:9g}")
        write(self.clock)
        for line in self.over:
            write(f"over budget: {line}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RoomTimes(config), "room-times")
