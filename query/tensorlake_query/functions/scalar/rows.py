"""Rows: ROW_NUMBER, ROW_ID, DATA, RANDOM.

RANDOM is a function of the row's number and the statement's seed alone, so that it is one value a
row wherever the statement repeats it, in any batch, on any machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import required_number
from tensorlake_query.values.bound import (
    Bound,
    ColumnRef,
    Constant,
    DataRef,
    RowId,
    RowNumber,
    show,
)
from tensorlake_query.values.source import UniformBatch
from tensorlake_query.values.types import FLOAT, INT, TEXT, describe
from tensorlake_query.values.vectors import Vector

_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_UNIT = 2.0**-53  # the step of a float64 in [0, 1)


ROW_COLUMN_NOUNS: Mapping[str, str] = {
    "_row": "number in its version",
    "_row_id": "identifier",
    "_source": "item in its source",
}


def _bind_row_number(site: Site) -> Bound:
    return RowNumber(INT, site.syntax)


def _bind_row_id(site: Site) -> Bound:
    return RowId(TEXT, site.syntax)


def _bind_data(site: Site) -> Bound:
    column = site.args[0]
    if not isinstance(column, ColumnRef) or column.name.startswith("#"):
        raise site.fail(f"DATA takes a column, not {show(column)}", at=column)
    row = required_number(site, site.args[1])
    if row.type.shape or np.dtype(row.type.dtype).kind not in "iu":
        shown = f"{show(row)} is {describe(row.type)}"
        raise site.fail(f"a row must be an integer, and {shown}", at=site.args[1])
    return DataRef(column.name, row, replace(column.type, nullable=True), site.syntax)


def _bind_random(site: Site) -> Bound:
    seed = site.seed
    if site.args:
        given = site.args[0]
        value = given.value if isinstance(given, Constant) else None
        if type(value) is not int:
            raise site.fail("a seed must be an integer", at=given, hint="write RANDOM(7)")
        seed = value

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        return UniformBatch(random_of(vectors[-1].values, seed))

    return site.apply(kernel, FLOAT, args=(*site.args, RowNumber(INT, site.syntax)), cost=8.0)


def random_of(rows: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each row: SplitMix64 of seed and row."""
    start = np.uint64((seed * _MIX_2 + _GOLDEN) % 2**64)
    mixed = rows.astype(np.uint64) * np.uint64(_GOLDEN) + start
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX_1)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_2)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * _UNIT


FUNCTIONS = (
    Function(
        "ROW_NUMBER",
        "ROW_NUMBER()",
        "The row's number in what is queried, from 0.",
        (0, 0),
        _bind_row_number,
    ),
    Function(
        "ROW_ID", "ROW_ID()", "The row's identity, the same in every version.", (0, 0), _bind_row_id
    ),
    Function(
        "DATA",
        "DATA(column, row)",
        "The column's sample at another row; NULL where there is none.",
        (2, 2),
        _bind_data,
    ),
    Function(
        "RANDOM",
        "RANDOM(seed)",
        "A number in [0, 1) for each row, the same for the same seed.",
        (0, 1),
        _bind_random,
    ),
)
