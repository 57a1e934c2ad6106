"""Tags: names for versions, and the resolution of version strings.

A tag is one immutable object, put if absent: ``{branch, seq, digest, txid, expires?}``. It is
written first, and then the log it references is read again; if the version has expired meanwhile,
the tag is withdrawn (format.md, "Garbage", rule 2). Deleting leaves a tombstone, so that a name
once used never has two meanings.

A version string is ``branch``, ``branch@number``, a tag, or an aware datetime (the newest commit of
main at that time). A branch takes precedence over a tag of the same name; creating such a tag is
refused.
"""

from __future__ import annotations

import datetime as dt
import difflib
import unicodedata
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidStateError,
    NotFoundError,
    SnapshotExpiredError,
    VersionNotFoundError,
    shown,
)
from tensorlake.format import (
    PIN_PREFIX,
    Entry,
    new_txid,
    seal,
    tag_path,
)
from tensorlake.quantities import is_whole_number
from tensorlake.storage import Store
from tensorlake.versions.log.by_time import newest_at
from tensorlake.versions.log.entries import (
    check_text,
    entry_number,
    expired_error,
    is_expired,
    microseconds,
    time_of,
)
from tensorlake.versions.log.log import BranchLog, list_branches
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.refs.forgotten import forgotten_before
from tensorlake.versions.refs.registry import (
    Citation,
    FoundNames,
    parse_citation,
    read_citation,
    readable_names,
    withdraw,
)

__all__ = [
    "Resolved",
    "Tag",
    "check_name",
    "check_new_name",
    "commit_under",
    "create_tag",
    "delete_tag",
    "list_tags",
    "read_tag",
    "readable_tags",
    "refuse_forgotten",
    "resolve",
]

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one commit."""

    name: str
    branch: str
    seq: int
    digest: str
    txid: str
    expires: dt.datetime | None = None
    is_view: bool = False  # it also has rows: see transaction/saved_views.py

    def __repr__(self) -> str:
        until = "" if self.expires is None else f", until {self.expires:%Y-%m-%d}"
        return f"Tag {self.name!r} of {self.version}{until}"

    @property
    def version(self) -> str:
        """The commit it names, as ``branch@number``."""
        return f"{self.branch}@{self.seq}"

    def to_bytes(self) -> bytes:
        """Write the tag's object."""
        body: dict[str, Any] = {
            "branch": self.branch,
            "digest_of": self.digest,
            "seq": self.seq,
            "txid": self.txid,
        }
        if self.expires is not None:
            body["expires"] = self.expires.isoformat()
        return seal(body)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The resolved form of a version string."""

    branch: str
    entry: Entry
    is_writable: bool
    name: str  # as the user wrote it: "main", "main@12", "v1"
    mirror_of: str | None = None  # the dataset that this one follows


async def read_tag(store: Store, name: str) -> Tag | None:
    """Read a tag; None when there is none, or it was deleted."""
    found = await read_citation(store, tag_path(name))
    return None if found is None else _tag(found)


def _tag(citation: Citation) -> Tag:
    return Tag(
        citation.name,
        citation.branch,
        citation.seq,
        citation.digest,
        citation.txid,
        citation.expires,
        is_view=citation.rows is not None,
    )


async def readable_tags(store: Store) -> FoundNames[Tag]:
    """Read every tag that was not deleted and is not a saved view.

    Pins are left out. The names are sorted, whatever order the store lists them in.
    """

    def tag_at(_name: str, path: str, data: bytes) -> Tag | None:
        citation = parse_citation(path, data)
        return None if citation is None or citation.rows is not None else _tag(citation)

    return await readable_names(store, tag_at)


async def list_tags(store: Store) -> dict[str, Tag]:
    """Read the tags that can be read; skip the others."""
    return (await readable_tags(store)).found


async def create_tag(
    store: Store,
    name: str,
    entry: Entry,
    branch: str,
    *,
    expires: dt.datetime | None = None,
    is_random: bool = False,
) -> Tag:
    """Name a commit, permanently unless ``expires`` is given.

    ``is_random`` states that no branch can have the name.

    Raises:
        InvalidInputError: The name is taken by another version, by a branch, or malformed.
        SnapshotExpiredError: The version has expired, perhaps while the tag was made.
    """
    name = name if is_random else await check_new_name(store, name)
    tag = Tag(name, branch, entry.seq, entry.digest, new_txid(), expires)
    if not await put_surely(store, tag_path(name), tag.to_bytes()):
        found = await read_tag(store, name)
        same = (tag.branch, tag.seq, False)
        if found is None or (found.branch, found.seq, found.is_view) != same:
            raise _taken(store, name, found)
        if found.txid != tag.txid:
            return found
    newest = await BranchLog(store, branch).newest_from(entry)
    if is_expired(entry.seq, newest=newest):
        await withdraw(store, tag.name, txid=tag.txid)
        raise expired_error(
            tag.version,
            store.url,
            newest=newest,
            consequence=f"it cannot be tagged {name!r}",
            advice="tag a newer version, see ds.log()",
        )
    return tag


def normal_name(name: str) -> str:
    """Return a name in the spelling that the log and its objects use."""
    return unicodedata.normalize("NFC", check_text(name, what="the name"))


def check_name(name: str) -> str:
    """Return a new branch's or tag's name; refuse one that a version string cannot contain."""
    name = normal_name(name)
    if "@" in name:
        message = f"the name {name!r} has an '@', as only versions have; leave it out"
        raise InvalidInputError(message, name=name)
    return name


async def check_new_name(store: Store, name: str) -> str:
    """Return the name of a new tag or saved view; refuse an invalid one, or a branch's.

    Raises:
        InvalidInputError: With the reason.
    """
    name = check_name(name)
    if name.startswith(PIN_PREFIX):
        message = f"tag {name!r}: names that start with {PIN_PREFIX!r} are reserved; choose another"
        raise InvalidInputError(message, tag=name)
    if await BranchLog(store, name).entry(0) is not None:
        message = f"{name!r} is a branch of {store.url!r}; choose another name for the tag"
        raise InvalidInputError(message, tag=name)
    return name


async def check_free_name(store: Store, name: str) -> str:
    """Return the name for a tag of a version that is not published yet.

    Raises:
        InvalidInputError: The name is or was used, belongs to a branch, or is malformed.
    """
    name = await check_new_name(store, name)
    if await store.head(tag_path(name)) is not None:
        raise _taken(store, name, await read_tag(store, name))
    return name


def _taken(store: Store, name: str, found: Tag | None) -> InvalidInputError:
    what = "was used and deleted" if found is None else f"is {found.version} already"
    what = f"is a saved view of {found.version}" if found is not None and found.is_view else what
    return InvalidInputError(
        f"tag {name!r} of {store.url!r} {what}; tags do not move: choose another name",
        tag=name,
    )


async def delete_tag(store: Store, name: str) -> None:
    """Delete a tag or a saved view.

    Its name stays used; the version stays readable while its branch has it.
    """
    name = normal_name(name)
    tag = await read_tag(store, name)
    if tag is None:
        raise await _not_found(store, name)
    await withdraw(store, tag.name, txid=tag.txid)


async def resolve(
    store: Store,
    version: str | dt.datetime | None,
    *,
    branch: str = MAIN,
    follows_hint: bool = False,
) -> Resolved:
    """Find the entry that a version string or a time denotes.

    Args:
        store: The dataset's store.
        version: ``branch``, ``branch@number``, a tag, or an aware datetime; None is ``main``.
        branch: The branch whose commits are searched for a time.
        follows_hint: Whether a branch's HEAD is its head, as in a mirror.

    Raises:
        VersionNotFoundError: There is no such branch, commit or tag; the message names near ones.
        InvalidInputError: It is of another type, or names a saved view.
        SnapshotExpiredError: Rows of it were forgotten.
    """
    if isinstance(version, dt.datetime):
        return await _at_time(store, version, branch)
    if version is not None and not isinstance(version, str):
        raise _no_version(version, branch)
    name = MAIN if version is None else normal_name(version)
    branch, at, text = name.rpartition("@")
    number = entry_number(text)
    if at and number is not None:
        entry = await BranchLog(store, branch).entry(number)
        if entry is None or not entry.has_body:
            raise await _not_found(store, name)
        return await _kept(store, branch, await commit_under(store, branch, entry), name)
    head = await BranchLog(store, name, follows_hint=follows_hint).head()
    if head is not None:
        if not head.has_body:
            message = f"branch {name!r} of {store.url!r} has no commit yet; create it again"
            raise VersionNotFoundError(message, version=name)
        return Resolved(name, head, is_writable=head.kind != "end", name=name)
    tag = await read_tag(store, name)
    if tag is None:
        raise await _not_found(store, name)
    if tag.is_view:
        raise InvalidInputError(
            f"{name!r} of {store.url!r} is a saved view, some rows of {tag.version}\n"
            f"open it by tl.open(url).views[{name!r}], or all rows by version={tag.version!r}",
            version=name,
        )
    entry = await BranchLog(store, tag.branch).existing(tag.seq)
    if entry.digest != tag.digest:
        message = f"tag {name!r} cites {tag.version} with another digest; run tensorlake check"
        raise InvalidStateError(message, tag=name)
    return Resolved(tag.branch, entry, is_writable=False, name=name)


async def commit_under(store: Store, branch: str, entry: Entry) -> Entry:
    """Step from a fence or an end to the commit it is based on."""
    while entry.kind != "commit" and entry.seq > 0:
        entry = await BranchLog(store, branch).existing(entry.seq - 1)
    return entry


def _no_version(version: object, branch: str) -> InvalidInputError:
    """Build the error for values of other types, such as a bare number."""
    hint = "pass a branch, a commit 'main@12', a tag, or a timezone-aware datetime"
    if is_whole_number(version):
        hint = f"a commit has the number of its branch: version='{branch}@{shown(int(version))}'"
    elif isinstance(named := getattr(version, "version", None), str):  # a Commit, Tag or handle
        hint = f"pass its version: version={shown(named)}"
    return InvalidInputError(
        f"version={shown(version)} of type {type(version).__name__} is not a version\n{hint}",
        version=version,
    )


def _is_time(name: str) -> bool:
    try:
        return dt.datetime.fromisoformat(name) is not None
    except ValueError:
        return False


async def _at_time(store: Store, when: dt.datetime, branch: str) -> Resolved:
    if when.tzinfo is None:
        message = (
            f"version {when.isoformat()!r} has no time zone; give an aware datetime,"
            " such as datetime.now(datetime.timezone.utc)"
        )
        raise InvalidInputError(message, version=when)
    found = await newest_at(BranchLog(store, branch), microseconds(when))
    first = found.first
    if first is None:
        raise await _not_found(store, branch)
    if found.newest is None:
        source = next((parent for parent in first.parents if parent.branch != branch), None)
        raise VersionNotFoundError(
            f"branch {branch!r} of {store.url!r} has nothing as old as {when.isoformat()}:"
            f" its first commit, {branch}@{first.seq}, is of {time_of(first).isoformat()}\n"
            + (
                "give a later time, see ds.log()"
                if source is None
                else f"before that it was {source.branch!r}: ds.at({source.branch!r}).at(time)"
            ),
            version=when,
        )
    under = await commit_under(store, branch, found.newest)
    return await _kept(store, branch, under, f"{branch}@{under.seq}")


async def _kept(store: Store, branch: str, entry: Entry, name: str) -> Resolved:
    """Return a version by its number."""
    await refuse_forgotten(store, branch, entry.seq)
    return Resolved(branch, entry, is_writable=False, name=name)


async def refuse_forgotten(store: Store, branch: str, seq: int) -> None:
    """Refuse a version that expired because rows of it were forgotten.

    Raises:
        SnapshotExpiredError: It did, and no tag or saved view names it.
    """
    head = await BranchLog(store, branch).head()
    if head is None or not is_expired(seq, newest=head):
        return
    stops = await forgotten_before(store, branch)
    if stops <= seq or await _is_named(store, branch, seq):
        return
    where = f"{branch!r} is without them from {branch}@{stops} on\nopen that or a newer version"
    if head.kind == "end":
        where = f"branch {branch!r} has ended\nopen another branch, see ds.branches"
    raise SnapshotExpiredError(
        f"{branch}@{seq} of {store.url!r} has expired: rows were forgotten, and {where}",
        version=f"{branch}@{seq}",
    )


async def _is_named(store: Store, branch: str, seq: int) -> bool:
    """Whether a tag or a saved view names a version."""

    def cited(_name: str, path: str, data: bytes) -> Citation | None:
        return parse_citation(path, data)

    named = (await readable_names(store, cited)).found.values()
    return any((one.branch, one.seq) == (branch, seq) for one in named)


async def _not_found(store: Store, name: str) -> NotFoundError:
    branches = await list_branches(store)
    if name == MAIN:
        return DatasetNotFoundError(
            f"the dataset at {store.url!r} was begun, but its creation was interrupted\n"
            "complete it with tl.create(url, schema)",
            dataset=store.url,
        )
    known = [*branches, *await list_tags(store)]
    branch, at, _ = name.rpartition("@")
    near = difflib.get_close_matches(branch if at else name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near and near[0] != branch else ""
    if at and branch in branches and (head := await BranchLog(store, branch).head()) is not None:
        hint = f"the newest of {branch!r} is {branch}@{head.seq}; "
    elif not at and name.isascii() and name.isdigit():
        hint = f"did you mean {f'{MAIN}@{name}'!r}? "
    elif _is_time(name):
        hint = f"for a time pass a datetime: datetime.fromisoformat({name!r}); "
    return VersionNotFoundError(
        f"{store.url!r} has no branch, tag or commit {name!r}\n"
        f"{hint}branches: {', '.join(branches)}; tags:"
        f" {', '.join(known[len(branches) :]) or 'none'}",
        version=name,
        known=known,
    )
