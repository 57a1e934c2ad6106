"""Ingestion on a Ray cluster: workers read new items and store their rows, one process publishes.

    here:     list ──► deal items in tasks ──► adopt rows, in the order of the items ──► commit
    worker:            read ──► convert ──► packs ──► addresses and digests of the rows

The source is listed here, once; a worker has the source without its items, and the dataset, at the
version at which the call found it. Rows of a worker that is lost are read again by another, and the
packs of the lost one are garbage. Items that are known already are read and compared here: their
rows are here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice, tee
from typing import Any

from tensorlake.dataset import (
    Actors,
    Dataset,
    IngestReport,
    Job,
    KnownSource,
    Needs,
    NewItems,
    NewRows,
    SkippedItem,
    actors_of,
    check_installed,
    refuse_memory,
    sendable,
    session_of,
    workers_on,
)
from tensorlake.format import TensorSpec
from tensorlake.ingest.engine.options import WORKERS_LIMIT, OnError
from tensorlake.ingest.engine.pieces import Pieces
from tensorlake.ingest.engine.readahead import (
    STAGED_NBYTES,
    LoadedItems,
    load_items,
    read_ahead,
)
from tensorlake.ingest.engine.source import Refused, Source
from tensorlake.ingest.engine.tensors import tensors_of
from tensorlake.ingest.engine.valid_rows import stage_valid
from tensorlake.storage import open_store, parallel_map
from tensorlake.versions import StoredRows

__all__ = ["Elsewhere", "StoredItems", "StoredPart"]

TASK_NBYTES = 128 << 20
TASKS_A_WORKER = 4
"""Tasks have up to 128 MiB of the source, two packs, and there are a few for each worker: packs and
chunks are large, and the loss with a worker, and the wait for the last, are small."""

AHEAD_A_WORKER = 2

ADVICE = "ask for fewer workers for each node, or ingest it here: engine='threads'"


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Items that were read, checked and staged together.

    Attributes:
        items: The items.
        refused: Those left out, or rows of theirs.
        num_rows: The rows stored.
        digest: The digest of a piece; 0 for items known by name.
    """

    items: range
    refused: Sequence[Refused]
    num_rows: int
    digest: int


@dataclass(frozen=True, slots=True)
class StoredItems:
    """The items of a task, stored by a worker.

    Attributes:
        parts: The items, in order.
        rows: Their rows: with digests, for items known by name.
        left_out: Parts of the source that reading found to have no rows.
    """

    parts: Sequence[StoredPart]
    rows: NewItems | StoredRows
    left_out: Sequence[SkippedItem]

    def after(self, start: int) -> StoredItems:
        """Count items from the first of the source, of which ``start`` come before."""
        parts = [
            replace(one, items=range(one.items.start + start, one.items.stop + start))
            for one in self.parts
        ]
        rows = self.rows
        if isinstance(rows, NewItems):
            rows = replace(rows, items=rows.items + start)
        return replace(self, parts=parts, rows=rows)


class Elsewhere:
    """A call's cluster.

    Args:
        url: URL of the dataset.
        call: The name of the importer.
        workers: Workers that the user asked for; None: as many as the cluster holds.
        open_arguments: As in ``tl.open``.

    Raises:
        InvalidInputError: The dataset is in the memory of this process.
        MissingExtraError: Ray is not installed.
    """

    def __init__(
        self, url: str, call: str, workers: int | None, open_arguments: Mapping[str, Any]
    ) -> None:
        self._call, self._wanted = f"tl.ingest.{call}(engine='ray')", workers
        store = open_store(url, storage_options=open_arguments.get("storage_options"))
        refuse_memory(
            store,
            call=self._call,
            instead="give a destination that they do, or ingest it here: engine='threads'",
        )
        check_installed(self._call)
        self._opened = b""

    def open(self, dataset: Dataset) -> None:
        """Take the version that workers open; nothing is staged."""
        self._opened = pickle.dumps(dataset)

    @contextmanager
    def reading(
        self,
        dataset: Dataset,
        source: Source[Any],
        batches: Iterator[list[range]],
        known: KnownSource,
        *,
        on_error: OnError,
        is_new: Callable[[int], bool],
    ) -> Generator[
        tuple[
            Iterator[list[range]],
            Callable[[Source[Any], list[range]], Iterator[StoredItems | LoadedItems]],
        ]
    ]:
        """Start workers that read batches ahead.

        Args:
            dataset: The dataset, with new classes staged.
            source: The source.
            batches: Items to read.
            known: The source as the ledger is to have it.
            on_error: As in an ingestion.
            is_new: Whether an item is read by workers.

        Yields:
            The batches, and a function that returns the items of each in turn.

        Raises:
            InvalidInputError: No node has room for a worker, or the source cannot be sent to one.
        """
        first = next(batches, None)
        if first is None:  # no worker is needed
            yield iter(()), _nothing
            return
        batches = chain([first], batches)
        workers = min(WORKERS_LIMIT, workers_on(Needs(), call=self._call, wanted=self._wanted))
        numbers = [id_ for _, id_ in known.tensors]
        parts = (self._opened, self._sent(dataset, source, numbers, on_error))
        job = Job(self._call, _Storing, parts, ADVICE)
        batches, dealt = tee(batches)
        largest = sum(source.sizes) // (TASKS_A_WORKER * workers)
        size = min(TASK_NBYTES, max(STAGED_NBYTES, largest))

        def tasks_of(batch: list[range]) -> Iterator[range]:
            for run in batch:
                yield from source.cut(run, size if is_new(run.start) else STAGED_NBYTES)

        def run(task: range) -> Sequence[StoredItems | LoadedItems]:
            if is_new(task.start):
                return [_run(actors, source, task)]
            return load_items(source, task, is_strict=on_error == "raise")

        with (
            ThreadPoolExecutor(workers, "tensorlake-ingest-ray") as pool,
            actors_of(job, workers=workers, needs=Needs()) as actors,
        ):
            tasks = chain.from_iterable(map(tasks_of, dealt))
            ahead = AHEAD_A_WORKER * workers - 1
            results = parallel_map(run, tasks, pool=pool, ahead=ahead)

            def read(_: Source[Any], batch: list[range]) -> Iterator[StoredItems | LoadedItems]:
                count = sum(1 for _ in tasks_of(batch))
                return chain.from_iterable(islice(results, count))

            yield batches, read

    def _sent(
        self, dataset: Dataset, source: Source[Any], numbers: Sequence[str], on_error: OnError
    ) -> bytes:
        session = session_of(dataset)
        committed = session.committed.schema
        changed = [
            spec for spec in session.snapshot().schema.tensors if spec != committed.by_id(spec.id)
        ]
        bare = replace(
            source,
            items=(),
            sizes=(),
            stamp=None,
            file=None,
            may_be_there=None,
            fingerprint=None,
            in_order=None,
            cut_item=None,
        )
        given = _Given(bare, changed, tensors_of(dataset, source), numbers, on_error)
        advice = "ingest it here: engine='threads'"
        return sendable(given, what=f"the source of {self._call}", advice=advice)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a worker has beside the dataset.

    Attributes:
        source: The source, without items.
        changed: Tensors with classes that are staged.
        tensors: The tensors that the source fills.
        numbers: Their ids, in the order of the ledger.
        on_error: As in an ingestion.
    """

    source: Source[Any]
    changed: Sequence[TensorSpec]
    tensors: Sequence[str]
    numbers: Sequence[str]
    on_error: OnError


class _Storing:
    """The work of a worker."""

    def __init__(self, dataset: Dataset, given: _Given) -> None:
        self._dataset, self._given = dataset, given
        self._pool = ThreadPoolExecutor(1, "tensorlake-ingest-read")

    def __call__(self, task: tuple[Sequence[Any], Sequence[int]]) -> StoredItems:
        """Read items and store their rows."""
        items, sizes = task
        try:
            return self._stored(replace(self._given.source, items=items, sizes=sizes))
        finally:
            self._dataset.discard()

    def _stored(self, source: Source[Any]) -> StoredItems:
        given, session = self._given, session_of(self._dataset)
        known = len(source.left_out)
        with session.lock:
            for spec in given.changed:
                session.staging().change_spec(spec, what="names")
        pieces = Pieces(self._dataset, source, IngestReport())
        rows = NewRows(
            session, tensors=given.tensors, numbers=given.numbers, content=source.content
        )
        parts: list[StoredPart] = []
        loading = read_ahead(
            source,
            [range(len(source.items))],
            pool=self._pool,
            ahead=1,
            is_strict=given.on_error == "raise",
        )
        for loaded in loading:
            stage = pieces.add if source.by_position else rows.add
            refused, count = stage_valid(
                self._dataset, source, loaded, stage, on_error=given.on_error
            )
            digest = pieces.take_digest() if source.by_position else 0
            parts.append(StoredPart(loaded.items, refused, count, digest))
        stored = session.staging().store() if source.by_position else rows.stored()
        return StoredItems(parts, stored, [*source.left_out][known:])


def _nothing(_source: Source[Any], _batch: list[range]) -> Iterator[StoredItems | LoadedItems]:
    return iter(())


def _run(actors: Actors, source: Source[Any], task: range) -> StoredItems:
    """Have a worker store the rows of some items."""
    items, sizes = source.items[task.start : task.stop], source.sizes[task.start : task.stop]
    first = source.name(source.items[task.start])
    described = f"{first!r} and the {len(task) - 1:,} items after it of {source.place!r}"
    stored: StoredItems = actors.run((items, sizes), lambda: described)
    return stored.after(task.start)
