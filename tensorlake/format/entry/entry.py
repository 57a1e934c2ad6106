"""Log entries: commits, and what must be ordered against them.

An entry is a sealed JSON object of at most 256 KiB with these members, all of them always there:

    kind      "begin" | "commit" | "fence" | "end"
    seq       its number in the branch's log          prev    digest of entry seq - 1, null at 0
    txid      of the transaction that published it    of      fence, end: the commit they repeat
    parents   [{branch, seq, digest}, …]              merged  {branch: largest seq contained}
    time      microseconds since 1970                 author, message, meta, keys
    fence     {t, expired_before} | null              features {read: […], write: […]}
    schema · roots {tensor id: ROOT} · rows ROOT · row_ids ROOT · indexes {name: group} · physical
    changes · packs {count, bytes} · statistics

A ``begin`` entry has no body: schema, rows and row_ids are null. A schema or a version vector
above 32 KiB, roots above 128 KiB and indexes above 16 KiB are pages instead: the member is
{"page": [pack, offset, nbytes, checksum]}, see ``Entry.spill`` and ``Entry.load``. ``indexes`` is
read by ``column_groups``. Forks alone have ``bases``. Members this version does not know are kept
in ``unknown`` and written back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.format.entry.bases import PACK_BASES, Base, parse_bases
from tensorlake.format.entry.changes import Changes
from tensorlake.format.index.extents import Extents
from tensorlake.format.index.row_ids import RowIdRuns
from tensorlake.format.index.segments import RowSegments
from tensorlake.format.pages.pages import encode_json_page
from tensorlake.format.spec.canonical_json import (
    canonical_bytes,
    seal,
    sealed_digest,
    trusted_bytes,
    unseal,
)
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import (
    MAX_ENTRY_NBYTES,
    MAX_INLINE_INDEXES_NBYTES,
    MAX_INLINE_MERGED_NBYTES,
    MAX_INLINE_ROOTS_NBYTES,
    MAX_INLINE_SCHEMA_NBYTES,
    MAX_MESSAGE_NBYTES,
    MAX_META_NBYTES,
    PackId,
    is_txid,
)
from tensorlake.format.trees.nodes import PageRef, PageSink, PageSource, Root
from tensorlake.format.trees.page_reader import read_json_pages
from tensorlake.quantities import is_whole_number
from tensorlake.storage import FIRST_STORED
from tensorlake.types import NARROW_FLOATS

if TYPE_CHECKING:
    from collections.abc import Mapping

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EntryKind = Literal["begin", "commit", "fence", "end"]
ENTRY_KINDS: tuple[EntryKind, ...] = ("begin", "commit", "fence", "end")

# Exceptions of a parser for valid JSON of an unexpected form.
DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

# What this version can read and write beyond version 1; a dataset that needs more raises an error.
READ_FEATURES: frozenset[str] = frozenset(
    {"code-maps", "dropped-classes", "narrow-floats", PACK_BASES, "tensor-features"}
)
WRITE_FEATURES: frozenset[str] = frozenset({"constraints", "personal"})

MAX_COUNT = (1 << 63) - 1
"""The largest number in an entry: NumPy's int64 counts rows and bytes."""

MAX_TIME = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the end of Python's calendar."""

# A root at most: a tail of twice 2 KiB, 16 children and their summaries.
_ROOT_NBYTES_MAX = 12 * 1024
_SPILL_NBYTES = {
    "schema": MAX_INLINE_SCHEMA_NBYTES,
    "roots": MAX_INLINE_ROOTS_NBYTES,
    "merged": MAX_INLINE_MERGED_NBYTES,
    "indexes": MAX_INLINE_INDEXES_NBYTES,
}


SECOND, TICK = 1_000_000, 10_000
"""Microseconds by which a store's times may be early: dates of HTTP have whole seconds, those of
files are of the last tick of the system's clock."""


def published_at(time: int, stored: int | None) -> int:
    """Return the time of an entry's publication, in microseconds since 1970.

    Args:
        time: The time in the entry.
        stored: The store's time of the object; None where unknown. It takes precedence if
            earlier: a writer's clock that was ahead hides no version.

    Example:
        >>> published_at(1_800_000_000_500_000, 1_800_000_000_000_000)  # within that very second
        1800000000500000
        >>> published_at(1_900_000_000_000_000, 1_800_000_000_000_000)
        1800000000000000
    """
    if stored is None or stored < FIRST_STORED:
        return time
    early = TICK if stored % SECOND else SECOND
    return time if time < stored + early else stored


def microseconds_of(when: datetime | None) -> int | None:
    """Convert a store's time to microseconds, as in entries."""
    return None if when is None else (when - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Features:
    """Features that a reader, or a writer, must support; names are only ever added."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    @property
    def unknown_write(self) -> tuple[str, ...]:
        """Features that this version cannot write: with any the dataset is read-only here."""
        return tuple(name for name in self.write if name not in WRITE_FEATURES)

    def with_schema(self, schema: Mapping[str, Any] | None) -> Features:
        """Return these and those that a schema needs; features are never removed."""
        tensors: list[Any] = list((schema or {}).get("tensors", ()))
        needed = {
            "code-maps": any("codes" in one for spec in tensors for one in spec["encodings"]),
            "dropped-classes": any(spec["type"].get("dropped") for spec in tensors),
            "narrow-floats": any(_has_narrow_floats(spec) for spec in tensors),
            "tensor-features": any(spec.get("features") for spec in tensors),
        }
        read = [name for name, is_needed in needed.items() if is_needed and name not in self.read]
        limits = {
            "personal": any(spec["type"].get("personal") for spec in tensors),
            "constraints": bool((schema or {}).get("constraints")),
        }
        write = [name for name, is_needed in limits.items() if is_needed and name not in self.write]
        if not read and not write:
            return self
        return replace(self, read=(*self.read, *read), write=(*self.write, *write))

    def check_readable(self, where: str) -> None:
        """Raise an error for features that this version cannot read."""
        for name in self.read:
            if name not in READ_FEATURES:
                raise UnsupportedFeatureError(
                    f"{where} needs the feature {name!r}, which this tensorlake cannot read"
                    "\ninstall a newer tensorlake",
                    object=where,
                    feature=name,
                )


@dataclass(frozen=True, slots=True)
class Fence:
    """The collector's mark: data staged by store time ``t`` (microseconds) are too late."""

    t: int = 0
    expired_before: int = 0  # versions below this number are expired


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent version of a commit, identified by its digest."""

    branch: str
    seq: int
    digest: str


@dataclass(frozen=True, slots=True)
class PackTotals:
    """Number and bytes of the packs that a branch refers to, as far as writers know."""

    count: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a branch's log.

    ``digest`` is that of the bytes it was read from, or was last sealed to; "" before.
    ``spilled`` has the pages of those of schema, roots, merged and indexes that are stored in one.
    ``stored`` is the store's time of the object it was read from, None where that is not known.
    """

    kind: EntryKind
    seq: int
    txid: str
    time: int
    prev: str | None = None
    parents: tuple[Parent, ...] = ()
    merged: Mapping[str, int] = field(default_factory=dict[str, int])
    author: str = ""
    message: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keys: tuple[str, ...] = ()
    fence: Fence | None = None
    features: Features = field(default_factory=Features)
    schema: Mapping[str, Any] | None = None
    roots: Mapping[str, Root[Extents]] = field(default_factory=dict[str, Root[Extents]])
    rows: Root[RowSegments] | None = None
    row_ids: Root[RowIdRuns] | None = None
    indexes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    physical: int = 0
    changes: Changes = field(default_factory=Changes)
    packs: PackTotals = field(default_factory=PackTotals)
    statistics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    of: int | None = None
    bases: tuple[Base, ...] = ()
    digest: str = ""
    spilled: Mapping[str, PageRef] = field(default_factory=dict[str, PageRef])
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stored: int | None = field(default=None, compare=False)

    @property
    def published(self) -> int:
        """The publication time: the entry's, or the store's if earlier."""
        return published_at(self.time, self.stored)

    @property
    def num_rows(self) -> int:
        """The number of rows of the version."""
        return 0 if self.rows is None else self.rows.rows

    @property
    def has_body(self) -> bool:
        """Whether a version can be read here; not in a ``begin`` entry."""
        return self.schema is not None or "schema" in self.spilled

    def changed(self, **members: Any) -> Entry:
        """Return the entry with some members replaced; pages of the old ones are dropped."""
        spilled = {name: ref for name, ref in self.spilled.items() if name not in members}
        return replace(self, **{"spilled": spilled, "digest": "", "stored": None, **members})

    def spill(self, sink: PageSink) -> Entry:
        """Write members that are too large for the entry to pages, in sequence in the same pack.

        Members that are already stored in a page stay there. Call it before the last pack is
        written.
        """
        spilled = dict(self.spilled)
        for name, limit in _SPILL_NBYTES.items():
            if name == "roots" and len(self.roots) * _ROOT_NBYTES_MAX <= limit:
                continue  # what a commit of few tensors need not weigh
            value = self._part(name)
            if name not in spilled and value and len(trusted_bytes(value)) > limit:
                spilled[name] = sink.add(encode_json_page(value), rows=0, entries=1, height=0)
        if not self.digest and len(spilled) == len(self.spilled):
            return self
        return replace(self, spilled=spilled, digest="")

    async def load(self, pages: PageSource, *, where: str) -> Entry:
        """Read the members that are stored in pages, concurrently."""
        names = [name for name in self.spilled if not self._part(name)]
        values = await read_json_pages([self.spilled[name] for name in names], pages)
        loaded: dict[str, Any] = dict(zip(names, values, strict=True))
        if "roots" in loaded:
            loaded["roots"] = _parse_roots(loaded["roots"], where)
        if not isinstance(loaded.get("indexes", {}), dict):
            raise damaged(where, "its indexes are not an object")
        return replace(self, **loaded)

    def sealed(self) -> tuple[bytes, Entry]:
        """Return the entry's bytes, and the entry with their digest."""
        data = self.to_bytes()
        return data, replace(self, digest=sealed_digest(data))

    def to_bytes(self) -> bytes:
        """Write the entry.

        Raises:
            InvalidInputError: Message, meta or the whole is too large.
        """
        _check_size("the message", len(self.message.encode("utf-8")), MAX_MESSAGE_NBYTES)
        if self.meta:
            _check_size("meta", len(canonical_bytes(dict(self.meta))), MAX_META_NBYTES)
        data = seal(self.to_json(), is_trusted=True)  # users' values are checked above
        _check_size(f"entry {self.seq}", len(data), MAX_ENTRY_NBYTES)
        return data

    def to_json(self) -> dict[str, Any]:
        """Return the entry's members, without the digest."""
        return {
            **self.unknown,
            "kind": self.kind,
            "seq": self.seq,
            "prev": self.prev,
            "txid": self.txid,
            "parents": [
                {"branch": parent.branch, "seq": parent.seq, "digest": parent.digest}
                for parent in self.parents
            ],
            "time": self.time,
            "author": self.author,
            "message": self.message,
            "meta": dict(self.meta),
            "keys": list(self.keys),
            "fence": None
            if self.fence is None
            else {"t": self.fence.t, "expired_before": self.fence.expired_before},
            "features": {"read": list(self.features.read), "write": list(self.features.write)},
            "rows": None if self.rows is None else self.rows.to_json(),
            "row_ids": None if self.row_ids is None else self.row_ids.to_json(),
            "physical": self.physical,
            "changes": self.changes.to_json(),
            "packs": {"count": self.packs.count, "bytes": self.packs.nbytes},
            "statistics": dict(self.statistics),
            "of": self.of,
            **({"bases": [base.to_json() for base in self.bases]} if self.bases else {}),
            **{
                name: {"page": _address(self.spilled[name])}
                if name in self.spilled
                else self._part(name)
                for name in _SPILL_NBYTES
            },
        }

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str, modified: datetime | None = None) -> Self:
        """Read an entry; ``modified`` is its store's time of the object.

        Raises:
            CorruptionError: It is damaged.
            UnsupportedFeatureError: It needs a feature that this version cannot read.
        """
        value = unseal(data, where=where, max_nbytes=MAX_ENTRY_NBYTES)
        try:
            features = Features(
                tuple(map(_text, value["features"]["read"])),
                tuple(map(_text, value["features"]["write"])),
            )
            features.check_readable(where)
            return cls._parsed(value, features, where, microseconds_of(modified))
        except DAMAGE as error:
            raise damaged(where, f"it is not a log entry ({error!r})") from error

    @classmethod
    def _parsed(
        cls, value: dict[str, Any], features: Features, where: str, stored: int | None
    ) -> Self:
        members = dict(value)
        del members["features"]
        spilled = {
            name: _page_at(members[name]["page"])
            for name in _SPILL_NBYTES
            if isinstance(members[name], dict) and list(members[name]) == ["page"]
        }
        schema, roots, merged, indexes = (
            None if name in spilled else members[name]
            for name in ("schema", "roots", "merged", "indexes")
        )
        for name in _SPILL_NBYTES:
            del members[name]
        kind, txid, prev, of = (members.pop(name) for name in ("kind", "txid", "prev", "of"))
        if kind not in ENTRY_KINDS or not is_txid(txid) or not isinstance(prev, str | None):
            raise ValueError(f"kind {kind!r}, txid {txid!r} or prev {prev!r} cannot be")
        fence, rows, row_ids = (members.pop(name) for name in ("fence", "rows", "row_ids"))
        packs = members.pop("packs")
        return cls(
            kind=kind,
            seq=_count(members.pop("seq")),
            txid=txid,
            time=check_time(_count(members.pop("time"))),
            prev=prev,
            parents=tuple(
                Parent(_text(parent["branch"]), _count(parent["seq"]), _text(parent["digest"]))
                for parent in members.pop("parents")
            ),
            merged={str(name): _count(seq) for name, seq in (merged or {}).items()},
            author=_text(members.pop("author")),
            message=_text(members.pop("message")),
            meta=dict(members.pop("meta")),
            keys=tuple(map(_text, members.pop("keys"))),
            fence=None
            if fence is None
            else Fence(_count(fence["t"]), _count(fence["expired_before"])),
            features=features,
            schema=None if schema is None else check_schema(schema),
            roots=_parse_roots(roots or {}, where),
            rows=None if rows is None else Root.from_json(rows, RowSegments, where=where),
            row_ids=None if row_ids is None else Root.from_json(row_ids, RowIdRuns, where=where),
            indexes={} if "indexes" in spilled else dict(cast("dict[str, Any]", indexes)),
            physical=_count(members.pop("physical")),
            changes=Changes.from_json(members.pop("changes")),
            packs=PackTotals(_count(packs["count"]), _count(packs["bytes"])),
            statistics=dict(members.pop("statistics")),
            of=None if of is None else _count(of),
            bases=parse_bases(members.pop("bases", ())),
            digest=_text(members.pop("digest")),
            spilled=spilled,
            unknown=members,
            stored=stored,
        )

    def _part(self, name: str) -> Any:
        if name == "roots":
            return {tensor: root.to_json() for tensor, root in self.roots.items()}
        if name == "merged":
            return dict(self.merged)
        if name == "indexes":
            return dict(self.indexes)
        return None if self.schema is None else dict(self.schema)


def _parse_roots(value: Any, where: str) -> dict[str, Root[Extents]]:
    return {
        str(tensor): Root.from_json(root, Extents, where=f"{where}, root of tensor {tensor}")
        for tensor, root in cast("dict[str, Any]", value).items()
    }


def _address(ref: PageRef) -> list[Any]:
    return [str(ref.pack), ref.offset, ref.nbytes, f"{ref.checksum:016x}"]


def _page_at(address: Any) -> PageRef:
    pack, offset, nbytes, checksum = cast("list[Any]", address)
    return PageRef(
        PackId.parse(str(pack)), _count(offset), _count(nbytes), int(checksum, 16), 0, 1, 0
    )


def check_time(microseconds: int) -> int:
    """Return a time after checking that it is in the calendar's range.

    Raises:
        ValueError: It is not.
    """
    if not 0 <= microseconds <= MAX_TIME:
        raise ValueError(f"time {microseconds} lies outside of the years 1970 to 9999")
    return microseconds


def check_schema(schema: Any) -> dict[str, Any]:
    """Return a schema whose tensors have an id and a name, which every listing of commits reads.

    Raises:
        TypeError, KeyError: It is something else.
    """
    for tensor in schema["tensors"]:
        for name in ("id", "name"):
            _text(tensor[name])
    return dict(schema)


def _count(value: Any) -> int:
    if not is_whole_number(value) or not 0 <= value <= MAX_COUNT:
        raise ValueError(f"{value!r} is not a count")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a text")
    return value


def _has_narrow_floats(spec: Mapping[str, Any]) -> bool:
    """Whether a tensor's elements, or those of its items, have a dtype that NumPy lacks."""
    found: set[Any] = {one["dtype"] for one in spec["encodings"]}
    kind: Any = spec["type"]
    while isinstance(kind, dict):  # of a Sequence, the type of its items
        members: dict[str, Any] = kind
        found.add(members.get("dtype"))
        kind = members.get("of")
    return not found.isdisjoint(NARROW_FLOATS)


def _check_size(what: str, nbytes: int, limit: int) -> None:
    if nbytes > limit:
        raise InvalidInputError(
            f"{what} takes {nbytes} bytes, the format allows {limit}"
            "\nput large text or JSON into a tensor",
            nbytes=nbytes,
            limit=limit,
        )
