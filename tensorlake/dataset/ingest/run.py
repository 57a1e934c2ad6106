"""Running an ingestion: batches with keys, commits, bad items, progress.

A source is a list of items (small: a path and what is known of it) in a fixed order. Batches are
cut by bytes alone, so the same source gives the same batches; a batch's key is a digest of its
items. What a killed run committed is recognised by its keys and not read again.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.progress import Progress
from tensorlake.dataset.open import create, exists, open_dataset
from tensorlake.dataset.words import human_nbytes, plural
from tensorlake.errors import InvalidInputError, TensorlakeError, UnsupportedFeatureError

__all__ = ["IngestReport", "Mode", "OnError", "SkippedItem", "Source", "run_ingest"]

Item = TypeVar("Item")
Mode = Literal["create", "append"]
OnError = Literal["raise", "skip"]

STAGED_NBYTES = 8 << 20
"""Source bytes read, checked and staged together: whole-column conversion, bounded memory."""

READ_AHEAD_THREADS = 4

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
class SkippedItem:
    """A source item that could not be taken, and why."""

    item: str
    reason: str


@dataclass(slots=True)
class IngestReport:
    """What an ingestion did.

    Attributes:
        rows: Rows committed by this call.
        nbytes: Bytes of the source items read.
        already_there: Rows that an earlier run had committed.
        skipped: Items left out, with ``on_error="skip"``.
    """

    rows: int = 0
    nbytes: int = 0
    already_there: int = 0
    seconds: float = 0.0
    skipped: list[SkippedItem] = field(default_factory=list[SkippedItem])

    def __str__(self) -> str:
        rate = human_nbytes(int(self.nbytes / max(self.seconds, 1e-9)))
        text = (
            f"ingested {plural(self.rows, 'row')} ({human_nbytes(self.nbytes)})"
            f" in {self.seconds:.1f} s, {rate}/s"
        )
        if self.already_there:
            text += f"; {plural(self.already_there, 'row')} were there already"
        if self.skipped:
            text += f"; {plural(len(self.skipped), 'item')} skipped: ds.ingest_report.skipped"
        return text


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
    """

    kind: str
    schema: Mapping[str, Any]
    items: Sequence[Item]
    sizes: Sequence[int]
    name: Callable[[Item], str]
    load: Callable[[Sequence[Item]], Mapping[str, Any]]


def run_ingest(
    source: Source[Item],
    url: str | Path,
    *,
    mode: Mode = "create",
    on_error: OnError = "raise",
    commit_every: str = "8GiB",
    progress: bool | None = None,
    **open_arguments: Any,
) -> Dataset:
    """Ingest a source into a dataset, in commits of about ``commit_every``.

    Raises:
        InvalidInputError: An item cannot be taken (and ``on_error`` is "raise"); what was
            committed before stays.
    """
    if on_error not in {"raise", "skip"}:
        raise UnsupportedFeatureError(f"on_error={on_error!r}: give 'raise' or 'skip'")
    size = parse_size(commit_every)
    dataset = _destination(source, str(url), mode, open_arguments)
    known = {key: commit.num_rows for commit in dataset.log() for key in commit.keys}
    report = IngestReport()
    started = time.monotonic()
    everything = range(len(source.items))
    total = sum(source.sizes)
    with Progress(f"ingest {source.kind} → {url}", total=total, shown=progress) as bar:
        for batch in _cut(source, everything, size):
            key, nbytes = _key(source, batch), _nbytes(source, batch)
            if key in known:
                report.already_there += len(batch)
                bar.advance(nbytes, len(batch))
                continue
            before = len(dataset)
            for piece, columns in _loaded(source, batch):
                items = source.items[piece.start : piece.stop]
                _stage(dataset, source, items, columns, on_error=on_error, report=report)
                bar.advance(_nbytes(source, piece), len(piece))
            rows = len(dataset) - before
            dataset.commit(f"ingest {source.kind}: {plural(rows, 'row')}", key=key)
            report.rows += rows
            report.nbytes += nbytes
    report.seconds = time.monotonic() - started
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


def _destination(
    source: Source[Item], url: str, mode: Mode, open_arguments: Mapping[str, Any]
) -> Dataset:
    options = {k: v for k, v in open_arguments.items() if k == "storage_options"}
    if mode == "append":
        return open_dataset(url, **open_arguments)
    if mode != "create":
        raise InvalidInputError(f"mode={mode!r}: give 'create' or 'append'")
    if not exists(url, **options):
        return create(url, source.schema, **open_arguments)
    dataset = open_dataset(url, **open_arguments)
    mine = f"ingest:{source.kind}:"
    foreign = next(
        (c for c in dataset.log()[:-1] if not any(key.startswith(mine) for key in c.keys)), None
    )
    if foreign is not None:
        raise InvalidInputError(
            f"there is a dataset at {url!r} with other commits ({foreign.version}:"
            f" {foreign.message!r})\nto add to it give mode='append'; or choose another URL",
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
    return f"ingest:{source.kind}:{digest}"


def _loaded(source: Source[Item], batch: range) -> Iterator[tuple[range, Mapping[str, Any]]]:
    """Load a batch piece by piece, a few pieces ahead of their use."""
    pieces = list(_cut(source, batch, STAGED_NBYTES))
    with ThreadPoolExecutor(READ_AHEAD_THREADS, thread_name_prefix="tensorlake-ingest") as pool:

        def load(piece: range) -> Future[Mapping[str, Any]]:
            return pool.submit(source.load, source.items[piece.start : piece.stop])

        ahead = [load(piece) for piece in pieces[:READ_AHEAD_THREADS]]
        for at, piece in enumerate(pieces):
            columns = ahead.pop(0).result()
            if at + READ_AHEAD_THREADS < len(pieces):
                ahead.append(load(pieces[at + READ_AHEAD_THREADS]))
            yield piece, columns


def _stage(
    dataset: Dataset,
    source: Source[Item],
    items: Sequence[Item],
    columns: Mapping[str, Any],
    *,
    on_error: OnError,
    report: IngestReport,
) -> None:
    """Stage items; one that does not fit is named, and with "skip" left out."""
    while items:
        try:
            dataset.extend(columns)
        except TensorlakeError as error:
            row = error.facts.get("row")
            if not isinstance(row, int) or not 0 <= row < len(items):
                raise
            name = source.name(items[row])
            if on_error == "raise":
                raise type(error)(
                    f"{name}: {error.message}", **{**error.facts, "item": name}
                ) from error
            report.skipped.append(SkippedItem(name, error.message.splitlines()[0]))
            items = [*items[:row], *items[row + 1 :]]
            columns = {
                name: [*values[:row], *values[row + 1 :]] for name, values in columns.items()
            }
        else:
            return
