"""Parquet files: their row groups, read with the columns of all of them.

    a.parquet   x: int32                      x: int64, y: string
    b.parquet   x: int64, y: string           y is NULL in the rows of a.parquet

    year=2020/month=01/c.parquet              year: int64, month: string

Types widen where no value changes. Hive, Spark and DuckDB write the values of columns into the
names of folders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from glob import has_magic
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tensorlake.dataset import SkippedItem
from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.ingest.engine.found_files import Piece, find_files
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import place_text

__all__ = ["ParquetFiles"]

Arrow = Any  # pyarrow ships no types

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})")  # 01 is a code, and stays text


class ParquetFiles:
    """The row groups of files.

    Args:
        src: A file, a folder, a pattern, or a list of files.
        files: Opens the files.
        columns: Only these columns; None: all.
        is_strict: Whether a file that is not Parquet is an error.

    Attributes:
        pieces: The row groups, in the order of the files' names.
        metadata: Metadata of each file.
        left_out: Files that are not Parquet.
        folders: Columns whose values are in the names of folders.

    Raises:
        InvalidInputError: A file cannot be read, or two have columns of types that no type holds.
    """

    def __init__(
        self,
        src: str | PathLike[str] | Sequence[str | PathLike[str]],
        files: SourceFiles,
        *,
        columns: Sequence[str] | None,
        is_strict: bool,
    ) -> None:
        self._files = files
        self.pieces: list[Piece] = []
        self.metadata: dict[str, Arrow] = {}
        self.left_out: list[SkippedItem] = []
        self._schemas: dict[str, Arrow] = {}
        paths = find_files(src, ".parquet", files)
        for path in paths:
            self._open(path, is_strict=is_strict)
        self._values = _values_of_folders(src, [*self._schemas])
        named = dict.fromkeys(name for own in self._values.values() for name in own)
        stored = {name for schema in self._schemas.values() for name in schema.names}
        self.folders = [name for name in named if name not in stored]
        self.schema = self._chosen(self._united(), columns)

    def read(self, piece: Piece, columns: Sequence[str] | None = None) -> Arrow:
        """Read a row group as a table of the columns of all files.

        Args:
            piece: The row group.
            columns: Only these columns.

        Raises:
            InvalidInputError: It is damaged, or has a value that the type of all does not hold.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        own = self._schemas[piece.path]
        fields = [one for one in self.schema if columns is None or one.name in columns]
        stored = [one.name for one in fields if own.get_field_index(one.name) >= 0]
        try:
            with self._files.open(piece.path) as file:
                group = pq.ParquetFile(file).read_row_group(piece.start, columns=stored)
        except (pa.ArrowException, OSError) as error:
            message = f"row group {piece.start} of {piece.path!r} cannot be read: {error}"
            raise InvalidInputError(message, src=piece.path, item=piece.name) from error
        count = self.metadata[piece.path].row_group(piece.start).num_rows
        schema = pa.schema(fields, metadata=self.schema.metadata)
        if group.schema.equals(schema):
            return group.replace_schema_metadata(schema.metadata)
        return pa.table([self._column(piece, group, one, count) for one in fields], schema=schema)

    def _column(self, piece: Piece, group: Arrow, field: Arrow, count: int) -> Arrow:
        """Return a column of a row group, in the type of all files."""
        import pyarrow as pa

        if field.name not in group.column_names:
            value = self._values[piece.path].get(field.name)
            return pa.repeat(pa.scalar(value, pa.string()), count).cast(field.type)
        column = group[field.name]
        try:
            return column if column.type.equals(field.type) else column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = (
                f"{field.name!r} of {piece.name} is {column.type}, and {field.type} in all files:"
                f" {error}\nwrite the files with one type, or name the others: columns=[…]"
            )
            raise InvalidInputError(message, src=piece.path, item=piece.name) from error

    def _open(self, path: str, *, is_strict: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self._files.open(path) as file:
                opened = pq.ParquetFile(file)
                groups, schema = opened.metadata, opened.schema_arrow
        except (pa.ArrowInvalid, OSError) as error:
            if is_strict:
                raise InvalidInputError(f"{path!r} is not Parquet: {error}", src=path) from error
            self.left_out.append(SkippedItem(Path(path).name, f"not Parquet: {error}"))
            return
        except InvalidInputError as error:
            if is_strict:
                raise
            self.left_out.append(SkippedItem(Path(path).name, error.message.splitlines()[0]))
            return
        self.metadata[path], self._schemas[path] = groups, schema
        for group in range(groups.num_row_groups):
            nbytes = groups.row_group(group).total_byte_size
            self.pieces.append(Piece(path, group, group + 1, nbytes))

    def _united(self) -> Arrow:
        """Return the columns of all files, those of folders last."""
        import pyarrow as pa

        first, whole = next(iter(self._schemas), ""), None
        for path, schema in self._schemas.items():
            if whole is None or whole.equals(schema):
                whole = schema if whole is None else whole
                continue
            try:
                whole = pa.unify_schemas([whole, schema], promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                message = (
                    f"{path!r} has a column of another type than {first!r}: {error}"
                    "\nwrite the files with one type, or name the other columns: columns=[…]"
                )
                raise InvalidInputError(message, src=path) from error
        whole = pa.schema([]) if whole is None else whole
        for name in self.folders:
            texts = {own.get(name) for own in self._values.values()} - {None}
            is_whole = all(_INTEGER.fullmatch(str(text)) for text in texts)
            whole = whole.append(pa.field(name, pa.int64() if is_whole else pa.string()))
        return whole

    def _chosen(self, schema: Arrow, columns: Sequence[str] | None) -> Arrow:
        """Return the columns that the call names."""
        import pyarrow as pa

        if columns is None:
            return schema
        unknown = [name for name in columns if schema.get_field_index(name) < 0]
        if unknown and self._schemas:
            raise InvalidInputError(
                f"columns names {unknown[0]!r}, which no file has"
                f"{did_you_mean(unknown[0], schema.names)}\ncolumns: {', '.join(schema.names)}",
                columns=schema.names,
            )
        fields = [one for one in schema if one.name in columns]
        self.folders = [name for name in self.folders if name in columns]
        return pa.schema(fields, metadata=schema.metadata)


def _values_of_folders(src: object, paths: Sequence[str]) -> Mapping[str, dict[str, str | None]]:
    """Return the values that the folders of files below a source have in their names."""
    found: dict[str, dict[str, str | None]] = {path: {} for path in paths}
    if not isinstance(src, str | PathLike):
        return found
    parts = place_text(src, what="src").rstrip("/").split("/")
    depth = len([*takewhile(lambda part: not has_magic(part), parts)])
    for path in paths:
        for part in path.split("/")[depth:-1]:
            name, equals, value = part.partition("=")
            if name and equals:
                found[path][unquote(name)] = None if value == _NO_VALUE else unquote(value)
    return found
