"""One search task of one peer, run by the peers' own Python: ``search_tasks.py PEER TASK FOLDER``.

FOLDER has ``vectors.npy queries.npy nearest.npy``, or ``texts.txt questions.json``. Indexes are
kept beside them. It prints one line of JSON: seconds, processor seconds, amount, and recall.

    vectors-one, vectors-64    queries one by one, or 64 at a time; each twice, the second counts
    texts                      questions one by one, likewise
    vectors-build, texts-build an index, in memory or in a folder that is removed
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

K = 10
RECALL = 0.95
TUNED_WITH = 128  # queries that lists probed are chosen by; recall is of the others
LISTS = 1000
THREADS = 2

KEPT: list[object] = []

Search = Callable[[np.ndarray], np.ndarray]  # queries → rows (n, K)
Searches = Callable[[int], Search]  # an effort → such a search


def faiss_build(folder: Path, *, again: bool) -> Any:
    """IVF of whole vectors: the fastest of its kinds without compression."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    file = folder / "ivf.faiss"
    if file.exists() and not again:
        return faiss.read_index(str(file))
    vectors = np.load(folder / "vectors.npy")
    quantizer = faiss.IndexFlatIP(vectors.shape[1])
    index: Any = faiss.IndexIVFFlat(quantizer, vectors.shape[1], LISTS, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:: max(1, len(vectors) // (96 * LISTS))])
    index.add(vectors)
    KEPT.append(quantizer)  # which the index refers to, and does not own
    if not again:
        faiss.write_index(index, str(file))
    return index


def faiss_searches(folder: Path) -> Searches:
    index = faiss_build(folder, again=False)

    def at(effort: int) -> Search:
        def search(queries: np.ndarray) -> np.ndarray:
            index.nprobe = effort
            return index.search(queries, K)[1]

        return search

    return at


def usearch_build(folder: Path, *, again: bool) -> Any:
    from usearch.index import Index

    vectors = np.load(folder / "vectors.npy")
    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    file = folder / "graph.usearch"
    if file.exists() and not again:
        index.load(str(file))
        return index
    index.add(np.arange(len(vectors)), vectors, threads=THREADS)
    if not again:
        index.save(str(file))
    return index


def usearch_searches(folder: Path) -> Searches:
    index = usearch_build(folder, again=False)

    def at(effort: int) -> Search:
        def search(queries: np.ndarray) -> np.ndarray:
            index.expansion_search = 16 * effort
            return index.search(queries, K, threads=THREADS).keys.reshape(-1, K)

        return search

    return at


def lance_build(folder: Path, *, again: bool) -> Any:
    import lance
    import pyarrow as pa

    place = folder / ("again.lance" if again else "vectors.lance")
    if not place.exists():
        vectors = np.load(folder / "vectors.npy")
        column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
        lance.write_dataset(pa.table({"vec": column}), str(place))
    dataset: Any = lance.dataset(str(place))
    if again or not dataset.list_indices():
        started, spent = time.perf_counter(), time.process_time()
        dataset.create_index(
            "vec", "IVF_PQ", metric="dot", num_partitions=LISTS, num_sub_vectors=16, replace=True
        )
        dataset.took = time.perf_counter() - started, time.process_time() - spent
    if again:
        shutil.rmtree(place)
    return dataset


def lance_searches(folder: Path) -> Searches:
    dataset = lance_build(folder, again=False)

    def at(effort: int) -> Search:
        def search(queries: np.ndarray) -> np.ndarray:
            found = []
            for query in queries:
                nearest = {
                    "column": "vec",
                    "q": query,
                    "k": K,
                    "nprobes": effort,
                    "refine_factor": max(5, effort),  # of its 16 bytes a vector alone: .325
                }
                table = dataset.to_table(columns=[], nearest=nearest, with_row_id=True)
                found.append(table["_rowid"].to_numpy()[:K])
            return np.stack(found)

        return search

    return at


def tantivy_build(folder: Path, *, again: bool) -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="whitespace")
    schema = builder.build()
    place = folder / "tantivy"
    is_new = again or not place.exists()
    if not again:
        place.mkdir(exist_ok=True)
    index: Any = tantivy.Index(schema, None if again else str(place))
    if is_new:
        writer = index.writer(512 << 20, THREADS)
        for text in _texts(folder):
            writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
    return index


def tantivy_search(folder: Path) -> Callable[[str], object]:
    index = tantivy_build(folder, again=False)
    searcher = index.searcher()
    return lambda text: searcher.search(index.parse_query(text, ["text"]), K).hits


def bm25s_build(folder: Path, *, again: bool) -> Any:
    import bm25s

    place = folder / "bm25s"
    if place.exists() and not again:
        return bm25s.BM25.load(str(place))
    index: Any = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index([text.split() for text in _texts(folder)], show_progress=False)
    if not again:
        index.save(str(place))
    return index


def bm25s_search(folder: Path) -> Callable[[str], object]:
    index = bm25s_build(folder, again=False)
    return lambda text: index.retrieve([text.split()], k=K, show_progress=False)


def _texts(folder: Path) -> list[str]:
    return (folder / "texts.txt").read_text(encoding="utf-8").split("\n")


SEARCHES = {"faiss": faiss_searches, "usearch": usearch_searches, "lance": lance_searches}
TEXTS = {"tantivy": tantivy_search, "bm25s": bm25s_search}
BUILDS: dict[str, Callable[..., Any]] = {
    "faiss": faiss_build,
    "usearch": usearch_build,
    "lance": lance_build,
    "tantivy": tantivy_build,
    "bm25s": bm25s_build,
}


def recall(found: np.ndarray, nearest: np.ndarray) -> float:
    hits = [len({*a} & {*b}) for a, b in zip(found.tolist(), nearest.tolist(), strict=True)]
    return sum(hits) / nearest.size


def search_vectors(peer: str, at_once: int, folder: Path) -> dict[str, float]:
    """Search by the least effort of sufficient recall."""
    at = SEARCHES[peer](folder)
    queries, nearest = np.load(folder / "queries.npy"), np.load(folder / "nearest.npy")
    some, truth = queries[:TUNED_WITH], nearest[:TUNED_WITH]
    effort = 1
    while recall(at(effort)(some), truth) < RECALL and effort < LISTS:
        effort *= 2
    search = at(effort)
    groups = [queries[start : start + at_once] for start in range(0, len(queries), at_once)]
    for group in groups:
        search(group)
    started, spent = time.perf_counter(), time.process_time()
    found = [search(group) for group in groups]
    figures = _figures(started, spent, len(queries))
    return figures | {"recall": recall(np.concatenate(found), nearest), "effort": effort}


def search_texts(peer: str, folder: Path) -> dict[str, float]:
    search = TEXTS[peer](folder)
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    for question in questions:
        search(question)
    started, spent = time.perf_counter(), time.process_time()
    for question in questions:
        search(question)
    return _figures(started, spent, len(questions))


def build(peer: str, folder: Path) -> dict[str, float]:
    vectors = folder / "vectors.npy"
    amount = len(np.load(vectors, mmap_mode="r")) if vectors.exists() else len(_texts(folder))
    started, spent = time.perf_counter(), time.process_time()
    made = BUILDS[peer](folder, again=True)
    figures = _figures(started, spent, amount)
    if peer == "lance":  # not the writing of the vectors
        figures["seconds"], figures["cpu_seconds"] = made.took
    return figures


def _figures(started: float, spent: float, amount: int) -> dict[str, float]:
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - spent
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "amount": amount}


def main() -> None:
    peer, task, place = sys.argv[1:]
    folder = Path(place)
    if task.endswith("-build"):
        told = build(peer, folder)
    elif task == "texts":
        told = search_texts(peer, folder)
    else:
        told = search_vectors(peer, 1 if task == "vectors-one" else 64, folder)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
