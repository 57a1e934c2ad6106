"""The lake as one principal may see and change it: what every route is given.

A dataset that they may not read is "not found", in the words of one that is not there: names tell
nothing. Changes to a dataset that they may only read are refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlake.errors import AccessError
from tensorlake.versions import author
from tensorlake_server.auth.scopes import EVERY, Action
from tensorlake_server.lake.lake import VIEW, Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    import tensorlake as tl
    from tensorlake.dataset import Dataset, QueryLimits, StepRows, View, Work, WorkKey
    from tensorlake.storage import Store
    from tensorlake.types import SampleType
    from tensorlake_server.auth.principal import Principal
    from tensorlake_server.auth.view_token import ViewQuery
    from tensorlake_server.lake.lake import Readable
    from tensorlake_server.messages.row_request import AskedRows

__all__ = ["AllowedLake"]


class AllowedLake:
    """A lake, through the eyes of a principal.

    Args:
        lake: All of it.
        principal: The caller.
        is_writable: Whether the server lets anybody write.
        before_change: Called once the principal may change something, before anything changes.
    """

    def __init__(
        self,
        lake: Lake,
        principal: Principal,
        *,
        is_writable: bool,
        before_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._lake = lake
        self._principal = principal
        self._is_writable = is_writable
        self._before_change = before_change

    def names(self) -> list[str]:
        """List the datasets."""
        names = self._lake.names()
        readable = [name for name in names if self._may_read(name)]
        return readable + [view for name in names for view in self._views_of(name)]

    def _views_of(self, name: str) -> list[str]:
        """List the views of a dataset that scopes for views name."""
        if not self._principal.names_views_of(name):
            return []
        views = self._lake.view_names(name)
        return [
            f"{name}{VIEW}{view}" for view in views if self._principal.names_views_of(name, view)
        ]

    def open(self, name: str, version: str | None = None, digest: str | None = None) -> Dataset:
        """Open a version for reading; see `Lake.open`.

        Raises:
            DatasetNotFoundError: There is no such dataset, for this principal.
            VersionNotFoundError: There is no such version, or it is another one now.
        """
        self.check_readable(name)
        return self._lake.open(name, version, digest)

    def kept(self, name: str, version: str) -> Dataset | None:
        """Look up a commit that is open already; see `Lake.kept`.

        Raises:
            DatasetNotFoundError: There is no such dataset, for this principal.
        """
        self.check_readable(name)
        return self._lake.kept(name, version)

    def view(self, name: str, token: str) -> tuple[ViewQuery, View]:
        """Open the result of a query; see `Lake.view`."""
        self.check_readable(name)
        return self._lake.view(name, token)

    def select(self, name: str, version: str | None, runs: bytes) -> tuple[ViewQuery, View]:
        """Open rows that a client selected as a result; see `Lake.select`."""
        self.check_readable(name)
        return self._lake.select(name, version, runs)

    def run(self, name: str, run_name: str, limits: QueryLimits) -> AbstractContextManager[tl.Run]:
        """Open a run that was recorded beside a dataset; see `Lake.run`."""
        self.check_readable(name)
        return self._lake.run(name, run_name, limits)

    def step(
        self, name: str, version: str | None, run: tl.Run, step: int, rank: int | None
    ) -> tuple[ViewQuery, View, StepRows]:
        """Open the batch of a run's step as a result; see `Lake.step`."""
        self.check_readable(name)
        return self._lake.step(name, version, run, step, rank)

    def save_view(self, name: str, token: str, saved: str, message: str) -> View:
        """Give the result of a query a name; see `Lake.save_view`.

        Raises:
            AccessError: The principal may not write the whole dataset.
        """
        self.check_writable(name)
        return self._lake.save_view(name, token, saved, message)

    def may_write(self, name: str) -> bool:
        """Whether the principal may change a dataset as a whole."""
        is_view = self._lake.split(name)[1] is not None
        return self._is_writable and not is_view and self._principal.may(Action.WRITE, name, EVERY)

    def keep_view(self, token: str, view: View) -> None:
        """Keep a result that was evaluated just now."""
        self._lake.keep_view(token, view)

    def readable(
        self, name: str, *, version: str | None, view: str | None, digest: str | None = None
    ) -> Readable:
        """Open what a request reads: a view when it names one, else a version."""
        self.check_readable(name)
        return self._lake.readable(name, version=version, view=view, digest=digest)

    def rows(self, name: str, asked: AskedRows, limits: QueryLimits | None = None) -> Readable:
        """Open the rows that a request names; see `Lake.rows`."""
        self.check_readable(name)
        return self._lake.rows(name, asked, limits)

    def begin(
        self, name: str, branch: str, *, base: str | None = None, key: WorkKey | None = None
    ) -> Work:
        """Open a branch for writing; see `begin_work`.

        Raises:
            AccessError: The principal may not write it.
        """
        self.check_writable(name, branch)
        return self._lake.begin(name, branch, base=base, key=key)

    def store(self, name: str) -> Store:
        """Open where a dataset's objects are, for who reads it; writers are checked by object."""
        self.check_readable(name)
        return self._lake.store(name)

    def kept_store(self, name: str) -> Store | None:
        """Look up the same if it was opened before; see `Lake.kept_store`."""
        self.check_readable(name)
        return self._lake.kept_store(name)

    def create(
        self, name: str, schema: Mapping[str, SampleType], *, grace: str, exist_ok: bool
    ) -> Dataset:
        """Make a dataset.

        Raises:
            AccessError: The principal may not write all of it.
        """
        self.check_writable(name)
        return self._lake.create(name, schema, grace=grace, exist_ok=exist_ok)

    def delete(self, name: str) -> list[str]:
        """Remove a dataset for good; return what was left at its place.

        Raises:
            AccessError: The principal has no ``admin`` scope for it.
        """
        self.check_writable(name, action=Action.ADMIN)
        return self._lake.delete(name)

    @property
    def caller(self) -> str:
        """The principal's name, as the audit log has it."""
        return self._principal.name

    @property
    def author(self) -> str:
        """In whose name all that the principal publishes is; the link has the server's own user."""
        return self._principal.author or author()

    def url_for_clients(self, name: str) -> str | None:
        """Return where a dataset is, for programs of this machine; None: only behind the server."""
        is_view = self._lake.split(name)[1] is not None
        return None if is_view else self._lake.url_of(name)

    def check_readable(self, name: str) -> None:
        """Check that the principal may read a dataset, if it is there.

        Raises:
            DatasetNotFoundError: They may not.
        """
        if not self._may_read(name):
            raise self._lake.not_found(name)

    def check_there(self, name: str) -> None:
        """Check that the principal may read a dataset, or saved view, and that it is there.

        Raises:
            DatasetNotFoundError: They may not, or it is not.
        """
        self.check_readable(name)
        self._lake.check_there(name)

    def check_writable(
        self, name: str, branch: str | None = EVERY, *, action: Action = Action.WRITE
    ) -> None:
        """Check that the principal may change a dataset.

        Args:
            name: The dataset.
            branch: The branch to change; EVERY is the dataset as a whole, None any branch.
            action: WRITE or ADMIN.

        Raises:
            DatasetNotFoundError: They may not even read it.
            AccessError: They may not change it.
        """
        self.check_readable(name)
        if self._lake.split(name)[1] is not None:
            raise AccessError(
                f"{name!r} is a saved view, whose rows do not change"
                "\nchange the dataset, and save a view of it under another name",
                dataset=name,
            )
        if not self._is_writable:
            raise AccessError(
                f"this server is read-only: it may not change {name!r}"
                "\nstart it with --write, or write to the lake itself",
                dataset=name,
            )
        if not self._principal.may(action, name, branch):
            at = "" if branch in (None, EVERY) else f"@{branch}"
            wanted = f"{action.name.lower()}:{name}{at}"
            raise AccessError(
                f"{self._principal.name!r} may not do this: it needs the scope {wanted!r}"
                "\nthe owner of the server makes a token: tensorlake token create --name NAME"
                f" --scope {wanted!r} --auth FILE",
                dataset=name,
                scope=wanted,
            )
        self._before_change()

    def _may_read(self, name: str) -> bool:
        dataset, view = self._lake.split(name)
        return self._principal.may(Action.READ, dataset, view=view)
