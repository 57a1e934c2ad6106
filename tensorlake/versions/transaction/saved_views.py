"""Saved views: tags that also hold rows of their version, in an order.

    tags/<name>.json   {branch, seq, digest_of, txid,    as any tag
                        rows: ROOT of row segments,      physical rows, in the view's order
                        columns: […], selection,         names, and the digest of rows in order
                        query: [step, …] | null,         what led to them; null: chosen by hand
                        message, author, time}

Pages of the rows, where there are too many for the object, are stored in packs of the view's own
transaction. Nothing references them until the tag is stored, so it is a race against collectors,
which the clock of the store decides (format.md, "Garbage", rule 2): the tag must be less than grace
/ 2 younger than the oldest pack, else it is withdrawn. Like any tag it is also withdrawn when the
cited version turns out to be gone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    TransactionExpiredError,
    ViewNotFoundError,
)
from tensorlake.format import (
    Entry,
    Root,
    RowSegments,
    seal,
    tag_path,
    tree,
    unseal,
)
from tensorlake.storage import Store, runtime
from tensorlake.versions.log.entries import author, expired_error, is_expired, time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.refs import check_new_name, normal_name
from tensorlake.versions.refs.registry import FoundNames, readable_names, withdraw

__all__ = ["SavedView", "list_views", "read_view", "readable_views", "save_view"]

Step = Mapping[str, Any]
"""One step that led to a view, as JSON: {"tql", "params"} or {"columns"}."""

VIEW_NBYTES_MAX = 1 << 20
"""Maximum size of a view's object: enough for a query with an image's vector, not for a table."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """A name for rows of one version, in an order.

    Attributes:
        digest: Digest of the version's entry.
        rows: Physical rows of that version.
        columns: Names of the columns.
        selection: Digest of the version and its rows in order, as loaders know them.
        query: The steps that selected the rows; None if they were chosen by hand.
        txid: The transaction that put it.
    """

    name: str
    branch: str
    seq: int
    digest: str
    rows: Root[RowSegments]
    columns: tuple[str, ...]
    selection: str
    query: tuple[Step, ...] | None
    message: str = ""
    author: str = ""
    time: int = 0
    txid: str = ""

    @property
    def version(self) -> str:
        """The version, as ``branch@number``."""
        return f"{self.branch}@{self.seq}"

    def to_bytes(self) -> bytes:
        """Write the view's object."""
        return seal(
            {
                "branch": self.branch,
                "seq": self.seq,
                "digest_of": self.digest,
                "txid": self.txid,
                "rows": self.rows.to_json(),
                "columns": list(self.columns),
                "selection": self.selection,
                "query": None if self.query is None else [dict(step) for step in self.query],
                "message": self.message,
                "author": self.author,
                "time": self.time,
            }
        )

    @classmethod
    def from_bytes(cls, name: str, data: bytes, *, where: str) -> SavedView | None:
        """Read a view's object; None where it is another tag, or a tombstone.

        Raises:
            CorruptionError: It is damaged.
        """
        body = unseal(data, where=where)
        if body.get("deleted") or body.get("rows") is None:
            return None
        try:
            query = body["query"]
            return cls(
                name=name,
                branch=str(body["branch"]),
                seq=int(body["seq"]),
                digest=str(body["digest_of"]),
                rows=Root.from_json(body["rows"], RowSegments, where=where),
                columns=tuple(map(str, body["columns"])),
                selection=str(body["selection"]),
                query=None if query is None else tuple(dict(step) for step in query),
                message=str(body["message"]),
                author=str(body["author"]),
                time=int(body["time"]),
                txid=str(body["txid"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptionError(
                f"{where!r} is not a saved view ({error!r})\nrun tensorlake check", object=where
            ) from error


def save_view(
    store: Store,
    packs: PackReader,
    view: SavedView,
    segments: RowSegments,
    *,
    entry: Entry,
    grace_s: int,
) -> SavedView:
    """Name rows of a version.

    Args:
        store: The dataset's store.
        packs: Reads its pages.
        view: The view; author, time and transaction are added here.
        segments: Its physical rows.
        entry: The version.
        grace_s: The dataset's.

    Raises:
        InvalidInputError: The name is taken by another view or version, by a branch, or malformed.
        SnapshotExpiredError: The version expired meanwhile.
        TransactionExpiredError: Storing took half of the dataset's grace time.
    """
    name = runtime.run(check_new_name(store, view.name))
    stage = PackStage(store)
    packs.attach(stage)
    view = replace(
        view,
        name=name,
        rows=_stored_rows(packs, stage, segments),
        author=author(store),
        time=runtime.run(time_in(store)),
        txid=stage.txid,
    )
    data = view.to_bytes()
    if len(data) > VIEW_NBYTES_MAX:
        raise InvalidInputError(
            f"the view {name!r} takes {len(data):,} bytes with its query's parameters, and a view"
            f" has room for {VIEW_NBYTES_MAX:,}\nwrite large values as a tensor and query that",
            view=name,
            expected=VIEW_NBYTES_MAX,
            actual=len(data),
        )
    return runtime.run(_published(store, view, data, stage, entry, grace_s))


async def read_view(store: Store, name: str) -> SavedView:
    """Read a saved view.

    Raises:
        ViewNotFoundError: None of this name was saved, or it was deleted.
    """
    path = tag_path(normal_name(name))
    data = await store.get(path)
    view = None if data is None else SavedView.from_bytes(name, data, where=path)
    if view is None:
        known = sorted(await list_views(store))
        raise ViewNotFoundError(
            f"no view {name!r} was saved in {store.url!r}\nviews: {', '.join(known) or 'none'};"
            " to save one: ds.query(…).save(name)",
            view=name,
            known=known,
        )
    return view


async def readable_views(store: Store) -> FoundNames[SavedView]:
    """Read every saved view that was not deleted, by name, in the names' order."""
    return await readable_names(
        store, lambda name, path, data: SavedView.from_bytes(name, data, where=path)
    )


async def list_views(store: Store) -> dict[str, SavedView]:
    """Read the saved views as ``readable_views``, passing over those that cannot be read."""
    return (await readable_views(store)).found


def _stored_rows(packs: PackReader, stage: PackStage, segments: RowSegments) -> Root[RowSegments]:
    """Store the pages that the rows need, if any; again when a pack got another name."""
    while True:
        renames = stage.renames
        empty = Root.of(RowSegments.empty())
        root = runtime.run(tree.append(empty, segments, packs.pages, stage))
        runtime.run(stage.finish())
        if stage.renames == renames:
            return root


async def _published(
    store: Store, view: SavedView, data: bytes, stage: PackStage, entry: Entry, grace_s: int
) -> SavedView:
    path = tag_path(view.name)
    if not await put_surely(store, path, data):
        found = await store.get(path)
        existing = None if found is None else SavedView.from_bytes(view.name, found, where=path)
        if existing is None or existing.txid != view.txid:
            return _same(store, view, existing)
    newest = await BranchLog(store, view.branch).newest_from(entry)
    if is_expired(entry.seq, newest=newest):
        await withdraw(store, view.name, txid=view.txid)
        raise expired_error(
            view.version,
            store.url,
            newest=newest,
            consequence=f"the view {view.name!r} of it cannot be saved",
            advice="query a newer version, see ds.log()",
        )
    first = stage.first_pack()
    if first is not None and not await _is_young(store, path, first.path, grace_s):
        await withdraw(store, view.name, txid=view.txid)
        raise TransactionExpiredError(
            f"saving the view {view.name!r} took half of the dataset's grace time of"
            f" {grace_s:,} s, so its rows may be collected; nothing was saved\n"
            "save it again, under another name",
            txid=view.txid,
        )
    return view


async def _is_young(store: Store, tag: str, pack: str, grace_s: int) -> bool:
    """Whether the tag came soon after its oldest pack, by the store's clock."""
    put, stored = await store.head(tag), await store.head(pack)
    if put is None or stored is None:
        return False
    return put.modified - stored.modified < dt.timedelta(seconds=grace_s) / 2


def _same(store: Store, view: SavedView, existing: SavedView | None) -> SavedView:
    """The view that has the name already, when it is this one."""
    kept = replace(view, message="", author="", time=0, txid="", rows=Root.of(RowSegments.empty()))
    if existing is not None and kept == replace(
        existing, message="", author="", time=0, txid="", rows=kept.rows
    ):
        return existing
    what = (
        "is a tag, or was used and deleted"
        if existing is None
        else f"is a view of {existing.version} with other rows or columns"
    )
    raise InvalidInputError(
        f"{view.name!r} of {store.url!r} {what}; names are never used twice: choose another",
        view=view.name,
    )
