"""Descriptions of samples for players, known before any of a sample is read."""

from __future__ import annotations

from tensorlake_server.messages.messages import Message

__all__ = ["MediaInfo", "PeaksInfo", "WindowInfo"]


class MediaInfo(Message):
    """A sample that is read in parts: what its kind has, null elsewhere."""

    media_type: str
    nbytes: int
    shape: list[int]
    codec: str | None = None
    """FFmpeg's name, for audio and video."""
    duration_s: float | None = None
    rate: float | None = None
    """Frames per second of audio and video."""
    spacing: list[float] | None = None
    """Lengths of a voxel of a volume along its first three axes, where they are known."""
    fields: list[str] | None = None
    """Fields of a point cloud that points can be coloured by."""
    faces: int | None = None
    """Triangles of a mesh."""


class PeaksInfo(Message):
    """The outline of a sound: of each stretch the least and the greatest value, ±127 full scale."""

    low: list[int]
    high: list[int]
    is_sampled: bool
    """Whether only the beginning of each stretch was read: the sound is long."""


class WindowInfo(Message):
    """Which values of a deep image are black and white by default, and which it has."""

    low: float
    high: float
    minimum: float
    maximum: float
