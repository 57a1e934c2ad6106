"""The ingestion loop: batches with keys, commits, invalid items, progress.

Commits of an interrupted run are recognised by their notes (`resumption.py`), and their items are
not read again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from os import PathLike
from typing import Any

from tensorlake.dataset import (
    Dataset,
    IngestReport,
    Progress,
    SkippedItem,
    create,
    exists,
    open_dataset,
    session_of,
    stage_header,
)
from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    TensorlakeError,
    UnknownClassError,
    shown,
)
from tensorlake.ingest.engine.options import IngestOptions, Mode, OnError
from tensorlake.ingest.engine.provenance import MEMBER, Note
from tensorlake.ingest.engine.quarantine import Quarantine
from tensorlake.ingest.engine.readahead import LoadedItems, read_ahead
from tensorlake.ingest.engine.resumption import (
    Start,
    check_skipped,
    class_additions,
    find_start,
)
from tensorlake.ingest.engine.source import DIGEST_NBYTES, Item, Refused, Source
from tensorlake.quantities import parse_nbytes, plural
from tensorlake.storage import place_text
from tensorlake.types import as_type
from tensorlake.versions import CommitRequest

__all__ = ["run_ingest"]

DRY_RUN_ROWS = 3
"""Rows that a dry run shows."""

DEFAULT_WORKERS = max(2, min(4, os.cpu_count() or 1))
"""Pieces read ahead, one per thread: more threads than processors would mostly wait for the
interpreter lock, and take it from the thread that stages."""

PLACE = re.compile(r"row [\d,]+ of extend\(\)")
PLACE_FIRST = re.compile(rf"^{PLACE.pattern}: ?")


def run_ingest(
    source: Source[Item],
    url: str | PathLike[str],
    *,
    mode: Mode = "create",
    on_error: OnError = "raise",
    commit_every: int | str = "8GiB",
    workers: int | None = None,
    progress: bool | None = None,
    dry_run: bool = False,
    **open_arguments: Any,
) -> Dataset:
    """Ingest a source into a dataset, in commits of about ``commit_every``.

    Args:
        source: The source.
        url: Path or URL of the dataset.
        mode: "append" adds to an existing dataset.
        on_error: "skip" leaves out invalid items; "quarantine" also writes them, with the
            reason, to the dataset ``<url>-quarantine``.
        commit_every: Source bytes per commit.
        workers: Number of read-ahead threads.
        progress: Whether to show progress; None: only on a terminal.
        dry_run: Write nothing, and return a dataset in memory: the schema, and the first rows.
        **open_arguments: ``storage_options``, ``durability`` and ``token``, as in ``tl.open``.

    Raises:
        InvalidInputError: An item is invalid (and ``on_error`` is "raise"); earlier commits
            remain.
    """
    if on_error not in {"raise", "skip", "quarantine"}:
        message = f"on_error must be 'raise', 'skip' or 'quarantine', got {shown(on_error)}"
        raise InvalidInputError(message, actual=on_error)
    unknown = sorted(open_arguments.keys() - IngestOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted(IngestOptions.__annotations__))
        message = (
            f"tl.ingest.{source.kind}() got an unexpected argument {unknown[0]!r};"
            f" common arguments: {known}"
        )
        raise TypeError(message)
    threads = DEFAULT_WORKERS if workers is None else workers
    size = parse_nbytes(commit_every, name="commit_every", least=1)
    if dry_run:
        return _dry_run(source, on_error=on_error)
    url = place_text(url, what="dst")
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
        reading = partial(
            read_ahead, source, pool=pool, ahead=threads, is_strict=on_error == "raise"
        )
        is_new = mode == "create" and not exists(url, **_place(open_arguments))
        # Creating a durable dataset takes a while; the disk can read the first batch meanwhile.
        begun = {one: reading(one) for one in islice(source.cut(everything, size), int(is_new))}
        dataset = _destination(source, url, mode, open_arguments, is_new=is_new)
        start = Start() if is_new else find_start(dataset, source, mode, size=size)
        if on_error == "raise":
            check_skipped(dataset, source, start.skipped)
        report.already_there = start.num_rows
        report.skipped += start.skipped.named
        report.skipped_unnamed = start.skipped.count - len(start.skipped.named)
        unnoted: list[SkippedItem] = []
        done = range(start.stop)
        bar.advance(source.nbytes(done), start.num_rows)
        digest = hashlib.blake2b(source.identity(done), digest_size=DIGEST_NBYTES)
        quarantine = Quarantine(url, open_arguments) if on_error == "quarantine" else None
        noted = start.stop
        for batch in source.cut(everything[start.stop :], size):
            before = len(dataset)
            for loaded in begun.pop(batch, None) or reading(batch):
                refused, num_staged = _stage(dataset, source, loaded, on_error=on_error)
                unnoted += [item for item, _ in refused]
                report.skipped += [item for item, _ in refused]
                if quarantine is not None:
                    quarantine.stage(refused)
                bar.advance(source.nbytes(loaded.items), num_staged, skipped=len(refused))
            rows = len(dataset) - before
            digest.update(source.identity(batch))
            key = f"{source.key_start}{start.run}:{digest.hexdigest()}"
            if quarantine is not None:
                report.quarantine = quarantine.commit(
                    key
                )  # first: committed items are not read again
            if rows and source.header is not None:
                stage_header(
                    session_of(dataset), source.kind, source.header, replaces=mode == "create"
                )
            if rows:  # without rows there is no commit, and the next one records these items too
                items = range(noted, batch.stop)
                named = digest.hexdigest()
                note = Note.of(start.run, source, batch.stop, named, items, unnoted)
                message = f"ingest {source.kind}: {plural(rows, 'row')}"
                session_of(dataset).commit(
                    CommitRequest(message, key=key, meta={MEMBER: note.to_json()})
                )
                report.commits.append(dataset.version)
                noted, unnoted = batch.stop, []
            report.rows += rows
            report.nbytes += source.nbytes(batch)
        report.skipped += source.left_out
        if quarantine is not None:
            report.quarantine = quarantine.add(source.left_out) or report.quarantine
            if start.skipped.count:
                report.quarantine = report.quarantine or quarantine.found()
        report.seconds = time.monotonic() - started
        report.url, report.version = url, dataset.version
        bar.finish(str(report))
    dataset.ingest_report = report
    return dataset


def _dry_run(source: Source[Item], *, on_error: OnError) -> Dataset:
    """Ingest the first few rows into a dataset in memory with a random, private name."""
    dataset = create(f"memory://ingest-dry-run-{secrets.token_hex(8)}", source.schema)
    items = range(min(DRY_RUN_ROWS, len(source.items)))
    loaded = LoadedItems.of(items, source.load(source.items[: items.stop]))
    columns = {name: values[:DRY_RUN_ROWS] for name, values in loaded.columns.items()}
    report = IngestReport(nbytes=source.nbytes(items))
    refused, _ = _stage(dataset, source, replace(loaded, columns=columns), on_error=on_error)
    report.skipped += [*(item for item, _ in refused), *source.left_out]
    dataset.commit("dry run")
    report.rows = len(dataset)
    dataset.ingest_report = report
    return dataset


def _place(open_arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that locate the dataset."""
    return {name: one for name, one in open_arguments.items() if name != "durability"}


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
        raise InvalidInputError(f"mode must be 'create' or 'append', got {shown(mode)}")
    if is_new:
        return create(url, source.schema, **open_arguments)
    try:
        return open_dataset(url, **open_arguments)
    except DatasetNotFoundError:
        # it exists, but its creator was killed before the first commit record
        return create(url, source.schema, **open_arguments)


def _stage(
    dataset: Dataset, source: Source[Item], loaded: LoadedItems, *, on_error: OnError
) -> tuple[list[Refused], int]:
    """Stage items; invalid rows are named, and left out unless ``on_error`` is "raise".

    Returns:
        The items left out, and the number of rows staged.
    """
    items = source.items[loaded.items.start : loaded.items.stop]
    if loaded.error is not None:
        return [_refused(source.name(items[0]), loaded.error, {})], 0
    schema = dataset.schema
    columns = {
        tensor: values
        for tensor, values in loaded.columns.items()
        if tensor in schema or tensor not in source.optional
    }
    num_staged = 0
    refused: dict[int, Refused] = {}
    waiting = [(0, _num_rows(columns))]  # runs of rows, the next one last
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        try:
            dataset.extend({tensor: values[start:stop] for tensor, values in columns.items()})
        except TensorlakeError as error:
            at = error.facts.get("row")
            if not isinstance(at, int) or not 0 <= at < stop - start:
                raise
            row = start + at
            name = loaded.row_name(row) if loaded.row_name else source.row_called(items, row)
            if on_error == "raise":
                message = f"{name}: {_described(error, name)}{_advice(dataset, source, error)}"
                raise type(error)(message, **{**error.facts, "item": name}) from error
            values = {tensor: values[row] for tensor, values in columns.items()}
            refused[row] = _refused(name, error, values)
            # In halves, so that many invalid rows do not convert valid rows as many times
            middle = (row + 1 + stop) // 2
            waiting += [(middle, stop), (row + 1, middle), (start, row)]
        else:
            num_staged += stop - start
    return [*loaded.refused, *(refused[row] for row in sorted(refused))], num_staged


def _advice(dataset: Dataset, source: Source[Item], error: TensorlakeError) -> str:
    """Explain types that come from the existing dataset, or that ``schema=`` can set."""
    tensor = error.facts.get("tensor")
    if not isinstance(tensor, str) or tensor not in source.schema or tensor not in dataset.schema:
        return ""
    here, there = as_type(source.schema[tensor]), dataset.schema[tensor]
    additions = class_additions(dataset, source)
    if isinstance(error, UnknownClassError) and additions:
        return f"\nadd the new classes, and repeat the call: {additions}"
    if here != there:
        url = dataset.url
        return (
            f"\ntensor {tensor!r} of the existing dataset is {there.describe()}, and"
            f" {here.describe()} in this call; to start over: tl.delete({url!r}, confirm={url!r})"
        )
    if source.takes_schema and "use Image(" in error.message:
        return f"\nto set the type: schema={{{tensor!r}: tl.Image(…)}}"
    return ""


def _refused(name: str, error: TensorlakeError, values: Mapping[str, Any]) -> Refused:
    tensor = error.facts.get("tensor")
    reason = _described(error, name).splitlines()[0]
    return SkippedItem(name, reason, tensor if isinstance(tensor, str) else None), values


def _described(error: TensorlakeError, name: str) -> str:
    """Describe the error of an item, without naming our internal call of ``extend()``."""
    return PLACE.sub(name.replace("\\", r"\\"), PLACE_FIRST.sub("", error.message))


def _num_rows(columns: Mapping[str, Any]) -> int:
    return len(next(iter(columns.values())))
