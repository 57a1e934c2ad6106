"""Parts: the pieces of encoded samples that are read and verified alone.

    sample of a chunk     part 0 │ part 1 │ … │ part n-1        end to end, cut by its type
    its header            lengths and checksums of all parts, and each sample's head

They take the place of units, which are whole samples, in chunks whose samples carry maps
(``SampleMap``). The header alone records them, since a reader needs the heads in it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import xxhash

from tensorlake.format.spec.integrity import damaged
from tensorlake.types import SampleMap, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types import Buffer, EncodedColumn

__all__ = ["PartTable"]

_LOW_32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class PartTable:
    """The parts of all samples of a chunk, end to end.

    Attributes:
        counts: How many parts each sample has, int64; 0 of an empty sample or NULL.
        lengths: Bytes of each part, int64, above 0.
        checksums: Low 32 bits of the xxh3-64 of each part.
        heads: The head of each sample; empty of NULL.
    """

    counts: np.ndarray
    lengths: np.ndarray
    checksums: np.ndarray
    heads: Sequence[bytes]

    @classmethod
    def of(cls, column: EncodedColumn) -> Self:
        """Hash the parts of samples.

        Raises:
            ValueError: A sample has no map, or its cuts do not end at its length.
        """
        maps = list(column.maps or ())
        nothing = SampleMap(b"", np.zeros(0, np.int64))
        if column.valid is not None:
            pairs = zip(maps, column.valid.tolist(), strict=True)
            maps = [one if is_valid else nothing for one, is_valid in pairs]
        hashes: list[int] = []
        known: list[SampleMap] = []
        for row, (sample, one) in enumerate(zip(column.samples, maps, strict=True)):
            if one is None or one.nbytes != len(sample):
                parts = "no map" if one is None else f"parts of {one.nbytes:,} bytes"
                raise ValueError(f"sample {row} of {len(sample):,} bytes has {parts}")
            known.append(one)
            view, start = memoryview(sample), 0
            for stop in one.cuts.tolist():
                hashes.append(xxhash.xxh3_64_intdigest(view[start:stop]) & _LOW_32)
                start = stop
        counts = np.fromiter((one.num_parts for one in known), np.int64, len(known))
        lengths = [np.diff(one.cuts, prepend=0) for one in known]
        return cls(
            counts,
            np.concatenate([np.zeros(0, np.int64), *lengths]),
            np.array(hashes, np.uint32),
            [one.head for one in known],
        )

    def check(self, lengths: np.ndarray) -> None:
        """Check that the parts make up samples of these lengths.

        Raises:
            ValueError: They do not.
        """
        if bool((self.counts < 0).any()) or int(self.counts.sum()) != len(self.lengths):
            raise ValueError(f"its {len(self.lengths):,} parts are not those of its samples")
        if bool((self.lengths <= 0).any() or (self.lengths >= 1 << 40).any()):
            raise ValueError("a part of a sample has no bytes, or too many")
        ends = offsets_of(self.lengths)[offsets_of(self.counts)]
        if not np.array_equal(np.diff(ends), lengths):
            raise ValueError("the parts of its samples do not add up to them")

    def maps(self, valid: np.ndarray | None) -> list[SampleMap | None]:
        """Return the map of each sample; None for NULL."""
        is_valid = [True] * len(self.counts) if valid is None else valid.tolist()
        return [self.map(row) if one else None for row, one in enumerate(is_valid)]

    def map(self, row: int) -> SampleMap:
        """Return the map of one sample."""
        parts = self._of(row)
        return SampleMap(self.heads[row], np.cumsum(self.lengths[parts]))

    def verify(self, row: int, parts: np.ndarray, buffers: Sequence[Buffer], *, where: str) -> None:
        """Verify parts of a sample that were read alone.

        Args:
            row: The sample.
            parts: Their numbers in the sample.
            buffers: The bytes of each.
            where: The chunk's name, for errors.

        Raises:
            CorruptionError: A part is damaged.
        """
        own = self._of(row)
        lengths = self.lengths[own][parts].tolist()
        checksums = self.checksums[own][parts].tolist()
        columns = zip(parts.tolist(), buffers, lengths, checksums, strict=True)
        for number, data, nbytes, checksum in columns:
            if len(data) != nbytes or xxhash.xxh3_64_intdigest(data) & _LOW_32 != checksum:
                raise damaged(f"part {number} of sample {row} of {where}", "its checksum is wrong")

    def lost(self, payload: Buffer) -> np.ndarray:
        """Return which samples of a whole payload have a damaged part."""
        view = memoryview(payload)
        bounds = offsets_of(self.lengths).tolist()
        found = [xxhash.xxh3_64_intdigest(view[a:b]) & _LOW_32 for a, b in pairwise(bounds)]
        is_wrong = np.array(found, np.uint32) != self.checksums
        owners = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.bincount(owners[is_wrong], minlength=len(self.counts)) > 0

    def _of(self, row: int) -> slice:
        start = int(self.counts[:row].sum())
        return slice(start, start + int(self.counts[row]))
