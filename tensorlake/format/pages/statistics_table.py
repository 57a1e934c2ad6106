"""Statistics of many extents: an array of each fact, as index pages store them.

The facts are defined in pages/statistics.py. A table merges upward to one row that holds for all
of its rows, so that one test prunes a subtree.

Sections of a table of n rows, those without information left out; the dtype of `minimum` tells the
domain:

    null_count i64 (n) · nan_count i64 (n) · flags u8 (n): 1 minimum, 2 maximum, 4 labels, 8 shapes,
    16 empty · minimum, maximum (n), or u8 (n, 16) for bytes, zero-padded · label_count u8 (n),
    labels i64 (their sum) · shape_min, shape_max i64 (n, ndim)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from tensorlake.errors import CorruptionError
from tensorlake.format.pages.statistics import (
    DTYPES,
    HAS_LABELS,
    HAS_MAXIMUM,
    HAS_MINIMUM,
    HAS_SHAPES,
    IS_EMPTY,
    MAX_LABELS,
    PREFIX_NBYTES,
    Domain,
    Statistics,
    statistics_json,
)
from tensorlake.format.pages.summaries import columns_from_json
from tensorlake.types import RaggedColumn, take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["StatisticsTable"]

_TABLE_NDIM = 2
_BOUNDS = HAS_MINIMUM | HAS_MAXIMUM
_Form = TypeVar("_Form")
_DOMAINS: dict[str, Domain] = {"i": "int64", "u": "uint64", "f": "float64"}


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsTable:
    """Statistics of many extents, an array of each fact; None where no extent knows it."""

    null_count: np.ndarray
    nan_count: np.ndarray
    flags: np.ndarray
    minimum: np.ndarray | None = None
    maximum: np.ndarray | None = None
    label_count: np.ndarray | None = None
    labels: np.ndarray | None = None
    shape_min: np.ndarray | None = None
    shape_max: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.null_count)

    @property
    def domain(self) -> Domain | None:
        """The domain of all bounds; None when no extent has any."""
        if self.minimum is None:
            return None
        return "bytes" if self.minimum.ndim > 1 else _DOMAINS[self.minimum.dtype.kind]

    @property
    def has_minimum(self) -> np.ndarray:
        """Which extents have a lower bound."""
        return self.flags & HAS_MINIMUM != 0

    @property
    def has_maximum(self) -> np.ndarray:
        """Which extents have an upper bound."""
        return self.flags & HAS_MAXIMUM != 0

    @property
    def has_labels(self) -> np.ndarray:
        """Which extents know all their distinct values."""
        return self.flags & HAS_LABELS != 0

    @property
    def has_shapes(self) -> np.ndarray:
        """Which extents have shape bounds."""
        return self.flags & HAS_SHAPES != 0

    @property
    def is_empty(self) -> np.ndarray:
        """Which extents have no element but NULL and NaN."""
        return self.flags & IS_EMPTY != 0

    @classmethod
    def of(cls, rows: Sequence[Statistics]) -> Self:
        """Build a table; bounds of another domain than the last row's are dropped."""
        return cls.from_sections(columns_from_json(statistics_json(rows), where="statistics"))

    def row(self, position: int) -> Statistics:
        """Return the statistics of one extent."""
        flags = int(self.flags[position])
        labels: tuple[int, ...] | None = None
        if flags & HAS_LABELS and self.labels is not None and self.label_count is not None:
            start = int(self.label_count[:position].sum(dtype=np.int64))
            labels = tuple(self.labels[start : start + int(self.label_count[position])].tolist())
        has_shapes = (
            flags & HAS_SHAPES and self.shape_min is not None and self.shape_max is not None
        )
        return Statistics(
            int(self.null_count[position]),
            int(self.nan_count[position]),
            self.domain if flags & (HAS_MINIMUM | HAS_MAXIMUM) else None,
            _bound(self.minimum, position, is_minimum=True) if flags & HAS_MINIMUM else None,
            _bound(self.maximum, position, is_minimum=False) if flags & HAS_MAXIMUM else None,
            labels,
            bool(flags & IS_EMPTY),
            tuple(self.shape_min[position].tolist()) if has_shapes else None,  # pyright: ignore[reportOptionalSubscript] -- has_shapes
            tuple(self.shape_max[position].tolist()) if has_shapes else None,  # pyright: ignore[reportOptionalSubscript] -- has_shapes
        )

    def take(self, rows: np.ndarray) -> Self:
        """Return the statistics of these extents, in this order."""
        label_count = labels = None
        if self.labels is not None and self.label_count is not None:
            shapes = self.label_count.astype(np.int64).reshape(-1, 1)
            taken = take(RaggedColumn(self.labels, shapes), rows)
            assert isinstance(taken, RaggedColumn)
            label_count, labels = self.label_count[rows], taken.values
        return type(self)(
            self.null_count[rows],
            self.nan_count[rows],
            self.flags[rows],
            None if self.minimum is None else self.minimum[rows],
            None if self.maximum is None else self.maximum[rows],
            label_count,
            labels,
            None if self.shape_min is None else self.shape_min[rows],
            None if self.shape_max is None else self.shape_max[rows],
        )

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join tables; bounds of another domain, and shapes of another ndim, than the last's go."""
        if not tables:
            return cls.of([])
        joined: dict[str, np.ndarray | None] = {}
        parts = _in_one_form(tables)
        for name in cls.__slots__:
            columns = [column for part in parts if (column := getattr(part, name)) is not None]
            joined[name] = np.concatenate(columns) if columns else None
        return cls(**joined)  # pyright: ignore[reportArgumentType] -- the first three are never None

    def with_codes(self, codes: np.ndarray, *, where: np.ndarray) -> StatisticsTable:
        """Return the statistics of class codes that now mean others.

        Args:
            codes: The new code of each code, int64.
            where: Mask of the extents to change; others stay.
        """
        rows = [self.row(position) for position in range(len(self))]
        return StatisticsTable.of(
            [
                _with_codes(row, codes) if is_mapped else row
                for row, is_mapped in zip(rows, where.tolist(), strict=True)
            ]
        )

    def merge_upward(self) -> Self:
        """Return a table of one row that holds for everything below."""
        empty = self.is_empty
        flags = IS_EMPTY if bool(empty.all()) else 0
        flags |= HAS_MINIMUM if self.domain and bool((self.has_minimum | empty).all()) else 0
        flags |= HAS_MAXIMUM if self.domain and bool((self.has_maximum | empty).all()) else 0
        flags |= HAS_SHAPES if self.shape_min is not None and bool(self.has_shapes.all()) else 0
        flags &= ~(HAS_MINIMUM | HAS_MAXIMUM) if flags & IS_EMPTY else 0xFF
        labels: np.ndarray | None = None
        if self.labels is not None and bool((self.has_labels | empty).all()):
            labels = np.unique(self.labels)
            labels = labels if len(labels) <= MAX_LABELS else None
            flags |= HAS_LABELS if labels is not None else 0
        low, high = self.minimum, self.maximum
        has_shapes = (
            flags & HAS_SHAPES and self.shape_min is not None and self.shape_max is not None
        )
        return type(self)(
            self.null_count.sum(keepdims=True),
            self.nan_count.sum(keepdims=True),
            np.array([flags], dtype=np.uint8),
            None if low is None else _extreme(low[self.has_minimum], low, is_minimum=True),
            None if high is None else _extreme(high[self.has_maximum], high, is_minimum=False),
            None if labels is None else np.array([len(labels)], dtype=np.uint8),
            labels,
            self.shape_min.min(axis=0, keepdims=True) if has_shapes else None,  # pyright: ignore[reportOptionalMemberAccess] -- has_shapes
            self.shape_max.max(axis=0, keepdims=True) if has_shapes else None,  # pyright: ignore[reportOptionalMemberAccess] -- has_shapes
        )

    def to_sections(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, those without information left out."""
        sections = {"null_count": self.null_count}
        flags_used = int(np.bitwise_or.reduce(self.flags))
        has_bounds = flags_used & (HAS_MINIMUM | HAS_MAXIMUM)
        optional = {
            "nan_count": self.nan_count if self.nan_count.any() else None,
            "flags": self.flags if flags_used else None,
            "minimum": self.minimum if has_bounds else None,
            "maximum": self.maximum if has_bounds else None,
            "label_count": self.label_count,
            "labels": self.labels,
            "shape_min": self.shape_min,
            "shape_max": self.shape_max,
        }
        return sections | {name: one for name, one in optional.items() if one is not None}

    @classmethod
    def from_sections(cls, sections: Mapping[str, np.ndarray]) -> Self:
        """Read what `to_sections` wrote; sections unknown to this version are ignored.

        Raises:
            CorruptionError: The sections do not fit each other.
        """
        rows = len(sections["null_count"]) if "null_count" in sections else -1
        known = {name: sections[name] for name in cls.__slots__ if name in sections}
        lengths = {name: len(column) for name, column in known.items() if name != "labels"}
        counts = known.get("label_count", np.zeros(0, np.uint8))
        labels = known.get("labels", np.zeros(0, np.int64))
        pairs = (("minimum", "maximum"), ("label_count", "labels"), ("shape_min", "shape_max"))
        if (
            set(lengths.values()) != {rows}
            or len(labels) != int(counts.sum(dtype=np.int64))
            or any((one in known) != (other in known) for one, other in pairs)
            or any(
                known[name].ndim != _TABLE_NDIM
                for name in ("shape_min", "shape_max")
                if name in known
            )
        ):
            raise CorruptionError(
                f"statistics are damaged: sections of {lengths} rows and {len(labels)} labels"
                "\nrestore the dataset from a copy, or run check() to see what is lost",
                actual=lengths,
            )
        zeros = np.zeros(rows, dtype=np.int64)
        defaults = {"nan_count": zeros, "flags": zeros.astype(np.uint8)}
        return cls(**(defaults | known))


def _with_codes(row: Statistics, codes: np.ndarray) -> Statistics:
    if row.domain != "int64":
        return row
    low, high, labels = row.minimum, row.maximum, row.labels
    if labels is None and isinstance(low, int) and isinstance(high, int):
        possible = codes[max(low, 0) : high + 1]
        is_inside = low >= 0 and high < len(codes)
    else:
        inside = [code for code in labels or () if 0 <= code < len(codes)]
        possible, is_inside = codes[inside], labels is not None and len(inside) == len(labels)
    if not is_inside:  # nothing is known of codes beyond the table
        return replace(row, domain=None, minimum=None, maximum=None, labels=None)
    return replace(
        row,
        minimum=int(possible.min()),
        maximum=int(possible.max()),
        labels=None if labels is None else tuple(np.unique(possible).tolist()),
    )


def _in_one_form(tables: Sequence[StatisticsTable]) -> Sequence[StatisticsTable]:
    """Give all tables the optional columns, the domain and the ndim that the joined one has."""
    forms = {_form(table) for table in tables}
    if len(forms) == 1:
        return tables  # as nearly always: they are of one tensor
    # part of a table may have the columns of bounds and no bound: it makes no other's go
    domain = _last([(one.domain, bool((one.flags & _BOUNDS).any())) for one in tables])
    ndim = _last(
        [
            (None if one.shape_min is None else one.shape_min.shape[1], bool(one.has_shapes.any()))
            for one in tables
        ]
    )
    has_labels = any(table.labels is not None for table in tables)
    return [_conform(table, domain, ndim, has_labels=has_labels) for table in tables]


def _last(forms: Sequence[tuple[_Form | None, bool]]) -> _Form | None:
    """Return the last form that is used, else the last there is."""
    known = [(form, is_used) for form, is_used in forms if form is not None]
    used = [form for form, is_used in known if is_used]
    return used[-1] if used else known[-1][0] if known else None


def _form(table: StatisticsTable) -> tuple[Domain | None, int | None, bool]:
    ndim = None if table.shape_min is None else table.shape_min.shape[1]
    return table.domain, ndim, table.labels is None


def _conform(
    table: StatisticsTable, domain: Domain | None, ndim: int | None, *, has_labels: bool
) -> StatisticsTable:
    """Return the same rows with the optional columns that the joined table has."""
    rows = len(table)
    flags = table.flags
    low, high = table.minimum, table.maximum
    if domain is not None and table.domain != domain:
        is_bytes = domain == "bytes"
        low = high = np.zeros((rows, PREFIX_NBYTES) if is_bytes else rows, DTYPES[domain])
        flags = flags & ~np.uint8(HAS_MINIMUM | HAS_MAXIMUM)
    shape_min, shape_max = table.shape_min, table.shape_max
    if ndim is not None and (shape_min is None or shape_min.shape[1] != ndim):
        shape_min = shape_max = np.zeros((rows, ndim), dtype=np.int64)
        flags = flags & ~np.uint8(HAS_SHAPES)
    label_count, labels = table.label_count, table.labels
    if has_labels and labels is None:
        label_count, labels = np.zeros(rows, np.uint8), np.zeros(0, np.int64)
    counts = table.null_count, table.nan_count
    return StatisticsTable(*counts, flags, low, high, label_count, labels, shape_min, shape_max)


def _bound(
    bounds: np.ndarray | None, position: int, *, is_minimum: bool
) -> int | float | bytes | None:
    if bounds is None:
        return None
    if bounds.ndim == 1:
        return bounds[position].item()
    padded = bounds[position].tobytes()
    return padded.rstrip(b"\0") if is_minimum else padded  # rounds outward either way


def _extreme(known: np.ndarray, like: np.ndarray, *, is_minimum: bool) -> np.ndarray:
    """Return the least or greatest of the bounds as an array of one row; zero if there are none."""
    if not len(known):
        return np.zeros((1, *like.shape[1:]), dtype=like.dtype)
    if known.ndim == 1:
        return (known.min if is_minimum else known.max)(keepdims=True)
    rows = [row.tobytes() for row in known]
    chosen = min(rows) if is_minimum else max(rows)
    return np.frombuffer(chosen, dtype=np.uint8).reshape(1, -1)
