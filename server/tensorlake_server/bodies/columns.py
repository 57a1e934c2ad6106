"""The data of a dataset or a view for the routes: columns, samples and row identities.

Stored tensors are read as they are stored (media stay encoded); columns that a query computed are
values already, and are given the sample type that would store them. Both come out as a
`TypedColumn`, so that no route tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset import rowset_of
from tensorlake.errors import RowNotFoundError, TensorNotFoundError
from tensorlake.types import (
    Array,
    Bool,
    Bytes,
    ClassLabel,
    EncodedColumn,
    Json,
    Link,
    LinkedSample,
    RaggedColumn,
    Scalar,
    Sequence,
    Text,
    UniformColumn,
    untiled,
    widened_column,
)
from tensorlake_server.media.handles import DRAWN_IN_PARTS, VOLUME
from tensorlake_server.media.images import is_drawable
from tensorlake_server.media.masks import MASK_KINDS
from tensorlake_server.media.tiles import MAX_TILED_NBYTES, too_many_bytes
from tensorlake_server.messages.messages import TensorInfo

if TYPE_CHECKING:
    import collections.abc

    import numpy.typing as npt

    from tensorlake.types import Column, SampleHandle, SampleType
    from tensorlake_server.lake.lake import Readable

__all__ = [
    "IDENTITY",
    "HandleColumn",
    "TypedColumn",
    "check_names",
    "column_names",
    "column_type",
    "has_frames",
    "identify_samples",
    "is_read_in_parts",
    "is_summarized",
    "is_tiled_image",
    "list_tensors",
    "named_positions",
    "page_positions",
    "read_column",
    "read_files",
    "read_handles",
    "read_identity",
    "read_rows",
]

IDENTITY = ("_row", "_row_id")  # of a row: no tensor's name begins so
SOURCE = "_source"
NAMED_KINDS = frozenset({"class_label", "segment_mask", "keypoints"})


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """Samples, media as stored, and what they are."""

    type: SampleType
    column: Column

    def is_null(self, position: int) -> bool:
        """Whether the sample is NULL."""
        return self.column.valid is not None and not self.column.valid[position]


@dataclass(frozen=True, slots=True)
class HandleColumn:
    """Samples that are decoded in parts, of which nothing is read yet; None for NULL."""

    type: SampleType
    handles: list[SampleHandle | None]


def column_names(readable: Readable) -> list[str]:
    """Name the columns, in the order of a query or of the schema."""
    return list(rowset_of(readable).columns)


def list_tensors(readable: Readable) -> list[TensorInfo]:
    """Describe the columns, in the order of a query or of the schema."""
    return [_describe(name, column_type(readable, name)) for name in column_names(readable)]


def column_type(readable: Readable, name: str) -> SampleType:
    """Type of a column; of one that a query computed, the type that would store it.

    Raises:
        TensorNotFoundError: There is none of this name.
    """
    check_names(readable, [name])
    computed = rowset_of(readable).computed.get(name)
    if computed is not None:
        return _type_of(computed.type)
    return Text(nullable=True) if name == SOURCE else readable.schema[name]


def check_names(readable: Readable, names: collections.abc.Sequence[str]) -> None:
    """Check that all columns exist.

    Raises:
        TensorNotFoundError: One does not.
    """
    known = column_names(readable)
    for name in names:
        if name not in known and not (name == SOURCE and rowset_of(readable).has_rows):
            raise TensorNotFoundError(
                f"{readable.url!r} has no tensor {name!r}\nits tensors are {', '.join(known)}",
                tensor=name,
            )


def named_positions(
    readable: Readable, rows: collections.abc.Sequence[int]
) -> npt.NDArray[np.int64]:
    """Check rows that a request names one by one; they may repeat, and be of any size.

    Raises:
        RowNotFoundError: One is outside.
    """
    count = len(readable)
    for row in rows:
        if not 0 <= row < count:
            raise RowNotFoundError(
                f"there are {count:,} rows, no row {row}"
                + (f"\nrows are 0 to {count - 1}" if count else ""),
                row=row,
                expected=count,
            )
    return np.array(rows, dtype=np.int64)


def page_positions(readable: Readable, offset: int, limit: int) -> npt.NDArray[np.int64]:
    """Positions of a page; empty beyond the end."""
    count = len(readable)
    return np.arange(min(offset, count), min(offset + limit, count), dtype=np.int64)


def read_identity(readable: Readable, positions: npt.NDArray[np.int64]) -> dict[str, TypedColumn]:
    """Return who the rows are, as columns of the names in `IDENTITY`."""
    rows = read_rows(readable, positions)
    valid = np.array([row["_row"] is not None for row in rows], dtype=np.bool_)
    numbers = np.array([row["_row"] or 0 for row in rows], dtype=np.int64)
    number, text = Scalar("int64", nullable=True), Text(nullable=True)
    ids = text.convert([row["_row_id"] for row in rows], tensor="_row_id", call="rows")
    return {
        "_row": TypedColumn(number, UniformColumn(numbers, None if valid.all() else valid)),
        "_row_id": TypedColumn(text, ids),
    }


def read_rows(readable: Readable, positions: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return the rows' numbers and identities; None where a query made them."""
    if not rowset_of(readable).has_rows:
        return [{"_row": None, "_row_id": None} for _ in positions]
    page = readable[positions]
    rows, ids = page.rows.tolist(), page.row_ids
    return [{"_row": row, "_row_id": row_id} for row, row_id in zip(rows, ids, strict=True)]


def read_column(readable: Readable, name: str, positions: npt.NDArray[np.int64]) -> TypedColumn:
    """Read one column at these positions; floats that only few programs know come as float32.

    Raises:
        TensorNotFoundError: There is none of this name.
    """
    check_names(readable, [name])
    computed = rowset_of(readable).computed.get(name)
    if computed is not None:
        return _computed_column(name, computed.type, computed.take(positions).batch)
    if name == SOURCE:
        kind = column_type(readable, name)
        sources = rowset_of(readable).take(positions).sources
        return TypedColumn(kind, kind.convert(sources, tensor=name, call="rows"))
    column = rowset_of(readable).read(name, positions, decode=False)
    return TypedColumn(readable.schema[name], widened_column(column))


def read_files(readable: Readable, name: str, positions: npt.NDArray[np.int64]) -> TypedColumn:
    """Read one column as `read_column` does, but links as their files, and tiles as arrays.

    Raises:
        AccessError: This server does not follow links.
        ImageTooLargeError: Tiled arrays have too many bytes to decode here.
    """
    kind = column_type(readable, name)
    if untiled(kind) is not kind:
        return _read_tiled(readable, name, positions)
    if not isinstance(kind, Link):
        return read_column(readable, name, positions)
    found = rowset_of(readable).samples(name, positions)
    samples = [one if isinstance(one, LinkedSample) else None for one in found]
    contents = [b"" if one is None else one.content for one in samples]
    valid = np.array([one is not None for one in samples])
    return TypedColumn(kind.linked, EncodedColumn(contents, None, None if valid.all() else valid))


def _read_tiled(readable: Readable, name: str, positions: npt.NDArray[np.int64]) -> TypedColumn:
    kind, rows = untiled(readable.schema[name]), rowset_of(readable)
    assert kind.dtype is not None, "tiles are of arrays"
    shapes = np.maximum(rows.shapes(name, positions), 0).astype(float)
    nbytes = int(shapes.prod(axis=1).sum()) * kind.dtype.itemsize
    if nbytes > MAX_TILED_NBYTES:
        raise too_many_bytes(nbytes, name)
    return TypedColumn(kind, widened_column(rows.read(name, positions)))


def read_handles(
    readable: Readable, name: str, positions: npt.NDArray[np.int64]
) -> list[SampleHandle | None]:
    """Find samples that are decoded in parts by position, from headers alone; None for NULL."""
    return rowset_of(readable).handles(name, positions)


def is_summarized(one: SampleType) -> bool:
    """Whether cells describe samples by what their handles know: a film has a gigabyte."""
    return one.is_lazy and one.is_media and not isinstance(one, Link)


def is_read_in_parts(one: SampleType) -> bool:
    """Whether samples are drawn, or their files sent, without reading all of them."""
    return one.is_lazy or (one.has_parts and one.drawn_as == VOLUME) or is_tiled_image(one)


def is_tiled_image(one: SampleType) -> bool:
    """Whether samples are images or masks in tiles, which are drawn from their overviews."""
    is_drawn = one.drawn_as in MASK_KINDS or (one.drawn_as != VOLUME and _is_image(one))
    return untiled(one) is not one and is_drawn


def identify_samples(
    readable: Readable, name: str, positions: npt.NDArray[np.int64], *, view: str | None
) -> list[str]:
    """Name the samples: equal names are equal bytes, whatever version or view they are read in.

    A stored sample is named by where it lies, so that what a commit did not touch keeps its name;
    fills and what a query computed lie nowhere and are named by version, view and position.
    """
    check_names(readable, [name])
    rows = rowset_of(readable)
    selection = rows.selection
    version = f"{selection.snapshot.digest} {view} {name}"
    if name in rows.computed:
        return [f"{version} {position}" for position in positions.tolist()]
    # What a chunk reads as changes with the tensor's type, and with the codes of merged classes.
    spec = selection.snapshot.spec(name)
    read_as = [f"{spec.layout.kind} {spec.layout.dtype} {one.codes}" for one in spec.encodings]
    located = rows.reader().locate(name, selection.physical(positions))
    places = [
        version
        if key.is_fill
        else f"{key.pack.path} {key.offset} {key.nbytes} {read_as[key.read_as]}"
        for key in located.chunks
    ]
    pairs = zip(located.chunk.tolist(), located.row_in_chunk.tolist(), strict=True)
    return [f"{places[chunk]} {row}" for chunk, row in pairs]


def has_frames(one: SampleType) -> TypeGuard[Sequence]:
    """Whether samples are sequences of images, which a viewer plays."""
    return isinstance(one, Sequence) and _is_image(one.item) and one.item.drawn_as not in MASK_KINDS


def _is_image(one: SampleType) -> bool:
    return one.drawn_as == "image" or is_drawable(one.dtype, one.shape)


def _describe(name: str, one: SampleType) -> TensorInfo:
    dtype = one.dtype
    of = getattr(one, "of", None)
    kind = one.drawn_as
    is_image = _is_image(one) or has_frames(one) or kind in DRAWN_IN_PARTS
    return TensorInfo(
        name=name,
        kind=kind,
        type=one.describe(),
        dtype=None if dtype is None else dtype.name,
        shape=None if dtype is None else list(one.shape),
        nullable=one.nullable,
        media_type=one.item.media_type if has_frames(one) else one.media_type,
        picture=is_image and kind not in MASK_KINDS,
        names=_names_of(one, kind),
        of=of if isinstance(of, str) else None,  # a Sequence's is the type of its items
        per=getattr(one, "per", None),
        format=getattr(one, "format", None),
        skeleton=list(getattr(one, "skeleton", ())) if kind == "keypoints" else None,
    )


def _names_of(one: SampleType, kind: str) -> list[str] | None:
    """Return the class names of labels and masks, also of volumes."""
    names: list[str] = list(getattr(one, "names", ()))
    return names if kind in NAMED_KINDS or (kind == VOLUME and names) else None


def _type_of(computed: tql.ColumnType) -> SampleType:
    """Choose the type that would store what a query computed; any value may be NULL."""
    if computed.kind == "text":
        return Text(nullable=True)
    if computed.kind == "bytes":
        return Bytes(nullable=True)
    if computed.kind == "json" or computed.dtype is None:
        return Json(nullable=True)
    if computed.kind == "label" and computed.names is not None:
        return ClassLabel(computed.names, multi=bool(computed.shape), nullable=True)
    if computed.shape:
        return Array(computed.dtype, computed.shape, nullable=True)
    return Bool(nullable=True) if computed.kind == "bool" else Scalar(computed.dtype, nullable=True)


def _computed_column(name: str, column_type: tql.ColumnType, batch: tql.Batch) -> TypedColumn:
    kind = _type_of(column_type)
    match batch:
        case tql.ObjectBatch(values=values):
            return TypedColumn(kind, kind.convert(values, tensor=name, call="query()"))
        case tql.UniformBatch(values=values, valid=valid):
            return TypedColumn(kind, UniformColumn(np.asarray(values), valid))
        case tql.RaggedBatch(values=values, shapes=shapes, valid=valid):
            return TypedColumn(kind, RaggedColumn(np.asarray(values), shapes, valid))
