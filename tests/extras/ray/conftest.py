"""A Ray cluster of two workers on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def cluster():
    """Two workers, which import this checkout, and compete with other programs on equal terms.

    Ray runs workers at niceness 15: where other programs use every core, a worker gets a thirtieth
    of one, and importing torch takes minutes.
    """
    ray = pytest.importorskip("ray")
    path = os.pathsep.join([str(ROOT), str(ROOT / "query"), str(ROOT / "server")])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100_000_000,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
        _system_config={"worker_niceness": 0},
    )
    yield
    ray.shutdown()
