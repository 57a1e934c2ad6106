"""The loader beside its peers: the same bytes, the same batches, two workers each.

    limits       the bare loop: decode and resize in two threads, by the function that the loader
                 uses (torch antialiased, OpenCV without); a gather from a memory map; and what
                 one writes by hand: the memory map under torch's sampler of batches
    tensorlake   as users call it
    peers        stock torch, WebDataset, MosaicML Streaming, LitData, Lance, Grain, all in one
                 environment beside ours (``loader_tasks.py`` is what its Python runs)

From a folder the second epoch counts; over a network, where every request takes longer, the first,
cold: each byte comes over the wire once. Requests and bytes are counted by the server, memory is
that of the whole process tree (PSS). A peer that does not install, or fails, says so in its line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import LAKE, REPOSITORY, Workspace, jpeg_paths
from benchmarks.harness import Benchmark, Contender, Goal, Measurement, stopwatch, warm_up
from benchmarks.loading import (
    IMAGE_BATCH,
    IMAGES,
    SIDE,
    TOKEN_BATCH,
    TOKENS,
    count_images,
    count_tokens,
    image_dataset,
    image_loader,
    token_dataset,
    token_file,
    tokens_by_hand,
    tokens_by_sampler,
    two_epochs,
)
from benchmarks.opencv import find_opencv, install_opencv

__all__ = ["BENCHMARKS"]

ENVIRONMENT = REPOSITORY / ".benchmarks" / "peers" / "loaders"
REQUIREMENTS = (
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
)
BARE = ("mosaicml-streaming", "catalogue")  # without what they require: a second torch
UNWANTED = ("torchvision",)  # of another torch
TIMEOUT_S = 600
SHOWN_LETTERS = 80
THREADS = 2
PEERS = {
    "torch": "torch, 2 workers",
    "webdataset": "WebDataset",
    "mds": "MDS",
    "litdata": "LitData",
    "lance": "Lance",
    "grain": "Grain",
}
OURS, PLAIN = "tensorlake", "tensorlake, antialias=False"
GATHER, BY_HAND = "gather alone", "memory map, batched sampler"
BARE_LOOP, BARE_PLAIN = "decode and resize, 2 threads", "the same, antialias=False"
NO_OPENCV = Measurement(0, 0, note="OpenCV does not install")


@dataclass(frozen=True, slots=True)
class Network:
    """How far away the store is; None is a folder."""

    latency_ms: float


# ---- the limits


def bare_loop(workspace: Workspace, *, antialias: bool) -> Measurement:
    """Decode and resize every picture in two threads, straight into a batch; nothing else."""
    import numpy as np
    import simplejpeg
    import torch  # noqa: F401 - it is what resizes, once it is loaded

    from tensorlake.loader.decode import choose_resampler

    if not antialias and not find_opencv():
        return NO_OPENCV
    resampler = choose_resampler()
    resize = resampler.antialiased if antialias else resampler.plain
    samples = [path.read_bytes() for path in jpeg_paths(workspace)]
    batch = np.empty((IMAGE_BATCH, SIDE, SIDE, 3), np.uint8)

    def one(number: int) -> None:
        pixels = simplejpeg.decode_jpeg(samples[number], "RGB")
        batch[number % IMAGE_BATCH] = resize(pixels, (SIDE, SIDE))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(IMAGE_BATCH)))
        with stopwatch() as watch:
            list(pool.map(one, range(len(samples))))
    return Measurement(watch.seconds, len(samples), watch.cpu_seconds)


# ---- tensorlake


def jpegs_locally(workspace: Workspace, *, antialias: bool) -> Measurement:
    import tensorlake as tl

    if not antialias and not find_opencv():
        return NO_OPENCV
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        return two_epochs(image_loader(ds, antialias=antialias), count_images, len(ds))


def tokens_locally(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    with tl.open(str(token_dataset(workspace)), read_only=True) as ds:
        loader = ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=7)
        return two_epochs(loader, count_tokens, len(ds))


def over_network(workspace: Workspace, network: Network, *, what: str) -> Measurement:
    """Stream a first epoch of ours from a server that is far away."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    warm_up()
    name, count = (IMAGES, count_images) if what == "jpegs" else (TOKENS, count_tokens)
    with latency_server(workspace.folder, latency_ms=network.latency_ms) as server:
        url, options = server.s3_url(f"{LAKE}/{name}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds, stopwatch() as watch:
            if what == "jpegs":
                loader = image_loader(ds)
            else:
                loader = ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=7)
            rows = sum(count(batch) for batch in loader)
        seen = server.counters()
    facts = {"requests": float(seen.requests), "MB": seen.bytes_sent / 1e6}
    return Measurement(watch.seconds, rows, watch.cpu_seconds, facts)


def resumed_first_batch(workspace: Workspace, *, is_resumed: bool) -> Measurement:
    """Time the first batch of a pass in a new process, from its start or from a state."""
    import tensorlake as tl

    warm_up()
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        state = image_loader(ds).state_dict()
        rows = len(ds)
    state["position"] = rows // 2 if is_resumed else 0
    with (
        stopwatch() as watch,
        tl.open(str(image_dataset(workspace)), read_only=True) as ds,
    ):
        loader = image_loader(ds)
        loader.load_state_dict(state)
        iterator = iter(loader)
        count_images(next(iterator))
    iterator.close()
    return Measurement(watch.seconds, 1.0, watch.cpu_seconds)


# ---- peers


def peer(workspace: Workspace, key: str, task: str, network: Network | None) -> Measurement:
    """Run one task of one peer in its own environment."""
    place = _place(workspace, key, task)
    failed = _failure(place)
    if not loaders_python().exists() or failed.exists():
        note = failed.read_text(encoding="utf-8") if failed.exists() else "does not install"
        return Measurement(0, 0, note=note.strip())
    if network is None:
        return _run(key, task, workspace, str(place))
    from tensorlake.testing import latency_server

    with latency_server(workspace.folder, latency_ms=network.latency_ms) as server:
        remote = f"s3://{place.relative_to(workspace.folder).as_posix()}"
        measured = _run(key, task, workspace, remote, server.endpoint)
        seen = server.counters()
    facts = {**measured.facts, "requests": float(seen.requests), "MB": seen.bytes_sent / 1e6}
    return measured if measured.note else replace(measured, facts=facts)


def prepare_peers(workspace: Workspace, *, task: str) -> None:
    """Install the environment, and let each peer write its own format."""
    if task == "jpegs":
        image_dataset(workspace)
        jpeg_paths(workspace)
        source = workspace.folder / "jpegs"
    else:
        token_dataset(workspace)
        source = token_file(workspace)
    install_loaders()
    for key in PEERS:
        place = _place(workspace, key, task)
        if place.exists() or _failure(place).exists() or (key == "torch" and task == "tokens"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        measured = _run(key, f"write-{task}", workspace, str(place), source=source)
        if measured.note:
            _failure(place).write_text(measured.note, encoding="utf-8")


def _place(workspace: Workspace, key: str, task: str) -> Path:
    return workspace.folder / LAKE / f"loader-{task}.{key}"


def _failure(place: Path) -> Path:
    """Says why a peer could not write; removed by hand to try again."""
    return place.with_name(f"{place.name}.failed.txt")


def loaders_python() -> Path:
    """Return the Python that other loaders run in."""
    return ENVIRONMENT / "bin" / "python"


def install_loaders() -> None:
    """Make the environment of other loaders, unless it is there."""
    if loaders_python().exists():
        return
    print("installing other loaders", file=sys.stderr)
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(loaders_python()), "-m", "pip"]
    install = [*pip, "install", "--quiet", "--only-binary=:all:"]
    for command in (
        [*install, *REQUIREMENTS],
        [*install, "--no-deps", *BARE],
        [*pip, "uninstall", "--quiet", "--yes", *UNWANTED],
    ):
        subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)


def _run(
    key: str,
    task: str,
    workspace: Workspace,
    place: str,
    endpoint: str | None = None,
    *,
    source: Path | None = None,
) -> Measurement:
    # -P: beside the script lie modules of the names of others, requests above all
    script = Path(__file__).with_name("loader_tasks.py")
    command = [str(loaders_python()), "-P", str(script), key, task, place, str(source or "-")]
    rows = workspace.num_images if task.endswith("jpegs") else workspace.num_token_rows
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
    try:
        done = subprocess.run(
            [*command, *([endpoint] if endpoint else [])],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **keys, "ROWS": str(rows)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(0, 0, note=f"not done within {TIMEOUT_S} s")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode:
        return Measurement(0, 0, note=f"fails: {(lines or ['no message'])[-1][:SHOWN_LETTERS]}")
    if task.startswith("write"):
        return Measurement(0, 0)
    found = json.loads(done.stdout.splitlines()[-1])
    if found["rows"] < 0.99 * rows:  # some drop a last batch, or repeat rows to fill it
        return Measurement(0, 0, note=f"an epoch had {found['rows']} of {rows} rows")
    facts = {"first batch ms": found["first_batch_ms"], "memory MB": found["memory_mb"]}
    return Measurement(found["seconds"], found["rows"], found["cpu_seconds"], facts)


# ---- the benchmarks


def peers_of(task: str, network: Network | None, *, without: str = "") -> tuple[Contender, ...]:
    return tuple(
        Contender(name, partial(peer, key=key, task=task, network=network))
        for key, name in PEERS.items()
        if key != without
    )


def goals_over(names: tuple[Contender, ...], at_least: float) -> tuple[Goal, ...]:
    return tuple(Goal(OURS, contender.name, at_least) for contender in names)


def remote_jpegs(latency_ms: float, *, of_local: float, of_peers: float) -> Benchmark:
    network = Network(latency_ms)
    peers = peers_of("jpegs", network)
    local = "tensorlake, local folder"
    return Benchmark(
        name=f"loader-jpeg-{latency_ms:g}ms",
        question=f"a first, shuffled epoch of JPEGs; a request takes {latency_ms:g} ms longer",
        unit="img/s",
        contenders=(
            Contender(local, first_epoch_locally),
            Contender(OURS, partial(over_network, network=network, what="jpegs")),
            *peers,
        ),
        goals=(Goal(OURS, local, of_local), *goals_over(peers, of_peers)),
        prepare=_prepare("jpegs"),
    )


def first_epoch_locally(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds, stopwatch() as watch:
        rows = sum(count_images(batch) for batch in image_loader(ds))
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def _prepare_ours(workspace: Workspace) -> None:
    image_dataset(workspace)


def _prepare_jpegs(workspace: Workspace) -> None:
    install_opencv()
    prepare_peers(workspace, task="jpegs")


def _prepare(task: str) -> Callable[[Workspace], Any]:
    return partial(prepare_peers, task=task)


_LOCAL_JPEGS = peers_of("jpegs", None)
_LOCAL_TOKENS = peers_of("tokens", None, without="torch")
_FAR_TOKENS = tuple(
    contender
    for contender in peers_of("tokens", Network(20.0), without="torch")
    if contender.name != PEERS["grain"]  # it reads the memory map, which needs a folder
)

BENCHMARKS = (
    Benchmark(
        name="loader-jpeg",
        question=f"a shuffled epoch of JPEGs from a folder, resized to {SIDE}²",
        unit="img/s",
        contenders=(
            Contender(BARE_PLAIN, partial(bare_loop, antialias=False)),
            Contender(PLAIN, partial(jpegs_locally, antialias=False)),
            Contender(BARE_LOOP, partial(bare_loop, antialias=True)),
            Contender(OURS, partial(jpegs_locally, antialias=True)),
            *_LOCAL_JPEGS,
        ),
        goals=(
            Goal(PLAIN, BARE_PLAIN, at_least=0.94),  # or the next, where two threads share a core
            Goal(PLAIN, BARE_PLAIN, at_least=1 / 1.05, per="CPU second"),
            Goal(OURS, BARE_LOOP, at_least=1 / 1.05, per="CPU second"),
            *goals_over(_LOCAL_JPEGS, 1.0),
        ),
        prepare=_prepare_jpegs,
    ),
    Benchmark(
        name="loader-tokens",
        question="a shuffled epoch of rows of 512 uint16 tokens from a folder",
        unit="rows/s",
        contenders=(
            Contender(GATHER, tokens_by_hand),
            Contender(BY_HAND, tokens_by_sampler),
            Contender(OURS, tokens_locally),
            *_LOCAL_TOKENS,
        ),
        goals=(Goal(OURS, BY_HAND, at_least=1.2), *goals_over(_LOCAL_TOKENS, 1.0)),
        prepare=_prepare("tokens"),
    ),
    remote_jpegs(20.0, of_local=0.85, of_peers=1.5),
    remote_jpegs(50.0, of_local=0.80, of_peers=1.85),
    Benchmark(
        name="loader-tokens-20ms",
        question="a first, shuffled epoch of token rows; a request takes 20 ms longer",
        unit="rows/s",
        contenders=(
            Contender(OURS, partial(over_network, network=Network(20.0), what="tokens")),
            *_FAR_TOKENS,
        ),
        goals=(Goal(OURS, PEERS["litdata"], at_least=7.0),),
        prepare=_prepare("tokens"),
    ),
    Benchmark(
        name="loader-resume",
        question="from opening to a first batch, at the start and in the middle of an epoch",
        unit="ms",
        contenders=(
            Contender("from the start", partial(resumed_first_batch, is_resumed=False)),
            Contender("from a state", partial(resumed_first_batch, is_resumed=True)),
        ),
        goals=(Goal("from a state", "from the start", at_least=1 / 1.1),),
        prepare=_prepare_ours,
    ),
)
