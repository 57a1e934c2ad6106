"""Rows that one transaction stores and another publishes: addresses travel between them, no bytes.

    extend ──► chunks, packs ──store──► StoredRows ──adopt──► commit

In this way several processes write the packs of one commit. The rows get their ids from the
transaction that publishes them. Until then nothing cites the packs, and garbage collection takes
those that no transaction adopts within the grace time; rule 1 (docs/reference/format.md, "Garbage")
holds for adopted packs by the store time of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlake.errors import TransactionExpiredError
from tensorlake.format import Extents, PageReader, Schema
from tensorlake.storage import runtime
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.transaction.changeset import Staged, fill_extents
from tensorlake.versions.transaction.delta import net_of

__all__ = ["StoredRows", "stored_rows"]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows at the end of a dataset whose chunks are stored, and not published.

    Attributes:
        extents: By tensor id, the chunks of all rows; a tensor without has its fill.
        num_rows: How many rows they are.
        pack_count: How many packs hold them.
        pack_nbytes: The bytes of these packs.
        stored_at: Store time of the first pack, in microseconds; None without a pack.
    """

    extents: Mapping[str, Extents]
    num_rows: int
    pack_count: int
    pack_nbytes: int
    stored_at: int | None

    def chunks(self, schema: Schema) -> dict[str, Extents]:
        """Return the chunks of each tensor of a schema, by its id."""
        return {
            spec.id: self.extents[spec.id]
            if spec.id in self.extents
            else fill_extents(spec, self.num_rows)
            for spec in schema.tensors
        }

    def check_age(self, fence: int) -> None:
        """Refuse rows whose packs a garbage collection may have taken.

        Raises:
            TransactionExpiredError: They are not younger than the fence.
        """
        if self.stored_at is not None and self.stored_at <= fence:
            raise TransactionExpiredError(
                f"{self.num_rows:,} rows were stored longer ago than the dataset's grace time, so"
                " their chunks may be collected; they were not published\nrepeat the call"
            )


def stored_rows(staged: Staged, stage: PackStage, pages: PageReader) -> StoredRows:
    """Store the rows that changes append; not on the storage loop.

    Raises:
        StorageError: A pack could not be stored.
    """
    runtime.run(stage.finish())
    net = runtime.run(net_of(staged, pages, stage))
    return StoredRows(
        net.appended,
        net.appended_rows,
        stage.pack_count,
        stage.pack_nbytes,
        runtime.run(stage.stored_at()),
    )
