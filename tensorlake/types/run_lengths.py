"""Run lengths of masks, as COCO writes them: columns first, from a run of zeros.

    {"size": [height, width], "counts": [5, 2, 7, …]}        lengths, of 0 and 1 in turn
    {"size": [height, width], "counts": "52P5…"}             the same, packed into text

In the text, a number is a row of characters from "0" on, five bits each, least first; bit 5 says
that more follow, the last one's bit 4 is the sign. From the fourth number on what is written is
the difference to the number two before. (The form of the COCO API's ``rleToString``.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "MAX_PIXELS",
    "RunTable",
    "decode_run_lengths",
    "encode_run_lengths",
    "parse_run_lengths",
    "runs_of",
]

_FIRST = 48  # "0"
_MORE, _SIGN, _BITS, _VALUE = 0x20, 0x10, 5, 0x1F
_PLAIN_NUMBERS = 3
MAX_PIXELS = 1 << 30
"""A size that promises more is refused before anything is allocated."""


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """The runs of many masks.

    Attributes:
        sizes: Height and width of each, (masks, 2).
        counts: How many runs each has; none where it has no pixel.
        runs: Their lengths, one mask after another.
    """

    sizes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
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
        ValueError: The runs do not fill the size, or the text is none.
    """
    (height, width), lengths = parse_run_lengths(runs)
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape(width, height).T.copy()


def encode_run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """Return a mask's runs, packed into text.

    >>> encode_run_lengths(np.array([[False, True], [True, False]]))
    {'size': [2, 2], 'counts': '121'}
    """
    height, width = mask.shape
    return {"size": [height, width], "counts": _pack(runs_of(mask).tolist())}


def parse_run_lengths(runs: Mapping[str, Any]) -> tuple[tuple[int, int], np.ndarray]:
    """Return size and lengths, checked.

    Raises:
        ValueError: The runs do not fill the size, or the text is none.
    """
    height, width = (int(length) for length in runs["size"])
    if height < 0 or width < 0 or height * width > MAX_PIXELS:
        raise ValueError(f"size {runs['size']}")
    counts = runs["counts"]
    if isinstance(counts, (str, bytes)):
        counts = _unpack(counts.encode() if isinstance(counts, str) else counts)
    lengths = np.asarray(counts, dtype=np.int64)
    if lengths.ndim != 1 or bool((lengths < 0).any()) or int(lengths.sum()) != height * width:
        raise ValueError(f"runs of {int(lengths.sum())} pixels for {height} × {width}")
    return (height, width), lengths


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


def _unpack(text: bytes) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for character in text:
        bits = character - _FIRST
        if not 0 <= bits < 2 * _MORE or shift > 12 * _BITS:
            raise ValueError(f"the text {text[:20]!r} is not packed run lengths")
        value |= (bits & _VALUE) << shift
        shift += _BITS
        if bits & _MORE:
            continue
        if bits & _SIGN:
            value -= 1 << shift
        if len(numbers) >= _PLAIN_NUMBERS:
            value += numbers[-2]
        numbers.append(value)
        value = shift = 0
    if shift:
        raise ValueError(f"the text {text[-20:]!r} ends within a number")
    return numbers


def _pack(numbers: Sequence[int]) -> str:
    packed = bytearray()
    for position, number in enumerate(numbers):
        rest = number - numbers[position - 2] if position >= _PLAIN_NUMBERS else number
        while True:
            bits, rest = rest & _VALUE, rest >> _BITS
            is_last = rest == (-1 if bits & _SIGN else 0)
            packed.append(_FIRST + (bits if is_last else bits | _MORE))
            if is_last:
                break
    return packed.decode()
