"""A table beside a folder of files: a row per file, such as transcripts of recordings.

    file              caption          views
    clips/1.mp4       "a red door"     12
    clips/2.mp4       "an open door"   7

The column `file` (or `file_name`, `filename`, `path`) has the path of each file below the folder;
the others become tensors. They are read and typed by the importers of tables, into a dataset in
memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import Dataset, create, delete, infer_schema
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.tables.json_lines import jsonl
from tensorlake.ingest.tables.text import csv
from tensorlake.storage import public_url
from tensorlake.types import SampleType

__all__ = ["Sidecar", "read_sidecar"]

_FILE_COLUMNS = ("file", "file_name", "filename", "path")
_SEPARATED = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")


class Sidecar:
    """The rows of a table by the files that they describe.

    Attributes:
        types: Types of the tensors, without the column of files.
        shown: The table's name, for errors.
    """

    def __init__(self, rows: Dataset, shown: str) -> None:
        self.shown = shown
        files = _file_column(rows, shown)
        self.types: dict[str, SampleType] = {
            name: rows.schema[name] for name in rows.schema if name != files
        }
        self._columns = {name: rows[name].to_list() for name in self.types}
        self._rows: dict[str, int] = {}
        for row, path in enumerate(rows[files].to_list()):
            name = str(path).replace("\\", "/").removeprefix("./")
            if self._rows.setdefault(name, row) != row:
                raise InvalidInputError(
                    f"{shown} has two rows of the file {name!r}: {self._rows[name]} and {row}"
                    "\nkeep one",
                    item=name,
                )

    def has(self, path: str) -> bool:
        """Whether a file, given its path below the folder, has a row."""
        return path in self._rows

    def value(self, path: str, tensor: str) -> Any:
        """Return the value of a file in a tensor."""
        return self._columns[tensor][self._rows[path]]

    def stamp(self, path: str) -> str:
        """Return a digest of a file's row, which changes with it."""
        row = self._rows[path]
        values = [repr(column[row]) for column in self._columns.values()]
        return xxh3_64_hexdigest("\0".join(values).encode())

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return the files that have a row, and are not among these."""
        there = set(paths)
        return [path for path in self._rows if path not in there]


def read_sidecar(
    table: Any, schema: Mapping[str, Any], storage_options: Mapping[str, Any] | None
) -> Sidecar:
    """Read a table: a CSV, JSON or JSON lines file, or anything that ``ds.extend`` takes.

    Args:
        table: The path or URL of the file, or the table.
        schema: Types of some columns.
        storage_options: Options of the store that the file is in.

    Raises:
        InvalidInputError: It is not a table, or no column names files.
    """
    url = f"memory://sidecar-{uuid4().hex}"
    name = "the table"
    if isinstance(table, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str]", table))
        name = repr(public_url(path))
        rows = _read_file(path, name, url, schema, storage_options)
    else:
        rows = _stored(table, url, schema)
    with rows:
        sidecar = Sidecar(rows, name)
    delete(url, confirm=url)
    return sidecar


def _read_file(
    path: str,
    name: str,
    url: str,
    schema: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None,
) -> Dataset:
    ending = os.path.splitext(path.lower())[1]  # noqa: PTH122 - a path or a URL
    options: Any = {"schema": schema or None, "progress": False}
    if storage_options:
        options["storage_options"] = storage_options
    if ending in _SEPARATED:
        return csv(path, url, delimiter=_SEPARATED[ending], **options)
    if ending in _JSON_LINES:
        return jsonl(path, url, **options)
    if ending != ".json":
        raise InvalidInputError(
            f"table={name} is not a CSV, TSV, JSON or JSON lines file"
            "\ngive one, or the table itself: table=pandas.read_excel(path)",
            argument="table",
            actual=path,
        )
    try:
        rows = json.loads(SourceFiles(storage_options).content(path))
    except ValueError as error:
        raise InvalidInputError(f"table={name} is not JSON: {error}", argument="table") from error
    return _stored(rows, url, schema)


def _stored(rows: Any, url: str, schema: Mapping[str, Any]) -> Dataset:
    made = create(url, {**infer_schema(rows), **schema})
    made.extend(rows)
    made.commit()
    return made


def _file_column(rows: Dataset, shown: str) -> str:
    for name in _FILE_COLUMNS:
        if name in rows.schema:
            return name
    raise InvalidInputError(
        f"{shown} has no column that names files; it has {', '.join(rows.schema)}"
        f"\ncall one 'file': paths below the folder, such as 'clips/1.mp4'",
        argument="table",
        expected=_FILE_COLUMNS,
        actual=[*rows.schema],
    )
