"""What stands under ``tags/``, as a collector, a check or a copy sees it: names that hold versions.

A tag names a version, a saved view names one and has rows of its own, a pin holds one for a moment.
All three keep what they cite from being collected. Where a user deletes a tag, its creator
withdraws it or a collector finds it expired, a tombstone takes its place; pins are really deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    "list_citations",
    "list_readable_citations",
    "name_of_tag",
    "parse_citation",
    "read_citation",
    "withdraw",
]

READ_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Citation:
    """One name that holds a version.

    Attributes:
        name: Of the tag, the view or the pin.
        branch: Whose log has the version.
        seq: Its number there.
        digest: That entry's digest.
        txid: Who put it.
        rows: The rows of a saved view, whose pages lie in packs of its own.
        expires: From when on a collector may give it up; None: never.
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
        """Whether it only holds the version while something is made from it."""
        return self.name.startswith(PIN_PREFIX)

    def __str__(self) -> str:
        what = "view" if self.rows is not None else "pin" if self.is_pin else "tag"
        name = self.name.removeprefix(PIN_PREFIX) if self.is_pin else repr(self.name)
        return f"{what} {name} of {self.branch}@{self.seq}"


async def read_citation(store: Store, path: str) -> Citation | None:
    """Read what lies at a path under ``tags/``; None when it is gone, or a tombstone.

    Raises:
        CorruptionError: It is damaged, so what it holds cannot be told.
    """
    data = await store.get(path)
    return None if data is None else parse_citation(path, data)


async def list_citations(store: Store) -> list[tuple[Citation, ObjectMeta]]:
    """Read every tag, view and pin that a listing shows; those gone since and tombstones left out.

    Raises:
        CorruptionError: One is damaged, or has a name that no tag has, so what it holds cannot be
            told.
    """
    listed = [meta async for meta in store.list(TAGS) if parse_tag_path(meta.path) is not None]
    return await _read_all(store, listed)


async def list_readable_citations(store: Store) -> list[tuple[Citation, ObjectMeta]]:
    """Read as ``list_citations``, passing over a stranger's file, whose name no tag has."""
    listed = [meta async for meta in store.list(TAGS) if name_of_tag(meta.path) is not None]
    return await _read_all(store, listed)


def name_of_tag(path: str) -> str | None:
    """Name the tag at a path; None where no tag lies, a stranger's file for one."""
    try:
        return parse_tag_path(path)
    except CorruptionError:
        return None  # a check tells of it


async def _read_all(
    store: Store, listed: Sequence[ObjectMeta]
) -> list[tuple[Citation, ObjectMeta]]:
    reads = [partial(read_citation, store, meta.path) for meta in listed]
    found = await runtime.gather_bounded(reads, limit=READ_AT_ONCE)
    return [
        (citation, meta)
        for citation, meta in zip(found, listed, strict=True)
        if citation is not None
    ]


def parse_citation(path: str, data: bytes) -> Citation | None:
    """Read the object of a tag, a pin or a saved view; None for a tombstone.

    Raises:
        CorruptionError: It is damaged, or no such object.
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
    """Put a tombstone in a tag's place: its name stays used, what it held may be collected."""
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
