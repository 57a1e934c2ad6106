"""The arguments that every ingestion takes, beside its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from tensorlake.dataset import with_options
from tensorlake.storage import Durability

__all__ = ["DEFAULTS", "IngestOptions", "Mode", "OnError", "shows_options"]

Mode = Literal["create", "append"]
OnError = Literal["raise", "skip", "quarantine"]


class IngestOptions(TypedDict, total=False):
    """How an ingestion runs, whatever its source.

    Attributes:
        mode: "create" (default) makes a dataset, or goes on with one that a killed run of the same
            call began, or fills one that is empty and has the tensors. A source that changed
            since, another one, or other arguments are refused.
            "append" adds to a dataset that exists; items that are there already are refused.
        on_error: "raise" (default) stops at the first item that cannot be taken; "skip" leaves it
            out and lists it in the report; "quarantine" also puts it into ``<dst>-quarantine``.
        commit_every: Source bytes a commit, such as "8GiB" (default).
        workers: Threads that read ahead.
        dry_run: Write nothing: the dataset returned is in memory, with the schema and three rows.
        progress: Whether to show progress on stderr; None (default): on a terminal.
        storage_options: As in ``tl.open``; of the source's store too, where it is a URL.
        durability: As in ``tl.open``.
        token: As in ``tl.open``.
    """

    mode: Mode
    on_error: OnError
    commit_every: str
    workers: int | None
    dry_run: bool
    progress: bool | None
    storage_options: Mapping[str, Any] | None
    durability: Durability
    token: str | None


DEFAULTS: Final[IngestOptions] = {
    "mode": "create",
    "on_error": "raise",
    "commit_every": "8GiB",
    "workers": None,
    "dry_run": False,
    "progress": None,
    "storage_options": None,
    "durability": "fsync",
    "token": None,
}
"""The default of each option, as the signatures of importers show it."""

shows_options = with_options(IngestOptions, DEFAULTS)
"""Show the options in the signature of an importer."""
