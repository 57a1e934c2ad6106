"""NIfTI files that are cut, damaged or lie are refused, in bounded time and memory."""

import gzip
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.types.volumes.nifti_file import read_file, type_of_voxels
from tests.support.niftis import nifti_bytes

LIMIT = 1 << 24
PLAIN = nifti_bytes(np.arange(60, dtype=np.int16).reshape(3, 4, 5))
START = 352  # of voxels


def changed(content: bytes, at: int, form: str, *values: float) -> bytes:
    made = bytearray(content)
    struct.pack_into(form, made, at, *values)
    return bytes(made)


@pytest.mark.parametrize("is_zipped", [False, True])
@pytest.mark.parametrize("stop", [0, 2, 200, 348, 352, 400, -1])
def test_a_cut_file_is_refused(is_zipped, stop):
    content = PLAIN[:stop]

    with pytest.raises(ValueError, match=r"first bytes|cut|begin"):
        read_file(gzip.compress(content) if is_zipped else content, LIMIT)


@pytest.mark.parametrize("stop", [11, 40, -4, -1])
def test_a_gzip_stream_that_is_cut_or_changed_is_refused(stop):
    content = gzip.compress(PLAIN)
    flipped = bytearray(content)
    flipped[stop] ^= 0xFF

    for made in (content[:stop], bytes(flipped)):
        with pytest.raises(ValueError, match=r"cut or is damaged|first bytes"):
            read_file(made, LIMIT)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(PLAIN),
        gzip.compress(PLAIN + bytes(30)),
        gzip.compress(PLAIN[:-40]) + gzip.compress(PLAIN[-40:]),
        gzip.compress(PLAIN) + bytes(8),
        gzip.compress(PLAIN) + gzip.compress(b""),
    ],
    ids=["one member", "longer", "two members", "padded", "empty member"],
)
def test_gzip_is_read_at_once_or_in_blocks_with_the_same_voxels(content):
    voxels = read_file(content, LIMIT).voxels

    np.testing.assert_array_equal(voxels, read_file(PLAIN, LIMIT).voxels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(PLAIN, 344, "4s", b"ni1\0"), "one of a pair of files\nconvert"),
        (changed(PLAIN, 344, "4s", b"\0\0\0\0"), "Analyze"),
        (changed(PLAIN, 70, "<h", 1536), "unsupported|not supported"),
        (changed(PLAIN, 70, "<h", 1), "unsupported|not supported"),
        (changed(PLAIN, 70, "<h", 77), "header is damaged|unsupported type"),
        (changed(PLAIN, 40, "<8h", 3, 32767, 32767, 4, 1, 1, 1, 1), "bytes promise 8.59 GB"),
        (changed(PLAIN, 40, "<8h", 7, *[32767] * 7), "bytes promise"),
        (changed(PLAIN, 40, "<8h", 3, -3, 4, 5, 1, 1, 1, 1), "its shape is|damaged"),
        (changed(PLAIN, 108, "<f", 3e38), "begin at byte|damaged"),
        (changed(PLAIN, 108, "<f", 0.0), "begin at byte"),
        (changed(PLAIN, 108, "<f", float("nan")), "begin|damaged"),
        (changed(PLAIN, 112, "<ff", 1.0, float("inf")), "header is damaged"),
        (b"PK\x03\x04" + bytes(600), "first bytes"),
    ],
    ids=range(13),
)
@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_header_that_lies_is_refused(content, message, is_zipped):
    with pytest.raises(ValueError, match=message):
        read_file(gzip.compress(content) if is_zipped else content, LIMIT)


def test_more_than_the_header_promises_is_not_decompressed():
    content = gzip.compress(PLAIN + bytes(64 << 20))

    with pytest.raises(ValueError, match="longer than its header promises"):
        read_file(content, LIMIT)


def test_a_large_volume_of_many_bytes_is_taken():
    voxels = np.random.default_rng(0).integers(0, 99, (64, 64, 64), np.int16)

    read = read_file(gzip.compress(nifti_bytes(voxels)), max_nbytes=1_000)

    np.testing.assert_array_equal(read.voxels, voxels.T)


@given(st.integers(0, len(PLAIN) - 1), st.integers(1, 255), st.booleans())
def test_a_changed_byte_is_an_error_of_one_kind_or_another_volume(at, change, is_zipped):
    made = bytearray(PLAIN)
    made[at] ^= change
    content = gzip.compress(bytes(made)) if is_zipped else bytes(made)

    for read in (type_of_voxels, lambda given_: read_file(given_, LIMIT)):
        try:
            read(content)
        except ValueError:
            continue


BOMBS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
from tensorlake.types.volumes.nifti_file import read_file
for path in sys.argv[1:]:
    try:
        read_file(open(path, "rb").read(), 1 << 26)
    except ValueError as error:
        print(error)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) < 300_000)  # kB; what getrusage() says begins with the parent's
"""


@pytest.mark.slow
def test_bombs_of_gzip_take_little_memory(tmp_path):
    """Zeros of 335 MB: more voxels than are read, more bytes than voxels, voxels far behind."""
    zeros, paths = bytes(1 << 26), []
    for dims, offset in (
        ((3, 32767, 32767, 2), START),
        ((3, 4, 5, 6), START),
        ((3, 4096, 4096, 1), 3e7),
    ):
        head = changed(changed(PLAIN, 40, "<4h", *dims), 108, "<f", offset)[:START]
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        pieces = [packer.compress(head), *(packer.compress(zeros) for _ in range(5))]
        paths.append(tmp_path / f"{len(paths)}.nii.gz")
        paths[-1].write_bytes(b"".join([*pieces, packer.flush()]))

    done = subprocess.run(
        [sys.executable, "-c", BOMBS, *map(str, paths)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.stdout.count("promise") == 3
    assert done.stdout.endswith("True\n")
