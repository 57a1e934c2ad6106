"""Admission of another writer's entry to a log: checked completely, before it is stored.

A log is read by all clients and never rewritten, so one unreadable entry would make its branch
unusable for all. A server, which puts entries for its clients, checks first:

    its bytes      the canonical encoding: every member of its kind, no unknown ones
    its place      next in the log: number, previous digest, later time, branch not ended
    its references parents and contained versions that exist, with matching digests
    its body       a schema of known types and codecs, trees that cover its rows; column groups
    its changes    existing tensors, the number of new rows; a class code keeps its class
    its packs      its own transaction's, or a version's that it is based on (provenance.py)
    its author     the client that puts it

Nothing is repaired: an entry that does not fit is refused, with the first reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
)
from tensorlake.format import (
    DAMAGE,
    MAIN,
    MAX_PARAMETERS_NBYTES,
    PIN_PREFIX,
    SCHEMA_CHANGES,
    Changes,
    ChunkLayout,
    Entry,
    Schema,
    TensorSpec,
    check_group_name,
    column_groups,
    entry_path,
    read_table,
    tag_path,
    trusted_bytes,
    unseal,
)
from tensorlake.storage import Store
from tensorlake.types import ClassLabel, Unsupported
from tensorlake.versions.admission.provenance import stray_references
from tensorlake.versions.log.entries import fence_of, time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.merge.base import vector_of
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.refs.refs import check_name
from tensorlake.versions.refs.registry import read_citation
from tensorlake.versions.rows.class_names import class_names
from tensorlake.versions.verify.log import chain_faults
from tensorlake.versions.verify.version import body_faults

__all__ = ["Offer", "admitted_entry", "parsed_entry"]

MAX_DEPTH = 64
"""Nesting levels of JSON: readers have stacks of different size."""

MAX_AHEAD_US = 10 * 60 * 1_000_000
"""Maximum lead of a writer's clock over the store's; the SDK checks it from 5 minutes on."""

MAX_CHUNK_NBYTES = 1 << 32
"""Maximum chunk size that a schema may require writers to buffer: the length of a raw one."""

MAX_KEY_CHARACTERS = 1024

MAX_MEMBER_NBYTES = 16 << 20
"""Maximum of a schema, roots or a version vector in a page: a thousand tensors have 12."""

BODY = (
    "schema", "roots", "rows", "row_ids", "indexes", "physical", "packs", "statistics", "merged",
    "features", "fence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry that a client requests to put.

    Attributes:
        store: Store of the dataset.
        branch: Branch of the log.
        seq: Number of the entry.
        data: Its bytes.
        author: The client that puts it.
    """

    store: Store
    branch: str
    seq: int
    data: bytes
    author: str

    @property
    def path(self) -> str:
        """The path it would have."""
        return entry_path(self.branch, self.seq)


async def admitted_entry(offer: Offer) -> Entry:
    """Return the offered entry if it is admissible.

    Raises:
        InvalidInputError: It is not; the message has the reason.
    """
    entry = parsed_entry(offer.path, offer.data)
    if entry.seq != offer.seq:
        raise refused(offer.path, f"its number is {entry.seq}")
    log = BranchLog(offer.store, offer.branch)
    before = None if offer.seq == 0 else await log.entry(offer.seq - 1)
    if before is None and offer.seq > 0:
        raise InvalidInputError(
            f"{offer.path!r} is not the next entry of its branch: there is no entry before it"
            "\nread the branch's newest entry, and put the one after it",
            path=offer.path,
        )
    try:
        for fault in await _faults(offer, entry, before):
            raise refused(offer.path, fault)
    except (CorruptionError, SnapshotExpiredError, UnsupportedFeatureError, SchemaError) as error:
        raise refused(offer.path, first_line(error)) from error
    return entry


def parsed_entry(path: str, data: bytes) -> Entry:
    """Parse an entry in canonical form.

    Raises:
        InvalidInputError: The bytes are not one.
    """
    try:
        entry = Entry.from_bytes(data, where=path)
        value = unseal(data, where=path)
    except (CorruptionError, UnsupportedFeatureError) as error:
        raise refused(path, first_line(error)) from error
    fault = json_fault(value)
    if fault is not None:
        raise refused(path, fault)
    if entry.to_bytes() != data:
        written = {**entry.to_json(), "digest": value["digest"]}
        differing = [name for name in value if _bytes(value[name]) != _bytes(written[name])]
        of = f" of its {differing[0]!r}" if differing else ""
        raise refused(path, f"the JSON{of} is not in tensorlake's canonical form")
    return entry


def refused(path: str, why: str) -> InvalidInputError:
    """Build the error for an entry that is not admissible."""
    return InvalidInputError(
        f"the entry put at {path!r} is not admissible there: {why}"
        "\ncommit with the SDK, or put an entry that follows the branch's newest; run expire, gc"
        " and the end of main with direct access to the lake's storage",
        path=path,
    )


async def _faults(offer: Offer, entry: Entry, before: Entry | None) -> list[str]:
    """List the faults of an entry, cheapest checks first; later ones may be left out."""
    now = await time_in(offer.store)
    if faults := _own_faults(offer, entry, before, now):
        return faults
    if before is None:
        return await _beginning_faults(offer, entry)
    if entry.kind == "end":
        return _end_faults(offer, entry, before)
    parents, faults = await _parents(offer, entry, before)
    if faults:
        return faults
    packs = PackReader(offer.store)
    pinned = await _pinned(offer, entry)
    known = [*([before] if before.has_body else []), *parents, *pinned]
    sources = list({one.digest: await loaded(one, packs) for one in known}.values())
    if fault := _bases_fault(entry, before, sources):  # before anything is read in them
        return [fault]
    try:
        if fault := await _members_fault(entry, packs):
            return [fault]
        whole = await entry.load(packs, where=offer.path)
        if entry.spilled and (fault := json_fault(whole.schema) or json_fault(whole.indexes)):
            return [fault]
        schema = Schema.from_json(whole.schema or {})
        faults = _vector_faults(entry if not entry.spilled else whole, before, sources, parents)
        faults += body_faults(whole) + _schema_faults(whole, schema)
        faults += [] if faults else _group_faults(whole, schema)
        if not faults:
            faults += await stray_references(whole, sources, packs, schema=schema)
            faults += _succession_faults(whole, schema, sources[0])  # of its branch, or its parent
    except DAMAGE as error:
        if isinstance(error, SchemaError):
            raise
        return [f"its body cannot be read ({error!r:.200})"]
    return faults


def _own_faults(offer: Offer, entry: Entry, before: Entry | None, now: int) -> list[str]:
    """List the faults of an entry and its place, without further reads."""
    faults = chain_faults(offer.seq, entry, before)
    if entry.author != offer.author:
        faults.append(f"its author is {entry.author!r}, but it is put by {offer.author!r}")
    latest = max(now, 0 if before is None else before.time) + MAX_AHEAD_US
    if entry.time > latest:
        ahead_s = (entry.time - now) // 1_000_000
        faults.append(f"its time is {ahead_s:,} seconds ahead of the store's clock")
    if entry.features.unknown_write:
        names = ", ".join(map(repr, entry.features.unknown_write))
        faults.append(f"it requires writers to support {names}, which this server does not")
    if any(not 0 < len(key) <= MAX_KEY_CHARACTERS for key in entry.keys):
        faults.append(f"a key is empty, or longer than {MAX_KEY_CHARACTERS:,} characters")
    if entry.kind == "fence":
        faults.append(
            "versions can be fenced and expired only with direct access to the lake's storage"
        )
    if before is not None:
        if fence_of(entry) != fence_of(before) or (entry.fence is None) != (before.fence is None):
            faults.append("its fence differs from that of the previous entry")
        if entry.txid == before.txid:
            faults.append("it has the transaction of the previous entry")
    faults += _changes_faults(entry.changes, entry)
    return faults + _statistics_faults(entry.statistics)


async def _beginning_faults(offer: Offer, entry: Entry) -> list[str]:
    """List the faults of a branch's first entry."""
    if offer.branch == MAIN:
        return ["the first entry of main is created with the dataset"]
    check_name(offer.branch)
    bare = Entry(
        kind="begin", seq=0, txid=entry.txid, time=entry.time, author=offer.author
    )  # fmt: skip
    if entry.to_json() != bare.to_json():
        return ["the first entry of a branch records only that it begins"]
    if await offer.store.head(tag_path(offer.branch)) is not None:
        return [f"{offer.branch!r} is, or was, a tag"]
    return []


def _end_faults(offer: Offer, entry: Entry, before: Entry) -> list[str]:
    """List the faults of a branch's last entry, which repeats the previous one."""
    if offer.branch == MAIN or not before.has_body:
        return ["main never ends" if offer.branch == MAIN else "the branch has no commit yet"]
    sent, before_json = entry.to_json(), before.to_json()
    faults = [f"its {name!r} differs from the commit that it ends" for name in BODY
              if sent[name] != before_json[name]]  # fmt: skip
    if entry.bases != before.bases:
        faults.append("its bases differ from those of the commit that it ends")
    if entry.of != (before.seq if before.kind == "commit" else before.of):
        faults.append("it repeats a different commit than the one it is based on")
    if entry.changes != Changes():
        faults.append("it ends the branch, but contains changes")
    return faults


async def _parents(offer: Offer, entry: Entry, before: Entry) -> tuple[list[Entry], list[str]]:
    """Read the parents of a commit; return them with the faults of its references."""
    parents: list[Entry] = []
    if entry.kind != "commit" or entry.of is not None or not entry.has_body:
        return [], ["it is inside a log but is not a commit"]
    own = [one for one in entry.parents if one.branch == offer.branch]
    bases = {before.seq, before.seq if before.of is None else before.of}
    if before.has_body and (len(own) != 1 or own[0].seq not in bases):
        return [], [f"it does not name {offer.branch}@{before.seq}, which it follows, as a parent"]
    if len(entry.parents) != len(own) + 1 and (not own or len(entry.parents) > 2):  # noqa: PLR2004 - a merge has two
        return [], ["a commit has one parent, and a merge two"]
    for one in entry.parents:
        found = await BranchLog(offer.store, one.branch).entry(one.seq)
        if found is None or found.digest != one.digest or not found.has_body:
            return [], [f"it names {one.branch}@{one.seq} as a parent, which is missing or differs"]
        parents.append(found)
    return parents, []


async def _pinned(offer: Offer, entry: Entry) -> list[Entry]:
    """Read the version that the transaction has pinned, which it may also reference."""
    pin = await read_citation(offer.store, tag_path(f"{PIN_PREFIX}{entry.txid}"))
    if pin is None:
        return []
    found = await BranchLog(offer.store, pin.branch).entry(pin.seq)
    return [] if found is None or found.digest != pin.digest or not found.has_body else [found]


def _bases_fault(entry: Entry, before: Entry, sources: Sequence[Entry]) -> str | None:
    """Return the fault of a fork's bases: addresses that readers of the entry will read."""
    known = {base for one in sources for base in one.bases}
    if not set(before.bases) <= set(entry.bases) <= known:
        return (
            "its bases are not those of the versions that it is based on; a fork is made, pulls and"
            " absorbs its base, with direct access to the lake's storage"
        )
    return None


async def _members_fault(entry: Entry, packs: PackReader) -> str | None:
    """Return the fault of a member's page that is too large, before it is unpacked."""
    for name, ref in entry.spilled.items():
        if ref.nbytes > MAX_MEMBER_NBYTES:
            return f"the page of its {name!r} has {ref.nbytes:,} bytes"
        table = read_table(await packs.read(ref), where=str(ref))
        if (nbytes := sum(one.raw_nbytes for one in table.sections)) > MAX_MEMBER_NBYTES:
            return f"the page of its {name!r} unpacks to {nbytes:,} bytes"
    return None


def _vector_faults(
    entry: Entry, before: Entry, sources: Sequence[Entry], parents: Sequence[Entry]
) -> list[str]:
    """List the faults of an entry's version vector."""
    by_digest = {one.digest: one for one in sources}
    bases = by_digest[before.digest].merged if before.has_body else {}
    contained = dict(bases)
    for named, parent in zip(entry.parents, parents, strict=True):
        for branch, seq in vector_of(named.branch, by_digest[parent.digest]).items():
            contained[branch] = max(seq, contained.get(branch, -1))
    faults = [f"it claims to contain {branch}@{seq}, but its parents do not"
              for branch, seq in entry.merged.items()
              if seq > contained.get(branch, -1)]  # fmt: skip
    lost = [branch for branch, seq in bases.items() if entry.merged.get(branch, -1) < seq]
    return faults + [f"it contains less of {branch!r} than the previous entry" for branch in lost]


def _schema_faults(entry: Entry, schema: Schema) -> list[str]:
    """List the faults of a readable schema and of the members that depend on it."""
    if _bytes(schema.to_json()) != _bytes(dict(entry.schema or {})):
        return ["its schema is not in tensorlake's canonical form"]
    faults: list[str] = []
    if set(entry.roots) != {spec.id for spec in schema.tensors}:
        faults.append("its indexes do not match its schema's tensors")
    if entry.features.with_schema(entry.schema) != entry.features:
        faults.append("its features lack some that its schema needs")
    for spec in schema.tensors:
        faults += [f"tensor {spec.name!r}: {fault}" for fault in _tensor_faults(spec)]
    return faults


def _group_faults(entry: Entry, schema: Schema) -> list[str]:
    """List the faults of column groups, which are readable."""
    faults: list[str] = []
    for name, group in column_groups(entry.indexes, where="its indexes").items():
        check_group_name(name)
        group.check_known(name)
        parts = group.parts()
        written = group.to_json() | {"schema": parts.to_json()}
        if _bytes(written) != _bytes(entry.indexes[name]):
            faults.append(f"column group {name!r:.80} is not in tensorlake's canonical form")
        if len(_bytes(dict(group.parameters))) > MAX_PARAMETERS_NBYTES:
            faults.append(f"the parameters of column group {name!r:.80} are too large")
        for tensor_id, covered in group.covers.items():
            if schema.by_id(tensor_id) is None:
                faults.append(f"column group {name!r:.80} covers {tensor_id!r:.80}, not a tensor")
            if covered.state.rows > entry.physical:
                faults.append(f"column group {name!r:.80} covers more rows than there are")
        for spec in parts.tensors:
            faults += [
                f"part {spec.name!r:.80} of column group {name!r:.80}: {fault}"
                for fault in _tensor_faults(spec)
            ]
    return faults


def _succession_faults(entry: Entry, schema: Schema, before: Entry) -> list[str]:
    """List the faults of a body relative to the previous one, and of the changes it records."""
    known = Schema.from_json(before.schema or {})
    faults: list[str] = []
    for spec in known.tensors:
        after = schema.by_id(spec.id)
        kept, were = len(class_names(after)) if after else 0, len(class_names(spec))
        if after is not None and isinstance(after.type, ClassLabel) and kept < were:
            faults.append(
                f"tensor {spec.name!r}: it has {kept:,} class names, but had {were:,}: a"
                ' dropped class keeps its code, with the name ""'
            )
    changes, grown = entry.changes, entry.physical - before.physical
    added = {one["tensor"] for one in changes.schema if one["op"] == "add"}
    there = {spec.id for one in (known, schema) for spec in one.tensors}
    named = {*changes.update, *(one["tensor"] for one in changes.schema)}
    if strange := sorted(named - there - added):
        faults.append(f"it records a change of tensor {strange[0]!r:.80}, which does not exist")
    if not changes.rewrite and changes.append != grown:
        faults.append(f"it records {changes.append:,} appended rows, but has {grown:,} more")
    return faults


def _tensor_faults(spec: TensorSpec) -> list[str]:
    if isinstance(spec.type, Unsupported):  # whose samples could not be checked
        return [f"this server cannot read it: {spec.type.missing}"]
    expected, layout = ChunkLayout.of(spec.type), spec.layout
    faults: list[str] = []
    if (layout.kind, layout.dtype, layout.shape) != (expected.kind, expected.dtype, expected.shape):
        faults.append("its chunks have the encoding of a different type")
    if not 0 < spec.chunk_nbytes <= MAX_CHUNK_NBYTES:
        faults.append(f"a chunk size of {spec.chunk_nbytes:,} bytes is not allowed")
    try:
        spec.type.fill_column(spec.fill, 1)
    except DAMAGE as error:
        faults.append(f"its fill is not a valid sample ({first_line(error)})")
    return faults


def _changes_faults(changes: Changes, entry: Entry) -> list[str]:
    """List the faults of the changes that an entry records, whose form other writers rely on."""
    for one in changes.schema:
        names = (one.get("op"), one.get("tensor"), one.get("name"))
        if not all(isinstance(name, str) for name in names) or names[0] not in SCHEMA_CHANGES:
            return [f"{dict(one)!r:.80} is not a schema change"]
    for one in changes.indexes:
        if not all(isinstance(one.get(key), str) for key in ("op", "name", "kind")):
            return [f"{dict(one)!r:.80} is not a change of an index"]
    ranges = [rows for rows in (*changes.update.values(), changes.delete) if rows != "many"]
    last = max((stop for rows in ranges for _, stop in rows), default=0)
    if max(changes.append, last) > entry.physical:
        return [f"it records a change of row {last - 1:,}, but has {entry.physical:,} rows"]
    return []


def _statistics_faults(statistics: Mapping[str, Any]) -> list[str]:
    done: Any = statistics.get("optimized", {})
    is_object = isinstance(done, dict)
    counts = list(cast("dict[str, Any]", done).values()) if is_object else [None]
    if all(type(count) is int and 0 <= count < 1 << 62 for count in counts):
        return []
    return ["its statistics are not in the form that optimize writes"]


def json_fault(value: Any) -> str | None:
    """Return why some readers could not parse a JSON value: deep nesting, or large numbers."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return None
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += cast("dict[str, Any]", one).values()
            elif isinstance(one, list):
                below += cast("list[Any]", one)
            elif type(one) is int and not -(1 << 63) <= one < 1 << 64:
                return f"it contains a number beyond 64 bits: {str(one)[:30]}…"
        level = below
    return f"its JSON is nested deeper than {MAX_DEPTH} levels"


def _bytes(value: Any) -> bytes:
    return trusted_bytes(value)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without the advice to another user."""
    return (str(error).splitlines() or [type(error).__name__])[0]
