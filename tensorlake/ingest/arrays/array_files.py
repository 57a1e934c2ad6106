"""Ingestion of files of arrays, whatever their format: pieces of rows, read in threads.

A format gives a function that opens a file; each piece opens it again, so that no file stays open
and nothing is shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import PurePath
from typing import Any

from tensorlake.dataset import Dataset, SkippedItem
from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.arrays.columns import ArrayColumn, OpenArrays, array_columns, cut_rows
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.options import IngestOptions
from tensorlake.ingest.engine.source import LoadedRows, given_settings, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.arrow import check_pieces, ingest_pieces
from tensorlake.storage import public_url
from tensorlake.types import Ragged, SampleType, as_type

__all__ = ["ingest_array_files"]


def ingest_array_files(
    kind: str,
    paths: Sequence[str],
    opened: Callable[[str], AbstractContextManager[OpenArrays]],
    dst: str | PathLike[str],
    options: IngestOptions,
    *,
    files: SourceFiles,
    src: object,
    columns: Sequence[str] | None,
    schema: Mapping[str, Any] | None,
    key: str | None,
    stamp: Callable[[str], str] | None = None,
) -> Dataset:
    """Ingest the rows of files of arrays, one file after the other.

    Args:
        kind: Name of the format.
        paths: The files.
        opened: Opens a file.
        dst: Path or URL of the dataset.
        options: See `IngestOptions`.
        files: Opens files of stores.
        src: The source, as given.
        columns: Only these arrays.
        schema: Types in place of those that follow from the arrays.
        key: The array that names a row; None: rows are known by position.
        stamp: Returns a string that changes with a file.

    Raises:
        InvalidInputError: As `array_columns`, or files have different arrays.
    """
    if isinstance(columns, str):
        raise InvalidInputError(f"columns={shown(columns)}: give a list of names: [{columns!r}]")
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    is_strict = options.get("on_error", "raise") == "raise"
    types: dict[str, SampleType] = {}
    pieces: list[Piece] = []
    left_out: list[SkippedItem] = []
    for path in paths:
        try:
            with opened(path) as arrays:
                found = array_columns(arrays, columns, given)
        except InvalidInputError as error:
            if is_strict or len(paths) == 1:
                raise
            left_out.append(SkippedItem(PurePath(path).name, error.message.splitlines()[0]))
            continue
        own = {name: one.kind for name, one in found.items()}
        if not found:
            continue
        types = types or own
        if own != types:
            raise _differs(public_url(path), own, types, public_url(paths[0]))
        pieces += [Piece(path, start, stop, size) for start, stop, size in cut_rows(found)]
    check_pieces(kind, pieces, types, left_out)

    def read(piece: Piece, only: Sequence[str] | None = None) -> dict[str, Any]:
        with opened(piece.path) as arrays:
            found = array_columns(arrays, [*(only or types)], types)
            return {name: _part(arrays, name, one, piece) for name, one in found.items()}

    def load(items: Sequence[Piece]) -> LoadedRows:
        parts = [read(piece) for piece in items]
        counts = [piece.stop - piece.start for piece in items]

        def row_name(row: int) -> str:
            at, row = part_of(row, counts)
            return f"row {items[at].start + row} of {PurePath(items[at].path).name}"

        joined = {name: _joined([part[name] for part in parts]) for name in types}
        return LoadedRows(joined, (), row_name)

    return ingest_pieces(
        kind,
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=given_settings(schema, columns=None if columns is None else [*columns], key=key),
        left_out=left_out,
        key=key,
        keys=None if key is None else lambda piece: read(piece, [key])[key],
        names_classes=False,
        src=src,
        stamp=stamp,
    )


def _part(opened: OpenArrays, name: str, column: ArrayColumn, piece: Piece) -> Any:
    """Read an array's part; damage is described by the foreign library."""
    start, stop = piece.start, min(piece.stop, column.rows)
    try:
        values = column.read(start, stop)
    except InvalidInputError:
        raise
    except Exception as error:  # of h5py, zarr and any codec, which have no common class
        why = f"{error}" or type(error).__name__
        message = f"{name!r} of {opened.place!r} cannot be read at rows {start}–{stop}: {why}"
        raise InvalidInputError(message, src=opened.place, tensor=name) from error
    if len(values) != piece.stop - piece.start:
        message = f"{opened.place!r} changed while it was read\ningest it again"
        raise InvalidInputError(message, src=opened.place)
    return values


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return [one for part in parts for one in (part if isinstance(part, Ragged) else [*part])]


def _differs(
    place: str,
    own: Mapping[str, SampleType],
    types: Mapping[str, SampleType],
    first: str,
) -> InvalidInputError:
    name = next(name for name in (*types, *own) if own.get(name) != types.get(name))
    here, there = (
        "is missing" if name not in one else f"is {one[name].describe()}" for one in (own, types)
    )
    return InvalidInputError(
        f"{name!r} {here} in {place!r}, and {there} in {first!r}\ningest files of one kind"
        " together, or only some arrays: columns=[…]",
        src=place,
        tensor=name,
    )
