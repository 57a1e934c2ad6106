"""A group: tensors whose names begin alike, ``pose/x`` and ``pose/y``, read and written as one.

``Struct`` in a schema makes one, as does any "/" in tensor names. It stores nothing of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.item_counts import items_first
from tensorlake.dataset.struct_values import flattened, members_of, nested
from tensorlake.dataset.tensor import ITERATED_AT_ONCE, Tensor
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.dataset.dataset import Dataset
    from tensorlake.dataset.readable import Readable

__all__ = ["Group", "assign_fields"]


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

    def __init__(self, rows: Readable, name: str) -> None:
        self._rows = rows
        self.name = name
        self._members = members_of(name, rows.selection().columns)

    @property
    def members(self) -> tuple[str, ...]:
        """The full names of its tensors, those of groups within it among them."""
        return self._members

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields: tensors, and groups within it."""
        return tuple(nested(self.name, self._members, str))

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Its tensors, by their full names."""
        return {name: Tensor(self._rows, name) for name in self._members}

    def __len__(self) -> int:
        return self._rows.selection().num_rows

    def __getitem__(self, key: Any) -> Any:
        """Read a field by its name; of rows, a dict of what each field gives for them."""
        if isinstance(key, str):
            return self._rows[f"{self.name}/{key}"]
        here = self._rows.frozen()
        if is_whole_number(key):
            return here[int(key)][self.name]
        tensors = {name: Tensor(here, name) for name in self._members}
        rows = next(iter(tensors.values())).positions(key)  # once: a Predicate is a query
        return nested(self.name, self._members, lambda name: tensors[name][rows])

    def __setitem__(self, rows: Any, values: Any) -> None:
        self._rows.assign(self.name, rows, values)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        here = self._rows.frozen()
        for start in range(0, len(here), ITERATED_AT_ONCE):
            part = here[start : start + ITERATED_AT_ONCE]
            columns = [iter(Tensor(part, name)) for name in self._members]
            for values in zip(*columns, strict=True):
                found = dict(zip(self._members, values, strict=True))
                yield nested(self.name, self._members, found.__getitem__)

    def __repr__(self) -> str:
        return f"Group {self.name!r} · {len(self):,} rows of {', '.join(self.fields)}"


def assign_fields(dataset: Dataset, group: Group, rows: Any, values: Any) -> int:
    """Stage values for rows of some or all fields of a group: all of it or nothing."""
    from tensorlake.dataset.readable import Readable

    if is_whole_number(rows):
        rows, values = [rows], [values]
    call = f"ds[{group.name!r}][rows] ="
    columns = flattened({group.name: values}, group.members, call=call)
    if not isinstance(rows, Readable):
        # A Predicate is evaluated once: the first field's new values may change its answer.
        rows = next(iter(group.tensors.values())).positions(rows)
    was_staging = dataset.has_changes
    transaction = dataset.session.staging()
    savepoint = transaction.savepoint()
    try:
        names = items_first(columns, dataset.schema)
        counts = [dataset.assign(name, rows, columns[name]) for name in names]
    except BaseException:
        transaction.roll_back(savepoint)
        if not was_staging:
            dataset.discard()
        raise
    return max(counts, default=0)
