"""Where the columns of a scope come from: a source, groups, rows with more columns beside them.

    SourceReader   rows of a source, and a record of reads
    GroupReader    one row a group: slots '#0', '#1', …, and columns stacked over the group's rows

`WindowReader`, rows with slots beside them, is in `execution/operators.py`; `UngroupReader`, one
row for each element of some columns, in `execution/elements.py`. Each knows which rows of its
source its own rows are (`source_rows`), and which columns it passes on unchanged (`source_column`),
so that a result can be rows of a dataset rather than copies of them.
"""

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, partial
from threading import Lock
from typing import Any, Protocol

import numpy as np

from tensorlake_query.values.group_keys import Groups, by_group
from tensorlake_query.values.lineage import row_column
from tensorlake_query.values.memory import JSON_FACTOR, charge, current, working
from tensorlake_query.values.meter import (
    Meter,
    decoded_nbytes,
    differs_in_size,
    first_rows,
    fixed_nbytes,
    is_large,
    region_nbytes,
)
from tensorlake_query.values.source import (
    ChunkedSource,
    CodedSource,
    ColumnSource,
    ColumnType,
    IntArray,
    NumberedSource,
    ObjectBatch,
    PartedSource,
    PieceSource,
    Region,
    RunSource,
    SourceBatch,
    UniformBatch,
    offers,
)
from tensorlake_query.values.stacks import stacked
from tensorlake_query.values.vectors import (
    POSITION_NBYTES,
    Vector,
    as_ragged,
    concatenated,
    deep_nbytes_of,
    from_batch,
    is_dense,
    length_of,
    nbytes_of,
    numbered,
    starts_of,
    take,
    taken_once,
)

Answer = Callable[[Any, "SourceReader"], object]  # what a QueryRef or CorpusRef stands for, once
STEP_NBYTES = 32 << 20  # read together when their size is known, at least
STEP_SHARE = 8  # or this part of the memory that is left
SMALL_NBYTES = 64  # samples of so many cost less to read in a run than one by one
MOST_NBYTES = 1 << 40  # where there is no limit


class Reader(Protocol):
    """Where the columns of a scope come from."""

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`."""
        ...

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`."""
        ...

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return which rows of the source these are; None if they are not source rows."""
        ...

    def source_column(self, name: str) -> str | None:
        """Return which column of the source this is, unchanged; None if it is not one."""
        ...

    @property
    def base(self) -> "SourceReader":
        """The source underneath."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held of the rows that a step made."""
        ...


class RunReader(Reader, Protocol):
    """A reader whose consecutive rows are read by their range, without a list of row numbers."""

    def run(self, name: str, start: int, stop: int) -> Vector:
        """Return the samples of rows `start` … `stop` − 1."""
        ...

    def codes(self, name: str, start: int, stop: int) -> Vector:
        """Return the class codes of rows `start` … `stop` − 1, of any integer dtype."""
        ...

    def chunk_ends(self, name: str, start: int, stop: int) -> IntArray | None:
        """Return after which of these rows chunks of a column end; None where that is unknown."""
        ...


class SourceReader:
    """Reads a `ColumnSource`, and counts what it reads. Thread-safe where the source is."""

    def __init__(self, source: ColumnSource, meter: Meter, answer: Answer) -> None:
        self.source = source
        self.rows_read: dict[str, int] = {}
        self._fixed_nbytes = {  # of a sample, where all have one shape
            name: fixed_nbytes(column_type)
            for name, column_type in source.schema.items()
            if not differs_in_size(column_type)
        }
        self._mean_nbytes: dict[str, float] = {}  # of a sample of each column, as far as was read
        self.answer = answer
        self._meter = meter
        self._schema = source.schema
        self._lock = Lock()
        self._by_run = source if offers(source, RunSource) else None
        self._by_code = source if offers(source, CodedSource) else None
        self._by_number = source if offers(source, NumberedSource) else None
        self._by_chunk = source if offers(source, ChunkedSource) else None
        self._by_part = source if offers(source, PartedSource) else None

    @property
    def base(self) -> "SourceReader":
        """Itself."""
        return self

    @property
    def nbytes(self) -> int:
        """Nothing: a source is not a step's."""
        return 0

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the samples of `rows`, in the form the column's type asks for."""
        each = self._fixed_nbytes.get(name)
        if each is None:
            return taken_once(partial(self._column, name), rows)
        if self._by_run is not None and each <= SMALL_NBYTES and is_dense(rows):
            first = int(rows[0])
            return take(self.run(name, first, int(rows[-1]) + 1), rows - first)
        charge(len(rows) * each)
        return self._counted(name, self.source.read(name, rows), len(rows))[0]

    def _column(self, name: str, rows: IntArray) -> Vector:
        def read(start: int, stop: int) -> SourceBatch:
            is_all = (start, stop) == (0, len(rows))
            return self.source.read(name, rows if is_all else rows[start:stop])

        return self._in_steps(name, len(rows), read, lambda start, stop: rows[start:stop])

    def run(self, name: str, start: int, stop: int) -> Vector:
        """Return the samples of rows `start` … `stop` − 1; a source may do that at less cost."""
        if self._by_run is None:
            return self.column(name, np.arange(start, stop))
        read_run = self._by_run.read_run
        each = self._fixed_nbytes.get(name)
        if each is not None:
            charge((stop - start) * each)
            return self._counted(name, read_run(name, start, stop), stop - start)[0]

        def read(first: int, last: int) -> SourceBatch:
            return read_run(name, start + first, start + last)

        def rows_of(first: int, last: int) -> IntArray:
            return np.arange(start + first, start + last)

        return self._in_steps(name, stop - start, read, rows_of)

    def codes(self, name: str, start: int, stop: int) -> Vector:
        """Return the class codes of rows `start` … `stop` − 1, as narrow as the source has them."""
        numbers = self.numbers(name, lambda: slice(start, stop))
        if numbers is not None:
            return numbers
        if self._by_code is None:
            return self.run(name, start, stop)
        codes = self._by_code.read_codes(name, start, stop)
        vector, nbytes = self._counted(name, codes, stop - start)
        charge(nbytes)
        return vector

    def chunk_ends(self, name: str, start: int, stop: int) -> IntArray | None:
        """Return after which of rows `start` … `stop` − 1 chunks of a column end."""
        return None if self._by_chunk is None else self._by_chunk.chunk_ends(name, start, stop)

    def _in_steps(
        self,
        name: str,
        num_rows: int,
        read: Callable[[int, int], SourceBatch],
        rows_of: Callable[[int, int], IntArray],
    ) -> Vector:
        """Read samples that differ in size, and charge them: before, as far as sizes are known.

        Few are read first, and then as many together as the sizes seen until then allow. Shapes
        tell the sizes of images and masks before any is decoded.
        """
        column_type = self._schema[name]
        parts: list[Vector] = []
        start = 0
        while not parts or start < num_rows:
            each = self._mean_nbytes.get(name)
            count = (
                first_rows(column_type) if each is None else int(_step_nbytes() // max(each, 1.0))
            )
            stop = min(start + max(count, 1), num_rows)
            if is_large(column_type, each):
                expected = decoded_nbytes(
                    column_type, self.source.shapes(name, rows_of(start, stop))
                )
                self._meter.expect(expected)
            else:
                expected = int((each or 0.0) * (stop - start))
            charge(expected)
            vector, nbytes = self._counted(name, read(start, stop), stop - start)
            charge(nbytes - expected)
            if stop > start:
                self._mean_nbytes[name] = max(nbytes / (stop - start), (each or 0.0) / 2)
            parts.append(vector)
            start = stop
        with working(0 if len(parts) == 1 else sum(map(nbytes_of, parts))):
            return concatenated(parts)

    def _counted(self, name: str, batch: SourceBatch, num_rows: int) -> tuple[Vector, int]:
        """Return samples in the form that their type asks for, and the memory they take."""
        column_type = self._schema[name]
        vector = from_batch(batch, column_type)
        with self._lock:
            self.rows_read[name] = self.rows_read.get(name, 0) + num_rows
        self._meter.add(vector, is_text=column_type.kind in {"text", "bytes"})
        if column_type.kind == "json" and isinstance(batch, ObjectBatch) and batch.nbytes:
            return vector, nbytes_of(vector) + batch.nbytes * JSON_FACTOR
        return vector, deep_nbytes_of(vector)

    def numbers(self, name: str, rows: Callable[[], IntArray | slice]) -> Vector | None:
        """Return a number for each text, equal for equal ones; None where the source has none."""
        if self._by_number is None or not self._by_number.is_numbered(name):
            return None
        vector = self._by_number.numbers(name, rows())
        self._meter.count(vector.values.nbytes)
        charge(nbytes_of(vector))
        return vector

    def texts(self, name: str, numbers: Vector) -> Vector:
        """Return the texts that numbers stand for."""
        assert self._by_number is not None, "it has numbered them"
        vector = self._by_number.texts(name, numbers)
        charge(deep_nbytes_of(vector))
        return self._counted(name, vector, length_of(vector))[0]

    def over(self, source: PieceSource) -> "SourceReader":
        """Return a reader of a part of the source, which is counted as this one is."""
        part: SourceReader = copy(self)
        part.source = source
        part._by_run = part._by_number = source
        part._by_chunk = part._by_part = None
        return part

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the sample shapes of `rows`; NULL where the source gives −1."""
        charge(len(rows) * len(self._schema[name].shape) * POSITION_NBYTES)
        shapes = self.source.shapes(name, rows)
        if not shapes.size or shapes.min() >= 0:
            return UniformBatch(shapes)
        return UniformBatch(shapes, np.asarray((shapes >= 0).all(axis=1)))

    def part(
        self, name: str, region: Region | None, column_type: ColumnType, rows: IntArray
    ) -> Vector | None:
        """Return a region of samples, or their distinct elements; None where they have no parts.

        Args:
            name: the column.
            region: the indices; None for distinct elements.
            column_type: what the result is.
            rows: the rows.
        """
        if self._by_part is None or not self._by_part.is_parted(name):
            return None
        if region is None:
            found = self._by_part.distinct(name, rows)
        else:
            nbytes = region_nbytes(self._schema[name], region, self.source.shapes(name, rows))
            self._meter.expect(nbytes)
            charge(nbytes)
            found = self._by_part.region(name, region, rows)
        if found is None:
            return None
        vector = from_batch(found, column_type)
        with self._lock:
            self.rows_read[name] = self.rows_read.get(name, 0) + len(rows)
        self._meter.add(vector, is_text=False)
        return vector

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return the rows themselves."""
        return rows

    def source_column(self, name: str) -> str | None:
        """Return the column itself."""
        return name

    def row_column(self, name: str, rows: IntArray) -> Vector:
        """Return what every row has beside its columns: `_row`, `_row_id` or `_source`.

        Raises:
            RowError: they are rows of nothing, such as groups, or the source gives them none.
        """
        return row_column(self.source, name, rows)


def _step_nbytes() -> int:
    holder = current()
    account = None if holder is None else holder.account
    if account is None or account.limit is None:
        return MOST_NBYTES
    return max((account.limit - account.held) // STEP_SHARE, STEP_NBYTES)


class GroupReader:
    """Groups: slots, and the columns of their rows stacked."""

    def __init__(
        self,
        slots: Mapping[str, Vector],
        reader: Reader,
        rows: IntArray,
        groups: Groups,
        by_row: frozenset[str] = frozenset(),
    ) -> None:
        self._by_row = by_row  # slots that have a value of each row, equal within a group
        self._slots = slots
        self._reader = reader
        self._rows = rows
        self._groups = groups

    @property
    def nbytes(self) -> int:
        """Values held for the groups."""
        slots = sum(map(deep_nbytes_of, self._slots.values()))
        return slots + self._rows.nbytes + 2 * self._groups.of_row.nbytes

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the slot's values of some groups, or the stacks of their samples."""
        if name in self._slots:
            return take(self._slots[name], self._in_slot(name, rows))
        samples = self._reader.column(name, self._members(rows))
        return stacked(samples, self._counts[rows])

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the shapes of the values; of stacks without reading them."""
        if name in self._slots:
            return _shapes_of(self._slots[name], self._in_slot(name, rows))
        inner = self._reader.shapes(name, self._members(rows)).values
        counts = self._counts[rows]
        firsts = inner[starts_of(counts)] if len(inner) else inner
        return UniformBatch(np.concatenate([counts[:, None], firsts], axis=1))

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return None: a group is not a row."""
        del rows
        return None

    def source_column(self, name: str) -> str | None:
        """Return None: a stack is not a column of the source."""
        del name
        return None

    @cached_property
    def _counts(self) -> IntArray:
        return np.bincount(self._groups.of_row, minlength=self._groups.count)

    @cached_property
    def _of_all(self) -> IntArray:
        """The rows of all groups, one group after the other."""
        return self._rows[by_group(self._groups.of_row, self._groups.count)]

    def _in_slot(self, name: str, groups: IntArray) -> IntArray:
        return self._groups.first[groups] if name in self._by_row else groups

    def _members(self, groups: IntArray) -> IntArray:
        counts = self._counts[groups]
        starts = starts_of(self._counts)[groups]
        return self._of_all[np.repeat(starts, counts) + numbered(counts)]


class SlotReader:
    """Groups of which nothing is asked but their keys and aggregates."""

    def __init__(self, slots: Mapping[str, Vector], reader: Reader) -> None:
        self._slots = slots
        self._reader = reader

    @property
    def nbytes(self) -> int:
        """Values held for the groups."""
        return sum(map(deep_nbytes_of, self._slots.values()))

    @property
    def base(self) -> SourceReader:
        """The source underneath."""
        return self._reader.base

    def column(self, name: str, rows: IntArray) -> Vector:
        """Return the slot's values of some groups."""
        return take(self._slots[name], rows)

    def shapes(self, name: str, rows: IntArray) -> Vector:
        """Return the shapes of the values."""
        return _shapes_of(self._slots[name], rows)

    def source_rows(self, rows: IntArray) -> IntArray | None:
        """Return None: a group is not a row."""
        del rows
        return None

    def source_column(self, name: str) -> str | None:
        """Return None: a slot is not a column of the source."""
        del name
        return None


def _shapes_of(slot: Vector, rows: IntArray) -> Vector:
    return UniformBatch(np.asarray(as_ragged(slot).shapes)[rows])
