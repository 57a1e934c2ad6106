"""Building a vector index: lists by k-means, codes in one pass, and recall measured.

Everything but the stored vectors stays in memory while it is built: dim + 20 bytes or so a vector.
Vectors that have no score (NULL, not finite, or for cosine of length 0) are in no list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.parts import SMALL_CHUNK_NBYTES, Built, Part
from tensorlake.indexes.ranges import within
from tensorlake.indexes.vector.blas import in_threads, one_blas_thread
from tensorlake.indexes.vector.clusters import SAMPLES, Centroids, centroids_of
from tensorlake.indexes.vector.codes import Codes, encode
from tensorlake.indexes.vector.lists import Lists, packed
from tensorlake.indexes.vector.recall import Truth, measured
from tensorlake.indexes.vector.space import Metric, Space, float_rows, is_codable, width_of
from tensorlake.indexes.vector.tokens import has_several_vectors, vectors_of
from tensorlake.types import Array, Column, RaggedColumn, SampleType, Scalar, UniformColumn

if TYPE_CHECKING:
    from tensorlake.indexes.kind import Int64Array, RowRanges, Rows
    from tensorlake.indexes.parts import PartsReader

__all__ = ["build", "extended"]

Floats = npt.NDArray[np.float32]

LISTS_PER_ROOT = 1.5  # lists ÷ √vectors: as much time for centroids as for codes (measured)
SINGLE_LIST = 256  # vectors up to which there is one list
PIECE = 1 << 16  # vectors whose numbers are gathered at once
BLOCK = 8192  # vectors coded at once, by one thread


def build(rows: Rows, parameters: Mapping[str, Any]) -> Built:
    """Build an index of vectors."""
    metric: Metric = parameters["metric"]
    seed = int(parameters["seed"])
    asked = parameters["lists"]
    per_row = _vectors_per_row(rows, seed)
    count = _lists_for(math.ceil(rows.count * per_row)) if asked is None else asked
    sampled = max(count * SAMPLES, SINGLE_LIST)
    with one_blas_thread():
        chosen = rows.sample(math.ceil(sampled / max(per_row, 1)), seed)
        sample_rows, sample = _vectors_in(rows.spec.type, *chosen, metric)
        space = Space.of(sample, metric)
        points = space.points(sample)
        centroids = _as_stored(centroids_of(points, count, seed))
        truth = Truth.of(sample_rows, sample, space, seed)
        made = _Coded(space, centroids, seed, is_int8=bool(parameters["int8"]))
        for batch_rows, column in rows.batches():
            kept_rows, vectors = _vectors_in(rows.spec.type, batch_rows, column, metric)
            made.add(kept_rows, vectors, truth)
    kept = {name: parameters[name] for name in ("metric", "int8", "seed")}
    built = made.built({**kept, "asked": asked, "trained": rows.count})
    return Built(built.parts, {**built.parameters, **measured(built, truth)})


def extended(parts: PartsReader, rows: Rows, keep: RowRanges) -> Built:
    """Add rows to an index, in its own lists; of the rows that it has, keep some."""
    lists, parameters = Lists.of(parts), dict(parts.parameters)
    space = lists.space
    made = _Coded(space, Centroids.of(lists.centroids), lists.seed, is_int8=lists.has_numbers)
    made.add_lists(lists, keep)
    with one_blas_thread():
        for batch_rows, column in rows.batches():
            made.add(*_vectors_in(rows.spec.type, batch_rows, column, space.metric), None)
    return made.built(parameters)


def _vectors_per_row(rows: Rows, seed: int) -> float:
    """Return the vectors that a row has, in the mean of some."""
    if not has_several_vectors(rows.spec.type):
        return 1.0
    _, counts = vectors_of(rows.spec.type, rows.sample(SINGLE_LIST, seed)[1])
    return float(counts.mean()) if len(counts) else 1.0


def _vectors_in(
    sample_type: SampleType, rows: Int64Array, column: Column, metric: Metric
) -> tuple[Int64Array, Floats]:
    """Return the vectors of a column that have a score, float32 (n, dim), and their rows."""
    valid = column.valid
    if has_several_vectors(sample_type):
        values, counts = vectors_of(sample_type, column)
        rows = np.repeat(rows, counts)
        valid = None if valid is None else np.repeat(valid, counts)
    else:
        assert isinstance(column, UniformColumn), "vectors have one length"
        values = column.values
    vectors = float_rows(values)
    known = is_codable(vectors, metric)
    if valid is not None:
        known &= valid
    return (rows, vectors) if known.all() else (rows[known], vectors[known])


def _as_stored(centroids: Centroids) -> Centroids:
    """Round centroids to float16, so that codes are of the residuals which a search compares."""
    points = centroids.points.astype(np.float16).astype(np.float32)
    return replace(centroids, points=points)


def _lists_for(count: int) -> int:
    return 1 if count <= SINGLE_LIST else math.ceil(LISTS_PER_ROOT * math.sqrt(count))


@dataclass(slots=True)
class _Coded:
    """Codes of all vectors, in the order of their rows until they are sorted by list."""

    space: Space
    centroids: Centroids
    seed: int
    is_int8: bool
    rows: list[Int64Array] = field(default_factory=list["Int64Array"])
    lists: list[npt.NDArray[np.int32]] = field(default_factory=list[npt.NDArray[np.int32]])
    codes: list[Codes] = field(default_factory=list[Codes])

    def add(self, rows: Int64Array, vectors: Floats, truth: Truth | None) -> None:
        """Code vectors, in threads, and compare them with the queries of the truth."""
        blocks = [slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK)]

        def code(block: slice) -> tuple[npt.NDArray[np.int32], Codes]:
            points = self.space.points(vectors[block])
            if truth is not None:
                truth.add(rows[block], points)
            lists = self.centroids.nearest(points)
            own = self.centroids.points[lists]
            made = encode(points, own, self.space.metric, self.seed)
            if not self.is_int8:
                made = Codes(made.words, made.factors, made.numbers[:0])
            return lists, made

        for block, (lists, codes) in zip(blocks, in_threads(code, blocks), strict=True):
            self.rows.append(rows[block])
            self.lists.append(lists)
            self.codes.append(codes)

    def add_lists(self, lists: Lists, keep: RowRanges) -> None:
        """Take over the codes of an index's lists, of some of its rows."""
        for codes in lists.codes(range(len(lists.centroids))):
            kept = np.flatnonzero(within(keep, codes.rows))
            first = int(lists.starts[codes.number])
            numbers = np.empty((0, lists.centroids.shape[1]), np.int8)
            if self.is_int8:
                run = lists.parts.run("numbers", first, first + len(codes.rows))
                numbers = cast("UniformColumn", run).values[kept]
            factors = codes.factors[:, kept].astype(np.float16)
            self.rows.append(codes.rows[kept])
            self.lists.append(np.full(len(kept), codes.number, np.int32))
            self.codes.append(Codes(codes.words[:, kept], factors, numbers))

    def built(self, parameters: Mapping[str, Any]) -> Built:
        """Sort the codes by list."""
        points = self.centroids.points
        dim = points.shape[1]
        lists = np.concatenate([np.empty(0, np.int32), *self.lists])
        rows = np.concatenate([np.empty(0, np.int64), *self.rows])
        order = np.argsort(lists, kind="stable")
        starts = np.zeros(len(points) + 1, np.int64)
        np.cumsum(np.bincount(lists, minlength=len(points)), out=starts[1:])
        words = np.concatenate(
            [np.empty((width_of(dim) // 64, 0), np.uint64), *(each.words for each in self.codes)],
            axis=1,
        )
        factors = np.concatenate(
            [np.empty((3, 0), np.float16), *(each.factors for each in self.codes)], axis=1
        )
        numbers = np.concatenate(
            [np.empty((0, dim), np.int8), *(each.numbers for each in self.codes)]
        )
        self.codes.clear()
        wide = "uint32" if not len(rows) or rows.max() < 1 << 32 else "int64"
        listed = [
            packed(Codes(words[:, own], factors[:, own], numbers[:0]), rows[own], wide)
            for own in (order[start:stop] for start, stop in pairwise(starts))
        ]
        return Built(
            {
                "mean": Part(Array("float32", (dim,)), [UniformColumn(self.space.mean[None])]),
                "centroids": Part(
                    Array("float16", (dim,)), [UniformColumn(points.astype(np.float16))]
                ),
                "starts": Part(Scalar("int64"), [UniformColumn(starts)]),
                "codes": Part(
                    Array("uint64", (None,)),
                    [
                        RaggedColumn(
                            np.concatenate(listed),
                            np.array([[len(each)] for each in listed], np.int64),
                        )
                    ],
                    SMALL_CHUNK_NBYTES,
                ),
                "numbers": Part(
                    Array("int8", (dim,)), _Numbers(numbers, order), SMALL_CHUNK_NBYTES
                ),
            },
            {
                **parameters,
                "scale": self.space.scale,
                "lists": len(points),
                "vectors": len(rows),
                "rows": wide,
            },
        )


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers in the order of their lists, gathered piece by piece, as often as iterated."""

    numbers: npt.NDArray[np.int8]
    order: Int64Array

    def __iter__(self) -> Iterator[Column]:
        count = len(self.numbers)  # none without int8
        for start in range(0, max(count, 1), PIECE):
            yield UniformColumn(self.numbers[self.order[start : min(count, start + PIECE)]])
