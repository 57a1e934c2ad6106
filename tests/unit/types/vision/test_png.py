"""PNG of one filter: other libraries read what is written, and theirs are read as by them."""

from __future__ import annotations

import io
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tensorlake.types.vision.codecs import CODECS
from tensorlake.types.vision.png import decode_rows

imagecodecs = pytest.importorskip("imagecodecs")
Image = pytest.importorskip("PIL.Image")

CODEC = CODECS["png"]
SHAPES = [(1, 1), (1, 7), (9, 1), (5, 3), (40, 33), (300, 250)]


def scene(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """A ramp with noise: differences wrap around in both directions."""
    top = int(np.iinfo(dtype).max)
    ramp = np.add.outer(np.arange(shape[0]) * 7, np.arange(shape[1]) * 3)[:, :, None]
    noise = np.random.default_rng(seed).integers(0, top // 2, shape)
    return ((ramp + noise) % (top + 1)).astype(dtype)


def decoded(content: bytes, like: np.ndarray) -> np.ndarray:
    out = np.full_like(like, 77)
    CODEC.decode(content, out)
    return out


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_what_is_written_is_read_by_other_libraries(size: Any, channels: int, dtype: Any) -> None:
    pixels = scene((*size, channels), dtype)

    content = CODEC.encode(pixels, None)

    assert np.array_equal(imagecodecs.png_decode(content).reshape(pixels.shape), pixels)
    assert np.array_equal(decoded(content, pixels), pixels)
    if dtype == np.uint8:
        other = np.asarray(Image.open(io.BytesIO(content))).reshape(pixels.shape)
        assert np.array_equal(other, pixels)


@pytest.mark.parametrize("kind", ["right", "down", "flat", "noise"])
def test_each_filter_is_undone(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)
    steps = noise % 3
    pixels = {
        "right": steps.cumsum(1, np.uint8),
        "down": steps.cumsum(0, np.uint8),
        "flat": noise // 128,
        "noise": noise,
    }[kind]
    content = CODEC.encode(pixels, None)
    rows = zlib.decompress(content[41:-16])
    out = np.empty_like(pixels)

    assert {*rows[:: 1 + 70 * 3]} == {{"right": 1, "down": 2}.get(kind, 0)}
    assert decode_rows(content, out, imagecodecs)
    assert np.array_equal(out, pixels)


def test_an_array_of_any_order_is_encoded() -> None:
    pixels = scene((30, 20, 3), np.uint8)

    for one in (pixels[::-1], pixels[:, ::2], np.asfortranarray(pixels)):
        assert np.array_equal(imagecodecs.png_decode(CODEC.encode(one, None)), one)


@pytest.mark.parametrize("filters", [0, 8, 16, 32, 64, 128, 56, 248])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_files_of_each_filter_of_libpng_are_read(filters: int, dtype: Any) -> None:
    pixels = scene((70, 90, 3), dtype)

    content = imagecodecs.png_encode(pixels, filter=filters)

    assert np.array_equal(decoded(content, pixels), pixels)


def chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def rebuilt(content: bytes, rows: bytes | None = None, parts: int = 1, more: bytes = b"") -> bytes:
    """A file of the same header with other rows, in several IDAT chunks."""
    data = content[41:-16] if rows is None else zlib.compress(rows)
    cuts = np.linspace(0, len(data), parts + 1).astype(int).tolist()
    idat = [chunk(b"IDAT", data[a:b]) for a, b in pairwise(cuts)]
    return content[:33] + more + b"".join(idat) + chunk(b"IEND", b"")


def test_data_in_several_chunks_behind_others_are_read() -> None:
    pixels = scene((70, 90, 3), np.uint8)
    text = chunk(b"tEXt", b"Comment\0hello")

    content = rebuilt(CODEC.encode(pixels, None), parts=5, more=text)

    assert decode_rows(content, np.empty_like(pixels), imagecodecs)
    assert np.array_equal(decoded(content, pixels), pixels)


def test_a_filter_that_changes_below_the_first_rows_is_libpngs_to_undo() -> None:
    pixels = np.zeros((20, 4, 3), np.uint8)
    rows = bytearray(20 * 13)
    rows[15 * 13] = 4  # Paeth of zeros

    content = rebuilt(CODEC.encode(pixels, None), bytes(rows))

    assert not decode_rows(content, np.empty_like(pixels), imagecodecs)
    assert np.array_equal(decoded(content, pixels), pixels)


def test_a_transparent_colour_and_a_gray_file_of_a_colour_tensor_are_libpngs_to_read() -> None:
    gray = CODEC.encode(scene((6, 5, 1), np.uint8), None)
    keyed = rebuilt(
        CODEC.encode(scene((6, 5, 3), np.uint8), None), more=chunk(b"tRNS", bytes([0, 9] * 3))
    )

    assert np.array_equal(
        decoded(gray, np.empty((6, 5, 3), np.uint8)), np.repeat(scene((6, 5, 1), np.uint8), 3, 2)
    )
    assert imagecodecs.png_decode(keyed).shape == (6, 5, 4)
    assert np.array_equal(
        decoded(keyed, np.empty((6, 5, 4), np.uint8)), imagecodecs.png_decode(keyed)
    )


@pytest.mark.parametrize("kind", ["unknown", "a second header"])
def test_a_file_that_libpng_refuses_is_refused_whatever_its_filter(kind: str) -> None:
    content = CODEC.encode(scene((30, 20, 3), np.uint8), None)
    name, data = (b"ABCD", b"") if kind == "unknown" else (b"IHDR", content[16:29])
    changed = rebuilt(content, more=chunk(name, data))
    out = np.empty((30, 20, 3), np.uint8)

    assert not decode_rows(changed, out, imagecodecs)
    with pytest.raises(ValueError, match=r"."):
        CODEC.decode(changed, out)


def test_a_file_of_very_many_chunks_is_libpngs_to_read() -> None:
    pixels = scene((30, 20, 3), np.uint8)
    content = rebuilt(CODEC.encode(pixels, None), more=chunk(b"IDAT", b"") * 5_000)

    assert not decode_rows(content, np.empty_like(pixels), imagecodecs)
    assert np.array_equal(decoded(content, pixels), pixels)


def test_pixels_of_another_order_in_memory_are_filled() -> None:
    pixels = scene((12, 10, 3), np.uint8)
    out = np.empty((12, 20, 3), np.uint8)[:, ::2]

    CODEC.decode(CODEC.encode(pixels, None), out)

    assert np.array_equal(out, pixels)


@pytest.mark.parametrize("damage", ["a byte", "the end", "no data", "too few rows", "no IDAT"])
def test_damage_is_an_error(damage: str) -> None:
    pixels = scene((40, 33, 3), np.uint8)
    good = CODEC.encode(pixels, None)
    content = {
        "a byte": good[:60] + bytes([good[60] ^ 255]) + good[61:],
        "the end": good[: len(good) // 2],
        "no data": good[:41] + good[-16:],
        "too few rows": good[:33] + chunk(b"IDAT", good[41:-200]) + chunk(b"IEND", b""),
        "no IDAT": good[:33] + chunk(b"IEND", b""),
    }[damage]

    with pytest.raises(ValueError, match=r"."):
        CODEC.decode(content, np.empty_like(pixels))
