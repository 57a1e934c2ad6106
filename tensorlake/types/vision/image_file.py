"""Files given as images: checked by header and end, and refused where reading would change them.

A file is stored as it is, so it has to be of the tensor's codec, depth and channels. Each error has
advice: the type that would accept the file, or how to convert it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tensorlake.types.base.errors import dtype_mismatch, unreadable
from tensorlake.types.base.file import File
from tensorlake.types.vision.codecs import ANY_CODEC, CODECS, codec_of, too_many_pixels
from tensorlake.types.vision.headers.encoded import image_format, parse_jpeg_head

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.errors import Place
    from tensorlake.types.vision.codecs import ImageCodec, PixelCodec
    from tensorlake.types.vision.headers.header import ImageHeader

__all__ = ["CHANNELS", "KnownHeads", "check_image_file", "depth_of", "file_name", "shape_hint"]

CHANNELS: Final = {None: 3, "RGB": 3, "L": 1, "RGBA": 4, "RGB16": 3, "L16": 1, "RGBA16": 4}
"""Channels by the mode of images."""

_GRAY, _COLOUR_ALPHA, _CMYK = 1, 4, 4
_PLANE_NDIM, _IMAGE_NDIM = 2, 3
_JPEG_END = b"\xff\xd9"
_UNKNOWN: Final[tuple[ImageHeader | None, int]] = (None, 0)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


_HEADS_KEPT = 64
"""Heads kept of the files of a call: where each file has another, no more are tried."""


class KnownHeads:
    """Heads of JPEG files that were checked: a file that begins with one of them passes, too.

    Most files of a source are of one program and quality, and of few sizes: all before their scans
    is then the same, byte for byte, and is not parsed again.
    """

    def __init__(self, name: ImageCodec, mode: str | None) -> None:
        self._name: ImageCodec = name
        self._mode = mode
        self._heads: dict[bytes, tuple[ImageHeader, int]] = {}
        self._nbytes = self._added = 0

    def check(self, content: Buffer, *, sample: Any, place: Place, position: int) -> ImageHeader:
        """Read the header of a file, as `check_image_file` does."""
        if self._nbytes and content[-2:] == _JPEG_END:
            header, least_nbytes = self._heads.get(bytes(content[: self._nbytes]), _UNKNOWN)
            if header is not None and len(content) >= least_nbytes:
                return header
        header = check_image_file(
            content, self._name, self._mode, sample=sample, place=place, position=position
        )
        if header.format == "JPEG" and self._added < _HEADS_KEPT:
            self._add(content, header)
        return header

    def _add(self, content: Buffer, header: ImageHeader) -> None:
        self._added += 1
        _, nbytes = parse_jpeg_head(content)
        if nbytes != self._nbytes:
            self._heads, self._nbytes = {}, nbytes
        # A shorter file might promise more pixels than its bytes can hold.
        self._heads[bytes(content[:nbytes])] = header, len(content)


def check_image_file(
    content: Buffer,
    name: ImageCodec,
    mode: str | None,
    *,
    sample: Any,
    place: Place,
    position: int,
) -> ImageHeader:
    """Read the header of a file that a tensor is to store.

    Args:
        content: The file.
        name: The tensor's codec.
        mode: Its mode.
        sample: The file as it was given, for errors.
        place: Where samples are given.
        position: That of the sample among them.

    Raises:
        InvalidInputError: It is not a whole image of the codec and mode.
    """
    codec = ANY_CODEC if name == "any" else CODECS[name]
    actual = image_format(content)
    if (
        actual is not None
        and actual != codec.format
        and (codec is not ANY_CODEC or codec_of(content) is None)
    ):
        raise _foreign(actual, name, mode, sample, place, position)
    if not len(content):
        raise _not_whole(content, codec, sample, place, position, ValueError("it is empty"))
    try:
        header = codec.parse_header(content)
    except ValueError as error:
        raise _not_whole(content, codec, sample, place, position, error) from error
    own = name if codec is not ANY_CODEC else codec_of(content) or "any"
    excess = too_many_pixels(own, len(content), header.height, header.width)
    if excess is not None:
        reason = f"cannot take {file_name(sample) or 'a sample'}: {excess}"
        hint = "cut it into tiles, each a row, or store it as tl.Bytes"
        raise unreadable(place, position, reason, hint=hint)
    tiles = getattr(place.declared, "tiles", None)  # the file is decoded, and cut into them
    encoded: ImageCodec = getattr(place.declared, "codec", name) if tiles else name
    refusal = _refuse(header, encoded, mode, f", tiles={tiles}" if tiles else "")
    if refusal:
        described = f"{file_name(sample) or 'a file '}of {refusal[0]}"
        raise dtype_mismatch(place, position, described, hint=refusal[1])
    try:
        if codec.check_end is not None:
            codec.check_end(content)
    except ValueError as error:
        raise _not_whole(content, codec, sample, place, position, error) from error
    return header


def _foreign(
    actual: str,
    codec: ImageCodec,
    mode: str | None,
    sample: Any,
    place: Place,
    position: int,
) -> Exception:
    """Build the error for an image of another format, with the codec that would accept it."""
    name = file_name(sample) or "the sample "
    known = next((one for one, other in CODECS.items() if other.format == actual), None)
    encoded = "PNG" if codec == "any" else CODECS[codec].format
    advice = f"give its pixels as an array to have them encoded as {encoded}"
    if actual == "GIF":
        advice = f'{advice}, or store its frames: tl.Sequence(tl.Image("png"))'
    if known is not None:
        own = "" if mode is None else f', mode="{mode}"'
        advice = (
            f'use Image(codec="{known}"), or Image(codec="any"{own}) where images'
            f" differ (for an existing tensor: ds.alter_tensor({place.tensor!r},"
            f' codec="any")), or {advice}'
        )
    stores = "jpeg, png, webp, avif, jpeg2000 and tiff" if codec == "any" else encoded
    return unreadable(place, position, f"stores {stores}, but {name}is {actual}", hint=advice)


def _refuse(
    header: ImageHeader, codec: ImageCodec, mode: str | None, more: str
) -> tuple[str, str] | None:
    """Return why a file of this kind would have to be converted, with advice.

    Args:
        header: That of the file.
        codec: The tensor's codec, or that of its tiles.
        mode: The tensor's mode.
        more: Further arguments of the tensor's type.
    """
    depth = depth_of(mode)
    if max(header.depth, 8) != depth:  # fewer than 8 bits are read as 8, losing nothing
        has_alpha = header.has_alpha or CHANNELS[mode] == _COLOUR_ALPHA
        fitting = "RGBA" if has_alpha else "L" if header.channels == _GRAY else "RGB"
        other = f"{fitting}{'' if depth == 16 else '16'}"  # noqa: PLR2004 - bits
        is_possible = header.depth in (ANY_CODEC if codec == "any" else CODECS[codec]).depths
        advice = (
            f'use Image(codec="{codec}", mode="{other}"{more})'
            if is_possible
            else "reduce it to 8 bits"
        )
        return f"{header.depth} bits per channel", f"{advice}, or store its pixels as tl.Array"
    if header.channels == _CMYK:
        is_read = (
            (codec == "any" or bool(more)) and header.format == "JPEG" and CHANNELS[mode] != _GRAY
        )
        if is_read:
            return None
        advice = 'convert it: PIL.Image.open(path).convert("RGB")'
        if header.format == "JPEG" and not more:
            advice = f'use Image(codec="any"), which reads it as RGB, or {advice}'
        return "four channels (CMYK)", advice
    if header.has_alpha and CHANNELS[mode] != _COLOUR_ALPHA:
        other = "RGBA16" if depth == 16 else "RGBA"  # noqa: PLR2004 - bits
        advice = f'use Image(codec="{codec}", mode="{other}"{more}), or convert it to "RGB"'
        return "an alpha channel", advice
    if header.channels != _GRAY and CHANNELS[mode] == _GRAY:
        return (
            "three channels",
            "use mode=None, or convert it: PIL.Image.open(path).convert('L')",
        )
    return None


def _not_whole(
    content: Buffer,
    codec: PixelCodec,
    sample: Any,
    place: Place,
    position: int,
    error: ValueError,
) -> Exception:
    size = f"{file_name(sample) or 'a sample '}({len(content):,} bytes)"
    return unreadable(place, position, f"cannot take {size}, not a whole {codec.format}: {error}")


def file_name(sample: Any) -> str:
    """Return the name of a given file; "" for bytes."""
    if isinstance(sample, (bytes, bytearray, memoryview)):
        return ""
    return f"{str(sample.path if isinstance(sample, File) else sample)!r} "


def depth_of(mode: str | None) -> int:
    """Return the bits per channel of a mode."""
    return 16 if mode is not None and mode.endswith("16") else 8


def shape_hint(sample: Any, shape: tuple[int, ...], channels: int, *, can_have_alpha: bool) -> str:
    """Return advice for pixels of another shape than a tensor's, if it is a usual one.

    Args:
        sample: The pixels as they were given.
        shape: Their shape.
        channels: Those of the tensor.
        can_have_alpha: Whether its codec supports an alpha channel.
    """
    if len(shape) == _PLANE_NDIM:
        return 'for gray images use mode="L"'
    if len(shape) == _IMAGE_NDIM and shape[0] in _MODES and shape[2] not in _MODES:
        reorder = "permute" if hasattr(sample, "permute") else "transpose"  # torch, or NumPy
        mode = "" if shape[0] == channels else f", and use mode={_MODES[shape[0]]!r}"
        return f"channels come last, and {shape} has them first{mode}: pixels.{reorder}(1, 2, 0)"
    if len(shape) == _IMAGE_NDIM and shape[2] == _COLOUR_ALPHA and can_have_alpha:
        return 'for images with an alpha channel use mode="RGBA"'
    return ""
