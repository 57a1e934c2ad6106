"""Queries of DuckDB, Lance and Deep Lake, each in an environment of its own.

``peers/scripts/query_tasks.py`` is what its Python runs, over the same values as ours, from
a file of NumPy's. The fastest of some repeats counts, as for ours: caches are warm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Contender, Measurement
from benchmarks.peers.storage import PEERS, Peer, run_task

__all__ = ["query_contenders"]


def query_contenders(
    task: str, values: Callable[[Workspace], np.ndarray], repeats: int
) -> tuple[Contender, ...]:
    """Make a contender of each peer that answers this kind of query."""

    def measure(workspace: Workspace, peer: Peer) -> Measurement:
        peer.environment.make()
        if peer.refused is not None:
            return peer.refused
        folder = workspace.scratch(f"{task}.{peer.key}")
        folder.mkdir(parents=True)
        np.save(folder / "values.npy", values(workspace))
        told = run_task(peer, "query_tasks.py", task, str(folder), str(repeats))
        return Measurement(told.seconds, 1.0, told.cpu_seconds, note=told.note)

    return tuple(
        Contender(peer.name, lambda workspace, one=peer: measure(workspace, one))
        for peer in PEERS
        if task in peer.tasks
    )
