"""What stands in for the calls that Windows lacks does as those calls do."""

from __future__ import annotations

import os
import random

import pytest

from tensorlake.types.base import descriptors

DATA = bytes(random.Random(1).randbytes(1000)) + b"\r\n\x1a\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(DATA)
    descriptor = os.open(path, os.O_RDWR | descriptors.BINARY)
    yield descriptor
    os.close(descriptor)


def pieces(sizes: list[int]) -> list[bytearray]:
    return [bytearray(size) for size in sizes]


@pytest.mark.parametrize("start", [0, 1, 999, 1003, 1004, 2000])
@pytest.mark.parametrize("nbytes", [0, 1, 5, 1004, 5000])
def test_reads_at_a_place_equal_the_systems(file, start, nbytes):
    assert descriptors._pread(file, nbytes, start) == os.pread(file, nbytes, start)


@pytest.mark.parametrize("sizes", [[3], [0, 1], [10, 0, 20], [1000, 4, 1], [1004, 1], [2000, 5]])
@pytest.mark.parametrize("start", [0, 1, 990, 1004])
def test_vectored_reads_equal_the_systems(file, sizes, start):
    ours, theirs = pieces(sizes), pieces(sizes)

    assert descriptors._preadv(file, ours, start) == os.preadv(file, theirs, start)
    assert ours == theirs
    os.lseek(file, start, os.SEEK_SET)
    assert descriptors._readv(file, pieces(sizes)) == len(DATA[start:][: sum(sizes)])


def test_writes_equal_the_systems(file, tmp_path):
    assert descriptors._pwrite(file, b"ab\n", 5) == 3
    os.lseek(file, 0, os.SEEK_END)
    assert descriptors._writev(file, [b"x", b"", memoryview(b"yz")]) == 3

    assert (tmp_path / "file").read_bytes() == DATA[:5] + b"ab\n" + DATA[8:] + b"xyz"
