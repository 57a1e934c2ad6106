"""Running an ingestion: batches with keys, commits, bad items, progress.

A source is a list of items (small: a path and what is known of it) in a fixed order. Batches are
cut by bytes alone, so the same source gives the same batches; a batch's key is a digest of its
items. What a killed run committed is recognised by its keys and not read again.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.progress import Progress
from tensorlake.dataset.ingest.quarantine import Quarantine
from tensorlake.dataset.ingest.report import IngestReport, SkippedItem
from tensorlake.dataset.open import create, exists, open_dataset
from tensorlake.dataset.words import plural
from tensorlake.errors import DatasetNotFoundError, InvalidInputError, TensorlakeError

__all__ = ["Mode", "OnError", "Source", "parse_size", "run_ingest"]

Item = TypeVar("Item")
Mode = Literal["create", "append"]
OnError = Literal["raise", "skip", "quarantine"]

STAGED_NBYTES = 8 << 20
"""Source bytes read, checked and staged together: whole-column conversion, bounded memory."""

ROWS_LOOKED_AT = 3
"""By a dry run."""

DEFAULT_WORKERS = 4
"""Pieces read ahead of their use, one a thread."""

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|KiB|MiB|GiB)?")
SIZE_UNITS = {
    None: 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """What is to be ingested.

    Attributes:
        kind: Name of the format, part of the keys.
        schema: Types of the tensors.
        items: In the order of the rows to be.
        sizes: Bytes of each item, known without reading it.
        name: What errors and the report call an item; part of the keys.
        load: Read items into columns; called with a few hundred at once, in a thread.
        row_name: What a row of loaded items is called, where an item has several rows.
        place: Where it comes from, as progress says it; the kind where it is in memory.
        maker: What else decides the rows that items become, such as a tokenizer; part of the keys.
    """

    kind: str
    schema: Mapping[str, Any]
    items: Sequence[Item]
    sizes: Sequence[int]
    name: Callable[[Item], str]
    load: Callable[[Sequence[Item]], Mapping[str, Any]]
    row_name: Callable[[Sequence[Item], int], str] | None = None
    place: str = ""
    maker: str = ""

    @property
    def key_start(self) -> str:
        """What the keys of all its commits begin with, and those of no other making do."""
        return f"ingest:{self.kind}:" + (f"{self.maker}:" if self.maker else "")

    def row_called(self, items: Sequence[Item], row: int) -> str:
        """What a row of loaded items is called."""
        return self.name(items[row]) if self.row_name is None else self.row_name(items, row)


def run_ingest(
    source: Source[Item],
    url: str | Path,
    *,
    mode: Mode = "create",
    on_error: OnError = "raise",
    commit_every: str = "8GiB",
    workers: int | None = None,
    progress: bool | None = None,
    dry_run: bool = False,
    **open_arguments: Any,
) -> Dataset:
    """Ingest a source into a dataset, in commits of about ``commit_every``.

    Args:
        source: What is to be ingested.
        url: Path or URL of the dataset.
        mode: "append" adds to a dataset that exists.
        on_error: "skip" leaves out what cannot be taken; "quarantine" also puts it, with the
            reason, into the dataset ``<url>-quarantine``.
        commit_every: Source bytes a commit.
        workers: Threads that read ahead.
        progress: Whether to show progress; None: on a terminal.
        dry_run: Write nothing, and return a dataset in memory: the schema, and the first rows.
        **open_arguments: ``storage_options`` and ``durability``, as in ``tl.open``.

    Raises:
        InvalidInputError: An item cannot be taken (and ``on_error`` is "raise"); what was
            committed before stays.
    """
    if on_error not in {"raise", "skip", "quarantine"}:
        message = f"on_error={on_error!r}: give 'raise', 'skip' or 'quarantine'"
        raise InvalidInputError(message, actual=on_error)
    threads = DEFAULT_WORKERS if workers is None else workers
    if threads < 1:
        raise InvalidInputError(f"workers={workers}: give a number of threads, 1 or more")
    size = parse_size(commit_every)
    if dry_run:
        return _look_at(source, on_error=on_error)
    report = IngestReport()
    started = time.monotonic()
    everything = range(len(source.items))
    total = sum(source.sizes)
    what = f"ingest {source.place or source.kind} → {url}"
    rows_known = len(everything) if source.row_name is None else None
    with (
        ThreadPoolExecutor(threads, thread_name_prefix="tensorlake-ingest") as pool,
        Progress(what, total=total, rows=rows_known, shown=progress) as bar,
    ):
        reading = partial(_Reading, source, pool=pool, ahead=threads)
        batches = list(_cut(source, everything, size))
        is_new = mode == "create" and not exists(str(url), **_storage_options(open_arguments))
        # A new dataset takes a while to be made durable, in which the disk has time for reading.
        begun = {batch: reading(batch) for batch in batches[:1] if is_new}
        dataset = _destination(source, str(url), mode, open_arguments, is_new=is_new)
        known = {key: commit.changes.append for commit in dataset.log() for key in commit.keys}
        quarantine = Quarantine(str(url), open_arguments) if on_error == "quarantine" else None
        for batch in batches:
            key, nbytes = _key(source, batch), _nbytes(source, batch)
            if key in known:
                report.already_there += known[key]
                bar.advance(nbytes, known[key])
                continue
            before = len(dataset)
            for piece, columns in begun.pop(batch, None) or reading(batch):
                items = source.items[piece.start : piece.stop]
                refused = _stage(dataset, source, items, columns, on_error=on_error)
                report.skipped += [item for item, _ in refused]
                if quarantine is not None:
                    quarantine.stage(refused)
                taken = _num_rows(columns) - len(refused)
                bar.advance(_nbytes(source, piece), taken, skipped=len(refused))
            rows = len(dataset) - before
            if quarantine is not None:
                report.quarantine = quarantine.commit(key)  # first: what is committed is not read
            dataset.commit(f"ingest {source.kind}: {plural(rows, 'row')}", key=key)
            report.rows += rows
            report.nbytes += nbytes
        report.seconds = time.monotonic() - started
        report.url, report.version = str(url), dataset.version
        bar.finish(str(report))
    dataset.ingest_report = report
    return dataset


def _look_at(source: Source[Item], *, on_error: OnError) -> Dataset:
    """Ingest the first few rows into a dataset in memory, that nobody else can open by chance."""
    dataset = create(f"memory://ingest-dry-run-{secrets.token_hex(8)}", source.schema)
    items = source.items[:ROWS_LOOKED_AT]
    columns = {name: values[:ROWS_LOOKED_AT] for name, values in source.load(items).items()}
    report = IngestReport(nbytes=sum(source.sizes[: len(items)]))
    report.skipped += [
        item for item, _ in _stage(dataset, source, items, columns, on_error=on_error)
    ]
    dataset.commit("dry run")
    report.rows = len(dataset)
    dataset.ingest_report = report
    return dataset


def parse_size(text: str) -> int:
    """Read a size such as "8GiB" as bytes.

    >>> parse_size("64MiB")
    67108864
    """
    found = SIZE.fullmatch(str(text).strip())
    if found is None or float(found[1]) <= 0:
        raise InvalidInputError(f"{text!r} is no size; give one such as '8GiB' or '500MB'")
    return int(float(found[1]) * SIZE_UNITS[found[2]])


def _storage_options(open_arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {k: v for k, v in open_arguments.items() if k == "storage_options"}


def _destination(
    source: Source[Item],
    url: str,
    mode: Mode,
    open_arguments: Mapping[str, Any],
    *,
    is_new: bool,
) -> Dataset:
    if mode == "append":
        return open_dataset(url, **open_arguments)
    if mode != "create":
        raise InvalidInputError(f"mode={mode!r}: give 'create' or 'append'")
    if is_new:
        return create(url, source.schema, **open_arguments)
    try:
        dataset = open_dataset(url, **open_arguments)
    except DatasetNotFoundError:  # it is there: who made it was killed before its first entry
        return create(url, source.schema, **open_arguments)
    mine = source.key_start
    foreign = next(
        (c for c in dataset.log()[:-1] if not any(key.startswith(mine) for key in c.keys)), None
    )
    if foreign is not None:
        maker = f", not made by {source.maker}" if source.maker else ""
        raise InvalidInputError(
            f"there is a dataset at {url!r} with other commits ({foreign.version}:"
            f" {foreign.message!r}){maker}\nto use it as it is: tl.open({url!r});"
            " to add to it give mode='append'; else choose another URL",
            dataset=url,
        )
    return dataset


def _cut(source: Source[Item], items: range, size: int) -> Iterator[range]:
    """Cut items into runs of about ``size`` bytes, the same for the same items."""
    start, nbytes = items.start, 0
    for at in items:
        if nbytes and nbytes + source.sizes[at] > size:
            yield range(start, at)
            start, nbytes = at, 0
        nbytes += source.sizes[at]
    if start < items.stop:
        yield range(start, items.stop)


def _nbytes(source: Source[Item], items: range) -> int:
    return sum(source.sizes[items.start : items.stop])


def _key(source: Source[Item], batch: range) -> str:
    named = "".join(f"{source.name(source.items[at])}\0{source.sizes[at]}\0" for at in batch)
    digest = hashlib.blake2b(named.encode(), digest_size=16).hexdigest()
    return f"{source.key_start}{digest}"


class _Reading(Generic[Item]):
    """A batch that is read piece by piece, a few pieces ahead of their use."""

    def __init__(
        self, source: Source[Item], batch: range, *, pool: ThreadPoolExecutor, ahead: int
    ) -> None:
        self._source = source
        self._pool = pool
        self._pieces = list(_cut(source, batch, STAGED_NBYTES))
        self._ahead = ahead
        self._begun = [self._load(piece) for piece in self._pieces[:ahead]]

    def __iter__(self) -> Iterator[tuple[range, Mapping[str, Any]]]:
        """Yield each piece with its columns, once."""
        for at, piece in enumerate(self._pieces):
            columns = self._begun.pop(0).result()
            if at + self._ahead < len(self._pieces):
                self._begun.append(self._load(self._pieces[at + self._ahead]))
            yield piece, columns

    def _load(self, piece: range) -> Future[Mapping[str, Any]]:
        return self._pool.submit(self._source.load, self._source.items[piece.start : piece.stop])


def _stage(
    dataset: Dataset,
    source: Source[Item],
    items: Sequence[Item],
    columns: Mapping[str, Any],
    *,
    on_error: OnError,
) -> list[tuple[SkippedItem, Mapping[str, Any]]]:
    """Stage items; rows that do not fit are named, and left out unless ``on_error`` is "raise"."""
    left = np.arange(_num_rows(columns))
    refused: list[tuple[SkippedItem, Mapping[str, Any]]] = []
    while len(left):
        try:
            dataset.extend(columns)
        except TensorlakeError as error:
            row = error.facts.get("row")
            if not isinstance(row, int) or not 0 <= row < len(left):
                raise
            name = source.row_called(items, int(left[row]))
            if on_error == "raise":
                raise type(error)(
                    f"{name}: {error.message}", **{**error.facts, "item": name}
                ) from error
            values = {tensor: values[row] for tensor, values in columns.items()}
            refused.append((SkippedItem(name, error.message.splitlines()[0]), values))
            left = np.delete(left, row)
            columns = {tensor: _without(values, row) for tensor, values in columns.items()}
        else:
            break
    return refused


def _num_rows(columns: Mapping[str, Any]) -> int:
    return len(next(iter(columns.values())))


def _without(values: Any, row: int) -> Any:
    if isinstance(values, np.ndarray):
        return np.delete(values, row, axis=0)
    return [*values[:row], *values[row + 1 :]]
