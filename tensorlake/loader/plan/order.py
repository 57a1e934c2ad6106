"""The order of an epoch as a value: its kind and parameters, chosen once, recorded in every state.

    none     as selected
    full     one permutation of all rows
    window   permuted blocks of positions, and rows permuted inside a window of blocks

A block is the unit of reading: its rows are adjacent, read together, and held until the window has
given the last of them. Blocks of at most 320 KiB mix a dataset stored by class nearly as well as a
full shuffle does, for two or three times fewer requests than rows
(docs/decisions/0091-windows-hold-half-of-prefetch.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.shuffle import MAX_SIZE, PLAN_VERSION

__all__ = ["SMALL_NBYTES", "UNIT_NBYTES", "Order", "Shuffle", "choose_order"]

# Chunk indexes record units, which can be read and verified individually, from this mean size on.
UNIT_NBYTES = 4 << 10
FULL_NBYTES = 2 << 30  # a selection up to this size fits the memory of a training machine
BLOCK_NBYTES = (
    320 << 10
)  # of rows with units: 216 of 256 classes in a batch, where 226 are possible
WINDOW_NBYTES = 256 << 20
CHUNKS_IN_BLOCK = 2  # of rows without units, which are read by chunk
NUMERIC_CHUNK_NBYTES = 1 << 20
# Columns of smaller rows that have no more bytes than this are read once and stay in memory.
SMALL_NBYTES = 64 << 20
DEFAULT_PREFETCH_NBYTES = 256 << 20
SURELY_HELD_ROWS = 20  # of a block: at half of its window all but a millionth of them are held

Shuffle = bool | Literal["full", "window"]


@dataclass(frozen=True, slots=True)
class Order:
    """The order of an epoch; ``block`` (rows) and ``window`` (blocks) are 0 unless windowed.

    ``version`` is that of the plan by whose arithmetic the order is computed: a state of an older
    release continues by its own.
    """

    kind: Literal["none", "full", "window"]
    block: int = 0
    window: int = 0
    version: int = PLAN_VERSION

    @property
    def is_shuffled(self) -> bool:
        """Whether rows are not in the selection's order."""
        return self.kind != "none"

    @property
    def reads_blocks(self) -> bool:
        """Whether rows are to be read block by block."""
        return self.kind == "window" and self.version > 1

    def describe(self) -> str:
        """Describe the order of rows in a few words."""
        match self.kind:
            case "none":
                return "as selected"
            case "full":
                return "full shuffle"
            case "window":
                return f"shuffled in windows of {self.window} blocks of {self.block} rows"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        if self.kind != "window":
            return {"kind": self.kind}
        return {"kind": self.kind, "block": self.block, "window": self.window}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], version: int = PLAN_VERSION) -> Order:
        """Parse the result of ``to_json``, of a state of a plan version."""
        kind = value.get("kind")
        if kind == "none" or kind == "full":  # noqa: PLR1714 - the type checker narrows by ==
            return cls(kind, version=version)
        block, window = value.get("block"), value.get("window")
        if (
            kind == "window"
            and isinstance(block, int)
            and isinstance(window, int)
            and 0 < min(block, window) <= max(block, window) <= MAX_SIZE
        ):
            return cls("window", block, window, version)
        raise InvalidInputError(
            f"{shown(dict(value))} is not an order; the kinds are 'none', 'full' and 'window'"
            "\nthe state was damaged, or written by a newer tensorlake",
            actual=dict(value),
        )


def choose_order(
    shuffle: Shuffle,
    *,
    num_rows: int,
    row_nbytes: int,
    chunk_nbytes: int = 0,
    prefetch_nbytes: int = DEFAULT_PREFETCH_NBYTES,
) -> Order:
    """Turn ``shuffle`` into an order, from the rows' number and sizes and ``prefetch`` alone.

    ``True`` is "full" for selections that fit in memory, or whose rows are large enough to read
    individually, and "window" otherwise. Machine, store and cache do not matter: every rank must
    choose alike. A window holds at most half of ``prefetch``.

    Args:
        shuffle: As given by the user.
        num_rows: Rows of the selection.
        row_nbytes: Mean stored bytes of a row in the columns read.
        chunk_nbytes: Largest target size of a chunk among the columns of rows below 4 KiB; 0 if all
            columns can be read by row, or are small enough to stay in memory.
        prefetch_nbytes: The loader's ``prefetch``.
    """
    if shuffle is False:
        return Order("none")
    row_nbytes = max(row_nbytes, 1)
    if not chunk_nbytes and row_nbytes < UNIT_NBYTES:
        chunk_nbytes = NUMERIC_CHUNK_NBYTES
    block_nbytes = CHUNKS_IN_BLOCK * chunk_nbytes or BLOCK_NBYTES
    block = max(1, block_nbytes // row_nbytes)
    if shuffle is True:
        is_small = num_rows * row_nbytes <= FULL_NBYTES
        shuffle = "full" if is_small or block == 1 else "window"
    if shuffle == "full":
        return Order("full")
    if shuffle != "window":
        raise InvalidInputError(
            f"shuffle is True, False, 'full' or 'window', got {shown(shuffle)}", actual=shuffle
        )
    held = prefetch_nbytes // 2
    if chunk_nbytes:  # its chunks, of which the first and last are shared with other blocks
        blocks = held // (block * row_nbytes + chunk_nbytes)
    else:
        blocks = _held_blocks(block, held // row_nbytes)
    return Order("window", block, max(1, min(blocks, WINDOW_NBYTES // (block * row_nbytes))))


def _held_blocks(block: int, held_rows: int) -> int:
    """Return the blocks of a window of which at most ``held_rows`` rows are in memory at once.

    A block is held from the first of its rows that is given to the last. In the middle of a window,
    where most are, these are all but 2^(1 - block) of its blocks.
    """
    if block == 1:
        return MAX_SIZE  # given as soon as it is read
    if block > SURELY_HELD_ROWS:
        return held_rows // block
    parts = 1 << (block - 1)
    return held_rows * parts // (block * (parts - 1))
