"""Start a branch, by a protocol that is safe against concurrent collections.

A branch could be visible, and used, before it is known that the version it references still
exists. So (format.md, "Garbage", rule 2): entry 0 has only the kind ``begin``; then the
version is pinned; then its log is read again; only then the branch's first commit is put; then the
pin is removed.
"""

from __future__ import annotations

from tensorlake.errors import InvalidInputError
from tensorlake.format import Changes, Entry, Parent, new_txid, tag_path
from tensorlake.storage import Store
from tensorlake.versions.log.entries import author, following, time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.pins import pinned
from tensorlake.versions.refs.refs import check_name
from tensorlake.versions.transaction.entry import completed

__all__ = ["create_branch"]


async def create_branch(
    store: Store, name: str, *, source_branch: str, source: Entry, packs: PackReader
) -> Entry:
    """Start branch ``name`` at a commit; its first entry with content is returned.

    A branch whose creator died before that entry is continued, fenced or not.

    Raises:
        InvalidInputError: The name was used before, by a branch or a tag.
        SnapshotExpiredError: The version expired meanwhile.
        TransactionExpiredError: It took longer than the dataset's grace time.
    """
    name = check_name(name)
    log = BranchLog(store, name)
    if await store.head(tag_path(name)) is not None:
        message = f"{name!r} is, or was, a tag of {store.url!r}; choose another name"
        raise InvalidInputError(message, branch=name)
    source = await loaded(source, packs)
    stage = PackStage(store)
    begin = Entry(
        kind="begin", seq=0, txid=new_txid(), time=await time_in(store), author=author(store)
    )
    begun = await log.publish(begin)
    head = begun if isinstance(begun, Entry) else await log.newest_from(begun.winner)
    if head.has_body or head.kind == "end":
        message = (
            f"{store.url!r} has, or had, a branch {name!r}; names are never used twice:"
            " choose another, or open it with ds.at(name)"
        )
        raise InvalidInputError(message, branch=name)
    async with pinned(store, source_branch, source, txid=stage.txid) as pin:
        while True:
            renames = stage.renames
            first = _first_commit(store, head, name, stage.txid, source_branch, source)
            entry = await completed(first, stage, renames=renames)
            if entry is None:
                continue  # a pack was stored under another name: its pages are made again
            published = await log.publish(entry)
            if isinstance(published, Entry):
                break
            head = await log.newest_from(published.winner)
            if head.has_body or head.kind == "end":
                message = f"branch {name!r} of {store.url!r} was just made by another; open it"
                raise InvalidInputError(message, branch=name)
            await pin.check_age(store, head)  # a collector fenced the log that has only begun
        await log.write_hint(published)
    return published


def _first_commit(
    store: Store, head: Entry, name: str, txid: str, source_branch: str, source: Entry
) -> Entry:
    """The source's content, as the first commit of the new branch."""
    return following(
        head,
        branch=name,
        kind="commit",
        txid=txid,
        author=author(store),
        message=f"branch from {source_branch}@{source.seq}",
        parents=(Parent(branch=source_branch, seq=source.seq, digest=source.digest),),
        schema=source.schema,
        roots=source.roots,
        rows=source.rows,
        row_ids=source.row_ids,
        physical=source.physical,
        indexes=source.indexes,
        features=source.features,
        bases=source.bases,
        changes=Changes(),
        packs=source.packs,
        # Its pages hold schema and roots still; the version vector is another's.
        spilled={what: ref for what, ref in source.spilled.items() if what != "merged"},
        merged={**source.merged, source_branch: source.seq},
    )
