"""The parts of a vector index, and its lists in memory.

    part        rows       a row
    mean        1          float32 (dim,)      of all vectors: the origin of the space
    centroids   lists      float16 (dim,)
    starts      lists + 1  int64               place of the first code of each list; all codes
    codes       lists      uint64 (…,)         bytes of words, rows and factors; 0 up to whole words
    numbers     codes      int8 (dim,)         in the order of the lists; without int8: no rows

    a row of codes:   words    uint64 (words, size)   bits of the codes, word by word (`codes`)
                      rows     uint32 or int64 (size,)   physical rows; parameter ``rows``
                      factors  float16 (3, size)      f of all, g of all, steps of all

A first query of a distant store takes two round trips here: constants with the places of all parts,
then the codes of a few lists with the numbers of these, which are end to end. Where there are many,
only numbers of candidates are read, in another one. Lists that were read are kept within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import CorruptionError
from tensorlake.indexes.vector.codes import Codes
from tensorlake.indexes.vector.space import WORD_BITS, Metric, Space, width_of
from tensorlake.storage import LruCache
from tensorlake.types import RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from tensorlake.indexes.parts import PartsReader

__all__ = ["ListCodes", "Lists", "packed"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

KEPT_NBYTES = 256 << 20  # of lists in memory, for each index: 6 million codes of 128 bits
ALL_AT_ONCE = 4096  # lists whose codes one read asks for: some hundred MiB at most
NUMBERS_NBYTES = 256 << 10  # of lists, read with their codes from afar: a round trip takes longer


@dataclass(frozen=True, slots=True, eq=False)
class ListCodes:
    """The codes of one list.

    Attributes:
        number: The list.
        rows: Physical rows, int64 (size,).
        words: uint64 (words a code, size).
        factors: float32 (3, size).
        numbers: int8 (size, dim), where they came with the codes.
    """

    number: int
    rows: Int64Array
    words: npt.NDArray[np.uint64]
    factors: Floats
    numbers: npt.NDArray[np.int8] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        numbers = 0 if self.numbers is None else self.numbers.nbytes
        return self.rows.nbytes + self.words.nbytes + self.factors.nbytes + numbers


def packed(codes: Codes, rows: Int64Array, dtype: str) -> npt.NDArray[np.uint64]:
    """Return a list's row of the part ``codes``."""
    size = codes.words.nbytes + len(rows) * np.dtype(dtype).itemsize + codes.factors.nbytes
    made = np.zeros(-(-size // 8), np.uint64)
    content = (codes.words.ravel(), rows.astype(dtype), codes.factors.ravel())
    made.view(np.uint8)[:size] = np.concatenate([each.view(np.uint8) for each in content])
    return made


class Lists:
    """The lists of an index: centroids in memory, codes as they are needed. Thread-safe."""

    def __init__(self, parts: PartsReader) -> None:
        parameters = parts.parameters
        if "rows" not in parameters:
            raise CorruptionError(
                "a vector index of an earlier development version\ndrop it and create it again",
                object="codes",
            )
        self.parts = parts
        parts.load(("mean", "centroids", "starts"), ("codes", "numbers"), cells=True)
        self.seed = int(parameters["seed"])
        mean = cast("UniformColumn", parts.whole("mean")).values[0]
        metric: Metric = parameters["metric"]
        self.space = Space(metric, mean, float(parameters["scale"]))
        centroids = cast("UniformColumn", parts.whole("centroids")).values
        self.centroids: Floats = centroids.astype(np.float32)
        squares = np.einsum("ni,ni->n", self.centroids, self.centroids) / 2
        self._halves: Floats = squares if metric != "dot" else np.zeros_like(squares)
        self.starts: Int64Array = cast("UniformColumn", parts.whole("starts")).values
        self.has_numbers = bool(parameters["int8"])
        self._rows_dtype = np.dtype(parameters["rows"])
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

    def _read(self, numbers: Int64Array) -> Iterator[ListCodes]:
        sizes = self.starts[numbers + 1] - self.starts[numbers]
        wanted = {"codes": numbers}
        dim = self.centroids.shape[1]
        if self.has_numbers and self.parts.is_distant and sizes.sum() * dim <= NUMBERS_NBYTES:
            places = np.repeat(self.starts[numbers + 1] - np.cumsum(sizes), sizes)
            wanted["numbers"] = places + np.arange(len(places))
        read = self.parts.read(wanted)
        codes = cast("RaggedColumn", read["codes"])
        own: list[npt.NDArray[np.int8] | None] = [None] * len(numbers)
        if "numbers" in read:
            every = cast("UniformColumn", read["numbers"]).values
            own = [*np.split(every, np.cumsum(sizes)[:-1])]
        for at, number in enumerate(numbers.tolist()):
            yield self._unpacked(number, codes.sample(at).view(np.uint8), own[at])

    def _unpacked(
        self, number: int, content: npt.NDArray[np.uint8], own: npt.NDArray[np.int8] | None
    ) -> ListCodes:
        size = int(self.starts[number + 1] - self.starts[number])
        width = width_of(self.centroids.shape[1]) // WORD_BITS
        words, rows = 8 * width * size, self._rows_dtype.itemsize * size
        factors = content[words + rows :][: 6 * size].view(np.float16)
        return ListCodes(
            number,
            content[words : words + rows].view(self._rows_dtype).astype(np.int64),
            content[:words].view(np.uint64).reshape(width, size),
            factors.astype(np.float32).reshape(3, size),
            own,
        )
