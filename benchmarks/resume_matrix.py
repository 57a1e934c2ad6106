"""Which loaders resume exactly: ``python -m benchmarks.resume_matrix``, a table as Markdown.

A loader streams 96 numbered rows, shuffled, in batches of 4 per rank. It is stopped after 5 batches
of an epoch, its state is saved, and a new loader continues from a copy of it. Each library does
this in the way that its documentation recommends, with its state, or by skipping where it has none.
The rest is compared with a pass that was not stopped:

    exact        the same batches in the same order; with other ranks, or another batch size, whose
                 batches differ: every row once
    − n, + m     n rows of the epoch were not given, m were given twice
    refused      with the words of the library
    –            not offered: there is no call for it
    not measured its ranks are those of a process group, and this is one process

A library that is not installed is named so. The table is about correctness, not speed.
"""

from __future__ import annotations

import json
import platform
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["CASES", "LOADERS", "verdict"]

ROWS, BATCH, CUT, SEED = 96, 4, 5, 7
SHOWN_LETTERS = 60


class NotOfferedError(Exception):
    """A library has no call for a case."""


class NotMeasuredError(Exception):
    """A library needs several processes for a case."""


@dataclass(frozen=True)
class Case:
    """A stream, and how it is resumed.

    Attributes:
        world: Ranks before the cut.
        resumed: Ranks after it.
        is_filtered: Only rows whose number is not divisible by 3.
        is_mixed: Two sources of 48 rows, sampled equally often.
        epoch: The epoch that is cut.
        batch: Rows of a batch after the cut.
    """

    world: int = 1
    resumed: int = 1
    is_filtered: bool = False
    is_mixed: bool = False
    epoch: int = 0
    batch: int = BATCH


CASES = {
    "1 rank": Case(),
    "2 ranks": Case(2, 2),
    "filter": Case(2, 2, is_filtered=True),
    "mix": Case(is_mixed=True),
    "epoch 1": Case(epoch=1),
    "2 → 1 ranks": Case(2, 1),
    "2 → 4 ranks": Case(2, 4),
    "filter, 2 → 4": Case(2, 4, is_filtered=True),
    "batch 4 → 6": Case(batch=6),
}

Batches = list[list[int]]
Stream = Callable[[Case, int, int, Any, int | None], tuple[Batches, Any]]
"""Streams a rank's batches: of (case, rank, world, state, batches at most); returns its state too.
A case that is resumed has a state, and ``case.batch`` counts."""


def rows_of(case: Case) -> list[int]:
    """Return the numbers of the rows that a case streams."""
    return [row for row in range(ROWS) if not case.is_filtered or row % 3]


def continued(loader: Any, case: Case, state: Any, most: int | None) -> Any:
    """Take rows from where a state was recorded, else from the case's epoch; and the new state."""
    if state is not None:
        loader.load_state_dict(state)
    else:
        for _ in range(case.epoch):
            list(loader)
    return taken(loader, most), loader.state_dict()


def taken(batches: Any, most: int | None) -> Batches:
    """Take batches of numbers, at most some."""
    found: Batches = []
    if most == 0:
        return found
    for batch in batches:
        found.append([int(row) for row in (batch["id"] if isinstance(batch, dict) else batch)])
        if len(found) == most:
            break
    return found


# Ours


def tensorlake(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``loader.state_dict()``, which every rank may load."""
    import tensorlake as tl

    url = f"memory://resume-{case.is_filtered}"
    if not tl.exists(url):
        with tl.create(url, {"id": "int64"}) as ds:
            ds.extend({"id": range(ROWS)})
            ds.commit("rows")
    ds = tl.open(url)
    rows: Any = ds.query("WHERE id % 3 != 0") if case.is_filtered else ds
    if case.is_mixed:
        halves = {"low": (ds.where("id < 48"), 0.5), "high": (ds.where("id >= 48"), 0.5)}
        rows = tl.mix(halves, stop="first")
    size = BATCH if state is None else case.batch
    loader = rows.loader(batch_size=size, shuffle=True, seed=SEED, rank=rank, world_size=world)
    if state is None:
        loader.set_epoch(case.epoch)
    else:
        loader.load_state_dict(json.loads(state))
    with loader:
        found = [*taken(loader, most)]
        return found, json.dumps(loader.state_dict())


# Others


def check_one_process(case: Case, rank: int, world: int) -> None:
    """Reject filters, and ranks of a process group.

    Raises:
        NotOfferedError: The format has no filter.
        NotMeasuredError: Ranks are those of a process group.
    """
    if case.is_filtered:
        raise NotOfferedError
    if rank or world > 1 or case.resumed > 1:
        raise NotMeasuredError


def datasets(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``IterableDataset.state_dict()`` after ``split_dataset_by_node``."""
    from datasets import Dataset, interleave_datasets
    from datasets.distributed import split_dataset_by_node

    def source(rows: Sequence[int]) -> Any:
        made = Dataset.from_dict({"id": list(rows)}).to_iterable_dataset(num_shards=8)
        made = made.filter(lambda row: row["id"] % 3 != 0) if case.is_filtered else made
        return made.shuffle(seed=SEED, buffer_size=16)

    rows = source(range(ROWS))
    if case.is_mixed:
        halves = [source(range(48)), source(range(48, ROWS))]
        rows = interleave_datasets(halves, probabilities=[0.5, 0.5], seed=SEED)
    rows = split_dataset_by_node(rows, rank=rank, world_size=world)
    rows = rows.batch(BATCH if state is None else case.batch)
    rows.set_epoch(case.epoch)
    if state is not None:
        rows.load_state_dict(state)
    return taken(rows, most), rows.state_dict()


def torchdata(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``StatefulDataLoader`` with ``StatefulDistributedSampler``."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    if case.is_mixed:
        raise NotOfferedError
    rows = rows_of(case)
    sampler = StatefulDistributedSampler(rows, num_replicas=world, rank=rank, seed=SEED)
    sampler.set_epoch(case.epoch)
    size = BATCH if state is None else case.batch
    loader = StatefulDataLoader(rows, batch_size=size, sampler=sampler)
    if state is not None:
        loader.load_state_dict(state)
    return taken(loader, most), loader.state_dict()


def accelerate(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``skip_first_batches`` of a prepared loader with a seedable sampler; a count is its state."""
    from accelerate.data_loader import prepare_data_loader, skip_first_batches
    from torch.utils.data import DataLoader

    if case.is_mixed or (state is not None and case.batch != BATCH):
        raise NotOfferedError
    loader = prepare_data_loader(
        DataLoader(rows_of(case), batch_size=BATCH, shuffle=True),
        num_processes=world,
        process_index=rank,
        use_seedable_sampler=True,
        data_seed=SEED,
        even_batches=False,
    )
    loader.set_epoch(case.epoch)
    rest = loader if state is None else skip_first_batches(loader, state // world)
    found = taken(rest, most)
    return found, len(found) * world


def grain(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``get_state()`` of an iterator of each rank's slice; of other ranks, ``ElasticIterator``."""
    import grain as package

    def source(rows: Sequence[int]) -> Any:
        return package.MapDataset.source(rows).seed(SEED).shuffle()

    rows = source(range(ROWS))
    if case.is_mixed:
        rows = package.MapDataset.mix([source(range(48)), source(range(48, ROWS))], [0.5, 0.5])
    if case.is_filtered:
        rows = rows.filter(lambda row: row % 3 != 0)
    rows = rows.repeat(case.epoch + 1)[case.epoch * ROWS :] if case.epoch else rows
    if case.resumed != case.world:
        shard = package.sharding.ShardOptions(rank, world)
        iterator = package.experimental.ElasticIterator(rows, BATCH * world, shard)
        if state is not None:
            iterator.set_state(state)
        return taken(iterator, most), iterator.get_state()
    made = rows[rank::world].to_iter_dataset().batch(BATCH if state is None else case.batch)
    iterator = iter(made)
    if state is not None:
        iterator.set_state(state)
    return taken(iterator, most), iterator.get_state()


def litdata(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``StreamingDataLoader.state_dict()``; ranks are those of a process group."""
    from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
    from litdata.streaming.writer import BinaryWriter

    check_one_process(case, rank, world)
    parts = {"all": range(ROWS), "low": range(48), "high": range(48, ROWS)}
    folder = Path(tempfile.gettempdir()) / "resume-litdata"
    for name, rows in parts.items():
        if not (folder / name / "index.json").exists():
            writer = BinaryWriter(str(folder / name), chunk_size=12)
            for at, row in enumerate(rows):
                writer[at] = {"id": row}
            writer.done()
            writer.merge()

    def source(name: str) -> Any:
        return StreamingDataset(str(folder / name), shuffle=True, seed=SEED)

    rows: Any = source("all")
    if case.is_mixed:
        halves = [source("low"), source("high")]
        rows = CombinedStreamingDataset(
            halves, seed=SEED, weights=[0.5, 0.5], iterate_over_all=False
        )
    size = BATCH if state is None else case.batch
    loader = StreamingDataLoader(rows, batch_size=size, num_workers=0)
    return continued(loader, case, state, most)


def lance(*_case: Any) -> Any:
    """``lance.torch.data.LanceDataset`` has no state."""
    raise NotOfferedError


def streaming(case: Case, rank: int, world: int, state: Any, most: int | None) -> Any:
    """``StreamingDataLoader.state_dict()``; ranks are those of a process group."""
    from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    check_one_process(case, rank, world)
    clean_stale_shared_memory()
    parts = {"all": range(ROWS), "low": range(48), "high": range(48, ROWS)}
    folder = Path(tempfile.gettempdir()) / "resume-mds"
    for name, rows in parts.items():
        if not (folder / name / "index.json").exists():
            with MDSWriter(out=str(folder / name), columns={"id": "int"}, size_limit=256) as writer:
                for row in rows:
                    writer.write({"id": row})
    size = BATCH if state is None else case.batch
    how = {"shuffle": True, "shuffle_seed": SEED, "batch_size": size, "num_canonical_nodes": 1}
    if case.is_mixed:
        halves = [Stream(local=str(folder / one), proportion=0.5) for one in ("low", "high")]
        rows: Any = StreamingDataset(streams=halves, **how)
    else:
        rows = StreamingDataset(local=str(folder / "all"), **how)
    loader = StreamingDataLoader(rows, batch_size=size, num_workers=0)
    return continued(loader, case, state, most)


LOADERS: dict[str, tuple[str, Stream]] = {
    "tensorlake": ("tensorlake-dl", tensorlake),
    "HF datasets": ("datasets", datasets),
    "torchdata": ("torchdata", torchdata),
    "Accelerate": ("accelerate", accelerate),
    "Grain": ("grain", grain),
    "LitData": ("litdata", litdata),
    "MDS": ("mosaicml-streaming", streaming),
    "Lance": ("pylance", lance),
}
"""By name: the package that pip installs, and how it streams."""


def verdict(stream: Stream, case: Case) -> str:
    """Cut a case, resume it, and compare with a pass that was not cut."""
    ranks = range(case.world)
    try:
        whole = [
            stream(replace(case, batch=BATCH), rank, case.world, None, None)[0] for rank in ranks
        ]
        begun = [stream(case, rank, case.world, None, CUT) for rank in ranks]
        states = [state for _, state in begun]
        rest = [
            stream(case, rank, case.resumed, states[rank % case.world], None)[0]
            for rank in range(case.resumed)
        ]
    except NotOfferedError:
        return "–"
    except NotMeasuredError:
        return "not measured"
    except Exception as error:  # noqa: BLE001 - the table shows what a library says
        words = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]
        return f"refused: {words[:SHOWN_LETTERS]}"
    before = [batches for batches, _ in begun]
    if case.resumed == case.world and case.batch == BATCH:
        joined = [first + second for first, second in zip(before, rest, strict=True)]
        if joined == whole:
            return "exact"
    expected, given = counted(whole), counted([*before, *rest])
    lost = sum((expected - given).values())
    twice = sum((given - expected).values())
    if lost or twice:
        return f"− {lost}, + {twice}"
    return "exact" if case.resumed != case.world or case.batch != BATCH else "other order"


def counted(parts: Sequence[Batches]) -> Counter[int]:
    """Count the rows of batches."""
    return Counter(row for batches in parts for batch in batches for row in batch)


def main() -> None:
    """Print the table."""
    print(f"Python {platform.python_version()}, {platform.system()}\n")
    print("| library | " + " | ".join(CASES) + " |")
    print("| --- |" + " --- |" * len(CASES))
    for name, (package, stream) in LOADERS.items():
        module = stream.__name__
        try:
            known = version(package)
        except PackageNotFoundError:
            known = ""
        if find_spec(module) is None:
            print(f"| {name} | " + " | ".join(["not installed"] * len(CASES)) + " |")
            continue
        found = [verdict(stream, case) for case in CASES.values()]
        print(f"| {name} {known} | " + " | ".join(found) + " |", flush=True)


if __name__ == "__main__":
    main()
