"""The seam between the engine and whatever holds the data.

The engine knows nothing of storage. It runs over a `ColumnSource`: named columns of `num_rows`
rows, read by row number. A lake, a server, an Arrow table, or plain numpy arrays can each be one.

    ColumnType        what a column (or expression) holds: kind, element dtype, sample shape
    UniformBatch      n samples of one shape          values (n, *shape)
    RaggedBatch       n samples of differing shapes   values flat, shapes (n, ndim)
    ObjectBatch       text, decoded JSON, bytes       values list, None where NULL
    TextBatch         text, as UTF-8                  content and offsets, as in Arrow
    ColumnStatistics  zone maps: bounds per run of rows, used to skip runs that cannot match

A NULL is a whole sample: `valid[i]` is False (or the object is None). Arrays have no NULL elements.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing_extensions import TypeIs

TimeUnit = Literal["s", "ms", "us", "ns"]
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
Metric = Literal["cosine", "dot", "l2"]
Kind = Literal["number", "bool", "label", "text", "json", "bytes", "media"]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]  # Any: element types are known to the binder, not the checker
Region = tuple[Any, ...]  # of integers, slices of integers, and one `...`: NumPy's basic indices
SourceT = TypeVar("SourceT")
_offered: dict[tuple[type, type], bool] = {}


def offers(source: object, protocol: type[SourceT]) -> "TypeIs[SourceT]":
    """Return whether a source has the methods of a protocol, as `isinstance` does.

    That looks each of them up, in 20 µs; here it is asked once for each class of sources.
    """
    asked = type(source), protocol
    found = _offered.get(asked)
    if found is None:
        found = _offered[asked] = isinstance(source, protocol)
    return found


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of one sample of a column; None in `shape`: a dimension that differs by row."""

    kind: Kind
    dtype: str | None
    shape: tuple[int | None, ...]
    names: tuple[str, ...] | None = None
    nullable: bool = False
    timestamp_unit: TimeUnit | None = None  # numbers are moments: units since 1970, UTC
    duration_unit: TimeUnit | None = None  # numbers are lengths of time
    box_format: BoxFormat | None = None  # what four numbers of a box mean; None: corners
    has_polygons: bool = False  # a sample is a list of polygons, arrays (n, 2)
    element: "ColumnType | None" = None  # of a stack made by GROUP BY: what each sample in it is
    handle: str | None = None  # the type of samples that are read as handles, never computed with
    timezone: str | None = field(default=None, compare=False)  # in which moments are shown
    class_names: tuple[str, ...] | None = None  # of the numbers 0, 1, … of a mask
    is_parted: bool = field(default=False, compare=False)  # a `PartedSource` may read regions alone


@dataclass(frozen=True, slots=True)
class UniformBatch:
    """Samples of one shape: `values` is (n, *shape); `valid` None means that no sample is NULL."""

    values: AnyArray
    valid: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class RaggedBatch:
    """Samples of differing shapes: C-order elements end to end, `shapes` int64 (n, ndim)."""

    values: AnyArray
    shapes: IntArray
    valid: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class ObjectBatch:
    """One Python object a sample (str, decoded JSON, bytes); None is NULL.

    `nbytes` is what they take as they are stored, where the source knows it: what JSON takes as
    Python objects is estimated from it.
    """

    values: list[object]
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class TextBatch:
    """One text a sample, as a source may have it: UTF-8 end to end, Arrow's layout.

    Row i is `content[offsets[i]:offsets[i + 1]]`; NULLs are empty.
    """

    content: npt.NDArray[np.uint8]
    offsets: IntArray
    valid: BoolArray | None = None


Batch = UniformBatch | RaggedBatch | ObjectBatch
SourceBatch = Batch | TextBatch
"""The samples of a source; a result has texts as objects."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Zone maps: zone z holds rows `starts[z]` … `starts[z + 1]` − 1 and bounds their values.

    Bounds are conservative: no row lies outside them, NaN aside. A zone that is not `known` is
    never skipped by them. For array columns the bounds are over elements. A zone has at most
    `null_count` NULLs; those that have no value at all, only NULLs and empty arrays, are `empty`
    (None: of no zone is that known). Those that may have a NaN are `has_nan` (None: all).
    """

    starts: IntArray
    minimum: AnyArray
    maximum: AnyArray
    null_count: IntArray
    known: BoolArray
    empty: BoolArray | None = None
    has_nan: BoolArray | None = None


@runtime_checkable
class ColumnSource(Protocol):
    """Named columns, read by row number; a run may read in several threads at once."""

    @property
    def schema(self) -> Mapping[str, ColumnType]:
        """Name and type of each column, in order."""
        ...

    @property
    def num_rows(self) -> int:
        """How many rows there are; row numbers are 0 … num_rows − 1."""
        ...

    def read(self, column: str, rows: IntArray) -> SourceBatch:
        """Return the samples of `rows`, in that order (rows may repeat); media comes decoded."""
        ...

    def shapes(self, column: str, rows: IntArray) -> IntArray:
        """Return the sample shapes of `rows`, int64 (n, ndim), undecoded; −1s where NULL."""
        ...

    def statistics(self, column: str) -> ColumnStatistics | None:
        """Return the zone maps of a column, or None where nothing is known."""
        ...


@runtime_checkable
class RunSource(Protocol):
    """A source that reads consecutive rows by their range, without a list of row numbers."""

    def read_run(self, column: str, start: int, stop: int) -> SourceBatch:
        """Return the samples of rows `start` … `stop` − 1, as `read` does."""
        ...


@runtime_checkable
class NumberedSource(Protocol):
    """A source that numbers the texts of some columns, instead of handing them out."""

    def is_numbered(self, column: str) -> bool:
        """Return whether `numbers` may be asked."""
        ...

    def numbers(self, column: str, rows: IntArray | slice) -> UniformBatch | RaggedBatch:
        """Return a number for the text of each row, equal for equal ones."""
        ...

    def texts(self, column: str, numbers: UniformBatch | RaggedBatch) -> UniformBatch | RaggedBatch:
        """Return the texts that numbers stand for."""
        ...


class PieceSource(RunSource, NumberedSource, Protocol):
    """Some rows of a source, which are read as all of it are."""


@runtime_checkable
class ChunkedSource(Protocol):
    """A source that keeps samples in chunks: a run of rows of one is read without a copy."""

    def chunk_ends(self, column: str, start: int, stop: int) -> IntArray | None:
        """Return the row after the last one of each chunk, of those from `start` to `stop` − 1.

        None where that is not known without a request.
        """
        ...


@runtime_checkable
class CodedSource(Protocol):
    """A source that keeps class codes narrower than it hands them out: comparing them is faster."""

    def read_codes(self, column: str, start: int, stop: int) -> SourceBatch:
        """Return the class codes of rows `start` … `stop` − 1, one each, of any integer dtype."""
        ...


@runtime_checkable
class PartedSource(Protocol):
    """A source that stores samples of some columns in parts, and decodes a region from its own."""

    def is_parted(self, column: str) -> bool:
        """Return whether the samples of a column are in parts."""
        ...

    def region(self, column: str, region: Region, rows: IntArray) -> Batch:
        """Return a region of the samples of rows; NULL where a sample does not have an element.

        Slices are clipped to each sample, as NumPy does.
        """
        ...

    def distinct(self, column: str, rows: IntArray) -> RaggedBatch | None:
        """Return the distinct elements of the samples of rows, undecoded, with all their axes.

        None where they are not recorded for each of them.
        """
        ...


IndexOperator = Literal["=", "<", "<=", ">", ">=", "in", "any", "match", "other"]
IndexOrder = Literal["nearest", "best"]  # of vectors, and of texts


@dataclass(frozen=True, slots=True)
class IndexCondition:
    """A condition of one column alone, as an index is asked about it.

    Attributes:
        op: how the column is compared with `values`; "any": an element of it; "match": a text that
            has all of these words; "other": unknown.
        values: the constants that it is compared with.
        matches: evaluates the condition for samples of the column, as a scan does.
        key: the same object whenever the same condition is asked again; None where its answer for
            a sample may change.
    """

    op: IndexOperator
    values: tuple[object, ...]
    matches: Callable[[SourceBatch], BoolArray]
    key: object = None


class ColumnIndex(Protocol):
    """Finds rows by the values of a column."""

    @property
    def name(self) -> str:
        """Its name, and its kind in parentheses."""
        ...

    @property
    def unindexed(self) -> IntArray:
        """The rows that it does not know, as ranges [start, stop) that ascend and are apart."""
        ...

    def answers(self, op: IndexOperator | IndexOrder, path: tuple[str, ...] = ()) -> bool:
        """Return whether it may answer conditions of an operator, or find the first of an order.

        With a path of keys, conditions of the values of a JSON column under it.
        """
        ...

    def rows(self, conditions: Sequence[IndexCondition], most: int) -> IntArray | None:
        """Return the rows that it knows and that meet all conditions, ascending.

        None where it cannot tell, or where there are more than `most`.
        """
        ...


@runtime_checkable
class IndexedSource(Protocol):
    """A source that has indexes of some columns."""

    def indexes(self, column: str) -> Sequence[ColumnIndex]:
        """Return the indexes of a column."""
        ...


@dataclass(frozen=True, slots=True)
class ReadCost:
    """The cost of reading: chunks touched, their stored bytes, and requests to a store."""

    chunks: int
    nbytes: int
    requests: int


@runtime_checkable
class CostedSource(Protocol):
    """A source that knows the cost of reading, which EXPLAIN reports."""

    def cost(self, column: str, ranges: IntArray) -> ReadCost | None:
        """Return what reading whole ranges of rows, [start, stop) each, would take; None: unknown.

        The ranges ascend and are apart; there may be many rows in them, so none is listed.
        """
        ...


@runtime_checkable
class IdentifiedSource(Protocol):
    """A source whose rows have identities and places in a version: `ROW_ID()` and `_row`."""

    def row_numbers(self, rows: IntArray) -> IntArray:
        """Return the places of rows in the version they are of."""
        ...

    def row_ids(self, rows: IntArray) -> list[str]:
        """Return the identities of rows."""
        ...


@runtime_checkable
class NearestSource(Protocol):
    """A source that may have indexes of vectors: ORDER BY APPROX."""

    def nearest(
        self, column: str, vector: AnyArray, metric: Metric, count: int, rows: IntArray | None
    ) -> IntArray | None:
        """Return rows among which the `count` nearest to a vector likely are.

        Args:
            column: A column of vectors.
            vector: As long as these.
            metric: The measure: the cosine, the inner product, or the Euclidean distance.
            count: How many rows are wanted.
            rows: The rows to find them among; None: all.

        Returns:
            At least `count` rows, ascending; None where no index helps.
        """
        ...


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """What a ranking needs to know of all texts: how many, their words, and texts with a word."""

    num_texts: int
    num_words: int
    texts_with: Mapping[str, int]


@runtime_checkable
class WordsSource(Protocol):
    """A source that may have indexes of the words of texts: BM25_SIMILARITY."""

    def text_statistics(self, column: str, words: Sequence[str]) -> TextStatistics | None:
        """Return the statistics of all texts of a column; None where no index helps."""
        ...

    def best_texts(
        self, column: str, words: Sequence[str], count: int, rows: IntArray | None
    ) -> IntArray | None:
        """Return rows among which the first by BM25 are, equal ones by row.

        Args:
            column: A column of texts.
            words: Different words, as MATCH compares them.
            count: How many rows are wanted.
            rows: The rows to find them among; None: all.

        Returns:
            At least `count` rows, ascending, with all that equal the last of the first; None where
            no index helps.
        """
        ...


@runtime_checkable
class TracedSource(Protocol):
    """A source that knows where its rows came from: `_source`."""

    def row_sources(self, rows: IntArray) -> list[str | None]:
        """Return the items that rows were made from; None where none is known."""
        ...


class Tables(Protocol):
    """Finds what FROM names beside `this`."""

    def table(self, name: str, version: tuple[str, str] | None) -> ColumnSource:
        """Return a source by name or URL; the version is ("VERSION" | "TAG" | "AS OF", value).

        `this` is asked for only with a version. The same name and version give the same source.

        Raises:
            LookupError: there is none of that name; its message is shown to the user.
        """
        ...
