"""MATCH and BM25_SIMILARITY by a text index, and indexes of views of chosen rows."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import DamagedIndexWarning
from tensorlake.storage import MemoryStore, run
from tests.support.damage import objects_of
from tests.support.handles import create_on, open_on

ROWS = 20_000
WORDS = np.array([f"w{number}" for number in range(300)])


@pytest.fixture(scope="module")
def dataset():
    random = np.random.default_rng(0)
    drawn = np.minimum(random.zipf(1.3, (ROWS, 6)), len(WORDS)) - 1
    texts = [" ".join(WORDS[row[: 1 + number % 6]]) for number, row in enumerate(drawn)]
    texts[7] = texts[15_000] = "Straße rare RARE"
    made = create_on(MemoryStore(), {"text": tl.Text(nullable=True), "n": "int64"})
    made.extend({"text": [None if n % 50 == 49 else text for n, text in enumerate(texts)],
                 "n": np.arange(ROWS) % 1000})  # fmt: skip
    made.create_index("text", "text")
    made.create_index("n")
    made.commit()
    return made


@pytest.fixture(scope="module")
def scanned(dataset):
    other = dataset.branch("scanned")
    for name in dict(other.indexes):
        other.drop_index(name)
    other.commit()
    return other


@pytest.mark.parametrize(
    "text",
    [
        "WHERE MATCH(text, 'w40')",
        "WHERE MATCH(text, 'w40 w3 W3')",
        "WHERE MATCH(text, 'STRASSE')",
        "WHERE MATCH(text, 'none')",
        "WHERE MATCH(text, 'w40') AND text LIKE '%w2%' AND n > 10",
        "WHERE MATCH(text, 'w40') OR n = 5",
        "WHERE MATCH(text, 'w40') OR n = 5 OR n BETWEEN 7 AND 7.5 OR MATCH(text, 'rare')",
        "WHERE (n = 5 OR MATCH(text, 'w90') OR n IN (7, 8)) AND text LIKE '%w2%'",
        "ORDER BY BM25_SIMILARITY(text, 'w40 w2') DESC LIMIT 30",
        "ORDER BY BM25_SIMILARITY(text, 'rare') DESC LIMIT 30",
        "WHERE n < 100 ORDER BY BM25_SIMILARITY(text, 'rare w1') DESC, n DESC LIMIT 30",
        "WHERE MATCH(text, 'w2') ORDER BY BM25_SIMILARITY(text, 'w2 w9') DESC LIMIT 12 OFFSET 3",
    ],
)
def test_an_index_of_words_answers_as_a_scan_does(dataset, scanned, text):
    by_index, by_scan = dataset.query(text), scanned.query(text)

    assert by_index.rows.tolist() == by_scan.rows.tolist()
    assert "'text' (text)" in by_index.explain() or "MATCH(text, 'w2')" in text
    assert "index" not in by_scan.explain()


def test_scores_by_an_index_are_those_of_a_scan(dataset, scanned):
    scored = "SELECT BM25_SIMILARITY(text, 'w40 rare') AS s WHERE n < 20"

    by_index, by_scan = (one.query(scored)["s"].tolist() for one in (dataset, scanned))

    assert by_index == by_scan


@pytest.mark.filterwarnings("ignore:.*gives the least similar")
def test_other_orders_of_scores_are_scanned(dataset, scanned):
    for tail in ("LIMIT 20", "DESC NULLS FIRST LIMIT 20"):
        text = f"ORDER BY BM25_SIMILARITY(text, 'w40') {tail}"
        assert dataset.query(text).rows.tolist() == scanned.query(text).rows.tolist()


def test_few_texts_with_the_words_and_more_nulls_than_are_skipped():
    store = MemoryStore()
    made = create_on(store, {"text": tl.Text(nullable=True)})
    made.extend({"text": [None] * 6000 + ["a", "b c", "a a"]})
    made.create_index("text", "text")
    made.commit()

    found = made.query("ORDER BY BM25_SIMILARITY(text, 'a') DESC LIMIT 5").rows.tolist()

    assert found == [6002, 6000, 6001, 0, 1]


def test_an_index_of_stems_is_not_asked_by_queries(scanned):
    stems = scanned.branch("stems")
    stems.create_index("text", "text", stem="english")
    stems.commit()

    assert "index" not in stems.query("WHERE MATCH(text, 'w40')").explain()


def test_a_view_of_chosen_rows_is_looked_up_too(dataset, scanned):
    chosen = np.random.default_rng(1).permutation(ROWS)[:9000]
    chosen = np.concatenate((chosen, chosen[:50]))

    for text in ("WHERE n = 7", "WHERE MATCH(text, 'w40') AND n > 500"):
        by_index, by_scan = dataset[chosen].query(text), scanned[chosen].query(text)
        assert by_index.rows.tolist() == by_scan.rows.tolist()
        assert "by index" in by_index.explain()
    best = "ORDER BY BM25_SIMILARITY(text, 'w40 w2') DESC LIMIT 30"
    for rows in (chosen, np.sort(chosen[:9000])):
        views = [one[rows].query(best).rows.tolist() for one in (dataset, scanned)]
        assert views[0] == views[1]


def test_chosen_rows_among_which_are_new_ones():
    made = create_on(MemoryStore(), {"n": "int64"})
    made.extend({"n": np.arange(30_000) % 100})
    made.create_index("n")
    made.commit()
    made.extend({"n": np.arange(300) % 100})
    made.delete([5, 6])
    made.commit()
    chosen = np.arange(len(made))[::-2]

    found = made[chosen].query("WHERE n = 5")

    values = made["n"][:]
    assert found.rows.tolist() == [row for row in chosen.tolist() if values[row] == 5]
    assert "by index 'n'" in found.explain()


def test_a_damaged_index_of_words_means_a_scan():
    store = MemoryStore()
    made = create_on(store, {"text": "str"})
    made.extend({"text": ["red car", "blue car", "bus"] * 20})
    made.commit()
    before = set(objects_of(store))
    made.create_index("text", "text")
    made.commit()
    for name in set(objects_of(store)) - before:
        if name.startswith("packs/"):
            run(store.put(name, bytes(len(objects_of(store)[name]))))
    again = open_on(store)

    with pytest.warns(DamagedIndexWarning, match="text"):
        found = again.query("WHERE MATCH(text, 'red')").rows.tolist()
    with pytest.warns(DamagedIndexWarning, match="text"):
        best = again.query("ORDER BY BM25_SIMILARITY(text, 'bus') DESC LIMIT 2").rows.tolist()

    assert found == list(range(0, 60, 3))
    assert best == [2, 5]
