"""The arguments that every ingestion takes, beside its own, and the dataset that they name."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from os import PathLike
from typing import Any, Final, Literal, TypedDict, TypeVar, cast, get_args

from tensorlake.dataset import (
    Dataset,
    OnConflict,
    check_whole,
    create,
    open_dataset,
    with_options,
)
from tensorlake.dataset import delete as delete_dataset
from tensorlake.errors import DatasetNotFoundError, InvalidInputError, SchemaError, shown
from tensorlake.quantities import check_flags, checked_integer
from tensorlake.storage import Durability, place_text
from tensorlake.types import SampleType

__all__ = [
    "DEFAULTS",
    "WORKERS_LIMIT",
    "Engine",
    "IngestOptions",
    "Mode",
    "OnConflict",
    "OnError",
    "began_at",
    "delete_unfilled",
    "destination",
    "place_of",
    "shows_options",
    "types_there",
]

Mode = Literal["create", "append"]
Engine = Literal["threads", "ray"]
OnError = Literal["raise", "skip", "quarantine"]


class IngestOptions(TypedDict, total=False):
    """How an ingestion runs, whatever its source.

    Attributes:
        mode: "create" (default) makes a dataset, or brings one that the same call made to its
            source as it is now, or fills one that is empty and has the tensors. Another source, or
            other arguments, are refused.
            "append" adds a source to a dataset that exists, and brings its rows to it when the call
            is repeated; items that are there already from another source are refused.
        delete: Whether to delete the rows of items that are no longer in the source; they are
            reported otherwise.
        verify: Whether to read items whose size and time have not changed, and compare them by
            digest.
        on_conflict: For rows changed by hand since, whose items changed at their source, too:
            "keep" (default) leaves the cells changed by hand as they are, and reports them;
            "source" takes the source's; "error" raises, and earlier commits remain.
        on_error: "raise" (default) stops at the first item that cannot be taken; "skip" leaves it
            out and lists it in the report; "quarantine" also puts it into ``<dst>-quarantine``.
        commit_every: Source bytes per commit, an integer or a string such as "8GiB" (default).
        engine: "threads" (default) reads here; "ray" has workers of a Ray cluster read new items
            and store their rows, which this process publishes. Both make the same rows.
        workers: Threads that read ahead; on a cluster, workers: as many as it holds by default.
        dry_run: Write nothing: the dataset returned is in memory, with the schema and three rows;
            its report has what would be added, updated and deleted.
        progress: Whether to show progress on stderr; None (default): on a terminal.
        storage_options: As in ``tl.open``; of the source's store too, where it is a URL.
        durability: As in ``tl.open``.
        token: As in ``tl.open``.

    Example:
        >>> import tensorlake as tl
        >>> options: tl.ingest.IngestOptions = {"on_error": "skip", "progress": False}
        >>> len(tl.ingest.numpy({"x": [1, 2]}, "memory://doc-ingest-options", **options))
        2
    """

    mode: Mode
    delete: bool
    verify: bool
    on_conflict: OnConflict
    on_error: OnError
    commit_every: int | str
    engine: Engine
    workers: int | None
    dry_run: bool
    progress: bool | None
    storage_options: Mapping[str, Any] | None
    durability: Durability
    token: str | None


WORKERS_LIMIT: Final = 1024
"""Threads that read ahead, or workers, at most."""

DEFAULTS: Final[IngestOptions] = {
    "mode": "create",
    "delete": False,
    "verify": False,
    "on_conflict": "keep",
    "on_error": "raise",
    "commit_every": "8GiB",
    "engine": "threads",
    "workers": None,
    "dry_run": False,
    "progress": None,
    "storage_options": None,
    "durability": "fsync",
    "token": None,
}
"""The default of each option, as the signatures of importers show it."""

Importer = TypeVar("Importer", bound=Callable[..., Any])


def shows_options(importer: Importer) -> Importer:
    """Show the options in the signature of an importer, and check what all importers take."""
    source = next(iter(inspect.signature(importer).parameters))

    @wraps(importer)
    def checked(*args: Any, **given: Any) -> Any:
        _check(given)
        _check_source(args[0] if args else given.get(source), given)
        began = _began.set(time.monotonic())
        try:
            return importer(*args, **given)
        finally:
            _began.reset(began)

    return with_options(IngestOptions, DEFAULTS)(cast("Importer", checked))


_began: ContextVar[float | None] = ContextVar("began", default=None)
"""The start of an importer's call: listing and inference are part of its time."""


def began_at() -> float:
    """Return when the importer in progress was called, by ``time.monotonic``; else now."""
    began = _began.get()
    return time.monotonic() if began is None else began


def types_there(url: str | PathLike[str], options: IngestOptions) -> dict[str, SampleType]:
    """Return the types of the dataset that a call adds to, which decide how text is read.

    Args:
        url: Path or URL of the dataset; no types if there is none yet.
        options: See `IngestOptions`.
    """
    if options.get("dry_run"):
        return {}
    try:
        with open_dataset(
            place_text(url, what="dst"),
            read_only=True,
            storage_options=options.get("storage_options"),
            token=options.get("token"),
        ) as dataset:
            return dict(dataset.schema)
    except DatasetNotFoundError:
        return {}


def delete_unfilled(dataset: Dataset, open_arguments: Mapping[str, Any]) -> None:
    """Delete a dataset that a call created and did not fill: its types may be what was wrong."""
    dataset.discard()
    if dataset.refresh().version == "main@0":  # another call may have filled it
        delete_dataset(dataset.url, confirm=dataset.url, **place_of(open_arguments))


def place_of(open_arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments that locate the dataset."""
    return {name: one for name, one in open_arguments.items() if name != "durability"}


def destination(
    url: str,
    schema: Callable[[], Mapping[str, Any]],
    mode: Mode,
    open_arguments: Mapping[str, Any],
    *,
    is_new: bool,
) -> Dataset:
    """Open the dataset that a call names, or create it.

    Args:
        url: Path or URL.
        schema: Returns the types of a new one.
        mode: As in an ingestion.
        open_arguments: As in ``tl.open``.
        is_new: Whether there was none when the call began.
    """
    if mode == "append":
        return open_dataset(url, **open_arguments)
    if mode != "create":
        raise InvalidInputError(f"mode must be 'create' or 'append', got {shown(mode)}")
    if is_new:  # unless another call has made it meanwhile
        return create(url, schema(), exist_ok=True, **open_arguments)
    try:
        return open_dataset(url, **open_arguments)
    except DatasetNotFoundError:
        # it exists, but its creator was killed before the first commit record
        return create(url, schema(), **open_arguments)


def _check_source(source: object, given: Mapping[str, Any]) -> None:
    """Refuse a source that is, or is in, an export to a bucket that is not complete."""
    if isinstance(source, str | PathLike):
        places = [os.fspath(cast("str | PathLike[str]", source))]
    elif isinstance(source, list | tuple):  # of files
        listed = cast("Sequence[object]", source)
        places = [os.path.dirname(one) for one in listed if isinstance(one, str | PathLike)]  # noqa: PTH120 - URLs too
    else:
        return
    check_whole([one for one in places if isinstance(one, str)], given.get("storage_options"))


def _check(given: Mapping[str, Any]) -> None:
    for name, kind in (
        ("mode", Mode),
        ("on_error", OnError),
        ("on_conflict", OnConflict),
        ("engine", Engine),
    ):
        choices = get_args(kind)
        value = given.get(name, DEFAULTS[name])
        if not isinstance(value, str) or value not in choices:
            known = ", ".join(map(repr, choices))
            raise InvalidInputError(
                f"{name}={shown(value)}: give one of {known}", argument=name, actual=value
            )
    workers = given.get("workers")
    if workers is not None:
        checked_integer(workers, name="workers", least=1, most=WORKERS_LIMIT)
    flags = ("dry_run", "progress", "delete", "verify")
    check_flags(unset=flags, **{name: given.get(name) for name in flags})
    schema = given.get("schema")
    if schema is not None and (
        not isinstance(schema, Mapping) or not all(isinstance(name, str) for name in schema)
    ):
        raise SchemaError(
            f"schema= is a dict of types by name, got {shown(schema)}"
            '\nwrite schema={"label": tl.ClassLabel(["cat", "dog"])}',
            actual=schema,
        )
