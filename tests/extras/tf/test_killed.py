"""A run by tf.data that is killed and started again, from a checkpoint of TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras import killed

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.extras


def test_a_run_goes_on_where_it_was_killed(samples, tmp_path):
    ran = killed.killed_and_resumed(
        Path(__file__).with_name("checkpoint_script.py"), samples.url, tmp_path
    )

    assert ran == killed.whole_run(samples)
