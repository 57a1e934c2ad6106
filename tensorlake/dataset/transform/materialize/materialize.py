"""A new dataset out of a view: its rows and columns, as stored, or in another form.

Batches go straight from the chunks of the one into chunks of the other, so memory stays bounded and
nothing is decoded; columns that a query computed become tensors. With ``encode=`` rows are made by
the recipe (``recipe.py``), and the new dataset records it and its source (``refresh.py``). All rows
are one commit: a call that fails removes the dataset that it created, and one that was killed
leaves an empty one, which the next call fills.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorlake.dataset.core.connect import connect_new, delete, exists
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.sync.ledger import Ledger
from tensorlake.dataset.transform.materialize.encode import Encoder
from tensorlake.dataset.transform.materialize.recipe import Making, annotations_of, parse_encode
from tensorlake.dataset.transform.materialize.refresh import bring, record_recipe
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write import staging
from tensorlake.errors import (
    InvalidInputError,
    SchemaError,
    ShapeMismatchError,
    TensorlakeError,
)
from tensorlake.format import MAIN
from tensorlake.quantities import plural
from tensorlake.storage import runtime
from tensorlake.types import Array, Image, SampleType
from tensorlake.versions import BranchLog, CommitRequest

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
    key: str | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Session:
    """Write rows and columns to a new dataset; a session on it.

    With a ``key``, processes that write the same at once write it once.
    """
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
    schema = view.copied_schema
    makings = None if encode is None else parse_encode(view, encode)
    schema |= _encoded_types(schema, makings or {})
    if not schema:
        raise InvalidInputError(f"the view of {view.url!r} has no columns to write")
    is_ours = not exists(url, storage_options=storage_options)
    session = connect_new(url, schema, exist_ok=not is_ours, storage_options=storage_options)
    rows = session.committed.num_rows
    if rows:
        raise InvalidInputError(
            f"there is a tensorlake dataset with {plural(rows, 'row')}"
            f" at {session.store.url!r} already\n"
            "give the URL of a new one, or append to it: tl.open(url).extend(view)",
            dataset=session.store.url,
        )
    try:
        if makings is None:
            staging.extend(session, view)
        else:
            record_recipe(session, view, makings)
            encoder = Encoder(view, makings, schema)
            bring(session, Ledger(session), encoder, {name: name for name in schema})
        for name in view.selection.columns:
            metadata = dict(view.selection.snapshot.spec(name).attributes)
            if metadata:
                schema_changes.alter_tensor(session, name, metadata=metadata)
        what = f"view {view.name!r}" if view.name is not None else view.tql or "rows"
        if not isinstance(message, str) or not message:
            message = f"{what} of {view.url} {view.version}"[:MESSAGE_CHARACTERS]
        session.commit(CommitRequest(message=message, key=key, meta=meta))
    except BaseException as error:
        session.discard()
        session.close()
        if is_ours:
            _remove_empty(session, url, storage_options, error)
        if isinstance(error, InvalidInputError) and makings is not None:
            _advise(error, makings)
        raise
    return session


def _remove_empty(
    session: Session,
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None,
    error: BaseException,
) -> None:
    """Remove a dataset that this call created, unless another writer committed to it."""
    try:
        head = runtime.run(BranchLog(session.store, MAIN).head())
        if head is not None and head.seq == 0:
            delete(url, confirm=url, storage_options=storage_options)
    except TensorlakeError as second:
        error.add_note(f"an empty dataset may be left at {session.store.url!r}: {second}")


def _advise(error: InvalidInputError, makings: Mapping[str, Making]) -> None:
    """Add what to write instead, where a sample does not fit the type that encode= gives."""
    making = makings.get(error.facts.get("tensor") or "")
    if making is None:
        return
    name, kind = making.name, type(making.type).__name__
    if making.function is not None and not making.type.nullable:
        error.add_note(
            f"if it returns None for NULL, give its type nullable=True: encode={{{name!r}:"
            f" tl.{kind}(…, nullable=True)}}"
        )
    is_pixels = isinstance(making.type, Array) and isinstance(making.source, Image)
    if is_pixels and making.steps is None and isinstance(error, ShapeMismatchError):
        error.add_note(
            f"for images of one size give decode steps: encode={{{name!r}:"
            " [tl.decode.Resize(224, 224)]}"
        )


MESSAGE_CHARACTERS = 1000
"""An entry holds 4 KiB of message, and a character takes up to 4 bytes."""


def _encoded_types(
    schema: Mapping[str, SampleType], makings: Mapping[str, Making]
) -> dict[str, SampleType]:
    """Return the types of encoded columns in the new dataset.

    An image that others are ``of=`` has no max_side there: rows written to it later would be
    scaled without them.
    """
    types: dict[str, SampleType] = {}
    for name, making in makings.items():
        types[name] = making.type
        if isinstance(making.type, Image) and annotations_of(schema, name):
            types[name] = replace(making.type, max_side=None)
    return types
