"""Rows of several vectors: MaxSim by an index, by a scan and in TQL, beside a plain loop."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.indexes.vector.tokens import first_by_max_sim, max_sim
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

ROWS, DIM = 4500, 16
random = np.random.default_rng(7)
CENTRES = random.standard_normal((150, DIM))


def near(count):
    chosen = CENTRES[random.integers(0, len(CENTRES), count)]
    return (chosen + 0.3 * random.standard_normal((count, DIM))).astype(np.float32)


DOCUMENTS = [near(count) for count in random.integers(0, 7, ROWS)]
QUERIES = [near(count) for count in (1, 4, 6, 5)]


def scores_by_loop(document, query, metric):
    if document is None or not len(document):
        return -np.inf
    table = document.astype(np.float64) @ query.T
    if metric == "cosine":
        table /= np.linalg.norm(document, axis=1)[:, None] * np.linalg.norm(query, axis=1)
    return table.max(axis=0).sum()


def ranked(metric, query, documents, k):
    scores = np.array([scores_by_loop(one, query, metric) for one in documents])
    return np.argsort(-scores, kind="stable")[:k], scores


@pytest.fixture(scope="module", params=["cosine", pytest.param("dot", marks=pytest.mark.slow)])
def dataset(request):
    kind = tl.Sequence(tl.Embedding(DIM, metric=request.param), nullable=True)
    made = create_on(MemoryStore(), {"v": kind, "n": "int64"})
    made.extend({"v": [None, *DOCUMENTS[1:]], "n": np.arange(ROWS) % 50})
    made.create_index("v")
    made.commit()
    return made


def test_an_index_finds_what_a_scan_does(dataset) -> None:
    metric = dataset.schema["v"].item.metric
    documents, hits = [None, *DOCUMENTS[1:]], 0
    for query in QUERIES:
        expected, scores = ranked(metric, query, documents, 10)
        exact = dataset.search("v", query, exact=True)
        assert exact.rows.tolist() == expected.tolist()
        assert np.allclose(exact["_score"][:], scores[expected], rtol=1e-5)
        found = dataset.search("v", query)
        assert "index 'v'" in found.explain()
        hits += len(set(found.rows.tolist()) & set(expected.tolist()))
        some = dataset.search("v", query, k=3, where="n = 7").rows
        passing = [one if row % 50 == 7 else None for row, one in enumerate(documents)]
        assert some.tolist() == ranked(metric, query, passing, 3)[0].tolist()
    assert hits >= 0.95 * 10 * len(QUERIES)
    both = dataset.search("v", QUERIES[:2], k=2)
    assert both["_query"][:].tolist() == [0, 0, 1, 1]
    assert both.rows[2:].tolist() == dataset.search("v", QUERIES[1], k=2).rows.tolist()


def test_queries_see_arrays_of_vectors(dataset) -> None:
    by_tql = dataset.query("SELECT MAXSIM(v, $q) AS s, n ORDER BY s DESC LIMIT 5", q=QUERIES[1])
    expected, scores = ranked("dot", QUERIES[1], [None, *DOCUMENTS[1:]], 5)
    assert by_tql.rows.tolist() == expected.tolist()
    assert np.allclose(by_tql["s"][:], scores[expected], rtol=1e-5)
    lengths = dataset.query("SELECT SHAPE(v)[0] AS n LIMIT 4").to_arrow()["n"].to_pylist()
    assert lengths == [None, *map(len, DOCUMENTS[1:4])]
    assert len(dataset.query("WHERE v IS NULL OR SHAPE(v)[0] = 0")) == 1 + sum(
        not len(one) for one in DOCUMENTS[1:]
    )


def test_rows_added_or_updated_since_are_found(dataset) -> None:
    other = dataset.branch(f"later-{dataset.schema['v'].item.metric}")
    query = 5 * near(3)
    other["v"][17] = query
    other.append({"v": 2 * query, "n": 1})
    other.delete([40])
    assert set(other.search("v", query, k=2).rows.tolist()) == {17, ROWS - 1}
    other.commit()
    other.optimize()
    assert other.indexes["v"].coverage == 1
    assert set(other.search("v", query, k=2).rows.tolist()) == {17, ROWS - 1}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (np.zeros((2, DIM + 1)), "have 16 numbers"),
        ([], "query"),
        (np.full((2, DIM), np.nan), "NaN"),
        ("words", "vector"),
        (np.ones((2000, DIM)), "up to 1,024"),
        ([[np.ones(DIM)], [np.ones(DIM + 1)]], "16 numbers"),
    ],
)
def test_other_queries_are_refused(dataset, query, words) -> None:
    with pytest.raises(tl.TensorlakeError, match=words):
        dataset.search("v", query)


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("seed", range(6))
def test_the_first_rows_have_the_scores_of_all_rows(metric, seed):
    random = np.random.default_rng(seed)
    counts = random.integers(0, 5, 300)
    vectors = random.standard_normal((int(counts.sum()), 24)).astype(np.float32)
    vectors[random.random(len(vectors)) < 0.3] = vectors[:1]  # equal scores
    if seed % 2:
        vectors[5] = [np.nan, np.inf, 1e38][seed % 3]
    query = np.concatenate((vectors[:1], random.standard_normal((3, 24)).astype(np.float32)))
    with np.errstate(all="ignore"):
        every = max_sim(vectors, counts, query, metric)
    known = np.sort(every[~np.isnan(every)])[::-1]

    places, scores = first_by_max_sim(vectors, counts, query, metric, 10)

    np.testing.assert_array_equal(scores, every[places])
    assert set(np.flatnonzero(every >= known[9])) <= set(places.tolist())
