"""Indexes never change an answer, whatever happened to the dataset since they were built.

Random updates, appends, deletes, optimizations, merges and restores, on two branches; after each
step queries are compared with the same conditions evaluated in Python over all rows.
"""

import math

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import ConflictError
from tensorlake.storage import MemoryStore
from tests.support.examples import examples
from tests.support.handles import create_on, open_on

NAMES = ["ant", "bee", "cow"]
SCHEMA = {
    "label": tl.ClassLabel(NAMES),
    "labels": tl.ClassLabel(NAMES, multi=True),
    "flag": "bool",
    "price": tl.Scalar("float32", nullable=True),
    "count": "int64",
    "word": tl.Text(nullable=True),
    "tags": tl.Tags(),
    "seen": tl.Sequence(tl.ClassLabel(NAMES), nullable=True),
    "parts": tl.Sequence("int16"),
}
KINDS = [
    ("label", None), ("labels", None), ("flag", None), ("price", None), ("count", None),
    ("count", "bitmap"), ("word", None), ("word", "bitmap"), ("word", "text"), ("tags", None),
    ("seen", None), ("parts", None),
]  # fmt: skip
rows = st.fixed_dictionaries(
    {
        "label": st.integers(0, 2),
        "labels": st.lists(st.integers(0, 2), max_size=2),
        "flag": st.booleans(),
        "price": st.none() | st.sampled_from([0.0, -0.0, 0.1, 2.5, math.nan, math.inf]),
        "count": st.integers(-2, 2),
        "word": st.none() | st.sampled_from(["", "a", "ab", "b", "é", "B a b"]),
        "tags": st.lists(st.sampled_from(["new", "old", "x"]), max_size=2, unique=True),
        "seen": st.none() | st.lists(st.integers(0, 2), max_size=3),
        "parts": st.lists(st.sampled_from([-9, 0, 1, 300]), max_size=3),
    }
)


def words(row):
    return set((row["word"] or "").casefold().split())


CONDITIONS = {
    "label = 'bee'": lambda row: row["label"] == 1,
    "label != 'bee'": lambda row: row["label"] != 1,
    "label IN ('ant', 'cow')": lambda row: row["label"] in (0, 2),
    "CONTAINS(labels, 'cow')": lambda row: 2 in row["labels"],
    "NOT CONTAINS(labels, 'cow')": lambda row: 2 not in row["labels"],
    "flag": lambda row: row["flag"],
    "price = 0": lambda row: row["price"] == 0,
    "price <= 0.1": lambda row: row["price"] is not None and row["price"] <= 0.11,
    "price > 0 AND price < 3": lambda row: row["price"] is not None and 0 < row["price"] < 3,
    "price IS NULL": lambda row: row["price"] is None,
    "NOT (price < 1)": lambda row: row["price"] is not None and not row["price"] < 1,
    "count BETWEEN -1 AND 1": lambda row: -1 <= row["count"] <= 1,
    "count IN (2, -2)": lambda row: row["count"] in (2, -2),
    "count < 0.5 AND label = 'ant'": lambda row: row["count"] < 0.5 and row["label"] == 0,
    "word = 'ab'": lambda row: row["word"] == "ab",
    "word >= 'ab'": lambda row: row["word"] is not None and row["word"] >= "ab",
    "word LIKE 'a%'": lambda row: row["word"] is not None and row["word"].startswith("a"),
    "MATCH(word, 'b a')": lambda row: words(row) >= {"a", "b"},
    "MATCH(word, 'É') AND word != 'a'": lambda row: "é" in words(row),
    "NOT MATCH(word, 'ab')": lambda row: row["word"] is not None and "ab" not in words(row),
    "word IS NOT NULL": lambda row: row["word"] is not None,
    "count = 1 OR word = 'ab'": lambda row: row["count"] == 1 or row["word"] == "ab",
    "MATCH(word, 'a') OR label = 'cow' OR price > 1": lambda row: (
        "a" in words(row) or row["label"] == 2 or (row["price"] is not None and row["price"] > 1)
    ),
    "(count < 0 OR flag) AND NOT (label = 'ant' OR price = 0)": lambda row: (
        (row["count"] < 0 or row["flag"]) and row["label"] != 0 and row["price"] not in (None, 0)
    ),
    "CONTAINS(seen, 'cow')": lambda row: 2 in (row["seen"] or ()),
    "ANY(seen = 'ant') AND CONTAINS(seen, 2)": lambda row: {0, 2} <= {*(row["seen"] or ())},
    "NOT CONTAINS(seen, 'cow')": lambda row: row["seen"] is not None and 2 not in row["seen"],
    "CONTAINS(parts, -9)": lambda row: -9 in row["parts"],
    "ANY(parts > 0) OR CONTAINS(seen, 'ant')": lambda row: (
        any(one > 0 for one in row["parts"]) or 0 in (row["seen"] or ())
    ),
    "CONTAINS(tags, 'new')": lambda row: "new" in row["tags"],
    "CONTAINS(tags, 'new') AND CONTAINS(tags, 'x')": lambda row: {"new", "x"} <= set(row["tags"]),
}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # shrinking takes minutes
positions = st.floats(0, 0.999)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(rows, min_size=1, max_size=3)),
        st.tuples(st.just("update"), positions, rows),
        st.tuples(st.just("delete"), positions),
        st.tuples(st.sampled_from(["commit", "optimize", "sort", "branch", "merge", "restore"])),
        st.tuples(st.sampled_from(["add class", "rename class", "rename", "reopen", "reindex"])),
    ),
    min_size=2,
    max_size=9,
)


def content(dataset):
    """Return all rows as plain Python; labels as codes."""
    columns = {name: dataset[name].to_list() for name in dataset.schema}
    for name in ("label", "labels"):
        codes = {one: code for code, one in enumerate(dataset[name].names)}
        columns[name] = [
            [codes[one] for one in value] if isinstance(value, list) else codes[value]
            for value in columns[name]
        ]
    columns["seen"] = [
        value if value is None else [NAMES.index(one) for one in value] for value in columns["seen"]
    ]
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def as_columns(added, names):
    """Return rows as columns, under the names that these have by now."""
    return {names.get(name, name): [row[name] for row in added] for name in added[0]}


def check_answers(dataset, part=slice(None)):
    told = content(dataset)
    names = dataset["label"].names
    for condition, holds in [*CONDITIONS.items()][part]:
        text = condition.replace("'bee'", f"'{names[1]}'").replace("count", _count(dataset))
        expected = [number for number, row in enumerate(told) if holds(_named(row))]
        assert dataset.query(f"WHERE {text}").rows.tolist() == expected, text
    best = dataset.query("ORDER BY BM25_SIMILARITY(word, 'b a') DESC LIMIT 3").rows.tolist()
    assert best == by_bm25(told, ["b", "a"])[:3]


def by_bm25(told, asked):
    """Return rows in the order of their scores, equal ones by number, NULL last."""
    texts = [None if row["word"] is None else row["word"].casefold().split() for row in told]
    known = [text for text in texts if text is not None]
    mean = sum(map(len, known)) / max(len(known), 1)

    def score(text):
        found = 0.0
        for word in asked:
            having = sum(word in one for one in known)
            idf = math.log1p((len(known) - having + 0.5) / (having + 0.5))
            count, norm = text.count(word), 1.2 * (0.25 + 0.75 * len(text) / max(mean, 1e-9))
            found += idf * count * 2.2 / (count + norm)
        return round(found, 9)

    return sorted(
        range(len(texts)),
        key=lambda row: (texts[row] is None, -score(texts[row] or []), row),
    )


def _count(dataset):
    return "count" if "count" in dataset.schema else "n"


def _named(row):
    return row if "count" in row else row | {"count": row["n"]}


class Datasets:
    """Two branches of a dataset with indexes of all of its columns."""

    def __init__(self, first):
        self.store = MemoryStore()
        main = create_on(self.store, SCHEMA)
        main.extend(as_columns(first, {}))
        for column, kind in KINDS:
            main.create_index(column, kind, name=f"{column} {kind}")
        main.commit()
        self.handle, self.names = main, ["main"]

    def do(self, what, *given):
        dataset = self.handle
        names = {"count": _count(dataset)}
        match what:
            case "append":
                dataset.extend(as_columns(given[0], names))
            case "update" if len(dataset):
                at = int(given[0] * len(dataset))
                for name, value in given[1].items():
                    if name not in ("label", "labels") or value:
                        dataset[names.get(name, name)][at] = value
            case "delete" if len(dataset):
                dataset.delete([int(given[0] * len(dataset))])
            case "commit" | "optimize" | "sort" | "branch" | "merge" | "restore":
                dataset.commit()
                self.published(what)
            case "add class":
                dataset["label"].add_names([f"class {len(dataset['label'].names)}"])
            case "rename class":
                dataset["label"].rename(dataset["label"].names[1], f"bee {len(self.names)}")
                self.names.append("")
            case "rename" if "count" in dataset.schema:
                dataset.rename_tensor("count", "n")
            case "reopen":
                dataset.commit()
                self.handle = open_on(self.store, dataset.version.split("@")[0])
            case "reindex":
                dataset.drop_index("price None")
                dataset.create_index("price", name="price None")

    def published(self, what):
        dataset = self.handle
        branch = dataset.version.split("@")[0]
        match what:
            case "optimize":
                dataset.optimize()
            case "sort":
                dataset.optimize(order_by="flag")
            case "branch":
                other = "side" if branch == "main" else "main"
                known = other in dataset.branches
                self.handle = open_on(self.store, other) if known else dataset.branch(other)
            case "merge" if "side" in dataset.branches:
                dataset.merge("side" if branch == "main" else "main", on_conflict="ours")
            case "restore":
                dataset.restore(dataset.log()[-2].version)  # the first with indexes


@pytest.mark.slow
@given(st.lists(rows, min_size=1, max_size=8), steps)
@examples(8, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=PHASES)
def test_answers_are_those_of_all_rows(first, steps):
    datasets = Datasets(first)
    check_answers(datasets.handle)
    for number, step in enumerate(steps):
        try:
            datasets.do(*step)
        except ConflictError:
            datasets.handle.discard()
        check_answers(datasets.handle, slice(number % 4, None, 4))
    datasets.handle.commit()
    assert datasets.handle.check().ok
    datasets.handle.optimize()
    check_answers(datasets.handle)
    assert all(one.coverage == 1 for one in datasets.handle.indexes.values())


@pytest.mark.soak
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(rows, min_size=1, max_size=8), steps)
def test_answers_are_those_of_all_rows_at_length(first, steps):
    test_answers_are_those_of_all_rows.hypothesis.inner_test(first, steps)
