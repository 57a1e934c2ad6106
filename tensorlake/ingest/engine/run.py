"""An ingestion: compare a source with the ledger, read what may have changed, commit in batches.

Each commit has rows together with their entries in the ledger, so that the next run, after a kill
too, does what is left. `known.py` finds the source; the ledger, the comparison and the staging are
those of `tensorlake.dataset.sync`. An importer gives a `Source` and calls `run_ingest`.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import (
    Action,
    Comparison,
    Dataset,
    Entries,
    IngestReport,
    KnownSource,
    Ledger,
    NewItems,
    Progress,
    Rows,
    RowsPreview,
    SkippedItem,
    create,
    exists,
    session_of,
    stage_header,
)
from tensorlake.errors import (
    InvalidInputError,
    TensorNotFoundError,
    UnknownClassError,
    shown,
)
from tensorlake.ingest.engine.classes import follow_classes
from tensorlake.ingest.engine.cluster import Elsewhere, StoredItems
from tensorlake.ingest.engine.known import (
    Start,
    check_new_files,
    check_rejected,
    find_source,
    in_order_of,
    with_rows_of_others,
)
from tensorlake.ingest.engine.listing import (
    batches_of,
    count_same_pieces,
    cut_as_known,
    listing_of,
    runs_of,
)
from tensorlake.ingest.engine.options import (
    Engine,
    IngestOptions,
    Mode,
    OnConflict,
    OnError,
    began_at,
    delete_unfilled,
    destination,
    place_of,
)
from tensorlake.ingest.engine.pieces import Pieces, PiecesPreview, changed_piece
from tensorlake.ingest.engine.quarantine import Quarantine
from tensorlake.ingest.engine.readahead import LoadedItems, read_ahead
from tensorlake.ingest.engine.source import Item, Refused, Source
from tensorlake.ingest.engine.tensors import follow_tensors, tensors_of
from tensorlake.ingest.engine.valid_rows import stage_valid
from tensorlake.quantities import parse_nbytes, plural
from tensorlake.storage import place_text
from tensorlake.versions import CommitRequest

__all__ = ["run_ingest"]

DRY_RUN_ROWS = 3
"""Rows that a dry run shows."""

DEFAULT_WORKERS = max(2, min(4, os.cpu_count() or 1))
"""Pieces read ahead, one per thread: more threads than processors would mostly wait for the
interpreter lock, and take it from the thread that stages."""


def run_ingest(
    source: Source[Item],
    url: str | PathLike[str],
    *,
    mode: Mode = "create",
    delete: bool = False,
    verify: bool = False,
    on_conflict: OnConflict = "keep",
    on_error: OnError = "raise",
    commit_every: int | str = "8GiB",
    engine: Engine = "threads",
    workers: int | None = None,
    progress: bool | None = None,
    dry_run: bool = False,
    **open_arguments: Any,
) -> Dataset:
    """Bring a dataset to a source, in commits of about ``commit_every``.

    Args:
        source: The source.
        url: Path or URL of the dataset.
        mode: "append" adds to an existing dataset.
        delete: Whether to delete the rows of items that are no longer in the source.
        verify: Whether to compare items by digest whose stamp has not changed.
        on_conflict: "keep", "source" or "error", for rows that a hand has changed, too.
        on_error: "skip" leaves out invalid items; "quarantine" also writes them, with the
            reason, to the dataset ``<url>-quarantine``.
        commit_every: Source bytes per commit.
        engine: "ray" has workers of a cluster read new items and store their rows.
        workers: Number of read-ahead threads, or of workers.
        progress: Whether to show progress; None: only on a terminal.
        dry_run: Write nothing, and return a dataset in memory: the schema, and the first rows. The
            report counts what would change in the dataset, if it exists.
        **open_arguments: ``storage_options``, ``durability`` and ``token``, as in ``tl.open``.

    Raises:
        InvalidInputError: An item is invalid (and ``on_error`` is "raise"); earlier commits
            remain.
        ConflictError: A hand changed what the source changes (and ``on_conflict`` is "error").
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
    url = place_text(url, what="dst")
    if dry_run and mode == "create" and not exists(url, **place_of(open_arguments)):
        return _dry_run(source, on_error=on_error)
    is_here = engine == "threads" or dry_run
    elsewhere = None if is_here else Elsewhere(url, source.kind, workers, open_arguments)
    unit = "row" if source.by_position else source.unit
    report = IngestReport(unit=unit, dry_run=dry_run)
    started = began_at()
    what = f"ingest {source.place or source.kind} → {url}"
    rows_known = len(source.items) if source.row_name is None else None
    with (
        ExitStack() as stack,
        ThreadPoolExecutor(threads, thread_name_prefix="tensorlake-ingest") as pool,
        Progress(what, total=sum(source.sizes), rows=rows_known, shown=progress) as bar,
    ):
        reads = partial(read_ahead, pool=pool, ahead=threads, is_strict=on_error == "raise")
        is_new = mode == "create" and not exists(url, **place_of(open_arguments))
        # Before anything is read: an item that changes meanwhile has another stamp in the next run.
        listing = None if source.by_position else listing_of(source)
        # Creating a durable dataset takes a while; the disk can read the first batch meanwhile.
        everything = iter([range(len(source.items))])
        first = next(batches_of(source, everything, size), []) if is_new and is_here else []
        begun = reads(source, first) if first else None
        dataset = destination(
            url, lambda: source.schema_to_create, mode, open_arguments, is_new=is_new
        )
        if elsewhere is not None:
            elsewhere.open(dataset)
        ledger = Ledger(session_of(dataset))
        start = find_source(
            dataset,
            ledger,
            source,
            mode,
            listing=listing,
            size=size,
            begins_with=partial(_begins_with, dataset, source, reads),
        )
        known = start.new or ledger.sources[start.number]
        source, report.tensors = follow_tensors(
            dataset, in_order_of(source, known), None if start.new else known
        )
        source, known, added = follow_classes(dataset, source, known, adds=start.new is None)
        run = _Run(dataset, source, ledger, start, report, bar, known=known)
        if start.is_complete:
            report.unchanged = report.already_there = len(source.items)
            batches = iter(())
        elif listing is None:
            source = run.source = cut_as_known(source, start.entries)
            pieces = (PiecesPreview if dry_run else Pieces)(dataset, source, report)
            run.stages = dict.fromkeys(Action, pieces.add)
            run.pieces = pieces
            reading = partial(reads, source)
            done = run.skip_pieces(pieces, verify=verify, reading=reading, on_error=on_error)
            source = run.source
            if start.new is None:
                check_new_files(dataset, source, ledger, start.number, done)
            batches = batches_of(source, iter([range(done, len(source.items))]), size)
        else:
            entries = with_rows_of_others(dataset, source, listing, start, known, on_conflict)
            compared = Comparison.of(listing, entries)
            rows = (RowsPreview if dry_run else Rows)(
                session_of(dataset),
                listing,
                entries,
                compared,
                tensors=tensors_of(dataset, source),
                numbers=[id_ for _, id_ in run.described.tensors],
                content=source.content,
                on_conflict=on_conflict,
                report=report,
            )
            run.rows, run.stages = rows, {Action.ADD: rows.add, Action.MOVE: rows.move}
            run.stages[Action.COMPARE] = rows.compare
            run.work = rows.work(verify=verify)
            is_idle = (run.work == Action.NOTHING) & (compared.entry_of >= 0)
            is_idle[rows.deleted_by_hand()] = False
            report.unchanged = int(np.count_nonzero(is_idle))
            report.already_there = int(np.count_nonzero(rows.rows.is_shown))
            batches = batches_of(source, runs_of(run.work), size)
        is_quarantined = on_error == "quarantine" and not dry_run
        quarantine = Quarantine(url, open_arguments) if is_quarantined else None
        try:
            if elsewhere is not None:
                reading = elsewhere.reading(
                    dataset, source, batches, run.described, on_error=on_error, is_new=run.is_new
                )
                batches, reads = stack.enter_context(reading)
            waiting = next(batches, None)
            while waiting is not None:
                batch, waiting = waiting, next(batches, None)
                for loaded in (
                    begun if begun is not None and batch == first else reads(source, batch)
                ):
                    run.stage(loaded, on_error=on_error, quarantine=quarantine)
                begun = None
                if waiting is not None:
                    run.commit(quarantine)
            left_out = [*source.left_out, *run.left_out]  # now: reading may have added some
            report.skipped += left_out
            if run.rows is not None and source.hides_names:
                if unread := run.rows.num_unlisted:
                    report.tensors.append(
                        f"{plural(unread, 'row')} of the dataset {'is' if unread == 1 else 'are'}"
                        " not among the items that could be read: rejected, or gone"
                    )
            elif run.rows is not None:
                run.rows.vanish(is_absent=source.absence(report.skipped), delete=delete)
            run.commit(quarantine)
        except InvalidInputError:
            stack.close()  # workers may be storing packs
            if is_new and not report.commits:
                delete_unfilled(dataset, open_arguments)
            raise
        finally:
            dataset.discard()  # what an error left, and classes that no item has
        if quarantine is not None:
            report.quarantine = quarantine.add(left_out) or report.quarantine
        report.classes = [
            f"{tensor!r} has new classes: {', '.join(map(repr, names))}"
            for tensor, names in added.items()
            # Otherwise none of their items was committed
            if dry_run or {*names} <= {*dataset[tensor].names}
        ]
        report.seconds = time.monotonic() - started
        report.url, report.version = url, dataset.version
        bar.finish(str(report))
    if dry_run:
        dataset.close()
        dataset = _dry_run(source, on_error=on_error)
    dataset.ingest_report = report
    return dataset


def _begins_with(
    dataset: Dataset,
    source: Source[Any],
    reads: Callable[[Source[Any], list[range]], Iterator[LoadedItems]],
    known: KnownSource,
    entries: Entries,
) -> bool:
    """Whether a source by position begins with pieces of the ledger, as `Pieces.begin_with`."""
    try:
        source, _ = follow_tensors(dataset, in_order_of(source, known), known)
        source, _, _ = follow_classes(dataset, source, known, adds=False)
    except (TensorNotFoundError, UnknownClassError):
        return False
    source = cut_as_known(source, entries)
    pieces = Pieces(dataset, source, IngestReport())
    return pieces.begin_with(entries, partial(reads, source))


class _Run:
    """The staging of items, and its commits."""

    def __init__(
        self,
        dataset: Dataset,
        source: Source[Any],
        ledger: Ledger,
        start: Start,
        report: IngestReport,
        bar: Progress,
        *,
        known: KnownSource,
    ) -> None:
        self.dataset, self.source, self.ledger = dataset, source, ledger
        self.report, self.bar = report, bar
        self.number, self.entries = start.number, start.entries
        names, schema = tensors_of(dataset, source), session_of(dataset).snapshot().schema
        self.described = known.with_tensors(names, schema)
        """The source as the ledger is to have it."""
        self.rows: Rows | None = None
        self.pieces: Pieces | None = None
        self.work: npt.NDArray[np.uint8] | None = None
        self.stages: Mapping[Action, Callable[[Mapping[str, Any], Any], int]] = {}
        self.left_out: list[SkippedItem] = []
        self._counted = (0, 0, 0, 0)
        self._published = replace(report, names={})

    def skip_pieces(
        self,
        pieces: Pieces,
        *,
        verify: bool,
        reading: Callable[[list[range]], Iterator[LoadedItems]],
        on_error: OnError,
    ) -> int:
        """Check the pieces that were ingested; return their number.

        Raises:
            InvalidInputError: One of them changed.
        """
        done, differs = count_same_pieces(self.source, self.entries)
        if differs is not None or verify:
            changed = pieces.first_changed(self.entries, reading, is_known=differs is None)
            if changed is not None:
                raise changed_piece(self.dataset, self.source, self.entries, changed)
            self.source = pieces.source
        if differs is not None:
            pieces.renew(self.entries)
            done = int(self.entries.spans.sum())
        self.report.unchanged = self.report.already_there = int(self.entries.rows.sum())
        refused = self.ledger.rejected(self.number)
        if on_error == "raise":
            check_rejected(self.dataset, self.source, refused)
        self.report.skipped += refused
        return done

    def stage(
        self,
        loaded: LoadedItems | StoredItems,
        *,
        on_error: OnError,
        quarantine: Quarantine | None,
    ) -> None:
        """Stage the rows of items that were loaded, or that a worker has stored."""
        if isinstance(loaded, StoredItems):
            self._adopt(loaded, quarantine)
            return
        source = self.source
        work = Action.ADD if self.work is None else Action(self.work[loaded.items.start])
        refused, num_staged = stage_valid(
            self.dataset, source, loaded, self.stages[work], on_error=on_error
        )
        if self.pieces is not None:
            self.pieces.close(loaded.items, num_staged)
        if work == Action.COMPARE:
            refused = [
                (replace(one, reason=f"{one.reason}; its row stays as it was"), values)
                for one, values in refused
            ]
        self._count(loaded.items, refused, num_staged, quarantine)

    def _adopt(self, stored: StoredItems, quarantine: Quarantine | None) -> None:
        if isinstance(stored.rows, NewItems):
            assert self.rows is not None, "its items are known by name"
            self.rows.adopt(stored.rows)
        else:
            assert self.pieces is not None, "its items are known by position"
            parts = [(one.items, one.num_rows, one.digest) for one in stored.parts]
            self.pieces.adopt(parts, stored.rows)
        for one in stored.parts:
            self._count(one.items, one.refused, one.num_rows, quarantine)
        self.left_out += stored.left_out

    def is_new(self, item: int) -> bool:
        """Whether an item only adds rows."""
        return self.work is None or self.work[item] == Action.ADD

    def _count(
        self,
        items: range,
        refused: Sequence[Refused],
        num_staged: int,
        quarantine: Quarantine | None,
    ) -> None:
        skipped, nbytes = [item for item, _ in refused], self.source.nbytes(items)
        if self.pieces is not None:
            self.ledger.rejections += skipped
        self.report.skipped += skipped
        self.report.nbytes += nbytes
        if quarantine is not None:
            quarantine.stage(refused)
        self.bar.advance(nbytes, num_staged, skipped=len(refused))

    def commit(self, quarantine: Quarantine | None) -> None:
        """Publish the rows staged, with their entries."""
        if quarantine is not None:  # first: its items may count as ingested after
            self.report.quarantine = quarantine.commit() or self.report.quarantine
        if self.rows is not None:
            self.rows.flush()
        if self.report.dry_run:
            return
        stage = self.rows or self.pieces
        session = session_of(self.dataset)
        is_new_header = False
        if self.source.header is not None:
            header, replaces = self.source.header, self.described.mode == "create"
            is_new_header = stage_header(session, self.source.kind, header, replaces=replaces)
        if stage is None or not stage.entries:
            # Without rows there is nothing to describe
            if is_new_header and self.number < len(self.ledger.sources):
                self.ledger.describe(self.number, self.described)
                session.commit(CommitRequest(f"ingest {self.source.kind}: header"))
                self.report.commits.append(self.dataset.version)
            return
        entries = Entries.concat(stage.entries)
        stage.entries.clear()
        key = self.ledger.key_of(self.number, self.source.key_start, entries)
        self.ledger.stage(self.number, entries, self.described)
        message = (
            f"ingest {self.source.kind}: {self._counts(int(np.count_nonzero(entries.spans >= 0)))}"
        )
        transaction = session.transaction
        entry = session.commit(CommitRequest(message, key=key))
        if transaction is not None and entry.txid != transaction.txid:
            self._leave_to_other_call()
            return
        self.report.commits.append(self.dataset.version)
        self._published = replace(self.report, names={**self.report.names})

    def _leave_to_other_call(self) -> None:
        """Count what another call has published meanwhile as there already."""
        report, then = self.report, self._published
        changed = (report.added, report.updated, report.renamed)
        report.unchanged += sum(changed) - then.added - then.updated - then.renamed
        report.already_there += report.rows - then.rows
        report.rows, report.names = then.rows, {**then.names}
        report.added, report.updated = then.added, then.updated
        report.renamed, report.deleted = then.renamed, then.deleted

    def _counts(self, noted: int) -> str:
        """Return the counts of a commit."""
        report = self.report
        counts = (report.rows, report.updated, report.renamed, report.deleted)
        rows, *others = (now - then for now, then in zip(counts, self._counted, strict=True))
        self._counted = counts
        what = ("updated", "renamed or moved", "deleted")
        told = [f"{one:,} {how}" for one, how in zip(others, what, strict=True) if one]
        if rows or not (noted or told):
            told.insert(0, plural(rows, "row"))
        return ", ".join(told) or f"{plural(noted, self.source.unit)} compared, no row changed"


def _dry_run(source: Source[Item], *, on_error: OnError) -> Dataset:
    """Ingest the first few rows into a dataset in memory with a random, private name."""
    dataset = create(f"memory://ingest-dry-run-{secrets.token_hex(8)}", source.schema_to_create)
    items = range(min(DRY_RUN_ROWS, len(source.items)))
    if not items:
        dataset.ingest_report = IngestReport(unit=source.unit, dry_run=True)
        return dataset
    loaded = LoadedItems.of(items, source.load(source.items[: items.stop]))
    columns = {
        name: values[:DRY_RUN_ROWS]
        for name, values in loaded.columns.items()
        if name not in source.absent
    }
    report = IngestReport(nbytes=source.nbytes(items), unit=source.unit, dry_run=True)
    report.added = 0 if source.by_position else len(source.items)
    refused, _ = stage_valid(
        dataset,
        source,
        replace(loaded, columns=columns),
        lambda some, _: dataset.extend(some) or 0,
        on_error=on_error,
    )
    report.skipped += [*(item for item, _ in refused), *source.left_out]
    dataset.commit("dry run")
    report.rows = len(dataset)
    dataset.ingest_report = report
    return dataset
