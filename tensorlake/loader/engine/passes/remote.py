"""Open a pass whose batches servers decode.

    the rows' own order, or a shuffle     the server makes it, from the state
    any other order of one dataset        requests list rows, and their places
    a mix                                 so do those of each source; its rows are joined here

Steps that need a whole batch, or the user's functions, run here: collation, steps that mix rows of
several sources, units of rows, transforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from tensorlake.loader.config.column_plan import ROW, VALID, row_column
from tensorlake.loader.decode import BatchStep, MixedRows
from tensorlake.loader.engine.composed.rows import ComposedPlan
from tensorlake.loader.runtime.threads import WorkerThreads
from tensorlake.loader.sources.mix import MixReader
from tensorlake.loader.sources.remote import (
    MixedBatches,
    RemotePass,
    RemoteSetup,
    ServerBatches,
    SourceRows,
    SourceShare,
    StreamSetup,
    checked_server,
    collated,
    listed_rows,
    presented,
)
from tensorlake.loader.stages.batch_contents import Contents
from tensorlake.loader.stages.gather_lists import pick_virtual
from tensorlake.loader.stages.sample_ranges import ranges_of_samples
from tensorlake.loader.stages.transform import BatchTransform
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.decode import Step
    from tensorlake.loader.engine.composed.rows import ComposedShare, Form
    from tensorlake.loader.engine.passes.opening import Opening
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.sources.remote import BatchServer, SentBatch, SentBatches
    from tensorlake.loader.sources.rows import OrderedRows
    from tensorlake.loader.stages.transform import RowTransform

__all__ = ["check_remote", "open_remote"]

SOURCES_SHARE: Final = 0.5  # of prefetch, for rows of a mix that are not in batches yet


def check_remote(rows: OrderedRows) -> BatchServer:
    """Return the server that decodes rows; of a mix, that of the first source.

    Raises:
        InvalidInputError: There is none, or none for a source of a mix.
    """
    if isinstance(rows.reader, MixReader):
        first, *_ = [checked_server(one.server, one.name) for one in rows.reader.sources]
        return first
    return checked_server(rows.server)


def open_remote(
    opening: Opening,
    shares: Iterable[Share],
    *,
    plan: Plan | None,
    transform: RowTransform | None,
    with_valid: bool,
) -> RemotePass:
    """Prepare the pass over some shares.

    Args:
        opening: The loader's parts.
        shares: The shares.
        plan: The plan; None: the server makes it from the state.
        transform: The transformation of rows.
        with_valid: Whether batches have ``_valid``.
    """
    server = check_remote(opening.rows)  # it may have got others since it was made
    arguments, columns, reader = opening.arguments, opening.columns, opening.rows.reader
    is_mix = isinstance(reader, MixReader)
    if is_mix:
        arguments, columns = _before_mixing(opening)
    if transform is not None:
        columns = tuple(map(_with_null_listed, columns))
    marks = arguments.on_error == "skip" and (is_mix or transform is not None)
    setup = StreamSetup(
        server=server,
        arguments=arguments,
        columns=_with_rows(columns),
        sharding=opening.sharding,
        state=opening.state(),
        turns=opening.converter.turn_and_turns()[1],
        keeps_places=opening.keeps_places or marks,
        with_valid=with_valid or marks,
        counters=opening.counters,
    )
    batches: SentBatches
    if isinstance(reader, MixReader):
        assert plan is not None, "a server makes no mix"
        batches = _sources(opening, reader, plan, setup, shares)
    else:
        if plan is not None and not opening.is_plain:
            setup = replace(setup, listing=partial(_listed, plan))
        batches = ServerBatches(setup, shares)
    made = None
    if transform is not None:
        made = _transform_here(opening, transform, with_valid=with_valid)
    making = _Making(opening, plan, columns, is_mix=is_mix, with_valid=with_valid, transform=made)
    room = arguments.prefetch_nbytes * (1 - SOURCES_SHARE if is_mix else 1)
    return RemotePass(
        RemoteSetup(
            batches,
            making,
            opening.counters,
            prefetch_nbytes=int(room),
            timeout_s=arguments.timeout,
            workers=made,
        )
    )


def _listed(plan: Plan, share: Share) -> tuple[Int64Array, Int64Array]:
    places = plan.deal(share)
    return places, plan.at(places)


@dataclass(frozen=True, slots=True, eq=False)
class _Making:
    """Makes the batches of a local loader from those that servers sent.

    Attributes:
        opening: The loader's parts.
        plan: The plan; None: nothing needs it.
        sent: The columns as they are sent.
        is_mix: Whether they are joined from several sources.
        with_valid: Whether batches have ``_valid``.
        transform: The transformation of rows.
    """

    opening: Opening
    plan: Plan | None
    sent: tuple[ColumnPlan, ...]
    is_mix: bool
    with_valid: bool
    transform: BatchTransform | None

    def __call__(self, share: Share, sent: SentBatch) -> dict[str, Any]:
        """Make a batch."""
        batch, columns = presented(self.sent, sent), self.sent
        if self.is_mix:
            self._add_virtual(share, batch)
            self._mix_rows(share, batch, self._leave_out_lost(share, batch))
            known = {column.name: column for column in self.sent}
            columns = tuple(known.get(one.name, one) for one in self.opening.columns)
        batch = collated(columns, batch)
        if isinstance(self.plan, ComposedPlan):
            return self._combined(self.plan.form, cast("ComposedShare", share), batch)
        if self.transform is not None:
            return self._transformed(self.transform, share, batch)
        return batch

    def _add_virtual(self, share: Share, batch: dict[str, Any]) -> None:
        """Add what no server knows: the source of each row."""
        assert self.plan is not None, "of a mix"
        positions = self.plan.at(self.plan.deal(share))
        for column in self.opening.columns:
            if column.is_virtual:
                taken = self.opening.rows.virtual[column.name].take(positions)
                batch[column.name] = pick_virtual(
                    taken,
                    column.name,
                    is_whole=column.collate is None,
                    is_array=column.is_stacked,
                    null=column.null,
                )

    def _leave_out_lost(self, share: Share, batch: dict[str, Any]) -> Int64Array:
        """Leave out lost rows, unless batches mark them; return the places of the others."""
        assert self.plan is not None, "of a mix"
        places = self.plan.deal(share)
        if self.with_valid or VALID not in batch or self.transform is not None:
            return places
        kept = np.flatnonzero(batch.pop(VALID))
        if len(kept) < len(places):
            for name, entry in batch.items():
                is_array = isinstance(entry, np.ndarray)
                batch[name] = entry[kept] if is_array else [entry[at] for at in kept.tolist()]
        return places[kept]

    def _mix_rows(self, share: Share, batch: dict[str, Any], places: Int64Array) -> None:
        """Mix rows with each other, in place: their partners may be of other sources."""
        mixes = [column.mix for column in self.opening.columns if column.mix is not None]
        if not mixes:
            return
        usable = batch.get(VALID)
        if usable is None:
            usable = np.full(len(places), share.valid > 0)
        with self.opening.counters.timed("decode_s"):
            for mix in mixes:
                mix.apply(MixedRows(batch, places, usable), self.opening.epoch)

    def _transformed(self, transform: BatchTransform, share: Share, batch: SentBatch) -> SentBatch:
        """Transform rows; those that a server lost keep their places until then."""
        assert self.plan is not None, "rows draw random numbers by their places"
        places = self.plan.deal(share)
        rows = self.opening.rows.selection.row_numbers(self.plan.at(places)).tolist()
        return transform.apply(batch, rows, places.tolist(), counts=share.valid > 0)

    def _combined(self, form: Form, share: ComposedShare, batch: dict[str, Any]) -> dict[str, Any]:
        """Make units of rows that a server has read, decoded and mapped."""
        opening = self.opening
        for name in form.joins:
            batch[name] = ranges_of_samples(batch[name])
        opening.counters.add(**form.filled(share))
        made = form.combine(share, batch, opening.slabs)
        if share.holes is not None:
            form.leave_out(share, made)
        return made


def _sources(
    opening: Opening, reader: MixReader, plan: Plan, setup: StreamSetup, shares: Iterable[Share]
) -> MixedBatches:
    """Request the rows of each source of a mix from its server."""
    streams = [
        replace(
            setup,
            server=checked_server(source.server, source.name),
            state=replace(setup.state, version=source.selection.snapshot.version),
            listing=listed_rows,
        )
        for source in reader.sources
    ]
    starts = [0, *accumulate(one.selection.num_rows for one in reader.sources)]

    def parts(share: Share) -> list[SourceRows]:
        places = plan.deal(share)
        positions = plan.at(places)
        owners = np.searchsorted(starts[1:], positions, side="right")
        found: list[SourceRows] = []
        for number in distinct(owners).tolist():
            at = np.flatnonzero(owners == number)
            own = reader.sources[number].served(positions[at] - starts[number])
            where = {
                name: getattr(share, name) for name in ("number", "start", "stop", "next_place")
            }
            valid = len(at) if share.valid else 0
            part = SourceShare(**where, valid=valid, dealt=places[at], positions=own)
            found.append(SourceRows(number, at, part))
        return found

    url, most = opening.rows.selection.snapshot.url, opening.arguments.prefetch_nbytes
    return MixedBatches(streams, shares, parts, url=url, most_nbytes=int(most * SOURCES_SHARE))


def _before_mixing(opening: Opening) -> tuple[LoaderArguments, tuple[ColumnPlan, ...]]:
    """Return the arguments and columns of rows before the steps that mix rows of a batch."""
    arguments, columns = opening.arguments, opening.columns
    if any(column.mix is not None for column in columns):
        steps = {
            name: [one for one in _listed_steps(given) if not isinstance(one, BatchStep)]
            for name, given in (arguments.decode or {}).items()
        }
        names = [column.name for column in columns]
        arguments = replace(arguments, decode=steps, columns=names)
        planned = Contents.planned(opening.rows, arguments, opening.converter, seed=opening.seed)
        columns = planned.columns
    return arguments, tuple(column for column in columns if not column.is_virtual)


def _listed_steps(given: Step | Sequence[Step]) -> Sequence[Step]:
    return given if isinstance(given, Sequence) else [given]


def _transform_here(
    opening: Opening, transform: RowTransform, *, with_valid: bool
) -> BatchTransform:
    """Prepare the threads that transform the rows of batches that a server has decoded."""
    counters = opening.counters
    workers = WorkerThreads(
        opening.arguments.worker_count,
        name="tensorlake-loader-transform",
        waited=counters.waited,
        processes=transform.processes,
    )
    timed = partial(counters.timed, "transform_s")
    return BatchTransform(transform, workers, timed, with_valid=with_valid)


def _with_rows(columns: tuple[ColumnPlan, ...]) -> tuple[ColumnPlan, ...]:
    """Add the number of each row where handles have it."""
    if any(one.kind == "encoded" and one.opens for one in columns):
        return columns if any(one.name == ROW for one in columns) else (*columns, row_column())
    return columns


def _with_null_listed(column: ColumnPlan) -> ColumnPlan:
    """Let a server list the samples of a column of which a transform may get NULL."""
    has_null = column.type is not None and column.type.nullable and column.null is None
    is_array = column.collate is None and column.kind in ("uniform", "image", "decoded")
    return replace(column, collate="list") if has_null and is_array else column
