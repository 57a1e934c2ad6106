"""``map`` into a new dataset: a function over rows, whose outputs follow the rows they are made of.

The rows are a source, and the new dataset keeps a ledger of it, as an ingestion does: the same call
again maps rows that are new, maps again those whose columns changed, and reports those that are
gone. Runs of rows are commits, with their entries in the ledger, so the same call after a kill does
what is left.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, tee
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.connect import connect, connect_new, exists
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.history.ingest_report import IngestReport
from tensorlake.dataset.history.versions import log
from tensorlake.dataset.sync.comparison import Action, Comparison, Listing
from tensorlake.dataset.sync.ledger import Entries, KnownSource, Ledger
from tensorlake.dataset.sync.rows import OnConflict, Rows
from tensorlake.dataset.transform.map.calls import ROWS_A_PIECE, Call, MapOptions, Piece
from tensorlake.dataset.transform.map.items import (
    MapItems,
    compared_items,
    row_numbers_of,
    rows_named,
    version_text,
)
from tensorlake.dataset.transform.map.outputs import (
    check_column,
    naming_the_row,
    output_nbytes,
    rows_of_output,
    types_of,
)
from tensorlake.dataset.transform.map.report import MapCount
from tensorlake.dataset.transform.map.workers import results
from tensorlake.errors import InvalidInputError
from tensorlake.quantities import plural
from tensorlake.types import SampleType
from tensorlake.versions import CommitRequest

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.query.predicate import Predicate

__all__ = ["write_rows"]

Int64Array = npt.NDArray[np.int64]

COMMIT_ROWS = 65_536
"""Source rows per commit: the most that a kill can lose."""

KIND = "map:"


def write_rows(
    rows: RowSet,
    function: Callable[[dict[str, Any]], Any],
    *,
    schema: Mapping[str, Any] | None,
    columns: Sequence[str] | None,
    to: str,
    where: str | Predicate | None,
    delete: bool,
    on_conflict: OnConflict,
    commit_every: int | None,
    options: MapOptions,
) -> Session:
    """Call a function on rows, and bring a dataset to what it returns; a session on it."""
    call = Call.of(function, rows, columns, options)
    types = types_of(schema)
    view = rows
    if where is not None:
        from tensorlake.dataset.query.run import run_where

        view = run_where(rows, where, {})
    settings = {
        "schema": types,
        "columns": None if columns is None else sorted(call.columns),
        "where": None if where is None else (view.tql or str(where)).removeprefix("WHERE "),
        "batch_size": call.batch_size,
        "model": getattr(function, "digest", None),  # what else it is cannot be compared
    }
    known = KnownSource.of(
        KIND,
        place=view.url,
        where=view.url,
        mode="create",
        settings={name: one for name, one in settings.items() if one is not None},
    )
    target = _target(to, types, options.storage_options)
    try:
        run = _Run.begun(view, call, target, types, known, delete=delete, on_conflict=on_conflict)
        if run is None:
            count = MapCount(types)
            count.already_there = len(view)
        else:
            count = run.count
            run.commit_rows = COMMIT_ROWS if commit_every is None else commit_every
            run.bring()
        target.map_report = count.report(target, is_staged=False)
    except BaseException:
        target.discard()
        target.close()
        raise
    return target


def _target(
    url: str, types: Mapping[str, SampleType], storage_options: Mapping[str, Any] | None
) -> Session:
    if exists(url, storage_options=storage_options):
        return connect(url, storage_options=storage_options)
    return connect_new(url, types, storage_options=storage_options)


@dataclass(slots=True)
class _Run:
    """One call: its rows as items, and their staging.

    Attributes:
        items: The rows.
        call: The function.
        target: The new dataset.
        tensors: The tensors that it fills.
        ledger: The ledger of the new dataset.
        source: The rows, as the ledger knows them while this call is under way.
        known: The entries of the ledger.
        listing: The items by name, with stamps.
        compared: They against the ledger.
        rows: Their staging.
        count: Counts for the report.
        delete: Whether outputs of rows that are gone are deleted.
        commit_rows: Rows of a commit.
    """

    items: MapItems
    call: Call
    target: Session
    tensors: list[str]
    ledger: Ledger
    source: KnownSource
    known: Entries
    listing: Listing
    compared: Comparison
    rows: Rows
    count: MapCount
    delete: bool
    commit_rows: int = 0

    @classmethod
    def begun(
        cls,
        view: RowSet,
        call: Call,
        target: Session,
        types: Mapping[str, SampleType],
        wanted: KnownSource,
        *,
        delete: bool,
        on_conflict: OnConflict,
    ) -> _Run | None:
        """Compare rows with the ledger; None if tensorlake 0.1.0 has mapped all of them."""
        ledger = Ledger(target)
        if _is_complete(target, ledger, view, call, types):
            return None
        _check_same_call(target, ledger, types, wanted)
        known = ledger.entries(0)
        items = MapItems.of(view, call.columns, known, batch_size=call.batch_size)
        versions = ledger.sources[0].versions if ledger.sources else ()
        listing, compared = compared_items(items, known, versions)
        _check_same_rows(target, view, known, compared, delete=delete)
        report = IngestReport()
        wanted = replace(wanted, tensors=ledger.sources[0].tensors if ledger.sources else ())
        wanted = wanted.with_tensors([*types], target.snapshot().schema)
        rows = Rows(
            target,
            listing,
            known,
            compared,
            tensors=[*types],
            numbers=[id_ for _, id_ in wanted.tensors],
            on_conflict=on_conflict,
            report=report,
            shown_item=lambda name: _shown(view, name),
        )
        version = version_text(view, call.columns)
        # All of them, until each entry is of this one; none where one of them was not noted.
        earlier = ledger.sources[0].versions if ledger.sources else ()
        versions = [*earlier, version] if version and (earlier or not len(known)) else []
        source = replace(wanted, versions=tuple(dict.fromkeys(one for one in versions if one)))
        count = MapCount(types, report)
        return cls(
            items,
            call,
            target,
            [*types],
            ledger,
            source,
            known,
            listing,
            compared,
            rows,
            count,
            delete,
        )

    def bring(self) -> None:
        """Map what is new or changed, in commits."""
        work = self.rows.work()
        idle = work == Action.NOTHING
        self.count.already_there = int(self.items.counts[idle].sum())
        todo = np.flatnonzero(~idle)
        size = max(1, self.commit_rows // (self.call.batch_size or 1))
        staged = 0
        for some, piece in self._results(todo, work, size):
            kept = self._note_stamps(some, piece)
            if len(kept):
                self._stage_piece(kept, piece, Action(work[some[0]]))
            staged += len(some)
            if staged % size == 0 and staged < len(todo):
                self.rows.flush()
                self._commit()
        self.rows.flush()
        self._finish()
        self._commit()

    def _results(
        self, todo: Int64Array, work: npt.NDArray[np.uint8], size: int
    ) -> Iterator[tuple[Int64Array, Piece]]:
        """Call the function on some items; workers go on while a commit is under way."""
        view, items = self.items.view, self.items
        commits = (todo[start : start + size] for start in range(0, len(todo), size))
        pieces, ahead = tee(one for some in commits for one in self._pieces(some, work))
        rows = (np.concatenate([items.rows_of(one) for one in some]) for some in ahead)
        returned = results(view, self.call, rows, has_digests=True)
        yield from zip(pieces, self.count.noting(view, returned), strict=True)

    def _pieces(self, todo: Int64Array, work: npt.NDArray[np.uint8]) -> Iterator[Int64Array]:
        """Yield items for one call, or one series of calls, all of them new or all known."""
        if self.call.batch_size is not None:
            yield from todo[:, None]
            return
        bounds = [0, *(np.flatnonzero(np.diff(work[todo])) + 1).tolist(), len(todo)]
        for start, stop in pairwise(bounds):
            for first in range(start, stop, ROWS_A_PIECE):
                yield todo[first : min(stop, first + ROWS_A_PIECE)]

    def _note_stamps(self, some: Int64Array, piece: Piece) -> Int64Array:
        """Note the stamps of items; return those that the function returned something for."""
        assert piece.digests is not None, "rows are digested as they are read"
        if self.call.batch_size is not None:
            self.listing.stamps[some] = self.items.stamp(piece.digests)
            kept = some if piece.outputs else some[:0]
        else:
            self.listing.stamps[some] = piece.digests
            given = np.concatenate([self.items.rows_of(one) for one in some])
            kept = some[np.isin(given, piece.positions)]
        entries = self.compared.entry_of[np.setdiff1d(some, kept)]
        self.rows.forget_stamps(entries[entries >= 0])
        return kept

    def _stage_piece(self, items: Int64Array, piece: Piece, action: Action) -> None:
        """Stage the outputs of items: as new rows, or to be compared with those that they have."""
        is_batch = self.call.batch_size is not None
        given = [rows_of_output(one, self.tensors, is_batch=is_batch) for one in piece.outputs]
        columns, counts = self._columns(given)
        sizes = [sum(map(output_nbytes, values)) for values in zip(*columns.values(), strict=False)]
        stops = np.cumsum(counts)
        nbytes = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))])
        self.listing.sizes[items] = nbytes[stops] - nbytes[stops - counts]
        positions = piece.positions if is_batch else np.repeat(piece.positions, counts)
        view = self.items.view
        with naming_the_row(view, positions, is_one=is_batch and len(piece.positions) == 1):
            if action == Action.COMPARE:
                self.rows.compare(columns, items, counts)
                self.count.updated += len(piece.positions)
            else:
                self.rows.add(columns, items, counts)

    def _columns(self, given: Sequence[Any]) -> tuple[dict[str, Any], Int64Array]:
        """Join outputs: columns of all their rows, and the number of rows of each."""
        if len(given) == 1 and isinstance(given[0], Mapping):
            columns: dict[str, Any] = dict(given[0])
            first = next(iter(columns))
            check_column(first, columns[first], len(self.items.positions))
            return columns, np.array([len(columns[first])], np.int64)
        rows = [row for some in given for row in some or ()]
        counts = np.array([len(some or ()) for some in given], np.int64)
        return {name: [row[name] for row in rows] for name in self.tensors}, counts

    def _finish(self) -> None:
        """Stage what is gone; note that everything else is of this version."""
        gone = self.rows.vanish(is_absent=lambda _: True, delete=self.delete)
        self.count.vanished = sum(len(rows_named(self.known.items[at])) for at in gone.tolist())
        if not self.delete:  # they may come back with other values
            self.rows.forget_stamps(self.compared.vanished)
        version = version_text(self.items.view, self.call.columns)
        self.source = replace(self.source, versions=(version,) if version else ())

    def _commit(self) -> None:
        if not self.rows.entries:
            return
        entries = Entries.concat(self.rows.entries)
        self.rows.entries.clear()
        key = self.ledger.key_of(0, KIND, entries)
        is_noted = self.source in self.ledger.sources
        self.ledger.stage(0, entries, None if is_noted else self.source)
        view = self.items.view
        message = f"map: {plural(len(entries), 'item')} of {view.url} {view.version}"
        self.target.commit(CommitRequest(message=message, key=key))


def _check_same_call(
    target: Session, ledger: Ledger, types: Mapping[str, SampleType], wanted: KnownSource
) -> None:
    """Refuse a dataset that a call with these arguments did not make."""
    url = target.store.url
    here = everything(target).schema
    is_new = not ledger.sources and not len(log(target, None)[:-1]) and here == dict(types)
    if not is_new and (not ledger.sources or ledger.sources[0].what != KIND):
        raise InvalidInputError(
            f"there is a dataset at {url!r} that this call did not begin"
            "\nchoose another URL: map(…, to=url)",
            dataset=url,
        )
    if is_new:
        return
    differing = wanted.differences(ledger.sources[0])
    if differing:
        raise InvalidInputError(
            f"{url!r} was made by map() with other arguments: {'; '.join(differing.values())}"
            f"{_anew(url)}",
            dataset=url,
            arguments=[*differing],
        )
    for name, kind in types.items():
        if here.get(name) != kind:
            found = here[name].describe() if name in here else "no longer there"
            raise InvalidInputError(
                f"tensor {name!r} of {url!r} is {found}, and map() made it {kind.describe()}"
                f"{_anew(url)}",
                dataset=url,
                tensor=name,
            )


def _check_same_rows(
    target: Session, view: RowSet, known: Entries, compared: Comparison, *, delete: bool
) -> None:
    """Refuse rows none of which the dataset was made from: it would get as many again."""
    if delete or not len(known) or not len(view) or bool((compared.entry_of >= 0).any()):
        return
    url = target.store.url
    raise InvalidInputError(
        f"{url!r} was made from other rows than {view.url} {view.version}: none of them is there"
        f"\nto replace them by these rows: delete=True; {_anew(url)[1:]}",
        dataset=url,
    )


def _anew(url: str) -> str:
    return f"\nto make it again: tl.delete({url!r}, confirm={url!r}), or another URL"


def _is_complete(
    target: Session,
    ledger: Ledger,
    view: RowSet,
    call: Call,
    types: Mapping[str, SampleType],
) -> bool:
    """Whether tensorlake 0.1.0, which kept no ledger, has mapped all of these rows.

    Raises:
        InvalidInputError: It has mapped others, or some of them.
    """
    if ledger.sources:
        return False
    keys = {key for commit in log(target, None) for key in commit.keys if key.startswith(KIND)}
    if not keys:
        return False
    described = json.dumps([call.columns, call.batch_size, [*types]])
    digest = hashlib.blake2b(f"{view.selection.digest}{described}".encode(), digest_size=16)
    size = call.batch_size or 1
    starts = range(0, len(view), size * max(1, COMMIT_ROWS // size))
    if keys == {f"{KIND}{digest.hexdigest()}:{start}" for start in starts}:
        return True
    url = target.store.url
    raise InvalidInputError(
        f"{url!r} was made by map() of tensorlake 0.1.0, which did not record the rows that it"
        f" read, and they or the arguments have changed since, or the call was interrupted"
        f"{_anew(url)}",
        dataset=url,
    )


def _shown(view: RowSet, name: str) -> str:
    """Name an item in a message: by its rows, or by their ids where they are gone."""
    ids = rows_named(name)
    rows = [one for one in row_numbers_of(view, ids).tolist() if one >= 0]
    if not rows:
        return f"row {name} of {view.url!r}"
    described = f"row {rows[0]}" if len(ids) == 1 else f"rows {rows[0]} to {rows[-1]}"
    return f"{described} of {view.url!r}"
