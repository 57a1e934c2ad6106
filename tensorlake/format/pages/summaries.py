"""Optional summaries of a table's entries: statistics of extents and pages.

``Summaries`` holds one row of a summary table (a ``StatisticsTable`` for extents, physical bounds
for row segments) for each entry that has one, and a mask saying which do. Inner pages and roots
carry the merged summary of each child, so a predicate prunes whole subtrees; where anything below
is unknown, the merged summary is unknown too: pruning is always conservative.

In pages the columns are ``<prefix>has`` (u8, absent when all have one) and ``<prefix><name>`` for
each section of the summary table; without any of them nothing is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.integrity import damaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FLOAT_DTYPES = ("<f4", "<f8")
_NUMBER_DTYPES = ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", *_FLOAT_DTYPES)
_NON_FINITE = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


class SummaryTable(Protocol):
    """A table of summaries, one row an entry."""

    def __len__(self) -> int: ...

    def take(self, rows: npt.NDArray[np.int64], /) -> Self:
        """Return some rows."""
        ...

    @classmethod
    def concat(cls, tables: Sequence[Self], /) -> Self:
        """Join tables."""
        ...

    def merge_upward(self) -> Self:
        """Merge all rows to one that holds for each of them."""
        ...

    def to_sections(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        ...

    @classmethod
    def from_sections(cls, sections: Mapping[str, npt.NDArray[Any]], /) -> Self:
        """Build the table that ``to_sections`` wrote."""
        ...


S = TypeVar("S", bound=SummaryTable)


@dataclass(frozen=True, slots=True, eq=False)
class Summaries(Generic[S]):
    """Summaries of some entries: ``known`` is their mask, ``table`` has a row for each of those."""

    known: npt.NDArray[np.bool_]
    table: S | None

    def __len__(self) -> int:
        return len(self.known)

    @classmethod
    def unknown(cls, entries: int) -> Self:
        """Return a table in which nothing is known."""
        return cls(np.zeros(entries, np.bool_), None)

    @classmethod
    def of(cls, table: S) -> Self:
        """Return a table in which each entry has a summary."""
        return cls(np.ones(len(table), np.bool_), table)

    def take(self, entries: npt.NDArray[np.int64]) -> Self:
        """Return the summaries of some entries, in that order."""
        if self.table is None:
            return self.unknown(len(entries))
        known = self.known[entries]
        if not known.any():
            return self.unknown(len(entries))
        rows = np.cumsum(self.known)[entries] - 1
        return type(self)(known, self.table.take(rows[known].astype(np.int64)))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join the summaries of several runs of entries."""
        if not parts:
            return cls.unknown(0)
        tables = [part.table for part in parts if part.table is not None and len(part.table)]
        known = np.concatenate([part.known for part in parts])
        if not tables:
            return cls(known & False, None)
        return cls(known, tables[0] if len(tables) == 1 else type(tables[0]).concat(tables))

    def merge_upward(self) -> Self:
        """Return one summary for all entries: unknown unless each is known."""
        if self.table is None or not self.known.all() or not len(self.known):
            return self.unknown(1)
        return self.of(self.table.merge_upward())

    def to_columns(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of a page."""
        if self.table is None:
            return {}
        columns = {f"{prefix}{name}": column for name, column in self.table.to_sections().items()}
        if not self.known.all():
            columns[f"{prefix}has"] = self.known.astype(np.uint8)
        return columns

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, npt.NDArray[Any]],
        prefix: str,
        *,
        entries: int,
        table: type[S] | None,
        where: str,
    ) -> Self:
        """Read the columns that ``to_columns`` wrote; unknown where there are none."""
        sections = {
            name.removeprefix(prefix): column
            for name, column in columns.items()
            if name.startswith(prefix)
        }
        has = sections.pop("has", None)
        if not sections or table is None:
            return cls.unknown(entries)
        known = np.ones(entries, np.bool_) if has is None else has.astype(np.bool_)
        summaries = table.from_sections(sections)
        if len(known) != entries or len(summaries) != int(known.sum()):
            raise damaged(where, f"it has {len(summaries)} summaries for {entries} entries")
        return cls(known, summaries)


def columns_to_json(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Write small columns for a log entry: {name: [dtype, items]}, or [dtype, width, items].

    Items are numbers; floats that JSON lacks are the strings "nan", "inf" and "-inf".
    """
    written: dict[str, Any] = {}
    for name, column in columns.items():
        items: list[Any] = column.reshape(-1).tolist()
        if column.dtype.kind == "f":
            items = [item if math.isfinite(item) else str(item) for item in items]
        width = [column.shape[1]] if column.ndim > 1 else []
        written[name] = [column.dtype.newbyteorder("<").str, *width, items]
    return written


def columns_from_json(value: Any, *, where: str) -> dict[str, npt.NDArray[Any]]:
    """Read what ``columns_to_json`` wrote.

    Raises:
        CorruptionError: It is something else.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    try:
        for name, (dtype, *width, items) in dict(value).items():
            is_float = dtype in _FLOAT_DTYPES
            numbers = [_NON_FINITE.get(item, item) if is_float else item for item in items]
            column = np.array(numbers, dtype=_number_dtype(dtype))
            columns[name] = column.reshape(-1, int(width[0])) if width else column
    except (TypeError, ValueError, OverflowError) as error:
        raise damaged(where, f"it has an invalid column ({error})") from error
    return columns


def _number_dtype(text: Any) -> np.dtype[Any]:
    if text not in _NUMBER_DTYPES:
        raise ValueError(f"{text!r} is not the dtype of a column")
    return np.dtype(text)
