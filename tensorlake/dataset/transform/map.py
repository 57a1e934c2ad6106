"""``map``: a function over rows, whose outputs fill tensors of this dataset or make a new one.

In place, outputs are staged for the rows they were made from, by row id, in groups that bound
memory; when anything raises, the handle is as it was before. Into a new dataset, runs of rows are
commits with keys that name the rows and their version: after a kill, the same call resumes, and
produces the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.connect import connect, connect_new, exists
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.item_counts import items_first
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.core.structs import expand_names, flattened
from tensorlake.dataset.history.versions import log
from tensorlake.dataset.query.assignment import assign
from tensorlake.dataset.transform.map_report import MapCount, MapReport
from tensorlake.dataset.transform.map_workers import Call, Piece, results, rows_shown
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write import staging
from tensorlake.dataset.write.staging import all_or_nothing
from tensorlake.errors import (
    InvalidInputError,
    MissingTensorError,
    SchemaError,
    ShapeMismatchError,
    shown,
)
from tensorlake.quantities import plural
from tensorlake.types import SampleType, as_type, expand_structs
from tensorlake.versions import CommitRequest

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.query.predicate import Predicate

__all__ = ["MapOptions", "fill_rows", "write_rows"]

Int64Array = npt.NDArray[np.int64]

STAGED_ROWS = 8192
STAGED_NBYTES = 64 << 20
"""Outputs staged together: whole chunks where they are small, bounded memory where they are not."""

COMMIT_ROWS = 65_536
"""Source rows per commit of a new dataset: the most that a kill can lose."""


@dataclass(frozen=True, slots=True)
class MapOptions:
    """The options of ``ds.map`` for calls of its function."""

    batch_size: int | None
    engine: str
    workers: int | None
    on_error: str
    storage_options: Mapping[str, Any] | None


def fill_rows(
    session: Session,
    function: Callable[[dict[str, Any]], Any],
    *,
    schema: Mapping[str, Any],
    columns: Sequence[str] | None,
    where: str | Predicate | None,
    options: MapOptions,
) -> None:
    """Call a function on the rows of a dataset, and stage what it returns as its tensors."""
    before = everything(session)
    call = _call(function, _columns(before, columns), options)
    session.map_report = _fill(session, before, where, call, schema)


def write_rows(
    rows: RowSet,
    function: Callable[[dict[str, Any]], Any],
    *,
    schema: Mapping[str, Any],
    columns: Sequence[str] | None,
    to: str,
    where: str | Predicate | None,
    options: MapOptions,
) -> Session:
    """Call a function on rows, and write what it returns as the rows of a new dataset."""
    call = _call(function, _columns(rows, columns), options)
    if where is not None:
        from tensorlake.dataset.query.run import run_where

        rows = run_where(rows, where, {})
    target, report = _write(rows, to, call, schema, storage_options=options.storage_options)
    target.map_report = report
    return target


def _call(
    function: Callable[[dict[str, Any]], Any], columns: tuple[str, ...], options: MapOptions
) -> Call:
    return Call.checked(
        function,
        columns,
        batch_size=options.batch_size,
        engine=options.engine,
        workers=options.workers,
        on_error=options.on_error,
    )


def _columns(view: RowSet, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = (*view.selection.columns, *view.computed)
    if isinstance(columns, str):
        message = (
            f"columns is a list of names, got {shown(columns)}\nwrite columns=[{shown(columns)}]"
        )
        raise InvalidInputError(message, actual=columns)
    columns = None if columns is None else expand_names(columns, (*known, "_row"))
    for name in columns or ():
        if name not in known and name != "_row":
            raise unknown_column(name, (*known, "_row"))
    return known if columns is None else tuple(columns)


def _fill(
    session: Session,
    before: RowSet,
    where: str | Predicate | None,
    call: Call,
    schema: Mapping[str, Any],
) -> MapReport:
    """Stage the outputs for the rows of a dataset, or those that meet a condition, as its tensors.

    Tensors are added first, so that a condition may select rows without outputs, even at first.
    """
    types = _types(schema)
    count = MapCount(types)
    with all_or_nothing(session):
        count.added = _add_tensors(session, types)
        rows = before
        if where is not None:
            from tensorlake.dataset.query.run import run_where

            rows = before.take(run_where(everything(session), where, {}).rows)
        for positions, columns in _groups(count.noting(rows, results(rows, call)), [*types], call):
            named = rows.take(positions)
            for name in items_first(columns, everything(session).schema):
                with _naming_the_row(rows, positions):
                    assign(session, name, named, columns[name])
        return count.report(session, is_staged=session.transaction is not None)


def _write(
    view: RowSet,
    url: str,
    call: Call,
    schema: Mapping[str, Any],
    *,
    storage_options: Mapping[str, Any] | None,
) -> tuple[Session, MapReport]:
    """Write the outputs as the rows of a new dataset."""
    types = _types(schema)
    target = _target(url, types, storage_options)
    known = {key for commit in log(target, None) for key in commit.keys}
    described = json.dumps([call.columns, call.batch_size, [*types]])
    source = hashlib.blake2b(f"{view.selection.digest}{described}".encode(), digest_size=16)
    if not all(key.startswith(f"{KEY}{source.hexdigest()}:") for key in known):
        message = (
            f"{url!r} was made from other rows than {view.url} {view.version}, another version, or"
            f" other columns or batches\nto make it again: tl.delete({url!r}, confirm={url!r}), or"
            " another URL"
        )
        target.close()
        raise InvalidInputError(message, dataset=url)
    size = COMMIT_ROWS if call.batch_size is None else _multiple(call.batch_size, COMMIT_ROWS)
    count = MapCount(types)
    try:
        for start in range(0, len(view), size):
            stop = min(len(view), start + size)
            key = f"{KEY}{source.hexdigest()}:{start}"
            if key in known:
                count.already_there += stop - start
                continue
            before = len(everything(target))
            for piece in count.noting(view, results(view, call, start=start, stop=stop)):
                is_batch = call.batch_size is not None
                whole = [piece.positions] if piece.outputs else []  # otherwise it was skipped
                each = whole if is_batch else piece.positions[:, None]
                for output, positions in zip(piece.outputs, each, strict=True):
                    rows = _rows_of(output, [*types], is_batch=is_batch)
                    if rows:
                        with _naming_the_row(view, positions, is_one=not is_batch):
                            staging.extend(target, rows)
            count.made += len(everything(target)) - before
            message = f"map: rows {start} to {stop - 1} of {view.url} {view.version}"
            target.commit(CommitRequest(message=message, key=key))
    except BaseException:
        target.discard()
        target.close()
        raise
    return target, count.report(target, is_staged=False)


@contextmanager
def _naming_the_row(
    view: RowSet, positions: Int64Array, *, is_one: bool = False
) -> Generator[None]:
    """Add to an error the source row of the refused output: the error counts staged rows."""
    try:
        yield
    except InvalidInputError as error:
        at = error.facts.get("row")
        made_from = positions
        if not is_one and isinstance(at, int) and 0 <= at < len(positions):
            made_from = positions[at : at + 1]
        error.add_note(f"returned by the function of map(), for {rows_shown(view, made_from)}")
        raise


KEY = "map:"


def _types(schema: Mapping[str, Any]) -> dict[str, SampleType]:
    if not isinstance(schema, Mapping) or not schema:
        raise SchemaError(
            f"map() makes no tensor: schema={shown(schema)}"
            "\nname what the function returns: schema={…: type}"
        )
    return {name: as_type(one) for name, one in expand_structs(schema).items()}


def _add_tensors(session: Session, types: Mapping[str, SampleType]) -> list[str]:
    schema = everything(session).schema
    added: list[str] = []
    for name, wanted in types.items():
        found = schema.get(name)
        if found is None:
            schema_changes.add_tensor(session, name, replace(wanted, nullable=True), None)
            added.append(name)
        elif replace(found, nullable=True) != replace(wanted, nullable=True):
            raise SchemaError(
                f"{name!r} is {found.describe()} already, and map() would make it"
                f" {wanted.describe()}\ngive its type in schema=, or another name",
                tensor=name,
                expected=found.describe(),
                actual=wanted.describe(),
            )
    return added


def _groups(
    pieces: Iterator[Piece], names: Sequence[str], call: Call
) -> Iterator[tuple[Int64Array, dict[str, list[Any]]]]:
    """Gather outputs until they are worth staging."""
    positions: list[Int64Array] = []
    columns: dict[str, list[Any]] = {name: [] for name in names}
    rows = nbytes = 0
    for piece in pieces:
        if not len(piece.positions):
            continue
        if call.batch_size is None:
            outputs = _transposed(piece, names)
        else:
            outputs = _named(piece.outputs[0], names, is_batch=True)
        for name in names:
            values: Any = outputs[name]  # Any: what the function returned
            if not _is_column(values):
                raise InvalidInputError(
                    f"the function of map() returned {type(values).__name__} as {name!r} of"
                    f" {plural(len(piece.positions), 'row')}\nreturn an array or a list, with a"
                    " value for each row",
                    tensor=name,
                    actual=type(values).__name__,
                )
            if len(values) != len(piece.positions):
                raise ShapeMismatchError(
                    f"the function of map() returned {len(values):,} values of {name!r} for"
                    f" {plural(len(piece.positions), 'row')}\nreturn one for each row; one to many"
                    " makes a new dataset: to=url",
                    tensor=name,
                    expected=len(piece.positions),
                    actual=len(values),
                )
            columns[name].extend(values)
            nbytes += int(getattr(values, "nbytes", 0)) or sum(map(_nbytes, values))
        positions.append(piece.positions)
        rows += len(piece.positions)
        if rows >= STAGED_ROWS or nbytes >= STAGED_NBYTES:
            yield np.concatenate(positions), columns
            positions, columns = [], {name: [] for name in names}
            rows = nbytes = 0
    if positions:
        yield np.concatenate(positions), columns


def _is_column(values: Any) -> bool:
    is_one_value = isinstance(values, str | bytes | Mapping) or getattr(values, "ndim", 1) == 0
    return isinstance(values, Sized) and not is_one_value and not isinstance(values, AbstractSet)


def _transposed(piece: Piece, names: Sequence[str]) -> dict[str, list[Any]]:
    rows = [_named(output, names, is_batch=False) for output in piece.outputs]
    return {name: [row[name] for row in rows] for name in names}


def _named(output: Any, names: Sequence[str], *, is_batch: bool) -> Mapping[str, Any]:
    """Return an output by tensor, checked; the output of a struct becomes its fields."""
    if not isinstance(output, Mapping):
        raise InvalidInputError(
            f"the function of map() returned {type(output).__name__}, not a dict"
            f"\nreturn {{{', '.join(f'{name!r}: …' for name in names)}}}",
            actual=type(output).__name__,
        )
    given = cast("Mapping[str, Any]", output)
    if is_batch:
        given = flattened(given, names, call="map()")
    elif not given.keys() <= set(names):
        columns = flattened({key: [one] for key, one in given.items()}, names, call="map()")
        given = {key: column[0] for key, column in columns.items()}
    if set(given) != set(names):
        raise MissingTensorError(
            f"the function of map() returned {sorted(given)}, and schema= names {sorted(names)}"
            "\nreturn a value for each name of the schema",
            expected=sorted(names),
            actual=sorted(given),
        )
    return given


def _rows_of(output: Any, names: Sequence[str], *, is_batch: bool) -> Any:
    """Return one output as input of `extend`: nothing, one row, several, or columns."""
    if output is None:
        return None
    if isinstance(output, list | tuple):
        many: list[Any] = [*output]
        return [_named(row, names, is_batch=False) for row in many]
    named = dict(_named(output, names, is_batch=is_batch))
    return named if is_batch else [named]


def _nbytes(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    return int(size) if size is not None else len(value) if isinstance(value, bytes | str) else 64


def _multiple(of: int, about: int) -> int:
    return of * max(1, about // of)


def _target(
    url: str, types: Mapping[str, SampleType], storage_options: Mapping[str, Any] | None
) -> Session:
    if not exists(url, storage_options=storage_options):
        return connect_new(url, types, storage_options=storage_options)
    target = connect(url, storage_options=storage_options)
    own = all(any(key.startswith(KEY) for key in one.keys) for one in log(target, None)[:-1])
    if not own or everything(target).schema != dict(types):
        target.close()
        raise InvalidInputError(
            f"there is a dataset at {url!r} that this call did not begin"
            "\nchoose another URL: map(…, to=url)",
            dataset=url,
        )
    return target
