"""Ingestion of Arrow tables, DataFrames and Parquet; each column becomes a tensor.

Types follow the columns (`write/arrow/types.py`) unless ``schema`` overrides them; structs of
classes, as Hugging Face writes them, are divided (`nested.py`). Parquet is read one row group at a
time; rows are sorted by file name, and by row group within a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import (
    Dataset,
    Lists,
    SkippedItem,
    as_table,
    holds_lists,
    huggingface_features,
    infer_types,
    lists_of,
    values_of,
)
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import Piece, full_place, names_below
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import LoadedRows, Source, given_settings, no_rows, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.keys import KEY_ADVICE, Records, check_key, row_names
from tensorlake.ingest.tables.nested import SEPARATOR, unnested
from tensorlake.ingest.tables.parquet_files import ParquetFiles
from tensorlake.types import SampleType, as_type

__all__ = ["arrow", "column_types", "parquet"]

Arrow = Any  # pyarrow ships no types


@shows_options
def arrow(
    src: Any,
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a table in memory: Arrow, pandas, polars, DuckDB, all that speaks Arrow's C stream.

    Args:
        src: A ``pyarrow.Table`` or what has ``__arrow_c_stream__``; a pandas DataFrame.
        dst: Path or URL of the dataset.
        schema: Types in place of those that follow from the columns, by name.
        key: The column that names a row; None: rows are known by position, so that a later call
            may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Example:
        >>> import pyarrow as pa
        >>> import tensorlake as tl
        >>> table = pa.table({"id": [1, 2], "vector": [[1.0, 2.0], [3.0, 4.0]]})
        >>> ds = tl.ingest.arrow(table, "memory://doc-arrow")
        >>> ds["vector"][1].tolist()
        [3.0, 4.0]
    """
    table = unnested(as_table(src), schema or ())
    types = column_types(table, schema)
    digest = xxh3_64_hexdigest(_content_digest(table))

    def load(items: Sequence[int]) -> dict[str, Any]:
        return _columns(table.slice(items[0], len(items)), types)

    if key is not None:
        return run_ingest(_by_key(table, types, key, digest, schema), dst, **options)
    source = Source(
        kind="arrow",
        schema=types,
        items=range(table.num_rows),
        sizes=[max(1, table.nbytes // max(1, table.num_rows))] * table.num_rows,
        name=lambda row: f"row {row} of the table",
        load=load,
        stamp=lambda _: digest,
        file=lambda _: "the table",
        unit="table",
        by_position=True,
        settings=given_settings(schema),
        key_advice=KEY_ADVICE,
    )
    return run_ingest(source, dst, **options)


def _by_key(
    table: Arrow,
    types: Mapping[str, SampleType],
    key: str,
    digest: str,
    schema: Mapping[str, Any] | None,
) -> Source[int]:
    """Return the source of a table whose rows are known by a column."""
    check_key(key, types)
    names = row_names(key, table[key].to_pylist(), lambda row: f"row {row} of the table")
    return Source(
        kind="arrow",
        schema=types,
        items=range(table.num_rows),
        sizes=[max(1, table.nbytes // max(1, table.num_rows))] * table.num_rows,
        name=names.__getitem__,
        load=lambda rows: _columns(table.slice(rows[0], len(rows)), types),
        stamp=lambda _: digest,
        unit="row",
        settings=given_settings(schema, key=key),
        content=(),
        key=key,
        names_classes=not huggingface_features(table.schema),
    )


@shows_options
def parquet(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest Parquet files, row group by row group.

    A column of lists of floats that have one length in every row becomes an ``Array``, or an
    ``Embedding`` from 32 floats on; row groups after the first are judged by the counts in their
    metadata. Lists that hold NULLs, or lists of several lengths, become ``Json`` of their Arrow
    type, as do decimals, times, durations, structs and maps: read and exported as they were.

    A column that some of the files lack is NULL in their rows, and one of several types is read
    as the type that holds all of its values. Folders named ``year=2020``, as Hive, Spark, DuckDB
    and polars write them, are columns, of integers or else of text.

    Args:
        src: A file, a folder, a pattern such as ``"data/*.parquet"``, or a list of files.
        dst: Path or URL of the dataset.
        columns: Only these columns.
        schema: Types in place of those that follow from the columns, by name.
        key: The column that names a row; None: rows are known by position, so that a later call
            may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no such file, or one is not Parquet.

    Example:
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> import tensorlake as tl
        >>> pq.write_table(pa.table({"x": [1, 2]}), "x.parquet")
        >>> tl.ingest.parquet("x.parquet", "memory://doc-parquet")["x"][:]
        array([1, 2])
    """
    import pyarrow as pa

    files = SourceFiles(options.get("storage_options"))
    is_strict = options.get("on_error", "raise") == "raise"
    stored = ParquetFiles(src, files, columns=columns, is_strict=is_strict)
    pieces = stored.pieces

    def read(piece: Piece, columns: Sequence[str] | None = None) -> Arrow:
        return unnested(stored.read(piece, columns), schema or ())

    check_pieces("parquet", pieces, stored.schema.names, stored.left_out)
    empty = unnested(stored.schema.empty_table(), schema or ())
    first = _first(pieces, read, is_strict=is_strict) if pieces else empty
    lists = _lists(first, pieces, stored.metadata, read, given=schema or ())
    types = column_types(first, schema, is_whole=len(pieces) == 1, lists=lists)

    def load(items: Sequence[Piece]) -> LoadedRows:
        tables = [read(piece) for piece in items]

        def row_name(row: int) -> str:
            part, row = part_of(row, [one.num_rows for one in tables])
            return f"row {row} of {items[part].name}"

        return LoadedRows(_columns(pa.concat_tables(tables), types), (), row_name)

    def keys(piece: Piece) -> list[Any]:
        return read(piece, [str(key)])[str(key)].to_pylist()

    settings = given_settings(schema, columns=None if columns is None else [*columns], key=key)
    return ingest_pieces(
        "parquet",
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=settings,
        left_out=stored.left_out,
        optional=stored.folders,
        key=key,
        keys=keys,
        names_classes=not huggingface_features(first.schema),
        src=src,
    )


def check_pieces(
    kind: str,
    pieces: Sequence[Piece],
    types: Collection[str] = (),
    left_out: Sequence[SkippedItem] = (),
) -> None:
    """Refuse files without rows, unless they have columns: those make an empty dataset.

    Raises:
        InvalidInputError: There are none.
    """
    if not pieces and not types:
        raise no_rows(kind, left_out)


def ingest_pieces(
    kind: str,
    pieces: Sequence[Piece],
    types: Mapping[str, SampleType],
    load: Callable[[Sequence[Piece]], LoadedRows],
    dst: str | PathLike[str],
    options: IngestOptions,
    *,
    files: SourceFiles,
    settings: Mapping[str, Any],
    maker: str = "",
    left_out: Collection[SkippedItem] = (),
    optional: Collection[str] = (),
    key: str | None = None,
    keys: Callable[[Piece], Sequence[Any]] | None = None,
    names_classes: bool = True,
    src: object = None,
    cut: Callable[[Piece, int, SourceFiles], tuple[Piece, Piece, int] | None] | None = None,
    stamp: Callable[[str], str] | None = None,
    header: Mapping[str, Any] | None = None,
) -> Dataset:
    """Ingest files piece by piece, each loaded as columns of these types.

    Args:
        kind: Name of the format.
        pieces: Pieces of the files.
        types: Types of the tensors.
        load: Reads pieces.
        dst: Path or URL of the dataset.
        options: See `IngestOptions`.
        files: Opens the files.
        settings: Arguments of the call that determine the rows.
        maker: Other inputs that determine the rows, such as a tokenizer.
        left_out: Parts of the source that have no rows.
        optional: Tensors that earlier versions did not make.
        key: The column that names a row; None: rows are known by position.
        keys: Reads the keys of a piece, where that is cheaper than loading it.
        names_classes: Whether ``load`` gives classes by name.
        src: The source, as given.
        cut: Cuts a piece to which rows were added.
        stamp: Returns a string that changes with a file, or a folder that counts as one.
        header: Members of the source that belong to all rows, for exports.
    """
    stamp = stamp or files.stamp
    stamps = {path: stamp(path) for path in dict.fromkeys(piece.path for piece in pieces)}
    place = ""
    if pieces:
        first = Path(full_place(pieces[0].path))
        place = first.name if len(stamps) == 1 else first.parent.name
    if key is not None:
        check_key(key, types)
        records = Records(pieces, key, load, keys)
        unnamed = [*left_out, *records.refused]
        if unnamed and options.get("delete"):
            first = unnamed[0]
            raise InvalidInputError(
                f"{first.item} cannot be read: {first.reason}\nwhich rows have left the source is"
                " unknown then: fix it, or do not delete",
                item=first.item,
            )
        keyed = Source(
            kind=kind,
            schema=types,
            items=records.items,
            sizes=records.sizes,
            name=lambda record: record.name,
            load=records.load,
            place=place,
            maker=maker,
            left_out=unnamed,
            optional=optional,
            stamp=lambda record: stamps[pieces[record.piece].path],
            unit="row",
            settings=settings,
            where=full_place(src) if isinstance(src, str | PathLike) else "",
            content=(),
            names_classes=names_classes,
            hides_names=bool(unnamed),
            key=key,
            header=header,
        )
        return run_ingest(keyed, dst, **options)
    names = names_below(stamps)
    source = Source(
        kind=kind,
        schema=types,
        items=pieces,
        sizes=[max(1, piece.nbytes) for piece in pieces],
        name=lambda piece: piece.name,
        load=load,
        place=place,
        maker=maker,
        left_out=left_out,
        optional=optional,
        stamp=lambda piece: stamps[piece.path],
        file=lambda piece: names[piece.path],
        by_position=True,
        settings=settings,
        key_advice=KEY_ADVICE,
        cut_item=None if cut is None else lambda piece, nbytes: cut(piece, nbytes, files),
        header=header,
    )
    return run_ingest(source, dst, **options)


def _first(pieces: Sequence[Piece], read: Callable[[Piece], Arrow], *, is_strict: bool) -> Arrow:
    """Read the first piece, or the first that can be read, for the types."""
    for piece in pieces[:-1]:
        try:
            return read(piece)
        except InvalidInputError:
            if is_strict:
                raise
    return read(pieces[-1])


def _lists(
    first: Arrow,
    pieces: Sequence[Piece],
    described: Mapping[str, Arrow],
    read: Callable[[Piece, Sequence[str]], Arrow],
    *,
    given: Collection[str],
) -> dict[str, Lists]:
    """Find what the lists of all row groups have in common, by metadata where that is enough.

    A row group of lists of values needs no reading if metadata count neither NULLs nor empty lists;
    lists of lists are read, which may differ in length.
    """
    found: dict[str, Lists] = {}
    for field in first.schema:
        if field.name in given or not holds_lists(field.type):
            continue
        known = lists_of(first[field.name])
        for piece in pieces:
            if known.length is None and not known.are_arrays:
                break
            group = described[piece.path].row_group(piece.start)
            leaf = _leaf_of(group, field.name)
            is_flat = not holds_lists(field.type.value_type)
            if (
                leaf is not None
                and is_flat
                and leaf.statistics is not None
                and leaf.statistics.null_count == 0
            ):
                if leaf.num_values != (known.length or 0) * group.num_rows:
                    known = Lists(None, known.are_arrays)
                continue
            stored = field.name if leaf is not None else field.name.split(SEPARATOR)[0]
            try:
                column = read(piece, [stored])[field.name]
            except InvalidInputError:  # reported when its rows are read
                continue
            if column.null_count < len(column):
                known = known.joined(lists_of(column))
        found[field.name] = known
    return found


def _leaf_of(group: Arrow, name: str) -> Arrow | None:
    """Return the metadata of the one stored column that a column of lists has; None if several."""
    leaves = [group.column(at) for at in range(group.num_columns)]
    own = [leaf for leaf in leaves if leaf.path_in_schema.split(".")[0] == name]
    return own[0] if len(own) == 1 else None


def column_types(
    table: Arrow,
    schema: Mapping[str, Any] | None,
    *,
    is_whole: bool = True,
    lists: Mapping[str, Lists] | None = None,
) -> dict[str, SampleType]:
    """Choose the type of each column: as given by ``schema``, otherwise inferred.

    Raises:
        InvalidInputError: ``schema`` names an unknown column.
    """
    declared = {name: as_type(one) for name, one in (schema or {}).items()}
    unknown = [name for name in declared if name not in table.column_names]
    if unknown:
        raise InvalidInputError(
            f"schema names unknown columns {unknown}; columns: {', '.join(table.column_names)}",
            columns=table.column_names,
        )
    rest = table.select([name for name in table.column_names if name not in declared])
    inferred = infer_types(rest, is_whole=is_whole, lists=lists)
    return {name: declared.get(name) or inferred[name] for name in table.column_names}


def _columns(table: Arrow, types: Mapping[str, SampleType]) -> dict[str, Any]:
    return {name: values_of(table, name, one) for name, one in types.items()}


def _content_digest(table: Arrow) -> bytes:
    """Identify a table by its content: a repeated call must find its commits again."""
    parts = [str(table.schema).encode(), str(table.num_rows).encode()]
    for column in table.columns:
        for chunk in column.chunks:
            parts += [
                xxh3_64_hexdigest(buffer).encode()
                for buffer in chunk.buffers()
                if buffer is not None
            ]
            parts.append(f"{chunk.offset}+{len(chunk)}".encode())
    return b"\0".join(parts)
