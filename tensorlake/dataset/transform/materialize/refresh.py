"""Copies that follow their source: rows brought from a view, by a ledger of both sides.

A copy is a dataset made of a view with ``encode=``. It keeps, as an ingestion does, a ledger of its
source: the row of the view that each of its rows was made of, with digests. So a refresh encodes
only rows that are new or have changed, and leaves alone what a hand has changed in the copy. The
group ``copy/recipe`` has how the rows are found again, and how they are encoded:

    {"url": …, "branch": "main", "steps": [{"tql": …, "params": {}}] or null,
     "columns": [[name, tensor id or null], …], "encode": {"image": {"type": {…}, "steps": […]}}}

Columns are known by the ids of their tensors on both sides, so that either may be renamed. Changes
of the source are known from the pages of its index, where the version that the copy was made
from still exists; otherwise rows are read, and compared by their digests.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from tensorlake.dataset.core.connect import connect
from tensorlake.dataset.core.rowset import everything
from tensorlake.dataset.core.steps import steps_from_json, steps_to_json
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.history.ingest_report import IngestReport
from tensorlake.dataset.query.saved_views import replayed
from tensorlake.dataset.sync.comparison import Action
from tensorlake.dataset.sync.ledger import Entries, KnownSource, Ledger
from tensorlake.dataset.sync.rows import OnConflict, Rows
from tensorlake.dataset.transform.map.items import (
    MapItems,
    compared_items,
    row_numbers_of,
    rows_named,
    version_text,
)
from tensorlake.dataset.transform.materialize.encode import Encoder, NullError
from tensorlake.dataset.transform.materialize.recipe import Making, annotations_of
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write.staging import all_or_nothing
from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    InvalidStateError,
    MissingTensorError,
    NotFoundError,
    QueryError,
    UncommittedChangesError,
    shown,
)
from tensorlake.format import ROW_ID
from tensorlake.quantities import plural
from tensorlake.types import NO_DEFAULT, ClassLabel, EncodedColumn, Text
from tensorlake.versions import CommitRequest

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.core.session import Session
    from tensorlake.types import SampleType

__all__ = ["bring", "record_recipe", "refresh_copy"]

KIND = "copy:"
"""The kind of a copy's source in its ledger."""

RECIPE, RECIPE_KIND = "copy/recipe", "copy"

REPEAT = "#"
"""Before the number of a repeat, in the name of an item: a view may have a row twice."""

MESSAGE_CHARACTERS = 1000
"""An entry holds 4 KiB of message, and a character takes up to 4 bytes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a copy was made, as its dataset records it."""

    url: str
    branch: str
    steps: list[dict[str, Any]] | None
    columns: list[tuple[str, str | None]]
    encode: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, view: RowSet, makings: Mapping[str, Making]) -> Recipe:
        """Describe how a view is copied."""
        snapshot = view.selection.snapshot
        ids = {name: snapshot.spec(name).id for name in view.selection.columns}
        return cls(
            view.url,
            snapshot.version.rpartition("@")[0],
            None if view.steps is None else steps_to_json(view.steps),
            [(name, ids.get(name)) for name in view.columns],
            {name: one.to_json() for name, one in makings.items()},
        )

    def to_json(self) -> str:
        """Return the JSON form."""
        return json.dumps(
            {
                "url": self.url,
                "branch": self.branch,
                "steps": self.steps,
                "columns": self.columns,
                "encode": self.encode,
            }
        )

    @classmethod
    def read(cls, session: Session) -> Recipe:
        """Read that of a copy.

        Raises:
            InvalidStateError: The dataset is not a copy.
            CorruptionError: Its record is malformed.
        """
        url = session.store.url
        reader = session.group(RECIPE)
        if reader is None:
            raise InvalidStateError(
                f"{url!r} does not record what it was made from: it is not a copy made by"
                " materialize(url, encode=…)\nmake one: view.materialize(url, encode={}) copies"
                " samples as they are stored, and can be refreshed"
            )
        column = reader.read("recipe", np.zeros(1, np.int64), decode=False)
        assert isinstance(column, EncodedColumn)
        try:
            given = json.loads(bytes(column.samples[0]))
            return cls(
                str(given["url"]),
                str(given["branch"]),
                given["steps"],
                [(str(name), id_) for name, id_ in given["columns"]],
                dict(given["encode"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"the recipe of the copy {url!r} is malformed ({error!r})"
                "\nmake the copy again: view.materialize(url, encode=…)",
                object=RECIPE,
            ) from error


def record_recipe(session: Session, view: RowSet, makings: Mapping[str, Making]) -> None:
    """Stage how a copy is made."""
    _record(session, Recipe.of(view, makings))


def _record(session: Session, recipe: Recipe) -> None:
    columns = {"recipe": EncodedColumn([recipe.to_json().encode()])}
    session.stage_group(RECIPE, RECIPE_KIND, columns, types={"recipe": Text()})


def bring(
    session: Session,
    ledger: Ledger,
    encoder: Encoder,
    names: Mapping[str, str],
    *,
    on_conflict: OnConflict = "keep",
) -> tuple[IngestReport, str | None]:
    """Stage that a copy has the rows of a view: new ones, changed ones, none that are gone.

    Args:
        session: The copy.
        ledger: Its ledger.
        encoder: The view, and how its rows are encoded.
        names: The tensors of the copy, by the view's columns.
        on_conflict: The outcome where a hand has changed in the copy what changed in the view.

    Returns:
        The changes, and the key of the commit; None where there are none.
    """
    view, number = encoder.view, _number(ledger)
    known = Entries.empty() if number is None else ledger.entries(number)
    earlier = None if number is None else ledger.sources[number]
    columns = tuple(view.selection.columns)
    items = MapItems.of(view, columns, known, batch_size=None)
    items = replace(items, names=_each_once(items.names))
    versions = () if earlier is None else earlier.versions
    version = version_text(view, columns)
    listing, compared = compared_items(items, known, versions)
    if view.computed and (version is None or versions != (version,)):
        # a query computes them from other columns, and perhaps other rows: each is compared
        compared = replace(compared, is_same=np.zeros(len(listing.names), np.bool_))
    source = KnownSource.of(KIND, place=view.url, where=view.url, mode="create", settings={})
    source = replace(source, tensors=earlier.tensors if earlier else ())
    source = source.with_tensors([*names.values()], session.snapshot().schema)
    source = replace(source, versions=(version,) if version else ())
    report = IngestReport(unit="row", url=session.store.url)
    rows = Rows(
        session,
        listing,
        known,
        compared,
        tensors=[*names.values()],
        numbers=[id_ for _, id_ in source.tensors],
        on_conflict=on_conflict,
        report=report,
        shown_item=lambda name: f"row {name} of {view.url!r}",
    )
    work = rows.work()
    for action in (Action.COMPARE, Action.ADD):
        for piece in encoder.pieces(np.flatnonzero(work == action)):
            some = piece.positions
            listing.stamps[some] = piece.stamps
            listing.sizes[some] = max(piece.read_nbytes, piece.made_nbytes) // len(some)
            report.nbytes += piece.read_nbytes
            given = {names[name]: one for name, one in piece.columns.items() if name in names}
            (rows.add if action == Action.ADD else rows.compare)(given, some)
    rows.flush()
    rows.vanish(is_absent=lambda _: True, delete=True)
    report.unchanged += int(np.count_nonzero(work == Action.NOTHING))
    if not rows.entries and earlier is not None:
        return report, None
    entries = Entries.concat(rows.entries) if rows.entries else Entries.empty()
    number = len(ledger.sources) if number is None else number
    key = ledger.key_of(number, KIND, entries)
    if len(entries):
        ledger.stage(number, entries, source)
    else:
        ledger.describe(number, source)
    return report, key


def refresh_copy(
    session: Session,
    *,
    functions: Mapping[str, Callable[[Any], Any]] | None,
    on_conflict: OnConflict,
    source: str | PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> IngestReport:
    """Bring a copy to the newest version of its source, as one commit."""
    if not isinstance(on_conflict, str) or on_conflict not in get_args(OnConflict):
        raise InvalidInputError(
            f"refresh_copy(on_conflict={shown(on_conflict)})\n"
            f"give one of {', '.join(map(repr, get_args(OnConflict)))}",
            actual=on_conflict,
        )
    session.check_open()
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, which are not part of the refresh"
            "\ncommit or discard them first"
        )
    started = time.perf_counter()
    session.refresh()
    recipe = Recipe.read(session)
    url = recipe.url if source is None else fspath(source)
    origin = _opened(session, url, recipe.branch, storage_options)
    try:
        ledger = Ledger(session)
        view = _view(session, ledger, recipe, everything(origin))
        report = _brought(session, ledger, recipe, view, functions or {}, on_conflict)
        report.seconds = time.perf_counter() - started
        return report
    finally:
        origin.close()


def _opened(
    session: Session, url: str, branch: str, storage_options: Mapping[str, Any] | None
) -> Session:
    """Open the newest version of the source."""
    try:
        opened = connect(url, branch, read_only=True, storage_options=storage_options)
    except NotFoundError as error:
        reason = str(error).partition("\n")[0]
        raise InvalidStateError(
            f"the source of the copy {session.store.url!r} cannot be opened: {reason}"
            "\nnothing was changed: the copy is whole without it; if the source is elsewhere now:"
            " refresh_copy(source=url)",
            dataset=url,
        ) from error
    versioning.adopt(opened, session)
    return opened


def _number(ledger: Ledger) -> int | None:
    """Return the number of a copy's source in its ledger; None before it is recorded."""
    return next((at for at, one in enumerate(ledger.sources) if one.what == KIND), None)


def _view(session: Session, ledger: Ledger, recipe: Recipe, newest: RowSet) -> RowSet:
    """Return the rows of the newest version of the source that the copy is to have."""
    if recipe.steps is not None:
        steps = steps_from_json(recipe.steps, where=f"the recipe of {session.store.url!r}")
        try:
            return replayed(newest, steps)
        except (QueryError, NotFoundError) as error:
            raise InvalidStateError(
                f"what the copy {session.store.url!r} was made by cannot be done with"
                f" {newest.url} {newest.version}: {str(error).partition(chr(10))[0]}"
                "\nnothing was changed; make another copy by a query that can"
            ) from error
    names = [one.partition(REPEAT)[0] for one in ledger.entries(_number(ledger)).items]
    ids = np.concatenate([np.empty(0, ROW_ID), *map(rows_named, names)])
    numbers = row_numbers_of(newest, ids)
    return newest.take(numbers[numbers >= 0])


def _brought(
    session: Session,
    ledger: Ledger,
    recipe: Recipe,
    view: RowSet,
    functions: Mapping[str, Callable[[Any], Any]],
    on_conflict: OnConflict,
) -> IngestReport:
    known = next(one for one in ledger.sources if one.what == KIND)
    names = _names(session, recipe, view, known)
    makings = _makings(recipe, view, names, functions)
    here = everything(session).schema
    for name, tensor in names.items():
        if name in makings and here[tensor].nullable:
            makings[name] = makings[name].allowing_null()
    types = {name: making.type for name, making in makings.items()}
    types |= {name: here[tensor] for name, tensor in names.items()}
    view = view.with_columns([*dict.fromkeys((*names, *makings))])
    key, has_moved = None, view.url != recipe.url
    with session.lock, all_or_nothing(session):
        _follow_types(session, view, makings, names)
        encoder = Encoder(view, makings, types)
        try:
            report, key = bring(session, ledger, encoder, names, on_conflict=on_conflict)
        except NullError as error:
            raise _unsettled(session, str(error), names[error.column]) from error
        except MissingTensorError as error:
            tensor = str(error.facts["tensor"])
            reason = f"new rows of {view.url!r} have no value for {tensor!r}, which it alone has"
            raise _unsettled(session, reason, tensor) from error
        if has_moved:
            _record(session, replace(recipe, url=view.url))
    if key is None and not has_moved:
        session.discard()
    else:
        message = f"copy: {_changes(report)} from {view.url} {view.version}"
        if key is None:
            message = f"copy: follows {view.url}"
        before = session.committed.version
        session.commit(CommitRequest(message=message[:MESSAGE_CHARACTERS], key=key))
        report.commits += [session.committed.version] * (session.committed.version != before)
    report.version = session.committed.version
    return report


def _unsettled(session: Session, reason: str, tensor: str) -> InvalidStateError:
    return InvalidStateError(
        f"the copy {session.store.url!r} cannot follow: {reason}, and {tensor!r} does not"
        f" allow NULL\nnothing was changed; copy.alter_tensor({tensor!r}, nullable=True), commit,"
        " refresh_copy()",
        tensor=tensor,
    )


def _names(session: Session, recipe: Recipe, view: RowSet, known: KnownSource) -> dict[str, str]:
    """Return the tensors of the copy by the view's columns, as both are called now.

    Raises:
        InvalidStateError: The source lacks a column that the copy has.
    """
    here, there = session.snapshot().schema, view.selection.snapshot.schema
    ids = dict(known.tensors)
    found: dict[str, str] = {}
    for name, tensor_id in recipe.columns:
        own = here.by_id(ids[name])
        if own is None:
            continue  # the copy gave it up
        spec = None if tensor_id is None else there.by_id(tensor_id)
        now = name if tensor_id is None else None if spec is None else spec.name
        if now is None or now not in view.columns:
            raise InvalidStateError(
                f"{view.url} {view.version} has no column {name!r} any more, of which"
                f" {own.name!r} of the copy {session.store.url!r} was made: it was dropped, or the"
                " dataset was made again\nnothing was changed; to follow the other columns:"
                f" copy.drop_tensor({own.name!r}), commit, refresh_copy()",
                tensor=own.name,
            )
        found[now] = own.name
    return found


def _makings(
    recipe: Recipe,
    view: RowSet,
    names: Mapping[str, str],
    functions: Mapping[str, Callable[[Any], Any]],
) -> dict[str, Making]:
    """Return how columns are made: those of the copy, and images by which theirs are moved."""
    there, schema = view.selection.snapshot.schema, view.schema
    for name in functions:
        if "code" not in recipe.encode.get(name, {}):
            raise InvalidInputError(
                f"functions= names {name!r}, which no function made\nleave it out",
                argument="functions",
            )
    ids = dict(recipe.columns)
    makings: dict[str, Making] = {}
    for name, recorded in recipe.encode.items():
        spec = there.by_id(ids[name] or "")
        if spec is None or spec.name not in schema:
            continue
        now = spec.name
        is_moved = any(one in names for one in annotations_of(schema, now))
        if now in names or is_moved:
            makings[now] = Making.from_json(recorded, now, schema[now], functions.get(name))
    return makings


def _follow_types(
    session: Session, view: RowSet, makings: Mapping[str, Making], names: Mapping[str, str]
) -> None:
    """Stage classes that the source has named since; refuse other types that changed there.

    Raises:
        InvalidStateError: A type changed, by which samples may not fit the copy.
    """
    here = everything(session).schema
    for name, kind in view.schema.items():
        if name not in names or name in makings:
            continue
        own, tensor = here[names[name]], names[name]
        if isinstance(kind, ClassLabel) and isinstance(own, ClassLabel):
            new = [one for one in kind.names if one and one not in own.names]
            if new:
                schema_changes.change_names(session, tensor, "add", new)
            continue
        if _plain(kind) != _plain(own):
            raise InvalidStateError(
                f"column {name!r} of {view.url} {view.version} is {kind!r} now, and"
                f" {tensor!r} of the copy {session.store.url!r} is {own!r}\nnothing was changed;"
                f" where its samples fit the other type: copy.alter_tensor({tensor!r}, …), commit,"
                " refresh_copy(); otherwise make another copy",
                tensor=tensor,
            )


def _plain(kind: SampleType) -> dict[str, Any]:
    """Return a type without what does not change how samples are stored, or names tensors."""
    described = replace(kind, nullable=False, default=NO_DEFAULT, personal=False).to_json()
    return {key: one for key, one in described.items() if key not in ("of", "per")}


def _each_once(names: list[str]) -> list[str]:
    """Number the repeats of items: a row of the source may have several in the copy."""
    if len(set(names)) == len(names):
        return names
    seen: Counter[str] = Counter()
    once: list[str] = []
    for name in names:
        once.append(f"{name}{REPEAT}{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return once


def _changes(report: IngestReport) -> str:
    counts = {
        "added": report.added,
        "updated": report.updated,
        "deleted": report.deleted,
    }
    return ", ".join(f"{plural(one, 'row')} {what}" for what, one in counts.items() if one) or (
        "nothing new"
    )
