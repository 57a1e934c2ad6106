"""Decoding of files of audio, and of parts of them, by libsndfile; of plain WAV by NumPy.

A part becomes a small file of its own: the header that its track keeps, then its packets. Its
samples equal those of the whole file, to the bit, once a codec's memory of earlier packets is full;
a track's `starts` tell from where.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.types.audio.containers.flac import flac_file
from tensorlake.types.audio.containers.mp3 import mp3_file
from tensorlake.types.audio.containers.ogg import ogg_file
from tensorlake.types.audio.containers.parse import parse_track
from tensorlake.types.audio.containers.track import Track
from tensorlake.types.audio.containers.wav import samples_of, samples_of_file, wav_file
from tensorlake.types.audio.limits import unlikely_stream
from tensorlake.types.base.file import Content, file_of

if TYPE_CHECKING:
    from tensorlake.types.audio.containers.track import Container
    from tensorlake.types.base.column import Buffer

_FLAC_CHANNELS, _FLAC_RATE = 8, 655_350
_DIVIDED_NBYTES = 16 << 10  # a smaller file is one part: a request costs as much
_HEADER_SHARE = 16  # a header that is more than this part of the file is not kept beside it
_SKIPPED_FRAMES = 1 << 16

__all__ = ["decode_frames", "encode_frames", "file_track", "parts_of"]


def parts_of(track: Track, start: int, stop: int) -> range:
    """Return the parts that give the frames [start, stop); an empty range without any.

    >>> from tensorlake.types.audio.containers.wav import parse_wav
    >>> track = parse_wav(encode_frames(np.zeros((8000, 1), np.float32), 8000))
    >>> parts_of(track, 3000, 4000)
    range(2, 3)
    """
    if start >= stop:
        return range(0)
    first = int(np.flatnonzero(track.starts <= start)[-1])
    last = int(np.searchsorted(track.stops, stop, "left"))
    return range(first, last + 1)


def decode_frames(track: Track, parts: Mapping[int, Buffer], start: int, stop: int) -> np.ndarray:
    """Decode the frames [start, stop) from the parts that `parts_of` names.

    Returns:
        float32 (stop - start, channels), of full scale 1.

    Raises:
        ValueError: The parts do not give these frames.
    """
    numbers = parts_of(track, start, stop)
    if not numbers:
        return np.empty((0, track.channels), np.float32)
    if track.container == "wav":
        frames = _plain_frames(track, parts, numbers, start, stop)
        if frames is not None:
            return frames
    packets = b"".join(parts[number] for number in numbers)
    if len(track.cuts) == 1:
        return _read(packets, track, start, stop, 0)
    first, end = numbers[0], int(track.stops[numbers[-1]])
    begin = int(track.stops[first - 1]) if first else 0
    match track.container:
        case "wav":
            file = wav_file(track.header, packets)
        case "flac":
            file = flac_file(track.header, packets, end - begin)
        case "ogg":
            return _read_to(ogg_file(track.header, packets), track, (start, stop), (begin, end))
        case "mp3":
            begin = begin if first > 1 else -track.delay
            file, lead = mp3_file(track.header, packets, end - begin)
            begin -= lead
    return _read(file, track, start, stop, begin)


def _plain_frames(
    track: Track, parts: Mapping[int, Buffer], numbers: range, start: int, stop: int
) -> np.ndarray | None:
    """Decode frames of WAV that needs no codec, each part straight to its place; else None."""
    if len(track.cuts) == 1:
        found = samples_of_file(parts[0])
        form, held = found or (None, b"")
        spans = [(0, track.frames, held)]
    else:
        form = samples_of(track.header)
        stops = track.stops
        spans = [(int(stops[one - 1]), int(stops[one]), parts[one]) for one in numbers]
    if form is None or form.channels != track.channels:
        return None
    frames = np.empty((stop - start, track.channels), np.float32)
    for begin, end, part in spans:
        first, last = max(begin, start), min(end, stop)
        size = form.frame_nbytes
        samples = memoryview(part)[(first - begin) * size : (last - begin) * size]
        if len(samples) != (last - first) * size:
            held = len(samples) // size
            raise ValueError(f"frames {first:,} to {last:,} decode to {held:,} frames")
        form.decode(samples, frames[first - start : last - start])
    return frames


def file_track(content: Content, container: Container) -> Track:
    """Return the track of a file, whose numbers libsndfile confirms.

    A file whose codec cannot be read in parts is decoded once, to count its frames.

    Raises:
        ValueError: It is damaged, ends early, or its header lies.
    """
    track = parse_track(content, container)
    if track is not None and (refusal := unlikely_stream(track.rate, track.channels)):
        raise ValueError(refusal)
    soundfile = _soundfile()
    try:
        info = soundfile.info(file_of(content))
    except soundfile.LibsndfileError as error:
        raise ValueError(f"libsndfile cannot read it: {error}") from error
    if track is None:
        if refusal := unlikely_stream(info.samplerate, info.channels):
            raise ValueError(refusal)
        codec = str(info.subtype).lower()
        one = np.array([info.frames], np.int64)
        track = Track(
            *(container, codec, info.samplerate, info.channels, info.frames, 0, b""),
            *(np.array([len(content)], np.int64), one * 0, one),
        )
        _count(content, track)
        return track
    found = (info.samplerate, info.channels)
    if found != (track.rate, track.channels):
        own = f"{track.channels} channels at {track.rate:,} Hz"
        raise ValueError(f"its headers say {own}, and libsndfile reads {found[1]} at {found[0]:,}")
    # libsndfile estimates the length of an MP3 without a tag, and knows none of a FLAC stream
    is_known = container in ("wav", "ogg") or (container == "mp3" and track.delay > 0)
    if is_known and info.frames != track.frames:
        own = f"its packets give {track.frames:,} frames"
        raise ValueError(f"{own}, and libsndfile reads {info.frames:,}")
    is_small = len(content) < _DIVIDED_NBYTES or len(track.header) * _HEADER_SHARE > len(content)
    return track.undivided() if is_small and track.is_whole_file else track


def _count(content: Content, track: Track) -> None:
    """Refuse a file that decodes to other than its frames."""
    left = track.frames
    with _opened(content, track) as opened:
        while left > 0:
            read = len(_next(opened, min(left, _SKIPPED_FRAMES)))
            if not read:
                raise ValueError(f"it has {track.frames - left:,} of {track.frames:,} frames")
            left -= read


def encode_frames(frames: np.ndarray, rate: int) -> bytes:
    """Encode frames (frames, channels) without loss: int16 as FLAC, others as WAV.

    Args:
        frames: int16, int32, uint8 or float32.
        rate: Frames per second.
    """
    soundfile = _soundfile()
    count, channels = frames.shape
    is_flac = count and channels <= _FLAC_CHANNELS and rate <= _FLAC_RATE
    if frames.dtype == np.uint8:
        # soundfile takes int16, and keeps its upper byte with PCM_U8's offset
        frames = (frames.astype(np.int16) - 128) << 8
        subtype, is_flac = "PCM_U8", False
    else:
        subtype = {"int16": "PCM_16", "int32": "PCM_32"}.get(frames.dtype.name, "FLOAT")
    file = io.BytesIO()
    form = "FLAC" if is_flac and subtype == "PCM_16" else "WAV"
    soundfile.write(file, frames, rate, format=form, subtype=subtype)
    return file.getvalue()


def _read(file: Buffer, track: Track, start: int, stop: int, begin: int) -> np.ndarray:
    """Read the frames [start, stop) of a file whose first frame is `begin`."""
    with _opened(file, track) as opened:
        left = start - begin
        while left > 0:
            left -= len(_next(opened, min(left, _SKIPPED_FRAMES))) or left  # else it ends early
        return _checked(_next(opened, stop - start), start, stop)


def _read_to(
    file: Buffer, track: Track, wanted: tuple[int, int], held: tuple[int, int]
) -> np.ndarray:
    """Read wanted frames of a file that holds others, less some at its beginning."""
    (start, stop), (begin, end) = wanted, held
    with _opened(file, track) as opened:
        frames = _next(opened, end - begin + 1)
    first = start - (end - len(frames))
    if len(frames) > end - begin or first < 0:
        raise ValueError(f"its pages decode to {len(frames):,} frames, not to {end - begin:,}")
    return _checked(frames[first : first + stop - start], start, stop)


def _next(opened: Any, frames: int) -> np.ndarray:
    try:
        return opened.read(frames, dtype="float32", always_2d=True)
    except _soundfile().LibsndfileError as error:
        raise ValueError(f"libsndfile cannot decode it: {error}") from error


def _opened(file: Content, track: Track) -> Any:
    soundfile = _soundfile()

    class Stream(soundfile.SoundFile):  # pyright: ignore[reportUntypedBaseClass] - without types
        """A file read forward only.

        soundfile seeks after each read, which resets what a codec remembers, and fails in a part,
        whose packets are numbered from its place in the file.
        """

        def seekable(self) -> bool:
            return False

    try:
        opened = Stream(file_of(file))
    except soundfile.LibsndfileError as error:
        raise ValueError(f"libsndfile cannot read it: {error}") from error
    if (opened.channels, opened.samplerate) != (track.channels, track.rate):
        opened.close()
        found = f"{opened.channels} channels at {opened.samplerate:,} Hz"
        raise ValueError(f"it has {found}, recorded {track.channels} at {track.rate:,} Hz")
    if track.container in ("ogg", "mp3"):
        try:
            opened.seek(0)  # libsndfile skips the delay of Opus only then, as in soundfile.read
        except soundfile.LibsndfileError as error:
            opened.close()
            raise ValueError(f"libsndfile cannot decode it: {error}") from error
    return opened


def _checked(frames: np.ndarray, start: int, stop: int) -> np.ndarray:
    if len(frames) != stop - start:
        raise ValueError(f"frames {start:,} to {stop:,} decode to {len(frames):,} frames")
    return frames


def _soundfile() -> ModuleType:
    """Import soundfile.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package is there, libsndfile is not
        raise missing_extra("audio", "audio") from error
    return soundfile
