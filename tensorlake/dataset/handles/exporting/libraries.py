"""Exports to other libraries: arrays, tables and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import HasRows

__all__ = [
    "arrow_dataset",
    "arrow_schema",
    "arrow_stream",
    "export",
    "to_arrow",
    "to_duckdb",
    "to_hf",
    "to_numpy",
    "to_pandas",
    "to_zarr",
]


def to_pandas(self: HasRows, columns: Sequence[str] | None = None) -> Any:  # noqa: D417 - a method: self
    """Read rows into a pandas DataFrame whose index is ``_row``.

    Args:
        columns: Only these; ``_row_id`` may be among them.

    Raises:
        InvalidInputError: It would be more than 4 GiB.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-pandas", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_pandas()["x"].sum()
        np.int64(6)
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    return export.to_pandas(self.__rowset__, columns)


def to_arrow(self: HasRows, columns: Sequence[str] | None = None) -> Any:  # noqa: D417 - a method: self
    """Read rows into a ``pyarrow.Table``; docs/reference/sdk.md lists the Arrow type of each type.

    Args:
        columns: Only these; ``_row`` and ``_row_id`` may be among them.

    Raises:
        InvalidInputError: It would be more than 4 GiB; to stream the rows instead, use
            ``pyarrow.RecordBatchReader.from_stream(ds)``.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-arrow", {"y": tl.ClassLabel(["cat", "dog"])})
        >>> ds.extend({"y": ["dog", "cat"]})
        >>> ds.to_arrow(columns=["_row", "y"]).to_pylist()
        [{'_row': 0, 'y': 'dog'}, {'_row': 1, 'y': 'cat'}]
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    return export.to_arrow(self.__rowset__, columns)


def arrow_dataset(self: HasRows) -> Any:
    """Return the rows as a ``pyarrow.dataset.Dataset``, which reads data on demand.

    DuckDB, polars and pyarrow's own scanner pass columns and conditions; only those columns are
    read, and conditions that TQL can express select the rows first.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-arrow-dataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.arrow_dataset().to_table(columns=["x"]).to_pydict()
        {'x': [1, 2, 3]}
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    return export.arrow_dataset(self.__rowset__)


def to_duckdb(self: HasRows, connection: Any = None) -> Any:  # noqa: D417 - a method: self
    """Return the rows as a DuckDB relation over `arrow_dataset`; no data is copied in advance.

    Args:
        connection: DuckDB connection; None: the default one.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-duckdb", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_duckdb().filter("x > 1").fetchall()
        [(2,), (3,)]
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    return export.to_duckdb(self.__rowset__, connection)


def to_hf(self: HasRows, columns: Sequence[str] | None = None) -> Any:  # noqa: D417 - a method: self
    """Read rows into a ``datasets.Dataset`` of Hugging Face; images as stored.

    Its features are the tensors' types; ``tl.ingest.huggingface`` converts them back.

    Args:
        columns: Only these; ``_row`` and ``_row_id`` may be among them.

    Raises:
        InvalidInputError: It would be more than 4 GiB.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-hf", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_hf()["x"][1]
        2
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    return export.to_hf(self.__rowset__, columns)


@overload
def to_numpy(
    self: HasRows, dst: None = None, *, columns: Sequence[str] | None = None
) -> dict[str, np.ndarray]: ...
@overload
def to_numpy(
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None: ...
def to_numpy(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray] | None:
    """Read columns into arrays by name, or write them into an ``.npz`` file.

    Tensors of one shape become an array, labels their codes, and all others an array of objects.
    A file stores ragged ones as ``x.values`` and ``x.shapes``, text as NumPy strings, and has no
    form for bytes. ``tl.ingest.numpy`` reads the file back.

    Args:
        dst: Path or URL of the file, which appears when it is complete. None: arrays in memory.
        columns: Only these.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: It would be more than 4 GiB, or numbers are NULL.
        UnsupportedFeatureError: A file does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-numpy", {"x": "int64", "name": "str"})
        >>> ds.extend({"x": [1, 2], "name": ["one", "two"]})
        >>> ds.to_numpy()["x"]
        array([1, 2])
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    if dst is None:
        return export.to_numpy(self.__rowset__, columns)
    dst = export.destination(dst, storage_options)
    return export.to_npz(self.__rowset__, dst, columns=columns, overwrite=overwrite)


def to_zarr(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Write a zarr group with an array for each tensor, and return it, open for reading.

    Ragged tensors and bytes are groups of ``values`` and ``shapes`` or ``offsets``, as
    described in docs/reference/sdk.md.

    Args:
        dst: Path or URL of a folder. None: in memory; the group of a URL is not returned.
        columns: Only these tensors.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: ``dst`` exists, or in memory it would be over 4 GiB.
        UnsupportedFeatureError: zarr does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-zarr", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_zarr()["x"][:]
        array([1, 2, 3])
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    if dst is not None:
        dst = export.destination(dst, storage_options)
    return export.to_zarr(self.__rowset__, dst, columns=columns, overwrite=overwrite)


def arrow_stream(self: HasRows, requested_schema: object = None) -> object:
    """Export all columns as a stream (the Arrow PyCapsule protocol), batch by batch."""
    from tensorlake.dataset import export

    return export.to_reader(self.__rowset__).__arrow_c_stream__(requested_schema)


def arrow_schema(self: HasRows) -> object:
    """Export the schema of the stream."""
    from tensorlake.dataset import export

    here = self.__rowset__
    return export.arrow_schema(here, export.check_columns(here, None)).__arrow_c_schema__()


def export(  # noqa: D417 - a method: self
    self: HasRows,
    kind: str,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Any:
    """Write files of a format by its name: that of a method ``to_…``, or of a plug-in.

    Args:
        kind: The format, such as "parquet", or one that an installed package provides in the group
            of entry points ``tensorlake.exporters``.
        dst: Path or URL of the file or the folder.
        columns: Only these tensors.
        overwrite: Whether to replace an earlier export of the same format.
        **options: Arguments of the format, and ``storage_options``.

    Raises:
        InvalidInputError: The format is unknown.
        UnsupportedFeatureError: Its plug-in cannot be loaded.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-export", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.export("csv", "numbers.csv")
        >>> ds.discard()
    """
    from tensorlake.dataset.export import check_outside, exporter

    function = exporter(kind)
    if function is None:
        method = getattr(self, f"to_{kind}")
        return method(dst, columns=columns, overwrite=overwrite, **options)
    check_outside(dst)
    return function(self, dst, columns=columns, overwrite=overwrite, **options)
