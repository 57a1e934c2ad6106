"""Other loaders: their environment, their own formats of the same bytes, and one run of one.

All are in one environment beside ours; ``peers/scripts/loader_tasks.py`` is what its Python runs. A
peer that does not install, fails, or exceeds the time of a run, has a line that notes it. Over a
network each reads cold: its scratch folder is new, and the server counts what comes over the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.harness.data import LAKE, SCRIPTS, Workspace, jpeg_paths
from benchmarks.harness.runs import Contender, Measurement
from benchmarks.loading import image_dataset, token_dataset, token_file
from benchmarks.peers.environments import Environment
from benchmarks.peers.processes import ask

__all__ = [
    "LOADERS",
    "MANY_WORKERS",
    "PEERS",
    "RUN_LIMIT_S",
    "STOCK",
    "Network",
    "peers_of",
    "prepare_peers",
    "torch_with_many_workers",
]

LOADERS = Environment(
    "loaders",
    (
        "torch==2.13.0",
        "numpy",
        "simplejpeg",
        "psutil",
        "boto3",
        "webdataset",
        "litdata",
        "grain",
        "pylance",
        *("brotli", "zstd", "python-snappy", "tqdm", "requests", "pyyaml", "transformers<5"),
        "xxhash<4",  # as mosaicml-streaming wants it
    ),
    bare=("mosaicml-streaming", "catalogue"),  # what they require is a second torch
    unwanted=("torchvision",),  # of another torch
)
WRITE_LIMIT_S = 300
RUN_LIMIT_S = 60
"""One run of a peer: the slowest that ends takes some 30 s on two idle processors."""
EPOCH_SHARE = 0.99
"""The share of its rows that an epoch over a network must have; from a folder slow ones are cut
short."""

STOCK, MANY_WORKERS = "torch, 2 workers", "torch, 32 workers"
WORKERS = {MANY_WORKERS: 32}
"""For the contenders that do not have two."""

PEERS = {
    "torch": STOCK,
    "webdataset": "WebDataset",
    "mds": "MDS",
    "litdata": "LitData",
    "lance": "Lance",
    "grain": "Grain",
}


@dataclass(frozen=True, slots=True)
class Network:
    """The latency of the store."""

    latency_ms: float


def peers_of(task: str, network: Network | None, *, without: str = "") -> tuple[Contender, ...]:
    """Make a contender of each peer.

    Args:
        task: "jpegs" or "tokens".
        network: None for a folder.
        without: The key of a peer that cannot do it.
    """
    return tuple(
        Contender(name, partial(_measure, key=key, task=task, network=network))
        for key, name in PEERS.items()
        if key != without
    )


def torch_with_many_workers(network: Network) -> Contender:
    """Make the contender that hides latency behind processes."""
    run = partial(_measure, key="torch", task="jpegs", network=network, name=MANY_WORKERS)
    return Contender(MANY_WORKERS, run)


def prepare_peers(workspace: Workspace, *, task: str) -> None:
    """Install the environment, and let each peer write its own format."""
    if task == "jpegs":
        image_dataset(workspace)
        jpeg_paths(workspace)
        source = workspace.folder / "jpegs"
    else:
        token_dataset(workspace)
        source = token_file(workspace)
    LOADERS.make()
    if LOADERS.refusal:
        return
    for key in PEERS:
        place = _place(workspace, key, task)
        if place.exists() or _failure(place).exists() or (key == "torch" and task == "tokens"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        command = _command(key, f"write-{task}", str(place), str(source))
        answer = ask(command, limit_s=WRITE_LIMIT_S)
        if answer.note:
            _failure(place).write_text(answer.note, encoding="utf-8")


def _measure(
    workspace: Workspace, *, key: str, task: str, network: Network | None, name: str = ""
) -> Measurement:
    place = _place(workspace, key, task)
    failed = _failure(place)
    if note := LOADERS.refusal or (failed.exists() and failed.read_text(encoding="utf-8")):
        return Measurement(0, 0, note=note.strip())
    if network is None:
        return _run(key, task, workspace, str(place))
    from tensorlake.testing import latency_server

    with latency_server(workspace.folder, latency_ms=network.latency_ms) as server:
        remote = f"s3://{place.relative_to(workspace.folder).as_posix()}"
        measured = _run(key, task, workspace, remote, server.endpoint, workers=WORKERS.get(name, 2))
        seen = server.counters()
    facts = {**measured.facts, "requests": float(seen.requests), "MB": seen.bytes_sent / 1e6}
    return measured if measured.note else replace(measured, facts=facts)


def _run(
    key: str,
    task: str,
    workspace: Workspace,
    place: str,
    endpoint: str | None = None,
    *,
    workers: int = 2,
) -> Measurement:
    command = _command(key, task, place, "-", *([endpoint] if endpoint else []))
    rows = workspace.num_images if task == "jpegs" else workspace.num_token_rows
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
    counts = {"ROWS": str(rows), "WORKERS": str(workers)}
    answer = ask(command, limit_s=RUN_LIMIT_S, environment={**keys, **counts})
    if answer.note:
        return Measurement(0, 0, note=answer.note)
    found = answer.figures
    share = found["rows"] / rows  # some drop a last batch, or repeat rows to fill it
    facts = {"first batch ms": found["first_batch_ms"], "memory MB": found["memory_mb"]}
    if endpoint is None:
        facts = {"epochs counted": share, "memory MB": found["memory_mb"]}
    elif share < EPOCH_SHARE:
        return Measurement(0, 0, note=f"failed: an epoch had {found['rows']} of {rows} rows")
    return Measurement(found["seconds"], found["rows"], found["cpu_seconds"], facts)


def _command(key: str, task: str, place: str, source: str, *rest: str) -> list[str]:
    return [
        str(LOADERS.python),
        str(SCRIPTS / "loader_tasks.py"),
        key,
        task,
        place,
        source,
        *rest,
    ]


def _place(workspace: Workspace, key: str, task: str) -> Path:
    return workspace.folder / LAKE / f"loader-{task}.{key}"


def _failure(place: Path) -> Path:
    """Says why a peer could not write; removed by hand to try again."""
    return place.with_name(f"{place.name}.failed.txt")
