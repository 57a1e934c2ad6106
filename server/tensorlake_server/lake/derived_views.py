"""Datasets derived from saved views: what ``pets#cats`` names, and a token for a view reads.

The rows and columns of the view are copied into a dataset of this process's own, so that every
route reads an object that has nothing else: rows are numbered from 0 with new ids, statistics are
of these rows, the history is one commit, and the objects hold no other samples.

    <folder>/<hash of the view's txid and name>/      the copy, made when it is first asked for

Servers of one lake share the folder, where they have one (``derived``): then a client finds the
same row ids and objects on each. Two that make a copy at once make one, by the key of its commit.
The saved view is looked up at each request: once it is deleted, so is its copy. A copy that no
request asks for, perhaps of a server that ended, is found by `DerivedViews.remove_gone`: its commit
notes the name (``meta["view"]``).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import tensorlake as tl
from tensorlake.dataset import copy_inside, rowset_of, saved_inside, session_of
from tensorlake.errors import (
    CorruptionError,
    DatasetNotFoundError,
    NotFoundError,
    QueryLimitError,
    StorageTimeoutError,
    TensorlakeError,
)
from tensorlake.quantities import human_nbytes
from tensorlake.storage import run
from tensorlake.versions import authored_by, list_views, read_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tensorlake.dataset import Dataset, QueryLimits, View
    from tensorlake.versions import SavedView

__all__ = ["DerivedViews"]

TRIES = 6
RETRY_S = 0.05  # before the first of them
HASH_CHARACTERS = 64
UNFINISHED_S = 3600.0
"""After this time a copy without a commit of its own is of a server that ended while it made it."""

PATIENCE_S = 20.0
"""How long a request waits for a copy that another one makes: then its thread is needed."""


@dataclass(slots=True)
class _Copy:
    """A copy of a view; ``lock`` is held while it is made."""

    txid: str
    url: str
    nbytes: int | None = None  # None: not looked for yet
    lock: threading.Lock = field(default_factory=threading.Lock)


class DerivedViews:
    """Copies of saved views, each made once. Thread-safe.

    Args:
        url: Where the copies are; None: a temporary folder.
        options: Options of the store there.
        budget: Bytes that all copies together may have.
        limits: Limits of computing the columns of a view.
    """

    def __init__(
        self,
        url: str | None,
        options: Mapping[str, str] | None,
        *,
        budget: int,
        limits: Callable[[], QueryLimits],
    ) -> None:
        self._url = None if url is None else url.rstrip("/")
        self._options = None if url is None else options
        self._budget = budget
        self._limits = limits
        self._lock = threading.Lock()
        self._copies: dict[str, _Copy] = {}
        self._nbytes_at: dict[str, int] = {}  # of copies in the folder, also of other servers

    @property
    def url(self) -> str | None:
        """Where the copies are; None before the first one in a temporary folder."""
        return self._url

    @property
    def options(self) -> Mapping[str, str] | None:
        """Options of the store there."""
        return self._options

    @property
    def places(self) -> list[tuple[str, str]]:
        """Where each copy is that this process opened, after its name; their folder last."""
        with self._lock:
            folder = [] if self._url is None else [("", self._url)]
            return [*((name, copy.url) for name, copy in self._copies.items()), *folder]

    def names(self, dataset: Dataset) -> list[str]:
        """List the saved views of a dataset."""
        return sorted(run(list_views(session_of(dataset).store)))

    def look_up(self, dataset: Dataset, view: str) -> SavedView:
        """Read a saved view.

        Raises:
            ViewNotFoundError: There is none of this name.
        """
        return run(read_view(session_of(dataset).store, view))

    def url_of(self, name: str, dataset: Dataset, saved: SavedView) -> str:
        """Return where the copy of a view is, after making it if there is none.

        Args:
            name: The name of the copy.
            dataset: The dataset, at any version.
            saved: The saved view.

        Raises:
            QueryLimitError: The copy would be larger than the budget.
            StorageTimeoutError: Another request still makes it.
        """
        copy = self._copy_of(name, saved)
        if copy.nbytes is None:
            self._make(name, copy, dataset, saved)
        return copy.url

    def forget(self, name: str) -> None:
        """Delete the copy of a view that is gone."""
        with self._lock:
            found = self._copies.pop(name, None)
        if found is not None:
            self._remove(found.url)

    def remove_gone(self, look_up: Callable[[str], SavedView | None]) -> None:
        """Delete the copies of views that are gone, whichever server made them.

        Args:
            look_up: Returns the view of a name, as ``pets#cats``; None if there is none.
        """
        if self._url is None:
            return
        hashes = [one for one in self._listed() if len(one) == HASH_CHARACTERS]  # before the views
        nbytes_at: dict[str, int] = {}
        for own in hashes:
            url = f"{self._url}/{own}"
            with suppress(TensorlakeError):  # it is looked for again the next time
                with tl.open(url, read_only=True, storage_options=self._options) as copy:
                    (commit,) = copy.log(1)
                    nbytes = copy.nbytes
                name = commit.meta.get("view")
                if isinstance(name, str):
                    saved = look_up(name)
                    is_gone = saved is None or _hash_of(name, saved) != own
                else:
                    is_gone = datetime.now(UTC) - commit.time > timedelta(seconds=UNFINISHED_S)
                if is_gone:
                    self._remove(url)
                else:
                    nbytes_at[url] = nbytes
        self._nbytes_at = nbytes_at

    def _listed(self) -> list[str]:
        assert self._url is not None
        with suppress(NotFoundError):  # no copy was made yet
            return tl.list(self._url, storage_options=self._options)
        return []

    def _remove(self, url: str) -> None:
        with suppress(DatasetNotFoundError):  # another server was first
            tl.delete(url, confirm=url, storage_options=self._options)
        self._nbytes_at.pop(url, None)

    def _copy_of(self, name: str, saved: SavedView) -> _Copy:
        known = self._copies.get(name)
        if known is not None and known.txid != saved.txid:  # of a dataset that was created again
            self.forget(name)
        with self._lock:
            if self._url is None:
                self._url = tempfile.mkdtemp(prefix="tensorlake-views-")
                weakref.finalize(self, shutil.rmtree, self._url, ignore_errors=True)
            copy = _Copy(saved.txid, f"{self._url}/{_hash_of(name, saved)}")
            return self._copies.setdefault(name, copy)

    def _make(self, name: str, copy: _Copy, dataset: Dataset, saved: SavedView) -> None:
        if not copy.lock.acquire(timeout=PATIENCE_S):
            raise StorageTimeoutError(
                f"{name!r} is still being copied for its first reader\ntry again in a minute"
            )
        try:
            if copy.nbytes is None:
                copy.nbytes = self._nbytes_of(copy, saved)
            if copy.nbytes is None:
                view = saved_inside(dataset, saved.name, self._limits())
                self._check_room(name, dataset, view)
                self._write(name, copy, saved, view)
                copy.nbytes = self._nbytes_of(copy, saved)
        finally:
            copy.lock.release()

    def _write(self, name: str, copy: _Copy, saved: SavedView, view: View) -> None:
        """Write a copy; one that another server begins at the same time is finished by both."""
        for attempt in range(TRIES):
            try:
                with authored_by(saved.author or "tensorlake"):
                    copy_inside(
                        view,
                        copy.url,
                        message=f"the view {saved.name!r}",
                        meta={"view": name},
                        storage_options=self._options,
                    )
            except TensorlakeError:  # perhaps it is half created, by another server
                is_theirs = tl.exists(copy.url, storage_options=self._options)
                if not is_theirs or attempt == TRIES - 1:
                    raise
                if self._nbytes_of(copy, saved) is not None:
                    return
                time.sleep(RETRY_S * 2**attempt)
            else:
                return

    def _nbytes_of(self, copy: _Copy, saved: SavedView) -> int | None:
        """Return the bytes of a copy; None if it is not there, or not complete."""
        try:
            with tl.open(copy.url, read_only=True, storage_options=self._options) as made:
                return made.nbytes if len(made) == saved.rows.rows else None
        except (NotFoundError, CorruptionError):  # not there, or half created
            return None

    def _check_room(self, name: str, dataset: Dataset, view: View) -> None:
        """Refuse a copy that is larger than the room left, by the mean size of the rows.

        Raises:
            QueryLimitError: It is.
        """
        with dataset.at(view.version) as whole:
            columns = {one.name: one.stored_nbytes for one in whole.summary().tensors}
            stored = sum(columns.get(column, 0) for column in rowset_of(view).columns)
            expected = stored * len(view) // max(1, len(whole))
        own = {copy.url: copy.nbytes or 0 for copy in list(self._copies.values())}
        used = sum((self._nbytes_at | own).values())
        if used + expected > self._budget:
            raise QueryLimitError(
                f"{name!r} has about {human_nbytes(expected)}, and copies of views may have"
                f" {human_nbytes(self._budget)} in all, of which {human_nbytes(used)} are used"
                " (derived_nbytes)\nmake it a dataset: view.materialize(url), with a scope for that"
            )


def _hash_of(name: str, saved: SavedView) -> str:
    """Return the folder of a copy: another one for a view that was saved again."""
    return hashlib.sha256(f"{saved.txid} {saved.digest} {name}".encode()).hexdigest()
