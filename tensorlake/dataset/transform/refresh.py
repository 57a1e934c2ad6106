"""Refreshing computed columns: the function over stale rows, whose results are staged.

    stale rows ──read inputs, call──► results ──► values, reasons of failures, cells they are from

Results are staged in groups, each with the cells that it was made from. After an interruption they
are not computed again. A row whose function raises, or returns what its tensor does
not take, is NULL and has the reason in ``name.error``; it is computed again with ``retry``, or when
an input or the function changes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns.declaration import (
    check_reasons,
    computed_spec,
    in_order_of_inputs,
    reasons_spec,
)
from tensorlake.dataset.columns.freshness import stale_positions
from tensorlake.dataset.columns.functions import known_function
from tensorlake.dataset.core.rowset import RowSet, everything
from tensorlake.dataset.query.run import positions_where
from tensorlake.dataset.transform.map.calls import Call, MapOptions, Piece, pieces_of
from tensorlake.dataset.transform.map.outputs import output_nbytes
from tensorlake.dataset.transform.map.workers import results
from tensorlake.dataset.write.staging import stage_at
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    SkippedRowsWarning,
    TensorlakeError,
    shown,
)
from tensorlake.quantities import check_flags, plural
from tensorlake.types import Column

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.dataset.query.predicate import Predicate
    from tensorlake.format import TensorSpec

__all__ = ["RefreshReport", "refresh_columns"]

Int64Array = npt.NDArray[np.int64]

STAGED_ROWS = 8192
STAGED_NBYTES = 64 << 20
"""Results staged together, as by ``map``."""

STAGED_S = 10.0
"""Seconds after which results of slow functions are staged: what a killed process would lose."""

REASON_CHARACTERS = 500
CALL = "refresh_columns()"


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """The result of ``refresh_columns``; prints as one line.

    Attributes:
        computed: By column, the rows for which the function was called.
        failed: By column, those of them that it failed for.
    """

    computed: Mapping[str, int] = field(default_factory=dict[str, int])
    failed: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        parts = [
            f"{name} of {plural(rows, 'row')}"
            + (f" ({self.failed[name]:,} failed)" if self.failed.get(name) else "")
            for name, rows in self.computed.items()
        ]
        return f"computed {', '.join(parts) or 'nothing'}"


def refresh_columns(
    session: Session,
    names: Sequence[str] | None,
    *,
    engine: str,
    where: str | Predicate | None,
    retry: bool,
) -> RefreshReport:
    """Compute stale rows of computed columns, inputs first, and stage the results.

    Raises:
        SchemaError: No function computes one of them.
        InvalidStateError: A function was not given to this process, or the handle moved meanwhile.
    """
    # columns staged here, such as an input computed before, are not seen there
    if isinstance(engine, str) and engine == "ray":
        raise InvalidInputError(
            "refresh_columns(engine='ray'): columns are computed in this process"
            "\ngive 'threads' or 'processes', or call ds.map(…, engine='ray')",
            argument="engine",
            actual=engine,
        )
    if not isinstance(engine, str) or engine not in ("threads", "processes"):
        raise InvalidInputError(
            f"refresh_columns(engine={shown(engine)}): give 'threads' or 'processes'",
            argument="engine",
            actual=engine,
        )
    check_flags(retry=retry)
    with session.lock:
        schema = session.staging().schema
    wanted = [one for one in schema.tensors if one.has_function]
    if names is not None:
        if not isinstance(names, list | tuple):
            raise InvalidInputError(
                f"names is a list of columns, got {shown(names)}\nwrite names=[{shown(names)}]",
                argument="names",
                actual=names,
            )
        wanted = [computed_spec(schema, name) for name in names]
    specs = in_order_of_inputs(schema, wanted)
    for spec in specs:
        known_function(spec, where=session.store.url)  # before anything is computed
        check_reasons(schema, spec)
    # once, before any column has other values: it may be of one that is computed here
    chosen = None if where is None else positions_where(everything(session), where, {})
    computed: dict[str, int] = {}
    failed: dict[str, int] = {}
    for spec in specs:
        done = _Refresh(session, spec, engine).run(chosen, retry=retry)
        computed[spec.name], failed[spec.name] = done
    return RefreshReport(computed, failed)


class _Gathered:
    """Results, with the reasons of those that failed, until they are worth staging."""

    def __init__(self) -> None:
        self._empty()

    def _empty(self) -> None:
        self._positions: list[Int64Array] = [np.zeros(0, np.int64)]
        self._values: list[Any] = []
        self._reasons: list[str | None] = []
        self._nbytes = 0
        self._since = time.monotonic()

    def add(self, positions: Int64Array, values: list[Any], reasons: list[str | None]) -> None:
        self._positions.append(positions)
        self._values += values
        self._reasons += reasons
        self._nbytes += sum(map(output_nbytes, values))

    @property
    def is_enough(self) -> bool:
        count = len(self._values)
        is_late = count > 0 and time.monotonic() - self._since >= STAGED_S
        return count >= STAGED_ROWS or self._nbytes >= STAGED_NBYTES or is_late

    def taken(self) -> tuple[Int64Array, list[Any], list[str | None]]:
        """Return the positions, values and reasons, and forget them."""
        found = np.concatenate(self._positions), self._values, self._reasons
        self._empty()
        return found


class _Refresh:
    """Computes one column."""

    def __init__(self, session: Session, spec: TensorSpec, engine: str) -> None:
        self._session = session
        self._spec = spec
        self._version = session.committed.version
        with session.lock:
            self._rows = everything(session)
            self._read = session.staging().savepoint()
        assert spec.compute is not None
        state = self._rows.selection.snapshot.state
        ids = spec.compute.inputs
        names = [one.name for id_ in ids if (one := state.schema.by_id(id_)) is not None]
        if len(names) < len(ids):
            raise InvalidStateError(
                f"{spec.name!r} is computed from a tensor that was dropped since\ndeclare others:"
                f" ds.alter_tensor({spec.name!r}, inputs=[…])",
                tensor=spec.name,
            )
        function = known_function(spec, where=session.store.url)
        size = spec.compute.batch_size
        options = MapOptions(size, engine, None, "skip", None)
        self._call = Call.of(function, self._rows, names, options)
        self._first_reason = ""

    def run(self, chosen: Int64Array | None, *, retry: bool) -> tuple[int, int]:
        """Compute the stale rows among those chosen; return the rows computed, and failed."""
        positions = self._positions(chosen, retry=retry)
        view = self._rows.take(positions)
        computed = failed = 0
        gathered = _Gathered()
        try:
            for piece in results(view, self._call, pieces_of(len(view), self._call)):
                for at, values, reasons in self._of_piece(piece):
                    gathered.add(at, values, reasons)
                if gathered.is_enough:
                    at, values, reasons = gathered.taken()
                    failed += self._stage(view, at, values, reasons)
                    computed += len(at)
        finally:  # also of what was interrupted
            at, values, reasons = gathered.taken()
            if len(at):
                failed += self._stage(view, at, values, reasons)
                computed += len(at)
        if failed:
            warnings.warn(
                f"the function of {self._spec.name!r} failed for {plural(failed, 'row')}; the first"
                f" reason is {self._first_reason}; all are in {self._spec.name + '.error'!r}",
                SkippedRowsWarning,
                stacklevel=4,
            )
        return computed, failed

    def _positions(self, chosen: Int64Array | None, *, retry: bool) -> Int64Array:
        rows = self._rows
        positions = stale_positions(rows, self._spec.name)
        reasons = reasons_spec(rows.selection.snapshot.schema, self._spec)
        if retry and reasons.name in rows.columns:
            physical = rows.selection.physical(rows.selection.all_positions())
            is_null = rows.reader().is_null(reasons.name, physical)
            positions = np.union1d(positions, np.flatnonzero(~is_null))
        return positions if chosen is None else np.intersect1d(positions, chosen)

    def _of_piece(self, piece: Piece) -> Iterator[tuple[Int64Array, list[Any], list[str | None]]]:
        """Yield rows of a piece, their values, and the reasons of those that failed."""
        count = len(piece.positions)
        if count and self._call.batch_size is None:
            yield piece.positions, piece.outputs, [None] * count
        elif count:
            values, found = piece.outputs[0], _length(piece.outputs[0])
            if found == count:
                yield piece.positions, list(values), [None] * count
            else:
                given = "a single value" if found is None else plural(found, "value")
                reason = f"the function returned {given} for {plural(count, 'row')}"
                yield piece.positions, [None] * count, [reason] * count
        for at, error in piece.skipped:
            yield at, [None] * len(at), [_reason(error)] * len(at)

    def _stage(
        self, view: RowSet, at: Int64Array, values: list[Any], reasons: list[str | None]
    ) -> int:
        """Stage values of rows of a view with the cells that they were made from."""
        session, spec = self._session, self._spec
        column = self._column(values, reasons)
        is_failed = np.array([reason is not None for reason in reasons], np.bool_)
        with session.lock:
            transaction = session.staging()
            if session.committed.version != self._version:
                raise InvalidStateError(
                    f"this handle of {session.store.url!r} moved to {session.committed.version}"
                    f" while {spec.name!r} was computed on {self._version}\nrefresh it again",
                    tensor=spec.name,
                )
            schema = transaction.schema
            current = schema.by_id(spec.id)
            if current is None or current.compute != spec.compute:
                raise InvalidStateError(
                    f"{spec.name!r} was changed while it was computed\nrefresh it again",
                    tensor=spec.name,
                )
            physical = view.selection.physical(at)  # refused, if the rows were discarded
            savepoint = transaction.savepoint()
            try:
                self._stage_column(current, physical, column)
                self._stage_reasons(physical, reasons, is_failed)
                transaction.note_made(spec.id, physical, self._read)
            except BaseException:
                transaction.roll_back(savepoint)
                raise
        return int(is_failed.sum())

    def _column(self, values: list[Any], reasons: list[str | None]) -> Column:
        """Return values as a column; those that the tensor does not take become NULL."""
        spec = self._spec
        try:
            return spec.type.convert(values, tensor=spec.name, call=CALL)
        except (InvalidInputError, TypeError, ValueError):
            for at, value in enumerate(values):
                try:
                    spec.type.convert([value], tensor=spec.name, call=CALL)
                except (InvalidInputError, TypeError, ValueError) as error:
                    values[at], reasons[at] = None, _reason(error)
        return spec.type.convert(values, tensor=spec.name, call=CALL)

    def _stage_column(self, spec: TensorSpec, physical: Int64Array, column: Column) -> None:
        session = self._session
        stage_at(session.staging(), session.reader(session.snapshot()), spec, physical, column)

    def _stage_reasons(
        self, physical: Int64Array, reasons: list[str | None], is_failed: npt.NDArray[np.bool_]
    ) -> None:
        """Stage the reasons of failures, and that others have none any more."""
        transaction = self._session.staging()
        spec = reasons_spec(transaction.schema, self._spec)
        if transaction.schema.by_id(spec.id) is None:
            if not is_failed.any():
                return
            transaction.add_tensor(spec)
        if not self._first_reason:
            self._first_reason = next((one for one in reasons if one is not None), "")
        reader = self._session.reader(self._session.snapshot())
        had_one = ~reader.is_null(spec.name, physical)
        is_new = is_failed | had_one
        if is_new.any():
            some = [reason for reason, is_kept in zip(reasons, is_new, strict=True) if is_kept]
            column = spec.type.convert(some, tensor=spec.name, call=CALL)
            self._stage_column(spec, physical[is_new], column)


def _length(values: Any) -> int | None:
    """Return the number of values of a batch; None where it is not one."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        return None
    return None if getattr(values, "ndim", 1) == 0 else len(values)


def _reason(error: Exception) -> str:
    text = str(error).partition("\n")[0].removeprefix(f"row 0 of {CALL}: ")
    name = "" if isinstance(error, TensorlakeError) else f"{type(error).__name__}: "
    return f"{name}{text}"[:REASON_CHARACTERS] or type(error).__name__
