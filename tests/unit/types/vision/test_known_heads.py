"""JPEG files whose heads were seen before are checked as others are."""

import io

import numpy as np
import pytest
from PIL import Image as Pillow

import tensorlake as tl
from tensorlake.errors import InvalidInputError


def jpeg(seed: int, side: int = 64, mode: str = "RGB", **options: object) -> bytes:
    shape = (side, side) if mode == "L" else (side, side, len(mode))
    pixels = np.random.default_rng(seed).integers(0, 255, shape, np.uint8)
    out = io.BytesIO()
    Pillow.fromarray(pixels, mode).save(out, "JPEG", **options)
    return out.getvalue()


GOOD = [jpeg(seed) for seed in range(3)]
TURNED = Pillow.Exif()
TURNED[0x0112] = 6
SCAN = GOOD[0].index(b"\xff\xda") + 14


@pytest.mark.parametrize(
    "bad",
    [
        GOOD[0][:-2],
        GOOD[0][: SCAN - 8],
        GOOD[0][: SCAN - 8] + b"\xff\xd9",
        jpeg(0, mode="CMYK"),
        b"\x89PNG\r\n\x1a\n" + GOOD[0][8:],
        b"",
    ],
    ids=["no end", "cut in the head", "cut and ended", "CMYK", "PNG", "empty"],
)
def test_a_file_is_refused_after_others_with_the_reason_that_it_has_alone(bad):
    kind = tl.Image("jpeg")
    with pytest.raises(InvalidInputError) as alone:
        kind.convert([bad], tensor="image", row_start=len(GOOD))

    with pytest.raises(InvalidInputError) as after:
        kind.convert([*GOOD, bad], tensor="image")

    assert str(after.value).splitlines()[0] == str(alone.value).splitlines()[0]


def test_a_short_file_cannot_promise_the_pixels_of_a_longer_one_with_its_head():
    large = jpeg(0, side=2_000)
    head = large[: large.index(b"\xff\xda") + 14]
    short = head + bytes(20) + b"\xff\xd9"

    with pytest.raises(InvalidInputError, match="pixels do not fit its size"):
        tl.Image("jpeg").convert([large, large, short], tensor="image")


def test_files_of_several_sizes_programs_and_orientations_have_their_own_shapes():
    files = [*GOOD, jpeg(1, side=48), jpeg(2, mode="L"), jpeg(3, quality=30), *GOOD]
    files += [jpeg(4, progressive=True), jpeg(5, side=40, exif=TURNED), jpeg(6, side=40)] * 2
    files += [jpeg(seed, side=16 + seed) for seed in range(80)] * 2

    together = tl.Image("jpeg").convert(files, tensor="image")

    alone = [tl.Image("jpeg").convert([one], tensor="image").shapes[0].tolist() for one in files]
    assert together.shapes.tolist() == alone
    assert [*together.samples] == files
