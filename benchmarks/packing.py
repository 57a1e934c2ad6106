"""Packing, windows and balanced ranks beside plain loaders of the same bytes, from a folder.

packing    documents of 544 tokens in the mean (log-normal), as sequences of 1,024 with segments
           and positions: ten bytes a token where plain batches have two
limits     rows of one length, which one gather copies; and the packing itself, written by hand
           over a memory map: a copy for each document, two ``np.repeat`` for each batch
windows    16 adjacent rows of 512 tokens, one window a row: each row is read once a batch
balance    the first of four ranks, which get as many tokens: each works out the rows of all
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import TOKENS_PER_ROW, Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement
from benchmarks.loading import two_epochs

__all__ = ["BENCHMARKS"]

DOCUMENTS, ROWS = "documents.tl", "document-rows.tl"
NUM_TOKENS = 40_000_000
LENGTH, BATCH = 1024, 64
DOCUMENTS_A_BATCH = 120  # about as many tokens as a batch of sequences
SEED, EOS = 7, 0
EPISODE, SIZE, WINDOWS_A_BATCH = 200, 16, 256
BY_ROWS, PLAIN, BY_HAND = "rows of one length", "documents, concatenated", "packed by hand"
CUT, WHOLE = "tensorlake, pack", "tensorlake, pack(split=False)"
WORLD_SIZE = 4
COUNTED = 5  # of 0.1 s each
SHUFFLED, BALANCED = "shuffled", {"tokens": "balanced by tokens", "squares": "by their squares"}
STEPS, WINDOWS = "tensorlake, rows", "tensorlake, windows"


def documents() -> tuple[np.ndarray, np.ndarray]:
    """All tokens end to end, and the length of each document."""
    random = np.random.default_rng(SEED)
    lengths = np.clip(random.lognormal(5.8, 1.0, NUM_TOKENS // 400), 1, 20_000).astype(np.int64)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), NUM_TOKENS))]
    return random.integers(1, 50_000, int(lengths.sum())).astype(np.uint16), lengths


def prepare(workspace: Workspace) -> None:
    import tensorlake as tl

    rows, texts = workspace.lake / ROWS, workspace.lake / DOCUMENTS
    if rows.exists():
        return
    tokens, lengths = documents()
    np.save(workspace.folder / "documents.npy", tokens)
    np.save(workspace.folder / "lengths.npy", lengths)
    with tl.create(str(texts), {"tokens": tl.Array("uint16", (None,))}) as ds:
        ds.extend({"tokens": np.split(tokens, np.cumsum(lengths)[:-1])})
        ds.commit("all")
    schema = {"tokens": tl.Array("uint16", (TOKENS_PER_ROW,)), "episode": "int64"}
    with tl.create(str(rows), schema) as ds:
        values = tokens[: len(tokens) // TOKENS_PER_ROW * TOKENS_PER_ROW].reshape(
            -1, TOKENS_PER_ROW
        )
        ds.extend({"tokens": values, "episode": np.arange(len(values)) // EPISODE})
        ds.commit("all")


class PackedByHand:
    """The copies and numbers of packing over tokens in a memory map: no store, plan or state."""

    def __init__(self, folder: Path) -> None:
        self.tokens = np.load(folder / "documents.npy", mmap_mode="r")
        self.lengths = np.load(folder / "lengths.npy")
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.random = np.random.default_rng(SEED)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        order = self.random.permutation(len(self.lengths))
        counts = self.lengths[order] + 1
        ends = np.cumsum(counts)
        source = self.tokens.data
        eos = np.full(1, EOS, np.uint16).data
        size = BATCH * LENGTH
        counted = np.arange(size, dtype=np.int32)
        for begin in range(0, int(ends[-1]), size):
            end = min(begin + size, int(ends[-1]))
            first, last = (int(np.searchsorted(ends, at, "left")) for at in (begin + 1, end))
            parts: list[memoryview] = []
            for at in range(first, last + 1):
                start = int(self.starts[order[at]])
                parts += [source[start : start + int(counts[at]) - 1], eos]
            origin = int(ends[first] - counts[first])
            joined = np.frombuffer(bytearray().join(parts), np.uint16)
            tokens = joined[begin - origin : end - origin]
            borders = np.union1d(ends[first:last] - begin, np.arange(0, end - begin, LENGTH))
            lengths = np.diff(borders, append=end - begin)
            positions = counted[: end - begin] - np.repeat(borders.astype(np.int32), lengths)
            before = np.searchsorted(borders, borders // LENGTH * LENGTH)
            number = (np.arange(len(borders)) - before).astype(np.int32)
            segments = np.repeat(number, lengths)
            yield {"tokens": tokens, "segments": segments, "positions": positions}


def by_hand(workspace: Workspace) -> Measurement:
    packed = PackedByHand(workspace.folder)
    return two_epochs(packed, _count, int((packed.lengths + 1).sum()))


def _rows(workspace: Workspace) -> Any:
    import tensorlake as tl

    return tl.open(str(workspace.lake / ROWS), read_only=True)


def _documents(workspace: Workspace) -> Any:
    import tensorlake as tl

    return tl.open(str(workspace.lake / DOCUMENTS), read_only=True)


def rows_of_one_length(workspace: Workspace) -> Measurement:
    with _rows(workspace) as ds:
        size = BATCH * LENGTH // TOKENS_PER_ROW
        loader = ds.loader(batch_size=size, shuffle=True, seed=SEED, columns=["tokens"])
        return two_epochs(loader, _count, len(ds) * TOKENS_PER_ROW)


def concatenated(workspace: Workspace) -> Measurement:
    lengths = np.load(workspace.folder / "lengths.npy")
    with _documents(workspace) as ds:
        loader = ds.loader(
            batch_size=DOCUMENTS_A_BATCH,
            shuffle=True,
            seed=SEED,
            collate={"tokens": "concat"},
        )
        return two_epochs(loader, _count, int(lengths.sum()))


def cut(workspace: Workspace) -> Measurement:
    return _packed(workspace, split=True)


def whole(workspace: Workspace) -> Measurement:
    return _packed(workspace, split=False)


def _packed(workspace: Workspace, *, split: bool) -> Measurement:
    with _documents(workspace) as ds:
        packed = ds.pack("tokens", LENGTH, eos=EOS, split=split)
        loader = packed.loader(batch_size=BATCH, shuffle=True, seed=SEED)
        return two_epochs(loader, _count, len(loader.plan) * LENGTH)  # padding is below 0.1%


def steps(workspace: Workspace) -> Measurement:
    with _rows(workspace) as ds:
        loader = ds.loader(batch_size=WINDOWS_A_BATCH * SIZE, columns=["tokens"])
        return two_epochs(loader, lambda batch: len(batch["tokens"]), len(ds))


def windows(workspace: Workspace) -> Measurement:
    """The rows of all windows, in the order of the dataset: as many as the plain loader has."""
    with _rows(workspace) as ds:
        made = ds.windows("tokens", by="episode", size=SIZE, step=1)
        loader = made.loader(batch_size=WINDOWS_A_BATCH)
        return two_epochs(loader, lambda batch: batch["tokens"].shape[0] * SIZE, len(made) * SIZE)


def rank_of_four(workspace: Workspace, *, balance: str | None) -> Measurement:
    with _documents(workspace) as ds:
        loader = ds.loader(
            batch_size=DOCUMENTS_A_BATCH,
            shuffle=True,
            seed=SEED,
            collate={"tokens": "concat"},
            drop_last=True,
            balance=balance,
            rank=0,
            world_size=WORLD_SIZE,
        )
        rows = len(ds) // (WORLD_SIZE * DOCUMENTS_A_BATCH) * DOCUMENTS_A_BATCH
        return two_epochs(loader, _count_documents, rows, counted=COUNTED)


def _count_documents(batch: dict[str, Any]) -> int:
    return len(batch["tokens_offsets"]) - 1


def _count(batch: dict[str, Any]) -> int:
    return batch["tokens"].size


BENCHMARKS = (
    Benchmark(
        name="loader-pack",
        question=f"a shuffled epoch of documents packed into sequences of {LENGTH} tokens",
        unit="tokens/s",
        contenders=(
            Contender(BY_ROWS, rows_of_one_length),
            Contender(PLAIN, concatenated),
            Contender(BY_HAND, by_hand),
            Contender(CUT, cut),
            Contender(WHOLE, whole),
        ),
        goals=(
            Goal(CUT, PLAIN, at_least=0.95, per="CPU second"),
            Goal(WHOLE, PLAIN, at_least=0.95, per="CPU second"),
            Goal(CUT, BY_HAND, at_least=0.5, per="CPU second"),
        ),
        prepare=prepare,
    ),
    Benchmark(
        name="loader-windows",
        question=f"an epoch of windows of {SIZE} adjacent rows, one at each row, beside plain rows",
        unit="rows/s",
        contenders=(Contender(STEPS, steps), Contender(WINDOWS, windows)),
        goals=(Goal(WINDOWS, STEPS, at_least=0.5, per="CPU second"),),
        prepare=prepare,
    ),
    Benchmark(
        name="loader-balance",
        question=f"a rank of {WORLD_SIZE}: a shuffled epoch of documents, balanced or not",
        unit="documents/s",
        contenders=(
            Contender(SHUFFLED, partial(rank_of_four, balance=None)),
            *(Contender(name, partial(rank_of_four, balance=by)) for by, name in BALANCED.items()),
        ),
        goals=tuple(
            Goal(name, SHUFFLED, at_least=0.8, per="CPU second") for name in BALANCED.values()
        ),
        prepare=prepare,
    ),
)
