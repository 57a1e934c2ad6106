"""End a branch: append a final entry to its log.

An ``end`` entry repeats the body of the commit it is based on. Because it takes the next number
like any commit, a writer about to publish loses the race and sees the reason. Nothing is deleted:
the log stays permanently, so its name is never reused, and data referenced only by this branch
stays readable until a collection.
"""

from __future__ import annotations

from tensorlake.errors import ConflictError, InvalidInputError, VersionNotFoundError
from tensorlake.format import MAIN, Changes, Entry, new_txid
from tensorlake.storage import Store
from tensorlake.versions.log.entries import author, check_writable, following, time_in
from tensorlake.versions.log.log import RACES_MAX, BranchLog, list_branches
from tensorlake.versions.refs.refs import normal_name

__all__ = ["end_branch"]


async def end_branch(store: Store, name: str) -> Entry:
    """End a branch; return its last entry.

    Raises:
        InvalidInputError: It is main.
        VersionNotFoundError: There is no such branch, or it has ended already.
        ConflictError: Other writers kept committing to it.
    """
    name = normal_name(name)
    if name == MAIN:
        raise InvalidInputError(
            f"branch {MAIN!r} of {store.url!r} cannot be deleted: a dataset always has it\n"
            "to delete the dataset: tl.delete(url, confirm=url)",
            branch=name,
        )
    log = BranchLog(store, name)
    head = await log.head()
    for _ in range(RACES_MAX):
        if head is None or not head.has_body or head.kind == "end":
            raise await _not_there(store, name, head)
        check_writable(head, url=store.url)
        end = following(
            head,
            branch=name,
            now=await time_in(store),
            kind="end",
            txid=new_txid(),
            author=author(store),
            message=f"end of branch {name}",
            changes=Changes(),
            of=head.seq if head.kind == "commit" else head.of,
        )
        published = await log.publish(end)
        if isinstance(published, Entry):
            await log.write_hint(published)
            return published
        head = await log.newest_from(published.winner)
    raise ConflictError(
        f"branch {name!r} of {store.url!r} moved {RACES_MAX} times while it was being deleted"
        "\nstop its writers, and try again",
        branch=name,
    )


async def _not_there(store: Store, name: str, head: Entry | None) -> VersionNotFoundError:
    known = await list_branches(store)
    why = "has no branch" if head is None else "has no commit yet on branch"
    if head is not None and head.kind == "end":
        why = "has already ended branch"
    return VersionNotFoundError(
        f"{store.url!r} {why} {name!r}\nbranches: {', '.join(known)}", version=name, known=known
    )
