"""Image: pictures kept as they came, JPEG or PNG, read as uint8 (height, width, channels).

A file or bytes whose format is the tensor's is stored unchanged; its header alone is read, for
the shape. Pixels (arrays, PIL images) are encoded by the codec. Nothing is converted silently:
another format, an alpha channel or another number of channels is refused with what to do.

    mode None or "RGB"   read as (H, W, 3); gray files expand to three equal channels
    mode "L"             read as (H, W, 1); only gray files and arrays (H, W) or (H, W, 1)
    mode "RGBA"          read as (H, W, 4); PNG only

JPEG is coded by simplejpeg, strictly: a damaged file is an error, never half a picture. PNG is
coded by Pillow. Both are imported when first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tensorlake.errors import CorruptSampleError, SchemaError, missing_extra
from tensorlake.types.base import Layout, QueryKind, SampleType, check_default
from tensorlake.types.casting import cast_array, to_array
from tensorlake.types.column import Buffer, Column, EncodedColumn, RaggedColumn, offsets_of
from tensorlake.types.file import File, given_bytes
from tensorlake.types.image_header import (
    ImageHeader,
    image_format,
    parse_jpeg_header,
    parse_png_header,
)
from tensorlake.types.rejection import (
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Image", "ImageCodec", "ImageMode"]

ImageCodec = Literal["jpeg", "png"]
ImageMode = Literal["RGB", "L", "RGBA"]

_UINT8 = np.dtype(np.uint8)
_CHANNELS = {None: 3, "RGB": 3, "L": 1, "RGBA": 4}
_JPEG_QUALITY = 95  # of arrays given as pixels: near enough to lossless for training
_JPEG_MAX_SIDE = 65_535  # two bytes in the frame header
_GRAY, _CMYK = 1, 4
_DEPTH_READ = 8
_PLANE_NDIM, _PICTURE_NDIM = 2, 3


@dataclass(frozen=True, slots=True)
class Image(SampleType):
    """Pictures, stored as JPEG or PNG.

    >>> Image(codec="jpeg").describe(), Image("png", mode="L").shape
    ('Image(jpeg)', (None, None, 1))
    """

    kind: ClassVar[str] = "image"

    codec: ImageCodec = "jpeg"
    mode: ImageMode | None = None

    def __post_init__(self) -> None:
        if self.codec not in ("jpeg", "png"):
            raise SchemaError(
                f"{self.codec!r} is not a codec of images\nuse 'jpeg' or 'png'", actual=self.codec
            )
        if self.mode not in _CHANNELS or (self.mode == "RGBA" and self.codec != "png"):
            known = "None, 'RGB', 'L'" + (", 'RGBA'" if self.codec == "png" else "")
            raise SchemaError(
                f"{self.mode!r} is not a mode of {self.codec} images\nuse one of {known}",
                actual=self.mode,
            )
        check_default(self)

    @property
    def layout(self) -> Layout:
        """Samples as they came."""
        return "encoded"

    @property
    def dtype(self) -> np.dtype:
        """Decoded pixels are uint8."""
        return _UINT8

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Height, width, channels."""
        return (None, None, _CHANNELS[self.mode])

    @property
    def query_kind(self) -> QueryKind:
        """Media: a query sees its shape and size."""
        return "media"

    @property
    def is_media(self) -> bool:
        """Pixels come by decoding."""
        return True

    @property
    def media_type(self) -> str:
        """The codec's MIME type."""
        return f"image/{self.codec}"

    def describe(self) -> str:
        """Name the codec, and the mode if given: ``Image(jpeg)``."""
        return f"Image({self.codec}{', ' + self.mode if self.mode else ''})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Take paths, bytes, files, PIL images, and arrays of pixels."""
        encoded: list[Buffer] = []
        shapes = np.empty((len(samples), 3), dtype=np.int64)
        for position, sample in enumerate(samples):
            content = given_bytes(sample, place, position)
            if content is None:
                pixels = self._pixels(sample, place, position)
                encoded.append(self._encode(pixels))
                shapes[position] = pixels.shape
            else:
                header = self._check(content, sample, place, position)
                encoded.append(content)
                shapes[position] = header.height, header.width, _CHANNELS[self.mode]
        return EncodedColumn(encoded, shapes)

    def decode(
        self, column: Column, *, tensor: str, rows: Sequence[int] | np.ndarray | None = None
    ) -> Column:
        """Return the pixels, uint8 ragged (height, width, channels); NULL has no pixel.

        Raises:
            CorruptSampleError: A sample is not a whole picture.
        """
        if not isinstance(column, EncodedColumn):
            return column
        numbers = range(len(column)) if rows is None else rows
        shapes = column.shapes
        if shapes is None:
            shapes = self._parse_shapes(column, tensor, numbers)
        ends = offsets_of(np.multiply.reduce(shapes, axis=1, dtype=np.int64)).tolist()
        values = np.empty(ends[-1], dtype=np.uint8)
        decode_one = self._decode_jpeg if self.codec == "jpeg" else self._decode_png
        for position, sample in enumerate(column.samples):
            if column.valid is not None and not column.valid[position]:
                continue
            shape = tuple(shapes[position].tolist())
            pixels = values[ends[position] : ends[position + 1]]
            try:
                decode_one(sample, pixels.reshape(shape))
            except (ValueError, OSError, SyntaxError) as error:  # Pillow raises all three
                row = int(numbers[position])
                raise self._corrupt(sample, str(error), tensor, row) from error
        return RaggedColumn(values, shapes, column.valid)

    def _parse_shapes(
        self, column: EncodedColumn, tensor: str, rows: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        parse = parse_jpeg_header if self.codec == "jpeg" else parse_png_header
        channels = _CHANNELS[self.mode]
        shapes = np.zeros((len(column), 3), dtype=np.int64)
        shapes[:, 2] = channels
        for position, sample in enumerate(column.samples):
            if column.valid is None or column.valid[position]:
                try:
                    header = parse(sample)
                except ValueError as error:
                    row = int(rows[position])
                    raise self._corrupt(sample, str(error), tensor, row) from error
                shapes[position, :2] = header.height, header.width
        return shapes

    def _check(self, content: Buffer, sample: Any, place: Place, position: int) -> ImageHeader:
        name = (
            f"{str(sample.path if isinstance(sample, File) else sample)!r} "
            if (not isinstance(sample, (bytes, bytearray, memoryview)))
            else ""
        )
        actual = image_format(content)
        wanted = self.codec.upper()
        if actual is not None and actual != wanted:
            advice = (
                f'use Image(codec="{actual.lower()}"), or ' if actual in ("JPEG", "PNG") else ""
            )
            hint = f"{advice}give its pixels as an array to have them encoded as {wanted}"
            raise unreadable(
                place,
                position,
                f"stores {wanted}, but {name or 'the sample '}is {actual}",
                hint=hint,
            )
        try:
            header = (parse_jpeg_header if wanted == "JPEG" else parse_png_header)(content)
        except ValueError as error:
            size = f"{name or 'a sample '}({len(content):,} bytes)"
            reason = f"cannot take {size}, not a whole {wanted}: {error}"
            raise unreadable(place, position, reason) from error
        refusal = self._refuse(header)
        if refusal:
            shown = f"{name or 'a file '}of {refusal[0]}"
            raise dtype_mismatch(place, position, shown, hint=refusal[1])
        return header

    def _refuse(self, header: ImageHeader) -> tuple[str, str] | None:
        """Say why a file of this kind would have to be converted, and what to do."""
        if header.depth > _DEPTH_READ:
            advice = 'reduce it to 8 bits, or store pixels: Array("uint16", (None, None, 3))'
            return f"{header.depth} bits a channel", advice
        if header.channels == _CMYK:
            return "four channels (CMYK)", 'convert it: PIL.Image.open(path).convert("RGB")'
        if header.has_alpha and self.mode != "RGBA":
            advice = 'use Image(codec="png", mode="RGBA"), or convert it to "RGB"'
            return "an alpha channel", advice
        if header.channels != _GRAY and self.mode == "L":
            return (
                "three channels",
                "use mode=None, or convert it: PIL.Image.open(path).convert('L')",
            )
        return None

    def _pixels(self, sample: Any, place: Place, position: int) -> np.ndarray:
        try:
            array = to_array(sample)
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(sample)) from error
        channels = _CHANNELS[self.mode]
        if array.ndim == _PLANE_NDIM and channels == 1:
            array = array[:, :, None]
        if array.ndim != _PICTURE_NDIM or array.shape[2] != channels:
            hint = 'for gray pictures use mode="L"' if array.ndim == _PLANE_NDIM else ""
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        if 0 in array.shape or (self.codec == "jpeg" and max(array.shape) > _JPEG_MAX_SIDE):
            sides = f"1 … {_JPEG_MAX_SIDE:,}" if self.codec == "jpeg" else "1 and more"
            hint = f"the sides of a {self.codec} are {sides}"
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        return cast_array(array, _UINT8, place, lambda _: position)

    def _encode(self, pixels: np.ndarray) -> bytes:
        if self.codec == "jpeg":
            import simplejpeg

            gray = pixels.shape[2] == _GRAY
            return simplejpeg.encode_jpeg(
                pixels,
                quality=_JPEG_QUALITY,
                colorspace="GRAY" if gray else "RGB",
                colorsubsampling="Gray" if gray else "444",
            )
        buffer = BytesIO()
        plain = pixels[:, :, 0] if pixels.shape[2] == _GRAY else pixels
        _pillow("writing").fromarray(plain).save(buffer, "PNG")
        return buffer.getvalue()

    def _decode_jpeg(self, sample: Buffer, pixels: np.ndarray) -> None:
        import simplejpeg

        colorspace = "GRAY" if self.mode == "L" else "RGB"
        decoded = simplejpeg.decode_jpeg(sample, colorspace=colorspace, buffer=pixels)
        if decoded.shape != pixels.shape:
            raise ValueError(f"it is {decoded.shape}, recorded as {pixels.shape}")

    def _decode_png(self, sample: Buffer, pixels: np.ndarray) -> None:
        with _pillow("reading").open(BytesIO(sample), formats=["PNG"]) as picture:
            if picture.size != (pixels.shape[1], pixels.shape[0]):
                raise ValueError(f"it is {picture.size}, recorded as {pixels.shape}")
            decoded = np.asarray(picture.convert(self.mode or "RGB"))
        pixels[:] = decoded.reshape(pixels.shape)

    def _corrupt(self, sample: Buffer, reason: str, tensor: str, row: int) -> CorruptSampleError:
        return CorruptSampleError(
            f"row {row} of {tensor!r} ({len(sample):,} bytes) is not a whole "
            f"{self.codec.upper()}: {reason}"
            "\n(stored checksum is right: it was damaged before ingestion). To train without it: "
            "on_error='skip'; to find all: ds.check(full=False, decode=True)",
            tensor=tensor,
            row=row,
            expected=self.codec,
            actual=reason,
        )


def _pillow(doing: str) -> Any:
    try:
        import PIL.Image
    except ImportError as error:
        raise missing_extra(f"{doing} PNG images", "media") from error
    return PIL.Image
