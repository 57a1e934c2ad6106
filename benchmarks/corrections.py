"""The costs of a correct dataset: checks and a unique key in a commit, and finding duplicate texts.

Each beside the same work without it, and beside the naive way: keys in a set of Python, and MinHash
by a hash function for each number of a signature. Stale cells among 10⁹ rows are in ``scale.py``.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)

if TYPE_CHECKING:
    from tensorlake.dataset.handles.dataset import Dataset

__all__ = ["BENCHMARKS"]

MOST = 1 / 1.3
ONE_BY_ONE = 50
LATENCY_MS = 20.0
TEXT_NBYTES = 2_000
SIGNED = 128


def _table(workspace: Workspace, name: str, width: int, *, is_checked: bool) -> tuple[Dataset, Any]:
    """Return a dataset of 10⁶ rows with random keys, and as many rows with other keys."""
    import tensorlake as tl

    warm_up()
    count = 20_000 if workspace.is_quick else 1_000_000
    random = np.random.default_rng(0)
    keys = random.permutation(4 * count)[: 2 * count]
    types: dict[str, Any] = {"id": "int64", "x": "float32", "y": "int64"}
    columns: dict[str, Any] = {
        "x": random.random(count, dtype=np.float32),
        "y": np.arange(count),
    }
    if width:
        types["vec"] = tl.Embedding(width)
        columns["vec"] = random.random((count, width), dtype=np.float32)
    ds = tl.create(_new(workspace, name), types, unique=("id",) if is_checked else ())
    ds.extend({"id": keys[:count], **columns})
    if is_checked:
        ds.add_check("positive", "x >= 0")
        ds.add_check("bounded", "y >= 0 AND y < 1000000000")
    ds.commit("the first half")
    return ds, {"id": keys[count:], **columns}


def _new(workspace: Workspace, name: str) -> str:
    """Return a folder that is not there."""
    folder = workspace.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)


def append_many(workspace: Workspace, *, width: int, is_checked: bool) -> Measurement:
    ds, columns = _table(workspace, "many", width, is_checked=is_checked)
    with stopwatch() as watch:
        ds.extend(columns)
        ds.commit("the second half")
    return Measurement(watch.seconds, len(columns["id"]), watch.cpu_seconds)


def append_many_by_a_set(workspace: Workspace, *, width: int) -> Measurement:
    ds, columns = _table(workspace, "set", width, is_checked=False)
    with stopwatch() as watch:
        known = set(ds["id"][:].tolist())
        given = columns["id"].tolist()
        assert known.isdisjoint(given)
        assert len({*given}) == len(given)
        assert (columns["x"] >= 0).all()
        assert (columns["y"] >= 0).all()
        ds.extend(columns)
        ds.commit("the second half")
    return Measurement(watch.seconds, len(given), watch.cpu_seconds)


def append_one_by_one(workspace: Workspace, *, is_checked: bool, is_indexed: bool) -> Measurement:
    ds, columns = _table(workspace, f"one-{is_indexed}", 0, is_checked=is_checked)
    if is_indexed:
        ds.create_index("id")
        ds.commit("an index")
    return _commit_rows(ds, columns)


def append_one_by_one_afar(workspace: Workspace, *, is_checked: bool) -> Measurement:
    import tensorlake as tl
    from tensorlake.testing import latency_server

    ds, columns = _table(workspace, "afar/rows", 0, is_checked=is_checked)
    ds.close()
    with latency_server(workspace.folder, latency_ms=LATENCY_MS) as server:
        url, options = server.s3_url("afar/rows"), server.storage_options
        with tl.open(url, storage_options=options) as there:
            return _commit_rows(there, columns)


def _commit_rows(ds: Dataset, columns: Any) -> Measurement:
    rows = [{name: column[at] for name, column in columns.items()} for at in range(ONE_BY_ONE + 3)]
    for row in rows[ONE_BY_ONE:]:  # what is read once is read
        ds.append(row)
        ds.commit("a row")
    seconds = cpu_seconds = 0.0
    for row in rows[:ONE_BY_ONE]:
        ds.append(row)
        with stopwatch() as watch:
            ds.commit("a row")
        seconds += watch.seconds
        cpu_seconds += watch.cpu_seconds
    facts = {"CPU ms a commit": 1e3 * cpu_seconds / ONE_BY_ONE}
    return Measurement(seconds, ONE_BY_ONE, cpu_seconds, facts)


def _texts(count: int) -> list[str]:
    random = np.random.default_rng(0)
    sizes = random.integers(3, 10, 20_000)
    words = [bytes(random.integers(97, 123, size, np.uint8)).decode() for size in sizes.tolist()]
    texts = [
        " ".join(words[at] for at in some)[:TEXT_NBYTES]
        for some in random.integers(0, len(words), (count, TEXT_NBYTES // 5)).tolist()
    ]
    for at in range(0, count - 1, 50):  # 1 of 50 is another with a word changed
        texts[at + 1] = f"{texts[at][:1000]}…{texts[at][1001:]}"
    return texts


def duplicate_texts(workspace: Workspace) -> Measurement:
    import tensorlake as tl

    warm_up()
    texts = _texts(1_000 if workspace.is_quick else 50_000)
    ds = tl.create(_new(workspace, "texts"), {"text": "str"})
    ds.extend({"text": texts})
    ds.commit("texts")
    ds = tl.open(ds.url)
    with stopwatch() as watch:
        found = len(tl.find_duplicates(ds, "text"))
    nbytes = sum(map(len, texts))
    facts = {"pairs found": found / 2, "MB per CPU s": nbytes / 1e6 / watch.cpu_seconds}
    assert found == 2 * len(range(0, len(texts) - 1, 50))
    return Measurement(watch.seconds, nbytes / 1e6, watch.cpu_seconds, facts)


def many_hashes(workspace: Workspace) -> Measurement:
    """Sign texts by 128 hash functions, and compare nothing: the naive way, by NumPy."""
    texts = [text.encode() for text in _texts(100 if workspace.is_quick else 2_000)]
    random = np.random.default_rng(1)
    factors = random.integers(0, 1 << 63, SIGNED, np.uint64) | np.uint64(1)
    with stopwatch() as watch:
        for text in texts:
            content = np.frombuffer(text, np.uint8)
            shingles = np.ndarray((len(text) - 7,), "<u8", content, strides=(1,))
            (shingles[None] * factors[:, None] >> np.uint64(32)).min(axis=1)
    return Measurement(watch.seconds, sum(map(len, texts)) / 1e6, watch.cpu_seconds)


def _commits(width: int) -> Benchmark:
    what = f", and a vector of {width} float32" if width else ""
    plain = partial(append_many, width=width)
    return Benchmark(
        f"checked-commit{'-vectors' if width else ''}",
        f"Appending 10⁶ rows of three numbers{what} to 10⁶, with two checks and a unique key",
        "rows",
        (
            Contender("without", partial(plain, is_checked=False)),
            Contender("tensorlake", partial(plain, is_checked=True)),
            Contender("a set of keys", partial(append_many_by_a_set, width=width)),
        ),
        goals=(
            Goal("tensorlake", "without", MOST),
            Goal("tensorlake", "without", MOST, per="CPU second"),
            Goal("tensorlake", "a set of keys", 1),
        ),
    )


BENCHMARKS = (
    _commits(0),
    _commits(32),
    Benchmark(
        "checked-row",
        "Committing a row onto 10⁶ with two checks and a unique key, in a local folder",
        "commits",
        (
            Contender("without", partial(append_one_by_one, is_checked=False, is_indexed=False)),
            Contender("tensorlake", partial(append_one_by_one, is_checked=True, is_indexed=False)),
            Contender(
                "with an index", partial(append_one_by_one, is_checked=True, is_indexed=True)
            ),
        ),
        goals=(Goal("tensorlake", "without", MOST),),
    ),
    Benchmark(
        "checked-row-20ms",
        "The same with 20 ms of added latency per request",
        "commits",
        (
            Contender("without", partial(append_one_by_one_afar, is_checked=False)),
            Contender("tensorlake", partial(append_one_by_one_afar, is_checked=True)),
        ),
        goals=(Goal("tensorlake", "without", MOST),),
    ),
    Benchmark(
        "duplicates-text",
        "Finding near duplicates among 100 MB of texts of 2 kB",
        "MB",
        (
            Contender("tensorlake", duplicate_texts),
            Contender("128 hash functions", many_hashes),
        ),
        goals=(Goal("tensorlake", "128 hash functions", 5),),
        limits=(Limit("tensorlake", "", at_least=100),),
    ),
)
