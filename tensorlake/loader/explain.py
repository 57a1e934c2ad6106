"""What ``loader.explain()`` says before anything is run: order, batches, reads and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensorlake.loader.arguments import LoaderArguments
    from tensorlake.loader.columns import ColumnPlan
    from tensorlake.loader.sharding import Sharding
    from tensorlake.loader.source import Selection

__all__ = ["describe_plan"]


def describe_plan(
    *,
    selection: Selection,
    ordered: str,
    num_places: int | None,
    sharding: Sharding,
    columns: tuple[ColumnPlan, ...],
    sparse: tuple[str, ...],
    row_nbytes: int,
    arguments: LoaderArguments,
) -> str:
    """Describe a loader's plan in a few lines."""
    num_rows = selection.num_rows
    batches = "endless" if num_places is None else f"{sharding.num_batches(num_places):,}"
    stored = num_rows * row_nbytes
    lines = [
        (
            f"plan      {selection.snapshot.url} {selection.snapshot.version}: {num_rows:,} rows,"
            f" {ordered}"
        ),
        (
            f"batches   {batches} of {sharding.global_batch_size:,} rows; rank {sharding.rank} of"
            f" {sharding.world_size}"
        ),
        f"fetch     about {stored / 1e6:,.1f} MB an epoch, {row_nbytes:,} bytes a row;"
        + (f" by row: {', '.join(sparse)}" if sparse else " by whole chunks"),
        (
            f"cache     {arguments.cache_nbytes / 1e6:,.0f} MB of memory;"
            f" prefetch {arguments.prefetch_nbytes / 1e6:,.0f} MB"
        ),
        f"decode    {arguments.worker_count} threads",
    ]
    for column in columns:
        form = "stacked" if column.is_stacked else str(column.collate or "list")
        dtype = "" if column.dtype is None else f"{column.dtype} "
        lines.append(f"  {column.name:<14}{dtype}{column.shape} {form}")
    return "\n".join(lines)
