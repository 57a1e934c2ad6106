"""The tensors that a source fills, in the groups of which the ledger has digests.

filled     the source has values: compared
beside     it no longer has any, in the group of one that is filled: as the dataset has it
absent     it no longer has any, in a group without a filled one: the group is silent, and stays
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.sync.digests import CELL_GROUPS, cell_sums, cells_of, column_digests
from tensorlake.dataset.write.by_row_id import RowsById
from tensorlake.format import Schema
from tensorlake.types import Column

__all__ = ["CellGroups", "RowDigests"]

Int64Array = npt.NDArray[np.int64]
U64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]


class CellGroups:
    """Tensors by number; the group of a number is its remainder.

    Args:
        schema: The schema of the dataset.
        tensors: The tensors that the source fills.
        ids: The ids of the tensors that it fills, or once did, in the order of the ledger.
        content: Those by which an item is recognised under another name.

    Attributes:
        filled: Numbers of the tensors that the source fills, by name.
        beside: Those of tensors beside them, which it no longer fills.
        absent: Those of tensors apart, which it no longer fills.
        is_silent: Groups of which the source has no values.
        is_gone: Groups of which the dataset has no tensor.
        content: Tensors by which an item is recognised.
    """

    def __init__(
        self, schema: Schema, *, tensors: Sequence[str], ids: Sequence[str], content: Sequence[str]
    ) -> None:
        number_of = {id_: number for number, id_ in enumerate(ids)}
        self.filled = {name: number_of[schema[name].id] for name in tensors}
        groups = {number % CELL_GROUPS for number in self.filled.values()}
        unfilled = {
            spec.name: number_of[spec.id]
            for spec in schema.tensors
            if spec.id in number_of and spec.name not in self.filled
        }
        self.beside = {name: at for name, at in unfilled.items() if at % CELL_GROUPS in groups}
        self.absent = {name: at for name, at in unfilled.items() if name not in self.beside}
        self.is_silent = np.array([at not in groups for at in range(CELL_GROUPS)])
        self.is_gone = self.is_silent.copy()
        self.is_gone[[at % CELL_GROUPS for at in self.absent.values()]] = False
        self.content = [name for name in content if name in self.filled]
        units: dict[str, set[int]] = defaultdict(set)
        for name, number in self.filled.items():
            units[getattr(schema[name].type, "per", None) or name].add(number % CELL_GROUPS)
        self._units = [sorted(unit) for unit in units.values() if len(unit) > 1]

    def digests(self, stored: Mapping[str, Column]) -> tuple[U64Array, U64Array]:
        """Return sums of digests of cells, and digests of the content, of each row."""
        known = {name: column_digests(stored[name]) for name in self.content}
        columns = {number: stored[name] for name, number in self.filled.items()}
        rows = len(next(iter(columns.values()), ()))
        sums = cell_sums(columns, {self.filled[name]: one for name, one in known.items()}, rows)
        content = np.zeros(rows, np.uint64)
        for one in known.values():
            content = content * np.uint64(31) + one
        return sums, content

    def sums_here(self, rows: RowsById, at: Int64Array, tensors: Mapping[str, int]) -> U64Array:
        """Return sums of digests of some tensors of rows, as the dataset has them."""
        columns = {number: rows.read(name, at) for name, number in tensors.items()}
        return cell_sums(columns, {}, len(at))

    def in_units(self, flags: BoolArray) -> BoolArray:
        """Extend flags of groups, in place, to those of tensors ``per`` one another."""
        for unit in self._units:
            flags[:, unit] = flags[:, unit].any(axis=1, keepdims=True)
        return flags

    def names(self, groups: BoolArray) -> list[str]:
        """Return the tensors of the dataset in some groups."""
        tensors = {**self.filled, **self.absent}
        return [name for name, number in tensors.items() if groups[number % CELL_GROUPS]]


class RowDigests:
    """The digests of rows that are staged, noted part by part as they are stored.

    Args:
        groups: The tensors of the source.
        schema: The schema that the rows are staged under.
        rows: How many rows they are.

    Attributes:
        content: Digests of the content of each row.
    """

    def __init__(self, groups: CellGroups, schema: Schema, rows: int) -> None:
        self._groups = groups
        self._ids = [(name, schema[name].id) for name in groups.filled]
        self._sums = np.zeros((rows, CELL_GROUPS), np.uint64)
        self.content = np.zeros(rows, np.uint64)
        self._done = 0

    def note(self, stored: Mapping[str, Column]) -> None:
        """Note the next rows, given their columns by tensor id."""
        sums, content = self._groups.digests({name: stored[id_] for name, id_ in self._ids})
        stop = self._done + len(sums)
        self._sums[self._done : stop], self.content[self._done : stop] = sums, content
        self._done = stop

    @property
    def cells(self) -> npt.NDArray[np.uint32]:
        """Digests of the cells of each row."""
        return cells_of(self._sums)
