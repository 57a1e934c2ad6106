"""Audio: files of sound, stored as they came and read in parts.

    {"audio": "speech/0001.flac"}                        a file, by its path or its bytes
    {"audio": {"samples": array, "rate": 16_000}}        an array (frames, channels) or (frames,)
    {"audio": soundfile.read("1.wav", dtype="int16")}    an array and its rate, as a pair
    {"audio": array}                                     with tl.Audio(rate=16_000)

WAV, FLAC, Ogg (Vorbis, Opus) and MP3 files are the samples. An array is encoded without loss: int16
as FLAC, uint8, int32 and floats as WAV. Ingestion finds the packets of a file (`containers/`) and
checks them against the file's own numbers; a file that was cut is refused, as it would be read
short, or with silence at its end.

A row gives a `Waveform`, which decodes the frames that it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError, shown
from tensorlake.quantities import checked_integer
from tensorlake.types.audio.containers.parse import MEDIA_TYPES, container_of
from tensorlake.types.audio.containers.track import Track
from tensorlake.types.audio.decoder import decode_frames, encode_frames, file_track, parts_of
from tensorlake.types.audio.limits import MAX_CHANNELS, MAX_RATE, too_many_frames
from tensorlake.types.audio.map import read_track, write_head
from tensorlake.types.audio.waveform import Waveform, frames_of
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.casting import to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.errors import (
    Place,
    damaged_before,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import Content, File, FileView, given_bytes
from tensorlake.types.base.mixins import Media

if TYPE_CHECKING:
    from tensorlake.types.base.parts import SampleParts

__all__ = ["Audio"]

_ENCODED = ("uint8", "int16", "int32", "float32")
_PAIR, _FRAMES_NDIM = 2, 2


@dataclass(frozen=True, slots=True)
class Audio(Media, SampleType):
    """Sound, stored as ingested and read as float32 (frames, channels).

    >>> Audio(rate=16_000, channels=1).describe(), Audio().shape
    ('Audio(16 kHz, mono)', (None, None))

    Attributes:
        rate: Frames per second of all samples; None where they differ.
        channels: Number of channels of all samples; None where they differ.
        max_nbytes: Decoded bytes of a sample up to which its file may be any fraction of them. A
            larger sample is refused if its file has less than a thousandth.
    """

    kind: ClassVar[str] = "audio"
    is_lazy: ClassVar[bool] = True

    rate: int | None = None
    channels: int | None = None
    max_nbytes: int = 1 << 30

    def __post_init__(self) -> None:
        limits = {"rate": (1, MAX_RATE), "channels": (1, MAX_CHANNELS), "max_nbytes": (1, 1 << 62)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if value is None and name != "max_nbytes":
                continue
            try:
                plain = checked_integer(value, name=f"Audio: {name}", least=least, most=most)
            except InvalidInputError as error:
                raise SchemaError(str(error), actual=value) from error
            object.__setattr__(self, name, plain)
        check_default(self)

    @property
    def dtype(self) -> np.dtype:
        """Decoded frames are float32, of full scale 1."""
        return np.dtype("float32")

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Frames, channels."""
        return (None, self.channels)

    @property
    def handle_class(self) -> type[Waveform]:
        """The class of handles."""
        return Waveform

    @property
    def keeps_files(self) -> bool:
        """Files are stored as they are."""
        return True

    @property
    def media_type(self) -> str:
        """Any audio; see `media_type_of`."""
        return "audio/*"

    def media_type_of(self, sample: Buffer) -> str:
        """Return the MIME type of one stored sample, whole or not."""
        container = container_of(sample)
        return "application/octet-stream" if container is None else MEDIA_TYPES[container]

    def describe(self) -> str:
        """Show the rate and the channels, if given: ``Audio(16 kHz, mono)``."""
        rate = [] if self.rate is None else [f"{self.rate / 1000:g} kHz"]
        names = {None: [], 1: ["mono"], 2: ["stereo"]}
        shown_channels = names.get(self.channels, [f"{self.channels} channels"])
        return f"Audio({', '.join(rate + shown_channels)})" if rate + shown_channels else "Audio"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a file of WAV, FLAC, Ogg or MP3, or an array with its rate ({self.describe()})"

    # ---- writing

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, waveforms, and arrays of frames with their rate."""
        encoded: list[Buffer] = []
        shapes: list[tuple[int, int]] = []
        maps: list[SampleMap] = []
        for position, sample in enumerate(samples):
            is_stored = isinstance(sample, Waveform)
            content = sample.content if is_stored else given_bytes(sample, place, position)
            if content is None:
                content = encode_frames(*self._frames(sample, place, position))
            track = self._track(content, sample, place, position)
            encoded.append(content)
            shapes.append((track.frames, track.channels))
            maps.append(SampleMap(write_head(track), track.cuts))
        return EncodedColumn(encoded, np.array(shapes, np.int64).reshape(-1, 2), None, maps)

    def map_file(
        self, file: FileView, place: Place, position: int
    ) -> tuple[SampleMap, tuple[int, ...]]:
        """Find the packets of a file without loading it."""
        track = self._track(file, None, place, position)
        return SampleMap(write_head(track), track.cuts), (track.frames, track.channels)

    def _track(self, content: Content, sample: Any, place: Place, position: int) -> Track:
        name = _named(sample, content)
        container = container_of(content)
        if container is None:
            hint = "convert it: ffmpeg -i FILE NEW.flac; or store it as tl.Bytes"
            reason = f"cannot take {name}: it is not WAV, FLAC, Ogg or MP3"
            raise unreadable(place, position, reason, hint=hint)
        try:
            track = file_track(content, container)
        except ValueError as error:
            reason, _, hint = str(error).partition("\n")
            reason = f"cannot take {name}, not a whole {container.upper()} file: {reason}"
            raise unreadable(place, position, reason, hint=hint) from error
        excess = too_many_frames(track.frames, track.channels, len(content), limit=self.max_nbytes)
        if excess is not None:
            hint = "to accept it: tl.Audio(max_nbytes=…)"
            raise unreadable(place, position, f"cannot take {name}: {excess}", hint=hint)
        for what, own, found in (
            ("Hz", self.rate, track.rate),
            ("channels", self.channels, track.channels),
        ):
            if own not in (None, found):
                hint = "resample it, or use tl.Audio() without a rate and tl.decode.Resample"
                hint = hint if what == "Hz" else "use tl.Audio() without channels, or mix it down"
                described = f"{name} with {found:,} {what}"
                raise dtype_mismatch(place, position, described, hint=hint)
        return track

    def _frames(self, sample: Any, place: Place, position: int) -> tuple[np.ndarray, int]:
        """Return the frames of a given array, of a dtype that is encoded without loss."""
        given, rate = self._with_rate(sample, place, position)
        try:
            array = to_array(given)
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(given)) from error
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != _FRAMES_NDIM or not 1 <= array.shape[1] <= MAX_CHANNELS:
            is_turned = array.ndim == _FRAMES_NDIM and 1 <= array.shape[0] <= MAX_CHANNELS
            hint = "frames come first: samples.T" if is_turned else ""
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        if array.dtype.name not in _ENCODED:
            hint = f"give {', '.join(_ENCODED)}: integers of full scale, floats within ±1"
            raise dtype_mismatch(place, position, describe_value(array), hint=hint)
        return np.ascontiguousarray(array), rate

    def _with_rate(self, sample: Any, place: Place, position: int) -> tuple[Any, int]:
        given, rate = sample, self.rate
        if isinstance(sample, Mapping):
            parts = cast("Mapping[str, Any]", sample)
            if set(parts) != {"samples", "rate"}:
                described = f"a mapping with the keys {shown(sorted(map(str, parts)))}"
                hint = 'give {"samples": array, "rate": 16_000}'
                raise dtype_mismatch(place, position, described, hint=hint)
            given, rate = parts["samples"], parts["rate"]
        elif isinstance(sample, tuple) and len(cast("tuple[Any, ...]", sample)) == _PAIR:
            given, rate = cast("tuple[Any, Any]", sample)
        if rate is None:
            hint = 'give its rate: {"samples": array, "rate": 16_000}, or tl.Audio(rate=16_000)'
            raise dtype_mismatch(
                place, position, f"{describe_value(given)} without a rate", hint=hint
            )
        try:
            checked = checked_integer(rate, name="rate", least=1, most=MAX_RATE)
        except InvalidInputError as error:
            raise unreadable(place, position, f"cannot take an array: {error}") from error
        return given, checked

    # ---- reading

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored sample from its bytes."""
        try:
            container = container_of(sample)
            if container is None:
                raise ValueError("its first bytes are not those of a file of audio")  # noqa: TRY301 - one place makes the error
            track = file_track(sample, container)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error
        return SampleMap(write_head(track), track.cuts)

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the numbers of the parts that hold the frames of a region."""
        track = self._read_track(sample_map, tensor, row)
        start, stop, _ = frames_of(request, track.frames, self.refusal(tensor, row))
        return np.array(parts_of(track, start, stop), np.int64)

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        """Decode the frames of a region: float32 (frames, channels), then its index.

        Raises:
            CorruptSampleError: The parts do not decode to these frames.
        """
        track = self._read_track(sample.map, tensor, row)
        refused = self.refusal(tensor, row)
        start, stop, index = frames_of(request, track.frames, refused)
        stored = sum(len(part) for part in sample.parts.values())
        excess = too_many_frames(stop - start, track.channels, stored, limit=self.max_nbytes)
        if excess is not None:
            raise self._corrupt(excess, tensor, row)
        try:
            frames = decode_frames(track, sample.parts, start, stop)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error
        if not index:
            return frames
        try:
            return frames[index]
        except (IndexError, TypeError) as error:
            raise refused(f"its shape is {(track.frames, track.channels)}: {error}") from error

    def _read_track(self, sample_map: SampleMap, tensor: str, row: int) -> Track:
        try:
            return read_track(sample_map.head, sample_map.cuts)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error

    def _corrupt(self, reason: str, tensor: str, row: int) -> CorruptSampleError:
        return damaged_before(
            "is not a whole file of audio", reason, tensor, row, expected=self.describe()
        )


def _named(sample: Any, content: Content) -> str:
    if isinstance(sample, (str, File)) or hasattr(sample, "__fspath__"):
        return repr(str(sample.path if isinstance(sample, File) else sample))
    name = repr(content.name) if isinstance(content, FileView) else "a sample"
    return f"{name} ({len(content):,} bytes)"
