"""The objects under ``tags/``, as seen by a collector, a check or a copy: names that keep versions.

A tag names a version, a saved view names one and has rows of its own, a pin keeps one temporarily.
All three prevent collection of the data they reference. A tag that is deleted, withdrawn by its
creator or found expired by a collector is replaced by a tombstone; pins are really deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    PIN_PREFIX,
    TAGS,
    Root,
    RowSegments,
    parse_tag_path,
    seal,
    tag_path,
    unseal,
)
from tensorlake.storage import ObjectMeta, Store, runtime

__all__ = [
    "Citation",
    "FoundNames",
    "list_citations",
    "name_at",
    "parse_citation",
    "read_citation",
    "readable_names",
    "withdraw",
]

T = TypeVar("T")

READ_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Citation:
    """A name that keeps a version.

    Attributes:
        name: Name of the tag, view or pin.
        branch: Branch whose log has the version.
        seq: Its number there.
        digest: That entry's digest.
        txid: The transaction that put it.
        rows: The rows of a saved view, whose pages are in packs of its own.
        expires: When a collector may start to delete it; None: never.
    """

    name: str
    branch: str
    seq: int
    digest: str
    txid: str
    rows: Root[RowSegments] | None = None
    expires: dt.datetime | None = None

    @property
    def is_pin(self) -> bool:
        """Whether it is a pin."""
        return self.name.startswith(PIN_PREFIX)

    def __str__(self) -> str:
        what = "view" if self.rows is not None else "pin" if self.is_pin else "tag"
        name = self.name.removeprefix(PIN_PREFIX) if self.is_pin else repr(self.name)
        return f"{what} {name} of {self.branch}@{self.seq}"


async def read_citation(store: Store, path: str) -> Citation | None:
    """Read the object at a path under ``tags/``; None if it is missing or a tombstone.

    Raises:
        CorruptionError: It is damaged, so the version it keeps is unknown.
    """
    data = await store.get(path)
    return None if data is None else parse_citation(path, data)


async def list_citations(store: Store) -> list[tuple[Citation, ObjectMeta]]:
    """Read every tag, view and pin in a listing, except tombstones and objects deleted since.

    Raises:
        CorruptionError: One is damaged, or is not named like a tag, so the version it keeps is
            unknown.
    """
    listed = [meta async for meta in store.list(TAGS) if parse_tag_path(meta.path) is not None]
    reads = [partial(read_citation, store, meta.path) for meta in listed]
    found = await runtime.gather_bounded(reads, limit=READ_AT_ONCE)
    return [
        (citation, meta)
        for citation, meta in zip(found, listed, strict=True)
        if citation is not None
    ]


@dataclass(frozen=True, slots=True)
class FoundNames(Generic[T]):
    """The objects under ``tags/``, sorted by name, and the errors of unreadable ones.

    Attributes:
        found: Tags and saved views; no pins and no tombstones.
        unreadable: Errors of the others, whose kind is unknown.
    """

    found: dict[str, T]
    unreadable: dict[str, CorruptionError]


async def readable_names(
    store: Store, parse: Callable[[str, str, bytes], T | None]
) -> FoundNames[T]:
    """Read every tag and saved view; a damaged one does not hide the others.

    Args:
        store: The dataset's store.
        parse: Parses an object from its name, path and bytes; returns None to leave it out.
    """
    paths: dict[str, str] = {}
    async for meta in store.list(TAGS):
        name = name_at(meta.path)
        if name is not None and not name.startswith(PIN_PREFIX):
            paths[name] = meta.path

    async def read(name: str) -> T | CorruptionError | None:
        data = await store.get(paths[name])
        try:
            return None if data is None else parse(name, paths[name], data)
        except CorruptionError as error:
            return error

    names = sorted(paths)
    read_all = [partial(read, name) for name in names]
    objects = await runtime.gather_bounded(read_all, limit=READ_AT_ONCE)
    found: dict[str, T] = {}
    unreadable: dict[str, CorruptionError] = {}
    for name, one in zip(names, objects, strict=True):
        if isinstance(one, CorruptionError):
            unreadable[name] = one
        elif one is not None:
            found[name] = one
    return FoundNames(found, unreadable)


def name_at(path: str) -> str | None:
    """Return the name of the tag at a path; None if the path is not a tag's."""
    try:
        return parse_tag_path(path)
    except CorruptionError:
        return None  # a check reports it


def parse_citation(path: str, data: bytes) -> Citation | None:
    """Read the object of a tag, a pin or a saved view; None for a tombstone.

    Raises:
        CorruptionError: It is damaged, or not a tag.
    """
    body = unseal(data, where=path)
    if body.get("deleted"):
        return None
    try:
        return _parsed(path, body)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"{path!r} is neither a tag nor a tombstone ({error!r})\nrun tensorlake check",
            object=path,
        ) from error


async def withdraw(store: Store, name: str, *, txid: str) -> None:
    """Replace a tag by a tombstone: its name stays used, its version may be collected."""
    await store.put(tag_path(name), seal({"deleted": True, "txid": txid}))


def _parsed(path: str, body: dict[str, Any]) -> Citation:
    name = parse_tag_path(path)
    if name is None:
        raise ValueError("its path is not a tag's")
    rows, expires = body.get("rows"), body.get("expires")
    return Citation(
        name=name,
        branch=str(body["branch"]),
        seq=int(body["seq"]),
        digest=str(body["digest_of"]),
        txid=str(body["txid"]),
        rows=None if rows is None else Root.from_json(rows, RowSegments, where=path),
        expires=None if expires is None else dt.datetime.fromisoformat(str(expires)),
    )
