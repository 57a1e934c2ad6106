"""Queries of lists: of numbers and classes as of arrays, of others by their lengths."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, QueryTypeError
from tensorlake.types import EncodedColumn, Sequence

ROWS = 3_000


@pytest.fixture(scope="module")
def ds():
    """Lists, and arrays of the same values."""
    random = np.random.default_rng(0)
    lists = [random.integers(-5, 5, int(n)).tolist() for n in random.integers(0, 6, ROWS)]
    numbers = [None if row % 7 == 0 else one for row, one in enumerate(lists)]
    classes = [[abs(one) % 2 for one in row] for row in lists]
    made = tl.create(
        "memory://lists",
        {
            "list": tl.Sequence("int64", nullable=True),
            "vals": tl.Array("int64", (None,), nullable=True),
            "classes": tl.Sequence(tl.ClassLabel(["cat", "dog"])),
            "multi": tl.ClassLabel(["cat", "dog"], multi=True),
            "pairs": tl.Sequence(tl.Array("float16", (2,))),
            "words": tl.Sequence("str"),
        },
    )
    made.extend(
        {
            "list": numbers,
            "vals": [None if one is None else np.array(one, np.int64) for one in numbers],
            "classes": classes,
            "multi": classes,
            "pairs": [
                np.full((len(one), 2), row % 100, np.float16) for row, one in enumerate(lists)
            ],
            "words": [[f"w{item}" for item in one] for one in lists],
        }
    )
    made.commit()
    return made


@pytest.mark.parametrize(
    "query",
    [
        "WHERE CONTAINS(list, 2)",
        "WHERE NOT ANY(list = 2)",
        "WHERE list[-1] > list[0] OR list IS NULL",
        "SELECT ARRAY_SUM(list) AS s, LENGTH(list) AS n, list[1:3] AS part, SHAPE(list) AS shape",
        "SELECT list AS x, COUNT(*) AS n FROM UNNEST(this, list) GROUP BY x ORDER BY x",
        "SELECT DISTINCT list AS x ORDER BY ARRAY_SUM(x), LENGTH(x) LIMIT 5",
        "WHERE CONTAINS(classes, 'dog') AND NOT CONTAINS(classes, 'cat')",
        "SELECT classes AS c, COUNT(*) AS n FROM UNNEST(this, classes) GROUP BY c ORDER BY c",
    ],
)
def test_a_list_is_queried_as_an_array(ds, query):
    other = query.replace("list", "vals").replace("classes", "multi")

    if query.startswith("WHERE"):
        assert ds.query(query).rows.tolist() == ds.query(other).rows.tolist() != []
        return
    found, expected = (ds.query(one).to_arrow().to_pylist() for one in (query, other))
    assert found == expected != []


@pytest.mark.parametrize("column", ["multi", "classes"])
@pytest.mark.parametrize("source", ["this", "(SELECT * WHERE LENGTH(list) > 2)"])
def test_classes_of_elements_are_counted_as_a_loop_counts_them(ds, column, source):
    kept = [one is not None and len(one) > 2 for one in ds["list"].to_list()]
    codes = [
        code
        for each, is_kept in zip(ds[column][:], kept, strict=True)
        if is_kept or source == "this"
        for code in np.asarray(each).tolist()
    ]

    found = ds.query(
        f"SELECT {column} AS c, COUNT(*) AS n FROM UNNEST({source}, {column}) GROUP BY c ORDER BY c"
    )

    assert found["n"][:].tolist() == [codes.count(0), codes.count(1)]
    assert min(codes.count(0), codes.count(1)) > 0


def test_lists_of_arrays_have_two_axes(ds):
    found = ds.query("SELECT pairs[0][1] AS x, SHAPE(pairs)[1] AS width WHERE LENGTH(pairs) > 0")

    assert found["x"].tolist() == [row % 100 for row, words in enumerate(ds["words"][:]) if words]
    assert set(found["width"].tolist()) == {2}


def test_a_list_of_words_names_the_type_that_is_searched(ds):
    with pytest.raises(QueryTypeError, match=r"words is bytes(.|\n)*Tags"):
        ds.query("WHERE CONTAINS(words, 'w1')")


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02\0\0\0" + bytes(8), bytes(4) + b"x"])
def test_a_damaged_list_is_refused(damage):
    numbers = Sequence("int64")
    whole = numbers.convert([[1], []], tensor="x")
    samples = [bytes(one) for one in whole.samples]
    column = EncodedColumn([*samples, damage] if damage else [samples[0][:-1]])

    with pytest.raises(CorruptSampleError):
        numbers.uniform_items(column)


def test_items_of_null_and_of_empty_lists_are_none():
    numbers = Sequence("int64", nullable=True)

    items, counts = numbers.uniform_items(numbers.convert([[1, 2], None, [], [3]], tensor="x"))

    assert items.tolist() == [1, 2, 3]
    assert counts.tolist() == [2, 0, 0, 1]
