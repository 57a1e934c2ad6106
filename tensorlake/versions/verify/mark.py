"""The mark of a check: the versions that it verified, so that a quick check can skip them.

    check.json {dataset, kinds, logs: {branch: [seq, digest, listed]}, packs}
                 │       │              newest entry ┘        └ digest of name, size and etag of
                 │       └ known to the checker                 the entries up to it; packs: of each
                 └ id of the dataset                            pack that the versions need

A mark counts only if every object that it names is listed unchanged, and the newest entry of the
log has its digest. It saves requests, and proves nothing: bytes that rotted in place keep their
etag. So only checks with ``full=False`` read it, a collector never does, and a check that finds
damage removes it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import CorruptionError, TensorlakeError
from tensorlake.format import READ_FEATURES, WRITE_FEATURES, ChunkKind, PackId, seal, unseal
from tensorlake.storage import ObjectMeta, Store

__all__ = ["MARK", "Mark", "MarkedLog", "keep_mark", "listed", "read_mark"]

_log = logging.getLogger("tensorlake.versions")

MARK = "check.json"
KINDS = sorted(
    {*(kind.name.lower() for kind in ChunkKind), *READ_FEATURES, *WRITE_FEATURES, "column-groups"}
)
"""Data and features supported here: a mark made with others is ignored."""

FINGERPRINT_NBYTES = 8


@dataclass(frozen=True, slots=True)
class MarkedLog:
    """How far a log was verified: its newest entry then, and a digest of the entries as listed."""

    seq: int
    digest: str
    listed: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The extent of an earlier check.

    Attributes:
        dataset: Id of the dataset.
        logs: By branch, how far its log was verified.
        packs: Fingerprints of the packs that its versions need.
    """

    dataset: str
    logs: Mapping[str, MarkedLog]
    packs: frozenset[bytes]

    @classmethod
    def of(cls, dataset: str, logs: Mapping[str, MarkedLog], packs: Iterable[ObjectMeta]) -> Mark:
        """Describe what was verified."""
        return cls(dataset, logs, frozenset(map(_fingerprint, packs)))

    def to_bytes(self) -> bytes:
        """Return the object to store."""
        packs = b"".join(sorted(self.packs))
        logs = {name: [one.seq, one.digest, one.listed] for name, one in self.logs.items()}
        members = {"dataset": self.dataset, "kinds": KINDS, "logs": logs}
        return seal({**members, "packs": base64.b64encode(packs).decode()})

    def packs_among(self, packs: Mapping[PackId, ObjectMeta]) -> set[PackId] | None:
        """Return its packs; None unless all are listed unchanged."""
        found = {pack: _fingerprint(meta) for pack, meta in packs.items()}
        if not self.packs.issubset(found.values()):
            return None
        return {pack for pack, fingerprint in found.items() if fingerprint in self.packs}


def listed(entries: Iterable[ObjectMeta]) -> str:
    """Return a digest of the names, sizes and etags of log entries, in order."""
    return hashlib.blake2b(b"".join(map(_fingerprint, entries)), digest_size=20).hexdigest()


async def read_mark(store: Store, dataset: str) -> Mark | None:
    """Read the mark of a dataset; None if there is none that is valid here."""
    data = await store.get(MARK)
    if data is None:
        return None
    try:
        mark = _parsed(unseal(data, where=MARK))
    except (CorruptionError, KeyError, TypeError, ValueError) as error:
        _log.debug("the mark of %s is ignored: %s", store.url, error)
        return None
    return mark if mark is not None and mark.dataset == dataset else None


async def keep_mark(store: Store, mark: Mark | None, *, before: Mark | None) -> None:
    """Store a mark, or remove the one that is there; best effort, for it only saves requests."""
    if mark is not None and mark == before:
        return
    try:
        if mark is None:
            await store.delete(MARK)
        else:
            await store.put(MARK, mark.to_bytes(), durable=False)
    except TensorlakeError as error:  # clients that may only read can check as well
        _log.debug("the mark of %s is not written: %s", store.url, error)


def _parsed(body: dict[str, Any]) -> Mark | None:
    if body["kinds"] != KINDS:
        return None
    logs = {
        str(name): MarkedLog(int(seq), str(digest), str(entries))
        for name, (seq, digest, entries) in dict(body["logs"]).items()
    }
    packs = base64.b64decode(body["packs"], validate=True)
    if len(packs) % FINGERPRINT_NBYTES:
        raise binascii.Error("its packs are not fingerprints")
    starts = range(0, len(packs), FINGERPRINT_NBYTES)
    found = frozenset(packs[start : start + FINGERPRINT_NBYTES] for start in starts)
    return Mark(str(body["dataset"]), logs, found)


def _fingerprint(meta: ObjectMeta) -> bytes:
    state = f"{meta.path}\n{meta.nbytes}\n{meta.etag or meta.modified.isoformat()}"
    return hashlib.blake2b(state.encode(), digest_size=FINGERPRINT_NBYTES).digest()
