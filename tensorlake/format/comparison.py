"""A comparison that a writer made of a state and a tensor's index, so that readers need not.

    {"state": "5e0c…", "now": "91bd…", "apart": [17, 1, 40, 2]}      rows 17, 58 and 59 differ

It is found by its digests: if one tree is another, by whichever writer, the comparison is of no use
and the trees are compared themselves. So a writer that knows nothing of it can repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.canonical_json import canonical_bytes
from tensorlake.quantities import is_whole_number

if TYPE_CHECKING:
    from tensorlake.format.index.extents import Extents
    from tensorlake.format.trees.nodes import Root

__all__ = ["Comparison", "is_one_tree"]

RowRanges = npt.NDArray[np.int64]

MOST_RANGES = 256
"""Ranges of rows that are listed: about 2 KiB among 10⁹ rows, in each entry."""

DIGEST_NBYTES = 10


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Which rows of a state have another place in a tensor's index.

    Attributes:
        state: Digest of the state's root.
        now: Digest of the index's root.
        apart: Physical rows of both that differ, int64 (n, 2): sorted, disjoint ranges.
    """

    state: str
    now: str
    apart: RowRanges

    @classmethod
    def of(cls, state: Root[Extents], now: Root[Extents], apart: RowRanges) -> Self | None:
        """Note the rows that differ; None where the list would be long."""
        if len(apart) > MOST_RANGES:
            return None
        return cls(_digest(state), _digest(now), apart)

    def is_of(self, state: Root[Extents], now: Root[Extents]) -> bool:
        """Whether these two trees were compared."""
        return self.state == _digest(state) and self.now == _digest(now)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: gaps before ranges, and their lengths, in turn."""
        steps = np.diff(self.apart.reshape(-1), prepend=0)
        return {"state": self.state, "now": self.now, "apart": steps.tolist()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read the JSON form.

        Raises:
            TypeError, KeyError, ValueError: It is something else.
        """
        state, now, steps = value["state"], value["now"], value["apart"]
        is_list = isinstance(steps, list) and all(map(is_whole_number, steps))
        if not (isinstance(state, str) and isinstance(now, str) and is_list):
            raise TypeError(f"comparison {value!r:.80}")
        if min(steps, default=0) < 0 or sum(steps) >= 1 << 62:
            raise ValueError(f"rows {steps!r:.80} of a comparison")
        return cls(state, now, np.cumsum(np.array(steps, np.int64)).reshape(-1, 2))


def is_one_tree(one: Root[Extents], other: Root[Extents]) -> bool:
    """Whether two roots are of one tree: they are written alike."""
    return one is other or (one.rows == other.rows and _digest(one) == _digest(other))


def _digest(root: Root[Extents]) -> str:
    return blake2b(canonical_bytes(root.to_json()), digest_size=DIGEST_NBYTES).hexdigest()
