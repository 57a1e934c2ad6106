"""``tl.fork`` and the bases of a fork: making one, and making it independent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from tensorlake.dataset.core.progress import Progress
from tensorlake.dataset.core.session import Session
from tensorlake.errors import (
    InvalidInputError,
    ReadOnlyError,
    UncommittedChangesError,
    UnsupportedStoreError,
)
from tensorlake.quantities import human_nbytes, plural
from tensorlake.storage import LinkStore, is_lake_url, open_store, place_text, runtime
from tensorlake.versions import absorb_bases, fork_dataset, refuse_occupied, sizes_of, warn_untagged

__all__ = ["absorb", "make_fork", "own_nbytes"]


def make_fork(
    base: str | PathLike[str],
    url: str | PathLike[str],
    version: str | dt.datetime | None,
    *,
    storage_options: Mapping[str, Any] | None,
) -> None:
    """Make a fork of a version; see ``tl.fork``."""
    target = place_text(url, what="url")
    if is_lake_url(target):
        raise UnsupportedStoreError(
            f"a fork cannot be made at {target!r}, through a server"
            "\nfork to the store of the server's lake: a folder or a bucket",
            url=target,
        )
    store = open_store(target, storage_options=storage_options)
    links = LinkStore.of(store)
    place = links.stored_url(_whole(base))
    inner = links.dataset(place).url.rstrip("/") + "/"
    if f"{store.url.rstrip('/')}/".startswith(inner):
        raise InvalidInputError(
            f"a fork cannot be made at {store.url!r}, inside its base {place!r}"
            "\nname a place beside it",
            argument="url",
        )
    runtime.run(refuse_occupied(store, storage_options))
    made = runtime.run(fork_dataset(links.dataset(place), place, store, version))
    if made.tag is None:
        warn_untagged(made.entry.bases[0], store.url)


def absorb(session: Session, *, progress: bool | None = None) -> int:
    """Copy what the fork needs of its bases into it, and commit; return the packs copied."""
    session.check_open()
    if not session.is_writable:
        raise ReadOnlyError(
            f"this handle of {session.store.url!r} is at {session.name!r} and cannot write"
            "\nopen a branch: tl.open(url)",
            version=session.name,
        )
    with session.lock:
        if session.transaction is not None:
            raise UncommittedChangesError(
                f"{session.store.url!r} has staged changes, and absorb() commits"
                "\ncommit or discard them first"
            )
        session.refresh()
        if not session.head.bases:
            return 0
        with Progress(f"absorb into {session.store.url}", total=0, shown=progress) as bar:
            advance = partial(_advance, bar, [0])
            copied, _ = absorb_bases(session.log, session.packs, session.head, progress=advance)
            bar.finish(f"{plural(copied.copied, 'pack')}, {human_nbytes(copied.nbytes)}")
        session.refresh()
    return copied.copied


def own_nbytes(session: Session) -> int | None:
    """Return the bytes of the packs in a fork's own store; None if the version has no base."""
    if not session.head.bases:
        return None
    return sum(runtime.run(sizes_of(session.store)).values())


def _advance(bar: Progress, before: list[int], done: int, _total: int) -> None:
    bar.advance(done - before[0], 0)
    before[0] = done


def _whole(base: str | PathLike[str]) -> str | PathLike[str]:
    """Return a path from the root, or the URL: a fork may be opened from any folder."""
    text = place_text(base, what="base")
    return text if "://" in text else Path(text).expanduser().absolute()
