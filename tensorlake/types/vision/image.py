"""Image: images stored as ingested, read as arrays (height, width, channels).

A file or bytes whose format is the tensor's is stored unchanged; only its header is read, for the
shape. The codec "any" accepts each of the others, as folders mix them, and detects each sample's
codec from its first bytes. Pixels (arrays, PIL images) are encoded by the codec
(`vision/codecs.py`). Nothing is converted silently: another format, depth, an alpha channel or
another number of channels raises an error with advice.

    mode None or "RGB"            read as (H, W, 3); gray files expand to three equal channels
    mode "L"                      read as (H, W, 1); only gray files and arrays (H, W) or (H, W, 1)
    mode "RGBA"                   read as (H, W, 4); not codec "jpeg"; with "any", JPEG is opaque
    mode "L16", "RGB16", "RGBA16" the same with 16 bits per channel, uint16: PNG, TIFF, JPEG 2000

A camera's images may have an EXIF orientation. They are read as stored, unless the type has
``upright=True``: then `decode`, shapes, boxes and everything downstream refer to the rotated image;
the stored bytes stay the same.

A truncated file is rejected at ingestion, by its header and its last bytes (`vision/image_end.py`);
damage in the middle is an error when it is decoded, never half an image.

With ``tiles`` an image is stored as tiles, each encoded by the codec, and a region reads only those
over it. Files are then decoded at ingestion, of any codec, and not kept.

With ``max_side`` larger images are scaled down when they are stored (`vision/image_scale.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError, shown
from tensorlake.types.base.base import check_default
from tensorlake.types.base.casting import cast_array, to_array
from tensorlake.types.base.column import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    offsets_of,
    sizes_of,
)
from tensorlake.types.base.errors import (
    Place,
    damaged_before,
    describe_value,
    is_one_of,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import given_bytes
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.parts import MemorySample, read_request
from tensorlake.types.tiles import TiledSamples, TileHead, tile_map, tiled_sample
from tensorlake.types.vision.codecs import (
    ANY_CODEC,
    CODECS,
    ImageCodec,
    PixelCodec,
    codec_of,
    is_cmyk_jpeg,
    too_many_pixels,
    turn,
)
from tensorlake.types.vision.frames import frames_of, has_frames
from tensorlake.types.vision.headers.header import ImageHeader
from tensorlake.types.vision.image_file import (
    CHANNELS,
    KnownHeads,
    depth_of,
    file_name,
    shape_hint,
)
from tensorlake.types.vision.image_scale import check_scale, scaled
from tensorlake.types.vision.image_tiles import ImageTiles, parse_image_tiles, pixels_of_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.base import SampleType
    from tensorlake.types.base.column import SampleMap
    from tensorlake.types.tiles import TileCodec

__all__ = ["Image", "ImageCodec", "ImageMode"]

ImageMode = Literal["RGB", "L", "RGBA", "RGB16", "L16", "RGBA16"]

_GRAY, _COLOUR, _COLOUR_ALPHA, _CMYK = 1, 3, 4, 4
_EXCHANGED = 5  # from this EXIF orientation on, rows are shown as columns
_PLANE_NDIM, _IMAGE_NDIM = 2, 3


@dataclass(frozen=True, slots=True)
class Image(Media, TiledSamples):
    """Images, stored as ingested.

    >>> Image(codec="jpeg").describe(), Image("png", mode="L").shape, Image("tiff", "L16").dtype
    ('Image(jpeg)', (None, None, 1), dtype('uint16'))

    With ``tiles`` each image is stored as tiles of that height and width: a region reads only the
    tiles over it. Meant for images of many megapixels.

    >>> Image("png", tiles=(512, 512)).describe()
    'Image(png, tiles=(512, 512))'

    With ``max_side`` larger images are scaled down when they are stored; a file that fits is kept.

    >>> Image("jpeg", max_side=512, quality=90).describe()
    'Image(jpeg, max_side=512, quality=90)'

    Attributes:
        codec: "jpeg", "png", "webp", "avif", "jpeg2000" or "tiff"; "any" for all of these.
        mode: Channels and depth of the pixels, see above.
        upright: Whether images are rotated by their EXIF orientation when they are read.
        tiles: Height and width of a tile; None where images are stored whole.
        max_side: The longest side that is stored, in pixels; None: images keep their size.
        quality: 1 to 100, of what is encoded as "jpeg" (4:2:0), "webp" (then with loss) or "avif";
            None: as near to lossless as the codec is used here (`vision/codecs.py`).
    """

    kind: ClassVar[str] = "image"

    codec: ImageCodec = "jpeg"
    mode: ImageMode | None = None
    upright: bool = False
    tiles: tuple[int, int] | None = field(default=None, kw_only=True)
    max_side: int | None = field(default=None, kw_only=True)
    quality: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not is_one_of(self.codec, (*CODECS, "any")):
            known = ", ".join(map(repr, (*CODECS, "any")))
            raise SchemaError(
                f"{shown(self.codec)} is not a codec of images\nuse one of {known}",
                actual=self.codec,
            )
        possible = [mode for mode in CHANNELS if self._can_be(mode)]
        if self.mode is not None and not is_one_of(self.mode, filter(None, possible)):
            raise SchemaError(
                f"{shown(self.mode)} is not a mode of {self.codec} images"
                f"\nuse one of {', '.join(map(repr, possible))}",
                actual=self.mode,
            )
        if self.tiles is not None:
            tiles = parse_image_tiles(self.tiles, self.codec, self.shape, self.dtype)
            object.__setattr__(self, "tiles", tiles)
        check_scale(
            self._codec,
            self.codec,
            max_side=self.max_side,
            quality=self.quality,
            has_tiles=self.tiles is not None,
        )
        check_default(self)

    def _can_be(self, mode: str | None) -> bool:
        codec, channels = self._codec, CHANNELS[mode]
        return (
            depth_of(mode) in codec.depths
            and (codec.has_alpha or channels != _COLOUR_ALPHA)
            and (codec.has_gray or channels != _GRAY)
        )

    @property
    def _codec(self) -> PixelCodec:
        return ANY_CODEC if self.codec == "any" else CODECS[self.codec]

    @property
    def _channels(self) -> int:
        return CHANNELS[self.mode]

    @property
    def dtype(self) -> np.dtype:
        """Decoded pixels are uint8, or uint16 in a mode of 16 bits."""
        return np.dtype(f"uint{depth_of(self.mode)}")

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Height, width, channels."""
        return (None, None, self._channels)

    @property
    def keeps_files(self) -> bool:
        """Files are stored as they are, unless images are in tiles."""
        return self.tiles is None

    @property
    def has_parts(self) -> bool:
        """Whether images are tiles."""
        return self.tiles is not None

    @property
    def mask_tiles(self) -> tuple[int, ...] | None:
        """Those of the image."""
        return self.tiles

    @property
    def tile_codec(self) -> TileCodec:
        """The codec of the image's files."""
        return ImageTiles(self.codec, self.quality)

    @property
    def untiled(self) -> SampleType:
        """Images as PNG files, which have the pixels of any mode unchanged."""
        if self.tiles is None:
            return self
        return replace(self, codec="png", tiles=None, upright=False, quality=None)

    @property
    def media_type(self) -> str | None:
        """The codec's MIME type; for "any" see `media_type_of`; tiles have none."""
        return None if self.tiles else self._codec.media_type

    def media_type_of(self, sample: Buffer) -> str | None:
        """Return the MIME type of one stored sample, whole or not."""
        return None if self.tiles else self._codec_for(sample).media_type

    def codec_of(self, sample: Buffer) -> ImageCodec | None:
        """Return the codec of a stored sample; None where "any" detects none."""
        return codec_of(sample) if self.codec == "any" else self.codec

    def _codec_for(self, sample: Buffer) -> PixelCodec:
        codec = self.codec_of(sample)
        return self._codec if codec is None else CODECS[codec]

    def describe(self) -> str:
        """Show the codec, and the mode if given: ``Image(jpeg)``."""
        mode = f", {self.mode}" if self.mode else ""
        tiles = f", tiles={self.tiles}" if self.tiles else ""
        side = f", max_side={self.max_side}" if self.max_side else ""
        quality = f", quality={self.quality}" if self.quality else ""
        upright = ", upright" if self.upright else ""
        return f"Image({self.codec}{mode}{upright}{tiles}{side}{quality})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, PIL images, and arrays of pixels."""
        if self.tiles is not None:
            return self._convert_tiled(samples, place)
        encoded: list[Buffer] = []
        shapes: list[tuple[int, ...]] = []
        codec, heads = self._codec, KnownHeads(self.codec, self.mode)
        for position, sample in enumerate(samples):
            is_bytes = type(sample) is bytes
            content = sample if is_bytes else given_bytes(sample, place, position)
            if content is None:
                pixels = scaled(self._pixels(sample, place, position), self.max_side)
                encoded.append(codec.encode(pixels, self.quality))
                shapes.append(pixels.shape)
                continue
            header = heads.check(content, sample=sample, place=place, position=position)
            shape = self.shape_of(header)
            if self.max_side is not None and max(shape[:2]) > self.max_side:
                content, shape = self._scaled_file(content, shape, sample, place, position)
            encoded.append(content)
            shapes.append(shape)
        return EncodedColumn(encoded, np.array(shapes, dtype=np.int64).reshape(-1, 3))

    def _scaled_file(
        self,
        content: Buffer,
        shape: tuple[int, int, int],
        sample: Any,
        place: Place,
        position: int,
    ) -> tuple[bytes, tuple[int, int, int]]:
        """Return a file scaled down, encoded by its own codec, and its shape."""
        pixels = np.empty(shape, self.dtype)
        try:
            self._decode_one(content, pixels)
        except ValueError as error:
            reason = (
                f"cannot take {file_name(sample) or 'a sample '}({len(content):,} bytes), to be"
            )
            reason += f" scaled to max_side={self.max_side}: its pixels cannot be decoded: {error}"
            raise unreadable(place, position, reason) from error
        pixels = scaled(pixels, self.max_side)
        codec = self._codec_for(content)
        if self._channels == _COLOUR_ALPHA and not codec.has_alpha:  # opaque, where images differ
            codec = self._codec
        return codec.encode(pixels, self.quality), (*pixels.shape[:2], self._channels)

    def _convert_tiled(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        assert self.tiles is not None
        whole = replace(self, codec="any", tiles=None, quality=None)
        encoded: list[Buffer] = []
        maps: list[SampleMap | None] = []
        shapes: list[tuple[int, ...]] = []
        for position, sample in enumerate(samples):
            content = given_bytes(sample, place, position)
            pixels = (
                self._pixels(sample, place, position)
                if content is None
                else pixels_of_file(content, whole, self._codec, sample, place, position)
            )
            tiles = (*self.tiles, self._channels)
            one, own = tiled_sample(pixels, tiles, self.tile_codec, place, position, shrink="mean")
            encoded.append(one)
            maps.append(own)
            shapes.append(pixels.shape)
        recorded = np.array(shapes, dtype=np.int64).reshape(-1, 3)
        return EncodedColumn(encoded, recorded, None, maps)

    def items_in(self, sample: Any, place: Place, position: int) -> list[Any] | None:
        """Return the frames of a file, encoded; of a file of one image the file."""
        content = given_bytes(sample, place, position)
        if content is None:
            return None
        name = file_name(sample) or f"a sample ({len(content):,} bytes) "
        row = position if place.positions is None else int(place.positions[position])
        of_frame = replace(place, declared=self, positions=np.array([row]))
        try:
            if not has_frames(content):
                return [content]
            if not self._codec.is_lossless or self.quality is not None:
                hint = f'use tl.Sequence(tl.Image("png")): {self.codec} would change their pixels'
                reason = f"stores {self.codec}, and {name}has frames to be encoded"
                raise unreadable(place, position, reason, hint=hint)
            frames = frames_of(content, self._channels)
            parts = [self.convert_values([frame], of_frame) for frame in frames]
        except InvalidInputError:
            raise
        except ValueError as error:
            reason = f"cannot take {name.strip()}, whose frames cannot be read: {error}"
            raise unreadable(place, position, reason) from error
        return [one for part in parts for one in cast("EncodedColumn", part).samples]

    def shape_of(self, header: ImageHeader) -> tuple[int, int, int]:
        """Return the shape with which an image with this header is read."""
        height, width = header.height, header.width
        if self.upright and header.orientation >= _EXCHANGED:
            height, width = width, height
        return height, width, self._channels

    def reading(self, sample: Buffer) -> Image:
        """Return the type that reads one sample: a mix has images of several codecs.

        Raises:
            ValueError: Its first bytes are of no codec known here.
        """
        codec = codec_of(sample)
        if codec is None:
            raise ValueError("its first bytes are not an image's")
        return self if self.codec in (codec, "any") else replace(self, codec="any", quality=None)

    def parse_shape(self, sample: Buffer) -> tuple[int, int, int]:
        """Read the header of an encoded image, and return the shape with which it is read.

        Raises:
            ValueError: It is damaged, or of another codec.
        """
        if self.tiles:
            height, width, channels = TileHead.parse(tile_map(sample).head).shape
            return height, width, channels
        return self.shape_of(self._codec.parse_header(sample))

    def head_of(self, sample_map: SampleMap, *, tensor: str, row: int) -> TileHead:
        """Read the head of an image in tiles.

        Raises:
            CorruptSampleError: It is damaged, or not one of the type.
        """
        head = super(Image, self).head_of(sample_map, tensor=tensor, row=row)
        if (head.shape[-1], head.dtype) != (self._channels, self.dtype):
            why = f"it has tiles of {head.dtype} and of the shape {head.shape}"
            raise self._corrupt(why, tensor, row)
        return head

    def untile(self, column: Column, *, tensor: str = "") -> Column:
        """Return images in tiles as PNG files; others unchanged.

        Raises:
            CorruptSampleError: A tile cannot be decoded.
        """
        if self.tiles is None:
            return column
        assert isinstance(column, EncodedColumn)
        files: list[Buffer] = []
        for at in range(len(column)):  # one after another: they are large
            is_null = column.valid is not None and not column.valid[at]
            source = None if is_null else MemorySample.of(self, column, at, tensor=tensor, row=at)
            pixels = None if source is None else np.asarray(read_request(self, source, ()))
            files.append(b"" if pixels is None else CODECS["png"].encode(pixels, None))
        return EncodedColumn(files, column.shapes, column.valid)

    def is_of_inks(self, sample: Buffer) -> bool:
        """Whether a stored sample is CMYK, which `decode` reads as RGB, and JPEG decoders do not.

        Raises:
            ValueError: Its header is damaged.
        """
        return self.codec == "any" and is_cmyk_jpeg(sample)

    def decode(
        self, column: Column, *, tensor: str, rows: Sequence[int] | np.ndarray | None = None
    ) -> Column:
        """Return the pixels, ragged (height, width, channels); NULL has no pixel.

        Raises:
            CorruptSampleError: A sample is not a whole image.
        """
        if not isinstance(column, EncodedColumn):
            return column
        if self.tiles is not None:
            return super(Image, self).decode(column, tensor=tensor, rows=rows)
        numbers = range(len(column)) if rows is None else rows
        shapes = column.shapes
        if shapes is None:
            shapes = self._parse_shapes(column, tensor, numbers)
        self._check_shapes(column, shapes, tensor, numbers)
        ends = offsets_of(sizes_of(shapes)).tolist()
        values = np.empty(ends[-1], dtype=self.dtype)
        for position, sample in enumerate(column.samples):
            if column.valid is not None and not column.valid[position]:
                continue
            shape = tuple(shapes[position].tolist())
            pixels = values[ends[position] : ends[position + 1]]
            try:
                self._decode_one(sample, pixels.reshape(shape))
            except ValueError as error:
                row = int(numbers[position])
                raise self._corrupt_file(sample, str(error), tensor, row) from error
        return RaggedColumn(values, shapes, column.valid)

    def _check_shapes(
        self,
        column: EncodedColumn,
        shapes: np.ndarray,
        tensor: str,
        rows: Sequence[int] | np.ndarray,
    ) -> None:
        """Reject recorded shapes that samples cannot have, before they are allocated."""
        pairs = zip(column.samples, shapes.tolist(), strict=True)
        for position, (sample, (height, width, channels)) in enumerate(pairs):
            codec = self.codec_of(sample) or "jpeg"  # without bytes, or unknown: no pixels
            excess = too_many_pixels(codec, len(sample), height, width)
            if excess is None and channels != self._channels:
                excess = f"it is recorded with {channels:,} channels"
            if excess is not None:
                raise self._corrupt_file(sample, excess, tensor, int(rows[position]))

    def _decode_one(self, sample: Buffer, pixels: np.ndarray) -> None:
        orientation = self._codec.parse_header(sample).orientation if self.upright else 1
        if orientation == 1:
            self._codec.decode(sample, pixels)
            return
        height, width, channels = pixels.shape
        if orientation >= _EXCHANGED:
            height, width = width, height
        stored = np.empty((height, width, channels), dtype=pixels.dtype)
        self._codec.decode(sample, stored)
        pixels[:] = turn(stored, orientation)

    def _parse_shapes(
        self, column: EncodedColumn, tensor: str, rows: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        shapes = np.zeros((len(column), 3), dtype=np.int64)
        shapes[:, 2] = self._channels
        for position, sample in enumerate(column.samples):
            if column.valid is None or column.valid[position]:
                try:
                    shapes[position] = self.parse_shape(sample)
                except ValueError as error:
                    row = int(rows[position])
                    raise self._corrupt_file(sample, str(error), tensor, row) from error
        return shapes

    def _pixels(self, sample: Any, place: Place, position: int) -> np.ndarray:
        try:
            array = to_array(sample)
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(sample)) from error
        channels = self._channels
        if array.ndim == _PLANE_NDIM and channels == _GRAY:
            array = array[:, :, None]
        if array.ndim != _IMAGE_NDIM or array.shape[2] != channels:
            has_alpha = self._can_be("RGBA")
            hint = shape_hint(sample, array.shape, channels, can_have_alpha=has_alpha)
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        limit = None if self.tiles else self._codec.max_side
        if 0 in array.shape or (limit is not None and max(array.shape) > limit):
            sides = "1 and more" if limit is None else f"1 … {limit:,}"
            hint = f"the sides of a {self.codec} are {sides}"
            raise shape_mismatch(place, position, describe_value(array), hint=hint)
        return cast_array(array, self.dtype, place, lambda _: position)

    def _corrupt_file(
        self, sample: Buffer, reason: str, tensor: str, row: int
    ) -> CorruptSampleError:
        problem = f"({len(sample):,} bytes) is not a whole {self._codec_for(sample).format}"
        return damaged_before(problem, reason, tensor, row, expected=self.codec)
