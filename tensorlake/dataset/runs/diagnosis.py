"""Diagnose a run: its loader while it records, or the loader of its last pass made again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.dataset.runs.replay import Replay
    from tensorlake.dataset.runs.tables import Table
    from tensorlake.dataset.runs.timeline import Stretch
    from tensorlake.loader import Diagnosis

__all__ = ["Step", "diagnose_again"]

Step = Callable[[Any], Any]


def diagnose_again(
    replay: Replay,
    stretches: Sequence[Stretch],
    steps: Table,
    *,
    step: Step | None,
    budget_s: float | str,
    given: Mapping[str, Any],
) -> Diagnosis:
    """Diagnose the loader of a recorded run's last pass, with the recorded time between batches.

    Raises:
        InvalidInputError: No pass was recorded, or the record lacks an argument.
    """
    if not stretches:
        raise InvalidInputError(
            f"diagnose() of run {replay.name!r}, which recorded no pass of a loader\nread batches"
            " by run.torch(…), run.jax(…) or run.loader(…)"
        )
    segment = stretches[-1].segment
    with replay.loader(segment, segment.rank, given) as loader:
        return loader.diagnose(_waits(steps, segment.rank) if step is None else step, budget_s)


def _waits(steps: Table, rank: int) -> Step | None:
    """Return a step that takes as long as those of a rank did; None if they are not known."""
    own = np.asarray(steps.column("rank")) == rank
    taken = np.asarray(steps.column("compute_s"))[own]
    taken = taken[taken > 0]  # of the newest batch it is not known yet
    if not len(taken):
        return None
    seconds = float(np.median(taken))
    return lambda _batch: time.sleep(seconds)
