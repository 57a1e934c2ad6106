"""Files of points that are cut or lie are refused, in bounded time and memory."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.clouds import las_file, pcd_file, ply_file, scan

if TYPE_CHECKING:
    from collections.abc import Callable


def npz_file() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, points=scan(300)["x"].repeat(3).reshape(300, 3))
    return file.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "las": lambda: las_file(300),
    "las 1.4": lambda: las_file(300, version="1.4", point_format=7),
    "laz": lambda: las_file(300, compressed=True),
    "laz 1.4": lambda: las_file(300, compressed=True, version="1.4", point_format=7),
    "ply": lambda: ply_file(scan(300), faces=0),
    "ply ascii": lambda: ply_file(scan(300), "ascii", faces=0),
    "pcd": lambda: pcd_file(scan(300)),
    "pcd ascii": lambda: pcd_file(scan(300), "ascii"),
    "pcd lzf": lambda: pcd_file(scan(300), "binary_compressed"),
    "npz": npz_file,
    "stored": lambda: bytes(tl.PointCloud().convert([scan(300)], tensor="p").samples[0]),  # pyright: ignore[reportAttributeAccessIssue] - encoded
}


def refused(content: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        tl.PointCloud().convert([content], tensor="points")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("missing", [5, 200, 0.5, 0.9])
def test_a_cut_file_is_refused(name: str, missing: float) -> None:
    content = FILES[name]()
    stop = int(len(content) * (1 - missing)) if missing < 1 else -int(missing)

    refused(content[:stop], "cannot take a sample")


@pytest.mark.slow
@given(name=st.sampled_from(sorted(FILES)), data=st.data())
@settings(max_examples=100)
def test_a_damaged_file_is_refused_or_read_but_never_crashes(
    name: str, data: st.DataObject
) -> None:
    content = bytearray(FILES[name]())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    try:
        column = tl.PointCloud(max_nbytes=1 << 24).convert([bytes(content)], tensor="points")
    except InvalidInputError:
        return

    assert len(column) == 1


def test_las_that_promises_more_is_refused() -> None:
    las, laz, new = las_file(300), las_file(300, compressed=True), FILES["laz 1.4"]()

    def patched(content: bytes, at: int, form: str, value: int) -> bytes:
        made = bytearray(content)
        struct.pack_into(form, made, at, value)
        return bytes(made)

    refused(patched(las, 107, "<I", 4_000), "promises 4,000 points, and it has 300")
    refused(patched(las, 107, "<I", 0xFFFFFFFF), "promise .* of points")
    refused(patched(new, 247, "<Q", 1 << 60), "promise .* of points")
    refused(patched(laz, 107, "<I", 299_999), "points in 1 chunks")
    refused(patched(las, 100, "<I", 0xFFFFFFFF), "variable length records")
    refused(patched(las, 96, "<I", 0xFFFFFFF0), "points begin at byte")
    refused(patched(las, 105, "<H", 0), "a point has 0 bytes")
    start = struct.unpack_from("<I", laz, 96)[0]
    table = struct.unpack_from("<q", laz, start)[0]
    refused(patched(laz, start, "<q", 1 << 50), "table of chunks is at byte")
    refused(patched(laz, table + 4, "<I", 0xFFFFFFFF), "in 4,294,967,295 chunks")
    start = struct.unpack_from("<I", new, 96)[0]
    record = struct.unpack_from("<H", new, 105)[0]
    refused(patched(new, start + 8 + record + 4, "<I", 0xFFFFFF00), "layers of a chunk promise")
    items = new.index(b"laszip encoded") - 2 + 54 + 34
    refused(patched(new, items + 2, "<H", 0xFFF0), "points of other than")
    refused(patched(new, items - 2, "<H", 0xFFF0), "promises 65,520 items")
    evlrs = patched(FILES["las 1.4"](), 243, "<I", 0xFFFFFFFF)
    assert len(tl.PointCloud().convert([evlrs], tensor="points")) == 1  # they are not read


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("element vertex 99999999999999\nproperty float x", "promises 99,999,999,999,999"),
        ("element vertex 3\nproperty list uchar float x", "vertices have lists"),
        (
            "element face 9\nproperty list uchar int v\nelement vertex 1\nproperty float x",
            "lists of 'face' are before",
        ),
        ("element vertex 3", "or no properties"),
        ("element vertex 3\nproperty quad x", "line 'property quad x'"),
        ("element vertex -3\nproperty float x", "line 'element vertex -3'"),
        ("property float x", "line 'property float x'"),
        ("element vertex 0\n" + "property float x\n" * 2, "or one twice"),
        (
            "element vertex 0\n" + "\n".join(f"property char p{n}" for n in range(1_500)),
            "1,500 properties",
        ),
        ("\n".join(f"element e{n} 0" for n in range(99)), "line 'element e64 0'"),
        ("comment " + "x" * 70_000, "no end within 65,536 bytes"),
        ("element vertex 3\nproperty float x\nproperty float y", "no field z"),
    ],
)
def test_ply_headers_that_lie_are_refused(header: str, message: str) -> None:
    content = f"ply\nformat binary_little_endian 1.0\n{header}\nend_header\n".encode() + bytes(64)

    refused(content, message)


@pytest.mark.parametrize(
    ("line", "new", "message"),
    [
        (b"POINTS 300", b"POINTS 999999999999", "and width"),
        (b"WIDTH 300\nHEIGHT 1", b"WIDTH 4000000000\nHEIGHT 4000000000", "HEIGHT|width"),
        (b"COUNT 1 1 1 1 1", b"COUNT 1 1 1 1 99999999", "99999999 times"),
        (b"SIZE 4 4 4 2 1", b"SIZE 4 4 4 2 3", "3 bytes"),
        (b"TYPE F F F U U", b"TYPE F F F U X", "is X of 1"),
        (b"FIELDS x y z i c", b"FIELDS x y z i", "4 fields, 5 sizes"),
        (b"FIELDS x y z i c", b"FIELDS x y z i i", "two fields 'i'"),
        (b"DATA binary\n", b"DATA text\n", "its data are 'text'"),
        (b"DATA binary\n", b"", "no line DATA|not ASCII"),
    ],
)
def test_pcd_headers_that_lie_are_refused(line: bytes, new: bytes, message: str) -> None:
    content = pcd_file(scan(300))
    assert line in content

    refused(content.replace(line, new), message)


def test_compressed_pcd_that_promises_more_is_refused() -> None:
    content = pcd_file(scan(300), "binary_compressed")
    at = content.index(b"binary_compressed\n") + len(b"binary_compressed\n")
    stored, plain = struct.unpack_from("<II", content, at)
    body = content[at + 8 :]

    def sized(one: int, other: int) -> bytes:
        return content[:at] + struct.pack("<II", one, other) + body

    refused(sized(stored + 1, plain), "compressed bytes, and has")
    refused(sized(stored, plain * 2), "compressed from")
    refused(sized(stored - 9, plain), "decompress")
    many = sized(stored, 15 * 200_000_000).replace(b" 300\n", b" 200000000\n")
    refused(many, "promise 3 GB of points")


def test_bombs_and_pickles_in_npz_are_refused() -> None:
    pickled, bomb = io.BytesIO(), io.BytesIO()
    np.savez(pickled, points=np.array([{"a": 1}], object))
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            with archive.open(f"{number}.npy", "w") as member:
                for _ in range(30):
                    member.write(bytes(1 << 20))
    short = io.BytesIO()
    with zipfile.ZipFile(short, "w") as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 3)}
        )
        archive.writestr("points.npy", head.getvalue())

    refused(pickled.getvalue(), "Python objects")
    refused(short.getvalue(), r"bytes promise \(1099511627776, 3\)")
    assert len(bomb.getvalue()) < 100_000
    with pytest.raises(InvalidInputError, match=r"promise 94\.4 MB of arrays"):
        tl.PointCloud(max_nbytes=1 << 20).convert([bomb.getvalue()], tensor="p")


def test_hostile_files_are_refused_in_little_memory() -> None:
    """In a child whose memory is limited to 1.2 GB."""
    script = """
import resource, struct
import laspy, lazrs, imagecodecs
import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.support.clouds import las_file, pcd_file, ply_file, scan
kind = tl.PointCloud()
laz = bytearray(las_file(300, compressed=True, version="1.4", point_format=7))
for at, form, value in [(247, "<Q", 1 << 40), (107, "<I", 1 << 31)]:
    struct.pack_into(form, laz, at, value)
ply = ply_file(scan(300), faces=0).replace(b"vertex 300", b"vertex 3000000000")
pcd = pcd_file(scan(300)).replace(b" 300\\n", b" 3000000000\\n")
files = [bytes(laz), ply, pcd]
kind.convert([las_file(300, compressed=True)], tensor="points")
resource.setrlimit(resource.RLIMIT_AS, (1_200 << 20, 1_200 << 20))
for content in files:
    try:
        kind.convert([content], tensor="points")
    except InvalidInputError as error:
        print("refused", error.__class__.__name__)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )

    assert ran.stdout.count("refused") == 3


@pytest.mark.slow
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_npz_that_expands_a_thousandfold_is_refused_before_it_is_read(method: int) -> None:
    points = 8_000_000
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f4", "fortran_order": False, "shape": (points, 3)}
    )
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", method) as archive,
        archive.open("xyz.npy", "w", force_zip64=True) as opened,
    ):
        opened.write(member.getvalue())
        for _ in range(96):
            opened.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        is_deflated = method == zipfile.ZIP_DEFLATED
        refused(file.getvalue(), "promise 96 MB of arrays" if is_deflated else "by method")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000


def test_npz_that_expands_a_thousandfold_is_taken_when_the_type_allows_it() -> None:
    file = io.BytesIO()
    np.savez_compressed(file, xyz=np.zeros((60_000, 3), "f4"))

    column = tl.PointCloud(max_nbytes=1 << 20).convert([file.getvalue()], tensor="p")

    assert len(file.getvalue()) * 100 < 720_000
    assert len(column) == 1


def test_npz_whose_header_promises_more_than_its_directory_is_refused() -> None:
    file = io.BytesIO()
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 3)}
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xyz.npy", member.getvalue())
    refused(file.getvalue(), "promise")
    refused(member.getvalue(), "promise")
