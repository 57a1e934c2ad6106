"""Images of samples that are decoded in parts: a frame of a video, a plane of a volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types import VideoHandle
from tensorlake_server.http.problems import Problem
from tensorlake_server.media.images import EncodedImage, check_pixels, render_array
from tensorlake_server.media.windows import DEEP_DTYPES

if TYPE_CHECKING:
    from tensorlake.types import SampleHandle
    from tensorlake_server.media.windows import Window

__all__ = ["VOLUME", "draw_handle", "plane_of"]

VOLUME = "volume"
"""How the viewer draws volumes: planes along the first axis, as frames."""
POSTER_SECONDS = 1.0  # films often begin black
PLANE_NDIM = 2
COLOURS = (3, 4)


def draw_handle(
    sample: SampleHandle, *, size: int | None, frame: int | None, window: Window | None
) -> EncodedImage | None:
    """Draw a sample within a square; None where browsers show its file.

    A video is drawn, if there is a size, by its frame at one second, or at half of a shorter one; a
    volume by its middle plane, or by another, ``frame``.

    Raises:
        CorruptSampleError: It cannot be decoded.
        ImageTooLargeError: A plane has too many pixels.
        Problem: The volume has fewer planes.
    """
    if not isinstance(sample, VideoHandle):
        return render_array(plane_of(sample, frame), size=size, window=window)
    if size is None:
        return None
    seconds = min(POSTER_SECONDS, sample.duration / 2)
    return render_array(sample.at(seconds=seconds), size=size)


def plane_of(volume: SampleHandle, frame: int | None) -> np.ndarray:
    """Decode a plane of a volume: its values, of the first channel unless they are colours.

    Raises:
        CorruptSampleError: It has no plane.
        ImageTooLargeError: A plane has too many pixels.
        Problem: It has fewer planes.
    """
    shape = volume.shape
    sides = shape[1:] if len(shape) > PLANE_NDIM else shape
    if len(sides) < PLANE_NDIM or 0 in shape:
        raise CorruptSampleError(f"a volume {shape} has no plane to draw", actual=shape)
    check_pixels(sides[1], sides[0])
    count = shape[0] if len(shape) > PLANE_NDIM else 1
    number = count // 2 if frame is None else frame
    if number >= count:
        detail = f"row {volume.row} of {volume.tensor!r} has {count:,} planes, no plane {number:,}"
        raise Problem(404, "no-such-frame", detail)
    plane = np.asarray(volume[number] if len(shape) > PLANE_NDIM else volume.read())
    is_coloured = plane.shape[PLANE_NDIM:] in {(one,) for one in COLOURS}
    if is_coloured and plane.dtype == np.uint8:
        return plane
    plane = plane.reshape(*plane.shape[:PLANE_NDIM], -1)[..., 0]
    if plane.dtype.kind == "c":
        plane = np.abs(plane)
    return plane if plane.dtype.name in DEEP_DTYPES else plane.astype(np.float32)
