"""Runs by name: those that are recorded beside a dataset, or in another place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, cast

from tensorlake.dataset.core.rowset import HasViews, RowSet, has_rows, rowset_of
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.runs.record import SERVED, Record, list_runs
from tensorlake.dataset.runs.run import Run
from tensorlake.errors import InvalidInputError, RunNotFoundError, did_you_mean, shown
from tensorlake.quantities import check_flags, plural
from tensorlake.storage import Store, open_store, place_text, runtime
from tensorlake.versions import refuse_forgotten

__all__ = ["Runs", "open_run", "open_runs", "recorded_beside", "runs_of"]


KEPT = "runs-"
"""Beginning of the names of tags that keep the versions of runs."""


class Runs(Mapping[str, Run]):
    """The runs that are recorded in one place, by name.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-runs-of", {"x": "int64"})
        >>> with ds.run("a") as run:
        ...     run.log(loss=0.5)
        >>> ds.runs
        1 run in 'memory://doc-runs-of'
          Run 'a' of 'memory://doc-runs-of' main@0: 1 step
        >>> ds.runs.delete("a")
    """

    def __init__(
        self, store: Store, dataset: HasViews[Any] | None = None, *, reaches_out: bool = True
    ) -> None:
        self._store = store
        self._dataset = dataset
        self._reaches_out = reaches_out

    def __getitem__(self, name: str) -> Run:
        return Run(self._record(name), self._dataset, reaches_out=self._reaches_out)

    def __iter__(self) -> Iterator[str]:
        return iter(list_runs(self._store))

    def __len__(self) -> int:
        return len(list_runs(self._store))

    def __repr__(self) -> str:
        names = list(self)
        if self._store.url.startswith(SERVED):
            listed = [f"  Run {name!r}, whose record is not served" for name in names]
        else:
            listed = [f"  {self[name]!r}" for name in names]
        return "\n".join([f"{plural(len(names), 'run')} in {self._store.url!r}", *listed])

    def delete(self, name: str) -> None:
        """Delete the record of a run.

        Raises:
            RunNotFoundError: There is none of this name.
        """
        self._record(name).delete()

    def _record(self, name: str) -> Record:
        record = Record.read(self._store, name)
        if record is None:
            known = list(self)
            if name in known and self._store.url.startswith(SERVED):
                raise RunNotFoundError(
                    f"the record of run {name!r} is not served by {self._store.url!r}: a server has"
                    " the names of runs alone\nopen it by the URL of the folder or bucket that the"
                    " server reads",
                    name=name,
                )
            raise RunNotFoundError(
                f"{self._store.url!r} has no run {name!r}{did_you_mean(name, known)}"
                f"\nits runs: {', '.join(known) or 'none'}",
                name=name,
            )
        return record


def open_run(
    url: str | PathLike[str] | HasViews[Any],
    name: str,
    config: Mapping[str, Any] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Run:
    """Record a run in a place of your choice: of a mix, or of datasets that are read only.

    Args:
        url: A folder or a prefix of a bucket; or a dataset, as ``ds.run()``.
        name: Name of the run; a run of this name is continued.
        config: JSON values to remember; values of keys that name secrets are hidden.
        storage_options: Credentials and endpoint, by fsspec's key names.

    Raises:
        InvalidInputError: The run was recorded with another config.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-run-of", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> with tl.run("memory://doc-runs", "first") as run:
        ...     for batch in run.loader(ds, batch_size=2):
        ...         run.log(total=batch["x"].sum())
        >>> tl.runs("memory://doc-runs")["first"].steps.column("total").to_pylist()
        [3.0, 3.0]
    """
    if not isinstance(url, str | PathLike):
        return recorded_beside(_checked(url, "run()"), name, config)
    store = open_store(place_text(url, what="url"), storage_options=storage_options)
    return _opened(store, name, config, url=store.url, version="", dataset=None)


def open_runs(
    place: str | PathLike[str] | HasViews[Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Runs:
    """Return the runs that are recorded beside a dataset, or in a place.

    Example:
        >>> import tensorlake as tl
        >>> len(tl.runs("memory://doc-no-runs"))
        0
    """
    if isinstance(place, str | PathLike):
        return Runs(open_store(place_text(place, what="url"), storage_options=storage_options))
    return Runs(rowset_of(_checked(place, "runs()")).session.store, place)


def _checked(place: HasViews[Any], call: str) -> HasViews[Any]:
    """Refuse what is neither a place nor a dataset.

    Raises:
        InvalidInputError: It is something else.
    """
    if not has_rows(place):
        raise InvalidInputError(
            f"{call} takes the URL of a place, or a dataset, got {shown(place)}", actual=place
        )
    return place


def runs_of(view: RowSet, *, reaches_out: bool = True) -> Runs:
    """Return the runs that are recorded beside the dataset of some rows.

    Args:
        view: The rows.
        reaches_out: See ``Replay``.
    """
    return Runs(view.session.store, cast("HasViews[Any]", view), reaches_out=reaches_out)


def recorded_beside(
    dataset: HasViews[Any],
    name: str,
    config: Mapping[str, Any] | None = None,
    *,
    keep: bool = False,
) -> Run:
    """Record a run beside its dataset; see ``ds.run``."""
    check_flags(keep=keep)
    rows = rowset_of(dataset)
    rows.session.check_present()
    store = rows.session.store
    branch, _, number = rows.version.rpartition("@")
    if number.isdigit():  # not of staged changes
        runtime.run(refuse_forgotten(store, branch, int(number)))
    if keep:
        _keep(rows)
    return _opened(store, name, config, url=rows.url, version=rows.version, dataset=dataset)


def _keep(rows: RowSet) -> None:
    """Tag the version, unless another run has done so: runs of a version share one tag."""
    version = rows.version
    tag = f"{KEPT}{version.replace('@', '-')}"
    found = versioning.tags(rows.session).get(tag)
    if found is None:
        try:
            versioning.tag(rows.session, tag, version)
        except InvalidInputError:  # another rank tags it at this time
            found = versioning.tags(rows.session).get(tag)
            if found is None:
                raise
    if found is not None and found.version != version:
        raise InvalidInputError(
            f"keep=True tags the version as {tag!r}, which is a tag of {found.version} here"
            "\ndelete that one, or tag the version yourself: ds.tag(name)",
            argument="keep",
        )


def _opened(
    store: Store,
    name: str,
    config: Mapping[str, Any] | None,
    *,
    url: str,
    version: str,
    dataset: HasViews[Any] | None,
) -> Run:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"the name of a run is a string, got {shown(name)}")
    if not name.isprintable():
        raise InvalidInputError(
            f"the name of a run {shown(name)} has control characters\nleave them out"
        )
    given = {} if config is None else config
    record = Record.create(store, name, url=url, version=version, config=given)
    return Run(record, dataset, is_recording=True)
