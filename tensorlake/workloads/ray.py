"""``tl.ray``: views as datasets of Ray Data, and datasets of Ray Data as rows (extra ``ray``).

    tl.ray.dataset(view).map_batches(…).iter_torch_batches(…)
    tl.ray.write(ray_dataset, url)

A read task has a range of rows, and reads them at the version of the view. A write task commits its
blocks to a branch of the job, under a key: Ray may run it again. The end of the job merges that
branch, so all rows are published by one commit, or none is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from os import PathLike
from typing import Any, Literal

import numpy as np

from tensorlake.dataset import (
    Dataset,
    RowSet,
    View,
    create,
    exists,
    infer_schema,
    open_dataset,
    rowset_of,
)
from tensorlake.dataset import delete as delete_dataset
from tensorlake.errors import InvalidInputError, missing_extra, shown
from tensorlake.quantities import checked_integer
from tensorlake.reading import column_nbytes
from tensorlake.storage import MemoryStore, open_store, place_text
from tensorlake.types import Array, SampleType

__all__ = ["dataset", "write"]

RayDataset = Any  # of an optional library, like all of Ray's below
Block = Any

BLOCK_ROWS = 4096
BLOCK_NBYTES = 32 << 20
"""Rows and stored bytes of a block: decoded images stay below Ray's 128 MiB."""


def dataset(
    view: Dataset | View, *, columns: Sequence[str] | None = None, blocks: int | None = None
) -> RayDataset:
    """Read a dataset or view as a ``ray.data.Dataset``, in tasks of ranges of rows.

    Columns have the values of ``ds[name][:]``: arrays, decoded images, codes of classes; where a
    column has NULLs, plain values with None. A struct is columns named ``pose.x``.

    Args:
        view: The rows, at their version.
        columns: Columns to read; None: all.
        blocks: Number of read tasks; None: as many as Ray chooses.

    Raises:
        InvalidInputError: The rows are in the memory of this process.
        InvalidStateError: The dataset has staged changes.
        MissingExtraError: Ray is not installed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-ray", {"x": "int64"})
        >>> tl.ray.dataset(ds)  # doctest: +SKIP
        Dataset(num_rows=0, schema=Unknown schema)
    """
    ray_data = _ray_data("tl.ray.dataset()")
    if blocks is not None:
        checked_integer(blocks, name="blocks", least=1)
    rows = rowset_of(view)
    if isinstance(rows.session.store, MemoryStore):
        raise _in_memory("tl.ray.dataset()", rows.url)
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns={shown(columns)}: give a list of names: columns=[{shown(columns)}]"
        )
    view = View(rows) if columns is None else View(rows)[[*columns]]
    source = _source_class()(view, rowset_of(view).columns)
    return ray_data.read_datasource(source, override_num_blocks=blocks)


def write(
    data: RayDataset,
    url: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    mode: Literal["create", "append"] = "create",
    message: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write a ``ray.data.Dataset`` to a new dataset, or to the end of one, as one commit.

    Rows come in the order in which Ray finishes its tasks; where their order matters, number them
    in a column.

    Args:
        data: The rows; all are computed.
        url: Path or URL of the dataset, where workers can write.
        schema: Types of the tensors of a new dataset; None: those of the blocks.
        mode: "append" adds to a dataset that exists.
        message: Message of the commit.
        storage_options: As in ``tl.open``.

    Raises:
        InvalidInputError: Values do not fit the schema, and nothing is published; or there is a
            dataset, and ``mode`` is "create".
        MissingExtraError: Ray is not installed.

    Example:
        >>> import ray, tensorlake as tl  # doctest: +SKIP
        >>> tl.ray.write(ray.data.range(100), "numbers.tl")  # doctest: +SKIP
    """
    _ray_data("tl.ray.write()")
    if mode not in ("create", "append"):
        raise InvalidInputError(f"mode={shown(mode)}: give 'create' or 'append'", actual=mode)
    if not hasattr(data, "write_datasink"):
        raise InvalidInputError(
            f"tl.ray.write() takes a ray.data.Dataset, got {type(data).__name__}"
            "\nmake one, such as ray.data.from_arrow(table); other rows: ds.extend(rows)",
            actual=type(data).__name__,
        )
    url = place_text(url, what="url")
    options: dict[str, Any] = {"storage_options": storage_options}
    if isinstance(open_store(url, **options), MemoryStore):
        raise _in_memory("tl.ray.write()", url)
    is_there = exists(url, **options)
    if mode == "create" and is_there:
        raise InvalidInputError(
            f"there is a dataset at {url!r} already\nadd to it: mode='append'; or another URL"
        )
    if mode == "append" and not is_there:
        open_dataset(url, **options)  # raises what is missing
    branch = f"ray-{secrets.token_hex(8)}"
    job = _Job(url, branch, mode == "create", message or "tl.ray.write", storage_options)
    if job.is_new:
        create(url, _types(data.schema()) if schema is None else schema, **options).close()
    try:
        with open_dataset(url, **options) as ds, ds.branch(branch):
            pass
        data.write_datasink(_sink_class()(job))
    except BaseException:
        job.give_up()
        raise
    return open_dataset(url, **options)


def _ray_data(call: str) -> Any:
    try:
        return import_module("ray.data")
    except ImportError as error:
        raise missing_extra(call, "ray") from error


def _in_memory(call: str, url: str) -> InvalidInputError:
    return InvalidInputError(
        f"{call}: {url!r} is in the memory of this process, where workers of Ray do not reach it"
        "\ncopy it: tl.copy(src, dst), or give a place that they can read and write",
        dataset=url,
    )


@cache
def _source_class() -> type[Any]:
    """Make the class when Ray is there: its base is one of Ray's."""
    from ray.data import (  # pyright: ignore[reportMissingImports] - of the extra `ray`
        Datasource,
        ReadTask,
    )
    from ray.data.block import (  # pyright: ignore[reportMissingImports] - likewise
        BlockMetadata,
    )

    class TensorlakeDatasource(Datasource):  # pyright: ignore[reportUntypedBaseClass] - Ray's
        """Rows of one version."""

        def __init__(self, view: View, names: Sequence[str]) -> None:
            super().__init__()
            self._view, self._names = view, tuple(names)

        def estimate_inmemory_data_size(self) -> int:
            """Return about the bytes of all rows."""
            return _nbytes(rowset_of(self._view), self._names)

        def get_read_tasks(
            self,
            parallelism: int,
            per_task_row_limit: int | None = None,
            data_context: Any = None,
        ) -> list[Any]:
            """Cut the rows into ranges."""
            del data_context
            count = len(self._view)
            total = self.estimate_inmemory_data_size()
            bounds = np.linspace(0, count, max(1, min(parallelism, count)) + 1).astype(np.int64)
            tasks: list[Any] = []
            for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
                share = total * (stop - start) // max(1, count)
                metadata = BlockMetadata(
                    num_rows=stop - start, size_bytes=share, exec_stats=None, input_files=None
                )
                read = partial(_blocks, self._view, self._names, start, stop)
                tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
            return tasks

    return TensorlakeDatasource


def _nbytes(rows: RowSet, names: Sequence[str]) -> int:
    stored = [name for name in names if name in rows.selection.columns]
    physical = rows.selection.physical(rows.selection.all_positions()) if stored else None
    known = sum(
        column_nbytes(rows.reader(), name, physical) for name in stored if physical is not None
    )
    return known + 8 * len(rows) * (len(names) - len(stored))


def _blocks(view: View, names: Sequence[str], start: int, stop: int) -> Iterator[Block]:
    """Read rows [start, stop), a block at a time."""
    from ray.data.block import (  # pyright: ignore[reportMissingImports] - of the extra `ray`
        BlockAccessor,
    )

    part = view[start:stop]
    for first, last in rowset_of(part).spans(names, rows_max=BLOCK_ROWS, nbytes=BLOCK_NBYTES):
        yield BlockAccessor.batch_to_block(
            {name: _values(part, name, first, last) for name in names}
        )


def _values(view: View, name: str, start: int, stop: int) -> Any:
    """Return the values of a column as Ray makes tensors of them, where they are arrays."""
    part = view[start:stop]
    rows = rowset_of(part)
    if name not in rows.selection.columns:
        return part[name]  # of a query: values as they are
    physical = rows.selection.physical(rows.selection.all_positions())
    if bool(rows.reader().is_null(name, physical).any()):
        return part[name].to_list()
    values = part[name].to_numpy()
    is_array = values.dtype.kind != "O" or (len(values) > 0 and isinstance(values[0], np.ndarray))
    return values if is_array else [*values]


@dataclass(frozen=True, slots=True)
class _Job:
    """One write.

    Attributes:
        url: URL of the dataset.
        branch: The branch of the job.
        is_new: Whether the job made the dataset.
        message: Message of the commit.
        storage_options: Those of the dataset.
    """

    url: str
    branch: str
    is_new: bool
    message: str
    storage_options: Mapping[str, Any] | None

    def write(self, blocks: Iterable[Block], task: int) -> int:
        """Commit blocks to the branch, once; return the number of rows."""
        from ray.data.block import (  # pyright: ignore[reportMissingImports] - of the extra `ray`
            BlockAccessor,
        )

        rows = 0
        options: dict[str, Any] = {"storage_options": self.storage_options}
        with open_dataset(self.url, self.branch, **options) as ds:
            for block in blocks:
                accessor = BlockAccessor.for_block(block)
                if count := accessor.num_rows():
                    table = accessor.to_arrow()
                    tensors = [one.name for one in table.schema if _is_tensor(one.type)]
                    arrays = BlockAccessor.for_block(table).to_numpy(tensors) if tensors else {}
                    others = {name: table.column(name) for name in table.column_names}
                    ds.extend({**others, **{name: _plain(arrays[name]) for name in tensors}})
                    rows += count
            if rows:
                ds.commit(f"{self.message}: task {task}", key=f"{self.branch}/{task}")
        return rows

    def end(self) -> None:
        """Publish the rows of the branch."""
        with open_dataset(self.url, storage_options=self.storage_options) as ds:
            ds.merge(self.branch)
            ds.delete_branch(self.branch)

    def give_up(self) -> None:
        """Remove what the job has made."""
        options: dict[str, Any] = {"storage_options": self.storage_options}
        if self.is_new:
            delete_dataset(self.url, confirm=self.url, **options)
            return
        with open_dataset(self.url, **options) as ds:
            if self.branch in ds.branches:
                ds.delete_branch(self.branch)


@cache
def _sink_class() -> type[Any]:
    """Make the class when Ray is there."""
    from ray.data import Datasink  # pyright: ignore[reportMissingImports] - of the extra `ray`

    class TensorlakeDatasink(Datasink):  # pyright: ignore[reportUntypedBaseClass] - Ray's
        """Rows at the end of a dataset."""

        def __init__(self, job: _Job) -> None:
            self._job = job

        def write(self, blocks: Iterable[Block], ctx: Any) -> int:
            """Write the blocks of a task."""
            return self._job.write(blocks, ctx.task_idx)

        def on_write_complete(self, write_result: Any) -> None:
            """Publish."""
            del write_result
            self._job.end()

    return TensorlakeDatasink


def _types(schema: Any) -> dict[str, SampleType]:
    """Return types for the columns of blocks: arrays for Ray's tensors; others may be NULL."""
    import pyarrow as pa

    schema = getattr(schema, "base_schema", None)
    if schema is None or not len(schema):
        raise InvalidInputError(
            "the types of the ray.data.Dataset are not known\ngive them: schema={'name': type, …}"
        )
    types: dict[str, SampleType] = {}
    for one in schema:
        kind = one.type
        if _is_tensor(kind):
            values = kind.storage_type
            values = values.field("data").type if pa.types.is_struct(values) else values
            dtype = np.dtype(values.value_type.to_pandas_dtype())
            types[one.name] = Array(dtype.name, tuple(kind.shape))
        else:
            found = infer_schema(pa.schema([one]).empty_table())
            types |= {name: replace(kind, nullable=True) for name, kind in found.items()}
    return types


def _is_tensor(kind: Any) -> bool:
    """Whether a type is of the tensors of Ray's blocks."""
    return str(getattr(kind, "extension_name", "")).startswith("ray.data.arrow_")


def _plain(values: Any) -> Any:
    """Return tensors as ``extend`` takes them: those of several shapes are a list."""
    return [*values] if values.dtype.kind == "O" else values
