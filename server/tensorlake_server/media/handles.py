"""Samples that are decoded in parts: frames of videos, planes of volumes, waveforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types import (
    Audio,
    MeshHandle,
    PointCloudHandle,
    TiledSamples,
    VideoHandle,
    Waveform,
)
from tensorlake_server.http.problems import Problem
from tensorlake_server.media.images import EncodedImage, check_pixels, render_array
from tensorlake_server.media.scenes import MOST_DRAWN, MOST_POINTS, draw_scene, scene_of
from tensorlake_server.media.tiles import draw_tiles
from tensorlake_server.media.waveforms import draw_waveform
from tensorlake_server.media.windows import DEEP_DTYPES

if TYPE_CHECKING:
    from tensorlake.types import SampleHandle
    from tensorlake_server.media.windows import Window

__all__ = ["DRAWN_IN_PARTS", "OCTETS", "VOLUME", "Plane", "draw_handle", "file_type", "plane_of"]

VOLUME = "volume"
"""How the viewer draws volumes: planes along an axis, as frames."""
DRAWN_IN_PARTS = frozenset({"audio", "video", "point_cloud", "mesh", VOLUME})
OCTETS = "application/octet-stream"
POSTER_SECONDS = 1.0  # films often begin black
POSTER_PART = 0.75  # of a film, up to which a key frame stands for it
POSTER_LATEST = 5.0  # seconds
SNIFFED_NBYTES = 64
PLANE_NDIM = 2
COLOURS = (3, 4)


@dataclass(frozen=True, slots=True)
class Plane:
    """A frame of a video, or a plane of a volume; None is the one that stands for the whole."""

    number: int | None = None
    axis: int = 0


def draw_handle(
    sample: SampleHandle, *, size: int | None, plane: Plane, window: Window | None
) -> EncodedImage | None:
    """Draw a sample within a square; None where browsers show its file.

    If there is a size, a video is drawn by a frame after one second, or half of a shorter one,
    audio by its waveform, points and meshes from above one side. A volume is drawn by its middle
    plane, an image in tiles by its overview.

    Raises:
        CorruptSampleError: It cannot be decoded.
        ImageTooLargeError: A plane has too many pixels.
        Problem: There is no such frame or plane.
    """
    match sample:
        case VideoHandle() if plane.number is not None:
            _check_number(sample, plane.number, len(sample), "frames")
            check_pixels(sample.shape[2], sample.shape[1])
            return render_array(sample[plane.number], size=size)
        case VideoHandle() if size is not None:
            return render_array(sample[_poster_frame(sample)], size=size)
        case Waveform() if size is not None:
            return render_array(draw_waveform(sample, size), size=size)
        case MeshHandle() | PointCloudHandle() if size is not None:
            scene = scene_of(
                sample, most=MOST_POINTS if isinstance(sample, MeshHandle) else MOST_DRAWN
            )
            return render_array(draw_scene(scene, size), size=size)
        case VideoHandle() | Waveform() | MeshHandle():
            return None
        case _ if getattr(sample.type, "drawn_as", None) == VOLUME:
            return render_array(plane_of(sample, plane), size=size, window=window)
        case _ if isinstance(sample.type, TiledSamples):
            return draw_tiles(sample, size=size, window=window)
        case _:
            return None


def file_type(sample: SampleHandle) -> str:
    """Return the media type under which a browser may open the file of a sample."""
    match sample:
        case VideoHandle() | MeshHandle():
            return sample.media_type
        case Waveform(type=Audio() as kind):
            head = sample.content_between(0, min(SNIFFED_NBYTES, sample.nbytes))
            return kind.media_type_of(head)
        case _:
            return OCTETS


def _poster_frame(film: VideoHandle) -> int:
    """Choose the frame of a poster: a key frame if one is near, which is read alone."""
    times = film.times
    first = int(times.searchsorted(min(POSTER_SECONDS, film.duration / 2), side="right")) - 1
    keys = film.key_frames
    latest = min(POSTER_LATEST, POSTER_PART * film.duration)
    near = keys[(keys >= first) & (times[keys] <= latest)]
    return int(near[0]) if len(near) else max(first, 0)


def plane_of(volume: SampleHandle, plane: Plane) -> np.ndarray:
    """Decode a plane of a volume: its values, of the first channel unless they are colours.

    Raises:
        CorruptSampleError: It has no plane.
        ImageTooLargeError: A plane has too many pixels.
        Problem: It has fewer planes.
    """
    shape = volume.shape
    is_flat = len(shape) == PLANE_NDIM
    spatial = (1, *shape) if is_flat else shape[: PLANE_NDIM + 1]
    if len(spatial) <= PLANE_NDIM or 0 in shape:
        raise CorruptSampleError(f"a volume {shape} has no plane to draw", actual=shape)
    height, width = (side for axis, side in enumerate(spatial) if axis != plane.axis)
    check_pixels(width, height)
    count = spatial[plane.axis]
    number = count // 2 if plane.number is None else plane.number
    _check_number(volume, number, count, "planes")
    region = (slice(None),) * plane.axis + (number,)
    values = np.asarray(volume.read()[None][region] if is_flat else volume[region])
    is_coloured = values.shape[PLANE_NDIM:] in {(one,) for one in COLOURS}
    if is_coloured and values.dtype == np.uint8:
        return values
    values = values.reshape(*values.shape[:PLANE_NDIM], -1)[..., 0]
    if values.dtype.kind == "c":
        values = np.abs(values)
    return values if values.dtype.name in DEEP_DTYPES else values.astype(np.float32)


def _check_number(sample: SampleHandle, number: int, count: int, what: str) -> None:
    if number >= count:
        detail = (
            f"row {sample.row} of {sample.tensor!r} has {count:,} {what}, no {what[:-1]} {number:,}"
        )
        raise Problem(404, "no-such-frame", detail)
