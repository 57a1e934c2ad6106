"""Results of indexing beside a Tensor and a View: a Row, and a Group of tensors.

A row is a read-only mapping whose values are read and decoded on first access. A group is a set of
tensors with a common prefix, ``pose/x`` and ``pose/y``, read and written together: ``Struct`` in a
schema creates one, as does any "/" in tensor names. It stores nothing of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from tensorlake.dataset.core.formatting import describe_sample, describe_value
from tensorlake.dataset.core.indexing import row_position, unknown_column
from tensorlake.dataset.core.rowset import ITERATED_AT_ONCE, HasRows, RowSet, rowset_of
from tensorlake.dataset.core.structs import completions, members_of, nested
from tensorlake.dataset.handles.tensor import Tensor, session_to_write
from tensorlake.dataset.query.assignment import assign, positions_named
from tensorlake.quantities import human_nbytes, is_whole_number
from tensorlake.types import EncodedColumn, Unsupported

__all__ = ["Group", "Row", "column_of", "row_at"]


class Row(Mapping[str, Any]):
    """A row of one version.

    ``row["image"]`` decodes the image on first access; ``dict(row)`` decodes everything. A group
    of tensors is a dict. A pickled row, as sent to a pool of processes, is a dict of its values.
    """

    def __init__(
        self,
        rows: RowSet,
        position: int,
        computed: Mapping[str, Any],
    ) -> None:
        self._rows = rows
        self._position = np.array([position], dtype=np.int64)
        row = int(rows.selection.row_numbers(self._position)[0])
        self._reader = reader = rows.reader()
        self._columns = rows.columns
        self._computed = computed
        self._physical = reader.snapshot.physical(np.array([row], dtype=np.int64))
        self._values: dict[str, Any] = dict(self._computed)
        self.row = row

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - lists are no keys
            raise unknown_column(name, self._columns)
        if name not in self._values:
            if name not in self._columns:
                members = members_of(name, self._columns)
                if not members:
                    raise unknown_column(name, self._columns)
                return nested(name, members, self.__getitem__)
            sample_type = self._reader.snapshot.spec(name).type
            if sample_type.is_lazy:
                (found,) = self._reader.samples(name, self._physical)
                make = partial(sample_type.handle_class, sample_type.handle_type)
                self._values[name] = None if found is None else make(found)
            else:
                column = self._rows.read_next(name, self._position)
                self._values[name] = sample_type.present_one(column, 0)
        return self._values[name]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a column, or the default if there is no such column.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-row-get", {"x": "int64"})
            >>> ds.append({"x": 1})
            >>> int(ds[0].get("x")), ds[0].get("y", 0)
            (1, 0)
            >>> ds.discard()
        """
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the columns and groups, for completion in brackets."""
        return completions(self._columns)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the values: opening the version there would cost requests per row.
        return dict, (dict(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        lines = [f"Row {self.row} of {self._reader.snapshot.url!r} {self._reader.snapshot.version}"]
        width = max((len(name) for name in self._columns), default=0)
        lines += [f"  {name:<{width}}  {self._describe(name)}" for name in self._columns]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.display.html import row_html

        head = f"Row {self.row} of {self._reader.snapshot.url!r} {self._reader.snapshot.version}"
        return row_html(head, self._reader, self._physical, self._columns, self._computed)

    def _describe(self, name: str) -> str:
        if name in self._computed:
            return describe_value(self._computed[name])
        sample_type = self._reader.snapshot.spec(name).type
        if isinstance(sample_type, Unsupported):
            return sample_type.describe()
        if not sample_type.is_media or name in self._values:
            return describe_sample(sample_type, self[name])
        stored = self._reader.read(name, self._physical, decode=False)
        if stored.valid is not None and not stored.valid[0]:
            return "NULL"
        assert isinstance(stored, EncodedColumn)  # media are stored encoded
        shape = "" if stored.shapes is None else "×".join(map(str, stored.shapes[0].tolist()))
        codec = (sample_type.media_type_of(stored.samples[0]) or "").rpartition("/")[2]
        what = " ".join(filter(None, (codec, shape)))
        return ", ".join(filter(None, (what, human_nbytes(len(stored.samples[0])), "not decoded")))


def row_at(rows: RowSet, position: int) -> Any:
    """Return the row at a position; of an aggregate, a dict of its values."""
    computed = {name: column.present_one(position) for name, column in rows.computed.items()}
    if not rows.has_rows:
        return computed
    return Row(rows, position, computed)


class Group:
    """The tensors of a group, over the rows of their dataset or view.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-group", {"pose": tl.Struct({"x": "int8", "ok": "bool"})})
        >>> ds.extend([{"pose": {"x": 1, "ok": True}}, {"pose": {"x": 2, "ok": False}}])
        >>> ds["pose"]
        Group 'pose' · 2 rows of x, ok
        >>> ds["pose"]["x"][:], ds["pose"][:]["ok"]
        (array([1, 2], dtype=int8), array([ True, False]))
        >>> len(ds.query("WHERE pose.x > 1"))
        1
        >>> ds.discard()
    """

    def __init__(self, rows: HasRows, name: str) -> None:
        self._rows = rows
        self.name = name
        self._members = members_of(name, rowset_of(rows).selection.columns)

    @property
    def members(self) -> tuple[str, ...]:
        """The full names of its tensors, including those of nested groups."""
        return self._members

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields: tensors and nested groups."""
        return tuple(nested(self.name, self._members, str))

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Its tensors, by their full names."""
        return {name: Tensor(self._rows, name) for name in self._members}

    def __len__(self) -> int:
        return len(rowset_of(self._rows))

    def __getitem__(self, key: Any) -> Any:
        """Read a field by its name; for rows, return a dict of the values of each field."""
        if isinstance(key, str):
            return column_of(self._rows, f"{self.name}/{key}")
        here = rowset_of(self._rows)
        if is_whole_number(key):
            return row_at(here, row_position(int(key), len(here), what=repr(here.url)))[self.name]
        tensors = {name: Tensor(here, name) for name in self._members}
        what = f"tensor {self._members[0]!r} of {here.url!r}"
        rows = positions_named(here, key, what=what)  # once: a Predicate is a query
        return nested(self.name, self._members, lambda name: tensors[name][rows])

    def _ipython_key_completions_(self) -> list[str]:
        """Return the fields, for completion in brackets."""
        prefix = f"{self.name}/"
        return completions([name.removeprefix(prefix) for name in self._members])

    def __setitem__(self, rows: Any, values: Any) -> None:
        session = session_to_write(self._rows, f"ds[{self.name!r}][rows] = values")
        assign(session, self.name, rows, values)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        here = rowset_of(self._rows)
        for start in range(0, len(here), ITERATED_AT_ONCE):
            stop = min(len(here), start + ITERATED_AT_ONCE)
            part = here.take(np.arange(start, stop))
            columns = [iter(Tensor(part, name)) for name in self._members]
            for values in zip(*columns, strict=True):
                found = dict(zip(self._members, values, strict=True))
                yield nested(self.name, self._members, found.__getitem__)

    def __repr__(self) -> str:
        return f"Group {self.name!r} · {len(self):,} rows of {', '.join(self.fields)}"


def column_of(rows: HasRows, name: str) -> Tensor | Group:
    """Return a stored column by its name, or the group with this prefix.

    Raises:
        TensorNotFoundError: Neither exists.
    """
    columns = rowset_of(rows).selection.columns
    if name in columns:
        return Tensor(rows, name)
    if members_of(name, columns):
        return Group(rows, name)
    raise unknown_column(name, rowset_of(rows).columns)
