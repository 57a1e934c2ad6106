"""MATCH and BM25_SIMILARITY over stored bytes, beside plain Python over strings."""

import math
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake_query import ColumnType, TextBatch, compile_query
from tests.support.examples import examples

WORD = re.compile(r"\w+")
PIECES = [
    "a",
    "K",
    "\u212a",
    "\u017f",
    "s",
    "ß",
    "ss",
    "ﬁ",
    "fi",
    " ",
    "-",
    "_",
    "7",
    "É",
    "é",
    "\n",
    "İ",
    "",
    "fi a",
]
texts = st.lists(st.none() | st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=9)
ASKED = ["a", "k", "S", "ss", "fi", "é", "7_", "aa", "İ"]
queries = st.lists(st.sampled_from(ASKED), min_size=1, max_size=2)


class Texts:
    """A source of one column of texts."""

    def __init__(self, samples):
        parts = [(one or "").encode() for one in samples]
        self.schema = {"t": ColumnType("text", None, (), nullable=True)}
        self.num_rows = len(samples)
        offsets = np.cumsum([0, *map(len, parts)]).astype(np.int64)
        self.batch = TextBatch(
            np.frombuffer(b"".join(parts), np.uint8),
            offsets,
            np.array([one is not None for one in samples], np.bool_),
        )

    def read(self, column, rows):
        del column
        starts, stops = self.batch.offsets[:-1][rows], self.batch.offsets[1:][rows]
        parts = [self.batch.content[a:b] for a, b in zip(starts, stops, strict=True)]
        content = np.concatenate([self.batch.content[:0], *parts])
        offsets = np.cumsum([0, *(stops - starts)]).astype(np.int64)
        return TextBatch(content, offsets, self.batch.valid[rows])

    def shapes(self, column, rows):
        raise AssertionError(column, rows)

    def statistics(self, column):
        del column


def words(text):
    return WORD.findall(text.casefold())


@examples(120)
@given(texts, queries)
def test_words_are_found_and_ranked_as_in_strings(samples, query):
    source = Texts(samples)
    asked = list(dict.fromkeys(words(" ".join(query))))
    found = compile_query("WHERE MATCH(t, $q)", source.schema, params={"q": " ".join(query)})
    assert found.run(source).rows.tolist() == [
        row
        for row, text in enumerate(samples)
        if text is not None and set(asked) <= set(words(text))
    ]
    known = [words(text) for text in samples if text is not None]
    mean = sum(map(len, known)) / max(len(known), 1)
    expected = []
    for text in samples:
        score = 0.0
        for word in asked:
            having = sum(word in one for one in known)
            idf = math.log1p((len(known) - having + 0.5) / (having + 0.5))
            own = words(text or "")
            count = own.count(word)
            norm = 1.2 * (0.25 + 0.75 * len(own) / max(mean, 1e-9))
            score += idf * count * 2.2 / (count + norm) if count else 0.0
        expected.append(None if text is None else score)
    made = compile_query(
        "SELECT BM25_SIMILARITY(t, $q) AS s", source.schema, params={"q": " ".join(query)}
    )
    batch = made.run(source).columns["s"]
    valid = np.ones(len(samples), np.bool_) if batch.valid is None else batch.valid
    assert valid.tolist() == [one is not None for one in expected]
    assert np.allclose(batch.values[valid], [one for one in expected if one is not None])
