"""Finding rows by their key, for an upsert, and again after concurrent commits.

Keys become codes: equal numbers for equal keys. ``rematch`` compares what an upsert staged with the
keys that a newer entry shows, and stages what the same upsert would stage there:

    the key is where it was     nothing to do: the usual case, no value is read
    a row has it by now         that row gets the values; the appended row is deleted
    the row got another key     it gets back its values; the key's row is updated, or appended
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.write.staging import missing_tensor, stage_at
from tensorlake.errors import shown
from tensorlake.format import Schema, TensorSpec
from tensorlake.reading import ChunkCache, Reader, Snapshot
from tensorlake.storage import ForkLock
from tensorlake.types import Column, EncodedColumn, UniformColumn, concat, take, widened_floats
from tensorlake.versions import (
    Conflict,
    KeyedMove,
    KeyedRows,
    OnConflict,
    State,
    Transaction,
    distinct,
)

__all__ = ["codes_of", "rematch", "shown_key", "whole_rows"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def codes_of(
    reader: Reader,
    physical: Int64Array,
    keys: Sequence[TensorSpec],
    columns: Mapping[str, Column],
) -> tuple[Int64Array, Int64Array]:
    """One number for each key: those of physical rows (-1: NULL), and of the rows in columns."""
    count = len(columns[keys[0].id])
    codes = np.zeros(len(physical) + count, dtype=np.int64)
    is_null = np.zeros(len(codes), dtype=np.bool_)
    for spec in keys:
        stored = reader.read(spec.name, physical, decode=False)
        both = concat([stored, columns[spec.id]])
        if both.valid is not None:
            is_null |= ~both.valid
        ordinals = _ordinals(both)
        codes = _ordinals_of(codes * (int(ordinals.max(initial=0)) + 1) + ordinals)
    codes[is_null] = -1
    return codes[: len(physical)], codes[len(physical) :]


def _ordinals(column: Column) -> Int64Array:
    """Equal numbers for equal samples."""
    if isinstance(column, EncodedColumn):
        table: dict[bytes, int] = {}
        found = (table.setdefault(bytes(sample), len(table)) for sample in column.samples)
        return np.fromiter(found, np.int64, len(column))
    assert isinstance(column, UniformColumn)  # as the key was checked to be
    return _ordinals_of(column.values)


def _ordinals_of(values: npt.NDArray[Any]) -> Int64Array:
    return np.unique(widened_floats(values), return_inverse=True)[1].astype(np.int64).reshape(-1)


def shown_key(keys: Sequence[TensorSpec], columns: Mapping[str, Column], row: int) -> str:
    """Show the key of a row of columns: ``site = 'a', id = 5``."""
    values = [spec.type.present_one(columns[spec.id], row) for spec in keys]
    values = [one.item() if isinstance(one, np.generic) else one for one in values]
    return ", ".join(
        f"{spec.name} = {shown(value)}" for spec, value in zip(keys, values, strict=True)
    )


def whole_rows(schema: Schema, columns: Mapping[str, Column], *, call: str) -> dict[str, Column]:
    """Columns of new rows: tensors not given have their default."""
    count = len(next(iter(columns.values())))
    whole: dict[str, Column] = {}
    for spec in schema.tensors:
        if spec.id in columns:
            whole[spec.id] = columns[spec.id]
        elif spec.type.has_default:
            whole[spec.id] = spec.type.fill_column(spec.type.fill_value, count)
        else:
            given = [one.name for one in schema.tensors if one.id in columns]
            raise missing_tensor(spec, given, call=call)
    return whole


def rematch(
    lock: ForkLock,
    chunks: ChunkCache,
    transaction: Transaction,
    before: State,
    moves: Sequence[KeyedMove],
    on_conflict: OnConflict,
) -> tuple[Conflict, ...]:
    """Let staged rows that moved to a newer entry be those that their keys name there.

    Args:
        lock: The handle's.
        chunks: Chunks that the handle has read.
        transaction: Its changes, on the newer entry.
        before: Snapshot of the handle on the older entry.
        moves: Rows that each upsert staged, and their positions.
        on_conflict: "theirs" keeps a row to which a concurrent commit gave the key.

    Returns:
        The conflict, after which the transaction must be rolled back.
    """
    with lock:  # reads of other threads see all of it or nothing
        earlier = Snapshot(before, transaction.packs, version="", digest="")
        for move in moves:
            conflict = _match_again(chunks, transaction, earlier, move, on_conflict)
            if conflict is not None:
                return (conflict,)
    return ()


def _match_again(
    chunks: ChunkCache,
    transaction: Transaction,
    earlier: Snapshot,
    move: KeyedMove,
    on_conflict: OnConflict,
) -> Conflict | None:
    schema = transaction.schema
    keys: list[TensorSpec] = []
    for id_ in move.was.keys:
        spec, was = schema.by_id(id_), earlier.schema.by_id(id_)
        if spec is None or was is None or spec.type != was.type:
            return Conflict("read", id_)
        keys.append(spec)
    is_kept = earlier.rows_of(move.was.rows) >= 0  # others were deleted here, by hand
    were, places = move.was.rows[is_kept], move.rows[is_kept]
    here = _snapshot(transaction)
    reader = Reader(here, chunks)
    columns = {spec.id: _read(chunks, earlier, spec, were) for spec in keys}
    described = _rows_to_match(earlier, here, move, places)
    known, given = codes_of(reader, described, keys, columns)
    found, count, has_key = _other_rows(_positions(described, places), known, given)
    is_own = places >= transaction.base_state.physical
    if len(several := np.flatnonzero((count > 1) | ((count == 1) & has_key & ~is_own))):
        description = (
            f"a key of an upsert ({shown_key(keys, columns, int(several[0]))}) has several rows"
        )
        return Conflict("read", keys[0].id, description=description)
    is_gone = ~is_own & (here.rows_of(places) < 0)
    if is_gone.any():
        return Conflict("delete", None, tuple(were[is_gone].tolist()))
    stays = has_key & (count == 0)
    rows = np.where(stays, places, -1)
    moved = np.flatnonzero(~stays)
    if len(moved):
        at = np.full(len(moved), -1, dtype=np.int64)
        is_known = found[moved] >= 0
        at[is_known] = described[found[moved][is_known]]
        matched = _Matched(
            keys={id_: take(column, moved) for id_, column in columns.items()},
            given=move.was.given,
            places=places[moved],
            at=at,
            gives_way=is_known & (on_conflict == "theirs"),
        )
        rows[moved] = _restage(chunks, transaction, matched)
        rows = rows[rows >= 0]
    transaction.note_keyed(KeyedRows(move.was.keys, move.was.given, rows))
    return None


def _rows_to_match(
    earlier: Snapshot, here: Snapshot, move: KeyedMove, places: Int64Array
) -> Int64Array:
    """Physical rows that are shown now and may have a key of the upsert, in order.

    Unchanged rows from before cannot have a key of the upsert, except where they were matched: only
    newer rows decide a race, however large the dataset is.
    """
    described = here.physical(np.arange(here.num_rows, dtype=np.int64))
    if move.keys_stand:
        was_shown = np.zeros(move.limit, dtype=np.bool_)
        before = earlier.physical(np.arange(earlier.num_rows, dtype=np.int64))
        was_shown[before[before < move.limit]] = True
        is_new = described >= move.limit
        is_new[~is_new] = ~was_shown[described[~is_new]]
        own = places[here.rows_of(places) >= 0]
        described = np.concatenate((described[is_new], own))
    return distinct(described)


def _positions(rows: Int64Array, wanted: Int64Array) -> Int64Array:
    """Where sorted rows have each of the wanted ones; -1: nowhere."""
    at = np.searchsorted(rows, wanted)
    is_there = at < len(rows)
    is_there[is_there] = rows[at[is_there]] == wanted[is_there]
    return np.where(is_there, at, -1)


@dataclass(frozen=True, slots=True)
class _Matched:
    """Rows of an upsert whose keys name other rows than those they were staged at.

    Attributes:
        keys: The keys, by tensor id.
        given: Ids of the tensors that got values, but for the key's.
        places: The rows they were staged at.
        at: The rows that have the keys; -1: none has.
        gives_way: Where values of others stay.
    """

    keys: Mapping[str, Column]
    given: Sequence[str]
    places: Int64Array
    at: Int64Array
    gives_way: BoolArray


def _other_rows(
    own: Int64Array, known: Int64Array, given: Int64Array
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Find for each key a row that has it and is not its own, and how many there are.

    Args:
        own: The row that was staged for the key; -1 where it is not shown.
        known: Codes of all rows.
        given: Codes of the keys.

    Returns:
        The first other row (-1: none), how many others have the key, and whether the own row has.
    """
    has_key = (own >= 0) & (known[own] == given) if len(known) else np.zeros(len(own), np.bool_)
    by_key = np.argsort(known, kind="stable")
    start = np.searchsorted(known, given, side="left", sorter=by_key)
    stop = np.searchsorted(known, given, side="right", sorter=by_key)
    count = stop - start - has_key
    found = np.full(len(given), -1, dtype=np.int64)
    some = np.flatnonzero(count > 0)
    first = by_key[start[some]]
    is_own = first == own[some]
    first[is_own] = by_key[start[some][is_own] + 1]
    found[some] = first
    return found, count, has_key


def _restage(
    chunks: ChunkCache,
    transaction: Transaction,
    move: _Matched,
) -> Int64Array:
    """Move staged values to the rows that have their keys.

    Returns:
        Where they are; -1 where they gave way to others' values.
    """
    base = transaction.base_state
    places, at = move.places, move.at
    is_own = places >= base.physical
    update = np.flatnonzero((at >= 0) & ~move.gives_way)
    append = np.flatnonzero(at < 0)
    back = np.setdiff1d(places[~is_own], at[update])
    here = _snapshot(transaction)
    published = Snapshot(base, transaction.packs, version="", digest="")
    given = [spec for spec in transaction.schema.tensors if spec.id in move.given]
    values = {spec.id: _read(chunks, here, spec, places) for spec in given}
    for spec in given:
        column = concat([take(values[spec.id], update), _read(chunks, published, spec, back)])
        rows = np.concatenate((at[update], back))
        if len(rows):
            stage_at(transaction, Reader(_snapshot(transaction), chunks), spec, rows, column)
    gone = here.rows_of(places[is_own])
    if len(gone := np.sort(gone[gone >= 0])):
        transaction.delete(gone, here.physical(gone))
    where = np.full(len(places), -1, dtype=np.int64)
    where[update] = at[update]
    if len(append):
        start = base.physical + transaction.appended_rows
        new = {id_: take(column, append) for id_, column in {**values, **move.keys}.items()}
        transaction.append(whole_rows(transaction.schema, new, call="upsert()"), len(append))
        where[append] = start + np.arange(len(append))
    return where


def _snapshot(transaction: Transaction) -> Snapshot:
    return Snapshot(transaction.working(), transaction.packs, version="", digest="")


def _read(chunks: ChunkCache, snapshot: Snapshot, spec: TensorSpec, rows: Int64Array) -> Column:
    """Read samples of a tensor, by whatever name the snapshot knows it; its fill before it was."""
    known = snapshot.schema.by_id(spec.id)
    if known is None:
        return spec.type.fill_column(spec.fill, len(rows))
    return Reader(snapshot, chunks).read(known.name, rows, decode=False)
