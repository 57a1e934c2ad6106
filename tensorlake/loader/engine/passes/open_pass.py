"""Open a pass: from a loader's parts and position to the object that makes its batches.

    decode_on="client"    Pipeline and Assembler: this process reads, gathers and decodes
                          and where all chunks are in memory, without threads
    decode_on="server"    RemotePass: servers do (``remote.py``)

Nothing runs yet: the pass begins when its iterator starts it. State that outlives a pass (the
memory tier, the slabs, the counters and the measured concurrency limit) belongs to the loader.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from tensorlake.errors import CorruptionError
from tensorlake.loader.caches.decoded_images import DecodedImages
from tensorlake.loader.engine.batching import homes_of, kept_rows
from tensorlake.loader.engine.composed.rows import ComposedPlan, positions_left_out
from tensorlake.loader.engine.passes.remote import open_remote
from tensorlake.loader.engine.pipeline import Pipeline, PipelineSetup
from tensorlake.loader.plan.arrangement import ArrangedOrder, GroupedPlan
from tensorlake.loader.plan.plan import AccessPlan
from tensorlake.loader.plan.sharding import ShortBatchWarning
from tensorlake.loader.runtime.rng import takes_rng
from tensorlake.loader.sources.mix.plan import MixPlan
from tensorlake.loader.sources.mix.reader import MixReader
from tensorlake.loader.sources.read_strategy import (
    cache_short_nbytes,
    row_nbytes_of,
)
from tensorlake.loader.sources.windows import WindowReads
from tensorlake.loader.stages.assemble import MAX_PIECE_ROWS, Assembler
from tensorlake.loader.stages.hedge import Hedge
from tensorlake.loader.stages.process_transform import processes_of
from tensorlake.loader.stages.rng_guard import DrawWatch
from tensorlake.loader.stages.sparse_reads import PartReads
from tensorlake.loader.stages.transform import RowTransform, TransformCall

if TYPE_CHECKING:
    from tensorlake.loader.caches.disk_cache import DiskTier
    from tensorlake.loader.engine.composed.rows import ComposedShare, Form
    from tensorlake.loader.engine.iterator import Pass
    from tensorlake.loader.engine.passes.opening import Opening
    from tensorlake.loader.plan.placement import Homes
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Reader
    from tensorlake.loader.plan.sharding import Share
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.stages.assemble import Combine

__all__ = ["open_pass"]

PROCESS_PIECE_ROWS = 32  # a message costs 0.2 ms
GROUP_S = 0.1  # of functions: a thousand times what a group costs, and short for who waits


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
        remote = open_remote(opening, shares, plan=None, transform=None, with_valid=with_valid)
        return remote, remote.start
    plan = opening.rows.plan(opening.order, seed=opening.seed, epoch=opening.epoch)
    if isinstance(plan, ComposedPlan):
        left_out = positions_left_out(opening.rows, opening.left_out)
        plan = replace(plan, left_out=left_out, homes=None if is_remote else _homes(opening))
        shares = map(plan.unpack, shares)
    if is_remote:
        own = _transform(opening)
        remote = open_remote(opening, shares, plan=plan, transform=own, with_valid=with_valid)
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
        reader=_through(rows.reader, opening.disk, Hedge(opening.counters)),
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


def _through(reader: Reader, disk: DiskTier, hedge: Hedge) -> Reader:
    """Hedge remote reads, and look on disk first; local chunks are mapped, which copies nothing."""
    if isinstance(reader, MixReader):
        own = (replace(one, reader=_through(one.reader, disk, hedge)) for one in reader.sources)
        return MixReader(tuple(own))
    if reader.store.is_local:
        return reader
    return reader.through(disk.of(reader.snapshot.url) if disk.is_on else None, hedge)


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
        notes_left_out=not opening.converter.presents,
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
