"""Admission of another writer's tag, saved view or pin: checked before it is stored.

As for entries (admission/entry.py): every listing reads all of them, and a collector stops at an
unreadable one. A new one must name an existing version; an existing one can only be replaced by a
tombstone, because tags do not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorlake.errors import CorruptionError, InvalidInputError, SnapshotExpiredError
from tensorlake.format import (
    DAMAGE,
    PIN_PREFIX,
    Entry,
    Parts,
    Root,
    RowSegments,
    is_txid,
    seal,
    tag_path,
    unseal,
)
from tensorlake.storage import Store
from tensorlake.versions.admission.entry import MAX_AHEAD_US, first_line, json_fault
from tensorlake.versions.log.entries import time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.refs.refs import Tag, check_name
from tensorlake.versions.refs.registry import Citation, parse_citation
from tensorlake.versions.transaction.saved_views import VIEW_NBYTES_MAX, SavedView

__all__ = ["TagOffer", "check_tag_admitted"]


@dataclass(frozen=True, slots=True)
class TagOffer:
    """A tag, view, pin or tombstone that a client requests to put.

    Attributes:
        store: Store of the dataset.
        name: Name of the tag.
        data: Its bytes.
        author: The client that puts it.
        replaces: Whether it would replace an existing one.
    """

    store: Store
    name: str
    data: bytes
    author: str
    replaces: bool


async def check_tag_admitted(offer: TagOffer) -> None:
    """Check an offered tag.

    Raises:
        InvalidInputError: It is not admissible; the message has the reason.
    """
    path = tag_path(offer.name)
    try:
        fault = await _fault(offer, path)
    except (CorruptionError, SnapshotExpiredError) as error:
        raise _refused(path, first_line(error)) from error
    except InvalidInputError as error:
        raise _refused(path, first_line(error)) from error
    except DAMAGE as error:
        raise _refused(path, f"it cannot be read ({error!r:.200})") from error
    if fault is not None:
        raise _refused(path, fault)


def _refused(path: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the object put at {path!r} is not a tag, saved view or tombstone admissible there: {why}"
        "\nname an existing version: ds.tag(name), ds.query(…).save(name)",
        path=path,
    )


async def _fault(offer: TagOffer, path: str) -> str | None:
    if len(offer.data) > VIEW_NBYTES_MAX:
        return f"it has {len(offer.data):,} bytes, but {VIEW_NBYTES_MAX:,} are allowed"
    body = unseal(offer.data, where=path)
    if (fault := json_fault(body)) is not None:
        return fault
    found = parse_citation(path, offer.data)
    if found is None:
        is_plain = offer.data == seal({"deleted": True, "txid": body.get("txid")})
        if not is_plain or not is_txid(body.get("txid")):
            return "a tombstone has only its kind and its transaction"
        return None if offer.replaces else "there is no tag that it could replace"
    if offer.replaces:
        return "tags do not move: only a tombstone may replace a tag"
    if not is_txid(found.txid) or (found.expires is not None and found.expires.tzinfo is None):
        return "its transaction is invalid, or its expiry time has no time zone"
    if not found.is_pin:
        check_name(offer.name)
        if await BranchLog(offer.store, offer.name).entry(0) is not None:
            return f"{offer.name!r} is a branch"
    cited = await BranchLog(offer.store, found.branch).entry(found.seq)
    if cited is None or cited.digest != found.digest or not cited.has_body:
        return f"it names {found.branch}@{found.seq}, which is missing or a different version"
    if found.rows is None:
        is_own = offer.data == _written(found)
        return None if is_own else "it is not in tensorlake's canonical form"
    return await _view_fault(offer, path, found.rows, cited)


def _written(found: Citation) -> bytes:
    """Return the canonical bytes of a tag or pin."""
    if found.is_pin:
        txid = found.name.removeprefix(PIN_PREFIX)
        body: dict[str, Any] = {"branch": found.branch, "seq": found.seq}
        return seal({**body, "digest_of": found.digest, "txid": txid})
    tag = Tag(found.name, found.branch, found.seq, found.digest, found.txid, found.expires)
    return tag.to_bytes()


async def _view_fault(
    offer: TagOffer, path: str, rows: Root[RowSegments], cited: Entry
) -> str | None:
    view = SavedView.from_bytes(offer.name, offer.data, where=path)
    if view is None or view.to_bytes() != offer.data:
        return "it is not in tensorlake's canonical form"
    if view.author != offer.author:
        return f"its author is {view.author!r}, but it is put by {offer.author!r}"
    if not 0 <= view.time <= await time_in(offer.store) + MAX_AHEAD_US:
        return "its time is before 1970, or ahead of the store's clock"
    if any(child.pack.txid != view.txid or child.height for child in rows.children):
        return "its rows are in packs of another transaction"
    pages = PackReader(offer.store).pages
    leaves = await pages.leaves(rows.children, RowSegments, Parts.LOCATIONS)
    last = [int((one.base + one.span).max()) for one in (*leaves, rows.tail) if len(one)]
    if max(last, default=0) > cited.physical:
        return f"it shows physical rows up to {max(last):,}, but the version has fewer"
    return None
