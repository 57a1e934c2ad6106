"""The track of a file of audio, whatever its container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tensorlake.types.audio.containers.flac import parse_flac
from tensorlake.types.audio.containers.mp3 import is_mp3, parse_mp3
from tensorlake.types.audio.containers.ogg import parse_ogg
from tensorlake.types.audio.containers.wav import parse_wav

if TYPE_CHECKING:
    from tensorlake.types.audio.containers.track import Container, Track
    from tensorlake.types.base.file import Content

__all__ = ["MEDIA_TYPES", "container_of", "parse_track"]

MEDIA_TYPES: Final[dict[Container, str]] = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
}
_PARSERS: Final = {"wav": parse_wav, "flac": parse_flac, "ogg": parse_ogg, "mp3": parse_mp3}
_RIFF: Final = (b"RIFF", b"RIFX", b"RF64")


def container_of(content: Content) -> Container | None:
    """Return the container of a file by its first bytes; None for others."""
    head = bytes(content[:12])
    if head[:4] in _RIFF and head[8:] == b"WAVE":
        return "wav"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:4] == b"OggS":
        return "ogg"
    return "mp3" if is_mp3(content) else None


def parse_track(content: Content, container: Container) -> Track | None:
    """Find the packets of a file; None where its codec cannot be read in parts.

    Raises:
        ValueError: It is damaged, ends early, or its header lies.
    """
    if container == "wav" and bytes(content[:4]) == b"RIFX":
        return None  # big-endian, and rare
    return _PARSERS[container](content)
