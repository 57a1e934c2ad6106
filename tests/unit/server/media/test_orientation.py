from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tensorlake_server.media.orientation import without_turn

PIXELS = np.arange(24 * 32 * 3, dtype=np.uint32).astype(np.uint8).reshape(24, 32, 3)


def turned(orientation: int, *, endian: str = "<") -> bytes:
    exif = Image.Exif()
    exif.endian = endian
    exif[0x010F] = "a camera"
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.fromarray(PIXELS).save(out, "JPEG", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_viewer_that_obeys_the_header_turns_nothing(orientation: int, endian: str) -> None:
    jpeg = turned(orientation, endian=endian)

    freed = without_turn(jpeg)

    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(freed)))
    assert np.array_equal(np.asarray(shown), simplejpeg.decode_jpeg(jpeg))
    assert len(freed) == len(jpeg)
    assert sum(a != b for a, b in zip(freed, jpeg, strict=True)) == (orientation != 1)


def test_an_image_without_the_header_is_the_same_bytes() -> None:
    jpeg = simplejpeg.encode_jpeg(PIXELS)

    assert without_turn(jpeg) is jpeg


@given(data=st.binary(max_size=80), cut=st.integers(0, 400), at=st.integers(0, 120))
def test_damaged_headers_change_no_length_and_raise_nothing(data: bytes, cut: int, at: int) -> None:
    jpeg = turned(6)
    damaged = (jpeg[:at] + data + jpeg[at + len(data) :])[:cut]

    assert len(without_turn(damaged)) == len(damaged)
