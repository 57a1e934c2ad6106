"""Convert masks to arrays of two axes: files, PIL images, RLE, arrays.

Only lossless sources are accepted: a PNG (or another lossless file) of one channel or a palette, an
array of integers or bools. JPEG is rejected: compression changes its edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError, missing_extra
from tensorlake.types.base.casting import to_array
from tensorlake.types.base.errors import (
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import given_bytes
from tensorlake.types.vision.rle import MAX_PIXELS, decode_run_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_bools", "mask_array"]

_LOSSY = ("JPEG", "MPO", "JPEG2000", "AVIF")
_WHITE = 255
_PLANE_NDIM = 2


def mask_array(sample: Any, place: Place, position: int, *, ndim: int = _PLANE_NDIM) -> np.ndarray:
    """Return a mask as an array of `ndim` axes: integers or bools, as given.

    Raises:
        InvalidInputError: It is not a mask; the error has the row.
    """
    if isinstance(sample, Mapping):
        return _from_run_lengths(cast("Mapping[str, Any]", sample), place, position)
    content = given_bytes(sample, place, position)
    if content is not None:
        return _from_file(content, place, position)
    if hasattr(sample, "getbands"):  # a PIL image, without importing it
        return _from_image(sample, place, position)
    try:
        array = to_array(sample)
    except ValueError as error:
        raise shape_mismatch(place, position, "nested lists of unequal lengths") from error
    if array.dtype.kind not in "biu" and array.size:
        raise dtype_mismatch(place, position, describe_value(array))
    if array.ndim != ndim:
        if array.size == 0 and array.ndim == 1:
            return np.zeros((0,) * ndim, dtype=np.uint8)
        raise shape_mismatch(place, position, describe_value(array))
    return array


def as_bools(array: np.ndarray, place: Place, position: int) -> np.ndarray:
    """Return a boolean mask from bools, 0 and 1, or 0 and 255 as in files.

    Raises:
        InvalidInputError: It has other numbers.
    """
    if array.dtype == np.bool_:
        return array
    true = array != 0
    marks = array[true]
    if marks.size and not (bool((marks == 1).all()) or bool((marks == _WHITE).all())):
        found = np.unique(marks)[:4].tolist()
        hint = f"convert it yourself: mask == {found[0]}, or use tl.SegmentMask for classes"
        shown = f"{array.dtype} with {', '.join(map(str, found))}"
        raise dtype_mismatch(place, position, shown, hint=hint)
    return true


def _from_run_lengths(runs: Mapping[str, Any], place: Place, position: int) -> np.ndarray:
    try:
        return decode_run_lengths(runs)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"has invalid RLE: {error}"
        hint = "give {'size': [height, width], 'counts': …}, as COCO does"
        raise unreadable(place, position, reason, hint=hint) from error


def _from_file(content: bytes | memoryview, place: Place, position: int) -> np.ndarray:
    try:
        import PIL.Image
    except ImportError as error:
        raise missing_extra("reading files of masks", "media") from error
    try:
        with PIL.Image.open(BytesIO(content)) as image:
            pixels = image.width * image.height
            if pixels <= MAX_PIXELS:
                return _from_image(image, place, position)
    except InvalidInputError:
        raise  # already an error of ours
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise unreadable(place, position, f"is not an image of a mask: {error}") from error
    raise unreadable(place, position, f"has {pixels:,} pixels, more than {MAX_PIXELS:,}")


def _from_image(image: Any, place: Place, position: int) -> np.ndarray:
    if image.format in _LOSSY:
        hint = "save masks as PNG: JPEG changes the numbers"
        raise dtype_mismatch(place, position, f"a {image.format} file", hint=hint)
    bands: Sequence[str] = image.getbands()
    if len(bands) != 1:
        hint = "a mask has one channel: image.getchannel(0), or a palette"
        raise shape_mismatch(place, position, f"an image of {''.join(bands)}", hint=hint)
    return np.asarray(image)
