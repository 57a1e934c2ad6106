"""Irregular access: inference, recording, graphs and embedding tables, beside the naive way.

infer      a network of three layers on the digits of MNIST, trained before the clock starts:
           float32 and 8-bit integers, with the share of rows that are right
record     steps of CartPole, eight environments at once, plain and recorded: as fast as they are,
           beside resets by a seed for each episode, which a replay needs; with a policy that
           leaves 6,000 steps a second, the most that the goal is for; and with one of a millisecond
graph      features fetched by an epoch of sampled neighborhoods of a graph of skewed degrees,
           with room for a tenth of them: the planned cache, LRU, and the nodes of most edges
parts      nodes of sampled neighborhoods of Cora that are on another of four ranks, where nodes are
           on ranks by METIS, and by chance
table      rows of an embedding table fetched by a log of clicks with Zipf (1.05) ids; steps a
           second of a model of clicks where a request takes 20 ms, with the area under its curve;
           an epoch over a log of 10⁶ clicks; bytes that a commit of 1 % of the rows writes
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import REPOSITORY, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, stopwatch

__all__ = ["BENCHMARKS"]

SEED = 7
FLOAT, INT8 = "float32", "int8"
PLAIN, RECORDED = "not recorded", "recorded"
SEEDED = "not recorded, a seed for each episode"
FAST_PLAIN, FAST_RECORDED = "6,000 steps/s", "6,000 steps/s, recorded"
SLOW_PLAIN, SLOW_RECORDED = "1 ms policy", "1 ms policy, recorded"
PLANNED, LRU, STATIC = "planned cache", "LRU", "nodes of most edges"
METIS, HASHED = "tl.graphs.partition", "hashing"
OVERLAY, REWRITE = "overlay", "rewrite"
TABLE, ON_DEMAND, IN_MEMORY = "tl.embeddings.Table", "a request per batch", "an array in memory"
ENVS, STEPS = 8, 10_000
STEP_S = 1 / 6000
SLOW_POLICY_S, SLOW_STEPS = 0.001, 2_000
CORA, RANKS = REPOSITORY.parent / "shared" / "data" / "graph_cora" / "cora.cites", 4
NODES, DEGREE, FANOUTS, SEEDS_A_BATCH = 100_000, 16, [15, 10], 64
ROWS, CLICKS, CLICKS_A_BATCH, ZIPF = 200_000, 1_000_000, 2_048, 1.05
LATENCY_S, REMOTE_BATCHES = 0.02, 200
FIELDS, WIDTH = 8, 16  # ids of an example, and values of a row of the table


def without(library: str) -> Measurement | None:
    if importlib.util.find_spec(library) is None:
        return Measurement(0.0, 0.0, note=f"{library} is not installed")
    return None


def model(path: Path) -> None:
    """Train on 8,000 digits, and write the network as ONNX."""
    import onnx  # pyright: ignore[reportMissingImports] - of an extra
    import torch

    import tensorlake as tl

    ds = tl.datasets.digits()
    x = torch.from_numpy(ds["image"][:8000].reshape(8000, -1).astype("float32") / 255)
    y = torch.from_numpy(np.array(ds["label"][:8000], subok=False))
    torch.manual_seed(SEED)
    sizes = [784, 1024, 1024, 10]
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    network = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(4):
        for rows in torch.randperm(8000).split(200):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("Flatten", ["image"], ["a0"])]
    weights = []
    for number, layer in enumerate(layers):
        for name, tensor in (("w", layer.weight), ("b", layer.bias)):
            array = tensor.detach().numpy()
            weights.append(onnx.numpy_helper.from_array(array, f"{name}{number}"))
        names = [f"{'r' if number else 'a'}{number}", f"w{number}", f"b{number}"]
        nodes.append(node("Gemm", names, [f"a{number + 1}"], transB=1))
        nodes.append(node("Relu", [f"a{number + 1}"], [f"r{number + 1}"]))
    nodes[-1] = node("ArgMax", ["a3"], ["digit"], axis=1, keepdims=0)
    inputs = [value("image", onnx.TensorProto.FLOAT, [None, 28, 28])]
    outputs = [value("digit", onnx.TensorProto.INT64, [None])]
    graph = onnx.helper.make_graph(nodes, "digits", inputs, outputs, weights)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def infer(workspace: Workspace, *, int8: bool) -> Measurement:
    missing = without("onnxruntime") or without("onnx")
    if missing is not None:
        return missing
    import tensorlake as tl

    path = workspace.folder / "digits.onnx"
    if not path.exists():
        model(path)
    ds = tl.datasets.digits()
    labels = np.array(ds["label"][:], subok=False)
    steps = {"image": tl.decode.ToFloat()}
    view = ds.where("_row >= 8000")
    batches = tl.infer(view, path, int8=int8, decode=steps, batch_size=250)
    list(batches)
    right = 0
    with stopwatch() as clock:
        for _ in range(5):
            for batch in batches:
                right += int((batch["digit"] == labels[batch["_row"]]).sum())
    count = 5 * len(view)
    return Measurement(
        clock.seconds, count, clock.cpu_seconds, facts={"right %": 100 * right / count}
    )


def record(workspace: Workspace, *, how: str) -> Measurement:
    missing = without("gymnasium")
    if missing is not None:
        return missing
    import gymnasium  # pyright: ignore[reportMissingImports] - a peer's

    import tensorlake as tl

    env = gymnasium.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="sync")
    env.action_space.seed(SEED)
    pause_s = 0.0

    def policy(_: Any) -> Any:
        until = time.thread_time() + pause_s  # as much work on a machine that others use
        while time.thread_time() < until:
            pass
        return env.action_space.sample()

    def run(steps: int, url: str, how: str) -> None:
        if how in (RECORDED, FAST_RECORDED, SLOW_RECORDED):
            tl.trajectories.record(env, url, policy, steps=steps).close()
            return
        observed, _ = env.reset(seed=SEED)
        for number in range(steps):
            observed, _, terminated, truncated, _ = env.step(policy(observed))
            is_over = terminated | truncated
            if how == SEEDED and np.count_nonzero(is_over):
                seeds = [number] * ENVS
                observed, _ = env.reset(seed=seeds, options={"reset_mask": is_over})

    run(2, "memory://warm", RECORDED)  # what it imports
    if how in (FAST_PLAIN, FAST_RECORDED):
        with stopwatch() as clock:
            run(SLOW_STEPS, "", PLAIN)
        pause_s = max(0.0, STEP_S - clock.cpu_seconds / SLOW_STEPS)
    elif how in (SLOW_PLAIN, SLOW_RECORDED):
        pause_s = SLOW_POLICY_S
    steps = SLOW_STEPS if pause_s == SLOW_POLICY_S else STEPS
    with tempfile.TemporaryDirectory(dir=workspace.folder) as folder, stopwatch() as clock:
        run(steps, f"{folder}/steps.tl", how)
    return Measurement(clock.seconds, steps, clock.cpu_seconds)


def lru_misses(trace: Iterable[np.ndarray], capacity: int) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for ids in trace:
        for one in np.unique(ids).tolist():
            if one in kept:
                kept.move_to_end(one)
                continue
            misses += 1
            kept[one] = None
            if len(kept) > capacity:
                kept.popitem(last=False)
    return misses


def planned_misses(trace: list[np.ndarray], capacity: int) -> int:
    from tensorlake.loader import PlannedCache

    cache = PlannedCache(capacity, iter(trace))
    for ids in trace:
        cache.gather(ids, lambda missing: np.zeros((len(missing), 1), np.uint8))
    return cache.misses


def graph_trace() -> tuple[list[np.ndarray], np.ndarray]:
    """The nodes of the batches of an epoch over a hundredth of the nodes, and all degrees."""
    import tensorlake as tl

    random = np.random.default_rng(SEED)
    popular = np.arange(1, NODES + 1) ** -0.8
    sources = random.choice(NODES, NODES * DEGREE, p=popular / popular.sum())
    targets = random.integers(0, NODES, NODES * DEGREE)
    ds = tl.graphs.from_edges([sources, targets], "memory://graph", num_nodes=NODES)
    seeds = random.permutation(NODES)[: NODES // 20]
    loader = tl.graphs.NeighborLoader(
        ds, seeds, FANOUTS, batch_size=SEEDS_A_BATCH, framework="numpy"
    )
    return [batch.n_id for batch in loader], np.bincount(sources, minlength=NODES)


def graph(_: Workspace, *, how: str) -> Measurement:
    trace, degrees = graph_trace()
    capacity = NODES // 10
    used = sum(map(len, trace))
    if how == STATIC:
        kept = np.argsort(-degrees)[:capacity]
        misses = capacity + sum(int((~np.isin(ids, kept)).sum()) for ids in trace)
    else:
        misses = (lru_misses if how == LRU else planned_misses)(trace, capacity)
    return Measurement(float(misses), float(used))


def parts(_: Workspace, *, how: str) -> Measurement:
    missing = without("pymetis") if how == METIS else None
    if missing is not None or not CORA.exists():
        return missing or Measurement(0.0, 0.0, note=f"there is no {CORA}")
    import tensorlake as tl

    papers, ends = np.unique(np.loadtxt(CORA, np.int64).T, return_inverse=True)
    ends = ends.reshape(2, -1)
    ds = tl.graphs.from_edges(np.concatenate([ends, ends[::-1]], axis=1), "memory://cora")
    if how == METIS:
        tl.graphs.partition(ds, RANKS)
        ds.commit("parts")
        part = np.asarray(ds["part"][:])
    else:
        part = np.random.default_rng(SEED).permutation(len(papers)) % RANKS
    used = remote = 0
    for rank in range(RANKS):
        seeds = np.flatnonzero(part == rank)
        loader = tl.graphs.NeighborLoader(
            ds, seeds, FANOUTS, batch_size=SEEDS_A_BATCH, shuffle=True, framework="numpy"
        )
        for batch in loader:
            used += len(batch.n_id)
            remote += int(np.count_nonzero(part[batch.n_id] != rank))
    return Measurement(float(remote), float(used))


def clicks(count: int = CLICKS) -> list[np.ndarray]:
    random = np.random.default_rng(SEED)
    chances = np.arange(1, ROWS + 1) ** -ZIPF
    ids = random.permutation(ROWS)[random.choice(ROWS, count, p=chances / chances.sum())]
    return np.split(ids, np.arange(CLICKS_A_BATCH, count, CLICKS_A_BATCH))


def table(_: Workspace, *, how: str) -> Measurement:
    trace = clicks()
    misses = (lru_misses if how == LRU else planned_misses)(trace, ROWS // 20)
    return Measurement(float(misses), float(sum(len(np.unique(ids)) for ids in trace)))


class Clicks:
    """A model of clicks: the sum of a dense layer over the rows of an example's ids."""

    def __init__(self) -> None:
        self.dense = np.ones(WIDTH, np.float32)
        self.scores: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []

    def step(self, rows: Any, ids: np.ndarray, labels: np.ndarray) -> None:
        """Take a step of gradient descent, on ``rows`` by id in place."""
        unique, at = np.unique(ids, return_inverse=True)
        own = rows[unique]
        mean = own[at.reshape(ids.shape)].mean(axis=1)
        scores = 0.5 + 0.5 * np.tanh(FIELDS / 2 * mean @ self.dense)  # the logistic function
        error = (scores - labels).astype(np.float32)
        self.scores.append(scores)
        self.labels.append(labels)
        weight = np.bincount(at.ravel(), np.repeat(error, FIELDS), len(unique)).astype(np.float32)
        rows[unique] = own - 0.05 * weight[:, None] * self.dense
        self.dense -= 0.05 * (error[:, None] * mean).mean(axis=0)

    def area(self) -> float:
        """Return the area under the curve of the second half: scores of what was not seen yet."""
        half = len(self.scores) // 2
        scores, labels = (np.concatenate(one[half:]) for one in (self.scores, self.labels))
        ranks = np.argsort(np.argsort(scores)) + 1
        positive = labels.sum()
        sums = ranks[labels == 1].sum() - positive * (positive + 1) / 2
        return float(sums / (positive * (len(labels) - positive)))


def examples(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (count, FIELDS), Zipf, and which were clicked."""
    ids = np.concatenate(clicks(count * FIELDS)).reshape(count, FIELDS)
    random = np.random.default_rng(SEED + 1)
    liked = random.normal(size=ROWS)[ids].sum(axis=1)
    return ids, (random.random(count) < 1 / (1 + np.exp(-liked))).astype(np.float32)


def stored_table(url: str) -> Any:
    import tensorlake as tl

    ds = tl.create(url, {"w": tl.Array("float32", (WIDTH,))})
    ds.extend({"w": np.zeros((ROWS, WIDTH), np.float32)})
    ds.commit("zeros")
    return ds


def remote_table(_: Workspace, *, how: str) -> Measurement:
    import tensorlake as tl
    from tensorlake.dataset import RowSet

    size = CLICKS_A_BATCH // FIELDS
    ids, labels = examples(REMOTE_BATCHES * size)
    batches = [(ids[at : at + size], labels[at : at + size]) for at in range(0, len(ids), size)]
    ds = stored_table("memory://table")
    read = RowSet.read

    def slow(self: RowSet, *given: Any, **named: Any) -> Any:
        time.sleep(LATENCY_S)
        return read(self, *given, **named)

    RowSet.read = slow
    loader = batches if how == TABLE else ()
    own = tl.embeddings.Table(
        ds, "w", ids=lambda batch: batch[0], lookahead=loader, capacity=ROWS // 20
    )
    network = Clicks()
    with stopwatch() as clock:
        for batch in own.batches() if how == TABLE else batches:
            network.step(own, *batch)
    facts = {"AUC": network.area()}
    return Measurement(clock.seconds, len(batches), clock.cpu_seconds, facts=facts)


def epoch(workspace: Workspace, *, how: str) -> Measurement:
    import tensorlake as tl

    ids, labels = examples(CLICKS)
    network = Clicks()
    with tempfile.TemporaryDirectory(dir=workspace.folder) as folder:
        log = tl.create(f"{folder}/log", {"cats": tl.Array("int64", (FIELDS,)), "click": "float32"})
        log.extend({"cats": ids, "click": labels})
        log.commit(f"clicks of seed {SEED}")
        ds = stored_table(f"{folder}/table")
        loader = log.loader(batch_size=CLICKS_A_BATCH, shuffle=True, seed=SEED)
        rows: Any = np.zeros((ROWS, WIDTH), np.float32)
        batches: Iterable[Any] = loader
        if how == TABLE:
            rows = tl.embeddings.Table(
                ds, "w", ids=lambda one: one["cats"], lookahead=loader, capacity=ROWS // 2
            )
            batches = rows.batches()
        with stopwatch() as clock:
            for batch in batches:
                network.step(rows, np.asarray(batch["cats"]), np.asarray(batch["click"]))
            if how == TABLE:
                rows.commit("an epoch")
    facts = {"AUC": network.area()}
    return Measurement(clock.seconds, CLICKS, clock.cpu_seconds, facts=facts)


def checkpoint(workspace: Workspace, *, how: Any) -> Measurement:
    import tensorlake as tl

    random = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory(dir=workspace.folder) as folder:
        ds = tl.create(folder + "/w", {"w": tl.Array("float32", (64,), updates=how)})
        ds.extend({"w": random.random((ROWS, 64), np.float32)})
        ds.commit("a table")
        before = nbytes_below(Path(folder))
        ids = random.choice(ROWS, ROWS // 100, replace=False)
        with stopwatch() as clock:
            ds["w"][ids] = np.ones((len(ids), 64), np.float32)
            ds.commit("1 % of its rows")
        written = nbytes_below(Path(folder)) - before
    return Measurement(float(written), float(before), facts={"CPU ms": 1000 * clock.cpu_seconds})


def nbytes_below(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def contenders(run: Callable[..., Measurement], *names: str) -> tuple[Contender, ...]:
    return tuple(Contender(name, partial(run, how=name)) for name in names)


BENCHMARKS = (
    Benchmark(
        name="structures-infer",
        question="a network of three layers over 2,000 digits, five times",
        unit="rows/s",
        contenders=(
            Contender(FLOAT, partial(infer, int8=False)),
            Contender(INT8, partial(infer, int8=True)),
        ),
        goals=(Goal(INT8, FLOAT, at_least=1.5),),
    ),
    Benchmark(
        name="structures-record",
        question=f"steps of {ENVS} CartPoles at once",
        unit="vector steps/s",
        contenders=contenders(
            record,
            *(PLAIN, SEEDED, RECORDED),
            *(FAST_PLAIN, FAST_RECORDED),
            *(SLOW_PLAIN, SLOW_RECORDED),
        ),
        goals=(
            Goal(FAST_RECORDED, FAST_PLAIN, at_least=0.8, per="CPU second"),
            Goal(SLOW_RECORDED, SLOW_PLAIN, at_least=0.95, per="CPU second"),
        ),
    ),
    Benchmark(
        name="structures-graph",
        question=f"features of neighborhoods of {NODES:,} nodes, with room for a tenth of them",
        unit="rows used per row fetched",
        contenders=contenders(graph, LRU, STATIC, PLANNED),
        goals=(Goal(PLANNED, LRU, at_least=1.25), Goal(PLANNED, STATIC, at_least=1.15)),
    ),
    Benchmark(
        name="structures-parts",
        question=f"nodes of sampled neighborhoods of Cora, on {RANKS} ranks",
        unit="nodes used per node of another rank",
        contenders=contenders(parts, HASHED, METIS),
        goals=(Goal(METIS, HASHED, at_least=2),),
    ),
    Benchmark(
        name="structures-table",
        question=f"rows of {CLICKS:,} clicks, Zipf ({ZIPF}), with room for a twentieth of them",
        unit="rows used per row fetched",
        contenders=contenders(table, LRU, PLANNED),
        goals=(Goal(PLANNED, LRU, at_least=1.4),),
    ),
    Benchmark(
        name="structures-remote-table",
        question=f"steps over a table whose requests take {LATENCY_S * 1000:.0f} ms",
        unit="steps/s",
        contenders=contenders(remote_table, ON_DEMAND, TABLE),
        goals=(Goal(TABLE, ON_DEMAND, at_least=5),),
    ),
    Benchmark(
        name="structures-epoch",
        question=f"an epoch over {CLICKS:,} clicks of {FIELDS} ids, Zipf ({ZIPF}), seed {SEED}",
        unit="clicks/s",
        contenders=contenders(epoch, IN_MEMORY, TABLE),
    ),
    Benchmark(
        name="structures-checkpoint",
        question=f"a commit of 1 % of the rows of a table of {ROWS:,} × 64 float32, at random",
        unit="bytes of the table per byte written",
        contenders=contenders(checkpoint, REWRITE, OVERLAY),
        goals=(Goal(OVERLAY, REWRITE, at_least=33),),
    ),
)
