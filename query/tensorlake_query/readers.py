"""Where the columns of a scope come from: a source, groups, rows with more columns beside them.

    SourceReader   rows of a source, and what was read of it
    GroupReader    one row a group: slots '#0', '#1', …, and columns stacked over the group's rows
    WindowReader   the rows of another reader, with slots beside them
    UngroupReader  one row for each element of some columns

Each knows which rows of its source its own rows are (`source_rows`), and which columns it passes on
unchanged (`source_column`), so that a result can be rows of a dataset rather than copies of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Protocol

import numpy as np

from tensorlake_query.grouping import Groups, by_group
from tensorlake_query.lineage import lineage_of
from tensorlake_query.source import (
    Batch,
    CodedSource,
    ColumnSource,
    ColumnType,
    IdentifiedSource,
    IntArray,
    RunSource,
    UniformBatch,
)
from tensorlake_query.stacks import element_at, stacked
from tensorlake_query.vectors import (
    RowError,
    Vector,
    as_ragged,
    from_batch,
    numbered,
    object_array,
    starts_of,
    take,
)

# finds once a run what a QueryRef or CorpusRef stands for
Answer = Callable[[Any, "SourceReader"], object]


class Reader(Protocol):
    """Where the columns of a scope come from."""

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`."""
        ...

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`."""
        ...

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return which rows of the source these are; None where they are none."""
        ...

    def source_column(self, name: str) -> str | None:
        """Return which column of the source this is, unchanged; None where it is none."""
        ...

    @property
    def base(self) -> "SourceReader":
        """The source underneath."""
        ...


class SourceReader:
    """Reads a `ColumnSource`, and counts what it reads. Thread-safe where the source is."""

    def __init__(self, source: ColumnSource, meter: "Meter", answer: Answer) -> None:
        self.source = source
        self.rows_read: dict[str, int] = {}
        self.answer = answer
        self._meter = meter
        self._schema = source.schema
        self._lock = Lock()
        # asked here, once: looking a source's methods up takes as long as a small batch
        self._by_run = source if isinstance(source, RunSource) else None
        self._by_code = source if isinstance(source, CodedSource) else None

    @property
    def base(self) -> "SourceReader":
        """Itself."""
        return self

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`, in the form the column's type asks for."""
        return self._counted(name, self.source.read(name, rows), len(rows))

    def run(self, name: str, start: int, stop: int) -> Vector:
        """Return the samples of rows `start` … `stop` − 1; a source may do that at less cost."""
        if self._by_run is None:
            return self.column(name, np.arange(start, stop))
        return self._counted(name, self._by_run.read_run(name, start, stop), stop - start)

    def codes(self, name: str, start: int, stop: int) -> Vector:
        """Return the class codes of rows `start` … `stop` − 1, as narrow as the source has them."""
        if self._by_code is None:
            return self.run(name, start, stop)
        return self._counted(name, self._by_code.read_codes(name, start, stop), stop - start)

    def _counted(self, name: str, batch: Batch, num_rows: int) -> Vector:
        vector = from_batch(batch, self._schema[name])
        with self._lock:
            self.rows_read[name] = self.rows_read.get(name, 0) + num_rows
        self._meter.add(vector)
        return vector

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`; NULL where the source gives −1."""
        shapes = self.source.shapes(name, rows)
        known = np.asarray((shapes >= 0).all(axis=1))
        return UniformBatch(shapes, None if known.all() else known)

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows themselves."""
        return rows

    def source_column(self, name: str) -> str | None:
        """Return the column itself."""
        return name

    def stored_rows(self, rows: IntArray) -> IntArray:
        """Return where rows stand in what is stored; in the source itself where it stores nothing.

        Raises:
            RowError: they are rows of nothing, such as groups.
        """
        lineage = lineage_of(self.source)
        if lineage is None:
            raise RowError("rows that a query made are rows of no version", 0)
        beneath = lineage.rows(rows)
        stored = lineage.source
        return stored.row_numbers(beneath) if isinstance(stored, IdentifiedSource) else beneath

    def row_ids(self, rows: IntArray) -> Vector:
        """Return the identities of rows.

        Raises:
            RowError: the source gives its rows none.
        """
        lineage = lineage_of(self.source)
        if lineage is None or not isinstance(lineage.source, IdentifiedSource):
            raise RowError("rows of this source have no identity", 0)
        return UniformBatch(object_array(lineage.source.row_ids(lineage.rows(rows))))


@dataclass(slots=True)
class Meter:
    """Counts the bytes of samples that a run reads, and ends it at a limit. Thread-safe."""

    limit_nbytes: int | None
    fail: Callable[[int], Exception]
    nbytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, vector: Vector) -> None:
        """Count what was read.

        Raises:
            QueryLimitError: it is more than the limit.
        """
        if vector.values.dtype == object:
            nbytes = sum(
                len(value) if isinstance(value, str | bytes) else vector.values.itemsize
                for value in vector.values.tolist()
            )
        else:
            nbytes = vector.values.nbytes
        self.count(nbytes)

    def count(self, nbytes: int) -> None:
        """Count bytes.

        Raises:
            QueryLimitError: they are more than the limit.
        """
        with self._lock:
            self.nbytes += nbytes
        if self.limit_nbytes is not None and self.nbytes > self.limit_nbytes:
            raise self.fail(self.nbytes)


class GroupReader:
    """Groups: slots, and the columns of their rows stacked."""

    def __init__(
        self, slots: Mapping[str, Vector], reader: Reader, rows: IntArray, groups: Groups
    ) -> None:
        self._slots = slots
        self._reader = reader
        self._rows = rows
        self._groups = groups

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the slot's values of some groups, or the stacks of their samples."""
        if name in self._slots:
            return take(self._slots[name], rows)
        samples = self._reader.column(name, self._members(rows))
        return stacked(samples, self._counts[rows])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the shapes of the values; of stacks without reading them."""
        if name in self._slots:
            return _shapes_of(self._slots[name], rows)
        inner = self._reader.shapes(name, self._members(rows)).values
        counts = self._counts[rows]
        firsts = inner[starts_of(counts)] if len(inner) else inner
        return UniformBatch(np.concatenate([counts[:, None], firsts], axis=1))

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return None: a group is no row."""
        del rows
        return None

    def source_column(self, name: str) -> str | None:
        """Return None: a stack is no column of the source."""
        del name
        return None

    @cached_property
    def _counts(self) -> IntArray:
        return np.bincount(self._groups.of_row, minlength=self._groups.count)

    @cached_property
    def _of_all(self) -> IntArray:
        """The rows of all groups, one group after the other."""
        return self._rows[by_group(self._groups.of_row, self._groups.count)]

    def _members(self, groups: IntArray) -> IntArray:
        counts = self._counts[groups]
        starts = starts_of(self._counts)[groups]
        return self._of_all[np.repeat(starts, counts) + numbered(counts)]


class WindowReader:
    """The rows of another reader, with the values of window functions beside them."""

    def __init__(self, reader: Reader, rows: IntArray, slots: Mapping[str, Vector]) -> None:
        self._reader = reader
        self._rows = rows
        self._slots = slots

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return a slot's values, or the samples of the rows beneath."""
        if name in self._slots:
            return take(self._slots[name], rows)
        return self._reader.column(name, self._rows[rows])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return sample shapes."""
        if name in self._slots:
            return _shapes_of(self._slots[name], rows)
        return self._reader.shapes(name, self._rows[rows])

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows beneath."""
        return self._reader.source_rows(self._rows[rows])

    def source_column(self, name: str) -> str | None:
        """Return the column beneath; slots are none."""
        return None if name in self._slots else self._reader.source_column(name)


class UngroupReader:
    """One row for each element of some columns; the others repeat."""

    def __init__(
        self, reader: Reader, rows: IntArray, elements: IntArray, split: Mapping[str, ColumnType]
    ) -> None:
        self._reader = reader
        self._rows = rows
        self._elements = elements
        self._split = split

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the elements of a split column, the samples of another."""
        samples = self._reader.column(name, self._rows[rows])
        if name not in self._split:
            return samples
        return element_at(samples, self._elements[rows], self._split[name])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return sample shapes: of an element, those of its stack without the first size."""
        shapes = self._reader.shapes(name, self._rows[rows])
        if name not in self._split:
            return shapes
        return UniformBatch(shapes.values[:, 1:], shapes.valid)

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows beneath: they repeat."""
        return self._reader.source_rows(self._rows[rows])

    def source_column(self, name: str) -> str | None:
        """Return the column beneath; a split one is none."""
        return None if name in self._split else self._reader.source_column(name)


def _shapes_of(slot: Vector, rows: IntArray) -> Vector:
    return UniformBatch(np.asarray(as_ragged(slot).shapes)[rows])
