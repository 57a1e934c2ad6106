"""Which objects clients may put: what a commit of theirs is made of, and nothing else.

packs/3f/….tlp                new                a scope to write any branch
branches/main/0000000013.json new, the next one  a scope for that branch; an entry that is valid
branches/main/HEAD            may be replaced    a scope for that branch; an entry of its log
tags/pin-….json               new                a scope to write any branch
tags/v1.json                  new                a scope for the whole dataset; of a version there
                              by a tombstone     likewise
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from tensorlake.errors import (
    AccessError,
    CorruptionError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from tensorlake.format import (
    DESCRIPTOR,
    Entry,
    PackId,
    entry_path,
    head_path,
    parse_entry_path,
    parse_tag_path,
)
from tensorlake.storage import ObjectExistsError, Store, run
from tensorlake.versions import (
    Offer,
    TagOffer,
    admitted_entry,
    check_tag_admitted,
)
from tensorlake_server.auth.scopes import EVERY

if TYPE_CHECKING:
    from tensorlake_server.lake.authorized_lake import AllowedLake

__all__ = ["FormatRules", "ObjectRules"]

PIN_PREFIX = "pin-"
HEAD = "/HEAD"
FIRST_ENTRY = "0000000000.json"
OBJECT = re.compile(
    rf"{re.escape(DESCRIPTOR)}|(?:branches|tags|packs|descriptor)/[a-z0-9_./-]+(?:HEAD)?"
    r"|forgotten/[0-9a-f]{32}-cleaned\.json"  # by which a client refuses versions
)


class ObjectRules(Protocol):
    """The objects of a dataset's folder that are served, and those that are accepted."""

    def is_object(self, path: str) -> bool:
        """Whether a path can be one of the dataset's objects."""
        ...

    def check_put(
        self, lake: AllowedLake, name: str, store: Store, path: str, body: bytes, *, replaces: bool
    ) -> None:
        """Check that a client may put this object.

        Raises:
            AccessError: Their scopes, or the format, do not allow it.
            InvalidInputError: The object does not match its path.
            ObjectExistsError: The number of an entry is taken: another was faster.
        """
        ...


class FormatRules:
    """The rules of the format, drawn above."""

    def is_object(self, path: str) -> bool:
        """Whether a path is one of the format's; other objects are not served.

        >>> rules = FormatRules()
        >>> [rules.is_object(path) for path in ("packs/3f/018f-0.tlp", "notes.txt", "tags/../x")]
        [True, False, False]
        """
        return OBJECT.fullmatch(path) is not None and ".." not in path.split("/")

    def check_put(
        self, lake: AllowedLake, name: str, store: Store, path: str, body: bytes, *, replaces: bool
    ) -> None:
        """Check that a client may put this object; see `ObjectRules`."""
        _check_put(lake, name, store, path, body, replaces=replaces)


def _check_put(
    lake: AllowedLake, name: str, store: Store, path: str, body: bytes, *, replaces: bool
) -> None:
    tag = _parsed_tag(path)
    entry_of = _parsed_entry(path)
    head_of = _branch_of_head(path)
    if PackId.from_path(path) is not None and not replaces:
        lake.check_writable(name, None)
    elif entry_of is not None and not replaces:
        branch, number = entry_of
        lake.check_writable(name, branch)
        offer = Offer(store, branch, number, body, lake.author)
        try:
            run(admitted_entry(offer))
        except InvalidInputError as error:
            if run(store.head(path)) is None:
                raise
            raise ObjectExistsError(f"{path!r} is there already", path=path) from error
    elif head_of is not None and replaces:
        lake.check_writable(name, head_of)
        _check_hint(store, head_of, path, body)
    elif tag is not None:
        is_pin = tag.startswith(PIN_PREFIX)
        lake.check_writable(name, None if is_pin and not replaces else EVERY)
        run(check_tag_admitted(TagOffer(store, tag, body, lake.author, replaces=replaces)))
    else:
        lake.check_readable(name)
        raise AccessError(
            f"{path!r} is not an object that clients {'replace' if replaces else 'put'}"
            "\nthey put packs, log entries and tags; do all else where the lake can be reached",
            path=path,
        )


def _check_hint(store: Store, branch: str, path: str, body: bytes) -> None:
    """Refuse a hint that is not a copy of a published entry."""
    try:
        entry = Entry.from_bytes(body, where=path)
    except (CorruptionError, UnsupportedFeatureError) as error:
        raise InvalidInputError(
            f"the object put at {path!r} is not a log entry: {error}"
        ) from error
    if run(store.get(entry_path(branch, entry.seq))) != body:
        raise InvalidInputError(
            f"{path!r} would name an entry that is not in the branch's log\nput the entry first",
            path=path,
        )


def _parsed_tag(path: str) -> str | None:
    try:
        return parse_tag_path(path)
    except CorruptionError:
        return None  # no name is written like this


def _parsed_entry(path: str) -> tuple[str, int] | None:
    try:
        return parse_entry_path(path)
    except CorruptionError:
        return None


def _branch_of_head(path: str) -> str | None:
    """The branch whose hint lies here: found as its first entry's, so that one rule names both."""
    if not path.endswith(HEAD):
        return None
    found = _parsed_entry(f"{path.removesuffix(HEAD)}/{FIRST_ENTRY}")
    return None if found is None or head_path(found[0]) != path else found[0]
