"""The summary of a log entry, read without its trees.

Most of an entry is roots, one or two kilobytes per tensor, and most of the time of reading one is
spent on building their arrays. A list of commits needs none: here the entry's digest is checked,
its members are parsed by type, and roots, row ids and unknown members are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tensorlake.format.entry.changes import Changes
from tensorlake.format.entry.entry import (
    DAMAGE,
    EntryKind,
    Features,
    Parent,
    check_schema,
    check_time,
    microseconds_of,
    published_at,
)
from tensorlake.format.spec.canonical_json import verified_body
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import MAX_ENTRY_NBYTES

__all__ = ["EntryLine"]


@dataclass(frozen=True, slots=True)
class EntryLine:
    """A log entry without its body; the attributes are those of ``Entry``."""

    kind: EntryKind
    seq: int
    parents: tuple[Parent, ...]
    time: int
    author: str
    message: str
    meta: Mapping[str, Any]
    keys: tuple[str, ...]
    changes: Changes
    schema: Mapping[str, Any] | None
    num_rows: int
    digest: str
    stored: int | None

    @property
    def published(self) -> int:
        """The publication time: the entry's, or the store's if earlier."""
        return published_at(self.time, self.stored)

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str, modified: datetime | None = None) -> EntryLine:
        """Read an entry; ``modified`` is its store's time of the object.

        Raises:
            CorruptionError: It is damaged.
            UnsupportedFeatureError: It needs a feature that this version cannot read.

        Example:
            >>> from tensorlake.format import Entry, new_txid
            >>> data, entry = Entry(kind="commit", seq=0, txid=new_txid(), time=1).sealed()
            >>> EntryLine.from_bytes(data, where="main@0").digest == entry.digest
            True
        """
        body, digest = verified_body(data, where=where, max_nbytes=MAX_ENTRY_NBYTES)
        try:
            wire = _DECODER.decode(body)
            wire.features.check_readable(where)
            return cls(
                kind=wire.kind,
                seq=wire.seq,
                parents=wire.parents,
                time=check_time(wire.time),
                author=wire.author,
                message=wire.message,
                meta=wire.meta,
                keys=wire.keys,
                changes=Changes.from_json(wire.changes),
                schema=None if wire.schema is None else _schema(wire.schema),
                num_rows=0 if wire.rows is None else wire.rows.rows,
                digest=digest,
                stored=microseconds_of(modified),
            )
        except DAMAGE as error:
            raise damaged(where, f"it is not a log entry ({error})") from error


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    is_page = list(schema) == ["page"]  # too large for the entry: stored there
    return schema if is_page else check_schema(schema)


@dataclass(frozen=True, slots=True)
class _RowCount:
    rows: int


@dataclass(frozen=True, slots=True)
class _Wire:
    kind: EntryKind
    seq: int
    parents: tuple[Parent, ...]
    time: int
    author: str
    message: str
    meta: dict[str, Any]
    keys: tuple[str, ...]
    features: Features
    changes: dict[str, Any]
    schema: dict[str, Any] | None
    rows: _RowCount | None


_DECODER = msgspec.json.Decoder(_Wire)
