"""Search beside its peers: nearest vectors, and best texts, warm, on a local disk.

Vectors are drawn around centres. Each index probes as many lists as give a recall of 0.95: ours by
the recall that it measured when it was built, the others on half of the queries. Texts have words
by Zipf's law; questions have one to four of them. All have two threads. An index is built once for
all rounds; its own benchmark measures that.

usearch is not among the peers: its graph of a million vectors takes more than ten minutes to build
on two cores. Peers run in an environment of their own, by ``peers/scripts/search_tasks.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import SCRIPTS, Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Measurement,
    stopwatch,
    warm_up,
)
from benchmarks.peers.environments import Environment
from benchmarks.peers.processes import ask
from benchmarks.peers.storage import Peer

__all__ = ["BENCHMARKS", "K", "texts_dataset", "texts_folder", "vectors_dataset", "vectors_folder"]

DIM, CENTRES, SPREAD = 128, 2000, 0.5
QUERIES, AT_ONCE, K = 256, 64, 10
EXACT_QUERIES = 4  # compared with all vectors, which takes long
WORDS, QUESTIONS = 200_000, 200
LIMIT_S = 1800  # of a peer's process, which builds an index in its first run

ENVIRONMENT = Environment(
    "search", ("faiss-cpu", "usearch", "pylance", "tantivy", "bm25s", "numpy")
)
VECTOR_PEERS = (("faiss", "faiss IVFFlat"), ("lance", "Lance IVF_PQ"))
TEXT_PEERS = (("tantivy", "tantivy"), ("bm25s", "bm25s"))


def vectors_folder(workspace: Workspace) -> Path:
    """Make the vectors, the queries and the truth, once."""
    folder = workspace.lake / "search-vectors"
    if not (folder / "nearest.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        count = 20_000 if workspace.is_quick else 1_000_000
        centres = random.standard_normal((min(CENTRES, count // 10), DIM)).astype(np.float32)

        def drawn(number: int) -> np.ndarray:
            noise = random.standard_normal((number, DIM)).astype(np.float32)
            made = centres[random.integers(0, len(centres), number)] + np.float32(SPREAD) * noise
            return made / np.linalg.norm(made, axis=1, keepdims=True)

        vectors, queries = drawn(count), drawn(QUERIES)
        np.save(folder / "vectors.npy", vectors)
        np.save(folder / "queries.npy", queries)
        np.save(folder / "nearest.npy", np.argsort(-(queries @ vectors.T), axis=1)[:, :K])
    return folder


def texts_folder(workspace: Workspace) -> Path:
    """Make the texts and the questions, once."""
    folder = workspace.lake / "search-texts"
    if not (folder / "questions.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        count = 20_000 if workspace.is_quick else 1_000_000
        shares = np.cumsum(1 / np.arange(1, WORDS + 1))
        lengths = random.integers(4, 20, count)
        drawn = np.searchsorted(shares, random.random(int(lengths.sum())) * shares[-1]).tolist()
        stops = np.cumsum(lengths).tolist()
        texts = [
            " ".join(f"w{word}" for word in drawn[stop - length : stop])
            for stop, length in zip(stops, lengths.tolist(), strict=True)
        ]
        words = np.searchsorted(shares, random.random((QUESTIONS, 4)) * shares[-1]).tolist()
        questions = [
            " ".join(dict.fromkeys(f"w{word}" for word in row[: 1 + number % 4]))
            for number, row in enumerate(words)
        ]
        (folder / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
        (folder / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    return folder


def vectors_dataset(workspace: Workspace) -> Any:
    import tensorlake as tl

    folder = vectors_folder(workspace)
    if not tl.exists(folder / "ours.tl"):
        ds = tl.create(folder / "ours.tl", {"vec": tl.Embedding(DIM)}, durability="none")
        ds.extend({"vec": np.load(folder / "vectors.npy", mmap_mode="r")})
        ds.commit("vectors")
    ds = tl.open(folder / "ours.tl")
    if not ds.indexes:
        ds.create_index("vec")
        ds.commit("index")
    return ds


def texts_dataset(workspace: Workspace) -> Any:
    import tensorlake as tl

    folder = texts_folder(workspace)
    if not tl.exists(folder / "ours.tl"):
        ds = tl.create(folder / "ours.tl", {"text": "str"}, durability="none")
        ds.extend({"text": (folder / "texts.txt").read_text(encoding="utf-8").split("\n")})
        ds.commit("texts")
    ds = tl.open(folder / "ours.tl")
    if not ds.indexes:
        ds.create_index("text", "text")
        ds.commit("index")
    return ds


def _timed(work: Callable[[Any], Any], items: list[Any], amount: int) -> tuple[Measurement, Any]:
    """Run some items twice; the second time is measured."""
    for item in items:
        work(item)
    with stopwatch() as watch:
        found = [work(item) for item in items]
    return Measurement(watch.seconds, amount, watch.cpu_seconds), found


def ours_vectors(workspace: Workspace, at_once: int, *, exact: bool = False) -> Measurement:
    """Search by the index, or compare all."""
    warm_up()
    ds = vectors_dataset(workspace)
    folder = vectors_folder(workspace)
    queries = np.load(folder / "queries.npy")[: EXACT_QUERIES if exact else QUERIES]
    groups = [queries[at : at + at_once] for at in range(0, len(queries), at_once)]

    def work(group: np.ndarray) -> Any:
        return ds.search("vec", group, K, exact=exact).rows.reshape(-1, K)

    measured, found = _timed(work, groups, len(queries))
    nearest = np.load(folder / "nearest.npy")[: len(queries)]
    hits = [
        len({*one} & {*other})
        for one, other in zip(np.concatenate(found).tolist(), nearest.tolist(), strict=True)
    ]
    facts = {"recall": sum(hits) / (K * len(queries))}
    return Measurement(measured.seconds, measured.amount, measured.cpu_seconds, facts)


def ours_texts(workspace: Workspace) -> Measurement:
    """Search by the index."""
    warm_up()
    ds = texts_dataset(workspace)
    questions = json.loads((texts_folder(workspace) / "questions.json").read_text())
    return _timed(lambda one: ds.search("text", one, K).rows, questions, len(questions))[0]


def ours_build(workspace: Workspace, column: str) -> Measurement:
    """Build an index, and throw it away."""
    warm_up()
    ds = vectors_dataset(workspace) if column == "vec" else texts_dataset(workspace)
    with stopwatch() as watch:
        ds.create_index(column, "vector" if column == "vec" else "text", name="again")
    measured = Measurement(watch.seconds, len(ds), watch.cpu_seconds)
    ds.discard()
    return measured


def peer_run(key: str, name: str, task: str) -> Contender:
    """Make a contender of a peer."""
    peer = Peer(f"search-{key}", name, ENVIRONMENT, (task,))

    def measure(workspace: Workspace) -> Measurement:
        peer.environment.make()
        if peer.refused is not None:
            return peer.refused
        folder = vectors_folder(workspace) if "vectors" in task else texts_folder(workspace)
        command = [peer.environment.python, SCRIPTS / "search_tasks.py", key, task, folder]
        answer = ask(command, limit_s=LIMIT_S)
        told = answer.figures
        if answer.note:
            return Measurement(0, 0, note=answer.note)
        facts = {"recall": told["recall"]} if "recall" in told else {}
        return Measurement(told["seconds"], told["amount"], told["cpu_seconds"], facts)

    return Contender(name, measure)


def _peers(peers: tuple[tuple[str, str], ...], task: str) -> tuple[Contender, ...]:
    return tuple(peer_run(key, name, task) for key, name in peers)


BENCHMARKS = (
    Benchmark(
        "search-vectors-one",
        "Find the 10 nearest of 10⁶ × 128, one query at a time",
        "queries",
        (
            Contender("tensorlake", lambda workspace: ours_vectors(workspace, 1)),
            Contender(
                "tensorlake, exact", lambda workspace: ours_vectors(workspace, 1, exact=True)
            ),
            *_peers(VECTOR_PEERS, "vectors-one"),
        ),
        goals=(
            Goal("tensorlake", "tensorlake, exact", 50),
            Goal("tensorlake", "faiss IVFFlat", 1.0),
            Goal("tensorlake", "Lance IVF_PQ", 5.0),
        ),
        prepare=vectors_folder,
    ),
    Benchmark(
        "search-vectors-64",
        "Find the 10 nearest of 10⁶ × 128, 64 queries at a time",
        "queries",
        (
            Contender("tensorlake", lambda workspace: ours_vectors(workspace, AT_ONCE)),
            Contender(
                "tensorlake, exact", lambda workspace: ours_vectors(workspace, AT_ONCE, exact=True)
            ),
            *_peers(VECTOR_PEERS, "vectors-64"),
        ),
        goals=(
            Goal("tensorlake", "tensorlake, exact", 5),
            Goal("tensorlake", "faiss IVFFlat", 1.0),
        ),
        prepare=vectors_folder,
    ),
    Benchmark(
        "search-texts",
        "Find the 10 best of 10⁶ short texts for 1 to 4 words",
        "queries",
        (Contender("tensorlake", ours_texts), *_peers(TEXT_PEERS, "texts")),
        goals=(Goal("tensorlake", "tantivy", 0.5), Goal("tensorlake", "bm25s", 30)),
        prepare=texts_folder,
    ),
    Benchmark(
        "search-build-vectors",
        "Build a vector index of 10⁶ × 128",
        "rows",
        (
            Contender("tensorlake", lambda workspace: ours_build(workspace, "vec")),
            *_peers(VECTOR_PEERS, "vectors-build"),
        ),
        goals=(Goal("tensorlake", "Lance IVF_PQ", 1.0),),
        prepare=vectors_folder,
    ),
    Benchmark(
        "search-build-texts",
        "Build a text index of 10⁶ short texts",
        "rows",
        (
            Contender("tensorlake", lambda workspace: ours_build(workspace, "text")),
            *_peers(TEXT_PEERS, "texts-build"),
        ),
        goals=(Goal("tensorlake", "bm25s", 1.0),),
        prepare=texts_folder,
    ),
)
