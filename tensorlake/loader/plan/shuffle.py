"""A seeded permutation of 0 … n - 1 by arithmetic: any part can be computed, nothing is stored.

An alternating Feistel network permutes all numbers of ``bits`` bits, ``bits`` chosen so that they
just hold n; a result of n or more is fed back until it is below n (cycle walking), which makes it
a permutation of 0 … n - 1 and takes less than two turns on average. Small sets of values,
which walk long, are computed in one turn.

    value   │ left: bits // 2 │ right: bits - bits // 2 │
    round i   even: left  ^= F(right, key i)     odd: right ^= F(left, key i)

    F(v, key), to w bits:  z = (v + key + tweak) · C1;  z ^= z >> 32;  z = z · C2;  z >> (64 - w)
                           all modulo 2⁶⁴

A *tweak* selects one of many permutations of the same size and keys, value by value: the windows of
an epoch are one network, and a look-up in any number of them is one array operation. The rounds run
backwards give the inverse.

Everything here is specified byte for byte in docs/reference/plan.md and has golden orders in the
tests: it changes only together with the plan's version.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import shown
from tensorlake.versions import distinct

__all__ = [
    "MAX_SIZE",
    "PLAN_VERSION",
    "PLAN_VERSIONS",
    "ROUNDS",
    "Permutation",
    "Purpose",
    "derive_words",
    "hashed",
    "permutation_of",
    "permuted_together",
]

UInt64Array: TypeAlias = NDArray[np.uint64]

ROUNDS = 6
MIN_BITS = 8  # below it the halves are too narrow to mix; walking from 256 values is still cheap
MAX_SIZE = 1 << 62
MULTIPLIER_1 = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio, odd
MULTIPLIER_2 = np.uint64(0xD1B54A32D192ED03)  # an odd multiplier of good avalanche (R2 sequence)
FOLD_BITS = np.uint64(32)
PLAN_VERSION = 2  # of new orders
PLAN_VERSIONS = (1, 2)  # orders that states may have recorded: all are continued
TABLE_SIZE = 1 << (
    MIN_BITS - 1
)  # up to this size, walking takes two or more turns: 256 for one value
BLOCK = 1 << 14  # elements per step, so that the scratch memory stays in the L2 cache

Purpose = Literal[
    "order",
    "blocks",
    "window",
    "rotation",
    "source",
    "places",
    "offset",
    "class",
    "added",
    "splice",
    "home",
]


@dataclass(frozen=True, slots=True)
class Permutation:
    """One permutation of 0 … size - 1, given by its six round keys."""

    size: int
    keys: tuple[int, ...]

    def apply(
        self, values: NDArray[np.int64], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Map each value in 0 … size - 1 to its image, in the permutation of its number if given.

        Args:
            values: Values in 0 … size - 1.
            numbers: For each value, which of the permutations of these keys; None: without tweak.
        """
        table = self._table(numbers)
        if table is not None:
            return table[values]
        return self._walk(values, numbers, backwards=False)

    def inverse(
        self, images: NDArray[np.int64], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Map each image to its value: the rounds, and the walks, backwards."""
        table = self._table(numbers)
        if table is not None:
            return np.argsort(table)[images]
        return self._walk(images, numbers, backwards=True)

    def _walk(
        self, values: NDArray[np.int64], numbers: NDArray[np.int64] | None, *, backwards: bool
    ) -> NDArray[np.int64]:
        size = np.uint64(self.size)
        tweaks = None if numbers is None else _tweaks_of(numbers)
        result = self._network(values.view(np.uint64), tweaks, backwards=backwards)
        outside = np.flatnonzero(result >= size)
        walking = result[outside]
        while len(outside):  # together: a turn costs the same for one value as for hundreds
            own = None if tweaks is None else tweaks[outside]
            walking = self._network(walking, own, backwards=backwards)
            stays = walking >= size
            arrived = ~stays
            result[outside[arrived]] = walking[arrived]
            outside, walking = outside[stays], walking[stays]
        return result.view(np.int64)

    def _table(self, numbers: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Walk for every value at once, by one turn of the network; None if this costs more.

        No two values pass through the same one, so all walks together have at most 256 steps, while
        arrays take a turn of the network for each step of the longest. Each of
        several permutations would need a table.
        """
        if self.size > TABLE_SIZE:
            return None
        if self.size == 1:  # of a mix with such a source, an epoch for each of its rows
            return np.zeros(1, dtype=np.int64)
        tweaks = None
        if numbers is not None:
            if not len(numbers) or (numbers != numbers[0]).any():
                return None
            tweaks = _tweaks_of(numbers[:1])
        following = self._network(np.arange(1 << MIN_BITS, dtype=np.uint64), tweaks).tolist()
        images = following[: self.size]
        for value, image in enumerate(images):
            while image >= self.size:
                image = following[image]  # noqa: PLW2901 -- the walk
            images[value] = image
        return np.array(images, dtype=np.int64)

    def _network(
        self, values: UInt64Array, tweaks: UInt64Array | None = None, *, backwards: bool = False
    ) -> UInt64Array:
        bits = max(MIN_BITS, (self.size - 1).bit_length())
        rounds = [*enumerate(self.keys)]
        if backwards:
            rounds.reverse()
        result = np.empty_like(values)
        for start in range(0, len(values), BLOCK):
            part = slice(start, start + BLOCK)
            own = None if tweaks is None else tweaks[part]
            result[part] = _feistel(values[part], bits, rounds, own)
        return result


def permutation_of(
    size: int,
    *,
    seed: int,
    epoch: int,
    purpose: Purpose,
    stream: int = 0,
    version: int = PLAN_VERSION,
) -> Permutation:
    """Derive the permutation of ``size`` values that these name; see ``derive_words``."""
    if not 0 <= size <= MAX_SIZE:
        msg = f"a permutation has 0 to 2⁶² values, got {shown(size)}"
        raise ValueError(msg)
    keys = derive_words(
        ROUNDS, seed=seed, epoch=epoch, purpose=purpose, stream=stream, version=version
    )
    return Permutation(size, keys)


def permuted_together(
    values: NDArray[np.int64],
    sizes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    keys: tuple[int, ...],
) -> NDArray[np.int64]:
    """Permute each value among as many as its size, in the permutation of its number.

    Together, because one permutation for each of a thousand classes would cost a thousand times as
    many array operations.
    """
    images = np.empty_like(values)
    limits = [1 << bits for bits in range(MIN_BITS, 63)]
    which = np.searchsorted(limits, sizes)  # the width of each network
    for width in distinct(which).tolist():
        own = np.flatnonzero(which == width)
        whole = Permutation(limits[width], keys)
        tweaked = whole.apply(values[own], numbers[own])
        outside = np.flatnonzero(tweaked >= sizes[own])
        while len(outside):
            walked = whole.apply(tweaked[outside], numbers[own[outside]])
            tweaked[outside] = walked
            outside = outside[walked >= sizes[own[outside]]]
        images[own] = tweaked
    return images


def derive_words(
    count: int,
    *,
    seed: int,
    epoch: int,
    purpose: Purpose,
    stream: int = 0,
    version: int = PLAN_VERSION,
) -> tuple[int, ...]:
    """Derive up to eight 64-bit words: blake2b of the purpose and three little-endian u64.

    The personalisation names the plan's version, so orders of two versions have no key in common.
    """
    digest = hashlib.blake2b(
        purpose.encode() + b"\0" + struct.pack("<QQQ", seed, epoch, stream),
        digest_size=8 * count,
        person=f"tl-plan-{version}".encode(),
    )
    return struct.unpack(f"<{count}Q", digest.digest())


def hashed(values: NDArray[np.int64], keys: tuple[int, ...]) -> UInt64Array:
    """Return a word for each value, to sort by: one round of mixing for each key."""
    words = values.astype(np.uint64)
    for key in keys:
        words = (words + np.uint64(key)) * MULTIPLIER_1
        words ^= words >> FOLD_BITS
        words *= MULTIPLIER_2
        words ^= words >> FOLD_BITS
    return words


def _tweaks_of(numbers: NDArray[np.int64]) -> UInt64Array:
    """Spread the numbers of permutations over all words: those of neighbours are far apart."""
    words = (numbers.view(np.uint64) + np.uint64(1)) * MULTIPLIER_1
    words ^= words >> FOLD_BITS
    words *= MULTIPLIER_2
    return words


def _feistel(
    values: UInt64Array,
    bits: int,
    rounds: Sequence[tuple[int, int]],
    tweaks: UInt64Array | None,
) -> UInt64Array:
    left_bits = bits // 2
    right_bits = bits - left_bits
    left = values >> np.uint64(right_bits)
    right = values & np.uint64((1 << right_bits) - 1)
    scratch, folded = np.empty_like(values), np.empty_like(values)
    for number, key in rounds:
        even = number % 2 == 0
        source, target, width = (right, left, left_bits) if even else (left, right, right_bits)
        np.add(source, np.uint64(key), out=scratch)
        if tweaks is not None:
            np.add(scratch, tweaks, out=scratch)
        np.multiply(scratch, MULTIPLIER_1, out=scratch)
        np.right_shift(scratch, FOLD_BITS, out=folded)
        np.bitwise_xor(scratch, folded, out=scratch)
        np.multiply(scratch, MULTIPLIER_2, out=scratch)
        np.right_shift(scratch, np.uint64(64 - width), out=scratch)
        np.bitwise_xor(target, scratch, out=target)
    np.left_shift(left, np.uint64(right_bits), out=left)
    np.bitwise_or(left, right, out=left)
    return left
