"""The ways out that a ``Dataset`` and a ``View`` share: tables in memory, streams, files.

Each is one line that calls its own module of `tensorlake.dataset.export`, where foreign libraries
are imported when they are needed. What goes out are the rows of one version: those of `frozen`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlake.dataset.view import View

__all__ = ["Exported"]


class Exported(ABC):
    """Rows and columns that go out into other libraries."""

    @abstractmethod
    def frozen(self) -> View:
        """The same rows and columns, which stay so when the handle moves on."""

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Read rows into a pandas DataFrame whose index is ``_row``.

        Args:
            columns: Only these; ``_row_id`` may be among them.

        Raises:
            InvalidInputError: It would be more than 4 GiB.
        """
        from tensorlake.dataset.export import to_pandas

        return to_pandas(self, columns)

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Read rows into a ``pyarrow.Table``; how each type comes out is in docs/reference/sdk.md.

        Args:
            columns: Only these; ``_row`` and ``_row_id`` may be among them.

        Raises:
            InvalidInputError: It would be more than 4 GiB; what streams is
                ``pyarrow.RecordBatchReader.from_stream(ds)``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-to-arrow", {"y": tl.ClassLabel(["cat", "dog"])})
            >>> ds.extend({"y": ["dog", "cat"]})
            >>> ds.to_arrow(columns=["_row", "y"]).to_pylist()
            [{'_row': 0, 'y': 'dog'}, {'_row': 1, 'y': 'cat'}]
            >>> ds.discard()
        """
        from tensorlake.dataset.export import to_arrow

        return to_arrow(self, columns)

    def arrow_dataset(self) -> Any:
        """Show the rows as a ``pyarrow.dataset.Dataset``, which reads what is asked of it.

        DuckDB, polars and pyarrow's own scanner name columns and conditions; only those columns
        are read, and conditions that TQL can answer choose the rows before.
        """
        from tensorlake.dataset.export import arrow_dataset

        return arrow_dataset(self)

    def to_duckdb(self, connection: Any = None) -> Any:
        """Show the rows as a DuckDB relation, over `arrow_dataset`: nothing is copied before.

        Args:
            connection: Of DuckDB; None: its default one.
        """
        from tensorlake.dataset.export import to_duckdb

        return to_duckdb(self, connection)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand out all columns as a stream (the Arrow PyCapsule protocol), batch by batch."""
        from tensorlake.dataset.export import to_reader

        return to_reader(self).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Hand out the schema that the stream has."""
        from tensorlake.dataset.export import arrow_schema, check_columns

        here = self.frozen()
        return arrow_schema(here, check_columns(here, None)).__arrow_c_schema__()

    # Files

    def to_parquet(
        self, dst: str | Path, *, columns: Sequence[str] | None = None, overwrite: bool = False
    ) -> None:
        """Write a Parquet file, a row group at a time; ``tl.ingest.parquet`` makes the same again.

        Args:
            dst: Path of the file. It appears when it is whole.
            columns: Only these; ``_row`` and ``_row_id`` may be among them.
            overwrite: Whether to replace what is there.

        Raises:
            InvalidInputError: There is something at ``dst``.
        """
        from tensorlake.dataset.export import to_parquet

        to_parquet(self, dst, columns=columns, overwrite=overwrite)

    def to_webdataset(
        self,
        dst: str | Path,
        *,
        columns: Sequence[str] | None = None,
        shard_size: str = "256MiB",
        overwrite: bool = False,
    ) -> None:
        """Write WebDataset shards into a folder; pictures are the bytes that are stored.

        Args:
            dst: Path of the folder. It appears when it is whole.
            columns: Only these tensors.
            shard_size: Bytes of samples a shard.
            overwrite: Whether to replace what is there.

        Raises:
            UnsupportedFeatureError: Shards have no form for a tensor; ``columns=`` leaves it out.
        """
        from tensorlake.dataset.export import to_webdataset
        from tensorlake.dataset.ingest.run import parse_size

        nbytes = parse_size(shard_size)
        to_webdataset(self, dst, columns=columns, shard_nbytes=nbytes, overwrite=overwrite)

    def to_mds(
        self,
        dst: str | Path,
        *,
        columns: Sequence[str] | None = None,
        shard_size: str = "64MiB",
        overwrite: bool = False,
    ) -> None:
        """Write MosaicML's MDS into a folder; pictures are the bytes that are stored.

        Args:
            dst: Path of the folder. It appears when it is whole.
            columns: Only these tensors.
            shard_size: Bytes a shard.
            overwrite: Whether to replace what is there.

        Raises:
            InvalidInputError: A value is NULL, which MDS has no form for.
            UnsupportedFeatureError: MDS has no form for a tensor; ``columns=`` leaves it out.
        """
        from tensorlake.dataset.export import to_mds
        from tensorlake.dataset.ingest.run import parse_size

        nbytes = parse_size(shard_size)
        to_mds(self, dst, columns=columns, shard_nbytes=nbytes, overwrite=overwrite)

    def to_coco(
        self, dst: str | Path, *, columns: Sequence[str] | None = None, overwrite: bool = False
    ) -> None:
        """Write a COCO folder: ``annotations.json``, and the stored pictures in ``images/``.

        The picture, its boxes, their classes, masks and keypoints are found by their types;
        other tensors are left out.

        Args:
            dst: Path of the folder. It appears when it is whole.
            columns: Only these tensors, where a type is there twice.
            overwrite: Whether to replace what is there.

        Raises:
            InvalidInputError: There is no picture, or not as many classes as boxes.
        """
        from tensorlake.dataset.export import to_coco

        to_coco(self, dst, columns=columns, overwrite=overwrite)
