"""Windows of long files of media, beside the libraries that decode them from a local file.

Audio: windows of 2 s at random places of ten minutes of stereo, decoded to float32. soundfile opens
the file and seeks in it; both read from the page cache. tensorlake's bytes are those that its store
is asked for, over the window's share of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

RATE, CHANNELS = 44_100, 2
WINDOW_SECONDS = 2
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "vorbis": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
OWN, PEER = "tensorlake", "soundfile, a local file"
SHARE = "bytes ÷ share"
MAPPED = "mapped × real time"


def audio_file(workspace: Workspace, name: str) -> Path:
    """Return ten minutes of tones and noise in a format."""
    import soundfile

    form, subtype = FORMATS[name]
    file = workspace.folder / f"sound.{name}"
    if not file.exists():
        rng = np.random.default_rng(0)
        minutes = 1 if workspace.is_quick else 10
        with soundfile.SoundFile(file, "w", RATE, CHANNELS, format=form, subtype=subtype) as opened:
            for second in range(60 * minutes):
                at = (np.arange(RATE) / RATE)[:, None]
                tone = 0.5 * np.sin(2 * np.pi * (220 + second % 40 * 20) * at + np.arange(CHANNELS))
                noise = 0.1 * rng.standard_normal((RATE, CHANNELS)) * np.exp(-3 * at)
                for start in range(0, RATE, 4_410):  # libsndfile's Vorbis fails on long writes
                    opened.write((tone + noise)[start : start + 4_410])
    return file


def _starts(workspace: Workspace, frames: int) -> list[int]:
    count = 20 if workspace.is_quick else 200
    return np.random.default_rng(1).integers(0, frames - WINDOW_SECONDS * RATE, count).tolist()


def _own(workspace: Workspace, name: str) -> Measurement:
    import tensorlake as tl

    content = audio_file(workspace, name).read_bytes()
    folder = workspace.folder / f"sound-{name}.tl"
    warm_up()
    made = tl.create(str(folder), {"audio": tl.Audio()}, exist_ok=True)
    with stopwatch() as mapping:
        tl.Audio().convert([content], tensor="audio")
    if not len(made):
        made.append({"audio": content})
        made.commit("a recording")
    waveform = tl.open(str(folder))[0]["audio"]
    starts = _starts(workspace, waveform.frames)
    wide = WINDOW_SECONDS * RATE
    waveform[:wide]
    with stopwatch() as watch:
        for start in starts:
            waveform[start : start + wide]
    facts = {
        SHARE: _bytes_over_share(waveform, starts, wide),
        MAPPED: waveform.duration / mapping.cpu_seconds,
    }
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds, facts)


def _bytes_over_share(waveform: object, starts: list[int], wide: int) -> float:
    from tensorlake.types import Waveform

    assert isinstance(waveform, Waveform)
    read = 0
    for start in starts:
        region = (slice(start, start + wide),)
        wanted = waveform.type.wanted_parts(waveform.map, region, tensor="", row=0)
        spans = [waveform.map.span(part) for part in wanted.tolist()]
        read += sum(stop - start for start, stop in spans)
    return read / len(starts) / (waveform.nbytes * wide / waveform.frames)


def _peer(workspace: Workspace, name: str) -> Measurement:
    import soundfile

    file = audio_file(workspace, name)
    file.read_bytes()
    frames = soundfile.info(file).frames
    starts, wide = _starts(workspace, frames), WINDOW_SECONDS * RATE
    soundfile.read(file, wide, dtype="float32")
    with stopwatch() as watch:
        for start in starts:
            soundfile.read(file, wide, start=start, dtype="float32", always_2d=True)
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds)


def _windows(name: str) -> Benchmark:
    contenders: dict[str, Callable[..., Measurement]] = {OWN: _own, PEER: _peer}
    return Benchmark(
        name=f"audio_{name}",
        question=f"Random windows of 2 s of ten minutes of {name} in stereo",
        unit="windows",
        contenders=tuple(
            Contender(one, partial(run, name=name)) for one, run in contenders.items()
        ),
        goals=(Goal(OWN, PEER, 0.8, "CPU second"),),
        limits=(Limit(OWN, SHARE, at_most=1.6), Limit(OWN, MAPPED, at_least=1_000)),
        prepare=partial(audio_file, name=name),
    )


BENCHMARKS = tuple(_windows(name) for name in FORMATS)
