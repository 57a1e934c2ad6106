"""Video: files stored as ingested, read frame by frame.

    kept   the file, unchanged, and its map (`map.py`) in the header of the chunk
    read   a `VideoHandle`: shape, rate and times without decoding; frames from the parts that
           hold their packets

Arrays are encoded: H.264 and AV1 lose little, FFV1 nothing. A file is checked when it is staged:
its format by its first bytes, its end, and samples of its frames by decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, SchemaError, shown
from tensorlake.quantities import check_flags, checked_integer
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.casting import cast_array, to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.errors import (
    Place,
    damaged_before,
    describe_value,
    dtype_mismatch,
    is_one_of,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import Content, File, FileView, given_bytes
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.parts import SampleHandle, SampleParts
from tensorlake.types.tiles import check_of
from tensorlake.types.video.containers import FORMATS, MAX_FRAMES, Limits, media_type_of
from tensorlake.types.video.decoder import MAX_PIXELS, decode_frames
from tensorlake.types.video.encode import ENCODERS, VideoCodec, encode_frames, remux
from tensorlake.types.video.frames import selection_of
from tensorlake.types.video.handle import VideoHandle
from tensorlake.types.video.index import index_video
from tensorlake.types.video.map import VideoMap, read_map
from tensorlake.types.video.plan import cut_points, parts_of, plan_runs
from tensorlake.types.video.verify import NotContiguousError

if TYPE_CHECKING:
    from tensorlake.types.video.frames import Request

__all__ = ["Video"]

_NDIM: Final = 4
_CHANNELS: Final = 3
_MAX_FPS: Final = 1000
_QUARTER: Final = 90  # degrees


@dataclass(frozen=True, slots=True)
class Video(Media, SampleType):
    """Video files, stored as ingested.

    A sample is a path, the bytes or a file object of mp4, mov, mkv, webm, avi or gif; an array
    (frames, height, width, 3) of uint8, with `fps` of the type; or a mapping of both,
    ``{"frames": array, "fps": 30}``. Its first video track is read, as RGB: sound stays in the
    file, an alpha channel is not read.

    >>> Video().describe(), Video("ffv1", fps=30).shape
    ('Video', (None, None, None, 3))

    Attributes:
        codec: How arrays are encoded: "h264", "av1", or "ffv1", which is lossless. Files keep
            theirs.
        fps: Frames per second of arrays that come without.
        upright: Whether frames are rotated as the file asks players to, as phones' files do.
        remux: Whether the packets of a file that cannot be read in parts, such as MPEG-TS, are
            copied into Matroska, not decoded; otherwise it is refused.
        max_pixels: Most pixels of a frame.
        max_frames: Most frames of a video.
        of: The video whose frames are of the same times, such as another camera's: a loader reads
            the same clip of both.
    """

    kind: ClassVar[str] = "video"
    is_lazy: ClassVar[bool] = True

    codec: VideoCodec = "h264"
    fps: float | None = None
    upright: bool = False
    remux: bool = False
    max_pixels: int = MAX_PIXELS
    max_frames: int = MAX_FRAMES
    of: str | None = None

    def __post_init__(self) -> None:
        if not is_one_of(self.codec, ENCODERS):
            raise SchemaError(
                f"{shown(self.codec)} is not a codec of videos"
                f"\nuse one of {', '.join(map(repr, ENCODERS))}; files keep their own",
                actual=self.codec,
            )
        check_flags(upright=self.upright, remux=self.remux)
        if self.fps is not None and not _is_rate(self.fps):
            raise SchemaError(
                f"fps is a number above 0, at most {_MAX_FPS}, got {shown(self.fps)}"
                "\nwrite tl.Video(fps=30)",
                actual=self.fps,
            )
        for name in ("max_pixels", "max_frames"):
            checked_integer(getattr(self, name), name=name, least=1, most=1 << 40)
        check_of(self.of, "Video")
        check_default(self)

    @property
    def dtype(self) -> np.dtype:
        """Decoded pixels are uint8."""
        return np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Frames, height, width, channels."""
        return (None, None, None, _CHANNELS)

    @property
    def handle_class(self) -> type[SampleHandle]:
        """Handles with `fps`, `at` and `frames`."""
        return VideoHandle

    @property
    def keeps_files(self) -> bool:
        """Files are stored as they are."""
        return True

    @property
    def media_type(self) -> str:
        """The MIME type of most files; see `media_type_of`."""
        return "video/mp4"

    def media_type_of(self, sample: Buffer) -> str:
        """Return the MIME type of one stored sample, whole or not."""
        return media_type_of(sample)

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a file of {FORMATS}, or uint8 (frames, height, width, 3) with fps"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, arrays of frames, mappings of these, and handles."""
        contents: list[Buffer] = []
        maps: list[SampleMap | None] = []
        shapes: list[tuple[int, ...]] = []
        for position, sample in enumerate(samples):
            if isinstance(sample, VideoHandle):
                content, video = sample.content, read_map(sample.head)
            else:
                content = given_bytes(sample, place, position)
                if content is None:
                    content = self._encoded(sample, place, position)
                content, video = self._indexed(content, sample, place, position)
            contents.append(content)
            maps.append(_sample_map(video))
            shapes.append(self._shape_of(video))
        table = np.array(shapes, dtype=np.int64).reshape(-1, _NDIM)
        return EncodedColumn(contents, table, maps=maps)

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored sample again.

        Raises:
            CorruptSampleError: It is not a whole video.
        """
        try:
            return _sample_map(index_video(sample, self._limits))
        except ValueError as error:
            raise _corrupt(error, len(sample), tensor, row) from error

    def wanted_parts(
        self, sample_map: SampleMap, request: Request, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the parts from the key frame before the first wanted frame to the last one.

        Raises:
            InvalidInputError: The video does not have the frames.
            CorruptSampleError: Its map is damaged.
        """
        video = _read_map(sample_map, tensor, row)
        selection = selection_of(video, request, self.refusal(tensor, row))
        return parts_of(video, plan_runs(video, selection.frames), sample_map.cuts)

    def decode_parts(
        self, sample: SampleParts, request: Request, *, tensor: str, row: int
    ) -> np.ndarray:
        """Decode frames: uint8 (frames, height, width, 3), and the region of them.

        Raises:
            InvalidInputError: The video does not have the region.
            CorruptSampleError: Its packets cannot be decoded.
        """
        video = _read_map(sample.map, tensor, row)
        refused = self.refusal(tensor, row)
        selection = selection_of(video, request, refused)
        try:
            frames = decode_frames(video, sample.read, selection.frames)
        except ValueError as error:
            raise _corrupt(error, sample.map.nbytes, tensor, row) from error
        if self.upright and video.rotation:
            turned = np.rot90(frames, video.rotation // _QUARTER, axes=(1, 2))
            frames = np.ascontiguousarray(turned)
        try:
            return frames[selection.index]
        except (IndexError, TypeError, ValueError) as error:
            raise refused(f"frames are {frames.shape[1:]}: {error}") from error

    @property
    def _limits(self) -> Limits:
        return Limits(pixels=self.max_pixels, frames=self.max_frames)

    def _shape_of(self, video: VideoMap) -> tuple[int, ...]:
        frames, height, width, channels = video.shape
        if self.upright and video.rotation % (2 * _QUARTER):
            height, width = width, height
        return frames, height, width, channels

    def map_file(
        self, file: FileView, place: Place, position: int
    ) -> tuple[SampleMap, tuple[int, ...]]:
        """Find the packets of a file without loading it; packets are not copied into another."""
        try:
            video = index_video(file, self._limits)
        except ValueError as error:
            raise self._refused(file, file, error, place, position) from error
        return _sample_map(video), self._shape_of(video)

    def _indexed(
        self, content: Buffer, sample: Any, place: Place, position: int
    ) -> tuple[Buffer, VideoMap]:
        try:
            try:
                return content, index_video(content, self._limits)
            except ValueError:
                if not self.remux:
                    raise
                copied = remux(content, self._limits)
                return copied, index_video(copied, self._limits)
        except ValueError as error:
            raise self._refused(content, sample, error, place, position) from error

    def _refused(
        self, content: Content, sample: Any, error: ValueError, place: Place, position: int
    ) -> Exception:
        is_in_pieces = isinstance(error, NotContiguousError) and not self.remux
        hint = "use tl.Video(remux=True), which copies its packets" if is_in_pieces else ""
        reason = f"cannot take {_named(sample)} ({len(content):,} bytes): {error}"
        return unreadable(place, position, reason, hint=hint)

    def _encoded(self, sample: Any, place: Place, position: int) -> bytes:
        frames, fps = sample, self.fps
        if isinstance(sample, Mapping):
            given = cast("Mapping[Any, Any]", sample)
            if set(given) != {"frames", "fps"}:
                hint = 'give {"frames": array, "fps": 30}'
                raise dtype_mismatch(place, position, f"a mapping of {[*given]}", hint=hint)
            frames, fps = given["frames"], given["fps"]
        try:
            array = to_array(frames)
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(frames)) from error
        if array.ndim != _NDIM or array.shape[-1] != _CHANNELS or 0 in array.shape:
            hint = ""
            if array.ndim == _NDIM and array.shape[1] == _CHANNELS:
                hint = "channels come last: frames.transpose(0, 2, 3, 1)"
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        if fps is None or not _is_rate(fps):
            hint = 'give {"frames": array, "fps": 30}, or use tl.Video(fps=30)'
            actual = "frames without fps" if fps is None else f"fps={shown(fps)}"
            raise dtype_mismatch(place, position, actual, hint=hint)
        pixels = cast_array(array, self.dtype, place, lambda _: position)
        try:
            return encode_frames(pixels, float(fps), self.codec)
        except ValueError as error:
            reason = f"cannot encode {describe_value(array)} as {self.codec}: {error}"
            raise unreadable(place, position, reason) from error


def _sample_map(video: VideoMap) -> SampleMap:
    return SampleMap(video.to_bytes(), cut_points(video))


def _read_map(sample_map: SampleMap, tensor: str, row: int) -> VideoMap:
    try:
        return read_map(sample_map.head)
    except ValueError as error:
        raise _corrupt(error, sample_map.nbytes, tensor, row) from error


def _corrupt(error: ValueError, nbytes: int, tensor: str, row: int) -> CorruptSampleError:
    return damaged_before(f"({nbytes:,} bytes) cannot be decoded", str(error), tensor, row)


def _is_rate(fps: Any) -> bool:
    is_number = isinstance(fps, int | float | np.integer | np.floating)
    return is_number and not isinstance(fps, bool) and bool(0 < fps <= _MAX_FPS)


def _named(sample: Any) -> str:
    if isinstance(sample, FileView):
        return repr(sample.name)
    if isinstance(sample, bytes | bytearray | memoryview | Mapping | np.ndarray):
        return "a sample"
    return repr(str(sample.path if isinstance(sample, File) else sample))
