"""Window functions: ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, and aggregates, `OVER (…)`.

The rows are cut by PARTITION BY and sorted by ORDER BY, for the function alone: the query's
own order does not change. Numbers start at 0, as rows do everywhere here; ranks start at 1, as in
SQL. An aggregate over a window is that of its whole partition; with ORDER BY it runs, row by row
(`running.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.functions.aggregate.aggregates import AGGREGATES, bind_aggregate
from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.window.running import RUNNING, Compute, Frame, running
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, Constant
from tensorlake_query.values.group_keys import codes_of, group_rows
from tensorlake_query.values.memory import charge
from tensorlake_query.values.order import KEY_NBYTES, SortKey, ordered
from tensorlake_query.values.source import ColumnType, IntArray, UniformBatch
from tensorlake_query.values.types import INT
from tensorlake_query.values.vectors import Vector, running_counts, take, valid_of

USAGES = {
    "ROW_NUMBER": "ROW_NUMBER() OVER (PARTITION BY a ORDER BY b)",
    "RANK": "RANK() OVER (ORDER BY a)",
    "DENSE_RANK": "DENSE_RANK() OVER (ORDER BY a)",
    "LAG": "LAG(x, 1) OVER (ORDER BY a)",
    "LEAD": "LEAD(x, 1) OVER (ORDER BY a)",
}
WINDOWS = frozenset(USAGES)
FRAME_NBYTES = 96  # of a row: its place, its partition, where that starts, and its answer


class WindowCall(Struct, frozen=True):
    """One window function of a query."""

    args: tuple[Bound, ...]
    partition: tuple[Bound, ...]
    keys: tuple[SortKey, ...]
    compute: Compute
    type: ColumnType
    syntax: ast.Call

    @property
    def expressions(self) -> tuple[Bound, ...]:
        """The expressions that it evaluates: arguments, partition, keys."""
        return (*self.args, *self.partition, *(key.expr for key in self.keys))

    def with_expressions(self, change: Callable[[Bound], Bound]) -> "WindowCall":
        """Return it with each of its expressions replaced."""
        return structs.replace(
            self,
            args=tuple(map(change, self.args)),
            partition=tuple(map(change, self.partition)),
            keys=tuple(structs.replace(key, expr=change(key.expr)) for key in self.keys),
        )

    def evaluate(self, vectors: Sequence[Vector], num_rows: int) -> Vector:
        """Return its value for each row, from the values of its expressions."""
        args = vectors[: len(self.args)]
        partition = vectors[len(self.args) : len(self.args) + len(self.partition)]
        keys = vectors[len(self.args) + len(self.partition) :]
        return self.compute(args, framed(partition, keys, self.keys, num_rows))


def framed(
    partition: Sequence[Vector], vectors: Sequence[Vector], keys: Sequence[SortKey], num_rows: int
) -> Frame:
    """Put rows in partitions and in order."""
    charge(num_rows * (FRAME_NBYTES + KEY_NBYTES * (len(keys) + 1)))
    groups = group_rows(partition, num_rows)
    order = ordered(vectors, keys, groups.of_row)
    sorted_groups = groups.of_row[order]
    first = np.ones(num_rows, np.bool_)
    first[1:] = sorted_groups[1:] != sorted_groups[:-1]
    starts = np.maximum.accumulate(np.where(first, np.arange(num_rows), 0)) if num_rows else order
    is_new = first.copy()
    for vector in vectors:
        codes = codes_of(vector)[0][order]
        is_new[1:] |= codes[1:] != codes[:-1]
    return Frame(order, starts, groups.of_row, groups.count, is_new)


def bind_window(
    site: Site, syntax: ast.Call, partition: tuple[Bound, ...], keys: tuple[SortKey, ...]
) -> WindowCall:
    """Bind a window function; the site's arguments are the function's own."""
    name = syntax.name
    if name in AGGREGATES:
        if keys:
            return _bind_running(site, syntax, partition, keys)
        call = bind_aggregate(site, syntax)

        def whole(args: Sequence[Vector], frame: Frame) -> Vector:
            result = call.compute(args[0] if args else None, frame.partition, frame.count)
            return take(result, frame.partition)

        args = () if call.argument is None else (call.argument,)
        return WindowCall(args, partition, keys, whole, call.type, syntax)
    if name in {"LAG", "LEAD"}:
        return _bind_neighbour(site, syntax, partition, keys)
    if site.args or syntax.named:
        raise site.fail(f"{name} takes no argument", hint=f"write {USAGES[name]}")
    if name != "ROW_NUMBER" and not keys:
        raise site.fail(f"{name} needs an order", hint=f"write {USAGES[name]}")
    place = {"ROW_NUMBER": _numbers, "RANK": _ranks, "DENSE_RANK": _dense_ranks}[name]

    def compute(_args: Sequence[Vector], frame: Frame) -> Vector:
        values = np.empty(len(frame.order), np.int64)
        values[frame.order] = place(frame)
        return UniformBatch(values)

    return WindowCall((), partition, keys, compute, INT, syntax)


def _bind_running(
    site: Site, syntax: ast.Call, partition: tuple[Bound, ...], keys: tuple[SortKey, ...]
) -> WindowCall:
    if syntax.name not in RUNNING:
        raise site.fail(
            f"{syntax.name} does not run along an order",
            hint=f"leave ORDER BY out for the whole partition; these run: {', '.join(RUNNING)}",
        )
    call = bind_aggregate(site, syntax)
    args = () if call.argument is None else (call.argument,)
    return WindowCall(args, partition, keys, running(call), call.type, syntax)


def _numbers(frame: Frame) -> IntArray:
    return np.arange(len(frame.order)) - frame.starts


def _ranks(frame: Frame) -> IntArray:
    places = np.arange(len(frame.order))
    return np.maximum.accumulate(np.where(frame.is_new, places, 0)) - frame.starts + 1


def _dense_ranks(frame: Frame) -> IntArray:
    seen = running_counts(frame.is_new)
    return seen - seen[frame.starts] + 1


def _bind_neighbour(
    site: Site, syntax: ast.Call, partition: tuple[Bound, ...], keys: tuple[SortKey, ...]
) -> WindowCall:
    if len(site.args) not in {1, 2} or syntax.named:
        raise site.fail(
            f"{syntax.name} takes 1 to 2 arguments", hint=f"write {USAGES[syntax.name]}"
        )
    distance = 1
    if len(site.args) > 1:
        given = site.args[1]
        value = given.value if isinstance(given, Constant) else None
        if type(value) is not int or value < 0:
            raise site.fail("the distance must be an integer >= 0", at=given)
        distance = value
    step = -distance if syntax.name == "LAG" else distance

    def compute(args: Sequence[Vector], frame: Frame) -> Vector:
        num_rows = len(frame.order)
        there = np.arange(num_rows) + step
        inside = (there >= 0) & (there < num_rows)
        there = np.where(inside, there, 0)
        if num_rows:
            inside &= frame.starts[there] == frame.starts
        chosen = np.empty(num_rows, np.int64)
        known = np.empty(num_rows, np.bool_)
        chosen[frame.order] = frame.order[there] if num_rows else there
        known[frame.order] = inside
        result = take(args[0], chosen)
        return replace(result, valid=known & valid_of(result))

    argument = next(iter(site.args))
    column_type = replace(argument.type, nullable=True)
    return WindowCall((argument,), partition, keys, compute, column_type, syntax)
