"""Files of audio for tests: tones and noise, written by libsndfile."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import soundfile

__all__ = ["real_file", "sound_file", "tone"]

REAL_FILES = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_file(path: str) -> bytes:
    """Return a recording, or skip the test: they are not in the repository."""
    file = REAL_FILES / path
    if not file.exists():
        pytest.skip(f"no {file}")
    return file.read_bytes()


def tone(frames: int, channels: int = 1, *, rate: int = 16_000, seed: int = 0) -> np.ndarray:
    """Return a gliding tone with bursts of noise, float32 (frames, channels) within ±0.9."""
    seconds = np.arange(frames)[:, None] / rate
    glide = np.sin(2 * np.pi * (200 + 150 * np.sin(seconds)) * seconds + np.arange(channels))
    noise = np.random.default_rng(seed).uniform(-1, 1, (frames, channels))
    return (0.6 * glide + 0.3 * noise * (np.sin(3 * seconds) > 0)).astype(np.float32)


@lru_cache
def sound_file(
    form: str, subtype: str, *, rate: int = 16_000, channels: int = 1, seconds: float = 4.0
) -> bytes:
    """Return a file in one of libsndfile's formats."""
    file = io.BytesIO()
    frames = tone(int(rate * seconds), channels, rate=rate)
    with soundfile.SoundFile(file, "w", rate, channels, format=form, subtype=subtype) as opened:
        for start in range(0, len(frames), 4096):  # libsndfile's Vorbis fails on long writes
            opened.write(frames[start : start + 4096])
    return file.getvalue()


def silent_flac(blocks: int, *, channels: int = 8) -> bytes:
    """Return a FLAC file of silence: 34 to 36 bytes for each block of 65,535 frames."""
    total = blocks * 65_535
    packed = 48_000 << 44 | (channels - 1) << 41 | 15 << 36 | total
    info = b"\xff\xff\xff\xff" + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    frames = [_silent_frame(number, channels) for number in range(blocks)]
    return b"".join([b"fLaC\x80\0\0\x22", info, *frames])


def undecodable_flac() -> bytes:
    """Return a FLAC file of 20 blocks, of which one was damaged before its checksum was made."""
    content = bytearray(silent_flac(20))
    start = len(content) - 34 * 10
    content[start + 8] = 0x7E  # a type of subframes that there is not
    checked = _crc(bytes(content[start : start + 32]), 0x8005, 16)
    content[start + 32 : start + 34] = checked.to_bytes(2, "big")
    return bytes(content)


def _silent_frame(number: int, channels: int) -> bytes:
    coded = bytes([number]) if number < 0x80 else chr(number).encode()
    head = bytes([0xFF, 0xF8, 0x70, (channels - 1) << 4 | 8]) + coded + b"\xff\xfe"
    frame = head + bytes([_crc(head, 0x07, 8)]) + bytes(3 * channels)  # constant subframes of 0
    return frame + _crc(frame, 0x8005, 16).to_bytes(2, "big")


def _crc(data: bytes, polynomial: int, bits: int) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << bits - 8
        for _ in range(8):
            crc = (crc << 1 ^ (polynomial if crc >> bits - 1 else 0)) & (1 << bits) - 1
    return crc
