"""What each long test costs the processor, printed under `make soak`.

A busy machine lengthens what a clock shows and hardly what the processor does, so the second is
what docs/explanation/soak.md records. Processes that a test started and waited for count; a
fixture that several tests share counts for the first of them.
"""

import resource
from collections.abc import Generator

import pytest

SHOWN_S = 1.0
"""Less is not listed by itself."""


def processor_s() -> float:
    """Processor time of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class ProcessorTimes:
    """Measures each test; at the end prints those that took long, and the sum of all."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure one test with its fixtures."""
        start = processor_s()
        try:
            return (yield)
        finally:
            self._spent[item.nodeid] = processor_s() - start

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the longest first."""
        terminalreporter.section("processor time")
        for nodeid, seconds in sorted(self._spent.items(), key=lambda one: -one[1]):
            if seconds >= SHOWN_S:
                terminalreporter.write_line(f"{seconds:9.1f} s  {nodeid}")
        total = sum(self._spent.values())
        terminalreporter.write_line(f"{total:9.1f} s  all {len(self._spent)} tests")
