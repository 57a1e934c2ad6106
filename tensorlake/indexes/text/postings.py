"""The parts of a text index, from texts to sorted postings.

    part         rows             a row
    terms        terms            text, ascending by code point
    fences       terms ÷ 256      every 256th term: which terms to read for one
    documents    documents        physical rows of the texts that are not NULL, int64
    lengths      documents        their numbers of terms
    rows         terms            physical rows that have the term, ascending
    frequencies  terms            how often each of these has it
    norms        terms            the length of each of these
    maxima       terms            u8 bound of the impact of each 128 of these (`ranking`)
    positions    terms            places of the term in each of these; only with positions=True

The length beside each posting repeats what ``lengths`` has, so that a score needs no further read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.kind import RowRanges
from tensorlake.indexes.parts import SMALL_CHUNK_NBYTES, Built, Part
from tensorlake.indexes.ranges import within
from tensorlake.indexes.text.ranking import block_maxima
from tensorlake.types import Array, Column, EncodedColumn, RaggedColumn, Scalar, Text, UniformColumn

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader
    from tensorlake.indexes.text.analysis import Analysis

__all__ = ["FENCE", "Postings", "collected", "joined", "loaded", "texts_of"]

Int64Array = npt.NDArray[np.int64]
FENCE = 256  # terms between fences: some KiB are read for a term


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Texts by their terms: postings sorted by term, then row.

    Attributes:
        terms: The terms, ascending.
        starts: Where the postings of each term start, and their end: int64 (terms + 1,).
        rows: Physical row of each posting.
        frequencies: How often the row's text has the term.
        norms: Number of terms of the row's text.
        positions: Places of each occurrence, posting by posting; None where not kept.
        documents: Physical rows of all texts, ascending.
        lengths: Number of terms of each.
    """

    terms: list[str]
    starts: Int64Array
    rows: Int64Array
    frequencies: Int64Array
    norms: Int64Array
    positions: Int64Array | None
    documents: Int64Array
    lengths: Int64Array

    def built(self, parameters: dict[str, Any]) -> Built:
        """Lay them out as the parts of an index."""
        total = int(self.lengths.sum())
        mean = total / max(len(self.documents), 1)
        maxima, blocks = block_maxima(self.starts, self.frequencies, self.norms, mean)
        parts = {
            "terms": Part(Text(), [_encoded(self.terms)], SMALL_CHUNK_NBYTES),
            "fences": Part(Text(), [_encoded(self.terms[::FENCE])]),
            "documents": Part(Scalar("int64"), [UniformColumn(self.documents)]),
            "lengths": Part(Scalar("int64"), [UniformColumn(self.lengths)]),
            "rows": _ragged(self.rows, np.diff(self.starts)),
            "frequencies": _ragged(self.frequencies, np.diff(self.starts)),
            "norms": _ragged(self.norms, np.diff(self.starts)),
            "maxima": _ragged(maxima, blocks),
        }
        if self.positions is not None:
            ends = np.concatenate(([0], np.cumsum(self.frequencies)))
            parts["positions"] = _ragged(self.positions, np.diff(ends[self.starts]))
        statistics = {"documents": len(self.documents), "total": total, "mean": mean}
        return Built(parts, {**parameters, **statistics})


def texts_of(column: Column) -> list[str | None]:
    """Decode texts; None where NULL."""
    assert isinstance(column, EncodedColumn), "texts are stored as bytes"
    texts = [bytes(sample).decode() for sample in column.samples]
    if column.valid is None:
        return list(texts)
    return [text if known else None for text, known in zip(texts, column.valid, strict=True)]


def collected(
    batches: Iterable[tuple[Int64Array, Sequence[str | None]]],
    analysis: Analysis,
    *,
    has_positions: bool,
) -> Postings:
    """Cut texts into terms and sort them into postings."""
    numbers: dict[str, int] = _Numbered()
    number, terms_of = numbers.__getitem__, analysis.terms
    found: list[_Runs] = []
    documents: list[Int64Array] = []
    lengths: list[Int64Array] = []
    for rows, texts in batches:
        every: list[int] = []
        counts = np.full(len(texts), -1, np.int64)
        for place, text in enumerate(texts):
            if text is not None:
                terms = terms_of(text)
                every.extend(map(number, terms))
                counts[place] = len(terms)
        known = counts >= 0
        documents.append(rows[known])
        lengths.append(counts[known])
        ids = np.array(every, np.int64)
        found.append(_runs(ids, rows[known], counts[known], has_positions=has_positions))
    terms = list(numbers)
    return _sorted(
        terms,
        [run.term for run in found],
        found,
        np.concatenate([np.empty(0, np.int64), *documents]),
        np.concatenate([np.empty(0, np.int64), *lengths]),
        has_positions=has_positions,
    )


def loaded(parts: PartsReader, keep: RowRanges) -> Postings:
    """Read all of an index, but the postings of rows that are not to be kept."""
    terms = [text or "" for text in texts_of(parts.whole("terms"))]
    rows, frequencies, norms = (
        cast("RaggedColumn", parts.whole(name)) for name in ("rows", "frequencies", "norms")
    )
    counts = rows.shapes[:, 0]
    flat = rows.values.astype(np.int64)
    holds = within(keep, flat)
    owners = np.repeat(np.arange(len(terms)), counts)[holds]
    each = frequencies.values.astype(np.int64)
    positions = None
    if parts.parameters["positions"]:
        places = cast("RaggedColumn", parts.whole("positions")).values.astype(np.int64)
        positions = places[np.repeat(holds, each)]
    documents = _uniform(parts, "documents")
    alive = within(keep, documents)
    starts = np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=len(terms)))))
    return Postings(
        terms,
        starts.astype(np.int64),
        flat[holds],
        each[holds],
        norms.values.astype(np.int64)[holds],
        positions,
        documents[alive],
        _uniform(parts, "lengths")[alive],
    )


def joined(one: Postings, other: Postings) -> Postings:
    """Combine the postings of different rows."""
    numbers = _Numbered()
    number = numbers.__getitem__
    found: list[_Runs] = []
    ids: list[Int64Array] = []
    for each in (one, other):
        own = np.array([number(term) for term in each.terms], np.int64)
        ids.append(np.repeat(own, np.diff(each.starts)))
        found.append(_Runs(ids[-1], each.rows, each.frequencies, each.norms, each.positions))
    documents = np.concatenate((one.documents, other.documents))
    order = np.argsort(documents, kind="stable")
    return _sorted(
        list(numbers),
        ids,
        found,
        documents[order],
        np.concatenate((one.lengths, other.lengths))[order],
        has_positions=one.positions is not None,
    )


class _Numbered(dict[str, int]):
    """Numbers texts as they come."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Postings of a batch, one for each row and term."""

    term: Int64Array
    rows: Int64Array
    frequencies: Int64Array
    norms: Int64Array
    positions: Int64Array | None


def _runs(
    ids: Int64Array, documents: Int64Array, counts: Int64Array, *, has_positions: bool
) -> _Runs:
    """Count the terms of each text of a batch."""
    owners = np.repeat(np.arange(len(documents)), counts)
    keys = owners * (int(ids.max(initial=0)) + 1) + ids  # row, then term
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate((keys[:1] == keys[:1], keys[1:] != keys[:-1])))
    frequencies = np.diff(np.append(first, len(keys)))
    texts = owners[order][first]
    positions = None
    if has_positions:
        starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
        positions = order - np.repeat(starts[: len(counts)], counts)[order]
    return _Runs(ids[order][first], documents[texts], frequencies, counts[texts], positions)


def _sorted(
    terms: list[str],
    ids: Sequence[Int64Array],
    runs: Sequence[_Runs],
    documents: Int64Array,
    lengths: Int64Array,
    *,
    has_positions: bool,
) -> Postings:
    """Sort postings by term, in the order of texts, then by row."""
    ascending = sorted(range(len(terms)), key=terms.__getitem__)
    rank = np.empty(len(terms), np.int64)
    rank[ascending] = np.arange(len(terms))
    nothing = np.empty(0, np.int64)
    ranks = rank[np.concatenate([nothing, *ids])]
    rows = np.concatenate([nothing, *(run.rows for run in runs)])
    is_ascending = all(
        not len(a.rows) or not len(b.rows) or a.rows.max() <= b.rows.min()
        for a, b in pairwise(runs)
    )
    order = np.argsort(ranks, kind="stable") if is_ascending else np.lexsort((rows, ranks))
    frequencies = np.concatenate([nothing, *(run.frequencies for run in runs)])
    counts = np.bincount(ranks, minlength=len(terms))
    used = np.flatnonzero(counts)  # terms of deleted rows alone are gone
    positions = None
    if has_positions:
        every = np.concatenate([nothing, *(cast("Int64Array", run.positions) for run in runs)])
        starts = np.concatenate(([0], np.cumsum(frequencies)[:-1])).astype(np.int64)
        positions = every[_stretches(starts[order], frequencies[order])]
    return Postings(
        [terms[ascending[each]] for each in used.tolist()],
        np.concatenate(([0], np.cumsum(counts[used]))).astype(np.int64),
        rows[order],
        frequencies[order],
        np.concatenate([nothing, *(run.norms for run in runs)])[order],
        positions,
        documents,
        lengths,
    )


def _stretches(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """Return starts[0], starts[0] + 1, … of each count, one after another."""
    before = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    return np.arange(int(counts.sum())) + np.repeat(starts - before[: len(starts)], counts)


def _encoded(texts: Sequence[str]) -> EncodedColumn:
    return EncodedColumn([text.encode() for text in texts])


def _ragged(values: npt.NDArray[Any], lengths: Int64Array) -> Part:
    """Make a ragged part of the narrowest unsigned integers that hold the values."""
    most = int(values.max(initial=0))
    dtype = next(d for d in (np.uint8, np.uint16, np.uint32, np.int64) if most <= np.iinfo(d).max)
    column = RaggedColumn(values.astype(dtype), lengths.astype(np.int64)[:, None])
    return Part(Array(np.dtype(dtype).name, (None,)), [column], SMALL_CHUNK_NBYTES)


def _uniform(parts: PartsReader, name: str) -> Int64Array:
    return cast("UniformColumn", parts.whole(name)).values
