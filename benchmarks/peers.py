"""Other storage formats, each in a virtual environment of its own, made when it is first needed.

Nothing of a peer is ever installed beside tensorlake. A peer that does not install, or fails, is a
line that says so, and no figure. ``peer_tasks.py`` is what its Python runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data import REPOSITORY, TOKENS_PER_ROW, Workspace, tokens
from benchmarks.harness import Contender, Measurement

__all__ = [
    "PEERS",
    "Peer",
    "install_peer",
    "peer_called",
    "peer_contenders",
    "prepare_peers",
    "run_task",
    "tokens_file",
]

ENVIRONMENTS = REPOSITORY / ".benchmarks" / "peers"
INSTALL_TIMEOUT_S = 600
TASK_TIMEOUT_S = 300
REPEATS = {"open": 20, "append": 20}
SHOWN_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: what people call it, and what pip installs."""

    key: str
    name: str
    requirements: tuple[str, ...]
    tasks: tuple[str, ...]
    bare: tuple[str, ...] = ()
    """Installed without what they require: only the part that is measured."""

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.key / "bin" / "python"

    @property
    def failure(self) -> Path:
        """Says why it did not install; removed by hand to try again."""
        return ENVIRONMENTS / f"{self.key}.txt"


PEERS = (
    Peer(
        "deeplake",
        "Deep Lake",
        ("deeplake", "numpy"),
        ("ingest", "open", "append", "rows", "query-label", "query-range", "query-nearest"),
    ),
    Peer(
        "lance",
        "Lance",
        ("pylance", "numpy"),
        ("ingest", "open", "append", "rows", "query-label", "query-range", "query-nearest"),
    ),
    Peer("duckdb", "DuckDB", ("duckdb", "numpy"), ("query-label", "query-range", "query-nearest")),
    Peer("zarr", "Zarr", ("zarr",), ("ingest", "open", "rows")),
    Peer(
        "mds",
        "MDS",
        (
            "numpy",
            "brotli",
            "zstd",
            "python-snappy",
            "tqdm",
            "requests",
            "pyyaml",
            "torch",
            "torchvision",
            "transformers",
            "xxhash",
            "pillow",
        ),
        ("ingest", "open", "rows"),
        bare=("mosaicml-streaming", "catalogue"),
    ),
)


def prepare_peers(workspace: Workspace) -> None:
    """Install the peers that are not installed, and write a dataset of each."""
    file = tokens_file(workspace)
    for peer in PEERS:
        if "ingest" not in peer.tasks:
            continue
        install_peer(peer)
        folder = _lake(workspace, peer)
        if not peer.failure.exists() and not folder.exists():
            measured = _run(peer, "ingest", folder, file)
            if measured.note:
                peer.failure.write_text(measured.note, encoding="utf-8")


def peer_contenders(task: str) -> tuple[Contender, ...]:
    """Make a contender of each peer that has a task."""
    return tuple(
        Contender(peer.name, lambda workspace, one=peer: _measure(workspace, one, task))
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


def _measure(workspace: Workspace, peer: Peer, task: str) -> Measurement:
    if peer.failure.exists():
        return Measurement(0, 0, note=peer.failure.read_text(encoding="utf-8").strip())
    folder = _lake(workspace, peer)
    if task == "ingest":
        folder = workspace.scratch(f"tokens.{peer.key}")
    measured = _run(peer, task, folder, tokens_file(workspace))
    amount = 1.0
    if task == "ingest":
        amount = workspace.num_token_rows * TOKENS_PER_ROW * 2 / 1e6
    return Measurement(measured.seconds, amount, note=measured.note)


def _run(peer: Peer, task: str, folder: Path, file: Path) -> Measurement:
    repeats = str(REPEATS.get(task, 1))
    return run_task(peer, "peer_tasks.py", task, str(folder), str(file), repeats)


def run_task(peer: Peer, script: str, task: str, *arguments: str) -> Measurement:
    """Run a script of this folder in a peer's environment; its last line says how long it took."""
    path = Path(__file__).with_name(script)
    done = subprocess.run(
        [str(peer.python), str(path), peer.key, task, *arguments],
        capture_output=True,
        text=True,
        timeout=TASK_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        return Measurement(0, 0, note=f"fails: {_last_line(done.stderr)}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Measurement(told["seconds"], 1.0, told.get("cpu_seconds", 0.0))


def peer_called(key: str) -> Peer:
    """Return the peer of a key."""
    return next(peer for peer in PEERS if peer.key == key)


def install_peer(peer: Peer) -> None:
    """Make a peer's environment, unless it is there or did not install."""
    if peer.python.exists() or peer.failure.exists():
        return
    print(f"installing {peer.name}", file=sys.stderr)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    venv.create(ENVIRONMENTS / peer.key, with_pip=True)
    pip = [str(peer.python), "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    commands = [[*pip, *peer.requirements]]
    if peer.bare:
        commands.append([*pip, "--no-deps", *peer.bare])
    for command in commands:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
        if done.returncode:
            note = f"does not install: {_last_line(done.stderr)}"
            peer.failure.write_text(note, encoding="utf-8")
            return


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:SHOWN_LETTERS] if lines else "no message"
