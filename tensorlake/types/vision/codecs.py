"""The image codecs: reading headers, decoding into pixels, and encoding them.

    codec      by            depths   pixels given as an array are stored as    with a quality
    jpeg       simplejpeg    8        quality 95, 4:4:4                         4:2:0, as Pillow
    png        imagecodecs   8, 16    lossless (png.py)
    webp       imagecodecs   8        lossless (always in colour)               with loss
    avif       imagecodecs   8        quality 90, 4:4:4                         4:4:4
    jpeg2000   imagecodecs   8, 16    lossless
    tiff       imagecodecs   8, 16    lossless, deflate
    any        as detected   8, 16    PNG: lossless

For "any", the codec is detected from each image's first bytes; a JPEG of four inks (CMYK) is read
as RGB, by the formula of Pillow and libtiff.

All release the GIL. A decoder fills an array of the header's size, from a file of fewer channels
too: gray becomes three equal ones, a missing alpha is opaque. It never drops one: images that do
not fit the tensor's mode were rejected at ingestion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.types.vision.headers.encoded import (
    image_format,
    parse_jpeg_header,
    parse_png_header,
)
from tensorlake.types.vision.headers.iso_boxes import (
    is_lossy_jpeg2000,
    parse_avif_header,
    parse_jpeg2000_header,
)
from tensorlake.types.vision.headers.tiff import is_lossy_tiff, parse_tiff_header
from tensorlake.types.vision.headers.webp import is_lossy_webp, parse_webp_header
from tensorlake.types.vision.image_end import (
    check_jpeg2000_end,
    check_jpeg_end,
    check_png_end,
    check_tiff_end,
)
from tensorlake.types.vision.png import decode_rows, encode_rows
from tensorlake.types.vision.rle import MAX_PIXELS

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer
    from tensorlake.types.vision.headers.header import ImageFormat, ImageHeader

__all__ = [
    "ANY_CODEC",
    "CODECS",
    "ImageCodec",
    "PixelCodec",
    "codec_of",
    "is_cmyk_jpeg",
    "too_many_pixels",
    "turn",
]

ImageCodec: TypeAlias = Literal["jpeg", "png", "webp", "avif", "jpeg2000", "tiff", "any"]

_JPEG_QUALITY = 95  # of arrays given as pixels: near enough to lossless for training
_AVIF_QUALITY = 90
_AVIF_SPEED = 6  # avifenc's own; imagecodecs' is 0, a hundred times slower for a tenth fewer bytes
_DEFLATE = 8  # its number in TIFF
_GRAY, _GRAY_ALPHA, _COLOUR, _COLOUR_ALPHA, _CMYK = 1, 2, 3, 4, 4
_PLANE_NDIM = 2
# The libjpeg-turbo format for a number of channels; its alpha is opaque.
_JPEG_COLOURS: dict[int, Literal["GRAY", "RGB", "RGBA"]] = {1: "GRAY", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, slots=True)
class PixelCodec:
    """One codec.

    Attributes:
        format: The format's own name; "image" where it is detected from each sample.
        max_side: Longest possible side of an image; None: limited by memory only.
        pixels_a_byte: Most pixels per byte of a file; None where an image of one colour takes no
            bytes at any size.
        has_alpha: Whether it supports an alpha channel.
        has_gray: Whether it supports a single channel.
        encode: Encodes pixels (height, width, channels), with a quality of 1 to 100 if it has one;
            None: as above.
        has_quality: Whether it has one.
        check_end: Raises ValueError for a file that ``parse_header`` accepts, and that is truncated
            or has several images.
        is_lossy: Tells whether a file was compressed with loss.
    """

    format: ImageFormat | Literal["image"]
    media_type: str
    depths: tuple[int, ...]
    has_alpha: bool
    has_gray: bool
    max_side: int | None
    pixels_a_byte: int | None
    parse_header: Callable[[Buffer], ImageHeader]
    encode: Callable[[np.ndarray, int | None], bytes]
    decode: Callable[[Buffer, np.ndarray], None]
    check_end: Callable[[Buffer], None] | None = None
    is_lossy: Callable[[Buffer], bool] = lambda _: False
    has_quality: bool = False

    @property
    def is_lossless(self) -> bool:
        """Whether pixels that it encodes come back as they were."""
        return self.format not in ("JPEG", "AVIF")


def turn(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Show stored pixels (height, width, channels) upright, as a view.

    (EXIF 2.32, tag 274: 2–4 mirrored or rotated by 180°, 5–8 with rows and columns exchanged.)
    """
    if orientation > 4:  # noqa: PLR2004 - EXIF's, see above
        pixels = pixels.swapaxes(0, 1)
    upside_down = orientation in (3, 4, 7, 8)
    mirrored = orientation in (2, 3, 6, 7)
    return pixels[:: -1 if upside_down else 1, :: -1 if mirrored else 1]


def _encode_jpeg(pixels: np.ndarray, quality: int | None) -> bytes:
    import simplejpeg

    is_gray = pixels.shape[2] == _GRAY
    return simplejpeg.encode_jpeg(
        pixels,
        quality=_JPEG_QUALITY if quality is None else quality,
        colorspace="GRAY" if is_gray else "RGB",
        colorsubsampling="Gray" if is_gray else "444" if quality is None else "420",
    )


def _decode_jpeg(sample: Buffer, pixels: np.ndarray) -> None:
    import simplejpeg

    colorspace = _JPEG_COLOURS[pixels.shape[2]]
    decoded = simplejpeg.decode_jpeg(sample, colorspace=colorspace, buffer=pixels)
    _check_shape(decoded, pixels)


def _encoder(name: str, **options: Any) -> Callable[[np.ndarray, int | None], bytes]:
    def encode(pixels: np.ndarray, quality: int | None) -> bytes:
        plain = pixels[:, :, 0] if pixels.shape[2] == _GRAY else pixels
        packed = np.empty(plain.shape, plain.dtype)
        if plain.strides != packed.strides:  # an axis of 1 is contiguous to NumPy, whatever its own
            packed[...] = plain
            plain = packed
        library: Any = _imagecodecs(name)
        lossy: dict[str, Any] = {} if quality is None else {"level": quality}
        if quality is not None and "lossless" in options:
            lossy["lossless"] = False
        return bytes(getattr(library, f"{name}_encode")(plain, **{**options, **lossy}))

    return encode


def _decoder(name: str) -> Callable[[Buffer, np.ndarray], None]:
    def decode(sample: Buffer, pixels: np.ndarray) -> None:
        library: Any = _imagecodecs(name)
        error: type[Exception] = getattr(library, f"{name.capitalize()}Error", ValueError)
        try:
            decoded: np.ndarray = getattr(library, f"{name}_decode")(sample)
        except (error, RuntimeError, IndexError, TypeError) as damage:
            raise ValueError(str(damage) or "its data are damaged") from damage
        _fill(pixels, decoded if decoded.ndim > _PLANE_NDIM else decoded[:, :, None])

    return decode


def _encode_png(pixels: np.ndarray, quality: int | None) -> bytes:
    del quality  # it has none
    return encode_rows(pixels, _imagecodecs("png"))


_decode_any_png = _decoder("png")


def _decode_png(sample: Buffer, pixels: np.ndarray) -> None:
    if not decode_rows(sample, pixels, _imagecodecs("png")):
        _decode_any_png(sample, pixels)


def _fill(pixels: np.ndarray, decoded: np.ndarray) -> None:
    """Copy decoded channels to a tensor's: gray to each colour, opaque without an alpha."""
    if decoded.dtype != pixels.dtype:
        raise ValueError(f"it is {decoded.dtype}, recorded as {pixels.dtype}")
    stored, wanted = decoded.shape[2], pixels.shape[2]
    is_known = stored == wanted or (stored, wanted) in {
        (_GRAY, _COLOUR),
        (_GRAY, _COLOUR_ALPHA),
        (_GRAY_ALPHA, _COLOUR_ALPHA),
        (_COLOUR, _COLOUR_ALPHA),
    }
    if decoded.shape[:2] != pixels.shape[:2] or not is_known:
        _check_shape(decoded, pixels)
    if stored == wanted:
        pixels[:] = decoded
        return
    colours = min(wanted, _COLOUR)
    pixels[:, :, :colours] = decoded[:, :, : _GRAY if stored <= _GRAY_ALPHA else _COLOUR]
    if wanted == _COLOUR_ALPHA:
        opaque = np.iinfo(pixels.dtype).max
        pixels[:, :, _COLOUR] = decoded[:, :, 1] if stored == _GRAY_ALPHA else opaque


def _parse_any_header(sample: Buffer) -> ImageHeader:
    return CODECS[_detected_codec(sample)].parse_header(sample)


def _check_any_end(sample: Buffer) -> None:
    check_end = CODECS[_detected_codec(sample)].check_end
    if check_end is not None:
        check_end(sample)


def _decode_any(sample: Buffer, pixels: np.ndarray) -> None:
    if is_cmyk_jpeg(sample):
        _decode_cmyk(sample, pixels)
    else:
        CODECS[_detected_codec(sample)].decode(sample, pixels)


def is_cmyk_jpeg(sample: Buffer) -> bool:
    """Whether an encoded image is a JPEG of four inks, whose decoder makes no RGB of them.

    Raises:
        ValueError: It is a JPEG whose header is damaged.
    """
    return codec_of(sample) == "jpeg" and parse_jpeg_header(sample).channels == _CMYK


def _decode_cmyk(sample: Buffer, pixels: np.ndarray) -> None:
    """Decode four inks, which JPEG files store inverted (Adobe's convention), to RGB or RGBA."""
    import simplejpeg

    inks = simplejpeg.decode_jpeg(sample, colorspace="CMYK")
    _check_shape(inks[:, :, :1], pixels[:, :, :1])
    light = inks.astype(np.uint16)  # inverted: 255 is no ink
    white = np.uint16(255)
    product = (white - light[:, :, :_COLOUR]) * light[:, :, _COLOUR:] + np.uint16(128)
    shade = ((product >> 8) + product) >> 8  # ink × light ÷ 255, rounded
    pixels[:, :, :_COLOUR] = light[:, :, _COLOUR:] - shade
    if pixels.shape[2] == _COLOUR_ALPHA:
        pixels[:, :, _COLOUR] = white


def _detected_codec(sample: Buffer) -> ImageCodec:
    codec = codec_of(sample)
    if codec is None:
        raise ValueError("its first bytes are not an image's")
    return codec


def _check_shape(decoded: np.ndarray, pixels: np.ndarray) -> None:
    if decoded.shape != pixels.shape:
        raise ValueError(f"it is {decoded.shape}, recorded as {pixels.shape}")


def _imagecodecs(name: str) -> ModuleType:
    try:
        import imagecodecs
    except ImportError as error:
        raise missing_extra(f"coding {name.upper()} images", "media") from error
    return imagecodecs


# Of one format each; ANY_CODEC below takes them all.
CODECS: Final[dict[ImageCodec, PixelCodec]] = {
    "jpeg": PixelCodec(
        format="JPEG",
        media_type="image/jpeg",
        depths=(8,),
        has_alpha=False,
        has_gray=True,
        max_side=65_535,  # two bytes in the frame header
        pixels_a_byte=1024,  # a block of 8 × 8 has a bit at least; and as much again
        parse_header=parse_jpeg_header,
        encode=_encode_jpeg,
        decode=_decode_jpeg,
        check_end=check_jpeg_end,
        is_lossy=lambda _: True,
        has_quality=True,
    ),
    "png": PixelCodec(
        format="PNG",
        media_type="image/png",
        depths=(8, 16),
        has_alpha=True,
        has_gray=True,
        max_side=None,
        pixels_a_byte=8 * 1100,  # of one bit each, inflated 1,032 times
        parse_header=parse_png_header,
        encode=_encode_png,
        decode=_decode_png,
        check_end=check_png_end,
    ),
    "webp": PixelCodec(
        format="WebP",
        media_type="image/webp",
        depths=(8,),
        has_alpha=True,
        has_gray=False,
        max_side=16_383,  # 14 bits
        pixels_a_byte=None,
        parse_header=parse_webp_header,
        encode=_encoder("webp", lossless=True),
        decode=_decoder("webp"),
        is_lossy=is_lossy_webp,
        has_quality=True,
    ),
    "avif": PixelCodec(
        format="AVIF",
        media_type="image/avif",
        depths=(8,),
        has_alpha=True,
        has_gray=True,
        max_side=65_536,
        pixels_a_byte=None,
        parse_header=parse_avif_header,
        encode=_encoder("avif", level=_AVIF_QUALITY, speed=_AVIF_SPEED, pixelformat="444"),
        decode=_decoder("avif"),
        is_lossy=lambda _: True,
        has_quality=True,
    ),
    "jpeg2000": PixelCodec(
        format="JPEG 2000",
        media_type="image/jp2",
        depths=(8, 16),
        has_alpha=True,
        has_gray=True,
        max_side=None,
        pixels_a_byte=None,
        parse_header=parse_jpeg2000_header,
        encode=_encoder("jpeg2k", level=0, codecformat="jp2"),
        decode=_decoder("jpeg2k"),
        check_end=check_jpeg2000_end,
        is_lossy=is_lossy_jpeg2000,
    ),
    "tiff": PixelCodec(
        format="TIFF",
        media_type="image/tiff",
        depths=(8, 16),
        has_alpha=True,
        has_gray=True,
        max_side=None,
        pixels_a_byte=None,
        parse_header=parse_tiff_header,
        encode=_encoder("tiff", compression=_DEFLATE),
        decode=_decoder("tiff"),
        check_end=check_tiff_end,
        is_lossy=is_lossy_tiff,
    ),
}

ANY_CODEC: Final = PixelCodec(
    format="image",
    media_type="image/*",
    depths=(8, 16),
    has_alpha=True,
    has_gray=True,
    max_side=None,
    pixels_a_byte=None,
    parse_header=_parse_any_header,
    encode=_encode_png,
    decode=_decode_any,
    check_end=_check_any_end,
)

_BY_FORMAT: Final[dict[str | None, ImageCodec]] = {
    codec.format: name for name, codec in CODECS.items()
}


def too_many_pixels(codec: ImageCodec, nbytes: int, height: int, width: int) -> str | None:
    """Return why a file of `nbytes` cannot be an image of that size; None where it can.

    Decoding allocates the size in the header, so it is checked before.
    """
    known = None if codec == "any" else CODECS[codec].pixels_a_byte
    limit = MAX_PIXELS if known is None else min(MAX_PIXELS, known * nbytes)
    if height * width <= limit:
        return None
    return f"{width:,} × {height:,} pixels do not fit its size: at most {limit:,} are possible"


def codec_of(sample: Buffer) -> ImageCodec | None:
    """Return the codec of an encoded image by its first bytes; None if unknown."""
    return _BY_FORMAT.get(image_format(sample))
