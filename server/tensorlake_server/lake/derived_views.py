"""Datasets derived from saved views: what ``pets#cats`` names, and a token for a view reads.

The rows and columns of the view are copied into a dataset of this process's own, so that every
route reads an object that has nothing else: rows are numbered from 0 with new ids, statistics are
of these rows, the history is one commit, and the objects hold no other samples.

    <folder>/<hash of the view's txid and name>/      the copy, made when it is first asked for

The saved view is looked up at each request: once it is deleted, so is its copy.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tensorlake.dataset import rowset_of, saved_inside, session_of
from tensorlake.errors import QueryLimitError, StorageTimeoutError, ViewNotFoundError
from tensorlake.quantities import human_nbytes
from tensorlake.storage import run
from tensorlake.versions import authored_by, list_views, read_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.dataset import Dataset, QueryLimits, View
    from tensorlake.versions import SavedView

__all__ = ["DerivedViews"]

PATIENCE_S = 20.0
"""How long a request waits for a copy that another one makes: then its thread is needed."""


@dataclass(slots=True)
class _Copy:
    """A copy of a view; ``lock`` is held while it is made."""

    folder: Path
    nbytes: int | None = None  # None: not made yet
    lock: threading.Lock = field(default_factory=threading.Lock)


class DerivedViews:
    """Copies of saved views, each made once. Thread-safe.

    Args:
        budget: Bytes that all copies together may have.
        limits: Limits of computing the columns of a view.
    """

    def __init__(self, budget: int, limits: Callable[[], QueryLimits]) -> None:
        self._budget = budget
        self._limits = limits
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._copies: dict[str, tuple[str, _Copy]] = {}  # by name: the view's txid, its copy

    @property
    def folder(self) -> str | None:
        """Where the copies are; None before the first one."""
        return None if self._folder is None else str(self._folder)

    def names(self, dataset: Dataset) -> list[str]:
        """List the saved views of a dataset."""
        return sorted(run(list_views(session_of(dataset).store)))

    def url_of(self, name: str, dataset: Dataset, view: str) -> str:
        """Return where the copy of a view is, after making it if there is none.

        Args:
            name: The name of the copy.
            dataset: The dataset, at any version.
            view: Name of the saved view.

        Raises:
            ViewNotFoundError: There is no such view.
            QueryLimitError: The copy would be larger than the budget.
            StorageTimeoutError: Another request still makes it.
        """
        try:
            saved = run(read_view(session_of(dataset).store, view))
        except ViewNotFoundError:
            self.forget(name)
            raise
        copy = self._copy_of(name, saved)
        if copy.nbytes is None:
            self._make(name, copy, dataset, saved)
        return str(copy.folder)

    def forget(self, name: str) -> None:
        """Delete the copy of a view that is gone."""
        with self._lock:
            found = self._copies.pop(name, None)
        if found is not None:
            shutil.rmtree(found[1].folder, ignore_errors=True)

    def _copy_of(self, name: str, saved: SavedView) -> _Copy:
        known = self._copies.get(name)
        if known is not None and known[0] != saved.txid:  # of a dataset that was created again
            self.forget(name)
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="tensorlake-views-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            found = self._copies.get(name)
            if found is None:
                own = hashlib.sha256(f"{saved.txid} {name}".encode()).hexdigest()
                found = self._copies[name] = saved.txid, _Copy(self._folder / own)
            return found[1]

    def _make(self, name: str, copy: _Copy, dataset: Dataset, saved: SavedView) -> None:
        if not copy.lock.acquire(timeout=PATIENCE_S):
            raise StorageTimeoutError(
                f"{name!r} is still being copied for its first reader\ntry again in a minute"
            )
        try:
            if copy.nbytes is not None:
                return
            view = saved_inside(dataset, saved.name, self._limits())
            self._check_room(name, dataset, view)
            shutil.rmtree(copy.folder, ignore_errors=True)  # left by a copy that failed
            with authored_by(saved.author or "tensorlake"):
                view.materialize(str(copy.folder), message=f"the view {saved.name!r}").close()
            files = (one for one in copy.folder.rglob("*") if one.is_file())
            copy.nbytes = sum(one.stat().st_size for one in files)
        finally:
            copy.lock.release()

    def _check_room(self, name: str, dataset: Dataset, view: View) -> None:
        """Refuse a copy that is larger than the room left, by the mean size of the rows.

        Raises:
            QueryLimitError: It is.
        """
        with dataset.at(view.version) as whole:
            columns = {one.name: one.stored_nbytes for one in whole.summary().tensors}
            stored = sum(columns.get(column, 0) for column in rowset_of(view).columns)
            expected = stored * len(view) // max(1, len(whole))
        used = sum(copy.nbytes or 0 for _, copy in list(self._copies.values()))
        if used + expected > self._budget:
            raise QueryLimitError(
                f"{name!r} has about {human_nbytes(expected)}, and copies of views may have"
                f" {human_nbytes(self._budget)} in all, of which {human_nbytes(used)} are used"
                " (derived_nbytes)\nmake it a dataset: view.materialize(url), with a scope for that"
            )
