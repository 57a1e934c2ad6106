"""RUN, STEP and STEPS in queries: values and steps of the runs recorded beside a dataset.

    RUN('resnet-50', 'loss')             the last value logged for the row; 'first', 'mean'
    STEP('resnet-50', epoch => 2)        the step whose batch had the row in an epoch
    STEPS('resnet-50')                   all of them

Steps are computed from the order of the run: a pass over its places, none over data. A condition
such as ``STEP('resnet-50') BETWEEN 41100 AND 41200`` lists the rows of these steps first, and costs
as much as they have; the steps of few rows are looked up by the inverse of the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.row_identity import ids_of, rows_in, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.runs.history import History
from tensorlake.dataset.runs.places import Runs, runs_of
from tensorlake.dataset.runs.values import Which, by_row, looked_up, values_by_id
from tensorlake.errors import InvalidInputError

__all__ = ["functions_of", "narrowed"]

Int64Array = npt.NDArray[np.int64]
FEW = 8
"""Steps are looked up for a view of at most 1 in 8 rows, and listed for all of others."""
STEPS_STOP = 1 << 62
FLOAT = tql.ColumnType("number", "float64", (), nullable=True)
STEP = tql.ColumnType("number", "int64", (), nullable=True)
STEPS = tql.ColumnType("number", "int64", (None,))


def functions_of(view: RowSet, *, reaches_out: bool = True) -> dict[str, tql.Function]:
    """Return the functions of the runs beside a view's dataset.

    Args:
        view: The rows.
        reaches_out: See ``Replay``.
    """
    known = dict[tuple[Any, ...], tuple[Int64Array, Int64Array]]()
    runs = runs_of(view, reaches_out=reaches_out)
    return {
        "RUN": tql.row_function(
            "RUN",
            partial(_logged, runs, view),
            usage="RUN(name, value)",
            summary="The last value that a run logged for the row; 'first' or 'mean' as a third.",
            arity=(2, 3),
        ),
        "STEP": tql.row_function(
            "STEP",
            partial(_step, runs, view, known),
            usage="STEP(name, epoch => 0)",
            summary="The last step of a run's epoch whose batch had the row.",
            arity=(1, 1),
            options=("epoch",),
        ),
        "STEPS": tql.row_function(
            "STEPS",
            partial(_steps, runs, view),
            usage="STEPS(name)",
            summary="The steps of a run whose batches had the row.",
            arity=(1, 1),
        ),
    }


def _logged(
    runs: Runs, view: RowSet, name: object, value: object, which: object = "last"
) -> tuple[tql.ColumnType, Any]:
    if which not in get_args(Which):
        raise InvalidInputError(f"{which!r} is none of {', '.join(map(repr, get_args(Which)))}")
    table = runs[_text(name)].logged(_text(value))
    snapshot = view.selection.snapshot
    ids, values = values_by_id(table, str(value), cast("Which", which))
    rows = rows_of_ids(ids, snapshot)
    return FLOAT, partial(looked_up, *by_row(rows, values), FLOAT)


def narrowed(
    view: RowSet, query: tql.ast.Query, params: Mapping[str, Any], *, reaches_out: bool = True
) -> RowSet:
    """Return the rows of a view that a query's condition on STEP leaves.

    Args:
        view: The view.
        query: A query of it.
        params: Its parameters.
        reaches_out: See ``Replay``.
    """
    where = query.where
    items = where.items if isinstance(where, tql.ast.And) else (where,)
    asked = dict[tuple[str, int | None], range]()
    for item in items:
        if (one := _asked_steps(item, params)) is not None:
            known = asked.get((one.name, one.epoch), range(STEPS_STOP))
            start, stop = max(known.start, one.steps.start), min(known.stop, one.steps.stop)
            asked[one.name, one.epoch] = range(start, max(start, stop))
    for (name, epoch), wanted in asked.items():
        runs = runs_of(view, reaches_out=reaches_out)
        if wanted.stop == STEPS_STOP or name not in runs:
            continue
        steps = runs[name].history.seen(epoch, last=True, steps=wanted)
        try:
            found = [rows_in(seen.snapshot, seen.rows, view.selection.snapshot) for seen in steps]
        except InvalidInputError:  # the query says so, at the place of the call
            continue
        listed = np.concatenate([np.zeros(0, np.int64), *found])
        rows = _each_once(listed[listed >= 0])
        own = view.selection.rows
        return view.take(rows if own is None else np.flatnonzero(np.isin(own, rows)))
    return view


@dataclass(frozen=True, slots=True)
class _AskedSteps:
    """A range of steps that a condition asks for."""

    name: str
    epoch: int | None
    steps: range


def _asked_steps(item: object, params: Mapping[str, Any]) -> _AskedSteps | None:
    """Return the steps that a comparison of STEP leaves; None of other conditions."""
    match item:
        case tql.ast.Between(operand=call, low=first, high=last, negated=False):
            low, high, op = _constant(first, params), _constant(last, params), "BETWEEN"
        case tql.ast.Compare(op=op, left=call, right=value) if op != "!=":
            low = high = _constant(value, params)
        case _:
            return None
    if not isinstance(call, tql.ast.Call) or call.name.upper() != "STEP" or len(call.args) != 1:
        return None
    name = _constant(call.args[0], params)
    named = {one.name.lower(): _constant(one.value, params) for one in call.named}
    epoch = named.pop("epoch", None)
    is_known = isinstance(name, str) and not named and (epoch is None or type(epoch) is int)
    if not is_known or not type(low) is type(high) is int:
        return None
    start = 0 if op in ("<", "<=") else low + 1 if op == ">" else low
    stop = STEPS_STOP if op in (">", ">=") else high if op == "<" else high + 1
    return _AskedSteps(name, epoch, range(max(start, 0), max(stop, 0)))


def _constant(expr: object, params: Mapping[str, Any]) -> Any:
    """Return the value of a literal or a parameter; None of others."""
    if isinstance(expr, tql.ast.Parameter):
        value = params.get(expr.name)
        return value.item() if isinstance(value, np.generic) else value
    return expr.value if isinstance(expr, tql.ast.Literal) else None


def _step(
    runs: Runs,
    view: RowSet,
    known: dict[tuple[Any, ...], tuple[Int64Array, Int64Array]],
    name: object,
    *,
    epoch: object = None,
) -> tuple[tql.ColumnType, Any]:
    if epoch is not None and type(epoch) is not int:
        raise InvalidInputError(f"epoch is an integer, not {epoch!r}")
    if (name, epoch) not in known:  # BETWEEN asks twice
        history = runs[_text(name)].history
        known[name, epoch] = _rows_and_steps(view, history, epoch=epoch, is_one=True)
    rows, steps = known[name, epoch]
    is_last = np.ones(len(rows), dtype=np.bool_)
    is_last[:-1] = rows[1:] != rows[:-1]
    return STEP, partial(looked_up, rows[is_last], steps[is_last], STEP)


def _steps(runs: Runs, view: RowSet, name: object) -> tuple[tql.ColumnType, Any]:
    rows, steps = _rows_and_steps(view, runs[_text(name)].history, epoch=None, is_one=False)

    def read(wanted: Int64Array) -> tql.RaggedBatch:
        start = np.searchsorted(rows, wanted, "left")
        counts = np.searchsorted(rows, wanted, "right") - start
        stops = np.cumsum(counts)
        places = np.arange(int(counts.sum())) - np.repeat(stops - counts - start, counts)
        return tql.RaggedBatch(steps[places], counts[:, None])

    return STEPS, read


def _rows_and_steps(
    view: RowSet, history: History, *, epoch: int | None, is_one: bool
) -> tuple[Int64Array, Int64Array]:
    """Return rows of the queried version, ascending, and a step of each, ascending for a row."""
    snapshot = view.selection.snapshot
    rows, steps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    own = view.selection.rows
    if own is not None and len(own) * FEW <= snapshot.num_rows and history.has_inverse:
        own = _each_once(own)
        ids = ids_of(snapshot, snapshot.physical(own))
        for which, found in history.looked_up(ids, epoch, last=is_one):
            rows.append(own[which])
            steps.append(found)
    else:
        for seen in history.seen(epoch, last=is_one):
            mapped = rows_in(seen.snapshot, seen.rows, snapshot)
            rows.append(mapped[mapped >= 0])
            steps.append(seen.steps[mapped >= 0])
    together, all_steps = np.concatenate(rows), np.concatenate(steps)
    order = np.argsort(together, kind="stable")  # steps are listed ascending
    return together[order], all_steps[order]


def _each_once(rows: Int64Array) -> Int64Array:
    """Return rows ascending, each once: of many, several times faster than by a hash table."""
    ascending = rows if (rows[1:] > rows[:-1]).all() else np.sort(rows)
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    return ascending[is_first]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"a name in quotes is expected, not {value!r}")
    return value
