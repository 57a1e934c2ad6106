"""RLE of masks, in COCO's format: columns first, from a run of zeros.

    {"size": [height, width], "counts": [5, 2, 7, …]}        lengths, of 0 and 1 in turn
    {"size": [height, width], "counts": "52P5…"}             the same, packed into a string

In the string, a number is a sequence of characters from "0" on, five bits each, least significant
first; bit 5 means that more follow, the last one's bit 4 is the sign. From the fourth number on,
the difference to the number two before is stored. (The format of the COCO API's ``rleToString``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.types.base.column import offsets_of

__all__ = [
    "MAX_PIXELS",
    "RunTable",
    "decode_run_lengths",
    "encode_run_lengths",
    "pack_runs",
    "parse_run_lengths",
    "run_table",
    "runs_of",
]

Int64Array = npt.NDArray[np.int64]

_FIRST = 48  # "0"
_MORE, _SIGN, _BITS, _VALUE = 0x20, 0x10, 5, 0x1F
_PLAIN_NUMBERS = 3
_MAX_PLACES = 12
"""Most characters of a number: 60 bits."""
MAX_PIXELS = 1 << 30
"""Larger sizes raise an error before anything is allocated."""


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """The runs of many masks.

    Attributes:
        sizes: Height and width of each, (masks, 2).
        counts: The number of runs of each; 0 where it has no pixels.
        runs: Their lengths, one mask after another.
    """

    sizes: Int64Array
    counts: Int64Array
    runs: Int64Array

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Int64Array]:
        """Yield the runs of each mask."""
        stops = np.cumsum(self.counts)
        for start, stop in zip((stops - self.counts).tolist(), stops.tolist(), strict=True):
            yield self.runs[start:stop]


def decode_run_lengths(runs: Mapping[str, Any]) -> np.ndarray:
    """Return the mask, bool (height, width).

    >>> decode_run_lengths({"size": [2, 2], "counts": [1, 2, 1]}).astype(int)
    array([[0, 1],
           [1, 0]])

    Raises:
        ValueError: The runs do not fill the size, or the string is invalid.
    """
    (height, width), lengths = parse_run_lengths(runs)
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape(width, height).T.copy()


def encode_run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """Return a mask's runs, packed into a string.

    >>> encode_run_lengths(np.array([[False, True], [True, False]]))
    {'size': [2, 2], 'counts': '121'}
    """
    height, width = mask.shape
    runs = runs_of(mask)
    characters, _ = pack_runs(runs, np.array([len(runs)]))
    return {"size": [height, width], "counts": characters.tobytes().decode()}


def parse_run_lengths(runs: Mapping[str, Any]) -> tuple[tuple[int, int], np.ndarray]:
    """Return size and lengths, checked.

    Raises:
        ValueError: The runs do not fill the size, or the string is invalid.
    """
    height, width = (int(length) for length in runs["size"])
    if height < 0 or width < 0 or height * width > MAX_PIXELS:
        raise ValueError(f"size {runs['size']}")
    counts = runs["counts"]
    if isinstance(counts, (str, bytes)):
        _, counts = _unpack([_as_bytes(counts)])
    lengths = np.asarray(counts, dtype=np.int64)
    if lengths.ndim != 1 or bool((lengths < 0).any()) or int(lengths.sum()) != height * width:
        raise ValueError(f"runs of {int(lengths.sum())} pixels for {height} × {width}")
    return (height, width), lengths


def run_table(masks: Sequence[Mapping[str, Any]]) -> RunTable:
    """Return the runs of many masks, checked.

    >>> run_table([{"size": [2, 2], "counts": "121"}, {"size": [1, 2], "counts": [2]}]).runs
    array([1, 2, 1, 2])

    Raises:
        ValueError: The runs of one do not fill its size, or its string is invalid.
    """
    if all(isinstance(mask.get("counts"), (str, bytes)) for mask in masks):
        try:
            sizes = np.array([mask["size"] for mask in masks], np.int64).reshape(-1, 2)
            counts, runs = _unpack([_as_bytes(mask["counts"]) for mask in masks])
        except (ValueError, TypeError, KeyError):
            return _parsed_one_by_one(masks)
        ends = offsets_of(counts)
        covered = np.add.reduceat(np.append(runs, 0), ends[:-1]) if len(masks) else runs
        pixels = np.prod(sizes, axis=1)
        is_right = (
            bool(((runs >= 0) & (runs <= MAX_PIXELS)).all())
            and bool(((sizes >= 0) & (sizes <= MAX_PIXELS)).all())
            and bool((pixels <= MAX_PIXELS).all())
            and bool((np.where(counts == 0, 0, covered) == pixels).all())
        )
        if is_right:
            return RunTable(sizes, counts, runs)
    return _parsed_one_by_one(masks)


def _parsed_one_by_one(masks: Sequence[Mapping[str, Any]]) -> RunTable:
    try:
        parsed = [parse_run_lengths(mask) for mask in masks]
    except (TypeError, KeyError) as error:
        raise ValueError("RLE without size and counts") from error
    counts = np.array([len(runs) for _, runs in parsed], np.int64)
    sizes = np.array([size for size, _ in parsed], np.int64).reshape(-1, 2)
    return RunTable(sizes, counts, np.concatenate([np.zeros(0, np.int64), *(r for _, r in parsed)]))


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def runs_of(mask: np.ndarray) -> np.ndarray:
    """Return the lengths of a mask's runs, columns first, from a run of zeros.

    >>> runs_of(np.array([[True, True]])).tolist()
    [0, 2]
    """
    flat = np.ascontiguousarray(mask.T, dtype=np.bool_).reshape(-1)
    if not flat.size:
        return np.zeros(0, np.int64)
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    first = [0, 0] if flat[0] else [0]
    return np.diff(np.concatenate([first, edges, [flat.size]]))


def _unpack(texts: Sequence[bytes]) -> tuple[Int64Array, Int64Array]:
    """Return the count of numbers in each string, and the numbers, one string after another."""
    stops = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    bits = np.frombuffer(b"".join(texts), np.uint8).astype(np.int64) - _FIRST
    is_last = bits & _MORE == 0
    lasts = np.flatnonzero(is_last)
    firsts = np.append(np.zeros(1, np.int64), lasts + 1)[: len(lasts)]
    done = np.append(np.zeros(1, np.int64), np.cumsum(is_last))
    places = np.arange(len(bits)) - np.append(firsts, len(bits))[done[:-1]]
    is_end = np.zeros(len(bits), np.bool_)
    is_end[stops[stops > np.append(0, stops[:-1])] - 1] = True  # of non-empty strings
    wrong = (bits < 0) | (bits >= 2 * _MORE) | (places >= _MAX_PLACES) | (is_end & ~is_last)
    if bool(wrong.any()):
        number = int(np.searchsorted(stops, np.argmax(wrong), side="right"))
        raise ValueError(f"the string {texts[number][:20]!r} is not packed RLE")
    values = (bits & _VALUE) << _BITS * places
    numbers = np.add.reduceat(values, firsts) if len(firsts) else values
    is_below = bits[lasts] & _SIGN != 0
    numbers -= is_below.astype(np.int64) << _BITS * (places[lasts] + 1)
    counts = np.diff(done[np.append(0, stops)])
    return counts, _summed(numbers, counts)


def _summed(numbers: Int64Array, counts: Int64Array) -> Int64Array:
    """Convert differences to the number two before into numbers."""
    starts = np.cumsum(counts) - counts
    within = np.arange(len(numbers)) - np.repeat(starts, counts)
    for parity in (0, 1):
        # From the third or the second number on; the first is not a difference
        chain = np.flatnonzero((within % 2 == parity) & (within > 0))
        sums = np.cumsum(numbers[chain])
        is_first = within[chain] <= _PLAIN_NUMBERS - 1
        before = np.append(0, sums)[np.flatnonzero(is_first)]
        lengths = np.diff(np.flatnonzero(is_first), append=len(chain))
        numbers[chain] = sums - np.repeat(before, lengths)
    return numbers


def pack_runs(runs: Int64Array, counts: Int64Array) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    """Pack the runs of many masks into strings.

    Args:
        runs: Their lengths, one mask after another.
        counts: The number of runs of each mask.

    Returns:
        The characters, one string after another, and the length of each string.
    """
    starts = np.cumsum(counts) - counts
    within = np.arange(len(runs)) - np.repeat(starts, counts)
    rest, compared = runs.copy(), np.flatnonzero(within >= _PLAIN_NUMBERS)
    rest[compared] -= runs[compared - 2]
    characters = np.zeros((len(runs), _MAX_PLACES), np.uint8)
    is_used = np.zeros(characters.shape, np.bool_)
    is_open = np.ones(len(runs), np.bool_)
    for place in range(_MAX_PLACES):
        if not bool(is_open.any()):
            break
        bits = rest & _VALUE
        rest = rest >> _BITS
        is_last = rest == np.where(bits & _SIGN, -1, 0)
        characters[:, place] = _FIRST + np.where(is_last, bits, bits | _MORE)
        is_used[:, place] = is_open
        is_open &= ~is_last
    stops = np.append(0, np.cumsum(is_used.sum(axis=1)))
    return characters[is_used], stops[starts + counts] - stops[starts]
