"""Rows of a view, encoded as a copy has them: pieces of rows in threads, in their order.

    stored columns ─┬─ as they are
                    ├─ images: decoded, moved and scaled, encoded ─► where their pixels went
                    ├─ annotations: moved with them
                    └─ values of a function

Each piece is read, made and converted in one thread, so that memory holds a few pieces.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.dataset.transform.map.items import stamps_of
from tensorlake.dataset.transform.materialize.recipe import Making, annotations_of
from tensorlake.errors import InvalidInputError
from tensorlake.loader import (
    Annotations,
    ColumnPlan,
    decode,
    refuse_left_behind,
    with_companions,
)
from tensorlake.storage import parallel_map, usable_cores
from tensorlake.types import BBox3D, EncodedColumn, Image, Link, take

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.types import Column, SampleType

__all__ = ["Encoder", "NullError", "Piece"]

Int64Array = npt.NDArray[np.int64]
Placements = list["decode.Placement | None"]

ROWS_A_PIECE = 64
PLAIN_ROWS_A_PIECE = 4096
"""Rows that one thread has at a time: fewer where samples are decoded, or functions called."""

PIECE_NBYTES = 16 << 20
"""Stored bytes of media, or bytes of what is made, that one thread has at a time."""

THREADS_MAX = 16
CALL = "materialize()"


class NullError(Exception):
    """A row is NULL in a column that does not allow it in the copy, as its source did not once.

    Attributes:
        column: The column of the view.
    """

    def __init__(self, column: str, row: int, url: str) -> None:
        super().__init__(f"row {row} of {url!r} is NULL in {column!r}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows, as a copy has them.

    Attributes:
        positions: Their positions in the view.
        columns: Their values, by column of the view.
        stamps: Digests of their stored columns in the view, uint64.
        read_nbytes: About how many bytes they take as stored in the view.
        made_nbytes: About how many the values take.
    """

    positions: Int64Array
    columns: dict[str, Any]
    stamps: npt.NDArray[np.uint64]
    read_nbytes: int
    made_nbytes: int


@dataclass(frozen=True)
class Encoder:
    """Makes the rows of a copy.

    Attributes:
        view: The rows.
        makings: How columns are made, by name; others are copied as stored.
        types: The types of the columns in the copy.
    """

    view: RowSet
    makings: Mapping[str, Making]
    types: Mapping[str, SampleType]

    def pieces(self, positions: Int64Array) -> Iterator[Piece]:
        """Yield some rows of the view, ascending, as the copy has them, in their order."""
        threads = min(usable_cores(), THREADS_MAX)
        with ThreadPoolExecutor(threads, "tensorlake-encode") as pool:
            yield from parallel_map(self.piece, self._cut(positions), pool=pool, ahead=threads)

    def _cut(self, positions: Int64Array) -> Iterable[Int64Array]:
        made = sum(making.sample_nbytes for making in self.makings.values())
        most = ROWS_A_PIECE if self.makings else PLAIN_ROWS_A_PIECE
        rows_max = max(1, min(most, PIECE_NBYTES // max(made, 1)))
        some = self.view.take(positions)
        media = [name for name, kind in self.view.schema.items() if kind.is_media]
        for start, stop in some.spans(media, rows_max=rows_max, nbytes=PIECE_NBYTES):
            yield positions[start:stop]

    def piece(self, positions: Int64Array) -> Piece:
        """Make some rows."""
        view = self.view
        stored = {name: view.stored_column(name, positions) for name in view.selection.columns}
        rows = view.selection.row_numbers(positions)
        for name, one in stored.items():
            valid = one.column.valid
            if valid is not None and not valid.all() and not self.types[name].nullable:
                raise NullError(name, int(rows[np.argmin(valid)]), view.url)
        stamps = stamps_of(
            {name: (one.sample_type, one.column) for name, one in stored.items()}, len(positions)
        )
        read_nbytes = sum(_nbytes(one.column) for one in stored.values())
        columns: dict[str, Any] = {
            name: view.copied_column(name, positions)
            if one.renamed
            else one.take(positions).present()
            for name, one in view.computed.items()
        }
        with self._naming_the_row(rows):
            made, placements = self._images(stored, rows)
            stored |= self._moved(stored, placements, rows)
            for name, one in stored.items():
                columns[name] = made[name] if name in made else self._column(name, one, rows)
        made_nbytes = sum(_nbytes(columns[name].column) for name in stored)
        return Piece(positions, columns, stamps, read_nbytes, made_nbytes)

    def _column(self, name: str, stored: StoredColumn, rows: Int64Array) -> StoredColumn:
        """Return a column as the copy has it, but for images that are moved."""
        making = self.makings.get(name)
        if making is None:
            return stored
        if making.function is not None:
            values = [
                _called(making, one, row)
                for one, row in zip(_presented(stored, name), rows.tolist(), strict=True)
            ]
            return self._converted(making, values)
        if isinstance(stored.sample_type, Link) and isinstance(making.type, Link):
            return stored  # staged as links of the other type to the same files
        if isinstance(stored.sample_type, Image) and isinstance(making.type, Image):
            return self._converted(making, _files(stored, making.type, name, rows))
        column = stored.converted(making.type, tensor=name, row_start=0, call=CALL)
        return StoredColumn(self.types[name], column)

    def _converted(self, making: Making, values: list[Any]) -> StoredColumn:
        column = making.type.convert(values, tensor=making.name, call=CALL)
        return StoredColumn(self.types[making.name], column)

    @contextmanager
    def _naming_the_row(self, rows: Int64Array) -> Generator[None]:
        """Name the row of the view in an error, which counts those of a piece."""
        try:
            yield
        except InvalidInputError as error:
            at = error.facts.get("row")
            if isinstance(at, int) and 0 <= at < len(rows):
                error.add_note(f"made of row {rows[at]} of {self.view.url!r}")
            raise

    def _images(
        self, stored: Mapping[str, StoredColumn], rows: Int64Array
    ) -> tuple[dict[str, StoredColumn], dict[str, Placements]]:
        """Return images that are moved, as the copy has them, and where their pixels went."""
        made: dict[str, StoredColumn] = {}
        placements: dict[str, Placements] = {}
        for name, making in self.makings.items():
            if making.steps is not None:
                made[name], placements[name] = self._stepped(making, stored[name], rows)
            elif making.moves:
                made[name] = self._column(name, stored[name], rows)
                placements[name] = _scalings(stored[name], made[name])
        return made, {name: one for name, one in placements.items() if any(one)}

    def _stepped(
        self, making: Making, stored: StoredColumn, rows: Int64Array
    ) -> tuple[StoredColumn, Placements]:
        decoder, column = making.decoder, cast("EncodedColumn", stored.column)
        values: list[Any] = []
        placements: Placements = []
        for at, (row, shape) in enumerate(zip(rows.tolist(), _shapes(stored), strict=True)):
            if shape is None:
                values.append(None)
                placements.append(None)
                continue
            sample = decode.Sample(column.samples[at], shape, row, place=0)
            placement = decoder.place(sample, epoch=0)
            if stored.sample_type.has_parts:
                pixels = _pixels(stored, at, making.name, row)
                value = decoder.transform(pixels, place=0, epoch=0, placed=placement)
            else:
                value = decoder.decode(sample, placement, epoch=0)
            values.append(value)
            is_moved = placement != decode.Placement.whole(*shape[:2])
            placements.append(placement if is_moved else None)
        return self._converted(making, values), placements

    def _moved(
        self,
        stored: Mapping[str, StoredColumn],
        placements: Mapping[str, Placements],
        rows: Int64Array,
    ) -> dict[str, StoredColumn]:
        """Return the annotations of images that were moved, where their pixels went."""
        schema = self.view.schema
        images = {name for name in placements if annotations_of(schema, name)}
        if not images:
            return {}
        planned = {
            name: _planned(name, schema[name], self.makings.get(name))
            for name in stored
            if not isinstance(schema[name], BBox3D)  # in metres
        }
        for plan in planned.values():
            refuse_left_behind(plan, planned, images, self.view.selection.snapshot.schema)
        plans = [with_companions(plan, planned, images) for plan in planned.values()]
        involved = tuple(one for one in plans if one.mover or one.drops_with or one.counts_with)
        values = {one.name: _values(stored[one.name], one) for one in involved}
        moving = Annotations.of(involved, values, placements, rows)
        for _, error in moving.miscounted():
            raise error
        for number in range(len(rows)):
            moving.move(number, is_whole=True)
        return {
            one.name: StoredColumn(
                schema[one.name],
                schema[one.name].convert(values[one.name], tensor=one.name, call=CALL),
            )
            for one in involved
            if one.mover or one.drops_with
        }


def _planned(name: str, kind: SampleType, making: Making | None) -> ColumnPlan:
    """Describe a column to what moves annotations."""
    decoder = None if making is None or not isinstance(kind, Image) else making.decoder
    form: Any = "image" if decoder is not None else kind.layout
    return ColumnPlan(name, kind, form, kind.shape, kind.dtype, decoder=decoder)


def _values(stored: StoredColumn, plan: ColumnPlan) -> list[Any]:
    """Return samples in the form in which annotations are moved: encoded ones as stored."""
    column = stored.column
    if plan.kind == "encoded":
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        samples = cast("EncodedColumn", column).samples
        return [one if is_there else None for one, is_there in zip(samples, valid, strict=True)]
    return _presented(stored, plan.name)


def _presented(stored: StoredColumn, name: str) -> list[Any]:
    kind, column = stored.sample_type, stored.column
    if kind.is_media:
        column = kind.decode(column, tensor=name)
    return [kind.present_one(column, at) for at in range(len(column))]


def _called(making: Making, value: Any, row: int) -> Any:
    assert making.function is not None
    if value is None:
        return None
    try:
        return making.function(value)
    except Exception as error:
        error.add_note(f"raised by the function of encode=, for row {row} of {making.name!r}")
        raise


def _files(stored: StoredColumn, wanted: Image, name: str, rows: Int64Array) -> list[Any]:
    """Return images as another type takes them: files where it can keep them, else pixels."""
    kind, column = cast("Image", stored.sample_type), cast("EncodedColumn", stored.column)
    reads_alike = kind.upright == wanted.upright and not kind.has_parts
    found: list[Any] = []
    for at, row in enumerate(rows.tolist()):
        sample = column.samples[at]
        if column.valid is not None and not column.valid[at]:
            found.append(None)
            continue
        is_kept = reads_alike and wanted.codec in ("any", kind.codec_of(sample))
        try:
            is_kept = is_kept and (wanted.codec == "any" or not kind.is_of_inks(sample))
        except ValueError:  # its header is damaged: decoding describes it
            is_kept = False
        found.append(bytes(sample) if is_kept else _pixels(stored, at, name, row))
    return found


def _pixels(stored: StoredColumn, at: int, name: str, row: int) -> Any:
    kind = stored.sample_type
    one = kind.decode(take(stored.column, np.array([at])), tensor=name, rows=[row])
    return kind.present_one(one, 0)


def _shapes(stored: StoredColumn) -> list[tuple[int, ...] | None]:
    """Return the shapes with which images are read; None where NULL."""
    kind, column = cast("Image", stored.sample_type), cast("EncodedColumn", stored.column)
    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    return [
        (
            kind.parse_shape(column.samples[at])
            if column.shapes is None
            else tuple(column.shapes[at].tolist())
        )
        if is_there
        else None
        for at, is_there in enumerate(valid.tolist())
    ]


def _scalings(stored: StoredColumn, made: StoredColumn) -> Placements:
    """Return where pixels of images went that were scaled; None where they were not."""
    placements: Placements = []
    for was, now in zip(_shapes(stored), _shapes(made), strict=True):
        if was is None or now is None or was[:2] == now[:2]:
            placements.append(None)
            continue
        whole = decode.Placement.whole(*was[:2])
        placements.append(whole.resized(now[0], now[1], antialias=True, exact=True))
    return placements


def _nbytes(column: Column) -> int:
    if isinstance(column, EncodedColumn):
        return sum(map(len, column.samples))
    return column.values.nbytes
