"""Limits of files of audio: what a header may promise before anything is decoded."""

from __future__ import annotations

from tensorlake.quantities import human_nbytes

__all__ = ["MAX_CHANNELS", "MAX_RATE", "SAMPLE_NBYTES", "too_many_frames", "unlikely_stream"]

MAX_CHANNELS = 64  # a microphone array of today; libsndfile takes 1,024
MAX_RATE = 1_000_000
SAMPLE_NBYTES = 4  # float32
_EXPANSION = 1_000  # Opus at 6 kbit/s expands 256 times; FLAC of silence, 50,000 times


def unlikely_stream(rate: int, channels: int) -> str | None:
    """Return why a stream is refused for its rate or channels; None if it is not."""
    if not 1 <= channels <= MAX_CHANNELS:
        return f"it has {channels:,} channels; 1 to {MAX_CHANNELS} are read"
    if not 1 <= rate <= MAX_RATE:
        return f"its rate is {rate:,} Hz; 1 to {MAX_RATE:,} are read"
    return None


def too_many_frames(frames: int, channels: int, nbytes: int, *, limit: int) -> str | None:
    """Return why frames are not decoded: few bytes that promise much memory; else None.

    Args:
        frames: How many would be decoded.
        channels: Number of channels.
        nbytes: Stored bytes that they are decoded from.
        limit: Decoded bytes up to which stored ones may expand without bound.

    >>> too_many_frames(134_000_000, 8, 70_000, limit=1 << 30)
    '70,000 bytes promise 4.29 GB of samples'
    """
    decoded = frames * channels * SAMPLE_NBYTES
    if decoded <= max(limit, _EXPANSION * nbytes):
        return None
    return f"{nbytes:,} bytes promise {human_nbytes(decoded)} of samples"
