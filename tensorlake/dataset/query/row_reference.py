"""References to rows that a server resolves, for ``decode_on="server"`` and queries.

    {"version": "main@12", "digest": …, "steps": [{"tql": …, "params": …}, {"columns": […]}]}
    {"version": "main@12", "digest": …, "saved": "sharp"}

Rows chosen by hand have no such reference until they are saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.core.steps import steps_to_json
from tensorlake.errors import InvalidInputError
from tensorlake.loader import SLABS_HEADER, has_shared_memory
from tensorlake.storage import AnswerStream, LakeStore

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["ServedRows", "named_rows", "served_rows"]


def named_rows(view: RowSet) -> dict[str, Any] | None:
    """Return the reference by which a server finds the rows of a view; None if there is none."""
    snapshot = view.selection.snapshot
    if snapshot.is_staged:
        return None
    named: dict[str, Any] = {"version": snapshot.version, "digest": snapshot.digest}
    if view.name is not None:
        return named | {"saved": view.name}
    if view.steps is None:
        return None
    try:
        return named | {"steps": steps_to_json(view.steps)}
    except InvalidInputError:  # a parameter without a JSON form
        return None


@dataclass(frozen=True, slots=True)
class ServedRows:
    """Rows behind a server that decodes batches of them."""

    store: LakeStore
    rows: Mapping[str, Any]

    @property
    def url(self) -> str:
        """URL of the dataset."""
        return self.store.url

    def open(self, request: Mapping[str, Any], *, timeout_s: float) -> AnswerStream:
        """Request batches.

        The request's version is the loader's, which may be an older one; its state names the rows.
        """
        named = {name: one for name, one in self.rows.items() if name != "digest"}
        headers = {SLABS_HEADER: "accept"} if has_shared_memory() else {}
        body = {**named, **request}
        return self.store.stream("stream", body, timeout_s=timeout_s, headers=headers)


def served_rows(view: RowSet) -> ServedRows | None:
    """Let a server decode a view's batches; None if there is no server or no reference."""
    store = view.session.store
    named = named_rows(view) if isinstance(store, LakeStore) else None
    return None if named is None or not isinstance(store, LakeStore) else ServedRows(store, named)
