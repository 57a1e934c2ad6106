"""Upserting: rows whose key is known are updated, the others appended.

Keys of the dataset and of the rows given become codes, one number a key whatever its columns are,
and are matched by sorting: nothing loops over rows of numeric keys.

An upsert depends on the keys of all rows. When another commit was faster, the staged rows
are matched again (``write/key_matching.py``), so that a key that two processes add at once has one
row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.item_counts import check_batch, items_first
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.write.inputs import Batch, batches
from tensorlake.dataset.write.key_matching import codes_of, rematch, shown_key, whole_rows
from tensorlake.dataset.write.staging import convert_columns, stage_values
from tensorlake.errors import InvalidInputError, MissingTensorError, shown
from tensorlake.format import Schema, TensorSpec
from tensorlake.storage import LinkStore
from tensorlake.types import (
    Bytes,
    Column,
    Text,
    UniformColumn,
    concat,
    holds_floats,
    take,
)
from tensorlake.versions import KeyedRows

__all__ = ["Upserted", "upsert"]

Int64Array = npt.NDArray[np.int64]

CALL = "upsert()"


@dataclass(frozen=True, slots=True)
class Upserted:
    """The rows that an upsert staged.

    Attributes:
        updated: How many rows were known, and got the values given.
        appended: How many rows are new.
    """

    updated: int
    appended: int


def upsert(session: Session, data: Any, on: str | Sequence[str]) -> Upserted:
    """Stage rows by key; all of them or none."""
    names = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    with session.lock:
        transaction = session.staging()
        schema = transaction.schema
        keys = [_checked_key(schema[name]) for name in names]
        if not keys:
            raise InvalidInputError(
                f'upsert(on={shown(on)}) names no key\nname it: on="id", or on=["site", "id"]',
                argument="on",
                actual=on,
            )
        columns, count = _gathered(data, schema, session.packs.links)
        check_batch(schema, columns, range(count), call=CALL)
        for spec in keys:
            if spec.id not in columns:
                raise MissingTensorError(
                    f"{CALL} lacks the key {spec.name!r}"
                    f" (on={shown([*names])})\ngive it for every row",
                    tensor=spec.name,
                )
        for spec in keys:
            _refuse_no_key(spec, columns[spec.id])
        snapshot = session.snapshot()
        physical = snapshot.physical(np.arange(snapshot.num_rows, dtype=np.int64))
        known, given = codes_of(session.reader(snapshot), physical, keys, columns)
        rows = _matches(session, keys, columns, known, given)
        is_known = rows >= 0
        update, append = np.flatnonzero(is_known), np.flatnonzero(~is_known)
        born = transaction.base_state.physical + transaction.appended_rows
        touched = [physical[rows[update]], born + np.arange(len(append), dtype=np.int64)]
        others = [spec for spec in schema.tensors if spec.id in columns and spec not in keys]
        savepoint = transaction.savepoint()
        try:
            types = {spec.name: spec.type for spec in others}
            for spec in map(schema.__getitem__, items_first(types, types)):
                column = take(columns[spec.id], update)
                stage_values(session, spec, rows[update], column, call=CALL)
            if len(append):
                new = {id_: take(column, append) for id_, column in columns.items()}
                whole = whole_rows(schema, new, call=CALL)
                check_batch(schema, whole, append, call=CALL)
                transaction.append(whole, len(append))
            if count:
                transaction.rematch = partial(rematch, session.lock, session.chunks)
                transaction.note_keyed(
                    KeyedRows(
                        keys=tuple(spec.id for spec in keys),
                        given=tuple(spec.id for spec in others),
                        rows=np.concatenate(touched),
                    )
                )
        except BaseException:
            transaction.roll_back(savepoint)
            raise
        return Upserted(updated=len(update), appended=len(append))


def _checked_key(spec: TensorSpec) -> TensorSpec:
    is_scalar = spec.type.layout == "uniform" and not spec.type.shape
    if not is_scalar and not isinstance(spec.type, Text | Bytes):
        raise InvalidInputError(
            f"upsert(on={spec.name!r}): {spec.type.describe()} cannot be a key\n"
            "a key is a number, a boolean, a class, a string or bytes, one per row",
            tensor=spec.name,
        )
    return spec


def _gathered(data: Any, schema: Schema, files: LinkStore) -> tuple[dict[str, Column], int]:
    """All rows given, as one column for each tensor they name."""
    parts: list[dict[str, Column]] = []
    count = 0
    for batch in batches(data, schema=schema, call=CALL):
        columns, rows = convert_columns(schema, batch, files, row_start=count, call=CALL)
        if rows and parts and columns.keys() != parts[0].keys():
            raise _uneven(schema, parts[0], columns, count)
        if rows:
            parts.append(columns)
        count += rows
    if not parts:
        return _no_rows(schema, files), 0
    return {id_: concat([part[id_] for part in parts]) for id_ in parts[0]}, count


def _no_rows(schema: Schema, files: LinkStore) -> dict[str, Column]:
    nothing: Batch = {name: [] for name in schema.stored}
    return convert_columns(schema, nothing, files, row_start=0, call=CALL)[0]


def _uneven(
    schema: Schema, first: Mapping[str, Column], other: Mapping[str, Column], row: int
) -> MissingTensorError:
    differ = sorted(
        spec.name for spec in schema.tensors if (spec.id in first) != (spec.id in other)
    )
    return MissingTensorError(
        f"row {row} of {CALL} does not name the tensors that row 0 names: {differ}\n"
        "give every row the same names",
        row=row,
    )


def _refuse_no_key(spec: TensorSpec, column: Column) -> None:
    """A row given without a key would match nothing, or everything without one."""
    bad = np.zeros(len(column), dtype=np.bool_) if column.valid is None else ~column.valid
    what = "NULL"
    if not bad.any() and isinstance(column, UniformColumn) and holds_floats(column.values.dtype):
        bad, what = np.isnan(column.values), "NaN"
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"row {row} of {CALL} has the key {spec.name!r} {what}, which no row can be found by\n"
            "give every row a key, or append() it",
            tensor=spec.name,
            row=row,
        )


def _matches(
    session: Session,
    keys: Sequence[TensorSpec],
    columns: Mapping[str, Column],
    known: Int64Array,
    given: Int64Array,
) -> Int64Array:
    """The dataset's row of each row given; -1 where the key is new."""
    order = np.argsort(given, kind="stable")
    again = np.flatnonzero(np.diff(given[order]) == 0)
    if len(again):
        first, second = int(order[again[0]]), int(order[again[0] + 1])
        raise InvalidInputError(
            f"rows {first} and {second} of {CALL} have one key"
            f" ({shown_key(keys, columns, first)})\ngive every key once",
            row=second,
        )
    by_key = np.argsort(known, kind="stable")
    start = np.searchsorted(known, given, side="left", sorter=by_key)
    stop = np.searchsorted(known, given, side="right", sorter=by_key)
    if len(several := np.flatnonzero(stop - start > 1)):
        row = int(several[0])
        found = sorted(by_key[start[row] : stop[row]].tolist())
        raise InvalidInputError(
            f"the key of row {row} of {CALL} ({shown_key(keys, columns, row)}) occurs in rows"
            f" {', '.join(map(str, found[:3]))}{', …' if len(found) > 3 else ''}"  # noqa: PLR2004 - as shown
            f" of {session.store.url!r}; it does not identify a single row\n"
            "delete all but one of them, or choose a key that is unique",
            row=row,
            rows=tuple(found),
        )
    rows = np.full(len(given), -1, dtype=np.int64)
    is_known = stop > start
    rows[is_known] = by_key[start[is_known]]
    return rows
