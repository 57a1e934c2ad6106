"""Linking files: URLs and paths that a user gives become files that were read, before conversion.

Statements of TQL and the rows that a server's clients send read no file: see `LinkStore`.

Links of another dataset are copied as they are; a relative one that would lead to another file from
here becomes the file's whole URL.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.errors import (
    AccessError,
    DTypeMismatchError,
    InvalidInputError,
    StorageError,
    UnsupportedStoreError,
    shown,
)
from tensorlake.storage import LinkStore, parallel_map
from tensorlake.types import (
    BLOCK_NBYTES,
    STATEMENTS,
    Buffer,
    EncodedColumn,
    File,
    Link,
    LinkedFile,
    LinkedSample,
    OpenedLink,
    Place,
    SampleMap,
    write_record,
)

__all__ = ["linked_files", "relinked"]

UNREAD = (FileNotFoundError, EOFError, AccessError, StorageError, UnsupportedStoreError)
"""Errors of files that cannot be found or read."""
FILES_AHEAD = 8
"""Files that are read concurrently to be linked; in a remote store, each waits for answers."""
READ_AT_ONCE_NBYTES = BLOCK_NBYTES
"""A larger file is read by several requests, between which it may change."""


def linked_files(
    files: LinkStore, kind: Link, name: str, values: Any, *, row_start: int = 0, call: str
) -> Any:
    """Read the files that links of a tensor name; None stays None, stored links stay.

    Several are read concurrently, none of them into memory where its type can view it.
    """
    if isinstance(values, StoredColumn):
        return values
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise DTypeMismatchError(
            f"{call}: {name!r} expects a list of URLs or paths, got {shown(values)}",
            tensor=name,
            actual=values,
        )
    given = list(values)
    place = Place(name, kind, row_start, len(given), call)
    link = partial(_linked, files, kind, place)
    return [*parallel_map(link, enumerate(given), ahead=FILES_AHEAD)]


def relinked(files: LinkStore, kind: Link, given: StoredColumn) -> Any:
    """Return links of another dataset so that they lead to the same files from this one.

    Args:
        files: Locates files from this dataset.
        kind: The type of the tensor that they are for.
        given: The samples; of another type than links of the same type, see below.

    Returns:
        Stored links; or URLs, where the files are to be read again, as samples of another type.
    """
    column = given.column
    if not isinstance(given.sample_type, Link) or not isinstance(column, EncodedColumn):
        return given
    opened = [one.sample if isinstance(one, OpenedLink) else None for one in column.maps or ()]
    if not any(opened):
        return given  # of this dataset, or no link at all
    urls = [None if one is None else _url_here(files, one) for one in opened]
    if given.sample_type.linked != kind.linked:
        return urls
    records: list[Buffer] = [
        stored
        if one is None or url is None or url == one.record.url
        else write_record(one.record.at(url))
        for one, url, stored in zip(opened, urls, column.samples, strict=True)
    ]
    maps = [
        None if one is None else SampleMap(bytes(record), np.array([len(record)]))
        for one, record in zip(opened, records, strict=True)
    ]
    kind = replace(kind, nullable=given.sample_type.nullable)
    return StoredColumn(kind, EncodedColumn(records, column.shapes, column.valid, maps))


def _url_here(files: LinkStore, sample: LinkedSample) -> str:
    """Return the URL that leads from this dataset to the file of another dataset's link."""
    url, there = sample.record.url, sample.opener
    assert isinstance(there, LinkStore), "it was opened by a reader"
    try:
        is_same = files.located(url) == there.located(url)
    except AccessError:  # it would lead out of this dataset's bucket
        is_same = False
    return url if is_same else there.absolute(url)


def _linked(files: LinkStore, kind: Link, place: Place, item: tuple[int, Any]) -> Any:
    position, given = item
    if given is None or isinstance(given, LinkedFile):
        return given
    name, call = place.tensor, place.call
    where, facts = f"{place.at(position)}: {name!r}", {"tensor": name, "row": place.row(position)}
    if call.split(" ", maxsplit=1)[0] in STATEMENTS:
        raise InvalidInputError(
            f"{where} is a link, and a statement reads no file"
            "\nlink it in Python: ds[name][row] = URL, or ds.append({name: URL})",
            **facts,
        )
    path = given.path if isinstance(given, File) else given
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise DTypeMismatchError(
            f"{where} expects the URL or Path of a file, got {shown(given)}"
            "\ngive an address: to store bytes, declare the type itself instead of tl.Link",
            **facts,
            actual=given,
        )
    url = os.fspath(path)
    try:
        url = files.stored_url(Path(path) if isinstance(given, File) else path)
        view, target = files.view(url)
    except (InvalidInputError, *UNREAD) as error:
        raise _not_linked(error, where, path, url, facts) from error
    try:
        made = kind.link(view, place, position, url=url, etag=target.etag)
        is_same = len(view) <= READ_AT_ONCE_NBYTES or files.stat(url) == target
    except Exception as error:
        failure = view.failure or error  # a decoder's error of a failed read says less
        if isinstance(failure, UNREAD):
            raise _not_linked(failure, where, path, url, facts) from failure
        raise
    if not is_same:
        raise _not_linked(EOFError(url), where, path, url, facts)
    return made


def _not_linked(
    error: Exception, where: str, given: object, url: str, facts: dict[str, Any]
) -> Exception:
    """Build the error for a file that cannot be found or read."""
    if isinstance(error, FileNotFoundError):
        is_relative = isinstance(given, str) and "://" not in given
        hint = (
            "a str without a scheme is relative to the dataset's URL; for a local file give a Path"
            if is_relative
            else "check its address, or upload the file first"
        )
        return InvalidInputError(
            f"{where}: there is no file {error.args[0] if error.args else url!r} to link\n{hint}",
            **facts,
        )
    if isinstance(error, EOFError):
        message = f"{where}: {url!r} changed while it was read\nlink it again"
        return InvalidInputError(message, **facts)
    return type(cast("InvalidInputError", error))(f"{where}: {error}", **facts)
