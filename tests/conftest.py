"""Settings that every test shares.

Hypothesis runs without deadlines (a shared machine may pause at any moment) and derives its
examples from the test itself, so that a failure on one machine is a failure on all. Those of
`make soak` are new ones at every run, and many; what is printed of a failure finds it again. There
the processor time of each test is printed too.

Libraries compute in one thread each: the run has a process for each core already, and threads of
one product that wait for each other spin on the cores that those need.

A test's folder is numbered by a count: pytest looks for the next free number among all folders of
the run, which takes longer from test to test.

Every test may take as long as pyproject.toml says, a soak test longer, and Ctrl-C interrupts, also
where the run was started in the background of a shell, which turns that off for all it starts.
"""

import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.tools.processor_time import ProcessorTimes

ROOT = Path(__file__).resolve().parents[1]
SOAK_S = 3600
NAME_CHARACTERS = 30
"""Of a test's name in its folder's: paths of sockets are short."""
folders = itertools.count()

settings.register_profile(
    "tensorlake",
    max_examples=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", settings.get_profile("tensorlake"), derandomize=False, max_examples=1000
)
settings.load_profile("tensorlake")


def pytest_configure(config: pytest.Config) -> None:
    # children run this checkout too, whatever else is installed, and compile it once
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server")))
    # before NumPy or torch is imported; what is set by hand wins
    for library in ("OMP", "OPENBLAS"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("hypothesis_profile") == "soak":
        config.pluginmanager.register(ProcessorTimes())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Find the tests: hundreds of thousands of objects, that no collection need look at again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # a browser's one long run comes first: what is left for the end is short, and fills both halves
    items.sort(key=lambda item: item.get_closest_marker("viewer") is None)
    if config.getoption("timeout") is not None:
        return  # said by hand, and a mark would win over it
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK_S))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name files by their argument: the bytes of an encoder may differ from worker to worker."""
    return argname if isinstance(val, bytes) and len(val) > NAME_CHARACTERS else None


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new, empty folder of this test."""
    name = re.sub(r"\W", "_", request.node.name)[:NAME_CHARACTERS]
    path = tmp_path_factory.getbasetemp() / "tests" / f"{name}{next(folders)}"
    path.mkdir(mode=0o700, parents=True)
    return path
