"""Descriptions of a loader before it runs, with ceilings that are measured or estimated.

``loader.explain()`` describes order, batches, reads, bounds and ceilings, for which it streams some
batches with a loader of its own if none was read yet; ``repr(loader)`` describes its position and
the contents of its batches in a few lines, and reads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tensorlake.errors import StorageTimeoutError
from tensorlake.loader.caches.decoded_images import is_kept
from tensorlake.loader.config.batch_schema import IMAGE_NDIM
from tensorlake.loader.diagnosis.passes import HeldRows, Streamed, stream
from tensorlake.loader.sources.read_strategy import row_nbytes_of
from tensorlake.quantities import human_nbytes

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.engine.passes.opening import Opening
    from tensorlake.loader.plan.selection import Selection
    from tensorlake.loader.plan.sharding import Sharding
    from tensorlake.loader.runtime.stats import Stage

__all__ = ["describe_loader", "describe_plan"]

SHOWN_COLUMNS = 8
FUNCTIONS = ("transform", "batch_transform")
# Both are the 2 s that explain() may take before any batch: until the first one, and from then on.
ANSWER_S, CALIBRATION_S = 1.3, 0.7


def describe_loader(
    *,
    selection: Selection,
    epoch: int,
    batched: str,
    left: int | None,
    sharding: Sharding,
    columns: tuple[ColumnPlan, ...],
    channels_first: AbstractSet[str],
) -> str:
    """Describe a loader as its ``repr``.

    Args:
        selection: The rows it reads.
        epoch: The current epoch, or the next.
        batched: The batches of an epoch.
        left: Batches left in this epoch; None if it never ends, or they are not counted.
        sharding: This rank's share of the batches.
        columns: The columns of each batch.
        channels_first: Image columns laid out with channels before height.
    """
    rank, world_size = sharding.rank, sharding.world_size
    facts = [
        f"Loader {selection.snapshot.url!r} {selection.snapshot.version}",
        *([] if world_size == 1 else [f"rank {rank} of {world_size}"]),
        f"epoch {epoch}",
        batched,
        *([] if left is None else [f"{left:,} left"]),
    ]
    more = len(columns) - SHOWN_COLUMNS
    shown = (_described(one, channels_first) for one in columns[:SHOWN_COLUMNS])
    lines = [" · ".join(facts), *shown]
    return "\n".join([*lines, f"  … {more} more columns"] if more > 0 else lines)


def describe_plan(
    opening: Opening,
    *,
    drawn: int,
    batched: str,
    columns: tuple[ColumnPlan, ...],
    stages: Sequence[Stage],
    like: Callable[[LoaderArguments, Converter], Streamed],
    channels_first: AbstractSet[str],
) -> str:
    """Describe a loader's plan in a few lines.

    ``drawn`` is the number of rows of an epoch, ``stages`` are those measured by its passes, and
    ``like`` makes loaders that measure some before.
    """
    rows, arguments, sharding = opening.rows, opening.arguments, opening.sharding
    selection, sparse = rows.selection, opening.sparse
    ordered = rows.describe(opening.order)
    num_rows = selection.num_rows
    row_nbytes = row_nbytes_of(rows.reader, tuple(opening.cache.tensors))
    stored = drawn * row_nbytes
    lines = [
        (
            f"plan      {selection.snapshot.url} {selection.snapshot.version}: {num_rows:,} rows,"
            f" {ordered}"
        ),
        (
            f"batches   {batched.replace('batches of ', 'of ', 1)}; rank {sharding.rank} of"
            f" {sharding.world_size}"
        ),
        f"fetch     about {human_nbytes(stored)} an epoch, {human_nbytes(row_nbytes)} a row;"
        + (f" by row: {', '.join(sparse)}" if sparse else " by whole chunks"),
        (
            f"cache     {human_nbytes(arguments.cache_nbytes)} of memory{_disk(opening)};"
            f" prefetch {human_nbytes(arguments.prefetch_nbytes)}"
        ),
        f"decode    {arguments.worker_count} threads{_processes(arguments)}",
        f"ceilings  {_listed(stages) if stages else estimated_ceilings(opening, like)}",
    ]
    return "\n".join([*lines, *(_described(one, channels_first) for one in columns)])


def _disk(opening: Opening) -> str:
    folder, size = opening.arguments.cache_dir, opening.arguments.disk_nbytes
    if folder is None:
        return ""
    is_decoded, is_local = opening.arguments.cache_decoded, opening.rows.reader.store.is_local
    if is_local and not is_decoded:
        return f"; {os.fspath(folder)!r} is not used: the dataset is local"
    most = "free space" if size is None else human_nbytes(size)
    kept = "decoded images" if is_local else "bytes and decoded images" if is_decoded else "bytes"
    again = [one.name for one in opening.columns if one.spec is not None and not is_kept(one)]
    rest = f" ({', '.join(again)} decoded each time)" if is_decoded and again else ""
    return f", then {most} of disk for {kept}{rest} in {os.fspath(folder)!r}"


def _processes(arguments: LoaderArguments) -> str:
    has_any = arguments.engine == "processes" and arguments.transform is not None
    return f"; transform= in {arguments.worker_count} processes" if has_any else ""


def estimated_ceilings(
    opening: Opening, like: Callable[[LoaderArguments, Converter], Streamed]
) -> str:
    """Stream for at most 2 s without the user's functions, and list the ceilings of this time."""
    arguments = opening.arguments
    plain = replace(arguments, batch_transform=None, timeout=ANSWER_S, **opening.own_place)
    functions = [name for name in FUNCTIONS if getattr(arguments, name) is not None]
    if arguments.transform is not None:
        plain = replace(plain, transform=HeldRows(), engine="threads", collate=None)
    try:
        with closing(like(plain, opening.converter)) as loader:
            figures = stream(loader, None, seconds=CALIBRATION_S)
    except StorageTimeoutError:
        return f"unknown: no batch within {ANSWER_S:.1f} s"
    if figures is None:
        return "unknown: there is no batch"
    unknown = f"; not {' and '.join(f'{name}=' for name in functions)}" if functions else ""
    stages = [one for one in figures.stats.stages if one.name not in ("consumer", "transform")]
    rows = f"{figures.stats.rows:,} rows in {figures.seconds:.1f} s"
    return f"{_listed(stages)}, estimated from {rows}{unknown}"


def _listed(stages: Sequence[Stage]) -> str:
    return ", ".join(f"{stage.name} {stage.ceiling:,.0f}" for stage in stages) + " rows/s"


def _described(column: ColumnPlan, channels_first: AbstractSet[str]) -> str:
    form = "stacked" if column.is_stacked else str(column.collate or "list")
    dtype = "" if column.dtype is None else f"{column.dtype} "
    shape = column.shape
    if column.name in channels_first and len(shape) >= IMAGE_NDIM:
        shape = (*shape[:-IMAGE_NDIM], shape[-1], *shape[-IMAGE_NDIM:-1])
    return f"  {column.name:<14}{dtype}{shape} {form}"
