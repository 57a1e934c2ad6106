"""Text indexes: postings, clauses and rankings equal an exhaustive scan."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.indexes.parts import MemoryParts
from tensorlake.indexes.text import Analysis, Segment, collected, search_texts
from tensorlake.indexes.text.kind import TEXT
from tensorlake.indexes.text.postings import joined, loaded
from tensorlake.indexes.text.ranking import K1, B, bounds_of, idf, impacts
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

WORDS = [f"w{number}" for number in range(12)]


def parts_of(
    texts: Sequence[str | None], analysis: Analysis | None = None, *, positions: bool = True
) -> MemoryParts:
    """Index texts by their places, in two batches."""
    analysis = analysis or Analysis()
    half = len(texts) // 2
    batches = [(np.arange(half), texts[:half]), (np.arange(half, len(texts)), texts[half:])]
    made = collected(batches, analysis, has_positions=positions)
    return MemoryParts.of(made.built({"positions": positions}))


def scan(
    texts: Sequence[str | None], question: str, k: int, allowed: Sequence[bool] | None = None
) -> list[tuple[int, float]]:
    """Rank texts by BM25, text by text."""
    analysis = Analysis()
    cut = [None if text is None else analysis.terms(text) for text in texts]
    known = [terms for terms in cut if terms is not None]
    mean = sum(map(len, known)) / max(len(known), 1)
    scores = [0.0] * len(texts)
    for clause in analysis.clauses(question):
        counts = [0 if terms is None else count(terms, clause) for terms in cut]
        weight = idf(len(known), sum(one > 0 for one in counts))
        for row, (terms, frequency) in enumerate(zip(cut, counts, strict=True)):
            if frequency and terms is not None:
                norm = K1 * (1 - B + B * len(terms) / mean)
                scores[row] += weight * frequency * (K1 + 1) / (frequency + norm)
    rows = [row for row, score in enumerate(scores) if score and (not allowed or allowed[row])]
    return [(row, scores[row]) for row in sorted(rows, key=lambda row: (-scores[row], row))][:k]


def count(terms: list[str], clause: Any) -> int:
    """Count how often a text has a clause."""
    if clause.is_prefix:
        return sum(term.startswith(clause.terms[0]) for term in terms)
    wide = len(clause.terms)
    return sum(tuple(terms[at : at + wide]) == clause.terms for at in range(len(terms) - wide + 1))


def found(segments: list[Segment], question: str, k: int) -> list[tuple[int, float]]:
    """Search, as pairs of row and score."""
    hits = search_texts(segments, Analysis().clauses(question), k)
    assert hits.scores is not None
    return list(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


def check(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> None:
    """Compare two rankings."""
    assert [row for row, _ in one] == [row for row, _ in other]
    assert [score for _, score in one] == pytest.approx([score for _, score in other], rel=1e-12)


texts_of_words = st.lists(
    st.none() | st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=40
)
clauses = st.sampled_from([*WORDS, "w1*", "w*", '"w1 w2"', '"w3 w3"', '"w1 w2 w1"', "none", "zz*"])
questions = st.lists(clauses, min_size=1, max_size=4).map(" ".join)


@given(texts_of_words, questions, st.integers(1, 6), st.data())
def test_ranking_is_that_of_a_scan(
    texts: list[str | None], question: str, k: int, data: st.DataObject
) -> None:
    allowed = data.draw(
        st.none() | st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))
    )
    mask = None if allowed is None else np.array(allowed)

    hits = found([Segment(parts_of(texts), allowed=mask)], question, k)

    check(hits, scan(texts, question, k, allowed))


@pytest.mark.slow
@given(texts_of_words, texts_of_words, questions, st.data())
def test_deleted_and_new_texts_count_as_in_a_scan(
    old: list[str | None], new: list[str | None], question: str, data: st.DataObject
) -> None:
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old))))
    rows = np.arange(len(old), len(old) + len(new))
    made = collected([(rows, new)], Analysis(), has_positions=True).built({"positions": True})

    hits = found([Segment(parts_of(old), corpus=kept), Segment(MemoryParts.of(made))], question, 5)

    every = [text if keep else None for text, keep in zip(old, kept, strict=True)] + new
    check(hits, scan(every, question, 5))


@given(texts_of_words, texts_of_words, st.data())
def test_merged_postings_are_those_of_all_texts(
    old: list[str | None], new: list[str | None], data: st.DataObject
) -> None:
    stop = data.draw(st.integers(0, len(old)))
    keep = np.array([[0, stop]]) if stop else np.empty((0, 2), np.int64)
    rows = np.arange(stop, stop + len(new))

    merged = joined(
        loaded(parts_of(old), keep), collected([(rows, new)], Analysis(), has_positions=True)
    )

    texts = [*old[:stop], *new]
    whole = collected([(np.arange(len(texts)), texts)], Analysis(), has_positions=True)
    assert merged.terms == whole.terms
    for name in ("starts", "rows", "frequencies", "norms", "positions", "documents", "lengths"):
        assert np.array_equal(getattr(merged, name), getattr(whole, name)), name


@pytest.mark.slow
def test_large_lists_are_skipped_and_rank_the_same() -> None:
    random = np.random.default_rng(0)
    vocabulary = [f"t{number}" for number in range(2000)]
    shares = 1 / np.arange(1, 2001)
    drawn = random.choice(2000, (12_000, 8), p=shares / shares.sum())
    texts = [" ".join(vocabulary[one] for one in row) for row in drawn]
    parts = parts_of(texts, positions=False)

    for question in ("t0", "t0 t1", "t0 t1900", "t3 t700 t0", "t1 t2 t3 t4", "t19*"):
        check(found([Segment(parts)], question, 10), scan(texts, question, 10))


def test_ranking_is_that_of_bm25s() -> None:
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(300)]
    peer = bm25s.BM25(method="lucene", k1=K1, b=B)
    peer.index([text.split() for text in texts], show_progress=False)
    parts = parts_of(texts)

    for question in ("w1", "w1 w5", "w2 w3 w7 w11"):
        hits = found([Segment(parts)], question, 10)
        _, scores = peer.retrieve([question.split()], k=10, show_progress=False)
        # bm25s leaves out the factor k1 + 1, and computes in float32.
        assert [score for _, score in hits] == pytest.approx(scores[0] * (K1 + 1), rel=1e-5)


@pytest.mark.slow
def test_ranks_of_many_texts_are_those_of_bm25s() -> None:
    random = np.random.default_rng(2)
    vocabulary = np.array([f"t{number}" for number in range(20_000)])
    drawn = np.minimum(random.zipf(1.2, (100_000, 8)), len(vocabulary)) - 1
    texts = [" ".join(words) for words in vocabulary[drawn]]
    dataset = create_on(MemoryStore(), {"text": "str"})
    dataset.extend({"text": texts})
    dataset.create_index("text", "text")
    dataset.commit()
    peer = bm25s.BM25(method="lucene", k1=K1, b=B)
    peer.index([text.split() for text in texts], show_progress=False)

    asked = [random.choice(vocabulary[:3000], 1 + at % 4, replace=False) for at in range(60)]
    for words in asked:
        view = dataset.search("text", " ".join(words), k=20)
        rows, scores = peer.retrieve([list(words)], k=20, show_progress=False)
        scores = scores[0][scores[0] > 0] * (K1 + 1)
        assert view["_score"][:] == pytest.approx(scores, rel=1e-5)
        # texts of equal scores are in any order there
        gaps = np.abs(np.diff(scores, prepend=np.inf, append=-np.inf)) > 1e-4
        distinct = np.flatnonzero(gaps[:-1] & gaps[1:])
        distinct = distinct[distinct < len(scores) - 1]  # the last may equal one beyond
        assert view.rows[distinct].tolist() == rows[0][distinct].tolist()


def test_bounds_hold_under_other_mean_lengths() -> None:
    frequencies = np.tile(np.arange(1, 40), 20)
    lengths = np.repeat(np.arange(1, 400, 20), 39)

    for mean in (1.0, 50.0, 51.0, 300.0):
        built = np.ceil(impacts(frequencies, lengths, 50.0) / (K1 + 1) * 255).astype(np.uint8)
        assert (
            bounds_of(built, 50.0, mean) * (1 + 1e-9) >= impacts(frequencies, lengths, mean)
        ).all()


def test_words_are_folded_and_stemmed_and_trigrams_cross_them() -> None:
    assert Analysis().terms("Straße, CAT's naïve_x 東京") == [
        "strasse",
        "cat",
        "s",
        "naïve_x",
        "東京",
    ]
    assert Analysis(stem="english").terms("Running runs") == ["run", "run"]
    assert Analysis(tokenizer="trigram").terms("東京都庁") == ["東京都", "京都庁"]
    assert [str(one) for one in Analysis().clauses('Red "Stop sign" car* red')] == [
        "red",
        "stop sign",
        "car*",
    ]


def test_trigrams_find_within_words() -> None:
    analysis = Analysis(tokenizer="trigram")
    parts = parts_of(["東京都庁", "京都", "大阪", "東"], analysis)

    def rows(question: str) -> list[int]:
        return sorted(search_texts([Segment(parts)], analysis.clauses(question), 9).rows.tolist())

    assert rows("京都庁") == [0]
    assert rows("東") == [0, 3]


def test_phrase_without_positions_names_the_remedy() -> None:
    parts = parts_of(["a b"], positions=False)

    with pytest.raises(tl.errors.InvalidInputError, match="positions=True"):
        search_texts([Segment(parts)], Analysis().clauses('"a b"'), 1)


@pytest.mark.parametrize("question", ["", "  ", "!?", '""', "*"])
def test_question_without_words_is_refused(question: str) -> None:
    with pytest.raises(tl.errors.InvalidInputError, match="no word to search for"):
        Analysis().clauses(question)


@pytest.mark.parametrize("question", [" ".join(map(str, range(1025))), "a" * 5000 + "*"])
def test_hostile_questions_end_in_time(question: str) -> None:
    parts = parts_of(["a b c"])
    try:
        assert not len(search_texts([Segment(parts)], Analysis().clauses(question), 1).rows)
    except tl.errors.InvalidInputError as error:
        assert "1,024 different words" in str(error)  # noqa: PT017 - one of both may come


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tokenizer": "chars"}, "'words', 'trigram'"),
        ({"stem": "englisch"}, "did you mean 'english'"),
        ({"stem": "english", "tokenizer": "trigram"}, "leave out one of both"),
        ({"positions": 1}, "positions must be"),
        ({"stemmer": "english"}, "did you mean 'stem'"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    ds = tl.create(tmp_path / "t.tl", {"t": "str"})
    spec = ds.__rowset__.selection.snapshot.spec("t")

    with pytest.raises(tl.errors.InvalidInputError, match=named):
        TEXT.options(spec, options)
