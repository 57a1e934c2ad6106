"""A hash table in NumPy: numbers the distinct values of a column a block of rows at a time.

    level 0   place of the hash → number      deeper levels, a quarter as large each: of the values
    level 1   place of another hash → number   whose place above has another's number
    words     number → the value's words      first   number → the first row that has it

A value is a fixed count of words of eight bytes. A block's rows look up the number at their place
and compare its words with theirs: hashes decide nothing. The tables are as large as the values that
were met, not as the rows, so that those of values that repeat stay in a core's cache.

Number 0 stands for an empty place too, except at its own in level 0, which it has from the start.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake_query.values.source import BoolArray, IntArray

WordArray = npt.NDArray[np.uint64]
Words = Sequence[WordArray]
Integer = TypeVar("Integer", bound=np.integer)

MULTIPLIER = 0x9E3779B97F4A7C15  # 2⁶⁴ ÷ the golden ratio, as in Knuth's hashing
STEP = 0x2545F4914F6CDD1D  # half of what is added for the next level, so that it stays odd
HALF = np.uint64(32)
LEVELS = 16  # an eighth of the values or fewer go on to the next; more than these were made to
LEVEL_BITS = 2  # by which a level is smaller than the one above
BLOCK_ROWS = 1 << 15
FIRST_BITS, LEAST_BITS = 16, 8  # of places
GROWTH = 4  # so that values are seldom placed again
HARDLY_REPEAT = 2  # if more than one of so many rows had a new value, all others may have


class Numbered(NamedTuple):
    """Numbers of values: of each row one below `above`, and the first row of each if known."""

    of_row: IntArray
    above: int
    first: IntArray | None = None


def numbered_words(words_of: Callable[[slice], Words], num_words: int, num_rows: int) -> Numbered:
    """Number the distinct values of rows, in any order.

    Args:
        words_of: returns the words of a block of rows, equal for equal values only.
        num_words: how many a value has.
        num_rows: how many rows there are.
    """
    of_row = np.empty(num_rows, np.int64)
    table = _HashTable(num_words, num_rows)
    for start in range(0, num_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, num_rows)
        table.add(words_of(slice(start, stop)), start, of_row[start:stop])
        table.make_room(stop, num_rows)
    return Numbered(of_row, table.count, table.first[: table.count])


class _HashTable:
    def __init__(self, num_words: int, num_rows: int) -> None:
        self._bits = min(_bits_of(num_rows), FIRST_BITS)
        self._levels: list[IntArray] = []
        self._rest: dict[tuple[int, ...], int] = {}  # of values that collide in all levels
        self._place_of_0 = -1
        self._words = [np.empty(1 << self._bits, np.uint64) for _ in range(num_words)]
        self.first = np.empty(1 << self._bits, np.int64)
        self.count = 0

    def add(self, words: Words, start: int, of_row: IntArray) -> None:
        """Write the number of each row of a block to `of_row`; `start` is its first row."""
        if not self.count:
            self._append([word[:1] for word in words], np.array([start]))
            self._place_of_0 = int(_places([word[:1] for word in words], 0, self._level(0))[0])
        rows = np.arange(len(of_row))
        for depth in range(LEVELS):
            level = self._level(depth)
            places = _places(words, depth, level)
            numbers = level.take(places)
            of_row[rows] = numbers
            others = np.flatnonzero(self._differ(numbers, words))
            if not len(others):
                return
            words, rows = [word.take(others) for word in words], rows.take(others)
            places, numbers = places.take(others), numbers.take(others)
            is_empty = numbers == 0
            if not depth:
                is_empty &= places != self._place_of_0
            fresh = np.flatnonzero(is_empty)
            if not len(fresh):
                continue
            there = places.take(fresh)
            # Of rows of one place the last written stays: the first.
            level[there[::-1]] = fresh[::-1]
            new = fresh[level.take(there) == fresh]
            level[places.take(new)] = self._append(
                [word.take(new) for word in words], start + rows.take(new)
            )
            numbers = level.take(places)
            of_row[rows] = numbers
            others = np.flatnonzero(self._differ(numbers, words))
            if not len(others):
                return
            words, rows = [word.take(others) for word in words], rows.take(others)
        self._add_rest(words, rows, start, of_row)

    def make_room(self, num_seen: int, num_rows: int) -> None:
        """Let at most half of the places be taken, of `num_rows` rows in the end."""
        if self.count <= 1 << (self._bits - 1):
            return
        hardly_repeat = self.count * HARDLY_REPEAT > num_seen
        wanted = num_rows if hardly_repeat else min(self.count * GROWTH, num_rows)
        self._bits = _bits_of(wanted)
        self._levels, self._rest = [], {}
        words, numbers = [word[: self.count] for word in self._words], np.arange(self.count)
        for depth in range(LEVELS):
            level = self._level(depth)
            places = _places(words, depth, level)
            if not depth:
                self._place_of_0 = int(places[0])
            level[places[::-1]] = numbers[::-1]
            others = np.flatnonzero(level.take(places) != numbers)
            words, numbers = [word.take(others) for word in words], numbers.take(others)
            if not len(others):
                return
        self._rest = dict(zip(_keys(words), numbers.tolist(), strict=True))

    def _level(self, depth: int) -> IntArray:
        if depth == len(self._levels):
            bits = max(self._bits - depth * LEVEL_BITS, LEAST_BITS)
            self._levels.append(np.zeros(1 << bits, np.int64))
        return self._levels[depth]

    def _differ(self, numbers: IntArray, words: Words) -> BoolArray:
        differ = self._words[0].take(numbers) != words[0]
        for known, word in zip(self._words[1:], words[1:], strict=True):
            differ |= known.take(numbers) != word
        return differ

    def _append(self, words: Words, first: IntArray) -> IntArray:
        """Number values that are new, and return their numbers."""
        start, stop = self.count, self.count + len(first)
        if stop > len(self.first):
            size = max(stop, 2 * len(self.first))
            self._words = [_longer(word, size) for word in self._words]
            self.first = _longer(self.first, size)
        for known, word in zip(self._words, words, strict=True):
            known[start:stop] = word
        self.first[start:stop] = first
        self.count = stop
        return np.arange(start, stop)

    def _add_rest(self, words: Words, rows: IntArray, start: int, of_row: IntArray) -> None:
        keys = _keys(words)
        for place, key in enumerate(keys):
            if key not in self._rest:
                self._append([word[place : place + 1] for word in words], start + rows[[place]])
                self._rest[key] = self.count - 1
        of_row[rows] = [self._rest[key] for key in keys]


def _bits_of(count: int) -> int:
    """Return the bits of the places of a table, two to four for each value."""
    return max(count - 1, 1).bit_length() + 1


def _places(words: Words, depth: int, level: IntArray) -> IntArray:
    multiplier = np.uint64((MULTIPLIER + 2 * depth * STEP) % (1 << 64))
    hashes = words[0] * multiplier
    for word in words[1:]:
        hashes ^= hashes >> HALF
        hashes ^= word
        hashes *= multiplier
    hashes ^= hashes >> HALF
    hashes *= multiplier
    hashes >>= np.uint64(65 - len(level).bit_length())
    return hashes.view(np.int64)


def _keys(words: Words) -> list[tuple[int, ...]]:
    return list(zip(*(word.tolist() for word in words), strict=True))


def _longer(array: npt.NDArray[Integer], size: int) -> npt.NDArray[Integer]:
    made = np.empty(size, array.dtype)
    made[: len(array)] = array
    return made
