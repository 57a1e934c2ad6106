"""Item counts: a tensor declared ``per=`` another has one element for each of its items.

    batch      append, extend      every row has the same count in both, or the call fails
    assigned   ds[name][rows] =    new elements, against the items as they are now
    staged     commit, merge       rows where either was assigned: items may change first, and
                                   the tensors per item after
    stored     ds.check()          every row of a version

Likewise samples in parts that are declared ``of=`` a tensor have its shape, and masks that of their
image, by the same four checks: a loader reads or crops the same part of both. NIfTI volumes of a
batch also have the affine of the one that they are ``of=``.

A NULL does not constrain the other. Counts come from chunk headers; of lists, from the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, ShapeMismatchError
from tensorlake.quantities import plural
from tensorlake.types import (
    SAME_PLACE,
    EncodedColumn,
    InstanceMask,
    RaggedColumn,
    UniformColumn,
    Video,
    have_places,
    voxels_apart,
)

if TYPE_CHECKING:
    from tensorlake.format import Schema, TensorSpec
    from tensorlake.reading import Reader
    from tensorlake.types import Column, SampleType

__all__ = [
    "ASSIGN_OTHER",
    "Uneven",
    "check_assigned",
    "check_batch",
    "check_rows",
    "items_first",
    "uneven_rows",
]

Int64Array: TypeAlias = npt.NDArray[np.int64]

NULL = -1
ASSIGN_OTHER = (
    "assign the other too, ds[{name!r}][{row}] = … or ds[{items!r}][{row}] = …, and commit again;"
    " or ds.discard()"
)
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Uneven:
    """A row whose number of elements, or whose shape, differs from that of the other tensor.

    Attributes:
        row: Row of the version, or of the batch.
        name: The tensor declared ``per=`` or ``of=``.
        count: Number of its elements (``per=``), or its shape (``of=``).
        items: The tensor it names.
        expected: Number of its items, or its shape.
    """

    row: int
    name: str
    count: int | tuple[int, ...]
    items: str
    expected: int | tuple[int, ...]

    @property
    def wanted(self) -> str:
        """The samples that the row needs, for the advice of an error."""
        return "samples of one shape" if isinstance(self.count, tuple) else "as many"

    def __str__(self) -> str:
        if isinstance(self.count, tuple):
            return (
                f"{self.name!r} has the shape {self.count}, and {self.items!r}, which it is"
                f" declared of=, {self.expected}"
            )
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
    for spec, lead in schema.cut:
        if spec.id in columns and lead.id in columns:
            own, other = _shapes_in(columns[spec.id]), _shapes_in(columns[lead.id])
            for wrong in _other_shapes(spec, lead, own, other, rows):
                raise wrong.error(call, f"give {wrong.wanted}; nothing was staged")
            _check_places(spec, lead, columns[spec.id], columns[lead.id], rows, call=call)


def _check_places(
    spec: TensorSpec,
    lead: TensorSpec,
    own: Column,
    other: Column,
    rows: Sequence[int] | Int64Array,
    *,
    call: str,
) -> None:
    """Refuse new volumes whose affines place voxels elsewhere than those that they are ``of=``."""
    if not have_places(spec.type, lead.type):
        return
    assert isinstance(own, EncodedColumn)
    assert isinstance(other, EncodedColumn)
    for row, one, two in zip(rows, own.maps or (), other.maps or (), strict=False):
        apart = 0.0 if one is None or two is None else voxels_apart(spec.type, one, lead.type, two)
        if apart > SAME_PLACE:
            raise InvalidInputError(
                f"row {row} of {call}: the affine of {spec.name!r} places voxels up to"
                f" {apart:.4g} voxels from those of {lead.name!r}, which it is declared of="
                f" (at most {SAME_PLACE} differ by rounding)\nresample it to the voxels of"
                f" {lead.name!r}, or leave of= out of its type; nothing was staged",
                tensor=spec.name,
                row=int(row),
                expected=SAME_PLACE,
                actual=apart,
            )


def check_assigned(
    reader: Reader, spec: TensorSpec, positions: Int64Array, column: Column, *, call: str
) -> None:
    """Refuse new elements whose number differs from that of the current items of their rows."""
    schema = reader.snapshot.schema
    lead = next((lead for one, lead in schema.cut if one.id == spec.id), None)
    if lead is not None and len(positions):
        stored = _stored_shapes(reader, lead, reader.snapshot.physical(positions))
        for wrong in _other_shapes(spec, lead, _shapes_in(column), stored, positions):
            raise wrong.error(call, _items_first(wrong))
    items = next((items for one, items in schema.paired if one.id == spec.id), None)
    if items is None:
        return
    expected = _stored_counts(reader, items, reader.snapshot.physical(positions))
    wrong = _first_uneven(spec, items, counts_in(column, spec.type), expected, positions)
    if wrong is not None:
        raise wrong.error(call, _items_first(wrong))


def check_rows(
    reader: Reader, changed: Mapping[str, Int64Array], *, call: str, advice: str
) -> None:
    """Refuse rows with more or fewer elements than items, or other shapes, of what was changed.

    Args:
        reader: Reader of the resulting version.
        changed: Physical rows with new values, by tensor id.
        call: The user's call, for errors.
        advice: Advice for the error; ``{name}``, ``{items}`` and ``{row}`` name the first such row.

    Raises:
        ShapeMismatchError: The first such row, and how many there are.
    """
    schema, nothing = reader.snapshot.schema, np.empty(0, np.int64)
    for spec, items in (*schema.paired, *schema.cut):
        physical = np.union1d(changed.get(spec.id, nothing), changed.get(items.id, nothing))
        rows = reader.snapshot.rows_of(physical)
        if wrong := list(_uneven(reader, spec, items, np.sort(rows[rows >= 0]))):
            first = wrong[0]
            given = advice.format(name=first.name, items=first.items, row=first.row)
            raise first.error(call, given, others=len(wrong) - 1)


def uneven_rows(reader: Reader) -> Iterator[Uneven]:
    """Find every row of a version with more or fewer elements than items, or another shape."""
    snapshot = reader.snapshot
    for spec, items in (*snapshot.schema.paired, *snapshot.schema.cut):
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


def _items_first(wrong: Uneven) -> str:
    return (
        f"give {wrong.wanted}, or assign {wrong.items!r} first and {wrong.name!r} after it in one"
        " commit; nothing was staged"
    )


def _stored_counts(reader: Reader, spec: TensorSpec, physical: Int64Array) -> Int64Array:
    if len(physical) == 0:
        return np.empty(0, np.int64)
    if spec.type.item_counter is None and spec.type.dtype is not None and spec.type.shape:
        return reader.shapes(spec.name, physical)[:, 0]
    return counts_in(reader.read(spec.name, physical, decode=False), spec.type)


def _uneven(
    reader: Reader, spec: TensorSpec, items: TensorSpec, rows: Int64Array
) -> Iterator[Uneven]:
    is_cut = any(spec is one and items is other for one, other in reader.snapshot.schema.cut)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        physical = reader.snapshot.physical(some)
        if is_cut:
            own, other = (_stored_shapes(reader, one, physical) for one in (spec, items))
            yield from _other_shapes(spec, items, own, other, some)
            continue
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


def _shapes_in(column: Column) -> Int64Array | None:
    """Return the shapes of a column of samples, −1 where NULL; None where they are not recorded."""
    if isinstance(column, UniformColumn) or column.shapes is None:
        return None
    shapes = np.array(column.shapes, np.int64)
    if column.valid is not None:
        shapes[~column.valid] = NULL
    return shapes


def _stored_shapes(reader: Reader, spec: TensorSpec, physical: Int64Array) -> Int64Array | None:
    """Return the shapes of stored samples, −1 where NULL; None if the type has none."""
    if len(physical) == 0 or not spec.type.shape:
        return None
    return reader.shapes(spec.name, physical)


def _other_shapes(
    spec: TensorSpec,
    lead: TensorSpec,
    own: Int64Array | None,
    other: Int64Array | None,
    rows: Sequence[int] | Int64Array,
) -> Iterator[Uneven]:
    """Find samples whose first axes are not as long as those of the sample that they are of."""
    if own is None or other is None:
        return
    has_objects = isinstance(spec.type, InstanceMask)
    if has_objects:  # (objects, height, width); without objects it has no size
        own, other = own[:, 1:], np.where(own[:, :1] == 0, NULL, other)
    is_video = isinstance(spec.type, Video) or isinstance(lead.type, Video)
    shared = 1 if is_video else min(own.shape[1], other.shape[1])  # of videos: frames
    differs = (own[:, :shared] != other[:, :shared]).any(axis=1)
    differs &= (own >= 0).all(axis=1) & (other >= 0).all(axis=1)
    for at in np.flatnonzero(differs).tolist():
        found, expected = tuple(own[at].tolist()), tuple(other[at].tolist())
        yield Uneven(int(rows[at]), spec.name, found, lead.name, expected)
