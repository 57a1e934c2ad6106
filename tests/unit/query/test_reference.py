"""The reference page tells the truth: its examples run, and every function has its line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tensorlake_query import ColumnType, QueryError, compile_query
from tensorlake_query.functions import ALIASES, FUNCTIONS
from tensorlake_query.functions.aggregate.aggregates import AGGREGATES
from tensorlake_query.syntax.printer import RESERVED
from tests.unit.query.array_source import ArraySource, samples

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/tql.md").read_text(encoding="utf-8")
CLASSES = ("cat", "dog", "bird")
KINDS = {
    "label": ColumnType("label", "int64", (), CLASSES),
    "labels": ColumnType("label", "int64", (None,), CLASSES),
    "score": ColumnType("number", "float32", (), nullable=True),
    "caption": ColumnType("text", None, (), nullable=True),
    "meta": ColumnType("json", None, (), nullable=True),
    "boxes": ColumnType("number", "float32", (None, 4)),
    "vector": ColumnType("number", "float32", (3,)),
    "image": ColumnType("media", "uint8", (None, None, 3)),
}


def page_source():
    """Return the four rows that the page shows."""
    data = json.loads(re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    sizes = re.findall(r"(\d+)×(\d+)", data["image"])
    data["label"] = [CLASSES.index(name) for name in data["label"]]
    data["labels"] = [[CLASSES.index(name) for name in names] for names in data["labels"]]
    data["boxes"] = [np.reshape(row, (-1, 4)) for row in data["boxes"]]
    data["image"] = [np.zeros((int(h), int(w), 3), np.uint8) for h, w in sizes]
    return ArraySource({name: (kind, data[name]) for name, kind in KINDS.items()})


def examples():
    for block in re.findall(r"```tql\n(.*?)```", PAGE, flags=re.DOTALL):
        for line in block.strip().splitlines():
            query, _, expected = line.partition(" -- ")
            yield pytest.param(query.strip(), expected, id=query.strip()[:60])


def functions():
    for line in PAGE[PAGE.index("## Functions") : PAGE.index("## Across rows")].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            yield pytest.param(
                cells[0].strip("` "), json.loads(cells[-1].strip("` |")), id=cells[0]
            )


@pytest.mark.parametrize(("query", "expected"), list(examples()))
def test_an_example_of_the_page_answers_as_it_says(query, expected):
    source = page_source()
    params = {"few": ["cat", "bird"]} if "with few" in expected else {}
    what, _, rest = expected.partition("with ")[0].strip().partition(" ")

    if what == "error:":
        with pytest.raises(QueryError, match=re.escape(rest)):
            compile_query(query, source.schema, params=params).run(source)
        return
    result = compile_query(query, source.schema, params=params).run(source)

    if what == "rows":
        assert result.rows.tolist() == [int(row) for row in rest.split(",")]
    else:
        assert what == "columns"
        assert {name: samples(batch) for name, batch in result.columns.items()} == json.loads(rest)


@pytest.mark.parametrize(("expression", "value"), list(functions()))
def test_a_function_of_the_page_gives_its_value(expression, value):
    source = page_source()

    result = compile_query(f"SELECT {expression} AS x", source.schema).run(source)

    given = samples(result.columns["x"])[0]
    if isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], str)):
        assert given == value
    else:
        np.testing.assert_allclose(given, value, rtol=1e-6)


def test_every_function_and_alias_is_on_the_page():
    missing = [name for name in (*FUNCTIONS, *AGGREGATES, *ALIASES) if f"`{name}" not in PAGE]

    assert missing == []


def test_the_page_lists_the_reserved_words():
    listed = re.search(r"Reserved words: (.*?)\.\n", PAGE, flags=re.DOTALL)[1]

    assert set(listed.split()) == RESERVED


def test_every_function_says_how_it_is_written():
    for name, function in FUNCTIONS.items():
        assert function.usage.startswith(f"{name}("), name
        assert function.summary.endswith("."), name


def test_the_error_on_the_page_is_the_one_that_is_raised():
    with pytest.raises(QueryError) as caught:
        compile_query("WHERE lable = 'cat'", page_source().schema)

    assert str(caught.value) in PAGE
