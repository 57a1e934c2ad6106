"""Selection of rows by an index, and the changes that brackets and maps stage for them.

An index is a slice, a list, a mask, a Predicate, or rows of a view, which are
found again by their identity. The query engine is loaded only where a Predicate is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.indexing import positions_of, unknown_column
from tensorlake.dataset.core.item_counts import items_first
from tensorlake.dataset.core.row_identity import positions_by_row_id
from tensorlake.dataset.core.rowset import RowSet, everything, has_rows, rowset_of
from tensorlake.dataset.core.structs import flattened, members_of
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.write import staging
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types import Array

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session

__all__ = ["assign", "delete", "positions_named"]

Int64Array = npt.NDArray[np.int64]


def positions_named(rows: RowSet, key: Any, *, what: str | None = None) -> Int64Array:
    """Return the positions selected by a slice, list, mask, Predicate or view, in order.

    Rows of a view are found by identity; those that are gone are left out.

    Args:
        rows: Rows that are indexed.
        key: The index.
        what: The name of ``rows`` in errors; None: its URL.
    """
    if isinstance(key, Predicate):
        from tensorlake.dataset.query.run import matching_positions

        return matching_positions(rows, key)
    if has_rows(key):
        return positions_by_row_id(rowset_of(key).selection, rows.selection)
    return positions_of(key, len(rows), what=what or repr(rows.url))


def assign(session: Session, name: str, key: Any, values: Any) -> int:
    """Stage values for rows of one tensor, or of a group: what ``ds[name][key] = values`` does.

    Returns:
        The number of rows that got a value; deleted rows of a view, and their values, are left
        out.
    """
    if is_whole_number(key):
        key, values = [key], [values]
    with session.lock:
        here = everything(session)
        columns = here.selection.columns
        schema = here.selection.snapshot.schema
        if name not in columns:
            if name in schema:
                staging.refuse_virtual(schema[name], call=f"ds[{name!r}][rows] = values")
            members = members_of(name, columns)
            if not members:
                raise unknown_column(name, columns)
            return _assign_fields(session, name, members, key, values)
        if has_rows(key):
            named = rowset_of(key).selection
            return staging.assign_by_selection(session, name, named, here.selection, values)
        what = f"tensor {name!r} of {here.url!r}"
        if isinstance(key, tuple):
            return _assign_region(session, here, name, cast("tuple[Any, ...]", key), values)
        positions = positions_named(here, key, what=what)
        return staging.assign(session, name, positions, values)


def _assign_region(
    session: Session, here: RowSet, name: str, key: tuple[Any, ...], values: Any
) -> int:
    """Stage a sample of which a region is replaced; the whole sample is stored again."""
    row, *region = key
    sample_type = here.selection.snapshot.spec(name).type
    if not is_whole_number(row) or not region or not isinstance(sample_type, Array):
        raise InvalidInputError(
            f"ds[{name!r}][{', '.join(map(shown, key))}] = values: a region is of one row of an"
            f" Array, and {name!r} is {sample_type.describe()}"
            f"\nassign whole samples: ds[{name!r}][rows] = values",
            tensor=name,
        )
    position = np.array([here.position(int(row), lambda: f"tensor {name!r} of {here.url!r}")])
    sample = sample_type.present_one(here.read(name, position), 0)
    if sample is None:
        raise InvalidInputError(
            f"row {row} of {name!r} is NULL and has no region\nassign the whole sample", tensor=name
        )
    given = np.asarray(values)
    changed = np.array(sample, np.result_type(sample, given))  # staging refuses what does not fit
    try:
        changed[tuple(region)] = given
    except (IndexError, ValueError, TypeError) as error:
        raise sample_type.refusal(name, int(row))(
            f"its shape is {sample.shape}: {error}"
        ) from error
    return staging.assign(session, name, position, [changed])


def delete(session: Session, key: Any) -> int:
    """Stage the deletion of rows; return their number."""
    if is_whole_number(key):
        key = [key]
    with session.lock:
        here = everything(session)
        return staging.delete(session, here.selection, positions_named(here, key))


def _assign_fields(
    session: Session, name: str, members: Sequence[str], key: Any, values: Any
) -> int:
    """Stage values for all tensors of a group, or for none."""
    columns = flattened({name: values}, members, call=f"ds[{name!r}][rows] =")
    here = everything(session)
    unknown = next((one for one in columns if one not in members), None)
    if unknown is not None:
        raise unknown_column(unknown, members)
    if not has_rows(key):
        # A Predicate is evaluated once: the first field's new values may change its answer.
        key = positions_named(here, key, what=f"tensor {members[0]!r} of {here.url!r}")
    with staging.all_or_nothing(session):
        names = items_first(columns, here.schema)
        counts = [assign(session, member, key, columns[member]) for member in names]
    return max(counts, default=0)
