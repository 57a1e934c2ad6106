"""Orbax keeps a loader's state beside the model's: a run is killed and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import killed

pytest.importorskip("jax")
pytest.importorskip("orbax.checkpoint")
pytestmark = pytest.mark.extras


def test_job_5_goes_on_where_it_was_killed(samples, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")

    ran = killed.killed_and_resumed(
        Path(__file__).with_name("orbax_script.py"), samples.url, tmp_path
    )

    assert ran == killed.whole_run(samples)
