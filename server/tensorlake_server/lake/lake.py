"""Datasets of the served lake, by name and version: the one place that opens any.

A name is a path under the lake's URL, and nothing else: no empty, ``.`` or ``..`` part, nothing
absolute, and in a local folder no link that leads out of it. A name that does not resolve is
"not found", so that names reveal nothing about files outside. ``pets#cats`` is the saved view
``cats`` of ``pets``, as a dataset of its own (derived_views.py).

Handles of fixed versions and the views used last are kept: a request opens nothing. All is a cache.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import tensorlake as tl
from tensorlake.dataset import (
    QueryLimits,
    begin_work,
    query_inside,
    replay_inside,
    rowset_of,
    saved_inside,
    session_of,
    step_inside,
)
from tensorlake.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
    VersionNotFoundError,
    ViewNotFoundError,
)
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import LocalStore, LruCache, open_store, reading_bases, run
from tensorlake.versions import is_dataset, read_view
from tensorlake_server.auth.view_token import ViewQuery, read_token
from tensorlake_server.http.caching import is_fixed
from tensorlake_server.lake.derived_views import DerivedViews
from tensorlake_server.lake.runs import KnownRuns
from tensorlake_server.lake.staged_rows import StagedRows, read_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.dataset import Dataset, StepRows, View, Work, WorkKey
    from tensorlake.storage import Store
    from tensorlake.types import SampleType
    from tensorlake.versions import SavedView
    from tensorlake_server.lake.staged_rows import Int64Array
    from tensorlake_server.messages.row_request import AskedRows
    from tensorlake_server.settings.settings import Settings

__all__ = ["VIEW", "Lake", "Readable"]

Readable: TypeAlias = "Dataset | View"

CHECK_S = 10.0  # until the lake counts as one that does not answer
KEPT_HANDLES = 8  # each may hold 256 MiB of chunks
KEPT_VIEWS = 64  # at most; a large one takes the place of several
KEPT_STORES = 256
VIEW = "#"
"""Between the names of a dataset and of a saved view; a server serves no dataset with it."""


class Lake:
    """One dataset, or all datasets under a folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = settings.url.rstrip("/")
        self._options = settings.storage_options
        self._handles: LruCache[tuple[str, str], Dataset] = LruCache(KEPT_HANDLES)
        # what a branch's newest commit was, when somebody asked last
        self._tips: LruCache[tuple[str, str | None], str] = LruCache(KEPT_STORES)
        self._stores: LruCache[str, Store] = LruCache(KEPT_STORES)
        self._views: LruCache[tuple[str, str, str], View] = LruCache(settings.views_nbytes)
        self._staged = StagedRows(settings.selections_nbytes, settings.selections)
        self._derived = DerivedViews(
            settings.derived,
            settings.storage_options,
            budget=settings.derived_nbytes,
            limits=settings.query_limits,
        )
        self._runs = KnownRuns()
        self._store = open_store(self._url, storage_options=self._options)
        self.is_one_dataset = run(is_dataset(self._store))

    @property
    def url(self) -> str:
        """The datasets that are served."""
        return self._url

    def names(self) -> list[str]:
        """List the datasets; what a link leads to outside is none of the lake's."""
        if self.is_one_dataset:
            return [self._own_name]
        found = tl.list(self._url, storage_options=self._options)
        return [name for name in found if VIEW not in name and not self._leads_out(name)]

    def split(self, name: str) -> tuple[str, str | None]:
        """Split a name into that of a dataset, and of a saved view of it, if any."""
        if self.is_one_dataset and name == self._own_name:
            return name, None
        start = len(self._own_name) if self.is_one_dataset else 0
        dataset, mark, view = name[start:].partition(VIEW)
        return name[:start] + dataset, view if mark else None

    def view_names(self, name: str) -> list[str]:
        """List the saved views of a dataset."""
        return self._derived.names(self.open(name))

    def check(self) -> None:
        """See that the lake is there, and answers.

        Raises:
            StorageError: It is not, or does not.
            AccessError: It may not be read.
        """
        if isinstance(self._store, LocalStore):
            self._store.check_readable()
        if not self.is_one_dataset:
            run(self._store.folders(""), timeout_s=CHECK_S)
        elif run(self._store.head(DESCRIPTOR), timeout_s=CHECK_S) is None:
            raise StorageError(
                f"the dataset {self._url!r} is gone: it has no {DESCRIPTOR}"
                "\nbring it back from a copy, or serve another",
                url=self._url,
            )

    def url_of(self, name: str) -> str:
        """Where a dataset is.

        Raises:
            DatasetNotFoundError: No dataset of the lake can have this name.
        """
        if self.split(name)[1] is not None:
            return self._derived.url_of(name, *self._saved(name))
        parts = name.split("/")
        if self.is_one_dataset:
            if name != self._own_name:
                raise self.not_found(name)
            return self._url
        is_path = all(part not in ("", ".", "..") for part in parts)
        if not is_path or "\\" in name or not name.isprintable() or self._leads_out(name):
            raise self.not_found(name)
        return f"{self._url}/{name}"

    def check_there(self, name: str) -> None:
        """Check that a dataset, or a saved view, is there; else DatasetNotFoundError."""
        if self.split(name)[1] is None:
            self.open(name)
        else:
            self._saved(name)

    def remove_old_copies(self) -> None:
        """Delete copies of saved views that are gone; see `DerivedViews.remove_gone`."""

        def look_up(name: str) -> SavedView | None:
            dataset, view = self.split(name)
            try:
                return run(read_view(self.store(dataset), view or ""))
            except (ViewNotFoundError, DatasetNotFoundError):
                return None

        self._derived.remove_gone(look_up)

    def open(self, name: str, version: str | None = None, digest: str | None = None) -> Dataset:
        """Open a version: a commit, tag or branch; None is main's newest.

        Args:
            name: The dataset's name.
            version: As ``tl.open`` takes it.
            digest: The commit must have it, when it is given: a dataset that was deleted and
                created again has other commits under the same names.

        Raises:
            DatasetNotFoundError: There is no such dataset.
            VersionNotFoundError: There is no such version, or it is another one now.
        """
        url = self.url_of(name)
        handle = self._handles.get((name, version)) if version and is_fixed(version) else None
        if handle is None:
            with self._found(name):
                handle = self._opened(name, url, version)
        actual = rowset_of(handle).selection.snapshot.digest
        if digest is not None and not actual.startswith(digest):
            raise VersionNotFoundError(
                f"{name!r} has another {handle.version} now ({actual[:8]}, not {digest[:8]})"
                "\nit was created again: open it without a version",
                version=version,
                expected=digest,
                actual=actual,
            )
        return handle

    def kept(self, name: str, version: str) -> Dataset | None:
        """Look up a commit that is open already, without asking the store anything."""
        is_view = self.split(name)[1] is not None  # is it still there? That is asked of the store
        return self._handles.get((name, version)) if is_fixed(version) and not is_view else None

    def begin(
        self, name: str, branch: str, *, base: str | None = None, key: WorkKey | None = None
    ) -> Work:
        """Open a branch for writing; see `begin_work`."""
        url = self.url_of(name)
        with self._found(name):
            return begin_work(url, branch, base=base, key=key, storage_options=self._options)

    def store(self, name: str) -> Store:
        """Open where a dataset's objects are.

        Raises:
            DatasetNotFoundError: There is no such dataset.
        """
        store = self.kept_store(name)
        if store is None:
            url = self.url_of(name)
            options = self._options_of(name)
            if not tl.exists(url, storage_options=options):
                raise self.not_found(name)
            store = open_store(url, storage_options=options)
            self._stores.put(name, store)
        return store

    def kept_store(self, name: str) -> Store | None:
        """Look up where a dataset's objects are, without asking the store anything.

        Raises:
            DatasetNotFoundError: No dataset of the lake can have this name.
        """
        if self.split(name)[1] is not None:
            return None
        self.url_of(name)
        return self._stores.get(name)

    def create(
        self, name: str, schema: Mapping[str, SampleType], *, grace: str, exist_ok: bool
    ) -> Dataset:
        """Make a dataset; see ``tl.create``.

        Raises:
            InvalidInputError: It can have no such name here.
        """
        try:
            url, options = self.url_of(name), self._options
        except DatasetNotFoundError as error:
            shown = (
                "this server serves one dataset" if self.is_one_dataset else "no name of a dataset"
            )
            raise InvalidInputError(
                f"{name!r} cannot be made here: {shown}"
                "\ngive names joined by '/', inside of a lake, none of them empty, '.' or '..'",
                dataset=name,
            ) from error
        parents = name.split("/")[:-1]
        around = ["/".join(parents[: depth + 1]) for depth in range(len(parents))]
        inside = [one for one in tl.list(url, storage_options=options) if one != "."]
        taken = [one for one in around if tl.exists(self.url_of(one), storage_options=options)]
        if inside or taken:
            raise InvalidInputError(
                f"{name!r} would lie inside a dataset, or around one: {(taken or inside)[0]!r}"
                "\nchoose another name",
                dataset=name,
            )
        return tl.create(url, schema, grace=grace, exist_ok=exist_ok, storage_options=options)

    def delete(self, name: str) -> list[str]:
        """Remove a dataset for good; return what was left at its place, see ``tl.delete``."""
        url = self.url_of(name)
        with self._found(name):
            left = tl.delete(url, confirm=url, storage_options=self._options)
        self._handles.discard(lambda key: key[0] == name)
        self._stores.discard(lambda key: key == name)
        self._runs.discard(lambda one: one == url)
        return left

    def view(self, name: str, token: str) -> tuple[ViewQuery, View]:
        """Open the result of a query, evaluating it again where it is not kept.

        Raises:
            ViewNotFoundError: The token is none of ours, or of another dataset.
        """
        query = read_token(token, key=self._settings.signing_key)
        if query.dataset != name:
            raise DatasetNotFoundError(
                f"the view is of {query.dataset!r}, not of {name!r}"
                f"\nread it as /v1/datasets/{query.dataset}/rows?view=…"
            )
        if self.split(name)[1] is not None:
            self.url_of(name)  # it is there still: what is kept of it outlives it
        key = (name, query.version, token)
        view = self._views.get(key)
        if view is None:
            view = self._evaluated(self.open(name, query.version, query.digest), query)
        self._put_view(key, view)
        return query, view

    def save_view(self, name: str, token: str, saved: str, message: str) -> View:
        """Give the result of a query a name in the dataset; see ``View.save``.

        Raises:
            InvalidInputError: The name is taken, or the result has no rows of the dataset.
        """
        query, view = self.view(name, token)  # that it is of this dataset, as it was
        dataset = tl.open(self.url_of(name), query.version, storage_options=self._options)
        if query.batch is not None:  # its rows; what was logged of them is in the run
            return dataset[view.rows].save(saved, message)
        return self._evaluated(dataset, query).save(saved, message)

    def select(self, name: str, version: str | None, runs: bytes) -> tuple[ViewQuery, View]:
        """Stage rows that a client selected, and open them as a result.

        Raises:
            InvalidInputError: They are not runs of the version's rows.
            QueryLimitError: They are too many.
        """
        dataset = self.open(name, version)
        rows = self._rows_of(dataset, runs)
        query = ViewQuery(
            dataset=name,
            version=dataset.version,
            digest=rowset_of(dataset).selection.snapshot.digest,
            tql="",
            rows=self._staged.put(runs),
        )
        return query, dataset[rows]

    def run(self, name: str, run_name: str, limits: QueryLimits) -> AbstractContextManager[tl.Run]:
        """Open a run that was recorded beside a dataset; see ``KnownRuns.open``."""
        return self._runs.open(self.open(name), run_name, limits)

    def step(
        self, name: str, version: str | None, run: tl.Run, step: int, rank: int | None
    ) -> tuple[ViewQuery, View, StepRows]:
        """Open the batch of a run's step as a result.

        Returns:
            The result, of the rows that the version shows; and the rows of the batch.

        Raises:
            InvalidInputError: There is no such step or rank.
            SnapshotExpiredError: The version that the run read has expired.
        """
        dataset = self.open(name, version)
        view, found = step_inside(dataset, run, step, rank)
        query = ViewQuery(
            dataset=name,
            version=dataset.version,
            digest=rowset_of(dataset).selection.snapshot.digest,
            tql="",
            batch=(run.name, step, rank, found.stretch.segment.attempt),
        )
        return query, view, found

    def _evaluated(self, dataset: Dataset, query: ViewQuery) -> View:
        if query.batch is not None:
            run_name, step, rank, attempt = query.batch
            with self._runs.open(dataset, run_name, self._limits) as run:
                view, found = step_inside(dataset, run, step, rank)
            if found.stretch.segment.attempt != attempt:
                raise ViewNotFoundError(
                    f"run {run_name!r} was resumed before step {step:,}, which has other rows now"
                    "\nask for the step again: GET /v1/datasets/{name}/runs/{run}/steps/{step}"
                )
            return view
        if query.rows is not None:
            return dataset[self._rows_of(dataset, self._staged.get(query.rows))]
        if query.saved is not None:
            return saved_inside(dataset, query.saved, self._limits)
        return query_inside(dataset, query.tql, query.params, self._limits)

    def _rows_of(self, dataset: Dataset, runs: bytes) -> Int64Array:
        most_nbytes = self._settings.max_query_memory_nbytes
        return read_runs(runs, len(dataset), most_nbytes=most_nbytes)

    def keep_view(self, token: str, view: View) -> None:
        """Keep a result that was evaluated just now."""
        query = read_token(token, key=self._settings.signing_key)
        self._put_view((query.dataset, query.version, token), view)

    def _put_view(self, key: tuple[str, str, str], view: View) -> None:
        """Keep a result, or keep it longer: it may have grown since."""
        least = max(1, self._views.budget // KEPT_VIEWS)
        self._views.put(key, view, max(least, rowset_of(view).held_nbytes))

    @property
    def views_nbytes(self) -> int:
        """How much memory the results hold that are kept."""
        return self._views.used

    def readable(
        self, name: str, *, version: str | None, view: str | None, digest: str | None = None
    ) -> Readable:
        """Open what a request reads: a view when it names one, else a version."""
        if view is not None:
            return self.view(name, view)[1]
        return self.open(name, version, digest)

    def rows(self, name: str, asked: AskedRows, limits: QueryLimits | None = None) -> Readable:
        """Open the rows that a request names.

        Raises:
            ViewNotFoundError: There is no such saved view.
            InvalidInputError: They are named in two ways.
        """
        if asked.view is not None and (asked.version is not None or asked.saved is not None):
            raise InvalidInputError(
                "rows are named in two ways\ngive a view, or a version, with saved or without"
            )
        readable = self.readable(name, version=asked.version, view=asked.view, digest=asked.digest)
        if asked.saved is not None:
            assert isinstance(readable, tl.Dataset), "no view was named"
            readable = saved_inside(readable, asked.saved, limits or self._limits)
        if not asked.steps:
            return readable
        return replay_inside(readable, asked.steps_json(), limits or self._limits)

    @property
    def _limits(self) -> QueryLimits:
        return self._settings.query_limits()

    @contextmanager
    def _found(self, name: str) -> Generator[None]:
        """Report of a missing dataset no more than that: not what is beside it."""
        try:
            yield
        except DatasetNotFoundError as error:
            raise self.not_found(name) from error

    def not_found(self, name: str) -> DatasetNotFoundError:
        """Build the error of a dataset that is not there."""
        return DatasetNotFoundError(
            f"no dataset {name!r} in this lake\nsee its list: the first page, or GET /v1/datasets",
            dataset=name,
        )

    def _saved(self, name: str) -> tuple[Dataset, SavedView]:
        dataset, view = self.split(name)
        assert view is not None, "the name of a view"
        try:
            origin = self.open(dataset)
            return origin, self._derived.look_up(origin, view)
        except (ViewNotFoundError, DatasetNotFoundError) as error:
            self._derived.forget(name)
            raise self.not_found(name) from error

    def _options_of(self, name: str) -> Mapping[str, str] | None:
        return self._options if self.split(name)[1] is None else self._derived.options

    @property
    def places(self) -> list[tuple[str, str]]:
        """URLs of data, each after the name of the dataset there; "" for a folder of several."""
        return [*self._derived.places, (self._own_name if self.is_one_dataset else "", self._url)]

    @property
    def _own_name(self) -> str:
        return self._url.rpartition("/")[2]

    def _opened(self, name: str, url: str, version: str | None) -> Dataset:
        tip = self._tip(name, version)
        if tip is not None:
            return tip
        with reading_bases(self._settings.follow_links):
            options = self._options_of(name)
            handle = tl.open(url, version, read_only=True, storage_options=options)
        session = session_of(handle)
        session.packs.links.is_followed = self._settings.follow_links
        if session.name == session.branch and session.mirror_of is None:
            self._tips.put((name, version), handle.version)
        key = (name, handle.version)
        kept = self._handles.get(key)
        if kept is not None:
            if session_of(kept).committed.digest == session.committed.digest:
                return kept
            self._handles.discard(lambda key: key[0] == name)  # the dataset was created again
        self._handles.put(key, handle)
        kept = (
            self._handles.keys()
        )  # a result keeps its version's handle alive, and what that caches
        self._views.discard(lambda view: view[:2] not in kept)
        return handle

    def _tip(self, name: str, version: str | None) -> Dataset | None:
        """Look up what a branch's newest commit was, and see that it still is."""
        commit = self._tips.get((name, version))
        handle = None if commit is None else self._handles.get((name, commit))
        if handle is None:
            return None
        session = session_of(handle)
        return handle if run(session.log.is_newest(session.head)) else None

    def _leads_out(self, name: str) -> bool:
        if "://" in self._url and not self._url.startswith("file://"):
            return False
        root = os.path.realpath(self._url.removeprefix("file://"))
        place = os.path.realpath(f"{root}/{name}")  # a Path costs more than the rest of a look-up
        return place != root and not place.startswith(root.rstrip(os.sep) + os.sep)
