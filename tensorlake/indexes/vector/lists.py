"""The parts of a vector index, and its lists in memory.

    part        rows       a row
    mean        1          float32 (dim,)      of all vectors: the origin of the space
    centroids   lists      float32 (dim,)
    starts      lists + 1  int64               place of the first code of each list; all codes
    rows        lists      int64 (size,)       physical rows
    words       lists      uint64 (words · size,)   bits of the codes, word by word (`codes`)
    factors     lists      float16 (3 · size,)      f of all, g of all, steps of all
    numbers     codes      int8 (dim,)         in the order of the lists; without int8: no rows

A query reads the rows of a few lists in one round trip, and ``numbers`` of its candidates, which
are few and close together, in another. Lists that were read are kept within a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.space import WORD_BITS, Metric, Space, width_of
from tensorlake.storage import LruCache
from tensorlake.types import RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader

__all__ = ["ListCodes", "Lists"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

KEPT_NBYTES = 256 << 20  # of lists in memory, for each index: 6 million codes of 128 bits
ALL_AT_ONCE = 4096  # lists whose codes one read asks for: some hundred MiB at most


@dataclass(frozen=True, slots=True, eq=False)
class ListCodes:
    """The codes of one list.

    Attributes:
        number: The list.
        rows: Physical rows, int64 (size,).
        words: uint64 (words a code, size).
        factors: float32 (3, size).
    """

    number: int
    rows: Int64Array
    words: npt.NDArray[np.uint64]
    factors: Floats

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.words.nbytes + self.factors.nbytes


class Lists:
    """The lists of an index: centroids in memory, codes as they are needed. Thread-safe."""

    def __init__(self, parts: PartsReader) -> None:
        parameters = parts.parameters
        self.parts = parts
        parts.load(("mean", "centroids", "starts"))
        self.seed = int(parameters["seed"])
        mean = cast("UniformColumn", parts.whole("mean")).values[0]
        metric: Metric = parameters["metric"]
        self.space = Space(metric, mean, float(parameters["scale"]))
        self.centroids: Floats = cast("UniformColumn", parts.whole("centroids")).values
        squares = np.einsum("ni,ni->n", self.centroids, self.centroids) / 2
        self._halves: Floats = squares if metric != "dot" else np.zeros_like(squares)
        self.starts: Int64Array = cast("UniformColumn", parts.whole("starts")).values
        self.has_numbers = bool(parameters["int8"])
        self._kept = LruCache[int, ListCodes](KEPT_NBYTES)

    @classmethod
    def of(cls, parts: PartsReader) -> Lists:
        """Return the lists of an index, kept with its reader."""
        return parts.keep("lists", lambda: cls(parts))

    @property
    def size(self) -> int:
        """Number of codes."""
        return int(self.starts[-1])

    def nearness(self, direction: Floats) -> Floats:
        """Score the centroids for a query, as the codes of their lists are."""
        return np.vecdot(self.centroids, direction) - self._halves

    def codes(self, numbers: Sequence[int]) -> list[ListCodes]:
        """Return the codes of some lists; those not in memory are read in one round trip."""
        found = {number: self._kept.get(number) for number in numbers}
        missing = np.array([number for number, codes in found.items() if codes is None], np.int64)
        for start in range(0, len(missing), ALL_AT_ONCE):
            for codes in self._read(np.sort(missing[start : start + ALL_AT_ONCE])):
                self._kept.put(codes.number, codes, codes.nbytes)
                found[codes.number] = codes
        return cast("list[ListCodes]", list(found.values()))

    def _read(self, numbers: Int64Array) -> list[ListCodes]:
        read = self.parts.read(dict.fromkeys(("rows", "words", "factors"), numbers))
        columns = {name: cast("RaggedColumn", column) for name, column in read.items()}
        width = width_of(self.centroids.shape[1]) // WORD_BITS
        made: list[ListCodes] = []
        for at, number in enumerate(numbers.tolist()):
            rows, words, factors = (columns[name].sample(at) for name in read)
            count = len(rows)
            made.append(
                ListCodes(
                    number,
                    rows.astype(np.int64, copy=False),
                    np.ascontiguousarray(words).reshape(width, count),
                    factors.astype(np.float32).reshape(3, count),
                )
            )
        return made
