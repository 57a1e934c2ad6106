"""The postings of a question's clauses: of words, prefixes and phrases, in one index.

    terms ──fences──▶ 256 terms a clause (one read) ──▶ places of the terms ──▶ postings (one read)

Terms and postings that were read are kept within a budget. A prefix has the postings of all its
terms, a phrase those rows in which its terms follow one another; both then rank as a word does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError
from tensorlake.indexes.text.postings import FENCE, texts_of
from tensorlake.storage import LruCache
from tensorlake.types import RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader
    from tensorlake.indexes.text.analysis import Clause

__all__ = ["Lexicon", "Matches"]

Int64Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

KEPT_NBYTES = 256 << 20  # of postings in memory, for each index
POSTINGS = ("rows", "frequencies", "norms", "maxima")
BLOCKS_KEPT = 1024  # of 256 terms each
PREFIX_TERMS_MAX = 10_000  # of one prefix: as many postings are joined


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The rows that match a clause.

    Attributes:
        rows: Physical rows, ascending, int64.
        frequencies: How often each matches.
        norms: The length of each row's text.
        maxima: u8 bounds of 128 rows' impacts each; None where not known.
    """

    rows: Int64Array
    frequencies: Int64Array
    norms: Int64Array
    maxima: npt.NDArray[np.uint8] | None

    @classmethod
    def none(cls) -> Matches:
        """Match no rows."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, None)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.frequencies.nbytes + self.norms.nbytes

    def within(self, mask: Mask) -> Matches:
        """Keep the rows of a mask over physical rows."""
        kept = mask[self.rows]
        if kept.all():
            return self
        return Matches(self.rows[kept], self.frequencies[kept], self.norms[kept], None)


class Lexicon:
    """The terms and postings of an index. Thread-safe."""

    def __init__(self, parts: PartsReader) -> None:
        self._parts = parts
        parts.load(("fences",), ("terms", *POSTINGS))
        self._fences = [text or "" for text in texts_of(parts.whole("fences"))]
        self._blocks = LruCache[int, list[str]](BLOCKS_KEPT)
        self._matches = LruCache[int, Matches](KEPT_NBYTES)

    @classmethod
    def of(cls, parts: PartsReader) -> Lexicon:
        """Return the lexicon of an index, kept with its reader."""
        return parts.keep("lexicon", lambda: cls(parts))

    def matches(self, clauses: Sequence[Clause]) -> list[Matches]:
        """Return the rows of each clause.

        Raises:
            InvalidInputError: A phrase, and the index has no positions; or a prefix of more than
                10,000 terms.
        """
        places = self._places(clauses)
        postings = self._postings(sorted({one for each in places for one in each}))
        found: list[Matches] = []
        for clause, terms in zip(clauses, places, strict=True):
            if len(terms) == 1 and len(clause.terms) == 1:
                found.append(postings[terms[0]])
            elif clause.is_prefix:
                found.append(_union([postings[term] for term in terms]))
            elif len(terms) == len(clause.terms):
                found.append(self._phrase(clause, terms, postings))
            else:
                found.append(Matches.none())
        return found

    def _places(self, clauses: Sequence[Clause]) -> list[list[int]]:
        """Return the places of the terms of each clause, among all terms; none where one lacks."""
        wanted = {
            block
            for clause in clauses
            for term in clause.terms
            for block in self._blocks_of(term, is_prefix=clause.is_prefix)
        }
        blocks = self._read_blocks(wanted)
        places: list[list[int]] = []
        for clause in clauses:
            if clause.is_prefix:
                places.append(self._prefixed(clause.terms[0], blocks))
                continue
            found: list[int] = []
            for term in clause.terms:
                for block in self._blocks_of(term, is_prefix=False):
                    at = bisect_left(blocks[block], term)
                    if at < len(blocks[block]) and blocks[block][at] == term:
                        found.append(block * FENCE + at)
            places.append(found if len(found) == len(clause.terms) else [])
        return places

    def _blocks_of(self, term: str, *, is_prefix: bool) -> range:
        first = bisect_right(self._fences, term) - 1
        if not is_prefix:
            return range(first, first + 1) if first >= 0 else range(0)
        last = bisect_left(self._fences, _after(term))
        return range(max(first, 0), last)

    def _prefixed(self, prefix: str, blocks: Mapping[int, list[str]]) -> list[int]:
        found: list[int] = []
        for block in self._blocks_of(prefix, is_prefix=True):
            first = bisect_left(blocks[block], prefix)
            last = bisect_left(blocks[block], _after(prefix))
            found.extend(range(block * FENCE + first, block * FENCE + last))
        if len(found) > PREFIX_TERMS_MAX:
            raise InvalidInputError(
                f"{len(found):,} words begin with {prefix!r}, a search takes up to"
                f" {PREFIX_TERMS_MAX:,}\ngive more letters",
                argument="query",
            )
        return found

    def _read_blocks(self, wanted: set[int]) -> dict[int, list[str]]:
        blocks = {block: self._blocks.get(block) for block in wanted}
        missing = sorted(block for block, terms in blocks.items() if terms is None)
        if missing:
            count = self._parts.rows("terms")
            runs = [np.arange(b * FENCE, min(count, (b + 1) * FENCE)) for b in missing]
            read = texts_of(self._parts.read({"terms": np.concatenate(runs)})["terms"])
            start = 0
            for block, run in zip(missing, runs, strict=True):
                blocks[block] = [text or "" for text in read[start : start + len(run)]]
                self._blocks.put(block, cast("list[str]", blocks[block]))
                start += len(run)
        return cast("dict[int, list[str]]", blocks)

    def _postings(self, terms: Sequence[int]) -> dict[int, Matches]:
        found = {term: self._matches.get(term) for term in terms}
        missing = np.array([term for term, known in found.items() if known is None], np.int64)
        if len(missing):
            read = self._parts.read(dict.fromkeys(POSTINGS, missing))
            columns = [cast("RaggedColumn", read[name]) for name in POSTINGS]
            for at, term in enumerate(missing.tolist()):
                rows, frequencies, norms, maxima = (column.sample(at) for column in columns)
                made = Matches(rows.astype(np.int64, copy=False), frequencies, norms, maxima)
                self._matches.put(term, made, made.nbytes)
                found[term] = made
        return cast("dict[int, Matches]", found)

    def _phrase(
        self, clause: Clause, terms: Sequence[int], postings: Mapping[int, Matches]
    ) -> Matches:
        if not self._parts.parameters["positions"]:
            raise InvalidInputError(
                f'the phrase "{clause}" needs the positions of words, which this index has not\n'
                'create it with them: ds.create_index(column, "text", positions=True)',
                argument="query",
            )
        wanted = np.array(sorted(set(terms)), np.int64)
        column = cast("RaggedColumn", self._parts.read({"positions": wanted})["positions"])
        positions = {term: column.sample(at) for at, term in enumerate(wanted.tolist())}
        hits: Int64Array | None = None
        span = 1 << 32  # more than any text has words
        for offset, term in enumerate(terms):
            one = postings[term]
            owners = np.repeat(one.rows, one.frequencies)
            keys = owners * span + positions[term].astype(np.int64) - offset + len(terms)
            hits = keys if hits is None else hits[np.isin(hits, keys)]
        assert hits is not None, "a phrase has terms"
        rows, frequencies = np.unique(hits // span, return_counts=True)
        one = postings[terms[0]]
        norms = one.norms[np.searchsorted(one.rows, rows)]
        return Matches(rows, frequencies.astype(np.int64), norms, None)


def _union(parts: Sequence[Matches]) -> Matches:
    """Join the rows of several terms; a row has the sum of their frequencies."""
    if not parts:
        return Matches.none()
    rows = np.concatenate([each.rows for each in parts])
    frequencies = np.concatenate([each.frequencies for each in parts])
    norms = np.concatenate([each.norms for each in parts])
    unique, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    sums = np.bincount(inverse, frequencies, len(unique)).astype(np.int64)
    return Matches(unique, sums, norms[first], None)


def _after(prefix: str) -> str:
    """Return the least text after all that begin with a prefix."""
    return prefix + "\U0010ffff" * 2


def uniform(parts: PartsReader, name: str) -> Int64Array:
    """Return a part of one number a row."""
    return cast("UniformColumn", parts.whole(name)).values
