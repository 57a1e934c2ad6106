"""Convert COCO segmentations, polygons or RLE, to the RLE of their masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from tensorlake.types.vision.raster import polygon_runs
from tensorlake.types.vision.rle import RunTable, run_table

__all__ = ["segmentation_runs"]


def segmentation_runs(
    segmentations: Sequence[Any], sizes: Sequence[tuple[int, int]] | np.ndarray
) -> RunTable:
    """Return the runs of each object's mask.

    Args:
        segmentations: For each a list of polygons, or RLE; None is an empty mask.
        sizes: Height and width of the image of each; RLE has its own.

    >>> segmentation_runs([{"size": [1, 2], "counts": [2]}, None], [(1, 2), (3, 3)]).runs
    array([2, 9])

    Raises:
        ValueError: One is neither, or wrong.
        TypeError: One is neither.
    """
    each = np.asarray(sizes, np.int64).reshape(-1, 2)
    kinds = set(map(type, segmentations))
    if kinds <= {list, type(None)}:
        return polygon_runs([one or [] for one in segmentations], each)
    mappings = {
        kind for kind in kinds if issubclass(kind, Mapping)
    }  # checked once per kind: it is slow
    of_mapping = [type(one) in mappings for one in segmentations]
    has_runs = np.array(of_mapping, np.bool_)
    outlines = [one or [] for one in compress(segmentations, (~has_runs).tolist())]
    outlined = polygon_runs(outlines, each[~has_runs])
    given = run_table(list(compress(segmentations, of_mapping)))
    shapes, counts = np.empty_like(each), np.empty(len(each), np.int64)
    shapes[~has_runs], shapes[has_runs] = outlined.sizes, given.sizes
    counts[~has_runs], counts[has_runs] = outlined.counts, given.counts
    of_given = np.repeat(has_runs, counts)
    runs = np.empty(len(of_given), np.int64)
    runs[~of_given], runs[of_given] = outlined.runs, given.runs
    return RunTable(shapes, counts, runs)
