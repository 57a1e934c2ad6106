"""ANY and ALL of ragged samples: the same answer whether few elements decide, or most."""

import numpy as np
import pytest

from tensorlake_query import ColumnType, compile_query
from tests.unit.query.array_source import ArraySource

ROWS = 3000


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(None,), (None, 2)])
def test_conditions_on_elements_hold_where_they_do_row_by_row(share, shape):
    random = np.random.default_rng(int(share * 1000))
    lengths = random.integers(0, 5, ROWS)
    rows = [(random.random((length, *shape[1:])) < share).astype(np.int8) for length in lengths]
    limits = random.integers(0, 2, ROWS)
    columns = {
        "x": (ColumnType("number", "int8", shape), rows),
        "bound": (ColumnType("number", "int64", ()), limits.tolist()),
    }
    source = ArraySource(columns)

    def matching(condition):
        return compile_query(f"WHERE {condition}", source.schema).run(source).rows.tolist()

    def expected(test):
        return [row for row, one in enumerate(rows) if test(one, limits[row])]

    assert matching("ANY(x = 1)") == expected(lambda one, _: (one == 1).any())
    assert matching("ALL(x = 1)") == expected(lambda one, _: (one == 1).all())
    assert matching("ALL_STRICT(x = 1)") == expected(lambda one, _: one.size and (one == 1).all())
    assert matching("ANY(x > bound - 1)") == expected(lambda one, limit: (one > limit - 1).any())
    assert matching("ANY(x < x + 0)") == []
