"""Texts that are nearly the same: MinHash, bands, and the exact Jaccard similarity of candidates.

The shingles of a text are the runs of 8 bytes in it; a shorter text is one shingle. The similarity
of two texts is that of their sets of shingles (Jaccard): those in common of those in either.

    signature   one permutation hashing (Li, Owen and Zhang, NIPS 2012): each shingle is hashed once
                and falls into one of 128 bins, of which the least hash is kept; an empty bin takes
                that of another (Shrivastava, "Optimal Densification", ICML 2017)
    candidates  texts that agree in all bins of a band (Leskovec, Rajaraman and Ullman, "Mining of
                Massive Datasets", chapter 3); a band is as long as finds 99 of 100 pairs that
                are just similar enough
    pairs       candidates whose similarity, computed from their texts, reaches the threshold

Copies are found first, by digests, and one of each is compared with the others. Memory: 264 bytes
for each different text, and 64 MiB of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.quality.clusters import (
    Check,
    Int64Array,
    UInt64Array,
    clusters_of,
    pairs_of_equal,
)
from tensorlake.dataset.quality.copies import equal_rows
from tensorlake.storage import parallel_map
from tensorlake.types import Buffer, EncodedColumn, PackedSamples, offsets_of
from tensorlake.versions import distinct

__all__ = ["LEAST_SIMILARITY", "near_texts", "shingles_of", "signatures_of"]

Signatures = npt.NDArray[np.uint16]
UInt32Array = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

WIDTH = 8  # bytes of a shingle: those of an integer
BINS = 128
LEAST_SIMILARITY = 0.3
RECALL = 0.99
SLACK = 0.15  # of a similarity estimated by 128 bins: 3.5 standard deviations

SPAN_ROWS = 1 << 16
SPAN_NBYTES = 32 << 20
BLOCK_NBYTES = 1 << 16  # of texts signed together: their hashes stay in the processor's cache
LONG_NBYTES = 1 << 13  # a text from here on is signed alone, by part of its shingles
KEPT_OF_LONG = 16 * BINS  # shingles of a long text: a bin is left empty once in e¹⁶ times, nearly
COMPARED = 1 << 14  # pairs whose signatures are compared together

ONE, TWO = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
THREE = np.uint32(0x2C1B3C6D)
NOTHING = np.uint32(2**32 - 1)
BIN = np.uint32(BINS - 1)
HASH_SHIFT = np.uint32(7)  # bits of the bin, which are the same for all hashes of one


def near_texts(
    rows: RowSet, name: str, similarity: float, check: Check
) -> tuple[Int64Array, list[Int64Array]]:
    """Return the positions of texts that are not NULL, and pairs that connect similar ones."""
    used, copies = equal_rows(rows, name, check)
    is_copy = np.zeros(len(used), np.bool_)
    is_copy[copies[:, 1]] = True
    different = np.flatnonzero(~is_copy)
    texts = rows.take(used[different])
    signatures, lengths = _signatures(texts, name, check)
    found = _Joined(len(texts))
    signed = np.flatnonzero(lengths)
    width = band_width(similarity)
    for start in range(0, BINS - width + 1, width):
        check(start, BINS)
        keys = _keys(signatures[signed, start : start + width])
        apart = _apart(keys, found.first()[signed])
        for part in pairs_of_equal(keys[apart]):
            for pairs in _likely(signed[apart[part]], found, signatures, similarity, check):
                for few in _pieces(pairs, lengths):
                    check(start, BINS)
                    _verify(texts, name, few, similarity, found)
    return used, [copies, different[found.pairs()]]


def band_width(similarity: float) -> int:
    """Return the most bins per band by which 99 of 100 pairs of this similarity are candidates."""
    widths = range(1, BINS + 1)
    recalls = [1 - (1 - similarity**width) ** (BINS // width) for width in widths]
    return max(width for width, recall in zip(widths, recalls, strict=True) if recall >= RECALL)


def shingles_of(text: Buffer) -> UInt64Array:
    """Return the different shingles of a text, sorted, uint64."""
    content = np.frombuffer(bytes(text) + bytes(WIDTH), np.uint8)
    if len(text) < WIDTH:
        return np.full(min(1, len(text)), _short(content, len(text)), np.uint64)
    shingles = np.sort(_windows(content, 0, len(text) - WIDTH + 1))
    return shingles[np.diff(shingles, prepend=~shingles[:1]) != 0]


def signatures_of(texts: Sequence[Buffer]) -> Signatures:
    """Sign texts: uint16 (texts, 128); two agree in as many bins as they are similar, nearly.

    The bins of an empty text are all equal, as they have no shingle.
    """
    packed = texts if isinstance(texts, PackedSamples) else _packed(texts)
    content, offsets = np.frombuffer(packed.content, np.uint8), packed.offsets
    lengths = packed.lengths
    least = np.full((len(packed), BINS), NOTHING)
    block = _Block.empty(max(BLOCK_NBYTES, LONG_NBYTES))
    start = 0
    while start < len(packed):
        stop = int(np.searchsorted(offsets, offsets[start] + BLOCK_NBYTES, side="right")) - 1
        if lengths[start] >= LONG_NBYTES:
            stop = start + 1
            _sign_long(block, content[offsets[start] : offsets[stop]], least[start])
        else:
            long = np.flatnonzero(lengths[start:stop] >= LONG_NBYTES)
            stop = start + int(long[0]) if len(long) else max(stop, start + 1)
            of_block = offsets[start : stop + 1] - offsets[start]
            _sign_block(block, content[offsets[start] :], of_block, least[start:stop])
        start = stop
    signatures = (least >> HASH_SHIFT).astype(np.uint16)
    _densify(signatures.reshape(-1), (least == NOTHING).reshape(-1))
    return signatures


def _packed(texts: Sequence[Buffer]) -> PackedSamples:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return PackedSamples(b"".join(texts), offsets_of(lengths))


def _signatures(texts: RowSet, name: str, check: Check) -> tuple[Signatures, Int64Array]:
    """Sign all texts, in several threads; return their signatures and lengths in bytes."""

    def read() -> Iterator[PackedSamples]:
        for start, stop in texts.spans([name], rows_max=SPAN_ROWS, nbytes=SPAN_NBYTES):
            check(start, len(texts))
            column = texts.read(name, np.arange(start, stop), decode=False)
            assert isinstance(column, EncodedColumn), "texts are stored as bytes"
            samples = column.samples
            packed = samples if isinstance(samples, PackedSamples) else _packed(samples)
            cuts = np.linspace(0, len(packed), 9).astype(np.int64).tolist()
            yield from (
                PackedSamples(packed.content, packed.offsets[a : b + 1])
                for a, b in pairwise(cuts)
                if b > a
            )

    def sign(part: PackedSamples) -> tuple[Signatures, Int64Array]:
        return signatures_of(part), part.lengths

    signatures = np.zeros((len(texts), BINS), np.uint16)
    lengths = np.zeros(len(texts), np.int64)
    at = 0
    for some, sizes in parallel_map(sign, read()):
        signatures[at : at + len(some)], lengths[at : at + len(some)] = some, sizes
        at += len(some)
    return signatures, lengths


@dataclass(frozen=True, slots=True)
class _Block:
    """Memory in which the shingles of a part of the texts are hashed, again and again.

    Attributes:
        content: The bytes, and 8 more.
        products: uint64, one for each byte.
        hashes: uint32, likewise.
        work: uint32, likewise.
    """

    content: Bytes
    products: UInt64Array
    hashes: UInt32Array
    work: UInt32Array

    @classmethod
    def empty(cls, nbytes: int) -> Self:
        """Take memory for as many bytes of texts."""
        numbers = (np.empty(nbytes, np.uint32) for _ in range(2))
        return cls(np.zeros(nbytes + WIDTH, np.uint8), np.empty(nbytes, np.uint64), *numbers)

    def hashed(self, content: Bytes, count: int) -> UInt32Array:
        """Hash the shingles that begin at the first ``count`` bytes; the result is overwritten.

        The upper half of a product depends on all bytes of the shingle; the second product mixes
        its bits, as the bin is made of the lowest ones.
        """
        used = min(len(content), count + WIDTH)
        self.content[:used] = content[:used]
        products, hashes, work = self.products[:count], self.hashes[:count], self.work[:count]
        np.multiply(_windows(self.content, 0, count), ONE, out=products)
        np.copyto(hashes, products.view("<u4")[1::2])
        np.right_shift(hashes, np.uint32(15), out=work)
        np.bitwise_xor(hashes, work, out=hashes)
        return np.multiply(hashes, THREE, out=hashes)


def _windows(content: Bytes, start: int, count: int) -> UInt64Array:
    """View the shingles that begin at `count` bytes, as integers that overlap."""
    return np.ndarray((count,), "<u8", content, offset=start, strides=(1,))


def _short(content: Bytes, length: int) -> int:
    """Return the shingle of a text of fewer than 8 bytes: no UTF-8 has its last byte."""
    return int.from_bytes(content[:length].tobytes(), "little") | (0xF8 + length) << 56


def _hashed(shingles: UInt64Array) -> UInt64Array:
    hashes = shingles * ONE
    hashes ^= hashes >> np.uint64(32)
    hashes *= TWO
    return hashes


def _sign_block(block: _Block, content: Bytes, offsets: Int64Array, least: UInt32Array) -> None:
    """Put the least hashes of short texts, which follow each other, into their bins."""
    lengths = np.diff(offsets)
    hashes = block.hashed(content, int(offsets[-1]))
    beyond = offsets[1:, None] - np.arange(1, WIDTH)
    hashes[beyond[beyond >= 0]] = NOTHING  # of two texts: greater than any, so never kept
    for text in np.flatnonzero((lengths < WIDTH) & (lengths > 0)).tolist():
        at, length = int(offsets[text]), int(lengths[text])
        hashes[at : at + length] = NOTHING
        shingle = np.array([_short(content[at:], length)], "<u8").view(np.uint8)
        hashes[at] = _Block.empty(WIDTH).hashed(shingle, 1)[0]
    places = np.repeat(np.arange(len(lengths)) * BINS, lengths)
    places += np.bitwise_and(hashes, BIN, out=block.work[: len(hashes)])
    np.minimum.at(least.reshape(-1), places, hashes)


def _sign_long(block: _Block, content: Bytes, least: UInt32Array) -> None:
    """Put the least hashes of a long text into its bins.

    Only small hashes are put there: greater ones are not the least of any bin that has a small one.
    A text that repeats itself may have a bin without, and then all are used.
    """
    count = len(content) - WIDTH + 1
    for limit in (int(2**32 * min(0.5, KEPT_OF_LONG / count)), None):
        for at in range(0, count, BLOCK_NBYTES):
            hashes = block.hashed(content[at:], min(BLOCK_NBYTES, count - at))
            if limit is not None:
                hashes = hashes[hashes <= np.uint32(limit)]
            np.minimum.at(least, (hashes & BIN).astype(np.int64), hashes)
        if (least != NOTHING).all():
            return


def _densify(flat: Signatures, is_empty: npt.NDArray[np.bool_]) -> None:
    """Give each empty bin the hash of another one: the first that has one, in the bin's own order.

    The order is the same for all texts. A text without shingles keeps its empty bins.
    """
    has_none = is_empty.reshape(-1, BINS).all(axis=1)
    empty = np.flatnonzero(is_empty & ~np.repeat(has_none, BINS))
    for steps in _ORDERS:
        if not len(empty):
            return
        source = empty + steps.take(empty & (BINS - 1))
        is_found = ~is_empty.take(source)
        flat[empty[is_found]] = flat.take(source[is_found])
        empty = empty[~is_found]


def _orders() -> list[Int64Array]:
    """Return how far from each bin it takes a hash: at random, then from each of them."""
    random = np.random.Generator(np.random.PCG64(8))
    bins = np.arange(BINS)
    others = [random.integers(0, BINS, BINS) for _ in range(BINS)]
    others += [(bins + shift) % BINS for shift in range(1, BINS)]
    return [other - bins for other in others]


_ORDERS = _orders()


def _keys(band: Signatures) -> UInt64Array:
    """Return one key for the bins of a band of each text."""
    keys = np.zeros(len(band), np.uint64)
    for column in band.T:
        keys = _hashed(keys ^ column)
    return keys


def _apart(keys: UInt64Array, first: Int64Array) -> Int64Array:
    """Return the indexes of keys that items of different clusters have in common."""
    if len(keys) <= 1:
        return np.zeros(0, np.int64)
    again = _not_alone(keys)
    order = again[np.lexsort((first[again], keys[again]))]
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    if not len(starts):
        return order
    lows, highs = (
        least_or_most.reduceat(first[order], starts) for least_or_most in (np.minimum, np.maximum)
    )
    return order[np.repeat(lows != highs, np.diff(starts, append=len(order)))]


def _not_alone(keys: UInt64Array) -> Int64Array:
    """Return the indexes of keys that occur more than once: few, so the rest is sorted once."""
    order = np.argsort(keys)
    is_same = np.diff(keys[order]) == 0
    return order[np.append(is_same, [False]) | np.append([False], is_same)]


def _likely(
    pairs: Int64Array, found: _Joined, signatures: Signatures, similarity: float, check: Check
) -> Iterator[Int64Array]:
    """Yield pairs of different clusters that are similar by their signatures, in parts."""
    for start in range(0, len(pairs), COMPARED):
        check(start, len(pairs))
        part = pairs[start : start + COMPARED]
        first = found.first()
        part = part[first[part[:, 0]] != first[part[:, 1]]]
        agree = (signatures[part[:, 0]] == signatures[part[:, 1]]).mean(axis=1)
        yield part[agree >= similarity - SLACK]


def _pieces(pairs: Int64Array, lengths: Int64Array) -> Iterator[Int64Array]:
    """Cut pairs into parts whose texts have a bounded number of bytes."""
    done = np.cumsum(lengths[pairs].sum(axis=1)) // SPAN_NBYTES
    return iter(np.split(pairs, np.flatnonzero(np.diff(done)) + 1) if len(pairs) else [])


def _verify(texts: RowSet, name: str, pairs: Int64Array, similarity: float, found: _Joined) -> None:
    """Join the pairs whose similarity, computed from their texts, reaches the threshold."""
    pairs = np.array([pair for pair in pairs.tolist() if not found.is_joined(*pair)], np.int64)
    if not len(pairs):
        return
    members = distinct(pairs.reshape(-1))
    column = texts.read(name, members, decode=False)
    assert isinstance(column, EncodedColumn), "texts are stored as bytes"
    samples = dict(zip(members.tolist(), column.samples, strict=True))
    sets: dict[int, UInt64Array] = {}
    for one, other in pairs.tolist():
        if found.is_joined(one, other):
            continue
        for member in (one, other):
            if member not in sets:
                sets[member] = shingles_of(samples[member])
        common = len(np.intersect1d(sets[one], sets[other], assume_unique=True))
        if common >= similarity * (len(sets[one]) + len(sets[other]) - common):
            found.join(one, other)


class _Joined:
    """Items that have been joined, pair by pair, into clusters."""

    def __init__(self, count: int) -> None:
        self._first = np.arange(count)
        self._joined = 0
        self._above: dict[int, int] = {}
        self._pairs: list[tuple[int, int]] = []

    def pairs(self) -> Int64Array:
        """Return the pairs that were joined, int64 (n, 2)."""
        return np.array(self._pairs, np.int64).reshape(-1, 2)

    def first(self) -> Int64Array:
        """Return for each item the first one of its cluster."""
        if self._joined < len(self._pairs):
            self._first = clusters_of(len(self._first), [self.pairs()])
            self._joined = len(self._pairs)
        return self._first

    def is_joined(self, one: int, other: int) -> bool:
        """Whether two items are in one cluster."""
        return self._root(one) == self._root(other)

    def join(self, one: int, other: int) -> None:
        """Join the clusters of two items."""
        self._pairs.append((one, other))
        self._above[self._root(other)] = self._root(one)

    def _root(self, item: int) -> int:
        above = self._above
        while item in above:
            if above[item] in above:
                above[item] = above[above[item]]
            item = above[item]
        return item
