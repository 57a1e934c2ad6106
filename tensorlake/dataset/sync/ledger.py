"""The ledger: what rows were made from, kept in column groups that are committed with the rows.

    group "ledger/sources"   a row for each source: what made it, its place, its arguments
    group "ledger/items"     a row for each item, in the order in which they came
    group "ledger/rejected"  rows left out of pieces that are known by position: source, item,
                             reason, tensor. Items known by name are read again instead.

    item     name of the item in its source     source   row of "ledger/sources"
    size     its bytes                          stamp    hash of size and time, ETag or fingerprint
    digest   hash of its content                cells    hashes of its rows, as they were written
    txid_high, txid_low, offset                 id of its row, or of the first of its rows
    rows     rows of the item, whose ids follow each other
    span     items that the row stands for: more than one where items are known by position; 0: the
             item left the source, or its rows the dataset, and it counts no more; -1: a file, known
             by position, of which the row before has rows

Importers write it, and ``ds.map(to=)``. The newest row of an item counts, so a commit of a few
changes adds a few rows; the group is rewritten when fewer than half of its rows count, or when
it has many small chunks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.ingest_report import SkippedItem
from tensorlake.dataset.sync.classes import ClassKeys
from tensorlake.dataset.sync.digests import CELL_GROUPS
from tensorlake.errors import UnsupportedFeatureError
from tensorlake.format import ROW_ID, Schema
from tensorlake.reading import Reader
from tensorlake.types import (
    Array,
    Bytes,
    Column,
    EncodedColumn,
    SampleType,
    Scalar,
    Text,
    UniformColumn,
)

__all__ = ["ITEMS", "SOURCES", "Entries", "KnownSource", "Ledger", "stamp_of"]

ITEMS, SOURCES, REJECTED, KIND = "ledger/items", "ledger/sources", "ledger/rejected", "ledger"

MAX_CHUNKS = 64
"""Chunks of a part, beyond which the group is rewritten: a chunk a commit."""

FEW_ROWS = 4096
"""Superseded rows that are not worth a rewrite of the group."""

DIGEST_NBYTES = 16

FILE = -1
"""The span of an entry that notes a file."""

SHOWN_MAX = 60
"""Characters of a setting, or of a source's name, that are stored as text."""

Settings = Mapping[str, tuple[str, str]]
U64Array = npt.NDArray[np.uint64]

_SOURCE_JSON = ("settings", "versions", "tensors", "classes")
_SOURCE_TYPES = {name: Text() for name in ("what", "place", "where", "mode", *_SOURCE_JSON)}
_ITEM_TYPES: dict[str, SampleType] = {
    "item": Bytes(),
    "source": Scalar("int32"),
    "size": Scalar("int64"),
    "stamp": Scalar("uint64"),
    "digest": Scalar("uint64"),
    "cells": Array("uint32", (CELL_GROUPS,)),
    "txid_high": Scalar("uint64"),
    "txid_low": Scalar("uint64"),
    "offset": Scalar("uint64"),
    "rows": Scalar("int64"),
    "span": Scalar("int64"),
}
_REJECTED_TYPES: dict[str, SampleType] = {
    "source": Scalar("int32"),
    **{name: Text() for name in ("item", "reason", "tensor")},
}
_NUMBERS = tuple(name for name in _ITEM_TYPES if name not in ("item", "source"))


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source of the ledger.

    Attributes:
        what: The kind of source, a prefix of the keys of its commits.
        place: Its name, for messages.
        where: Hash of its path or URL.
        mode: The mode in which it was first ingested.
        settings: Arguments of the call that determine the rows: name → text, digest.
        versions: The versions that items were made from, if it is a dataset.
        tensors: The tensors that it fills, or once did: its name for each, and the tensor's id.
            Their numbers, by which cells have their digests, never change.
        classes: The class that each name was ingested as, by the id of the tensor.
    """

    what: str
    place: str
    where: str
    mode: str
    settings: Settings
    versions: tuple[str, ...] = ()
    tensors: tuple[tuple[str, str], ...] = ()
    classes: Mapping[str, ClassKeys] = field(default_factory=dict[str, ClassKeys])

    @classmethod
    def of(
        cls, what: str, *, place: str, where: str, mode: str, settings: Mapping[str, Any]
    ) -> KnownSource:
        """Describe a source, by its path or URL and the arguments that determine the rows."""
        hashed = xxh3_64_hexdigest(where.encode(errors="surrogateescape"))
        shown = place.encode(errors="replace").decode()[:SHOWN_MAX]
        as_text = {name: _as_text(name, one) for name, one in settings.items()}
        return cls(what, shown, hashed, mode, as_text)

    def with_tensors(self, names: Sequence[str], schema: Schema) -> KnownSource:
        """Add the tensors of a dataset that are not among them."""
        known = {id_ for _, id_ in self.tensors}
        added = [(name, schema[name].id) for name in names if schema[name].id not in known]
        return replace(self, tensors=(*self.tensors, *added)) if added else self

    def differences(self, earlier: KnownSource) -> dict[str, str]:
        """Return the arguments that differ from those of an earlier call, with words for them."""
        now, then, nothing = self.settings, earlier.settings, ("nothing", "")
        return {
            name: f"{name}={now[name][0]} here, {then.get(name, nothing)[0]} then"
            if name in now
            else f"{name}={then[name][0]} then, nothing here"
            for name in {**now, **then}
            if now.get(name) != then.get(name)
        }


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows of the ledger, as columns; an entry is known by its position."""

    items: list[str]
    sizes: npt.NDArray[np.int64]
    stamps: U64Array
    digests: U64Array
    cells: npt.NDArray[np.uint32]
    ids: npt.NDArray[Any]
    rows: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]

    @classmethod
    def empty(cls) -> Entries:
        """Return no entries."""
        return cls.blank([])

    @classmethod
    def blank(cls, items: list[str]) -> Entries:
        """Return entries of one row for each item, to be filled in."""
        count = len(items)
        whole = np.ones(count, np.int64)
        return cls(
            items,
            np.zeros(count, np.int64),
            np.zeros(count, np.uint64),
            np.zeros(count, np.uint64),
            np.zeros((count, CELL_GROUPS), np.uint32),
            np.zeros(count, ROW_ID),
            whole,
            whole.copy(),
        )

    def __len__(self) -> int:
        return len(self.items)

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """The position of the first row of each, among the rows of all."""
        return np.cumsum(self.rows) - self.rows

    @property
    def row_ids(self) -> npt.NDArray[Any]:
        """The ids of the rows of all, one entry after the other."""
        if bool((self.rows == 1).all()):
            return self.ids
        ids = np.repeat(self.ids, self.rows)
        ids["offset"] += (np.arange(len(ids)) - np.repeat(self.firsts, self.rows)).astype(np.uint64)
        return ids

    def take(self, at: npt.NDArray[np.int64]) -> Entries:
        """Return copies of some entries."""
        return Entries(
            [self.items[one] for one in at.tolist()],
            self.sizes[at],
            self.stamps[at],
            self.digests[at],
            self.cells[at],
            self.ids[at],
            self.rows[at],
            self.spans[at],
        )

    @classmethod
    def concat(cls, parts: Sequence[Entries]) -> Entries:
        """Join entries in order."""
        if len(parts) == 1:
            return parts[0]
        items = [item for part in parts for item in part.items]
        names = ("sizes", "stamps", "digests", "cells", "ids", "rows", "spans")
        arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(items, *arrays)

    @classmethod
    def of_files(cls, stamps: Mapping[str, int]) -> Entries:
        """Return entries that note files, by name, without rows of their own."""
        noted = cls.blank([*stamps])
        noted.stamps[:] = [*stamps.values()]
        noted.rows[:], noted.spans[:] = 0, FILE
        return noted

    def gone(self) -> Entries:
        """Return entries that say that these items count no more."""
        blank = Entries.blank(self.items)
        blank.rows[:] = blank.spans[:] = 0
        return blank

    def to_columns(self, sources: npt.NDArray[np.int32]) -> dict[str, Column]:
        """Return the columns of the group."""
        parts = (
            self.sizes,
            self.stamps,
            self.digests,
            self.cells,
            *(np.ascontiguousarray(self.ids[name]) for name in ("txid_high", "txid_low", "offset")),
            self.rows,
            self.spans,
        )
        names = [one.encode(errors="surrogateescape") for one in self.items]
        return {
            "item": EncodedColumn(names),
            "source": UniformColumn(sources),
            **{name: UniformColumn(one) for name, one in zip(_NUMBERS, parts, strict=True)},
        }


class Ledger:
    """The ledger of one dataset, as it was opened, with the entries staged since.

    Args:
        session: The session of the dataset.

    Raises:
        UnsupportedFeatureError: A version of tensorlake with another ledger wrote it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        for group, types in ((SOURCES, _SOURCE_TYPES), (ITEMS, _ITEM_TYPES)):
            _check_types(session, group, types)
        self.sources = read_sources(session.group(SOURCES))
        self.rejections: list[SkippedItem] = []
        """Rows left out of pieces, for the next commit."""
        self.num_rows = 0
        self._chunks = self._superseded = 0
        self._of, self._log = np.empty(0, np.int32), Entries.empty()
        reader = self._session.group(ITEMS)
        if reader is None:
            return
        snapshot = reader.snapshot
        rows = np.arange(snapshot.num_rows)
        self.num_rows = len(rows)
        self._chunks = len(snapshot.extents(snapshot.spec("rows").id))
        read = {name: reader.read(name, rows, decode=False) for name in _ITEM_TYPES}
        values = {
            name: cast("UniformColumn", column).values
            for name, column in read.items()
            if name != "item"
        }
        ids = np.empty(len(rows), ROW_ID)
        for name in ROW_ID.names or ():
            ids[name] = values[name]
        samples = cast("EncodedColumn", read["item"]).samples
        self._of = values["source"]
        self._log = Entries(
            [bytes(one).decode(errors="surrogateescape") for one in samples],
            values["size"],
            values["stamp"],
            values["digest"],
            values["cells"],
            ids,
            values["rows"],
            values["span"],
        )

    def entries(self, number: int | None = None) -> Entries:
        """Return what counts of one source, or of all, in the order of ingestion."""
        newest = self._newest(number)
        if number is not None:
            self._superseded += int(np.count_nonzero(self._of == number)) - len(newest)
        newest = newest[self._log.spans[newest] > 0]
        return self._log if len(newest) == len(self._log) else self._log.take(newest)

    def file_stamps(self, number: int) -> set[int]:
        """Return the stamps of the files that rows of a source, known by position, are from."""
        return {*self._log.stamps[(self._of == number) & (self._log.spans == FILE)].tolist()}

    def describe(self, number: int, known: KnownSource) -> None:
        """Stage the description of a source: of the next one, or of one that changed."""
        if known not in self.sources:
            self.sources = [*self.sources[:number], known, *self.sources[number + 1 :]]
            columns = _source_columns(self.sources)
            self._session.stage_group(SOURCES, KIND, columns, types=_SOURCE_TYPES)

    def stage(self, number: int, added: Entries, known: KnownSource | None = None) -> None:
        """Stage entries of a source, to be committed with the rows that they describe.

        Args:
            number: The source; that of the next one for ``known``.
            added: The entries.
            known: A source that is new, or described again.
        """
        if known is not None:
            self.describe(number, known)
        of = np.full(len(added), number, np.int32)
        has_group = bool(self.num_rows)
        self._of = np.concatenate([self._of, of])
        self._log = Entries.concat([self._log, added]) if has_group else added
        is_mostly_old = self._superseded > max(FEW_ROWS, len(self._log) // 2)
        is_rewritten = has_group and (self._chunks >= MAX_CHUNKS or is_mostly_old)
        if is_rewritten:
            newest = self._newest(None)
            self._of, self._log = self._of[newest], self._log.take(newest)
            self._superseded = 0
        if is_rewritten or not has_group:
            columns, types = self._log.to_columns(self._of), _ITEM_TYPES
            self._chunks = 1
        else:
            columns, types = added.to_columns(of), None
            self._chunks += 1
        self._session.stage_group(ITEMS, KIND, columns, types=types)
        self.num_rows = len(self._log)
        if self.rejections:
            self._stage_rejected(number)

    def key_of(self, number: int, what: str, added: Entries) -> str:
        """Return the key of a commit of entries: two runs that meet publish the same items once."""
        names = "\0".join(added.items).encode(errors="surrogateescape")
        digest = hashlib.blake2b(names + added.stamps.tobytes(), digest_size=DIGEST_NBYTES)
        return f"{what}{number}:{self.num_rows}:{digest.hexdigest()}"

    def rejected(self, number: int) -> list[SkippedItem]:
        """Return the rows that were left out of the pieces of a source."""
        reader = self._session.group(REJECTED)
        if reader is None:
            return []
        rows = np.arange(reader.snapshot.num_rows)
        sources = cast("UniformColumn", reader.read("source", rows, decode=False)).values
        texts = [_read_texts(reader, name) for name in ("item", "reason", "tensor")]
        each = zip(sources.tolist(), *texts, strict=True)
        return [SkippedItem(item, why, of or None) for at, item, why, of in each if at == number]

    def _stage_rejected(self, number: int) -> None:
        columns: dict[str, Column] = {
            "source": UniformColumn(np.full(len(self.rejections), number, np.int32))
        }
        for name in ("item", "reason", "tensor"):
            texts = [str(getattr(one, name) or "") for one in self.rejections]
            utf8 = [one.encode(errors="replace").decode() for one in texts]
            columns[name] = Text().convert(utf8, tensor=name)
        is_first = REJECTED not in self._session.snapshot().state.groups
        types = _REJECTED_TYPES if is_first else None
        self._session.stage_group(REJECTED, KIND, columns, types=types)
        self.rejections = []

    def _newest(self, number: int | None) -> npt.NDArray[np.int64]:
        """Return the positions of the entries that count, with those of files."""
        is_of = np.ones(len(self._log), np.bool_) if number is None else self._of == number
        at = np.flatnonzero(is_of)
        items = self._log.items
        if number is None:
            pairs = zip(self._of.tolist(), items, strict=True)
            last = dict(zip(pairs, range(len(items)), strict=True))
        else:
            mine = items if len(at) == len(items) else [items[one] for one in at.tolist()]
            last = dict(zip(mine, at.tolist(), strict=True))
        if len(last) < len(at):
            at = np.sort(np.fromiter(last.values(), np.int64, len(last)))
        return at[self._log.spans[at] != 0]


def stamp_of(state: str) -> int:
    """Return the stamp of an item, from what changes with it; never 0."""
    return xxh3_64_intdigest(state.encode(errors="surrogateescape")) or 1


def read_sources(reader: Reader | None) -> list[KnownSource]:
    """Return the sources of a ledger, given a reader of their group."""
    if reader is None:
        return []
    known = reader.snapshot.schema.names
    none = ["{}"] * reader.snapshot.num_rows
    texts = {name: _read_texts(reader, name) if name in known else none for name in _SOURCE_TYPES}
    return [
        KnownSource(
            what,
            place,
            where,
            mode,
            {name: (one[0], one[1]) for name, one in json.loads(given).items()},
            tuple(json.loads(versions)),
            tuple((name, id_) for name, id_ in json.loads(tensors)),
            json.loads(classes),
        )
        for what, place, where, mode, given, versions, tensors, classes in zip(
            *texts.values(), strict=True
        )
    ]


def _check_types(session: Session, group: str, types: Mapping[str, SampleType]) -> None:
    reader = session.group(group)
    if reader is None:
        return
    if {spec.name: spec.type for spec in reader.snapshot.schema.tensors} != types:
        url = session.store.url
        raise UnsupportedFeatureError(
            f"{url!r} records what its rows were made from in the form of another version of"
            " tensorlake: its rows can be read and changed, and not be brought to their source"
            f"\nuse that version, or make the dataset again: tl.delete({url!r}, confirm={url!r}),"
            " and the same call",
            dataset=url,
        )


def _read_texts(reader: Reader, name: str) -> list[str]:
    rows = np.arange(reader.snapshot.num_rows)
    samples = cast("EncodedColumn", reader.read(name, rows, decode=False)).samples
    return [bytes(one).decode() for one in samples]


def _source_columns(sources: Sequence[KnownSource]) -> dict[str, Column]:
    texts = {
        name: [
            json.dumps(getattr(one, name)) if name in _SOURCE_JSON else str(getattr(one, name))
            for one in sources
        ]
        for name in _SOURCE_TYPES
    }
    return {name: Text().convert(each, tensor=name) for name, each in texts.items()}


def _as_text(name: str, setting: Any) -> tuple[str, str]:
    """Show a setting, and give a digest of all of it."""
    shown = whole = repr(setting)
    if name == "schema":
        types = cast("Mapping[str, SampleType]", setting)
        told = ", ".join(f"{name!r}: {one.describe()}" for name, one in types.items())
        shown = f"{{{told}}}"
        whole = json.dumps({name: one.to_json() for name, one in types.items()})
    if len(shown) > SHOWN_MAX:
        shown = f"{shown[: SHOWN_MAX - 1]}…"
    shown = shown.encode(errors="replace").decode()
    return shown, xxh3_64_hexdigest(whole.encode(errors="surrogateescape"))
