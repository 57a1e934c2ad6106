"""Files of any size are linked by viewing them: mapped as loaded files, in bounded memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.types import EncodedColumn, FileView, LinkRecord, Place, SampleType, read_record
from tests.support.sounds import sound_file
from tests.support.videos import video_file

SOUNDS = (
    *(("WAV", "PCM_16"), ("WAV", "IMA_ADPCM"), ("FLAC", "PCM_16")),
    *(("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")),
)
VIDEOS = ("h264", "open_groups", "intra_refresh", "fragments", "matroska", "guessed_times")


def files() -> list[Any]:
    sounds = [pytest.param(tl.Audio(), one, id=one[1]) for one in SOUNDS]
    return sounds + [pytest.param(tl.Video(), one, id=one) for one in VIDEOS]


def content_of(made: Any) -> bytes:
    if isinstance(made, str):
        return video_file(made)
    rate = 48_000 if made[1] == "OPUS" else 16_000
    return sound_file(*made, rate=rate)


def view_of(content: bytes) -> FileView:
    return FileView("x.bin", len(content), lambda start, stop: content[start:stop])


def map_of(kind: SampleType, content: bytes) -> tuple[bytes, list[int], tuple[int, ...]] | str:
    """The map and shape of a loaded file; or the error, without the name of the file."""
    try:
        column = kind.convert([content], tensor="x")
    except tl.InvalidInputError as error:
        return str(error).partition(": ")[2].partition("): ")[2]
    assert isinstance(column, EncodedColumn)
    assert column.maps is not None
    assert column.shapes is not None
    own = column.maps[0]
    assert own is not None
    return own.head, own.cuts.tolist(), tuple(column.shapes[0].tolist())


def map_of_view(kind: SampleType, content: bytes) -> Any:
    """The same of a file that is viewed."""
    try:
        mapped = kind.map_file(view_of(content), Place("x", kind), 0)
    except tl.InvalidInputError as error:
        return str(error).partition(": ")[2].partition("): ")[2]
    assert mapped is not None
    own, shape = mapped
    return own.head, own.cuts.tolist(), shape


@pytest.mark.parametrize(("kind", "made"), files())
def test_files_are_mapped_alike_loaded_and_viewed(
    kind: SampleType, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = content_of(made)
    expected = map_of(kind, content)
    assert not isinstance(expected, str)

    for block in (977, 4 << 20):
        monkeypatch.setattr("tensorlake.types.base.file.BLOCK_NBYTES", block)
        assert map_of_view(kind, content) == expected


@pytest.mark.parametrize(("kind", "made"), files())
def test_damaged_files_are_refused_alike_loaded_and_viewed(kind: SampleType, made: Any) -> None:
    content = content_of(made)
    rng = np.random.default_rng(len(content))
    for at in rng.integers(1, len(content), 4).tolist():
        for damaged in (content[:at], content[:at] + bytes(64) + content[at + 64 :]):
            assert map_of_view(kind, damaged) == map_of(kind, damaged)


def sparse_wav(path: Path, seconds: int) -> None:
    """Write a mono file of 48 kHz whose samples are a hole, but for a second in the middle."""
    nbytes = seconds * 96_000
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", nbytes + 36, b"WAVE", b"fmt ", 16, 1, 1,
                       48_000, 96_000, 2, 16)  # fmt: skip
    with path.open("wb") as file:
        file.write(head + struct.pack("<4sI", b"data", nbytes))
        file.seek(44 + seconds // 2 * 96_000)
        file.write(np.arange(48_000, dtype="<i2").tobytes())
    os.truncate(path, 44 + nbytes)


CHILD = """
import resource, sys, threading
from pathlib import Path
import numpy as np
import tensorlake as tl
tl.Audio().convert([(np.zeros(99, np.int16), 8000)], tensor="x")  # libraries are loaded
path, url = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ds = tl.create(url, {"sound": tl.Link(tl.Audio())})
ds.extend({"sound": [Path(path)] * 3})
ds.commit()
half = ds[1]["sound"].frames // 2
assert ds[1]["sound"][half : half + 3].tolist() == [[0], [2 ** -15], [2 ** -14]]
assert ds.check(links=True).ok
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "seconds", [2_000, pytest.param(11_000, marks=pytest.mark.slow)], ids=["192MB", "1GB"]
)
def test_a_large_file_is_linked_in_bounded_memory(tmp_path: Path, seconds: int) -> None:
    sparse_wav(tmp_path / "long.wav", seconds)
    size = (tmp_path / "long.wav").stat().st_size

    command = [sys.executable, "-c", CHILD, str(tmp_path / "long.wav"), str(tmp_path / "ds")]
    grown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    assert size > 190_000_000
    assert int(grown) * 1024 < 300_000_000  # three at once; loaded: three times the size
    stored = sum(one.stat().st_size for one in (tmp_path / "ds").rglob("*") if one.is_file())
    assert stored < size / 100


def test_the_record_of_a_large_file_is_that_of_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = sound_file("WAV", "PCM_16")
    (tmp_path / "a.wav").write_bytes(content)

    def linked(name: str) -> LinkRecord:
        ds = tl.create(tmp_path / name, {"x": tl.Link(tl.Audio())})
        ds.append({"x": tmp_path / "a.wav"})
        ds.commit()
        return read_record(ds["x"].bytes(0))

    expected = linked("whole")
    monkeypatch.setattr("tensorlake.types.base.file.BLOCK_NBYTES", 1000)

    assert linked("in blocks") == expected
    assert expected.is_content(content)
    for number in range(expected.map.num_parts):
        start, stop = expected.map.span(number)
        assert expected.is_part(number, content[start:stop])
