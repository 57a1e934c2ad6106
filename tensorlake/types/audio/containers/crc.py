"""CRC-16 of FLAC (polynomial 0x8005, from 0), of megabytes by NumPy.

bytes       0 0 │ a b c d … │ … │ … y z      zeros before them change nothing
lanes           └─────┴─────┴───┘            of 2ᵏ equal stretches, all side by side, word by word
the CRC of two stretches is that of the first × xⁿ, n the bits of the second, plus the second's
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["crc16"]

_POLYNOMIAL: Final = 0x8005
_BITS: Final = 16
_WORD_NBYTES: Final = 2
_LANES_MAX, _LANE_WORDS = 1 << 13, 64


def crc16(data: Buffer) -> int:
    """Return the CRC-16 of bytes; 0 of a frame with its checksum.

    >>> hex(crc16(b"123456789"))
    '0xfee8'
    """
    content = np.frombuffer(data, np.uint8)
    words = -(-len(content) // _WORD_NBYTES)
    lanes = min(_LANES_MAX, 1 << max(0, (words // _LANE_WORDS).bit_length() - 1))
    length = -(-words // lanes)
    padded = np.zeros(lanes * length * _WORD_NBYTES, np.uint8)
    padded[len(padded) - len(content) :] = content
    table = _table_of_swapped()
    crc, terms = np.zeros(lanes, np.uint16), np.empty(lanes, np.uint16)
    for column in padded.view("<u2").reshape(lanes, length).T:  # a copy of columns costs more
        np.bitwise_xor(crc, column, out=terms)
        np.take(table, terms, out=crc, mode="wrap")
    crc = crc.byteswap()
    shift = _power(length * _BITS)
    while len(crc) > 1:
        crc = _times(crc[::2], shift) ^ crc[1::2]
        shift = int(_times(np.array([shift], np.uint16), shift)[0])
    return int(crc[0])


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """Return each polynomial of 16 bits times x¹⁶."""
    crc = np.arange(1 << _BITS, dtype=np.uint16)
    for _ in range(_BITS):
        crc = _doubled(crc)
    return crc


@lru_cache(maxsize=1)
def _table_of_swapped() -> np.ndarray:
    """Return the table for words whose bytes are swapped, as little-endian machines read them."""
    swapped = np.arange(1 << _BITS, dtype=np.uint16).byteswap()
    return _table()[swapped].byteswap()


def _doubled(values: np.ndarray) -> np.ndarray:
    """Multiply polynomials by x."""
    carries = (values >> np.uint16(_BITS - 1)) * np.uint16(_POLYNOMIAL)
    return (values << np.uint16(1)) ^ carries


def _times(values: np.ndarray, factor: int) -> np.ndarray:
    """Multiply polynomials by another."""
    product = np.zeros_like(values)
    for bit in reversed(range(_BITS)):
        product = _doubled(product)
        if factor >> bit & 1:
            product = product ^ values
    return product


def _power(exponent: int) -> int:
    """Return x to a power."""
    result, base = np.array([1], np.uint16), 2
    while exponent:
        if exponent & 1:
            result = _times(result, base)
        base = int(_times(np.array([base], np.uint16), base)[0])
        exponent >>= 1
    return int(result[0])
