"""The loader beside its peers: the same bytes, the same batches, two workers each.

    limits       the bare loop: decode and resize in two threads, by the function that the loader
                 uses (torch antialiased, OpenCV without); a gather from a memory map; and what
                 one writes by hand: the memory map under torch's sampler of batches; over a
                 network the ranges that we ask for, by the client alone
    tensorlake   as users call it
    engines      threads and processes, for a transform that computes in Python
    peers        stock torch, WebDataset, MosaicML Streaming, LitData, Lance, Grain, all in one
                 environment beside ours (``peers/loader``)

From a folder the second epoch counts, and of a slow peer, at the same rate, what it gives in some
seconds ("epochs counted"); over a network, where every request takes longer, the first, cold: each
byte comes over the wire once. Requests and bytes are counted by the server, memory is
that of the whole process tree (PSS). A peer that does not install, fails, or takes longer than a
minute, has a line that notes it and is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.harness.data import LAKE, TOKENS_PER_ROW, Workspace, jpeg_paths, tokens
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    folder_nbytes,
    stopwatch,
    warm_up,
)
from benchmarks.limits.remote import bare_tokens
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
from benchmarks.peers.loader import (
    PEERS,
    STOCK,
    Network,
    peers_of,
    prepare_peers,
    torch_with_many_workers,
)
from benchmarks.peers.packages import OPENCV

__all__ = ["BENCHMARKS"]

THREADS = 2
TRANSFORMED_ROWS, TRANSFORMED_BATCH = 6_000, 100  # starting processes takes 0.2 s of a pass
OURS, PLAIN = "tensorlake", "tensorlake, antialias=False"
GATHER, BY_HAND = "gather alone", "memory map, batched sampler"
BARE_TOKENS = "the same chunks by obstore, gathered"
IN_THREADS, IN_PROCESSES = "tensorlake, threads", "tensorlake, processes"
TORCH_WORKERS = "torch, 2 worker processes"
BARE_LOOP, BARE_PLAIN = "decode and resize, 2 threads", "the same, antialias=False"
ORDERS = (
    *("shuffled", "weighted", "balanced", "stratified", "grouped"),
    *("a mix of four", "batches by tokens"),
)
CLASSES = 1000
Engine = Literal["threads", "processes"]
COUNTED = 3  # epochs of an order, of 0.2 s each
NO_OPENCV = Measurement(0, 0, note="OpenCV does not install")


# ---- the limits


def bare_loop(workspace: Workspace, *, antialias: bool) -> Measurement:
    """Decode and resize every image in two threads, straight into a batch; nothing else."""
    import numpy as np
    import simplejpeg
    import torch  # noqa: F401 # pyright: ignore[reportUnusedImport] - it resizes, once loaded

    from tensorlake.loader.decode import choose_resampler

    if not antialias and OPENCV.find("cv2"):
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

    if not antialias and OPENCV.find("cv2"):
        return NO_OPENCV
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        return two_epochs(image_loader(ds, antialias=antialias), count_images, len(ds))


def tokens_locally(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    with tl.open(str(token_dataset(workspace)), read_only=True) as ds:
        loader = ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=7)
        return two_epochs(loader, count_tokens, len(ds))


def in_python(row: dict[str, Any]) -> dict[str, Any]:
    """Transform a row as a Python loop does, in about a millisecond, holding the interpreter."""
    total = 0
    for token in row["tokens"].tolist() * 24:
        total = (total * 31 + token) & 0xFFFF_FFFF
    return {"tokens": row["tokens"], "sum": total}


def transformed(workspace: Workspace, *, engine: Engine) -> Measurement:
    import tensorlake as tl

    with tl.open(str(token_dataset(workspace)), read_only=True) as ds:
        loader = ds[:TRANSFORMED_ROWS].torch(
            batch_size=TRANSFORMED_BATCH,
            shuffle=True,
            seed=7,
            transform=in_python,
            engine=engine,
            workers=THREADS,
        )
        return two_epochs(loader, count_tokens, TRANSFORMED_ROWS)


class TransformedRows:
    """The first rows of the memory map, transformed one by one, for a ``DataLoader``."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        self.rows = np.load(path, mmap_mode="r")[:TRANSFORMED_ROWS]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        row = in_python({"tokens": self.rows[index]})
        return row | {"tokens": torch.from_numpy(row["tokens"].copy())}


def transformed_by_torch(workspace: Workspace) -> Measurement:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        TransformedRows(token_file(workspace)),  # pyright: ignore[reportArgumentType] - map-style
        batch_size=TRANSFORMED_BATCH,
        shuffle=True,
        num_workers=THREADS,
        multiprocessing_context="fork",
    )
    return two_epochs(loader, count_tokens, TRANSFORMED_ROWS)


def prepare_tokens(workspace: Workspace) -> None:
    token_file(workspace)
    token_dataset(workspace)


def ordered_dataset(workspace: Workspace) -> Path:
    """The rows of tokens, each with one of a thousand classes."""
    import tensorlake as tl

    target = workspace.lake / "tokens-of-classes.tl"
    if not target.exists():
        rows = tokens(workspace)
        schema = {"tokens": tl.Array("uint16", shape=rows.shape[1:]), "class": "int32"}
        with tl.create(str(target), schema) as ds:
            ds.extend({"tokens": rows, "class": np.arange(len(rows)) * 7919 % CLASSES})
            ds.commit("all")
    return target


def in_order(workspace: Workspace, *, order: str) -> Measurement:
    """Epochs of rows of tokens in one of the orders; all but the first count."""
    import tensorlake as tl

    with tl.open(str(ordered_dataset(workspace)), read_only=True) as ds:
        rows, quarter = len(ds), len(ds) // 4
        weights = np.random.default_rng(0).random(rows)
        arguments: dict[str, Any] = {}
        source, wanted = ds, rows
        match order:
            case "weighted":
                arguments = {"weights": weights}
            case "balanced":
                arguments = {"weights": {"class": "balanced"}}
            case "stratified" | "grouped":
                arguments = {"stratify" if order == "stratified" else "group": "class"}
            case "batches by tokens":
                size = TOKEN_BATCH * TOKENS_PER_ROW
                arguments = {"batch_by": "tokens", "batch_size": size}
            case "a mix of four":
                parts = {str(at): (ds[at * quarter : (at + 1) * quarter], 1) for at in range(4)}
                source = tl.mix(parts, stop="all")
                wanted = len(source)
            case _:
                pass
        arguments = {"batch_size": TOKEN_BATCH, "shuffle": True, "seed": 7} | arguments
        loader = source.torch(columns=["tokens"], **arguments)
        return two_epochs(loader, count_tokens, wanted, counted=COUNTED)


def over_network(workspace: Workspace, network: Network, *, what: str) -> Measurement:
    """Stream a first epoch of ours from a remote server.

    The server is a child of this process; it is in neither the processor time nor the memory.
    """
    import tensorlake as tl
    from benchmarks.peers.scripts.peak_memory import PeakMemory
    from tensorlake.testing import latency_server

    warm_up()
    name, count = (IMAGES, count_images) if what == "jpegs" else (TOKENS, count_tokens)
    memory = PeakMemory(has_workers=False)
    rows, first_s = 0, 0.0
    with latency_server(workspace.folder, latency_ms=network.latency_ms) as server:
        url, options = server.s3_url(f"{LAKE}/{name}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds:
            memory.start()
            spent, started = time.process_time(), time.perf_counter()
            if what == "jpegs":
                loader = image_loader(ds)
            else:
                loader = ds.torch(batch_size=TOKEN_BATCH, shuffle=True, seed=7)
            for batch in loader:
                first_s = first_s or time.perf_counter() - started
                rows += count(batch)
            seconds, spent = time.perf_counter() - started, time.process_time() - spent
            memory.ended.set()
        seen = server.counters()
    facts = {
        "first batch ms": first_s * 1000,
        "memory MB": memory.most / 1e6,
        "requests": float(seen.requests),
        "MB": seen.bytes_sent / 1e6,
        "bytes ÷ stored": seen.bytes_sent / folder_nbytes(workspace.lake / name),
    }
    return Measurement(seconds, rows, spent, facts)


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


# ---- the benchmarks


def goals_over(names: tuple[Contender, ...], at_least: float) -> tuple[Goal, ...]:
    return tuple(Goal(OURS, contender.name, at_least) for contender in names)


def remote_jpegs(
    latency_ms: float, *, of_local: float, of_peers: float, of_stock: float, of_many: float = 0.0
) -> Benchmark:
    """Make the benchmark of a cold epoch.

    Args:
        latency_ms: Added to each request.
        of_local: Our rate as a part of that from a folder.
        of_peers: How often each peer's rate.
        of_stock: How often that of stock torch with two workers.
        of_many: How often that of stock torch with 32, at a fifth of its memory; 0 leaves it out.
    """
    network = Network(latency_ms)
    stock, peers = _split(peers_of("jpegs", network))
    many = (torch_with_many_workers(network),) if of_many else ()
    local = "tensorlake, local folder"
    return Benchmark(
        name=f"loader-jpeg-{latency_ms:g}ms",
        question=f"a first, shuffled epoch of JPEGs; {latency_ms:g} ms added latency per request",
        unit="img/s",
        contenders=(
            Contender(local, first_epoch_locally),
            Contender(OURS, partial(over_network, network=network, what="jpegs")),
            *peers,
            stock,
            *many,
        ),
        goals=(
            Goal(OURS, local, of_local),
            *goals_over(peers, of_peers),
            Goal(OURS, STOCK, of_stock),
            *(Goal(OURS, one.name, of_many) for one in many),
            *(Goal(OURS, one.name, 5.0, per="memory MB") for one in many),
        ),
        limits=(
            Limit(OURS, "requests", at_most=45),
            Limit(OURS, "bytes ÷ stored", at_most=1.01),
            Limit(OURS, "memory MB", at_most=450),
        ),
        prepare=_prepare("jpegs"),
    )


def _split(peers: tuple[Contender, ...]) -> tuple[Contender, tuple[Contender, ...]]:
    """Take stock torch out of the peers: it has a goal of its own."""
    (stock,) = (peer for peer in peers if peer.name == STOCK)
    return stock, tuple(peer for peer in peers if peer.name != STOCK)


def first_epoch_locally(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    with tl.open(str(image_dataset(workspace)), read_only=True) as ds, stopwatch() as watch:
        rows = sum(count_images(batch) for batch in image_loader(ds))
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def _prepare_ours(workspace: Workspace) -> None:
    image_dataset(workspace)


def _prepare_jpegs(workspace: Workspace) -> None:
    OPENCV.install()
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
    remote_jpegs(20.0, of_local=0.85, of_peers=1.5, of_stock=16.0, of_many=5.0),
    remote_jpegs(50.0, of_local=0.80, of_peers=1.85, of_stock=35.0),
    Benchmark(
        name="loader-orders",
        question=f"an epoch of rows of 512 tokens from a folder, in {len(ORDERS)} orders",
        unit="rows/s",
        contenders=tuple(Contender(order, partial(in_order, order=order)) for order in ORDERS),
        goals=(Goal("weighted", "shuffled", at_least=0.9, per="CPU second"),),
        prepare=ordered_dataset,
    ),
    Benchmark(
        name="loader-tokens-20ms",
        question="a first, shuffled epoch of token rows; 20 ms added latency per request",
        unit="rows/s",
        contenders=(
            Contender(BARE_TOKENS, partial(bare_tokens, latency_ms=20.0)),
            Contender(OURS, partial(over_network, network=Network(20.0), what="tokens")),
            *_FAR_TOKENS,
        ),
        goals=(Goal(OURS, PEERS["litdata"], at_least=7.0),),
        prepare=_prepare("tokens"),
    ),
    Benchmark(
        name="loader-processes",
        question="a shuffled epoch with a transform that computes for a millisecond in Python",
        unit="rows/s",
        contenders=(
            Contender(IN_THREADS, partial(transformed, engine="threads")),
            Contender(IN_PROCESSES, partial(transformed, engine="processes")),
            Contender(TORCH_WORKERS, transformed_by_torch),
        ),
        goals=(
            Goal(IN_PROCESSES, IN_THREADS, at_least=1.6),
            Goal(IN_PROCESSES, TORCH_WORKERS, at_least=0.95),
        ),
        prepare=prepare_tokens,
    ),
    Benchmark(
        name="loader-resume",
        question="time from opening to the first batch, at the start and in the middle of an epoch",
        unit="ms",
        contenders=(
            Contender("from the start", partial(resumed_first_batch, is_resumed=False)),
            Contender("from a state", partial(resumed_first_batch, is_resumed=True)),
        ),
        goals=(Goal("from a state", "from the start", at_least=1 / 1.1),),
        prepare=_prepare_ours,
    ),
)
