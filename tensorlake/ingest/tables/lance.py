"""Lance datasets, read by its own library, fragment by fragment, in bounded memory.

A fragment is a group of files that are never changed: an append adds fragments at the end, and a
deletion, an update or a compaction changes or replaces some. Without a key rows are known by
position, so that a source with new fragments at its end is brought in step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from os import PathLike
from typing import Any, Unpack, cast

from tensorlake.dataset import (
    Dataset,
    Lists,
    holds_lists,
    huggingface_features,
    lists_of,
    values_of,
)
from tensorlake.errors import InvalidInputError, did_you_mean, missing_extra, shown
from tensorlake.ingest.engine.found_files import Piece, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source import LoadedRows, given_settings, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.arrow import check_pieces, column_types, ingest_pieces
from tensorlake.ingest.tables.nested import unnested
from tensorlake.quantities import is_whole_number
from tensorlake.storage import public_url

__all__ = ["lance"]

Arrow = Any  # pyarrow ships no types
Library = Any  # an optional library

PIECE_NBYTES = 8 << 20
"""Bytes of the rows that are read together."""

SAMPLE_ROWS = 64
"""Rows by which the bytes of a row are estimated."""

READ = {"blob_handling": "all_binary"}
"""Columns of blobs are read as their bytes, not as places in a file."""


@shows_options
def lance(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    version: int | str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a Lance dataset: each column a tensor, as of an Arrow table.

    Args:
        src: Path or URL of the dataset; ``storage_options`` are those of its library.
        dst: Path or URL of the dataset to make.
        columns: Only these columns.
        schema: Types in place of those that follow from the columns, by name.
        key: The column that names a row; None: rows are known by position, so that a later call
            may find more of them at the end, and nothing else may have changed.
        version: The version, or the tag, to read; None: the newest.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no such dataset, version or column.
        MissingExtraError: Lance's library is not installed.

    Example:
        >>> import lance
        >>> import pyarrow as pa
        >>> import tensorlake as tl
        >>> _ = lance.write_dataset(pa.table({"x": [1, 2]}), "numbers.lance")
        >>> tl.ingest.lance("numbers.lance", "memory://doc-lance")["x"][:]
        array([1, 2])
    """
    path = source_path(src)
    place = public_url(path)
    if version is not None and not isinstance(version, str):
        is_whole = is_whole_number(version) and 0 < version < 1 << 63
        if not is_whole:
            message = f"version={shown(version)}: give the number of a version, from 1, or a tag"
            raise InvalidInputError(message, argument="version", actual=version)
    opened = _opened(path, version, options.get("storage_options"))
    named = {field.name for field in opened.schema}
    for name in columns or ():
        if name not in named:
            known = ", ".join(sorted(named))
            message = f"columns names {name!r}, which {place!r} has not{did_you_mean(name, named)}"
            raise InvalidInputError(f"{message}\ncolumns: {known}", columns=sorted(named))
    fragments = {f"{place}#{one.fragment_id}": one for one in opened.get_fragments()}
    stamps = {name: json.dumps(one.metadata.to_json()) for name, one in fragments.items()}
    selected = None if columns is None else [*columns]

    def read(piece: Piece, some: Sequence[str] | None = selected) -> Arrow:
        fragment = fragments[piece.path]
        try:
            scanner = fragment.scanner(
                columns=None if some is None else [*some],
                offset=piece.start,
                limit=piece.stop - piece.start,
                **READ,
            )
            return unnested(scanner.to_table(), schema or ())
        except (OSError, ValueError) as error:
            message = f"rows {piece.start:,} to {piece.stop:,} of {piece.path!r}: {error}"
            raise InvalidInputError(message, src=place, item=piece.name) from error

    pieces = [piece for name, one in fragments.items() for piece in _pieces(name, one, read)]
    check_pieces("lance", pieces, opened.schema.names)
    first = read(pieces[0]) if pieces else unnested(_empty(opened, selected), schema or ())
    lists = _lists(first, opened, schema or ())
    types = column_types(first, schema, is_whole=False, lists=lists)

    def load(items: Sequence[Piece]) -> LoadedRows:
        import pyarrow as pa

        tables = [read(piece) for piece in items]

        def row_name(row: int) -> str:
            part, row = part_of(row, [one.num_rows for one in tables])
            return f"row {items[part].start + row} of {items[part].path}"

        whole = pa.concat_tables(tables)
        values = {name: values_of(whole, name, one) for name, one in types.items()}
        return LoadedRows(values, (), row_name)

    def keys(piece: Piece) -> list[Any]:
        return read(piece, [str(key)])[str(key)].to_pylist()

    return ingest_pieces(
        "lance",
        pieces,
        types,
        load,
        dst,
        options,
        files=SourceFiles(None),
        settings=given_settings(schema, columns=selected, key=key),
        key=key,
        keys=keys,
        names_classes=not huggingface_features(first.schema),
        src=src,
        stamp=stamps.__getitem__,
    )


def _opened(
    path: str, version: int | str | None, storage_options: Mapping[str, Any] | None
) -> Library:
    try:
        library: Library = import_module("lance")
    except ImportError as error:
        raise missing_extra("reading Lance", "lance") from error
    given = None if storage_options is None else {**storage_options}
    try:
        return library.dataset(path, version=version, storage_options=given)
    except (ValueError, OSError, TypeError) as error:
        place = public_url(path)
        first = str(error).splitlines()[0]
        of = "" if version is None else f", version {version!r}"
        message = f"{place!r} is not read as a Lance dataset{of}: {first}"
        raise InvalidInputError(message, src=place) from error


def _empty(opened: Library, selected: Sequence[str] | None) -> Arrow:
    """Return a table of the columns, without rows."""
    return opened.scanner(columns=selected, limit=0, **READ).to_table()


def _pieces(name: str, fragment: Library, read: Any) -> Iterator[Piece]:
    """Cut a fragment into rows that are read together."""
    count = int(fragment.count_rows())
    if not count:
        return
    sampled = min(count, SAMPLE_ROWS)
    nbytes = max(1, read(Piece(name, 0, sampled, 0)).nbytes // sampled)
    step = max(1, PIECE_NBYTES // nbytes)
    for start in range(0, count, step):
        stop = min(start + step, count)
        yield Piece(name, start, stop, nbytes * (stop - start))


def _lists(first: Arrow, opened: Library, given: Collection[str]) -> dict[str, Lists]:
    """Find what the lists of all rows have in common: those of any length are read once."""
    import pyarrow as pa

    found: dict[str, Lists] = {}
    for field in first.schema:
        if field.name in given or not holds_lists(field.type):
            continue
        found[field.name] = lists_of(first[field.name])
        if pa.types.is_fixed_size_list(field.type) or field.name not in opened.schema.names:
            continue
        batches = opened.scanner(columns=[field.name], **READ).to_reader()
        parts = (lists_of(pa.chunked_array([batch.column(0)])) for batch in batches)
        found[field.name] = reduce(cast("Any", Lists.joined), parts, found[field.name])
    return found
