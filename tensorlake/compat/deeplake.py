"""Deep Lake's names, as of version 4, for what is here.

    from tensorlake.compat import deeplake      # import deeplake

    ds = deeplake.create("pets.tl")
    ds.add_column("image", deeplake.types.Image(sample_compression="jpeg"))
    ds.append({"image": [...], "label": [...]})
    ds.commit("two pets")

A `Dataset` here is a view of ours, ``ds.tensorlake``, which has everything else. Names that have no
equivalent are not there: asking for one raises AttributeError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from secrets import token_hex
from typing import Any

import numpy as np

from tensorlake import dataset as own
from tensorlake.compat import deeplake_types as types
from tensorlake.errors import InvalidInputError, RowNotFoundError, SchemaError, shown
from tensorlake.ingest import parquet

__all__ = [
    "Dataset",
    "DatasetView",
    "copy",
    "create",
    "delete",
    "exists",
    "from_parquet",
    "like",
    "open",
    "open_read_only",
    "types",
]

Place = str | PathLike[str]


class Schema(dict[str, Any]):
    """The type of each column, by name."""

    @property
    def columns(self) -> list[Column]:
        """The columns, each with ``name`` and ``dtype``."""
        return [Column(name, kind) for name, kind in self.items()]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a schema."""

    name: str
    dtype: Any


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the history."""

    id: str
    message: str
    timestamp: Any


class Refs(list[str]):
    """Names of branches or tags, which the library has as an object with ``names()``."""

    def __init__(self, names: Iterable[str], at: Callable[[str], own.Dataset]) -> None:
        super().__init__(names)
        self._at = at

    def names(self) -> list[str]:
        """Return the names."""
        return [*self]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self:
                raise KeyError(at)
            return Ref(at, self._at)
        return super().__getitem__(at)


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag."""

    name: str
    at: Callable[[str], own.Dataset]

    def open(self) -> Dataset:
        """Return a dataset of it."""
        return Dataset(self.at(self.name))


class Row(Mapping[str, Any]):
    """A row, whose values can be replaced: ``ds[0]["label"] = 3``."""

    def __init__(self, rows: own.Dataset | own.View, row: Any, at: Any) -> None:
        self._rows, self._row, self._at = rows, row, at

    def __getitem__(self, column: str) -> Any:
        return self._row[column]

    def __setitem__(self, column: str, value: Any) -> None:
        tensor: Any = self._rows[column]  # a view's raises an error
        tensor[self._at] = value
        self._row = self._rows[self._at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __repr__(self) -> str:
        return repr(self._row)


class DatasetView:
    """Rows of a dataset, such as those of a query.

    Attributes:
        tensorlake: The rows as a view, or a dataset, of tensorlake.
    """

    def __init__(self, rows: own.Dataset | own.View) -> None:
        self.tensorlake = rows

    def __len__(self) -> int:
        return len(self.tensorlake)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            return self.tensorlake[at]
        found = self.tensorlake[at]
        if isinstance(found, own.View):
            return DatasetView(found)
        return Row(self.tensorlake, found, at) if isinstance(at, int | np.integer) else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tensorlake)

    def __repr__(self) -> str:
        return repr(self.tensorlake)

    @property
    def schema(self) -> Schema:
        """The type of each column."""
        return Schema(self.tensorlake.schema)

    def query(self, query: str) -> DatasetView:
        """Return the rows, and columns, of a TQL query."""
        return DatasetView(self.tensorlake.query(query))

    def batches(self, batch_size: int, *, drop_last: bool = False) -> Any:
        """Return a loader of batches, dicts of arrays."""
        return self.tensorlake.loader(batch_size=batch_size, drop_last=drop_last)

    def pytorch(self) -> _Rows:
        """Return a map-style dataset of torch: each item the dict of a row."""
        return _Rows(self.tensorlake)

    def tensorflow(self) -> Any:
        """Return a ``tf.data.Dataset`` of rows."""
        return self.tensorlake.tensorflow(batch_size=1)

    def to_csv(self, path: Place) -> None:
        """Write a CSV file."""
        self.tensorlake.to_csv(path)

    def to_pandas(self) -> Any:
        """Return a DataFrame."""
        return self.tensorlake.to_pandas()

    def summary(self) -> None:
        """Print the columns, and the number of rows."""
        print(self.tensorlake)  # noqa: T201 - as the library does


class Dataset(DatasetView):
    """A dataset with Deep Lake's methods.

    Example:
        >>> from tensorlake.compat import deeplake
        >>> ds = deeplake.create("memory://doc-compat-deeplake", {"x": "int64"})
        >>> ds.append({"x": [1, 2, 3]})
        >>> ds.commit("three rows")
        >>> len(ds.query("SELECT * WHERE x > 1")), ds[0]["x"]
        (2, np.int64(1))
    """

    tensorlake: own.Dataset  # pyright: ignore[reportIncompatibleVariableOverride] - it is one

    def __init__(self, rows: own.Dataset | Callable[[Mapping[str, Any]], own.Dataset]) -> None:
        self._columns: dict[str, Any] = {}
        self._make = None if isinstance(rows, own.Dataset) else rows
        if isinstance(rows, own.Dataset):
            super().__init__(rows)

    def __getattr__(self, name: str) -> Any:
        if name == "tensorlake":  # it has not been made
            if self._make is None or not self._columns:
                hint = "add one by add_column(name, type)"
                raise SchemaError(f"the dataset has no column yet\n{hint}")
            self.tensorlake, self._make = self._make(self._columns), None
            return self.tensorlake
        raise AttributeError(f"{type(self).__name__!r} has no {name!r}", name=name, obj=self)

    @property
    def version(self) -> str:
        """The version."""
        return self.tensorlake.version

    def add_column(self, name: str, dtype: Any, default_value: Any = None) -> None:
        """Add a column; rows that are there have the default value, or else NULL."""
        if self._make is not None:
            self._columns[name] = dtype
            return
        if len(self) and default_value is None:
            kind = types.nullable(dtype)
            self.tensorlake.add_tensor(name, kind)
            return
        if default_value is None:
            self.tensorlake.add_tensor(name, dtype)
        else:
            self.tensorlake.add_tensor(name, dtype, fill=default_value)

    def remove_column(self, name: str) -> None:
        """Remove a column."""
        self.tensorlake.drop_tensor(name)

    def rename_column(self, name: str, new_name: str) -> None:
        """Rename a column."""
        self.tensorlake.rename_tensor(name, new_name)

    def append(self, data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Append rows: lists of values by column, or a list of rows."""
        if isinstance(data, Mapping):
            self.tensorlake.extend(data)
            return
        rows = [*data]
        if not all(isinstance(row, Mapping) for row in rows):
            raise InvalidInputError(
                f"append() takes columns or a list of rows, got {shown(data)}"
                '\ngive {"x": [1, 2]} or [{"x": 1}, {"x": 2}]'
            )
        if rows:
            names = dict.fromkeys(name for row in rows for name in row)
            self.tensorlake.extend({name: [row.get(name) for row in rows] for name in names})

    def delete(self, offset: int) -> None:
        """Delete the row at a position."""
        if not 0 <= offset < len(self):
            raise RowNotFoundError(f"row {offset} of {len(self):,} does not exist", row=offset)
        self.tensorlake.delete([offset])

    def commit(self, message: str | None = None) -> None:
        """Publish what was changed as a version."""
        self.tensorlake.commit(message or "")

    def rollback(self) -> None:
        """Discard what was changed since the last commit."""
        self.tensorlake.discard()

    def refresh(self) -> None:
        """Move to the newest version of the branch."""
        self.tensorlake.refresh()

    def branch(self, name: str, version: str | None = None) -> Branch:
        """Create a branch, and return a dataset of it: here a handle never changes its branch."""
        source = self.tensorlake if version is None else self.tensorlake.at(version)
        return Branch(source.branch(name))

    def merge(self, branch_name: str) -> None:
        """Merge a branch into this one."""
        self.tensorlake.merge(branch_name)

    def tag(self, name: str, message: str | None = None, version: str | None = None) -> None:
        """Tag a version, this one by default."""
        del message  # a commit has a message, a tag has none
        self.tensorlake.tag(name) if version is None else self.tensorlake.at(version).tag(name)

    @property
    def branches(self) -> Refs:
        """The branches."""
        return Refs(self.tensorlake.branches, self._at_branch)

    @property
    def tags(self) -> Refs:
        """The tags."""
        return Refs(self.tensorlake.tags, self.tensorlake.at)

    @property
    def history(self) -> list[Version]:
        """The versions of the branch, newest first."""
        return [Version(one.version, one.message, one.time) for one in self.tensorlake.log()]

    def _at_branch(self, name: str) -> own.Dataset:
        return own.open_dataset(self.tensorlake.url, name)


class Branch(Dataset):
    """A dataset of a new branch, which programs of the library open before they use it."""

    def open(self) -> Dataset:
        """Return the dataset."""
        return self


class _Rows:
    """A map-style dataset: what a DataLoader of torch reads, a batch at a time."""

    def __init__(self, rows: own.Dataset | own.View) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> dict[str, Any]:
        return dict(self._rows[at])

    def __getitems__(self, at: Sequence[int]) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows[[*at]]]


def create(url: Place, schema: Mapping[str, Any] | None = None, **options: Any) -> Dataset:
    """Create a dataset; without columns, when it is first used after some were added.

    Args:
        url: Its path or URL.
        schema: Types by column.
        **options: Those of ``tl.create``.
    """
    make = partial(own.create, url, **options)
    return Dataset(make(schema) if schema else make)


def open(url: Place, **options: Any) -> Dataset:  # noqa: A001 - the library's name
    """Open a dataset."""
    return Dataset(own.open_dataset(url, **options))


def open_read_only(url: Place, **options: Any) -> DatasetView:
    """Open a dataset that cannot be changed."""
    return DatasetView(own.open_dataset(url, read_only=True, **options))


def exists(url: Place) -> bool:
    """Whether there is a dataset."""
    return own.exists(url)


def like(src: DatasetView, dst: Place, **options: Any) -> Dataset:
    """Create a dataset with the columns of another one."""
    return create(dst, src.schema, **options)


def from_parquet(url: Place) -> DatasetView:
    """Read a Parquet file into memory."""
    rows = parquet(url, f"memory://parquet-{token_hex(8)}", progress=False)
    return DatasetView(rows)


def delete(url: Place) -> None:
    """Delete a dataset with all of its versions."""
    own.delete(url, confirm=str(url))


def copy(src: Place, dst: Place) -> None:
    """Copy a dataset with its versions."""
    own.copy(src, dst)
