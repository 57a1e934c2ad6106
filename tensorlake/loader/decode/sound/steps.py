"""AudioChunk, Resample and Mel: the steps of audio, which together choose a part and finish it.

    [Resample(16_000), AudioChunk(8.0), Mel(80)]
      request   frames of the file that the chunk needs, and those around that resampling needs
      finish    decoded frames ─► resampled ─► the chunk ─► mel spectrogram

A chunk is equal to the same chunk of the whole sample, resampled: the frames beside it are read
too, so that its borders are not silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.decode.arguments import check_choice, is_number, plain_number
from tensorlake.loader.decode.sound.resampling import Ratio
from tensorlake.loader.decode.sound.spectrum import MelScale, mel_bank, power_spectrum
from tensorlake.loader.decode.step import PartStep
from tensorlake.quantities import checked_integer
from tensorlake.types import Audio, FrameSpan, read_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tensorlake.loader.decode.step import Known
    from tensorlake.types import SampleMap, SampleType

__all__ = ["AudioChunk", "Mel", "Resample", "SoundStep", "SoundSteps", "with_sound"]

ChunkStart: TypeAlias = Literal["random", "center"] | float

_MAX_RATE = 1_000_000
_MAX_FFT, _MAX_BANDS = 1 << 16, 1 << 12
_LOG_FLOOR = 1e-10  # −100 dB: the least power whose logarithm is taken
_MIN_SECONDS, _MAX_NUMBER = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A stretch of each sample; only the packets that hold it are read.

    A sample that is shorter stays as it is (`collate` "pad" or "list" makes batches of such), or is
    padded with silence at its end.

    Example:
        >>> AudioChunk(8.0)
        AudioChunk(seconds=8.0, start='random', short='keep')

    Attributes:
        seconds: Its length.
        start: "random", "center", or where it starts, in seconds.
        short: For shorter samples: "keep" their length, "pad" them with zeros, or "error".
    """

    seconds: float
    start: ChunkStart = "random"
    short: Literal["keep", "pad", "error"] = "keep"

    def __post_init__(self) -> None:
        seconds = _checked_number(self.seconds, "AudioChunk: seconds", _MIN_SECONDS)
        object.__setattr__(self, "seconds", seconds)
        if self.start not in ("random", "center"):
            start = _checked_number(self.start, "AudioChunk: start", 0.0)
            object.__setattr__(self, "start", start)
        check_choice(self, "short", ("keep", "pad", "error"))


@dataclass(frozen=True, slots=True)
class Resample:
    """Another rate, by a windowed sinc of six zero crossings (as torchaudio's default).

    Example:
        >>> Resample(16_000)
        Resample(hz=16000)

    Attributes:
        hz: Frames per second.
    """

    hz: int

    def __post_init__(self) -> None:
        hz = checked_integer(self.hz, name="Resample: hz", least=1, most=_MAX_RATE)
        object.__setattr__(self, "hz", hz)


@dataclass(frozen=True, slots=True)
class Mel:
    """The mel spectrogram of the mean of the channels: float32 (1 + frames // hop, bands).

    The defaults are those of most speech models at 16 kHz: windows of 25 ms every 10 ms.

    Example:
        >>> Mel(80)
        Mel(bands=80, fft=400, hop=160, low_hz=0.0, high_hz=None, scale='slaney', log=True)

    Attributes:
        bands: Number of bands.
        fft: Frames of a window.
        hop: Frames from one window to the next.
        low_hz: Lower edge of the first band.
        high_hz: Upper edge of the last band; None is half the rate.
        scale: "slaney", whose bands are divided by their widths (librosa's default), or "htk".
        log: Whether to take the natural logarithm of the power, at least 1e-10.
    """

    bands: int = 80
    fft: int = 400
    hop: int = 160
    low_hz: float = 0.0
    high_hz: float | None = None
    scale: MelScale = "slaney"
    log: bool = True

    def __post_init__(self) -> None:
        for name, most in (("bands", _MAX_BANDS), ("fft", _MAX_FFT), ("hop", _MAX_FFT)):
            value = checked_integer(getattr(self, name), name=f"Mel: {name}", least=1, most=most)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "low_hz", _checked_number(self.low_hz, "Mel: low_hz", 0.0))
        if self.high_hz is not None:
            high = _checked_number(self.high_hz, "Mel: high_hz", 0.0)
            object.__setattr__(self, "high_hz", high)
        if self.high_hz is not None and self.high_hz <= self.low_hz:
            raise InvalidInputError(
                f"Mel: high_hz must be above low_hz = {self.low_hz:g}, got {self.high_hz:g}",
                actual=self.high_hz,
            )
        check_choice(self, "scale", ("slaney", "htk"))
        if not isinstance(self.log, bool | np.bool_):
            raise InvalidInputError(f"Mel: log is True or False, got {shown(self.log)}")
        object.__setattr__(self, "log", bool(self.log))

    def apply(self, frames: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
        """Return the spectrogram of frames (n, channels) at a rate."""
        signal = frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1)
        high = rate / 2 if self.high_hz is None else self.high_hz
        bank = mel_bank(
            *(self.bands, self.fft, rate),
            low_hz=self.low_hz,
            high_hz=high,
            scale=self.scale,
        )
        power = power_spectrum(signal, self.fft, self.hop) @ bank
        return np.log(np.maximum(power, np.float32(_LOG_FLOOR))) if self.log else power


SoundStep: TypeAlias = AudioChunk | Resample | Mel


@dataclass(frozen=True, slots=True)
class ChunkSpan(FrameSpan):
    """The frames of a file that a chunk needs, and the chunk's own at its rate.

    Attributes:
        first: First frame of the chunk.
        last: First frame beyond it.
        nominal: Frames of a chunk that is not short.
    """

    first: int
    last: int
    nominal: int


@dataclass(frozen=True, slots=True)
class SoundSteps(PartStep):
    """The steps of one tensor of audio.

    Attributes:
        steps: They, in the order given.
    """

    steps: tuple[SoundStep, ...]

    @classmethod
    def of(cls, tensor: str, steps: Sequence[SoundStep]) -> SoundSteps:
        """Check the order of steps.

        Raises:
            InvalidInputError: A step is there twice, or comes after Mel.
        """
        kinds = [type(step).__name__ for step in steps]
        for kind, step in zip(kinds, steps, strict=True):
            if kinds.count(kind) > 1:
                reason = f"{shown(step)} is there twice\nkeep one {kind}"
            elif "Mel" in kinds[: kinds.index(kind)]:
                reason = f"{shown(step)} comes after Mel, which ends the sound\nput it before Mel"
            else:
                continue
            raise InvalidInputError(f"decode of {tensor!r}: {reason}", tensor=tensor, actual=step)
        return cls(tuple(steps))

    @property
    def is_random(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - of its steps
        """Whether the chunk starts at random."""
        return self._chunk is not None and self._chunk.start == "random"

    def check(self, sample_type: SampleType, tensor: str) -> None:
        """Refuse types other than audio, and bands beyond half the rate."""
        if not isinstance(sample_type, Audio):
            raise InvalidInputError(
                f"decode of {tensor!r}: {shown(self.steps[0])} is for tl.Audio, and {tensor!r} is"
                f" {sample_type.describe()}\ngive a step for its type",
                tensor=tensor,
                actual=self.steps[0],
            )
        rate = self._rate(sample_type.rate)
        try:
            self._check_bands(rate)
        except InvalidInputError as error:
            message = f"decode of {tensor!r}: {error}"
            raise InvalidInputError(message, tensor=tensor, actual=self._mel) from error

    def _check_bands(self, rate: int | None) -> None:
        mel = self._mel
        highest = 0.0 if mel is None else max(mel.low_hz, mel.high_hz or 0.0)
        if rate is not None and highest > rate / 2:
            raise InvalidInputError(
                f"{mel} has bands up to {highest:g} Hz, and sound of {rate:,} Hz has frequencies"
                f" below {rate / 2:g} Hz\nlower high_hz, or resample to a higher rate"
            )

    def request(
        self, sample: Known, rng: np.random.Generator, others: Mapping[str, Known | None]
    ) -> ChunkSpan:
        """Return the frames that the chunk needs."""
        del others
        head = read_head(sample.map.head)
        rate = self._rate(head.rate) or head.rate
        self._check_bands(rate)
        try:
            ratio = Ratio.of(head.rate, rate)
        except ValueError as error:
            advice = "resample it before ingestion, or choose a rate that is a divisor of more"
            raise InvalidInputError(f"Resample({rate}): {error}\n{advice}") from error
        total = ratio.length(head.frames)
        first, nominal = self._chosen(total, rate, rng)
        if self._chunk is not None and self._chunk.short == "error" and first + nominal > total:
            raise InvalidInputError(
                f"{self._chunk} does not fit into sound of {head.duration:g} s",
                least=math.ceil((first + nominal) * head.rate / rate),
                otherwise="short='pad'",
            )
        last = min(first + nominal, total)
        return ChunkSpan(*ratio.input_span(first, last, head.frames), first, last, nominal)

    def finish(self, made: Any, request: Any, sample_map: SampleMap) -> Any:
        """Return the chunk of decoded frames, resampled, or its spectrogram."""
        assert isinstance(request, ChunkSpan)
        head = read_head(sample_map.head)
        rate = self._rate(head.rate) or head.rate
        ratio = Ratio.of(head.rate, rate)
        frames = ratio.resample(made, request.start, request.first, request.last)
        missing = request.nominal - len(frames)
        if missing and self._chunk is not None and self._chunk.short == "pad":
            frames = np.pad(frames, ((0, missing), (0, 0)))
        return frames if self._mel is None else self._mel.apply(frames, rate)

    def output_shape(self, sample_type: SampleType) -> tuple[int | None, ...]:
        """Return (frames, channels), or (windows, bands); None where lengths differ."""
        assert isinstance(sample_type, Audio)
        rate, chunk, mel = self._rate(sample_type.rate), self._chunk, self._mel
        frames = None
        if chunk is not None and chunk.short != "keep" and rate is not None:
            frames = max(round(chunk.seconds * rate), 1)
        if mel is None:
            return (frames, sample_type.channels)
        return (None if frames is None else 1 + frames // mel.hop, mel.bands)

    def _chosen(self, total: int, rate: int, rng: np.random.Generator) -> tuple[int, int]:
        """Return the first frame of the chunk, and its length."""
        chunk = self._chunk
        if chunk is None:
            return 0, total
        nominal = max(round(chunk.seconds * rate), 1)
        room = max(total - nominal, 0)
        if chunk.start == "random":
            return int(rng.integers(0, room + 1)), nominal
        if chunk.start == "center":
            return room // 2, nominal
        return min(round(chunk.start * rate), total), nominal

    def _rate(self, stored: int | None) -> int | None:
        resample = next((step for step in self.steps if isinstance(step, Resample)), None)
        return stored if resample is None else resample.hz

    @property
    def members(self) -> tuple[Any, ...]:
        """The steps, as they were given."""
        return self.steps

    @property
    def _chunk(self) -> AudioChunk | None:
        return next((step for step in self.steps if isinstance(step, AudioChunk)), None)

    @property
    def _mel(self) -> Mel | None:
        return next((step for step in self.steps if isinstance(step, Mel)), None)


def with_sound(tensor: str, steps: list[Any]) -> list[Any]:
    """Return steps with those of audio as one, which comes first.

    Raises:
        InvalidInputError: Steps of audio do not come first, or are in another order.
    """
    sound = [step for step in steps if isinstance(step, SoundStep)]
    if not sound:
        return steps
    if steps[: len(sound)] != sound:
        raise InvalidInputError(
            f"decode of {tensor!r}: {shown(sound[-1])} comes after {shown(steps[0])}"
            "\nput the steps of audio first, those that change numbers behind them",
            tensor=tensor,
            actual=sound[-1],
        )
    return [SoundSteps.of(tensor, sound), *steps[len(sound) :]]


def _checked_number(value: Any, name: str, least: float) -> float:
    plain = plain_number(value)
    if not is_number(plain):
        raise InvalidInputError(f"{name} is a number, got {shown(value)}", actual=value)
    if not least <= plain <= _MAX_NUMBER:
        raise InvalidInputError(
            f"{name} is from {least:g} to {_MAX_NUMBER:g}, got {shown(plain)}", actual=value
        )
    return float(plain)
