"""Search of text indexes: the rows with the best BM25 scores, as an exhaustive scan has them.

The texts searched may be in several indexes: a stored one, and one in memory of the rows that it
does not cover. Statistics are of all texts searched, whichever of them a filter lets through.

In each index clauses are added rarest first. Once the k-th best score so far is larger than all
that the remaining clauses could add to a row that has none of the earlier ones, no further row can
be among the best: the remaining, frequent clauses are only looked up for the rows found so far. A
single frequent clause is read by blocks, those of the largest bounds first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.kind import Hits
from tensorlake.indexes.text.analysis import Analysis, Clause
from tensorlake.indexes.text.matching import Lexicon, Matches, uniform
from tensorlake.indexes.text.ranking import BLOCK, K1, bounds_of, idf, impacts

if TYPE_CHECKING:
    from tensorlake.indexes.condition import Condition
    from tensorlake.indexes.parts import PartsReader
    from tensorlake.types import SampleType

__all__ = ["Segment", "best_texts", "rows_where", "search_texts", "statistics"]

Int64Array = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SLACK = 1 + 1e-9  # sums of floats in another order differ by less
BLOCKS_AT_FIRST = 32  # of a single clause, and as many again as the results fill


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Texts of one index that are searched.

    Attributes:
        parts: The index.
        corpus: Its texts that are searched, by physical row; None: all.
        allowed: The rows that may be found, by physical row; None: all.
    """

    parts: PartsReader
    corpus: Mask | None = None
    allowed: Mask | None = None

    def matches(self, clauses: Sequence[Clause]) -> list[Matches]:
        """Return the rows of each clause in the corpus."""
        found = Lexicon.of(self.parts).matches(clauses)
        return found if self.corpus is None else [each.within(self.corpus) for each in found]

    def counts(self) -> tuple[int, int]:
        """Return the number of texts in the corpus, and of their terms."""
        parameters = self.parts.parameters
        if self.corpus is None:
            return int(parameters["documents"]), int(parameters["total"])
        kept = self.corpus[uniform(self.parts, "documents")]
        return int(kept.sum()), int(uniform(self.parts, "lengths")[kept].sum())


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The statistics of a score: the weight of each clause, and the mean length of a text."""

    weights: Sequence[float]
    mean: float


def search_texts(segments: Sequence[Segment], clauses: Sequence[Clause], k: int) -> Hits:
    """Find the k rows of the best scores, best first, equal ones by row."""
    every, score = _ranked(segments, clauses, k)
    order = np.lexsort((every, -score))[:k]
    return Hits(every[order], score[order])


def best_texts(segments: Sequence[Segment], clauses: Sequence[Clause], k: int) -> Int64Array:
    """Find the k rows of the best scores, and all that equal the last of them, ascending."""
    every, score = _ranked(segments, clauses, k)
    return np.sort(every[score * SLACK >= _kth(score, k)])


def statistics(
    segments: Sequence[Segment], clauses: Sequence[Clause]
) -> tuple[int, int, list[int]]:
    """Return the number of texts, of their terms, and of the texts that match each clause."""
    return _statistics(segments, [segment.matches(clauses) for segment in segments])


def _statistics(
    segments: Sequence[Segment], matches: Sequence[Sequence[Matches]]
) -> tuple[int, int, list[int]]:
    counts = [segment.counts() for segment in segments]
    having = [sum(len(one.rows) for one in each) for each in zip(*matches, strict=True)]
    return sum(n for n, _ in counts), sum(length for _, length in counts), having


def _ranked(
    segments: Sequence[Segment], clauses: Sequence[Clause], k: int
) -> tuple[Int64Array, Doubles]:
    """Return the rows that may be among the k best of each index, and their scores."""
    matches = [segment.matches(clauses) for segment in segments]
    documents, total, having = _statistics(segments, matches)
    weights = [idf(documents, number) for number in having]
    corpus = _Corpus(weights, total / max(documents, 1))
    rows, scores = [np.empty(0, np.int64)], [np.empty(0)]
    for segment, own in zip(segments, matches, strict=True):
        found = _best_of(segment, own, corpus, k)
        rows.append(found)
        scores.append(_scores(found, own, corpus))
    return np.concatenate(rows), np.concatenate(scores)


def rows_where(
    parts: PartsReader, sample_type: SampleType, conditions: Sequence[Condition], most: int
) -> Int64Array | None:
    """Find the physical rows that have all words of MATCH, ascending; None where it cannot tell.

    Args:
        parts: The index.
        sample_type: The column's type.
        conditions: Conditions that all of them meet.
        most: Rows beyond which a scan is cheaper.
    """
    del sample_type
    words = [word for one in conditions for word in one.values]
    if any(one.op != "match" for one in conditions) or not Analysis.of(parts.parameters).is_plain:
        return None
    clauses = [Clause((str(word),)) for word in dict.fromkeys(words)]
    found: Int64Array | None = None
    for one in sorted(Lexicon.of(parts).matches(clauses), key=lambda each: len(each.rows)):
        found = one.rows if found is None else found[_looked_up(one.rows, found)[0]]
    return None if found is None or len(found) > most else found


def _scores(rows: Int64Array, matches: Sequence[Matches], corpus: _Corpus) -> Doubles:
    """Score rows exactly, adding clauses in the order of the question."""
    scores = np.zeros(len(rows))
    for weight, each in zip(corpus.weights, matches, strict=True):
        is_here, at = _looked_up(each.rows, rows)
        scores[is_here] += weight * impacts(each.frequencies[at], each.norms[at], corpus.mean)
    return scores


def _best_of(segment: Segment, matches: Sequence[Matches], corpus: _Corpus, k: int) -> Int64Array:
    """Return the rows of one index that may be among the k best, more than k where they tie."""
    used = list(zip(matches, corpus.weights, strict=True))
    if segment.allowed is not None:
        used = [(one.within(segment.allowed), weight) for one, weight in used]
    used = [(one, weight) for one, weight in used if len(one.rows)]
    if not used:
        return np.empty(0, np.int64)
    built_mean = float(segment.parts.parameters["mean"])
    used.sort(key=lambda each: len(each[0].rows))
    if len(used) == 1 and used[0][0].maxima is not None:
        return _best_of_one(used[0][0], built_mean, corpus, k)
    limits = [weight * _bound(one, built_mean, corpus) for one, weight in used]
    rows, scores, threshold = np.empty(0, np.int64), np.empty(0), -np.inf
    for at, (one, weight) in enumerate(used):
        remaining = sum(limits[at:])
        if threshold > remaining * SLACK:
            kept = (scores + remaining) * SLACK >= threshold
            rows, scores = rows[kept], scores[kept]
            is_here, places = _looked_up(one.rows, rows)
            scores[is_here] += weight * impacts(
                one.frequencies[places], one.norms[places], corpus.mean
            )
        else:
            own = weight * impacts(one.frequencies, one.norms, corpus.mean)
            rows, scores = _added(rows, scores, one.rows, own)
        threshold = _kth(scores, k)
    kept = scores * SLACK >= threshold
    return rows[kept]


def _best_of_one(one: Matches, built_mean: float, corpus: _Corpus, k: int) -> Int64Array:
    """Return the rows of a clause of the k largest impacts, by blocks."""
    assert one.maxima is not None, "checked by the caller"
    bounds = bounds_of(one.maxima, built_mean, corpus.mean)
    order = np.argsort(-bounds, kind="stable")
    count, read = BLOCKS_AT_FIRST + -(-k // BLOCK), 0
    places, scores = np.empty(0, np.int64), np.empty(0)
    while read < len(order):
        blocks = np.sort(order[read : read + count])
        more = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        more = more[more < len(one.rows)]
        own = impacts(one.frequencies[more], one.norms[more], corpus.mean)
        places, scores = np.concatenate((places, more)), np.concatenate((scores, own))
        read += len(blocks)
        count *= 4
        if read < len(order) and _kth(scores, k) > bounds[order[read]] * SLACK:
            break
    kept = scores * SLACK >= _kth(scores, k)
    return one.rows[np.sort(places[kept])]


def _bound(one: Matches, built_mean: float, corpus: _Corpus) -> float:
    if one.maxima is None or not len(one.maxima):
        return K1 + 1
    return float(bounds_of(one.maxima.max(keepdims=True), built_mean, corpus.mean)[0])


def _kth(scores: Doubles, k: int) -> float:
    """Return the k-th largest score; −∞ where there are fewer."""
    if len(scores) < k:
        return -np.inf
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def _looked_up(among: Int64Array, rows: Int64Array) -> tuple[Mask, Int64Array]:
    """Return which rows are among others, ascending, and the places of those."""
    at = np.searchsorted(among, rows)
    at[at == len(among)] = 0
    is_here = among[at] == rows if len(among) else np.zeros(len(rows), np.bool_)
    return is_here, at[is_here]


def _added(
    rows: Int64Array, scores: Doubles, more_rows: Int64Array, more: Doubles
) -> tuple[Int64Array, Doubles]:
    """Add the scores of two ascending lists of rows."""
    if not len(rows):
        return more_rows, more
    is_here, at = _looked_up(more_rows, rows)
    more = more.copy()
    more[at] += scores[is_here]
    left = rows[~is_here]
    if not len(left):
        return more_rows, more
    where = np.searchsorted(more_rows, left)
    return np.insert(more_rows, where, left), np.insert(more, where, scores[~is_here])
