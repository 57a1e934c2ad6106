"""The columns that most tests query: eight rows of every kind, with NULL, NaN and empty samples."""

import numpy as np

from tensorlake_query import ColumnType, compile_query
from tests.unit.query.array_source import ArraySource, samples

NAN = float("nan")

PETS = {
    "label": (ColumnType("label", "int64", (), ("cat", "dog", "bird")), [0, 1, 2, 0, 1, 0, 2, 1]),
    "guess": (ColumnType("label", "int64", (), ("dog", "cat", "fish")), [1, 0, 2, 0, 0, 1, 1, 0]),
    "labels": (
        ColumnType("label", "int64", (None,), ("cat", "dog", "car")),
        [[0], [1, 2], [], [0, 0, 2], [2], [1], [0, 1], []],
    ),
    "score": (
        ColumnType("number", "float32", ()),
        [np.float32(v) for v in (0.05, 0.5, NAN, 0.25, 0.75, 0.5, 1.0, 0.0)],
    ),
    "count": (
        ColumnType("number", "int32", (), nullable=True),
        [3, None, 0, 7, -2, 7, None, 12],
    ),
    "tiny": (ColumnType("number", "uint8", ()), [0, 250, 3, 255, 7, 1, 2, 100]),
    "ok": (ColumnType("bool", "bool", (), nullable=True), [1, 0, None, 1, 0, 1, None, 0]),
    "caption": (
        ColumnType("text", None, (), nullable=True),
        ["a cat", "Dog 50%", None, "cat_nap", "", "it's", "a\nb", "Ünï"],
    ),
    "meta": (
        ColumnType("json", None, (), nullable=True),
        [
            {"iso": 100, "cam": {"name": "x1", "tags": ["a", "b"]}},
            {"iso": 200.5, "cam": {"name": "x2", "tags": []}},
            None,
            {"iso": "high", "day": True},
            {"cam": "none"},
            [1, 2, 3],
            {"iso": None},
            "text",
        ],
    ),
    "boxes": (
        ColumnType("number", "float32", (None, 4)),
        [
            [[0, 0, 10, 10], [5, 5, 15, 15]],
            np.zeros((0, 4)),
            [[1, 2, 3, 4]],
            [[0, 0, 1, 1], [0, 0, 2, 2], [20, 20, 30, 40]],
            [[5, 5, 5, 9]],
            np.zeros((0, 4)),
            [[10, 10, 0, 0]],
            [[0, 0, 100, 50], [50, 0, 100, 50]],
        ],
    ),
    "vector": (
        ColumnType("number", "float32", (3,), nullable=True),
        [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], None, [3, 4, 0], [-1, 0, 0], [1, 2, 3]],
    ),
    "image": (
        ColumnType("media", "uint8", (None, None, 3), is_parted=True),
        [np.arange(h * w * 3).reshape(h, w, 3) % 251 for h, w in
         ((2, 3), (4, 4), (1, 1), (5, 2), (3, 3), (2, 2), (6, 1), (4, 5))],
    ),
    "matrix": (
        ColumnType("number", "int64", (2, 3)),
        [np.arange(6).reshape(2, 3) * (row - 3) for row in range(8)],
    ),
    "ragged": (
        ColumnType("number", "int64", (None, None), nullable=True, is_parted=True),
        [[[1, 2], [3, 4]], [[5]], None, np.zeros((0, 2)), [[7, 8, 9]], np.zeros((2, 0)),
         [[1], [2], [3]], [[-1, 1]]],
    ),
    "blob": (ColumnType("bytes", None, (), nullable=True), [b"a", b"", None, b"abc"] * 2),
}  # fmt: skip


def pets(**options: int) -> ArraySource:
    """Return the eight rows as a source."""
    return ArraySource(PETS, **options)


def rows_where(condition: str, **params: object) -> list[int]:
    """Return the rows that a condition keeps, the same with and without the optimizer."""
    source = pets()
    text = f"WHERE {condition}"
    plain = compile_query(text, source.schema, params=params, optimize=False).run(source)
    fast = compile_query(text, source.schema, params=params).run(pets(zone_rows=3))
    assert plain.rows is not None
    assert fast.rows is not None
    assert plain.rows.tolist() == fast.rows.tolist()
    return fast.rows.tolist()


def values_of(expression: str, **params: object) -> list[object]:
    """Return an expression's value for each of the eight rows."""
    source = pets()
    compiled = compile_query(f"SELECT {expression} AS answer", source.schema, params=params)
    result = compiled.run(source)
    batch = result.columns.get("answer")
    if batch is None:
        batch = source.read(result.passthrough["answer"], np.arange(8))
    return samples(batch)
