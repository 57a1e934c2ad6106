"""Starting a branch: the one step by step protocol that no sweep can fall between.

A branch that cites a version might be seen, and used, before it is known that the version is still
there. So (format.md, "Garbage", rule 2): entry 0 says only ``begin``; then the version is pinned;
then its log is read again; only then the branch's first commit is put; then the pin goes.
"""

from __future__ import annotations

from tensorlake.errors import InvalidInputError, SnapshotExpiredError
from tensorlake.format import Changes, Entry, Parent, new_txid, seal, tag_path
from tensorlake.storage import Store
from tensorlake.versions.commit import author
from tensorlake.versions.entries import fence_of, following, now_microseconds
from tensorlake.versions.log import BranchLog, LostRace
from tensorlake.versions.refs import check_name

__all__ = ["create_branch"]


async def create_branch(store: Store, name: str, *, source_branch: str, source: Entry) -> Entry:
    """Start branch ``name`` at a commit; its first entry with content is returned.

    A branch whose creator died after ``begin`` is continued.

    Raises:
        InvalidInputError: The name was used before, by a branch or a tag.
        SnapshotExpiredError: The version was given up meanwhile.
    """
    name = check_name(name)
    log = BranchLog(store, name)
    if await store.head(tag_path(name)) is not None:
        message = f"{name!r} is, or was, a tag of {store.url!r}; choose another name"
        raise InvalidInputError(message, branch=name)
    txid = new_txid()
    begin = Entry(kind="begin", seq=0, txid=txid, time=now_microseconds())
    begun = await log.publish(begin)
    first = begin if isinstance(begun, Entry) else begun.winner
    if isinstance(begun, LostRace) and (first.kind != "begin" or await log.entry(1) is not None):
        message = (
            f"{store.url!r} has, or had, a branch {name!r}; names are never used twice:"
            " choose another, or open it with ds.at(name)"
        )
        raise InvalidInputError(message, branch=name)
    pin_path = tag_path(f"pin-{txid}")
    pin = seal({"branch": source_branch, "seq": source.seq, "digest_of": source.digest})
    await store.put_if_absent(pin_path, pin)
    try:
        newest = await BranchLog(store, source_branch).newest_from(source)
        if newest.kind == "end" or fence_of(newest).expired_before > source.seq:
            message = (
                f"{source_branch}@{source.seq} of {store.url!r} was given up while branch"
                f" {name!r} was being made; branch from a newer version, see ds.log()"
            )
            raise SnapshotExpiredError(message, version=f"{source_branch}@{source.seq}")
        parent = Parent(branch=source_branch, seq=source.seq, digest=source.digest)
        merged = {**source.merged, source_branch: source.seq}
        entry = following(
            first,
            branch=name,
            kind="commit",
            txid=txid,
            author=author(),
            message=f"branch from {source_branch}@{source.seq}",
            parents=(parent,),
            merged=merged,
            schema=source.schema,
            roots=source.roots,
            rows=source.rows,
            row_ids=source.row_ids,
            physical=source.physical,
            indexes=source.indexes,
            features=source.features,
            changes=Changes(),
            packs=source.packs,
            spilled=source.spilled,
        )
        published = await log.publish(entry)
        if isinstance(published, LostRace):
            message = f"branch {name!r} of {store.url!r} was just made by another; open it"
            raise InvalidInputError(message, branch=name)
        await log.write_hint(published)
    finally:
        await store.delete(pin_path)
    return published
