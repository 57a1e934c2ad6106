"""Open a pass: from a loader's parts and position to the object that makes its batches.

    decode_on="client"    Pipeline and Assembler: this process reads, gathers and decodes
                          and where all chunks are in memory, without threads
    decode_on="server"    RemotePass: a server does, from the state in the request

Nothing runs yet: the pass begins when its iterator starts it. State that outlives a pass (the
memory tier, the slabs, the counters and the measured concurrency limit) belongs to the loader.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from tensorlake.errors import CorruptionError
from tensorlake.loader.caches.decoded_images import DecodedImages
from tensorlake.loader.engine.batching import homes_of, kept_rows
from tensorlake.loader.engine.composed.rows import ComposedPlan, form_of, positions_left_out
from tensorlake.loader.engine.pipeline import Pipeline, PipelineSetup
from tensorlake.loader.plan.arrangement import ArrangedOrder, GroupedPlan
from tensorlake.loader.plan.plan import AccessPlan
from tensorlake.loader.plan.sharding import RowBatches, ShortBatchWarning
from tensorlake.loader.runtime.rng import takes_rng
from tensorlake.loader.runtime.threads import WorkerThreads
from tensorlake.loader.sources.mix.plan import MixPlan
from tensorlake.loader.sources.mix.reader import MixReader
from tensorlake.loader.sources.read_strategy import (
    cache_short_nbytes,
    row_nbytes_of,
    sparse_tensors,
)
from tensorlake.loader.sources.remote import RemotePass, RemoteSetup
from tensorlake.loader.sources.rows import SelectedRows
from tensorlake.loader.sources.windows import WindowReads
from tensorlake.loader.stages.assemble import MAX_PIECE_ROWS, Assembler
from tensorlake.loader.stages.process_transform import processes_of
from tensorlake.loader.stages.rng_guard import DrawWatch
from tensorlake.loader.stages.sample_ranges import ranges_of_samples
from tensorlake.loader.stages.sparse_reads import PartReads
from tensorlake.loader.stages.transform import BatchTransform, RowTransform, TransformCall

if TYPE_CHECKING:
    from tensorlake.loader.caches.disk_cache import DiskTier
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.decode import PartDecoder
    from tensorlake.loader.engine.composed.rows import ComposedShare, Form
    from tensorlake.loader.engine.iterator import Pass
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.placement import Homes
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader
    from tensorlake.loader.plan.sharding import Batches, Sharding, Share
    from tensorlake.loader.plan.state import LoaderState
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.chunk_cache import ChunkCache
    from tensorlake.loader.sources.rows import OrderedRows
    from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
    from tensorlake.loader.stages.assemble import Combine
    from tensorlake.loader.stages.stack import Outputs

__all__ = ["Opening", "open_pass"]

PROCESS_PIECE_ROWS = 32  # a message costs 0.2 ms
GROUP_S = 0.1  # of functions: a thousand times what a group costs, and short for who waits
LATE_NBYTES = 1 << 20  # of a batch; copying it takes about 0.1 ms


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts of a loader, and its position."""

    rows: OrderedRows
    order: AnyOrder
    seed: int
    epoch: int
    batches: Batches  # from its position on
    state: Callable[[], LoaderState]  # complete, for a server; lazy, because naming rows takes time
    arguments: LoaderArguments
    columns: tuple[ColumnPlan, ...]
    outputs: Outputs  # of a transform
    sharding: Sharding
    converter: Converter
    cache: ChunkCache
    disk: DiskTier
    slabs: SlabPool
    counters: Counters
    limit: ConcurrencyLimit
    left_out: Sequence[Int64Array] | None = None  # rows of each source that become holes

    @property
    def sparse(self) -> tuple[str, ...]:
        """Tensors read by row, those first of which parts are read."""
        parts = tuple(self.decoders)
        others = tuple(name for name in self.cache.tensors if name not in parts)
        return parts + sparse_tensors(
            self.rows.reader,
            others,
            order=self.order,
            num_rows=self.rows.selection.num_rows,
            cache_nbytes=self.arguments.cache_nbytes,
        )

    @property
    def decoders(self) -> dict[str, PartDecoder]:
        """The decoders of tensors of which parts are read, by name."""
        found = {one.name: one.parts for one in self.columns if one.parts is not None}
        return {name: one for name, one in found.items() if one.reads_parts}

    @property
    def is_padded(self) -> bool:
        """Whether a batch has fewer rows than there are ranks."""
        return self.batches.needs_padding

    @property
    def is_dropped(self) -> bool:
        """Whether an epoch has rows, but no batch: its only one is short, and dropped."""
        rows = self.rows.num_places
        by_rows = isinstance(self.batches, RowBatches) and not self.rows.is_endless
        return by_rows and rows > 0 and not self.sharding.num_batches(rows)

    @property
    def own_place(self) -> dict[str, Any]:
        """Arguments by which another loader reads the same rows, without asking other ranks."""
        rank, world_size = self.sharding.rank, self.sharding.world_size
        return {"seed": self.seed, "rank": rank, "world_size": world_size, "mesh": None}

    @property
    def is_plain(self) -> bool:
        """Whether a server can make the order from a state: of rows, in batches of a number."""
        batches = self.batches
        by_rows = isinstance(batches, RowBatches) and batches.balanced is None
        return by_rows and isinstance(self.rows, SelectedRows)

    @property
    def keeps_places(self) -> bool:
        """Whether skipped rows are False in ``_valid``: always in JAX, else if it is requested."""
        return self.converter.keeps_places or self.arguments.asks_valid

    @property
    def is_late(self) -> bool:
        """Whether batches are small and consist of arrays, so that the consumer gathers them."""
        rows = self.sharding.global_batch_size // self.sharding.world_size
        nbytes = rows * sum(column.sample_nbytes for column in self.columns)
        is_plain = all(column.kind in ("row", "virtual", "uniform") for column in self.columns)
        is_stacked = all(column.is_stacked and column.collate is None for column in self.columns)
        has_more = self.arguments.transform is not None or form_of(self.rows) is not None
        return is_plain and is_stacked and not has_more and nbytes <= LATE_NBYTES

    @property
    def is_in_memory(self) -> bool:
        """Whether batches are cut from chunks as stored, and all known chunks are in memory.

        For a remote dataset these must be all of its chunks: otherwise the pipeline must look
        ahead.
        """
        reader = self.rows.reader
        return (
            self.is_late
            and not self.sparse
            and all(
                self.cache.keeps_all(
                    tensor, 0 if reader.store.is_local else reader.index(tensor).num_rows
                )
                for tensor in self.cache.tensors
            )
        )


def open_pass(opening: Opening, shares: Iterable[Share]) -> tuple[Pass, Callable[[], None]]:
    """Prepare the pass over some shares; return it and the function that starts it."""
    is_padded = opening.is_padded
    if is_padded and opening.converter.presents:  # else the client warns
        warnings.warn(
            f"the last batch has fewer rows than the {opening.sharding.world_size} ranks: some"
            " ranks repeat a row of it, marked False in '_valid'; drop_last=True leaves it out"
            if opening.arguments.batch_by is None
            else f"some batches may have fewer rows than the {opening.sharding.world_size} ranks,"
            " which then repeat one, marked False in '_valid'; a larger batch_size has more rows",
            ShortBatchWarning,
            stacklevel=3,
        )
    if opening.is_dropped:
        warnings.warn(
            f"no batch: the {opening.rows.num_places:,} rows of an epoch are fewer than a global"
            f" batch of {opening.sharding.global_batch_size:,}, and drop_last=True leaves them out"
            "\ngive a smaller batch_size, or drop_last=False",
            ShortBatchWarning,
            stacklevel=3,
        )
    with_valid = is_padded or opening.keeps_places
    is_remote = opening.arguments.decode_on == "server"
    if is_remote and opening.is_plain and opening.outputs.transform is None:
        remote = RemotePass(_remote_setup(opening, with_valid=with_valid), shares)
        return remote, remote.start
    plan = opening.rows.plan(opening.order, seed=opening.seed, epoch=opening.epoch)
    if isinstance(plan, ComposedPlan):
        left_out = positions_left_out(opening.rows, opening.left_out)
        plan = replace(plan, left_out=left_out, homes=None if is_remote else _homes(opening))
        shares = map(plan.unpack, shares)
    if is_remote:
        setup = _remote_setup(opening, with_valid=with_valid)
        if not opening.is_plain:
            setup = replace(setup, listing=plan)
        if opening.outputs.transform is not None:
            setup = _transformed_here(opening, plan, setup)
        if isinstance(plan, ComposedPlan):
            setup = replace(setup, combine=partial(_combined_here, plan.form, opening))
        remote = RemotePass(setup, shares)
        return remote, remote.start
    shares = _look_ahead(opening, plan, iter(shares))
    transform = _transform(opening)
    setup = _pipeline_setup(opening, plan, transform)
    if setup.windows is not None:
        shares = setup.windows.watch(shares)
    pipeline = Pipeline(setup, shares, is_in_memory=opening.is_in_memory)
    assembler = _assembler(opening, pipeline, transform, with_valid=with_valid)
    if isinstance(plan, ComposedPlan):
        combine = _combine(plan.form, opening)
        assembler = replace(assembler, combine=combine, joins=plan.form.joins)
    return pipeline, partial(pipeline.start, assembler)


def _combine(form: Form, opening: Opening) -> Combine:
    """Return the function that makes units of rows: joins, steps, and how full sequences are.

    Numbers joined from ranges of stored samples are mapped afterwards.
    """
    maps = {one.name: one.linear for one in opening.columns if one.name in form.joins}

    def combine(share: ComposedShare, batch: dict[str, Any], slabs: SlabPool) -> dict[str, Any]:
        opening.counters.add(**form.filled(share))
        made = form.combine(share, batch, slabs)
        for name, linear in maps.items():
            if linear is not None:
                own = made[name]
                is_list = isinstance(own, list)
                made[name] = [*map(linear.apply, own)] if is_list else linear.apply(own)
        if share.holes is not None:
            form.leave_out(share, made)
        return made

    return combine


def _combined_here(
    form: Form, opening: Opening, share: ComposedShare, batch: dict[str, Any]
) -> dict[str, Any]:
    """Make units of rows that a server has read, decoded and mapped."""
    for name in form.joins:
        batch[name] = ranges_of_samples(batch[name])
    opening.counters.add(**form.filled(share))
    made = form.combine(share, batch, opening.slabs)
    if share.holes is not None:
        form.leave_out(share, made)
    return made


def _transformed_here(opening: Opening, plan: Plan, setup: RemoteSetup) -> RemoteSetup:
    """Transform the rows of batches that a server has decoded.

    Rows that it lost keep their places until then: a row draws random numbers by its own.
    """
    transform, counters, selection = _transform(opening), opening.counters, opening.rows.selection
    assert transform is not None, "only then"
    workers = WorkerThreads(
        opening.arguments.worker_count,
        name="tensorlake-loader-transform",
        waited=counters.waited,
        processes=transform.processes,
    )
    timed = partial(counters.timed, "transform_s")
    made = BatchTransform(transform, workers, timed, with_valid=setup.with_valid)

    def transformed(share: Share, batch: dict[str, Any]) -> dict[str, Any]:
        places = plan.deal(share)
        rows = selection.row_numbers(plan.at(places)).tolist()
        return made.apply(batch, rows, places.tolist(), counts=share.valid > 0)

    marks = opening.arguments.on_error == "skip"
    columns = tuple(map(_with_null_listed, setup.columns))
    return replace(
        setup,
        columns=columns,
        combine=transformed,
        workers=made,
        keeps_places=setup.keeps_places or marks,
        with_valid=setup.with_valid or marks,
    )


def _with_null_listed(column: ColumnPlan) -> ColumnPlan:
    """Let a server list the samples of a column of which a transform may get NULL."""
    has_null = column.type is not None and column.type.nullable and column.null is None
    is_array = column.collate is None and column.kind in ("uniform", "image", "decoded")
    return replace(column, collate="list") if has_null and is_array else column


def _look_ahead(opening: Opening, plan: Plan, shares: Iterator[Share]) -> Iterator[Share]:
    """Read the index pages of a remote dataset for the first batch, for all tensors at once.

    Rows are read according to their sizes, which the index has, and their places, which the plan
    has. Sequentially and tensor by tensor, the number of round trips would be the sum of all tree
    heights.
    """
    rows = opening.rows
    first = next(shares, None)
    if first is None:
        return shares
    if not rows.reader.store.is_local:
        positions = plan.at(plan.deal(first))
        physical = rows.selection.physical(positions)
        try:
            rows.reader.look_ahead(tuple(opening.cache.tensors), physical)
        except CorruptionError:
            if opening.arguments.on_error == "raise":
                raise  # else the plan finds which rows are lost
    return chain([first], shares)


def _pipeline_setup(opening: Opening, plan: Plan, transform: RowTransform | None) -> PipelineSetup:
    rows, arguments, sparse = opening.rows, opening.arguments, opening.sparse
    windows, parts = None, _part_reads(opening)
    if len(sparse) > len(parts) and isinstance(plan, AccessPlan | MixPlan) and plan.reads_blocks:
        readers = [rows.reader]
        if isinstance(plan, MixPlan):
            assert isinstance(rows.reader, MixReader), "of the same rows"
            readers = [source.reader for source in rows.reader.sources]
        blocks = sparse[len(parts) :]
        sizes = zip(*(reader.row_nbytes(blocks) for reader in readers), strict=True)
        by_tensor = dict(zip(blocks, sizes, strict=True))
        windows, sparse = WindowReads(plan, rows.selection, opening.cache, by_tensor), tuple(parts)
    is_followed, blocks = _is_followed(opening, plan), windows.tensors if windows else ()
    alone: tuple[str, ...] = ()
    if is_followed and not isinstance(plan, AccessPlan | GroupedPlan | ComposedPlan):
        alone, sparse = sparse[len(parts) :], tuple(parts)
    dense = tuple(name for name in opening.cache.tensors if name not in sparse)
    row_nbytes = max(1, sum(column.sample_nbytes for column in opening.columns))
    if isinstance(plan, ComposedPlan):
        row_nbytes *= plan.form.growth
    read_nbytes = 0  # of a local dataset: mapped chunks take no memory
    if not rows.reader.store.is_local or isinstance(plan, ComposedPlan):
        whole = tuple(name for name in opening.cache.tensors if name not in parts)
        read_nbytes = row_nbytes_of(rows.reader, whole) + sum(one.nbytes for one in parts.values())
    return PipelineSetup(
        selection=rows.selection,
        reader=_through(rows.reader, opening.disk),
        plan=plan,
        cache=opening.cache,
        counters=opening.counters,
        limit=opening.limit,
        dense=dense,
        sparse=sparse,
        windows=windows,
        virtual={one.name: rows.virtual[one.name] for one in opening.columns if one.is_virtual},
        row_nbytes=max(row_nbytes, read_nbytes),
        most_rows=_rows_of_functions(opening),
        waiting_row_nbytes=0 if opening.is_late else row_nbytes,
        workers=arguments.worker_count,
        processes=None if transform is None else transform.processes,
        prefetch_nbytes=arguments.prefetch_nbytes,
        timeout_s=arguments.timeout,
        skips=arguments.on_error == "skip",
        keeps=kept_rows(plan, _homes(opening), opening.sharding),
        parts=parts,
        followed=tuple(one for one in dense if one not in blocks) if is_followed else (),
        alone=alone,
    )


def _is_followed(opening: Opening, plan: Plan) -> bool:
    """Whether chunks and rows are kept by next use: not all fit, and some come back.

    In windows and in the dataset's own order they come back in the next epoch at the earliest, and
    rows drawn in the dataset's order at once.
    """
    order = opening.order.base if isinstance(opening.order, ArrangedOrder) else opening.order
    is_once = isinstance(plan, AccessPlan) and plan.key.order.kind != "full"
    if is_once or not order.is_shuffled:
        return False
    return cache_short_nbytes(opening.rows.reader, opening.cache) > 0


def _homes(opening: Opening) -> Homes | None:
    """Return the homes of rows, if the disk of this rank keeps its own alone."""
    return homes_of(opening.batches) if opening.disk.is_on else None


def _rows_of_functions(opening: Opening) -> Callable[[], float]:
    """Return how many rows the pass's functions are expected to finish in ``GROUP_S``.

    The size of a row tells neither their time nor the size of what they return: groups of 65,536
    labels, whose transform loads a file of 5 ms each, would take minutes and gigabytes.
    """
    arguments = opening.arguments
    if arguments.transform is None and not any(map(callable, (arguments.collate or {}).values())):
        return lambda: math.inf
    return partial(opening.counters.rows_within, GROUP_S * arguments.worker_count)


def _through(reader: Reader, disk: DiskTier) -> Reader:
    """Read remote chunks through the disk tier; local ones are mapped, which copies nothing."""
    if not disk.is_on:
        return reader
    if isinstance(reader, MixReader):
        own = (replace(one, reader=_through(one.reader, disk)) for one in reader.sources)
        return MixReader(tuple(own))
    if reader.store.is_local:
        return reader
    return reader.through(disk.of(reader.snapshot.url))


def _part_reads(opening: Opening) -> dict[str, PartReads]:
    decoders = opening.decoders
    sizes = opening.rows.reader.row_nbytes(tuple(decoders)) if decoders else ()
    return {
        name: PartReads(
            partial(one.wanted, epoch=opening.epoch), one.read_nbytes(nbytes), one.others
        )
        for (name, one), nbytes in zip(decoders.items(), sizes, strict=True)
    }


def _assembler(
    opening: Opening, pipeline: Pipeline, transform: RowTransform | None, *, with_valid: bool
) -> Assembler:
    return Assembler(
        columns=opening.columns,
        cache=opening.cache,
        slabs=opening.slabs,
        workers=pipeline.workers,
        counters=opening.counters,
        seed=opening.seed,
        epoch=opening.epoch,
        on_error=opening.arguments.on_error,
        transform=transform,
        with_valid=with_valid,
        is_late=opening.is_late,
        release=pipeline.release,
        decoded=_decoded(opening),
    )


def _decoded(opening: Opening) -> DecodedImages | None:
    if not opening.arguments.cache_decoded:
        return None
    url = opening.rows.selection.snapshot.url
    return DecodedImages(opening.disk.of(url), opening.counters)


def _transform(opening: Opening) -> RowTransform | None:
    arguments = opening.arguments
    transform = opening.outputs.transform
    if transform is None:
        return None
    call = TransformCall(
        transform,
        seed=opening.seed,
        epoch=opening.epoch,
        takes_rng=takes_rng(transform),
        is_deterministic=arguments.deterministic,
        watch=DrawWatch() if arguments.deterministic else None,
    )
    if arguments.engine == "threads":
        return RowTransform(call, opening.outputs, None, MAX_PIECE_ROWS)
    processes = processes_of(call, arguments.worker_count)
    return RowTransform(call, opening.outputs, processes, PROCESS_PIECE_ROWS)


def _remote_setup(opening: Opening, *, with_valid: bool) -> RemoteSetup:
    assert opening.rows.server is not None, "checked when the loader was made"
    return RemoteSetup(
        server=opening.rows.server,
        arguments=opening.arguments,
        columns=opening.columns,
        sharding=opening.sharding,
        state=opening.state(),
        turns=opening.converter.turn_and_turns()[1],
        keeps_places=opening.keeps_places,
        with_valid=with_valid,
        counters=opening.counters,
    )
