"""``Opening``: the parts of a loader, and its position, of which a pass is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorlake.loader.engine.composed.rows import form_of
from tensorlake.loader.plan.sharding import RowBatches
from tensorlake.loader.sources.read_strategy import (
    sparse_tensors,
)
from tensorlake.loader.sources.rows import SelectedRows

if TYPE_CHECKING:
    from tensorlake.loader.caches.disk_cache import DiskTier
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.config.converter import Converter
    from tensorlake.loader.decode import PartDecoder
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.plan.sharding import Batches, Sharding
    from tensorlake.loader.plan.state import LoaderState
    from tensorlake.loader.runtime.counters import Counters
    from tensorlake.loader.sources.buffer_pool import SlabPool
    from tensorlake.loader.sources.chunk_cache import ChunkCache
    from tensorlake.loader.sources.rows import OrderedRows
    from tensorlake.loader.stages.adaptive_limit import ConcurrencyLimit
    from tensorlake.loader.stages.stack import Outputs


__all__ = ["Opening"]

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
