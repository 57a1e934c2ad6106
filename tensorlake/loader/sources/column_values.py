"""One column for all rows of a selection: weights, classes, keys of groups; lengths of tokens.

Values are read by the reader's own reads of rows, lengths from the headers of chunks, both in parts
of 2²⁰ rows. 8 bytes per row for numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.collate import quoted
from tensorlake.storage import runtime
from tensorlake.types import RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tensorlake.loader.plan.selection import Int64Array, Reader, Selection
    from tensorlake.loader.sources.rows import SelectedRows

__all__ = ["column_values", "row_lengths", "token_column"]

PART_ROWS = 1 << 20
TOKENS = "tokens"  # the column of tokens, where there are several lists of integers


def column_values(rows: SelectedRows, name: str) -> NDArray[Any]:
    """Return a column's values: an array of numbers, codes of classes, or strings.

    Raises:
        InvalidInputError: A row is NULL, or has more than one value.
        TensorNotFoundError: There is no such column.
    """
    parts = [*_parts(rows, name)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def token_column(selection: Selection, what: str, named: str = TOKENS) -> str:
    """Choose the column of tokens: "tokens", or the only lists of integers.

    Args:
        selection: The rows.
        what: The argument that needs it, for the error.
        named: Another column of lists of numbers.

    Raises:
        InvalidInputError: There is no such column, or more than one.
    """
    if named != TOKENS:
        if named not in selection.columns and named in _stored_lists(selection, "iufb"):
            raise _not_selected(f"{what}: the view does not have {named!r}", named)
        if named not in selection.columns or not _is_list(selection, named, "iufb"):
            raise InvalidInputError(
                f"{what}: {named!r} is not a tensor of lists of numbers, such as"
                f" tl.Array('uint16', (None,))\nit has {', '.join(selection.columns)}",
                actual=named,
            )
        return named
    found = [name for name in selection.columns if _is_list(selection, name, "iu")]
    if TOKENS in found:
        return TOKENS
    if len(found) != 1:
        listed = ", ".join(map(repr, found)) or "none"
        needs = f"{what} needs a column 'tokens', or one column of lists of integers, found"
        if not found and (stored := _stored_lists(selection, "iu")):
            raise _not_selected(f"{needs} none", TOKENS if TOKENS in stored else stored[0])
        if not found:
            raise InvalidInputError(
                f"{needs} none\nstore tokens as tl.Array('uint16', (None,))", actual=found
            )
        one = found[0]
        names_it = f"give batch_by={one!r}, or " if what.startswith("batch_by") else ""
        raise InvalidInputError(
            f"{needs} {listed}\n{names_it}rename it: ds.rename_tensor({one!r}, 'tokens')",
            actual=found,
        )
    return found[0]


def row_lengths(selection: Selection, reader: Reader, name: str, *, null: int = 0) -> Int64Array:
    """Return the number of elements of each row of a column of lists; ``null`` where NULL."""
    sample_type: Any = selection.snapshot.spec(name).type
    if sample_type.shape[0] is not None:
        return np.full(selection.num_rows, sample_type.shape[0], dtype=np.int64)
    lengths = np.zeros(selection.num_rows, dtype=np.int64)
    for start in range(0, selection.num_rows, PART_ROWS):
        positions = np.arange(start, min(start + PART_ROWS, selection.num_rows))
        shapes = reader.shapes(name, selection.physical(positions))
        lengths[positions] = np.where(shapes[:, 0] < 0, null, shapes[:, 0])
    return lengths


def _stored_lists(selection: Selection, kinds: str) -> list[str]:
    """Return the lists of numbers of the version, whether they are selected or not."""
    names = (one.name for one in selection.snapshot.schema.tensors)
    return [name for name in names if _is_list(selection, name, kinds)]


def _not_selected(what: str, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what}; lengths are read of stored columns, under the names that they are stored by"
        f"\nselect {name!r} too: ds.query('SELECT *, …'), or ds.query('SELECT {name}, …')",
        actual=name,
    )


def _is_list(selection: Selection, name: str, kinds: str) -> bool:
    sample_type: Any = selection.snapshot.spec(name).type
    shape, dtype = getattr(sample_type, "shape", None), getattr(sample_type, "dtype", None)
    if dtype is None or shape is None or len(shape) != 1:
        return False
    return np.dtype(dtype).kind in kinds and not getattr(sample_type, "names", None)


def _parts(rows: SelectedRows, name: str) -> Iterator[NDArray[Any]]:
    count = rows.selection.num_rows
    for start in range(0, count, PART_ROWS):
        positions = np.arange(start, min(start + PART_ROWS, count))
        column = _read(rows, name, positions)
        if isinstance(column, UniformColumn):
            if column.valid is not None and not column.valid.all():
                raise _null(name, start + int(np.argmin(column.valid)))
            if column.values.ndim != 1:
                raise _many(name, column.values.shape[1:])
            yield column.values
            continue
        for at, value in enumerate(column):
            if value is None:
                raise _null(name, start + at)
            if not isinstance(value, str | int | float | bool):
                raise _many(name, getattr(value, "shape", type(value).__name__))
        yield np.array(column)


def _read(rows: SelectedRows, name: str, positions: Int64Array) -> UniformColumn | list[Any]:
    """Read some rows: an array, or a list of plain values."""
    if name in rows.virtual:
        column = rows.virtual[name].take(positions)
        if isinstance(column, RaggedColumn):
            raise _many(name, "of different lengths")
        return column
    sample_type = rows.selection.snapshot.spec(name).type
    fetched = runtime.run(rows.reader.fetch(name, rows.selection.physical(positions)))()
    if isinstance(fetched, UniformColumn):
        return fetched
    return [sample_type.present_one(fetched, at) for at in range(len(positions))]


def _null(name: str, place: int) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} is NULL at place {place} of the view, so the order of that row is unknown"
        f"\nleave such rows out: view.where('{quoted(name)} IS NOT NULL')",
        tensor=name,
    )


def _many(name: str, shape: Any) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} has values of shape {shape}; an order needs one value for each row",
        tensor=name,
    )
