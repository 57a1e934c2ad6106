"""Rows that appear twice, or nearly: images by perceptual hash, vectors by cosine.

Copies of any type are found by digests (`copies`), texts by their shingles (`minhash`).

An image is reduced to 32 × 32 means of grey and, for its colours, to 8 × 8 of RGB. The signs of the
lowest 64 frequencies of the greys (a discrete cosine transform) against their median are its hash,
which brightness, scale and compression hardly change. Rows whose hashes differ in few bits, and
whose colours are near, are twins; a pair that differs in t bits has one of t + 1 bands in common,
so only rows of one band are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.rowset import RowSet, rowset_of
from tensorlake.dataset.handles.dataset import View
from tensorlake.dataset.handles.rows import Rows
from tensorlake.dataset.quality.clusters import (
    Check,
    Int64Array,
    UInt64Array,
    clusters_of,
    pairs_of_equal,
)
from tensorlake.dataset.quality.copies import equal_rows
from tensorlake.dataset.quality.minhash import LEAST_SIMILARITY, near_texts
from tensorlake.dataset.query.run import NO_LIMITS, QueryLimits, engine_errors
from tensorlake.dataset.ranking.scope import Scope
from tensorlake.dataset.ranking.vectors import Nearest, nearest
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.types import Image, Text, UniformColumn, holds_floats

__all__ = ["duplicates_of", "find_duplicates"]

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Kind = Literal["exact", "perceptual", "minhash", "cosine"]

INT = tql.ColumnType("number", "int64", ())
NUMBER = tql.ColumnType("number", "int64", (), nullable=True)
SIDE, LOW, COLORS = 32, 8, 8
BITS = 64
DEFAULTS: dict[Kind, float] = {"exact": 1, "perceptual": 6, "minhash": 0.8, "cosine": 0.98}
RANGES: dict[Kind, tuple[float, float, str]] = {
    "exact": (1, 1, "1, or None"),
    "perceptual": (0, 16, "an integer of bits, 0 to 16"),
    "minhash": (LEAST_SIMILARITY, 1, f"a Jaccard similarity, {LEAST_SIMILARITY} to 1"),
    "cosine": (float(np.nextafter(0.0, 1.0)), 1, "a cosine in (0, 1]"),
}
KINDS = tuple(DEFAULTS)
NEAR_COLOR = 12.0  # mean difference of 8-bit colours of two encodings of one image
NEIGHBOURS = 16  # of a vector: twins of twins are found from these
AT_ONCE = 256


def find_duplicates(
    ds: Rows, column: str, kind: Kind | None = None, threshold: float | None = None
) -> View:
    """Find rows that appear twice, or nearly.

    Args:
        ds: A dataset, or a view of its rows.
        column: A tensor; rows where it is NULL are left out.
        kind: "perceptual" for images that look alike, "minhash" for texts that have most of their
            shingles in common, "cosine" for vectors of one direction, "exact" for samples of
            any type that are stored as the same bytes; None: by the column's type.
        threshold: For images, the bits of 64 that two hashes may differ in, from 0 to 16 (6); for
            texts, the least Jaccard similarity, from 0.3 to 1 (0.8); for vectors, the least
            cosine, above 0 (0.98). Not for "exact".

    Returns:
        The rows that have a twin, cluster by cluster, each in the order of its rows, with two more
        columns: ``cluster``, from 0, and ``duplicate_of``, the row number of the cluster's first
        row; NULL for that row.

    Raises:
        InvalidInputError: The kind is unknown, or the threshold is outside its range.
        UnsupportedFeatureError: ``kind`` is not implemented for the type of the column.
        TensorNotFoundError: There is no such tensor.

    Example:
        >>> import numpy as np, tensorlake as tl
        >>> ds = tl.create("memory://doc-duplicates", {"vec": tl.Embedding(3)})
        >>> ds.extend({"vec": [[1, 0, 0], [0, 1, 0], [2, 0.01, 0]]})
        >>> _ = ds.commit("three")
        >>> twins = tl.find_duplicates(ds, "vec")
        >>> twins.rows.tolist(), twins.to_arrow()["duplicate_of"].to_pylist()
        ([0, 2], [None, 0])
    """
    if not isinstance(ds, Rows):
        raise InvalidInputError(
            f"find_duplicates() takes a dataset or a view, got {type(ds).__name__} {shown(ds)}",
            actual=ds,
        )
    rows = rowset_of(ds)
    if not rows.has_rows:
        raise InvalidInputError(
            "find_duplicates() needs rows of a dataset, and these are groups or values of a query"
            "\ngive the dataset, or a view of its rows"
        )
    return View(duplicates_of(rows, column, kind, threshold))


def duplicates_of(
    rows: RowSet,
    column: str,
    kind: Kind | None = None,
    threshold: float | None = None,
    limits: QueryLimits = NO_LIMITS,
) -> RowSet:
    """Find rows that appear twice, within limits of time; see ``find_duplicates``."""
    if not isinstance(column, str) or column not in rows.selection.columns:
        raise unknown_column(column, rows.selection.columns)
    which = _kind(rows, column, kind)
    limit = _threshold(which, threshold)
    deadline = tql.Limits(limits.timeout_s, cancelled=limits.cancelled).deadline(column)
    with engine_errors(rows.url):
        if which == "perceptual":
            used, hashes, colors = _hash_images(rows, column, deadline.check)
            pairs = list(_alike(hashes, colors, int(limit)))
        elif which == "minhash":
            used, pairs = near_texts(rows, column, limit, deadline.check)
        elif which == "exact":
            used, copies = equal_rows(rows, column, deadline.check)
            pairs = [copies]
        else:
            used, pairs = _near_vectors(rows, column, limit, deadline.check)
    return _view(rows, used, clusters_of(len(used), pairs))


def _kind(rows: RowSet, column: str, kind: Any) -> Kind:
    if kind is not None and kind not in KINDS:
        raise InvalidInputError(
            f"kind must be one of {', '.join(map(repr, KINDS))} or None, got {shown(kind)}",
            argument="kind",
            actual=kind,
        )
    sample_type = rows.selection.snapshot.spec(column).type
    own: Kind = "exact"
    if isinstance(sample_type, Image):
        own = "perceptual"
    elif isinstance(sample_type, Text):
        own = "minhash"
    elif (
        len(sample_type.shape) == 1
        and sample_type.shape[0] is not None
        and sample_type.dtype is not None
        and holds_floats(sample_type.dtype)
    ):
        own = "cosine"
    if kind not in (None, own, "exact"):
        raise UnsupportedFeatureError(
            f"find_duplicates(kind={shown(kind)}) of {column!r}, {sample_type.describe()}, is not"
            f" implemented\nuse kind={own!r}"
        )
    return own if kind is None else kind


def _threshold(kind: Kind, threshold: Any) -> float:
    if threshold is None:
        return DEFAULTS[kind]
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    least, most, what = RANGES[kind]
    is_whole = kind != "perceptual" or (is_number and float(threshold).is_integer())
    if not is_number or not least <= threshold <= most or not is_whole:
        raise InvalidInputError(
            f"threshold of a {kind} search is {what}, got {shown(threshold)}",
            argument="threshold",
            actual=threshold,
        )
    return float(threshold)


def _hash_images(rows: RowSet, column: str, check: Check) -> tuple[Int64Array, UInt64Array, Bytes]:
    """Return the positions of images that can be read, their hashes, and their colours."""
    used: list[Int64Array] = []
    hashes: list[UInt64Array] = []
    colors: list[Bytes] = []
    view = View(rows)[column]
    for start in range(0, len(rows), AT_ONCE):
        check(start, len(rows))
        stop = min(len(rows), start + AT_ONCE)
        for at in range(start, stop):
            image = view[at]
            if image is None:
                continue
            small = _rgb(np.asarray(image))
            used.append(np.array([at]))
            hashes.append(_hash(small.mean(axis=2)))
            shape = (COLORS, SIDE // COLORS, COLORS, SIDE // COLORS, 3)
            colors.append(np.rint(small.reshape(shape).mean(axis=(1, 3))).astype(np.uint8)[None])
    if not used:
        return (
            np.zeros(0, np.int64),
            np.zeros(0, np.uint64),
            np.zeros((0, COLORS, COLORS, 3), np.uint8),
        )
    return np.concatenate(used), np.concatenate(hashes), np.concatenate(colors)


def _rgb(image: npt.NDArray[Any]) -> Floats:
    """Reduce an image (h, w) or (h, w, c) to means of 32 × 32 blocks of RGB, 0 to 255."""
    pixels = image[..., None] if image.ndim == 2 else image  # noqa: PLR2004 - grey
    pixels = pixels[..., :3] if pixels.shape[2] > 2 else np.repeat(pixels[..., :1], 3, axis=2)  # noqa: PLR2004 - RGB
    for axis in (0, 1):
        size = pixels.shape[axis]
        edges = np.arange(SIDE + 1) * size // SIDE
        if size < SIDE:
            pixels = np.take(pixels, np.arange(SIDE) * size // SIDE, axis=axis).astype(np.float32)
            continue
        counts = np.diff(edges).astype(np.float32)
        sums = np.add.reduceat(pixels, edges[:-1], axis=axis, dtype=np.float32)
        pixels = sums / np.expand_dims(counts, tuple(other for other in range(3) if other != axis))
    top = 255 if image.dtype == np.uint8 else max(1e-9, float(np.nanmax(np.abs(image), initial=0)))
    return np.nan_to_num(pixels.astype(np.float32) * np.float32(255 / top))


def _hash(grey: Floats) -> UInt64Array:
    """Hash 32 × 32 greys by the signs of their lowest frequencies against the median."""
    frequencies = _COSINES @ grey @ _COSINES.T
    low = frequencies.ravel()
    return np.packbits(low[1:] > np.median(low[1:]), bitorder="little").view(np.uint64)


def _cosines() -> Floats:
    """Return the first rows of the DCT-II of 32 numbers."""
    at, frequency = np.arange(SIDE) + 0.5, np.arange(LOW)[:, None]
    return np.cos(np.pi / SIDE * frequency * at).astype(np.float32)


_COSINES = _cosines()


def _alike(hashes: UInt64Array, colors: Bytes, bits: int) -> Iterator[Int64Array]:
    """Yield pairs of images whose hashes and colours are near, (n, 2)."""
    flat = colors.reshape(len(colors), -1).astype(np.int16)
    borders = np.linspace(0, BITS, bits + 2).astype(np.int64)
    for low, high in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        mask = np.uint64((1 << (high - low)) - 1)
        band = (hashes >> np.uint64(low)) & mask
        for pairs in pairs_of_equal(band):
            one, other = pairs.T
            near = np.bitwise_count(hashes[one] ^ hashes[other]) <= bits
            one, other = one[near], other[near]
            is_alike = np.abs(flat[one] - flat[other]).mean(axis=1) <= NEAR_COLOR
            yield np.stack([one[is_alike], other[is_alike]], axis=1)


def _near_vectors(
    rows: RowSet, column: str, cosine: float, check: Check
) -> tuple[Int64Array, list[Int64Array]]:
    """Return the positions of vectors, and pairs of them: among the nearest of each."""
    stored = rows.read(column)
    assert isinstance(stored, UniformColumn), "vectors are of one length"
    vectors = np.asarray(stored.values).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    is_used = np.isfinite(lengths) & (lengths > 0)
    if stored.valid is not None:
        is_used &= stored.valid
    used = np.flatnonzero(is_used)
    units = vectors[used] / lengths[used, None]
    place = np.full(len(rows), -1, np.int64)
    place[used] = np.arange(len(used))
    scope = Scope(rows, check=check)
    pairs: list[Int64Array] = []
    for start in range(0, len(used), AT_ONCE):
        queries = vectors[used[start : start + AT_ONCE]]
        asked = Nearest(column, queries, NEIGHBOURS, exact=False, recall=None)
        found = nearest(scope, asked).rows
        one = np.repeat(np.arange(start, start + len(queries)), [len(some) for some in found])
        other = place[scope.position_of(np.concatenate(found))]
        is_pair = (other >= 0) & (other != one)
        one, other = one[is_pair], other[is_pair]
        is_near = np.einsum("ij,ij->i", units[one], units[other]) >= cosine
        pairs.append(np.stack([one[is_near], other[is_near]], axis=1))
    return used, pairs


def _view(rows: RowSet, used: Int64Array, first: Int64Array) -> RowSet:
    sizes = np.bincount(first, minlength=len(used))
    members = np.flatnonzero(sizes[first] > 1)
    members = members[np.argsort(first[members], kind="stable")]
    firsts, cluster = np.unique(first[members], return_inverse=True)
    taken = rows.take(used[members])
    original = rows.rows[used[firsts]][cluster] if len(members) else np.zeros(0, np.int64)
    added = {
        "cluster": Computed(INT, tql.UniformBatch(cluster.astype(np.int64))),
        "duplicate_of": Computed(NUMBER, tql.UniformBatch(original, members != first[members])),
    }
    how = f"Duplicates: {len(members):,} of {len(used):,} rows, in {len(firsts):,} clusters"
    computed = {**taken.computed, **added}
    return replace(taken, computed=computed, steps=None, tql=None, explanation=how)
