"""A new dataset out of a view: its rows and columns, samples as they are stored.

Batches go straight from the chunks of the one into chunks of the other, so memory stays bounded and
nothing is decoded; columns that a query computed become tensors. All rows are one commit: a call
that was cut short leaves an empty dataset, which the next one fills.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset.core.connect import connect_new
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.rowset import BATCH_ROWS, RowSet
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write import staging
from tensorlake.errors import InvalidInputError, SchemaError, UnsupportedFeatureError, shown
from tensorlake.quantities import plural
from tensorlake.types import Array, Bool, Bytes, ClassLabel, Json, SampleType, Scalar, Text, as_type
from tensorlake.versions import CommitRequest

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session

__all__ = ["materialize"]


def materialize(
    view: RowSet,
    url: str | PathLike[str],
    *,
    encode: Mapping[str, Any] | None,
    message: str | None,
    storage_options: Mapping[str, Any] | None,
) -> Session:
    """Write rows and columns to a new dataset; a session on it."""
    if not view.has_rows:
        raise InvalidInputError(
            "an aggregate has no rows of the dataset to write\n"
            "read its values: view['name'], or view.to_pandas()"
        )
    view.selection.snapshot.check_alive()
    virtual = next((name for name in view.computed if name.startswith("_")), None)
    if virtual is not None:
        raise SchemaError(
            f'the view has {virtual!r}, and the name of a tensor does not begin with "_"'
            f"\ngive it another in the query: SELECT …, {virtual} AS {virtual.strip('_') or 'x'}",
            tensor=virtual,
        )
    schema: dict[str, SampleType] = dict(view.schema)
    schema |= {name: _type_of(name, column.type) for name, column in view.computed.items()}
    schema |= _encoded(view, encode)
    if not schema:
        raise InvalidInputError(f"the view of {view.url!r} has no columns to write")
    session = connect_new(url, schema, exist_ok=True, storage_options=storage_options)
    rows = session.committed.num_rows
    if rows:
        raise InvalidInputError(
            f"there is a tensorlake dataset with {plural(rows, 'row')}"
            f" at {session.store.url!r} already\n"
            "give the URL of a new one, or append to it: tl.open(url).extend(view)",
            dataset=session.store.url,
        )
    try:
        staging.extend(session, _batches(view))
        for name in view.selection.columns:
            metadata = dict(view.selection.snapshot.spec(name).attributes)
            if metadata:
                schema_changes.alter_tensor(session, name, metadata=metadata)
        what = f"view {view.name!r}" if view.name is not None else view.tql or "rows"
        if not isinstance(message, str) or not message:
            message = f"{what} of {view.url} {view.version}"[:MESSAGE_CHARACTERS]
        session.commit(CommitRequest(message=message))
    except BaseException:
        session.discard()
        session.close()
        raise
    return session


MESSAGE_CHARACTERS = 1000
"""An entry holds 4 KiB of message, and a character takes up to 4 bytes."""


def _encoded(view: RowSet, encode: Mapping[str, Any] | None) -> dict[str, SampleType]:
    """Return the types that stored columns shall have in the new dataset."""
    if encode is None:
        return {}
    if not isinstance(encode, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users'
        raise InvalidInputError(
            f"encode={shown(encode)}: give the types by the names of tensors:"
            ' encode={"clip": tl.Video()}'
        )
    for name in encode:
        if name not in view.selection.columns:
            raise unknown_column(name, view.selection.columns)
    return {name: as_type(kind) for name, kind in encode.items()}


def _batches(view: RowSet) -> Iterator[dict[str, Any]]:
    """The view's columns as stored, the computed ones as values."""
    computed = view.computed.items()
    if not view.schema:  # computed columns alone
        for start in range(0, len(view), BATCH_ROWS):
            positions = np.arange(start, min(len(view), start + BATCH_ROWS), dtype=np.int64)
            yield {name: c.take(positions).present() for name, c in computed}
        return
    start = 0
    for batch in view.column_batches():
        rows = len(next(iter(batch.values())))
        positions = np.arange(start, start + rows, dtype=np.int64)
        start += rows
        yield {**batch, **{name: c.take(positions).present() for name, c in computed}}


def _type_of(name: str, computed: tql.ColumnType) -> SampleType:
    """The type of a tensor that holds what a query computed."""
    nullable = computed.nullable
    match computed.kind:
        case "number" | "bool" if computed.dtype is not None and computed.shape:
            return Array(computed.dtype, computed.shape, nullable=nullable)
        case "bool":
            return Bool(nullable=nullable)
        case "number" if computed.dtype is not None:
            return Scalar(computed.dtype, nullable=nullable)
        case "label" if computed.names is not None:
            dropped = [code for code, one in enumerate(computed.names) if not one]
            return ClassLabel(
                computed.names, multi=bool(computed.shape), dropped=dropped, nullable=nullable
            )
        case "text":
            return Text(nullable=nullable)
        case "json":
            return Json(nullable=nullable)
        case "bytes":
            return Bytes(nullable=nullable)
        case _:
            raise UnsupportedFeatureError(
                f"the computed column {name!r} ({computed.kind}) cannot become a tensor\n"
                "leave it out of the query, or convert it there"
            )
