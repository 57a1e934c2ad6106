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

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

import numpy as np

from tensorlake.errors import CorruptionError
from tensorlake.format.pages.summaries import columns_from_json
from tensorlake.types import RaggedColumn, take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Domain",
    "JsonColumns",
    "Statistics",
    "StatisticsTable",
    "joined_statistics_json",
    "statistics_json",
]

Domain = Literal["int64", "uint64", "float64", "bytes"]
JsonColumns: TypeAlias = dict[str, list[Any]]
"""Columns as ``columns_to_json`` writes them: by name, [dtype, items] or [dtype, width, items]."""

MAX_LABELS = 64  # design: "small label sets"; a set of codes costs at most 512 bytes an extent
PREFIX_NBYTES = 16
_TABLE_NDIM = 2
_MINIMUM, _MAXIMUM, _LABELS, _SHAPES, _EMPTY = 1, 2, 4, 8, 16
_BOUNDS = _MINIMUM | _MAXIMUM
_Form = TypeVar("_Form")
_DTYPES = {
    "int64": np.dtype("<i8"),
    "uint64": np.dtype("<u8"),
    "float64": np.dtype("<f8"),
    "bytes": np.dtype("|u1"),
}
_DOMAINS: dict[str, Domain] = {"i": "int64", "u": "uint64", "f": "float64"}


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one chunk's samples; pages/statistics.py defines each fact."""

    null_count: int = 0
    nan_count: int = 0
    domain: Domain | None = None
    minimum: int | float | bytes | None = None
    maximum: int | float | bytes | None = None
    labels: tuple[int, ...] | None = None
    is_empty: bool = False
    shape_min: tuple[int, ...] | None = None
    shape_max: tuple[int, ...] | None = None


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
        return self.flags & _MINIMUM != 0

    @property
    def has_maximum(self) -> np.ndarray:
        """Which extents have an upper bound."""
        return self.flags & _MAXIMUM != 0

    @property
    def has_labels(self) -> np.ndarray:
        """Which extents know all their distinct values."""
        return self.flags & _LABELS != 0

    @property
    def has_shapes(self) -> np.ndarray:
        """Which extents have shape bounds."""
        return self.flags & _SHAPES != 0

    @property
    def is_empty(self) -> np.ndarray:
        """Which extents have no element but NULL and NaN."""
        return self.flags & _EMPTY != 0

    @classmethod
    def of(cls, rows: Sequence[Statistics]) -> Self:
        """Build a table; bounds of another domain than the last row's are dropped."""
        return cls.from_sections(columns_from_json(statistics_json(rows), where="statistics"))

    def row(self, position: int) -> Statistics:
        """Return the statistics of one extent."""
        flags = int(self.flags[position])
        labels: tuple[int, ...] | None = None
        if flags & _LABELS and self.labels is not None and self.label_count is not None:
            start = int(self.label_count[:position].sum(dtype=np.int64))
            labels = tuple(self.labels[start : start + int(self.label_count[position])].tolist())
        has_shapes = flags & _SHAPES and self.shape_min is not None and self.shape_max is not None
        return Statistics(
            int(self.null_count[position]),
            int(self.nan_count[position]),
            self.domain if flags & (_MINIMUM | _MAXIMUM) else None,
            _bound(self.minimum, position, is_minimum=True) if flags & _MINIMUM else None,
            _bound(self.maximum, position, is_minimum=False) if flags & _MAXIMUM else None,
            labels,
            bool(flags & _EMPTY),
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
        flags = _EMPTY if bool(empty.all()) else 0
        flags |= _MINIMUM if self.domain and bool((self.has_minimum | empty).all()) else 0
        flags |= _MAXIMUM if self.domain and bool((self.has_maximum | empty).all()) else 0
        flags |= _SHAPES if self.shape_min is not None and bool(self.has_shapes.all()) else 0
        flags &= ~(_MINIMUM | _MAXIMUM) if flags & _EMPTY else 0xFF
        labels: np.ndarray | None = None
        if self.labels is not None and bool((self.has_labels | empty).all()):
            labels = np.unique(self.labels)
            labels = labels if len(labels) <= MAX_LABELS else None
            flags |= _LABELS if labels is not None else 0
        low, high = self.minimum, self.maximum
        has_shapes = flags & _SHAPES and self.shape_min is not None and self.shape_max is not None
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
        said = int(np.bitwise_or.reduce(self.flags))
        has_bounds = said & (_MINIMUM | _MAXIMUM)
        optional = {
            "nan_count": self.nan_count if self.nan_count.any() else None,
            "flags": self.flags if said else None,
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


def statistics_json(rows: Sequence[Statistics]) -> JsonColumns:
    """Write statistics as the table of them would: its sections, as ``columns_to_json`` has them.

    Bounds of another domain, and shapes of another ndim, than the last row's are dropped.
    """
    domains: list[Domain] = [row.domain for row in rows if row.domain is not None]
    domain = domains[-1] if domains else None
    shape = next((row.shape_min for row in reversed(rows) if row.shape_min is not None), ())
    flags = [_flags(row, domain, len(shape)) for row in rows]
    said = 0
    for flag in flags:
        said |= flag
    written: JsonColumns = {"null_count": ["<i8", [row.null_count for row in rows]]}
    nans = [row.nan_count for row in rows]
    if any(nans):
        written["nan_count"] = ["<i8", nans]
    if said:
        written["flags"] = ["|u1", flags]
    if domain is not None and said & (_MINIMUM | _MAXIMUM):
        bounded = [row if row.domain == domain else Statistics() for row in rows]
        written["minimum"] = _bounds_json([row.minimum for row in bounded], domain)
        written["maximum"] = _bounds_json([row.maximum for row in bounded], domain)
    if said & _LABELS:
        labels = [row.labels or () for row in rows]
        written["label_count"] = ["|u1", [len(one) for one in labels]]
        written["labels"] = ["<i8", [code for one in labels for code in one]]
    if said & _SHAPES:
        none = (0,) * len(shape)
        for name in ("shape_min", "shape_max"):
            shapes = [
                getattr(row, name) if flag & _SHAPES else none
                for row, flag in zip(rows, flags, strict=True)
            ]
            written[name] = ["<i8", len(shape), [length for one in shapes for length in one]]
    return written


def joined_statistics_json(
    first: JsonColumns, second: JsonColumns, entries: tuple[int, int]
) -> JsonColumns | None:
    """Write the statistics of two runs of extents as those of one; None where forms differ.

    Args:
        first: Statistics, each extent's known.
        second: Those of the extents that follow.
        entries: How many extents each has.
    """
    joined: JsonColumns = {}
    for name in first if first.keys() == second.keys() else {**first, **second}:
        one = first.get(name) or _nothing(name, second[name], entries[0])
        other = second.get(name) or _nothing(name, first[name], entries[1])
        *form, items = one
        *other_form, more = other
        if form != other_form:
            return None
        joined[name] = [*form, items + more]
    return joined


def _nothing(name: str, like: list[Any], entries: int) -> list[Any]:
    """Return the column of extents of which nothing is known there."""
    *form, _ = like
    width = form[1] if len(form) > 1 else 1
    zero = 0.0 if form[0] == _DTYPES["float64"].str else 0  # other bytes as JSON, the same number
    return [*form, [] if name == "labels" else [zero] * (entries * width)]


def _flags(row: Statistics, domain: Domain | None, ndim: int) -> int:
    is_bounded = row.domain == domain
    return (
        (_MINIMUM if is_bounded and row.minimum is not None else 0)
        | (_MAXIMUM if is_bounded and row.maximum is not None else 0)
        | (_LABELS if row.labels is not None else 0)
        | (_SHAPES if ndim and row.shape_min is not None and len(row.shape_min) == ndim else 0)
        | (_EMPTY if row.is_empty else 0)
    )


def _bounds_json(bounds: Sequence[Any], domain: Domain) -> list[Any]:
    if domain == "bytes":
        padded = b"".join((bound or b"").ljust(PREFIX_NBYTES, b"\0") for bound in bounds)
        return [_DTYPES[domain].str, PREFIX_NBYTES, list(padded)]
    items: list[Any] = [bound or 0 for bound in bounds]
    if domain == "float64":
        items = [float(item) if math.isfinite(item) else str(item) for item in items]
    return [_DTYPES[domain].str, items]


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
        low = high = np.zeros((rows, PREFIX_NBYTES) if is_bytes else rows, _DTYPES[domain])
        flags = flags & ~np.uint8(_MINIMUM | _MAXIMUM)
    shape_min, shape_max = table.shape_min, table.shape_max
    if ndim is not None and (shape_min is None or shape_min.shape[1] != ndim):
        shape_min = shape_max = np.zeros((rows, ndim), dtype=np.int64)
        flags = flags & ~np.uint8(_SHAPES)
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
