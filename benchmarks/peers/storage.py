"""Other storage formats, each in a virtual environment of its own, made when it is first needed.

Nothing of a peer is ever installed beside tensorlake. A peer that does not install, or fails, is a
line with the reason, and no figure. Its Python runs ``peers/scripts/storage_tasks.py``. Over a
network a peer reads what it wrote to a folder, through the server that adds to the time of each
request.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.data import SCRIPTS, TOKENS_PER_ROW, Workspace, tokens
from benchmarks.harness.runs import Contender, Measurement
from benchmarks.peers.environments import FOLDER, Environment
from benchmarks.peers.loader import LOADERS
from benchmarks.peers.processes import ask

__all__ = [
    "PEERS",
    "Peer",
    "peer_called",
    "peer_contenders",
    "prepare_peers",
    "run_task",
    "tokens_file",
]

WRITE_LIMIT_S = 300
RUN_LIMIT_S = 60
REPEATS = {"open": 20, "append": 20}
REMOTE_REPEATS = 5  # some take seconds
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: what people call it, where it is installed, and what it is asked to do."""

    key: str
    name: str
    environment: Environment
    tasks: tuple[str, ...]

    @property
    def failure(self) -> Path:
        """Says why it could not write; removed by hand to try again."""
        return FOLDER / f"{self.key}.failed.txt"

    @property
    def refused(self) -> Measurement | None:
        """The reason shown if it cannot have figures."""
        why = self.environment.refusal
        if not why and self.failure.exists():
            why = self.failure.read_text(encoding="utf-8").strip()
        return Measurement(0, 0, note=why) if why else None


PEERS = (
    Peer(
        "deeplake",
        "Deep Lake",
        Environment("deeplake", ("deeplake", "numpy")),
        ("ingest", "open", "append", "rows", "query-label", "query-range", "query-nearest"),
    ),
    Peer(
        "lance",
        "Lance",
        Environment("lance", ("pylance", "numpy")),
        ("ingest", "open", "append", "rows", "query-label", "query-range", "query-nearest"),
    ),
    Peer(
        "duckdb",
        "DuckDB",
        Environment("duckdb", ("duckdb", "numpy")),
        ("query-label", "query-range", "query-nearest"),
    ),
    Peer("zarr", "Zarr", Environment("zarr", ("zarr", "obstore")), ("ingest", "open", "rows")),
    Peer("mds", "MDS", LOADERS, ("ingest", "open", "rows")),
    Peer("litdata", "LitData", LOADERS, ("ingest", "open", "rows")),
    Peer("webdataset", "WebDataset", LOADERS, ("ingest",)),
)


def prepare_peers(workspace: Workspace) -> None:
    """Install the peers that are not installed, and write a dataset of each."""
    file = tokens_file(workspace)
    for peer in PEERS:
        if "ingest" not in peer.tasks:
            continue
        peer.environment.make()
        folder = _lake(workspace, peer)
        if peer.refused is None and not folder.exists():
            measured = run_task(
                peer,
                "storage_tasks.py",
                "ingest",
                str(folder),
                str(file),
                "1",
                limit_s=WRITE_LIMIT_S,
            )
            if measured.note:
                peer.failure.write_text(measured.note, encoding="utf-8")


def peer_contenders(task: str, *, latency_ms: float | None = None) -> tuple[Contender, ...]:
    """Make a contender of each peer that has a task.

    Args:
        task: See `peers/scripts/storage_tasks.py`.
        latency_ms: Added to each request; None is a folder.
    """
    return tuple(
        Contender(peer.name, partial(_measure, peer=peer, task=task, latency_ms=latency_ms))
        for peer in PEERS
        if task in peer.tasks
    )


def tokens_file(workspace: Workspace) -> Path:
    """Return the tokens as a file of NumPy's, made when it is first needed."""
    file = workspace.folder / "tokens.npy"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, tokens(workspace))
    return file


def _lake(workspace: Workspace, peer: Peer) -> Path:
    workspace.lake.mkdir(parents=True, exist_ok=True)
    return workspace.lake / f"tokens.{peer.key}"


def _measure(
    workspace: Workspace, *, peer: Peer, task: str, latency_ms: float | None
) -> Measurement:
    if peer.refused is not None:
        return peer.refused
    folder = _lake(workspace, peer)
    amount = 1.0
    if task == "ingest":
        folder = workspace.scratch(f"tokens.{peer.key}")
        amount = workspace.num_token_rows * TOKENS_PER_ROW * 2 / 1e6
    file = str(tokens_file(workspace))
    run = partial(run_task, peer, "storage_tasks.py", task)
    if latency_ms is None:
        return replace(run(str(folder), file, str(REPEATS.get(task, 1))), amount=amount)
    if task == "append":
        folder = workspace.scratch(f"tokens.{peer.key}")
        shutil.copytree(_lake(workspace, peer), folder)
    from tensorlake.testing import latency_server

    with latency_server(workspace.folder, latency_ms=latency_ms) as server:
        url = f"s3://{folder.relative_to(workspace.folder).as_posix()}"
        repeats = REMOTE_REPEATS if task in REPEATS else 1
        measured = run(url, file, str(repeats), server.endpoint)
        seen = server.counters()
    if measured.note:
        return measured
    times = repeats + 1 if task in REPEATS else 1  # the first, uncounted, too
    facts = {"requests": seen.requests / times, "MB": seen.bytes_sent / times / 1e6}
    return replace(measured, amount=amount, facts={**measured.facts, **facts})


def run_task(
    peer: Peer, script: str, task: str, *arguments: str, limit_s: float = RUN_LIMIT_S
) -> Measurement:
    """Run a script of `peers/scripts` by a peer's Python; its last line is the time it took."""
    command = [str(peer.environment.python), str(SCRIPTS / script), peer.key, task, *arguments]
    answer = ask(command, limit_s=limit_s, environment=KEYS)
    if answer.note:
        return Measurement(0, 0, note=answer.note)
    told = answer.figures
    facts = {"first time ms": told["first_s"] * 1000} if "first_s" in told else {}
    facts |= {"read_s": told["read_s"]} if "read_s" in told else {}
    return Measurement(told["seconds"], 1.0, told.get("cpu_seconds", 0.0), facts)


def peer_called(key: str) -> Peer:
    """Return the peer of a key."""
    return next(peer for peer in PEERS if peer.key == key)
