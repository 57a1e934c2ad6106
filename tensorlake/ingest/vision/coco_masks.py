"""The masks of a COCO file, batch by batch: polygons and RLE of all objects together."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.vision.coco_json import CocoFile
from tensorlake.types import RunTable, segmentation_runs, store_masks

__all__ = ["CocoMasks"]


class CocoMasks:
    """Masks of a file's annotations.

    Raises:
        InvalidInputError: A polygon belongs to an image without a size.
    """

    def __init__(self, file: CocoFile) -> None:
        self._file = file
        self._one_at_a_time = Lock()
        self._sizes = np.array([(one.height, one.width) for one in file.images], np.int64)
        counts = np.diff(file.offsets)
        unknown = np.flatnonzero((self._sizes == 0).any(axis=1) & (counts > 0))
        for row in unknown.tolist():
            start, stop = file.offsets[row : row + 2].tolist()
            each = zip(file.annotations[start:stop], file.segmentations(start, stop), strict=True)
            for annotation, segmentation in each:
                if segmentation and isinstance(segmentation, list):
                    what = f"outlines, but image {annotation.image_id} has no height and width"
                    raise file.wrong(annotation, what)

    def __reduce__(self) -> tuple[type[CocoMasks], tuple[CocoFile]]:
        return type(self), (self._file,)

    def of(self, images: range) -> list[Any]:
        """Return the masks of some images' annotations, as input of a mask tensor."""
        start, stop = self._file.offsets[[images.start, images.stop]].tolist()
        counts = np.diff(self._file.offsets[images.start : images.stop + 1])
        sizes = np.repeat(self._sizes[images.start : images.stop], counts, axis=0)
        # Two threads that fill would spend their time on handing the interpreter to each other.
        with self._one_at_a_time:
            table = self._runs(start, self._file.segmentations(start, stop), sizes)
        differs = (table.sizes != sizes) & (sizes > 0)
        if bool(differs.any()):
            at = int(np.argmax(differs.any(axis=1)))
            (height, width), (own_height, own_width) = sizes[at].tolist(), table.sizes[at].tolist()
            what = (
                f"a mask of {own_width} × {own_height}, in an image of {width} × {height}"
                " (width × height)"
            )
            raise self._file.wrong(self._file.annotations[start + at], what)
        owners = np.repeat(np.arange(len(counts)), counts)
        differ = (np.diff(table.sizes, axis=0) != 0).any(axis=1) & (np.diff(owners) == 0)
        if bool(differ.any()):  # which the type refuses, naming the row
            pairs = zip(table.sizes.tolist(), table, strict=True)
            stored = iter([{"size": size, "counts": runs} for size, runs in pairs])
            return [[next(stored) for _ in range(count)] for count in counts.tolist()]
        masks = iter(store_masks(table, counts[counts > 0]))
        return [next(masks) if count else [] for count in counts.tolist()]

    def _runs(self, start: int, segmentations: Sequence[Any], sizes: np.ndarray) -> RunTable:
        try:
            return segmentation_runs(segmentations, sizes)
        except (ValueError, TypeError) as error:
            for at, one in enumerate(segmentations):  # name the annotation
                try:
                    segmentation_runs([one], sizes[at : at + 1])
                except (ValueError, TypeError) as its:
                    wrong = self._file.wrong(self._file.annotations[start + at], str(its.args[0]))
                    raise wrong from its
            raise InvalidInputError(f"segmentations cannot be filled: {error}") from error
