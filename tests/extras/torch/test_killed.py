"""Runs that are killed and started again: torch's distributed checkpoints, torchdata."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import killed

pytest.importorskip("torch")
pytest.importorskip("torchdata")
pytestmark = pytest.mark.extras

HERE = Path(__file__).parent


def test_a_run_with_distributed_checkpoints_goes_on_with_other_ranks(samples, tmp_path):
    """Two ranks are killed; four go on, from what two have saved."""
    ran = killed.killed_and_resumed(
        HERE / "checkpoint_script.py",
        samples.url,
        tmp_path,
        launchers=(killed.torchrun(2), killed.torchrun(4)),
    )

    assert ran == killed.whole_run(samples)


@pytest.mark.parametrize("kind", ["0", "2", "nodes"])
def test_a_run_with_torchdata_goes_on(samples, tmp_path, kind):
    ran = killed.killed_and_resumed(HERE / "torchdata_script.py", samples.url, tmp_path, kind)

    assert ran == killed.whole_run(samples)
