"""Numbers that a program logs, and the rows that they are of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.row_identity import ids_of, matched_ids, rows_of_ids
from tensorlake.dataset.core.rowset import HasRows, RowSet, committed_rows, rowset_of
from tensorlake.dataset.runs.tables import IDS, ROW_COLUMNS, Table, value_names
from tensorlake.errors import InvalidInputError, UncommittedChangesWarning, shown
from tensorlake.format import ROW_ID
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    import tensorlake_query as tql

__all__ = [
    "Which",
    "batch_ids",
    "by_row",
    "check_names",
    "check_same_dataset",
    "ids_in",
    "looked_up",
    "number",
    "numbers",
    "reads_staged",
    "row_values",
    "sources_of",
    "values_by_id",
    "with_step_values",
    "with_values",
]

Int64Array = npt.NDArray[np.int64]
Which = Literal["last", "first", "mean"]


def ids_in(table: Table) -> npt.NDArray[Any]:
    """Return the row ids of a table's records, in their order."""
    ids = np.empty(len(table), ROW_ID)
    for one in IDS:
        ids[one] = table.column(one).to_numpy()
    return ids


def values_by_id(
    table: Table, name: str, which: Which
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return the row ids that a table has values of, each once, and a value of each.

    Args:
        table: Values of rows, see ``tables.py``.
        name: Name of the values.
        which: The value of the last or of the first step, or the mean.
    """
    table = table.filter(table.column(name).is_valid())
    ids = ids_in(table)
    order = np.lexsort((table.column("step").to_numpy(), *(ids[one] for one in reversed(IDS))))
    ids, values = ids[order], table.column(name).to_numpy()[order]
    is_first = np.ones(len(ids), dtype=np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    starts = np.flatnonzero(is_first)
    stops = np.append(starts[1:], len(ids)) if len(ids) else starts
    match which:
        case "last":
            return ids[stops - 1], values[stops - 1]
        case "first":
            return ids[starts], values[starts]
        case "mean":
            sums = np.add.reduceat(values, starts) if len(starts) else values
            return ids[starts], sums / (stops - starts)


def by_row(rows: Int64Array, values: npt.NDArray[Any]) -> tuple[Int64Array, npt.NDArray[Any]]:
    """Return values in the order of their rows, without those of rows that are gone (−1)."""
    order = np.argsort(rows, kind="stable")
    order = order[rows[order] >= 0]
    return rows[order], values[order]


def looked_up(
    rows: Int64Array, values: npt.NDArray[Any], column_type: tql.ColumnType, wanted: Int64Array
) -> tql.UniformBatch:
    """Return the values of some rows; NULL where there is none.

    Args:
        rows: The rows that have a value, ascending.
        values: The value of each.
        column_type: Type of the values.
        wanted: The rows whose values are returned.
    """
    import tensorlake_query as tql

    at = np.minimum(np.searchsorted(rows, wanted), max(len(rows) - 1, 0))
    valid = rows[at] == wanted if len(rows) else np.zeros(len(wanted), dtype=np.bool_)
    found = np.zeros(len(wanted), dtype=np.dtype(column_type.dtype))
    found[valid] = values[at[valid]]
    return tql.UniformBatch(found, valid)


def with_step_values(rows: RowSet, table: Table) -> RowSet:
    """Return rows with the values that a step logged of them as columns; NULL where none is.

    A column is called as the values, or ``run:<name>`` where the dataset has a tensor of this name.

    Args:
        rows: Rows of a dataset.
        table: Values of rows, of one step.
    """
    import tensorlake_query as tql

    column_type = tql.ColumnType("number", "float64", (), nullable=True)
    snapshot, chosen = rows.selection.snapshot, rows.rows
    computed = dict(rows.computed)
    for name in value_names(table):
        ids, values = values_by_id(table, name, "last")
        known = by_row(rows_of_ids(ids, snapshot), values)
        column = Computed(column_type, looked_up(*known, column_type, chosen))
        computed[f"run:{name}" if name in rows.schema else name] = column
    return replace(rows, computed=computed)


def with_values(rows: RowSet, table: Table, name: str) -> RowSet:
    """Return the rows that a table has values of, with the last value of each as a column."""
    import tensorlake_query as tql

    if name in rows.schema:
        raise InvalidInputError(
            f"the dataset has a tensor {name!r}, and the View would have two columns of this name"
            f"\nask for the values in a query: ds.query(\"SELECT *, RUN('…', {name!r}) AS logged\")"
        )
    ids, values = values_by_id(table, name, "last")
    positions, kept = matched_ids(ids, rows.selection)
    order = np.argsort(positions, kind="stable")
    own = tql.UniformBatch(values[kept[order]])
    taken = rows.take(positions[order])
    column = Computed(tql.ColumnType("number", "float64", ()), own)
    return replace(taken, computed={**taken.computed, name: column})


def _array(value: Any) -> npt.NDArray[Any]:
    for method in ("detach", "cpu"):  # a torch tensor, of any device
        if hasattr(value, method):
            value = getattr(value, method)()
    try:
        return np.asarray(value)
    except TypeError:  # of a dtype that NumPy lacks, such as bfloat16
        return np.asarray(value.double())


def _row_numbers(value: Any) -> Int64Array:
    """Return the numbers of a batch's rows.

    Raises:
        InvalidInputError: They are not integers, one for each row.
    """
    array = _array(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"rows= is a batch's '_row', got {shown(value)}")
    return array.astype(np.int64)


def check_names(given: Iterable[object], own: Sequence[str], call: str) -> None:
    """Refuse names of values that the record has itself.

    Raises:
        InvalidInputError: There is such a name, or one that is not a string.
    """
    for name in given:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{call}: a name is a string, got {shown(name)}")
        if name in own:
            raise InvalidInputError(
                f"{call}: {name!r} is a column of the record itself\nuse another name, such as"
                f" {f'train/{name}'!r}: run.log(**{{…}})"
                if call == "log()"
                else f"{call}: {name!r} is a column of the record itself\nuse another name"
            )


def number(name: str, value: Any) -> float:
    """Return a scalar that is logged as a float.

    Raises:
        InvalidInputError: It is not one number.
    """
    if is_whole_number(value) or isinstance(value, float):
        try:
            return float(value)
        except OverflowError as error:
            raise InvalidInputError(f"log({name}=…) is too large for a float64") from error
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"log({name}=…) is a number, got {shown(value)}\nvalues of rows are per_row={{{name!r}:"
            " …}"
        )
    return float(array.reshape(()))


def numbers(name: str, value: Any) -> npt.NDArray[np.float64]:
    """Return values of rows that are logged as floats, of shape (rows,).

    Raises:
        InvalidInputError: They are not one number for each row.
    """
    array = _array(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
        raise InvalidInputError(
            f"per_row={{{name!r}: …}} is one number a row, got {shown(value)}", argument="per_row"
        )
    return array.astype(np.float64)


def _row_ids(rows: RowSet, given: Int64Array) -> npt.NDArray[Any]:
    """Return the ids of rows of a version, by their numbers.

    Raises:
        InvalidInputError: The version does not have such a row.
    """
    snapshot = rows.selection.snapshot
    wrong = given[(given < 0) | (given >= snapshot.num_rows)]
    if len(wrong):
        raise InvalidInputError(
            f"rows= has {int(wrong[0])}, and the version has {snapshot.num_rows:,} rows"
            "\ngive batch['_row']"
        )
    return ids_of(snapshot, snapshot.physical(given))


def sources_of(given: Any) -> list[RowSet]:
    """Return the rows whose numbers batches have; none of packed rows, whose batches have none."""
    sources: Mapping[str, HasRows] | None = getattr(given, "sources", None)
    if sources is not None:
        return [rowset_of(one) for one in sources.values()]
    own: Any = given if hasattr(given, "__rowset__") else getattr(given, "rows", None)  # of windows
    return [rowset_of(own)] if hasattr(own, "__rowset__") else []


def check_same_dataset(dataset: HasRows | None, given: Any, run: str) -> None:
    """Reject rows of another dataset than the one that a run is recorded beside.

    Raises:
        InvalidInputError: They are of another.
    """
    if dataset is None or not hasattr(given, "__rowset__"):
        return
    own, read = rowset_of(dataset).url, rowset_of(given).url
    if own != read:
        raise InvalidInputError(
            f"run {run!r} is recorded beside {own!r}, and these are rows of {read!r}"
            f"\nrecord it beside them, or in a place of its own: tl.run(url, {run!r})"
        )


def reads_staged(given: Any, name: str) -> bool:
    """Whether rows that a run is to read are in no version: then warn that it has no replay.

    Args:
        given: The rows.
        name: Name of the run.
    """
    own = sources_of(getattr(given, "documents", given))  # of packed rows
    rows = next((one for one in own if committed_rows(one).selection.snapshot.is_staged), None)
    if rows is None:
        return False
    warnings.warn(
        f"run {name!r} reads staged changes of {rows.url!r}, which are in no version: its batches"
        " cannot be made again, nor its rows be found\ncall ds.commit() before run.loader()",
        UncommittedChangesWarning,
        stacklevel=4,
    )
    return True


def row_values(
    per_row: Any, rows: Any, sources: Sequence[RowSet]
) -> tuple[npt.NDArray[Any], dict[str, npt.NDArray[Any]]]:
    """Return the row ids of a batch, and the values that were logged for its rows, by name.

    Args:
        per_row: One number per row, by name.
        rows: The rows, see ``batch_ids``.
        sources: The rows that batches are of.

    Raises:
        InvalidInputError: Values are not numbers, or not one per row.
    """
    if not isinstance(per_row, Mapping):
        raise InvalidInputError(
            f"per_row is a dict of one number per row, by name, got {shown(per_row)}"
        )
    given = cast("Mapping[str, Any]", per_row)
    check_names(given, ROW_COLUMNS.names, "per_row=")
    values = {name: numbers(name, value) for name, value in given.items()}
    ids = batch_ids(rows, sources)
    for name, array in values.items():
        if len(array) != len(ids):
            raise InvalidInputError(
                f"per_row={{{name!r}: …}} has {len(array):,} numbers for {len(ids):,} rows",
                expected=len(ids),
                actual=len(array),
            )
    return ids, values


def batch_ids(rows: Any, sources: Sequence[RowSet]) -> npt.NDArray[Any]:
    """Return the row ids of a batch's rows.

    Args:
        rows: Their numbers; of a mix the batch.
        sources: The rows that are numbered.

    Raises:
        InvalidInputError: They are not numbers of rows.
    """
    if rows is None:
        raise InvalidInputError('per_row= needs the rows: run.log(per_row=…, rows=batch["_row"])')
    if not sources:
        raise InvalidInputError(
            "per_row= is of rows that a loader of this run gave: run.torch(…), run.loader(…)"
        )
    if isinstance(rows, Mapping):
        batch = cast("Mapping[str, Any]", rows)
        given = _row_numbers(batch["_row"])
        of = _row_numbers(batch["_source"]) if "_source" in batch else np.zeros_like(given)
    elif len(sources) > 1:
        raise InvalidInputError("of a mix give the batch, which has '_source': rows=batch")
    else:
        given = _row_numbers(rows)
        of = np.zeros_like(given)
    found = np.empty(len(given), ROW_ID)
    for at in np.unique(of).tolist():
        found[of == at] = _row_ids(sources[at], given[of == at])
    return found
