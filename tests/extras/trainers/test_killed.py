"""Runs that are killed between two checkpoints of a trainer, and started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import killed

for name in ("torch", "lightning", "transformers", "accelerate"):
    pytest.importorskip(name)
pytestmark = pytest.mark.extras


@pytest.mark.parametrize("library", ["lightning", "trainer", "accelerate"])
def test_a_run_goes_on_where_it_was_killed(samples, tmp_path, library):
    ran = killed.killed_and_resumed(
        Path(__file__).with_name("killed_script.py"), samples.url, tmp_path, library
    )

    assert ran == killed.whole_run(samples)
