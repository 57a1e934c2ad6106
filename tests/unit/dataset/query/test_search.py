"""`ds.search` and ORDER BY APPROX: with and without indexes, filters, hybrids and hostile input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

WORDS = [f"w{number}" for number in range(20)]
DIM = 16


def some_rows(count: int, seed: int = 0) -> dict[str, Any]:
    """Draw rows around a few centres, with some without vector or text."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((20, DIM))
    vectors = centres[random.integers(0, 20, count)] + 0.5 * random.standard_normal((count, DIM))
    texts = [" ".join(random.choice(WORDS, random.integers(1, 8))) for _ in range(count)]
    return {
        "vec": [None if at % 50 == 7 else one for at, one in enumerate(vectors.astype("f4"))],
        "text": [None if at % 40 == 3 else one for at, one in enumerate(texts)],
        "x": np.arange(count),
    }


SCHEMA = {
    "vec": tl.Embedding(DIM, nullable=True),
    "text": tl.Text(nullable=True),
    "x": "int64",
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tl.Dataset:
    """A dataset of 6,000 rows with both indexes."""
    ds = tl.create(tmp_path_factory.mktemp("search") / "d.tl", SCHEMA)
    ds.extend(some_rows(6000))
    ds.commit("rows")
    ds.create_index("vec")
    ds.create_index("text", "text", positions=True)
    ds.commit("indexes")
    return ds


def query_vector(seed: int) -> Any:
    """Draw a vector from where those of the rows are from."""
    vectors = some_rows(3, 1000 + seed)["vec"]
    return vectors[0]


def test_search_without_an_index_is_the_exact_order() -> None:
    ds = tl.create("memory://search-plain", SCHEMA)
    ds.extend(some_rows(300))
    vector = query_vector(1)

    found = ds.search("vec", vector, 5)
    words = ds.search("text", "w1 w2", 5)

    exact = ds.query("ORDER BY COSINE_SIMILARITY(vec, $q) DESC LIMIT 5", q=vector)
    assert found.rows.tolist() == exact.rows.tolist()
    assert (np.diff(found["_score"]) <= 0).all()
    ranked = ds.query("SELECT BM25_SIMILARITY(text, 'w1 w2') AS s ORDER BY s DESC LIMIT 5")
    assert words["_score"] == pytest.approx(ranked["s"], rel=1e-12)
    ds.discard()


@pytest.mark.parametrize("tokenizer", ["words", "trigram"])
def test_index_without_positions_leaves_phrases_to_a_scan(tokenizer: str) -> None:
    ds = tl.create(f"memory://search-phrases-{tokenizer}", {"text": "str"})
    ds.extend({"text": ["an old car", "old red car", "car old", "older cars"]})
    ds.commit("rows")
    ds.create_index("text", "text", tokenizer=tokenizer)
    ds.commit("index")

    for question in ('"old car"', 'red "old car"'):
        found = ds.search("text", question, k=4)
        exact = ds.search("text", question, k=4, exact=True)
        assert found.rows.tolist() == exact.rows.tolist()
        assert 0 in found.rows
        assert "texts read" in str(found.explain())
    assert "index 'text'" in str(ds.search("text", "red", k=4).explain())


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, "x % 3 = 0", "x < 50", "x < 4000"])
def test_index_finds_what_a_scan_finds(indexed: tl.Dataset, where: str | None) -> None:
    hits = total = 0
    for seed in range(8):
        vector, words = query_vector(seed), f"w{seed} w{seed + 3} w{seed + 9}"

        found = indexed.search("vec", vector, 10, where=where, recall=0.95)
        exact = indexed.search("vec", vector, 10, where=where, exact=True)
        texts = indexed.search("text", words, 10, where=where)
        scanned = indexed.search("text", words, 10, where=where, exact=True)

        assert len(found) == len(exact) == 10
        hits += len({*found.rows.tolist()} & {*exact.rows.tolist()})
        total += 10
        assert texts.rows.tolist() == scanned.rows.tolist()
        assert texts["_score"] == pytest.approx(scanned["_score"], rel=1e-12)
        if where is not None:
            assert len(found.where(where)) == 10
    assert hits / total >= 0.9


def test_explain_names_the_index_and_its_recall(indexed: tl.Dataset) -> None:
    shown = str(indexed.search("vec", query_vector(1)).explain())

    assert "index 'vec'" in shown
    assert "measured recall" in shown
    assert "compared all 6,000 rows" in str(
        indexed.search("vec", query_vector(1), exact=True).explain()
    )
    recall = indexed.indexes["vec"].recall
    assert recall is not None
    assert recall >= 0.95


def test_higher_recall_probes_more_lists(indexed: tl.Dataset) -> None:
    vectors = [query_vector(seed) for seed in range(20)]
    exact = [indexed.search("vec", one, exact=True).rows.tolist() for one in vectors]

    def recall(wanted: float) -> float:
        found = [indexed.search("vec", one, recall=wanted).rows.tolist() for one in vectors]
        return sum(len({*a} & {*b}) for a, b in zip(found, exact, strict=True)) / 200

    assert recall(0.99) >= max(recall(0.5), 0.95)


def test_several_queries_are_those_one_by_one(indexed: tl.Dataset) -> None:
    vectors = np.stack([query_vector(seed) for seed in range(4)])

    every = indexed.search("vec", vectors, 3)

    assert every["_query"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    for at, vector in enumerate(vectors):
        one = indexed.search("vec", vector, 3)
        assert every.rows[3 * at : 3 * at + 3].tolist() == one.rows.tolist()
        assert every["_score"][3 * at : 3 * at + 3].tolist() == one["_score"].tolist()
    assert indexed.search("text", ["w1", "w2 w3"], 2)["_query"].tolist() == [0, 0, 1, 1]


def test_hybrid_joins_ranks(indexed: tl.Dataset) -> None:
    vector = query_vector(2)

    found = indexed.search("vec", vector, 5, hybrid=("text", "w4 w5"), exact=True)

    first = indexed.search("vec", vector, 20, exact=True).rows.tolist()
    second = indexed.search("text", "w4 w5", 20).rows.tolist()
    scores = {
        row: sum(1 / (61 + ranked.index(row)) for ranked in (first, second) if row in ranked)
        for row in {*first, *second}
    }
    best = sorted(scores, key=lambda row: (-scores[row], row))[:5]
    assert found.rows.tolist() == best
    assert found["_score"] == pytest.approx([scores[row] for row in best])
    ranks = [None if row not in first else first.index(row) + 1 for row in best]
    assert list(found["_rank"]) == ranks


def test_views_are_searched_alone(indexed: tl.Dataset) -> None:
    view = indexed.where("x >= 1000 AND x < 5900")

    found = view.search("vec", query_vector(3), 10)
    texts = view.search("text", "w1 w7", 10)

    assert found.rows.min() >= 1000
    assert {*found.rows.tolist()} <= {*view.rows.tolist()}
    ranked = view.query("SELECT BM25_SIMILARITY(text, 'w1 w7') AS s ORDER BY s DESC LIMIT 10")
    assert texts["_score"] == pytest.approx(ranked["s"], rel=1e-12)


def test_found_rows_are_a_view_like_any_other(indexed: tl.Dataset) -> None:
    found = indexed.search("vec", query_vector(4), 6)

    assert found.where("_score > 0").count() <= 6
    assert found["x"][:].tolist() == found.rows.tolist()
    again = found.search("vec", query_vector(4), 2)
    assert again.rows.tolist() == found.rows[:2].tolist()


def test_more_rows_than_have_a_score(indexed: tl.Dataset) -> None:
    found = indexed.search("vec", query_vector(5), 7000)

    assert len(found) == 6000 - 6000 // 50
    assert not np.isnan(found["_score"]).any()


def test_approximate_order_is_that_of_the_exact_expression(indexed: tl.Dataset) -> None:
    hits = 0
    for seed in range(10):
        vector = query_vector(seed)
        tail = "COSINE_SIMILARITY(vec, $q) DESC LIMIT 10"
        scored = "SELECT *, COSINE_SIMILARITY(vec, $q) AS s"
        near = indexed.query(f"{scored} ORDER BY APPROX {tail}", q=vector)
        exact = indexed.query(f"ORDER BY {tail}", q=vector)
        kept = indexed.query(f"WHERE x % 2 = 0 ORDER BY APPROX {tail}", q=vector)

        hits += len({*near.rows.tolist()} & {*exact.rows.tolist()})
        assert (np.diff(near["s"]) <= 0).all()
        assert len(kept) == 10
        assert (kept["x"][:] % 2 == 0).all()
    assert hits >= 90
    assert near.tql is not None
    assert "ORDER BY APPROX COSINE_SIMILARITY(vec, $q) DESC" in near.tql
    assert "APPROX" in str(near.explain())


def test_approximate_order_of_few_rows_has_the_rows_without_score() -> None:
    ds = tl.create("memory://search-few", SCHEMA)
    ds.extend(some_rows(60))
    vector = query_vector(1)

    near = ds.query("ORDER BY APPROX COSINE_SIMILARITY(vec, $q) DESC LIMIT 60", q=vector)

    exact = ds.query("ORDER BY COSINE_SIMILARITY(vec, $q) DESC LIMIT 60", q=vector)
    assert near.rows.tolist() == exact.rows.tolist()
    ds.discard()


@pytest.mark.filterwarnings("ignore::tensorlake.errors.DamagedIndexWarning")
def test_a_damaged_index_means_a_scan(tmp_path: Path) -> None:
    ds = tl.create(tmp_path / "d.tl", SCHEMA)
    ds.extend(some_rows(6000))
    ds.commit("rows")
    before = {*(tmp_path / "d.tl" / "packs").rglob("*.tlp")}
    ds.create_index("vec")
    ds.create_index("text", "text")
    ds.commit("indexes")
    exact = ds.search("vec", query_vector(1), exact=True).rows.tolist()
    words = ds.search("text", "w1 w2").rows.tolist()
    for pack in {*(tmp_path / "d.tl" / "packs").rglob("*.tlp")} - before:
        pack.write_bytes(b"\0" * pack.stat().st_size)

    ds = tl.open(tmp_path / "d.tl")

    with pytest.warns(tl.errors.DamagedIndexWarning, match="cannot be read"):
        assert ds.search("vec", query_vector(1)).rows.tolist() == exact
    with pytest.warns(tl.errors.DamagedIndexWarning, match="cannot be read"):
        assert ds.search("text", "w1 w2").rows.tolist() == words
    tail = "COSINE_SIMILARITY(vec, $q) DESC LIMIT 10"
    near = ds.query(f"ORDER BY APPROX {tail}", q=query_vector(1))
    assert near.rows.tolist() == exact


changes = st.lists(
    st.sampled_from(["append", "update", "delete", "commit", "optimize", "rename"]), max_size=6
)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(changes, st.integers(0, 1000))
def test_search_follows_every_change(tmp_path_factory: Any, steps: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    ds = tl.create(tmp_path_factory.mktemp("changed") / "d.tl", SCHEMA)
    ds.extend(some_rows(4500, seed))  # fewer are compared one by one
    ds.commit("rows")
    ds.create_index("vec", lists=10)
    ds.create_index("text", "text")
    ds.commit("indexes")
    name = "text"

    for step in steps:
        if step == "append":
            rows = some_rows(30, seed + 1)
            ds.extend({**{key: rows[key] for key in ("vec", "x")}, name: rows["text"]})
        elif step == "update":
            for row in random.integers(0, len(ds), 3).tolist():
                ds[name][row] = "w1 w1 w2"
                ds["vec"][row] = random.standard_normal(DIM)
        elif step == "delete":
            ds.delete(np.unique(random.integers(0, len(ds), 20)))
        elif step == "commit":
            ds.commit("changes")
        elif step == "optimize" and not ds.has_changes:
            ds.optimize()
        elif step == "rename" and name == "text":
            ds.rename_tensor("text", "words")
            name = "words"
        words = " ".join(random.choice(WORDS, 3))
        found = ds.search(name, words, 10)
        ranked = ds.query(
            f"SELECT BM25_SIMILARITY({name}, $w) AS s WHERE MATCH({name}, 'w1') OR true"
            " ORDER BY s DESC LIMIT 10",
            w=words,
        )
        assert found["_score"] == pytest.approx(ranked["s"][: len(found)], rel=1e-12)
        for vector in some_rows(6, seed + 2)["vec"]:  # as many as make chunks hot
            near = ds.search("vec", vector, 10, recall=1.0)
            exact = ds.search("vec", vector, 10, exact=True)
            own = ds[near.rows].query("SELECT COSINE_SIMILARITY(vec, $q) AS s", q=vector)
            assert near["_score"] == pytest.approx(own["s"], rel=1e-5)
            assert len({*near.rows.tolist()} & {*exact.rows.tolist()}) >= 7


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"query": [1.0, 2.0]}, tl.errors.ShapeMismatchError, "have 16 numbers"),
        ({"query": np.ones((2, 2, 16))}, tl.errors.ShapeMismatchError, "have 16 numbers"),
        ({"query": np.empty((0, 16))}, tl.errors.ShapeMismatchError, "have 16 numbers"),
        ({"query": [np.nan] * 16}, tl.errors.InvalidInputError, "NaN or infinite"),
        ({"query": [np.inf] * 16}, tl.errors.InvalidInputError, "NaN or infinite"),
        ({"query": [1e39] * 16}, tl.errors.InvalidInputError, "NaN or infinite"),
        ({"query": [0.0] * 16}, tl.errors.InvalidInputError, "has length 0"),
        ({"query": "words"}, tl.errors.InvalidInputError, "searched by a vector"),
        ({"query": [[1.0], [1.0, 2.0]]}, tl.errors.InvalidInputError, "searched by a vector"),
        ({"query": None}, tl.errors.InvalidInputError, "searched by a vector"),
        ({"k": 0}, tl.errors.InvalidInputError, "k must be"),
        ({"k": -1}, tl.errors.InvalidInputError, "k must be"),
        ({"k": 2.5}, tl.errors.InvalidInputError, "k must be"),
        ({"k": 1 << 40}, tl.errors.InvalidInputError, "k must be"),
        ({"recall": 0}, tl.errors.InvalidInputError, "recall must be"),
        ({"recall": 1.01}, tl.errors.InvalidInputError, "recall must be"),
        ({"recall": "high"}, tl.errors.InvalidInputError, "recall must be"),
        ({"where": lambda row: True}, tl.errors.InvalidInputError, "where= takes"),
        ({"where": "x >"}, tl.QueryError, "line 1"),
        ({"where": "x > $a"}, tl.QueryError, r"\$a"),
        ({"params": {"a": 1}}, tl.errors.InvalidInputError, "params are of where="),
        ({"hybrid": "text"}, tl.errors.InvalidInputError, "hybrid takes"),
        ({"hybrid": ("text", ["a", "b"])}, tl.errors.InvalidInputError, "as many queries"),
        ({"column": "x"}, tl.errors.InvalidInputError, "vectors of floats and of texts"),
        ({"column": "nothing"}, tl.errors.TensorNotFoundError, "nothing"),
        ({"column": 3}, tl.errors.InvalidInputError, "name of a column"),
        ({"column": "text"}, tl.errors.InvalidInputError, "searched by words"),
        ({"column": "text", "query": "?!"}, tl.errors.InvalidInputError, "no word"),
        ({"column": "text", "query": ["a", 3]}, tl.errors.InvalidInputError, "searched by words"),
    ],
)
def test_hostile_arguments_are_named(
    indexed: tl.Dataset, given: dict[str, Any], error: type[Exception], named: str
) -> None:
    arguments = {"column": "vec", "query": query_vector(0), **given}

    with pytest.raises(error, match=named):
        indexed.search(**arguments)


def test_groups_and_computed_columns_are_not_searched(indexed: tl.Dataset) -> None:
    with pytest.raises(tl.errors.InvalidInputError, match="needs rows of a dataset"):
        indexed.query("SELECT COUNT(*) AS n").search("n", [1.0])
    with pytest.raises(tl.errors.InvalidInputError, match="computed by a query"):
        indexed.query("SELECT vec * 2 AS twice").search("twice", query_vector(0))


def test_metrics_are_those_of_the_type(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 4)).astype("f4")
    for metric, order in (
        ("l2", "L2_NORM(v - $q)"),
        ("dot", "DOT(v, $q) DESC"),
        ("cosine", "COSINE_SIMILARITY(v, $q) DESC"),
    ):
        ds = tl.create(tmp_path / f"{metric}.tl", {"v": tl.Embedding(4, metric)})
        ds.extend({"v": vectors})
        query = vectors[3] + 0.5

        found = ds.search("v", query, 7)

        assert found.rows.tolist() == ds.query(f"ORDER BY {order} LIMIT 7", q=query).rows.tolist()
        if metric == "l2":
            distances = np.linalg.norm(vectors[found.rows] - query, axis=1)
            assert found["_score"] == pytest.approx(-distances, rel=1e-5)
        ds.discard()
