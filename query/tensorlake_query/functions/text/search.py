"""Words in text: MATCH and BM25_SIMILARITY, exact by scan.

A word is a run of letters, digits and underscores, compared without case. MATCH asks for all words;
BM25 ranks by them, with k1 = 1.2 and b = 0.75 and Lucene's idf, over all texts of what is queried,
whichever of them the query keeps: a filter, or an index, never changes a score.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import TEXT_COST, required_text
from tensorlake_query.functions.text.matching import ascii_lowered, containing
from tensorlake_query.values.bound import Bound, Constant, CorpusRef, show
from tensorlake_query.values.memory import working
from tensorlake_query.values.source import BoolArray, TextStatistics, UniformBatch
from tensorlake_query.values.texts import Texts, texts_of
from tensorlake_query.values.types import BOOL, FLOAT
from tensorlake_query.values.vectors import Vector, python_values, valid_of

K1, B = 1.2, 0.75
WORDS_COST = 16 * TEXT_COST  # a text cut into words, some microseconds
LONG_TEXT = 1 << 16  # characters
WORD_NBYTES = 64  # for each character: words may have one
ASCII_END = 128
_WORD = re.compile(r"\w+")
_IS_WORD = np.array([bool(_WORD.fullmatch(chr(byte))) for byte in range(256)])


class Corpus(Struct, frozen=True):
    """The statistics of all texts that BM25 needs."""

    num_texts: int
    mean_length: float
    texts_with: Mapping[str, int]

    @staticmethod
    def of(batches: Iterable[Vector], words: Sequence[str]) -> "Corpus":
        """Count words in all texts that are not NULL."""
        num_texts = total = 0
        texts_with = dict.fromkeys(words, 0)
        for vector in batches:
            num_texts += int(np.count_nonzero(valid_of(vector)))
            texts, rest = texts_of(vector.values), vector.values[valid_of(vector)]
            if texts is not None:  # a NULL is empty
                is_plain = ~_has_other_bytes(texts)
                total += _num_words(texts.take(np.flatnonzero(is_plain)))
                rest = texts[_may_have_any(texts, words)]
            for text in python_values(rest):
                found = words_of(text)
                total += len(found) if texts is None or not text.isascii() else 0
                for word in texts_with.keys() & set(found):
                    texts_with[word] += 1
        return Corpus(num_texts, total / max(num_texts, 1), texts_with)

    @staticmethod
    def known(statistics: TextStatistics) -> "Corpus":
        """Take what an index knows of all texts."""
        mean = statistics.num_words / max(statistics.num_texts, 1)
        return Corpus(statistics.num_texts, mean, statistics.texts_with)

    def idf(self, word: str) -> float:
        """Return how much a word tells."""
        having = self.texts_with[word]
        return float(np.log1p((self.num_texts - having + 0.5) / (having + 0.5)))


def words_of(text: str) -> list[str]:
    """Return the words of a text, without case."""
    with working(len(text) * WORD_NBYTES if len(text) > LONG_TEXT else 0):
        return _WORD.findall(text.casefold())


def _may_have_any(texts: Texts, words: Iterable[str]) -> BoolArray:
    """Return which texts may have one of some words: all others have none.

    Bytes are compared. A text with other characters than ASCII may have any word: the Kelvin
    sign, folded, is a k.
    """
    folded, found = ascii_lowered(texts), _has_other_bytes(texts)
    for word in words:
        if word.isascii():
            found |= containing(folded, word.encode())
    return found


def _may_have_all(texts: Texts, words: Iterable[str]) -> BoolArray:
    """Return which texts may have all of some words, as `_may_have_any` does."""
    found = _has_other_bytes(texts)
    left, rows = ascii_lowered(texts), np.arange(len(texts))
    for word in sorted(words, key=len, reverse=True):
        if not word.isascii():
            return found
        kept = np.flatnonzero(containing(left, word.encode()))
        left, rows = left.take(kept), rows[kept]
    found[rows] = True
    return found


def _has_other_bytes(texts: Texts) -> BoolArray:
    """Return which texts have characters beyond ASCII."""
    found = np.zeros(len(texts), np.bool_)
    if not texts.is_ascii:
        places = np.flatnonzero(texts.own >= ASCII_END)
        found[np.searchsorted(texts.offsets - texts.offsets[0], places, "right") - 1] = True
    return found


def _num_words(texts: Texts) -> int:
    """Return how many words texts of ASCII have."""
    with working(3 * len(texts.own)):
        is_word = _IS_WORD[texts.own]
        goes_on = np.zeros(len(is_word), np.bool_)
        goes_on[1:] = is_word[:-1]
        starts = texts.offsets[:-1] - texts.offsets[0]
        goes_on[starts[starts < len(goes_on)]] = False
        return int(np.count_nonzero(is_word & ~goes_on))


def _wanted(site: Site) -> list[str]:
    given = site.args[1]
    if not isinstance(given, Constant) or not isinstance(given.value, str):
        raise site.fail(
            "the words to look for are a text known beforehand",
            at=given,
            hint="write MATCH(caption, 'red car'), or pass them: MATCH(caption, $words)",
        )
    words = words_of(given.value)
    if not words:
        raise site.fail(
            f"there is no word in {show(given)}",
            at=given,
            hint="words are runs of letters, digits and underscores; CONTAINS finds any text",
        )
    return list(dict.fromkeys(words))


def _bind_match(site: Site) -> Bound:
    operand = required_text(site, site.args[0])
    wanted = frozenset(_wanted(site))

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        found, strings = np.ones(num_rows, np.bool_), vectors[0].values
        texts = texts_of(strings)
        if texts is not None:
            found = _may_have_all(texts, wanted)
            strings = texts[found]
        found[found] = [wanted.issubset(words_of(text)) for text in python_values(strings)]
        return UniformBatch(found)

    column_type = replace(BOOL, nullable=operand.type.nullable)
    args = (operand, site.args[1])
    return site.apply(kernel, column_type, args=args, cost=WORDS_COST, role="match")


def _bind_bm25(site: Site) -> Bound:
    operand = required_text(site, site.args[0])
    words = _wanted(site)
    corpus_ref = CorpusRef(operand, tuple(words), site.syntax)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        scores = np.zeros(num_rows)
        corpus: Corpus | None = vectors[-1].values[0] if num_rows else None
        if corpus is None:
            return UniformBatch(scores)
        idfs = {word: corpus.idf(word) for word in words}
        rows, strings = np.arange(num_rows), vectors[0].values
        texts = texts_of(strings)
        if texts is not None:
            rows = np.flatnonzero(_may_have_any(texts, words))
            strings = texts[rows]
        for row, text in zip(rows.tolist(), python_values(strings), strict=True):
            found = words_of(text)
            norm = K1 * (1 - B + B * len(found) / max(corpus.mean_length, 1e-9))
            for word, idf in idfs.items():
                count = found.count(word)
                if count:
                    scores[row] += idf * count * (K1 + 1) / (count + norm)
        return UniformBatch(scores)

    column_type = replace(FLOAT, nullable=operand.type.nullable)
    args = (operand, site.args[1], corpus_ref)
    return site.apply(kernel, column_type, args=args, cost=1.5 * WORDS_COST, role="bm25")


FUNCTIONS = (
    Function(
        "MATCH",
        "MATCH(text, 'words')",
        "Does the text have all these words, in any case and order.",
        (2, 2),
        _bind_match,
    ),
    Function(
        "BM25_SIMILARITY",
        "BM25_SIMILARITY(text, 'words')",
        "How well the text matches the words, among all texts.",
        (2, 2),
        _bind_bm25,
    ),
)
