"""Item counts: a tensor declared ``per=`` another has one element for each of its items.

    batch      append, extend      every row has the same count in both, or the call fails
    assigned   ds[name][rows] =    new elements, against the items as they are now
    staged     commit, merge       rows where either was assigned: items may change first, and
                                   the tensors per item after
    stored     ds.check()          every row of a version

A NULL does not constrain the other. Counts come from chunk headers; of lists, from the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlake.errors import ShapeMismatchError
from tensorlake.quantities import plural
from tensorlake.types import EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.format import Schema, TensorSpec
    from tensorlake.reading import Reader
    from tensorlake.types import Column, SampleType

__all__ = [
    "Uneven",
    "check_assigned",
    "check_batch",
    "check_rows",
    "items_first",
    "uneven_rows",
]

Int64Array: TypeAlias = npt.NDArray[np.int64]

NULL = -1
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Uneven:
    """A row whose number of elements differs from its number of items.

    Attributes:
        row: Row of the version, or of the batch.
        name: The tensor declared ``per=``.
        count: Number of its elements.
        items: The tensor it names.
        expected: Its items.
    """

    row: int
    name: str
    count: int
    items: str
    expected: int

    def __str__(self) -> str:
        return (
            f"{self.name!r} has {self.count} and {self.items!r} {self.expected}, of which it is"
            f" one each (per={self.items!r})"
        )

    def error(self, call: str, advice: str, *, others: int = 0) -> ShapeMismatchError:
        """Return the error of a call in which other rows differ, too."""
        more = f", and so in {plural(others, 'other row')}" if others else ""
        return ShapeMismatchError(
            f"row {self.row} of {call}: {self}{more}\n{advice}",
            tensor=self.name,
            row=self.row,
            expected=self.expected,
            actual=self.count,
        )


def items_first(names: Iterable[str], types: Mapping[str, SampleType]) -> list[str]:
    """Order tensors that are assigned together: items before tensors ``per`` them."""
    return sorted(names, key=lambda name: getattr(types[name], "per", None) is not None)


def check_batch(
    schema: Schema, columns: Mapping[str, Column], rows: Sequence[int] | Int64Array, *, call: str
) -> None:
    """Refuse new rows with more or fewer elements than items; columns are by tensor id."""
    for spec, items in schema.paired:
        if spec.id not in columns or items.id not in columns:
            continue
        counts = counts_in(columns[spec.id], spec.type)
        expected = counts_in(columns[items.id], items.type)
        wrong = _first_uneven(spec, items, counts, expected, rows)
        if wrong is not None:
            raise wrong.error(call, "give as many; nothing was staged")


def check_assigned(
    reader: Reader, spec: TensorSpec, positions: Int64Array, column: Column, *, call: str
) -> None:
    """Refuse new elements whose number differs from that of the current items of their rows."""
    schema = reader.snapshot.schema
    items = next((items for one, items in schema.paired if one.id == spec.id), None)
    if items is None:
        return
    expected = _stored_counts(reader, items, reader.snapshot.physical(positions))
    wrong = _first_uneven(spec, items, counts_in(column, spec.type), expected, positions)
    if wrong is not None:
        raise wrong.error(
            call,
            f"give as many, or assign {wrong.items!r} first and {wrong.name!r} after it in one"
            " commit; nothing was staged",
        )


def check_rows(
    reader: Reader, changed: Mapping[str, Int64Array], *, call: str, advice: str
) -> None:
    """Refuse rows with more or fewer elements than items, where either was changed.

    Args:
        reader: Reader of the resulting version.
        changed: Physical rows with new values, by tensor id.
        call: The user's call, for errors.
        advice: Advice for the error; ``{name}``, ``{items}`` and ``{row}`` name the first such row.

    Raises:
        ShapeMismatchError: The first such row, and how many there are.
    """
    nothing = np.empty(0, np.int64)
    for spec, items in reader.snapshot.schema.paired:
        physical = np.union1d(changed.get(spec.id, nothing), changed.get(items.id, nothing))
        rows = reader.snapshot.rows_of(physical)
        wrong = list(_uneven(reader, spec, items, np.sort(rows[rows >= 0])))
        if wrong:
            first = wrong[0]
            given = advice.format(name=first.name, items=first.items, row=first.row)
            raise first.error(call, given, others=len(wrong) - 1)


def uneven_rows(reader: Reader) -> Iterator[Uneven]:
    """Find every row of a version with more or fewer elements than items."""
    snapshot = reader.snapshot
    for spec, items in snapshot.schema.paired:
        yield from _uneven(reader, spec, items, np.arange(snapshot.num_rows, dtype=np.int64))


def counts_in(column: Column, sample_type: SampleType) -> Int64Array:
    """Return the number of items of each sample; −1 if it is NULL or not a list of items."""
    match column:
        case UniformColumn():
            length = sample_type.shape[0] if sample_type.shape else None
            counts = np.full(len(column), NULL if length is None else length, np.int64)
        case RaggedColumn(shapes=shapes):
            counts = shapes[:, 0].astype(np.int64)
        case EncodedColumn(samples=samples, shapes=shapes):
            count = sample_type.item_counter
            counts = np.full(len(column), NULL, np.int64)
            if shapes is not None:
                counts = shapes[:, 0].astype(np.int64)
            elif count is not None:
                valid = column.valid
                present = range(len(samples)) if valid is None else np.flatnonzero(valid).tolist()
                for at in present:
                    counts[at] = count(samples[at])
    if column.valid is not None:
        counts[~column.valid] = NULL
    return counts


def _stored_counts(reader: Reader, spec: TensorSpec, physical: Int64Array) -> Int64Array:
    if len(physical) == 0:
        return np.empty(0, np.int64)
    if spec.type.item_counter is None and spec.type.dtype is not None and spec.type.shape:
        return reader.shapes(spec.name, physical)[:, 0]
    return counts_in(reader.read(spec.name, physical, decode=False), spec.type)


def _uneven(
    reader: Reader, spec: TensorSpec, items: TensorSpec, rows: Int64Array
) -> Iterator[Uneven]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        physical = reader.snapshot.physical(some)
        counts = _stored_counts(reader, spec, physical)
        expected = _stored_counts(reader, items, physical)
        for at in np.flatnonzero(_differ(counts, expected)).tolist():
            yield Uneven(int(some[at]), spec.name, int(counts[at]), items.name, int(expected[at]))


def _first_uneven(
    spec: TensorSpec,
    items: TensorSpec,
    counts: Int64Array,
    expected: Int64Array,
    rows: Sequence[int] | Int64Array,
) -> Uneven | None:
    differ = _differ(counts, expected)
    if not differ.any():
        return None
    at = int(np.argmax(differ))
    return Uneven(int(rows[at]), spec.name, int(counts[at]), items.name, int(expected[at]))


def _differ(counts: Int64Array, expected: Int64Array) -> npt.NDArray[np.bool_]:
    return (counts != expected) & (counts != NULL) & (expected != NULL)
