"""One sample, and thumbnails of many.

Only types that are nothing but images, sound, film or text are served as themselves; everything
else leaves as an ``application/octet-stream`` attachment. Samples are other people's bytes:
whatever the type, ``nosniff`` and a sandboxing policy keep a browser from running any of it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeGuard

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tensorlake.dataset import rowset_of
from tensorlake.errors import (
    CorruptSampleError,
    InvalidInputError,
    StorageError,
    TensorlakeError,
)
from tensorlake.types import EncodedColumn, Link, take
from tensorlake_server.bodies.columns import (
    TypedColumn,
    check_names,
    column_type,
    has_frames,
    identify_samples,
    is_read_in_parts,
    is_tiled_image,
    named_positions,
    read_column,
    read_files,
    read_handles,
)
from tensorlake_server.bodies.frames import FRAMES_TYPE, Frame, FrameKind
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.bodies.sequences import first_frame, frame_of, without_frames
from tensorlake_server.http.caching import asks_any, cache_headers, etag_of, not_modified
from tensorlake_server.http.problems import ImageTooLargeError, Problem
from tensorlake_server.http.ranges import ranged_response
from tensorlake_server.media.handles import OCTETS, VOLUME, Plane, draw_handle, file_type, plane_of
from tensorlake_server.media.images import (
    PASSIVE_IMAGES,
    EncodedImage,
    check_pixels,
    decode_deep,
    is_drawable,
    render_array,
    render_sample,
    sniff,
)
from tensorlake_server.media.masks import MASK_KINDS, render_mask
from tensorlake_server.media.orientation import without_turn
from tensorlake_server.media.tiles import pixels_of_tiles
from tensorlake_server.media.windows import Window, is_deep, parse_window, range_of, window_of
from tensorlake_server.messages.media import WindowInfo
from tensorlake_server.messages.messages import (
    MAX_THUMBNAIL_SIDE,
    ThumbnailsRequest,
)
from tensorlake_server.request.context import DatasetPath, TensorPath, lake_of, thumbnails_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tensorlake.types import SampleHandle, SampleType
    from tensorlake_server.bodies.thumbnails import Thumbnails
    from tensorlake_server.lake.lake import Readable

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["samples"], route_class=BodyRoute)

ROWS_AT_ONCE = 8  # read together: few enough that the first thumbnails leave early

SAMPLE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Accept-Ranges": "bytes",
}
ATTACHMENT = {"Content-Disposition": 'attachment; filename="sample.bin"'}
PASSIVE_FAMILIES = ("audio/", "video/", "model/")


@router.get("/{name}/tensors/{tensor}/{row}", response_class=Response)
async def read_sample(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="`row` is a position in its result")] = None,
    digest: Annotated[str | None, Query(description="the version must have it")] = None,
    size: Annotated[int | None, Query(ge=16, le=MAX_THUMBNAIL_SIDE)] = None,
    frame: Annotated[
        int | None, Query(ge=0, description="one item of a sequence, a video or a volume")
    ] = None,
    axis: Annotated[int, Query(ge=0, le=2, description="of a volume: across the frames")] = 0,
    window: Annotated[
        str | None, Query(description="of a deep image, which is then drawn: low,high, or auto")
    ] = None,
    raw: Annotated[str | None, Query(description="the stored bytes, to download")] = None,
) -> Response:
    """Read one sample: an image for browsers, the stored bytes with ``?raw``."""
    parse_window(window)
    asked = _Asked(
        name, tensor, row, version, view, digest, size, frame, axis, window, is_raw=raw is not None
    )
    drawn = _drawn_before(request, asked)
    return await run_in_threadpool(_answer, request, asked) if drawn is None else drawn


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which sample, and as what."""

    name: str
    tensor: str
    row: int
    version: str | None
    view: str | None
    digest: str | None
    size: int | None
    frame: int | None
    axis: int
    window: str | None
    is_raw: bool

    def headers(self, sample: str) -> dict[str, str]:
        """Headers of the answer with a sample of this name."""
        drawn = (self.size, self.frame, self.axis, self.window, self.is_raw)
        etag = etag_of("sample", self.name, sample, *drawn)
        version = self.version if self.view is None else None
        return {**cache_headers(version, etag), **SAMPLE_HEADERS}


def _drawn_before(request: Request, asked: _Asked) -> Response | None:
    """Answer with a thumbnail of a commit that is kept; only look-ups, for the event loop."""
    if asked.size is None or asked.is_raw or asked.view is not None or asked.version is None:
        return None
    if asked.frame is not None or asked.axis:  # of frames only the first is kept, as the thumbnail
        return None
    dataset = lake_of(request).kept(asked.name, asked.version)
    if dataset is None:
        return None
    digest = rowset_of(dataset).selection.snapshot.digest
    if asked.digest is not None and not digest.startswith(asked.digest):
        return None
    thumbnails = thumbnails_of(request)
    sample = thumbnails.name_of(digest, asked.tensor, asked.row)
    frame = None if sample is None else thumbnails.get(sample, asked.size, asked.window)
    if sample is None or frame is None or frame.media_type is None:
        return None
    headers = asked.headers(sample)
    known = not_modified(request, headers)
    return (
        ranged_response(request, frame.body, headers, frame.media_type) if known is None else known
    )


def _answer(request: Request, asked: _Asked) -> Response:
    tensor, row, size = asked.tensor, asked.row, asked.size
    readable = lake_of(request).readable(
        asked.name, version=asked.version, view=asked.view, digest=asked.digest
    )
    positions = named_positions(readable, [row])
    (sample,) = identify_samples(readable, tensor, positions, view=asked.view)
    headers = asked.headers(sample)
    known = not_modified(request, headers)
    if known is not None and not asks_any(request):  # of `*` it matters that there is one
        return known
    kind = column_type(readable, tensor)
    if is_read_in_parts(kind) and not (asked.is_raw and isinstance(kind, Link)):
        return _in_parts(request, asked, readable, positions, headers, known)
    read = (read_column if asked.is_raw else read_files)(readable, tensor, positions)
    if read.is_null(0):
        raise _is_null(tensor, row)
    if known is not None:
        return known
    if asked.frame is not None:
        read = frame_of(read, tensor, row, asked.frame)
    elif size is not None and not asked.is_raw and has_frames(read.type):
        read = frame_of(read, tensor, row, 0)
    shown = _represent(read, asked)
    if isinstance(shown, EncodedImage) and size is not None and asked.frame is None:
        thumbnails = thumbnails_of(request)
        thumbnails.put(sample, size, Frame.of_image(shown), asked.window)
        if asked.view is None:
            thumbnails.note(rowset_of(readable).selection.snapshot.digest, tensor, row, sample)
    if shown.media_type == OCTETS:
        headers |= ATTACHMENT
    return ranged_response(request, shown.data, headers, shown.media_type)


def _in_parts(
    request: Request,
    asked: _Asked,
    readable: Readable,
    positions: npt.NDArray[np.int64],
    headers: dict[str, str],
    known: Response | None,
) -> Response:
    """Answer with an image of a video or a volume, or with bytes of it; only these are read."""
    (sample,) = read_handles(readable, asked.tensor, positions)
    if sample is None:
        raise _is_null(asked.tensor, asked.row)
    if known is not None:
        return known
    kind = column_type(readable, asked.tensor)
    if asked.window is not None and not (kind.drawn_as == VOLUME or is_tiled_image(kind)):
        raise _without_window(asked, kind)
    if asked.frame is not None and is_tiled_image(kind):
        raise without_frames(asked.tensor, asked.frame, kind)
    if not asked.is_raw:
        window = parse_window(asked.window)
        plane = Plane(asked.frame, asked.axis)
        image = draw_handle(sample, size=asked.size, plane=plane, window=window)
        if image is not None:
            return ranged_response(request, image.data, headers, image.media_type)
    media_type = OCTETS if asked.is_raw else file_type(sample)
    if media_type == OCTETS:
        headers |= ATTACHMENT
    return ranged_response(request, sample, headers, media_type)


def _is_null(tensor: str, row: int) -> Problem:
    return Problem(404, "null-sample", f"row {row} of {tensor!r} is NULL and has no sample")


def _without_window(asked: _Asked, kind: SampleType) -> InvalidInputError:
    return InvalidInputError(
        f"window={asked.window} needs an image or a volume, and {asked.tensor!r} is"
        f" {kind.describe()}\nleave out window",
        tensor=asked.tensor,
    )


@router.get("/{name}/tensors/{tensor}/{row}/window", response_model=WindowInfo)
def read_window(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="`row` is a position in its result")] = None,
    digest: Annotated[str | None, Query(description="the version must have it")] = None,
) -> WindowInfo:
    """Read the window that a deep image has of its own, and its range of values."""
    readable = lake_of(request).readable(name, version=version, view=view, digest=digest)
    array = _windowed(readable, tensor, row)
    is_volume = column_type(readable, tensor).drawn_as == VOLUME  # whose planes may be a line
    is_image = array is not None and (is_volume or is_drawable(array.dtype, array.shape))
    if array is None or not (is_image and is_deep(array.dtype)):
        raise InvalidInputError(
            f"row {row} of {tensor!r} has no window: it is not a 16-bit or real image"
            "\nread it without one: GET …/tensors/{tensor}/{row}",
            tensor=tensor,
        )
    window, (least, most) = window_of(array), range_of(array)
    return WindowInfo(low=window.low, high=window.high, minimum=least, maximum=most)


def _windowed(readable: Readable, tensor: str, row: int) -> np.ndarray | None:
    """Decode the image that a window is chosen for; None for an encoded one that is not deep."""
    positions = named_positions(readable, [row])
    kind = column_type(readable, tensor)
    is_tiled = is_tiled_image(kind)
    if is_tiled or kind.drawn_as == VOLUME:
        (sample,) = read_handles(readable, tensor, positions)
        if sample is None:
            raise _is_null(tensor, row)
        return (
            pixels_of_tiles(sample, MAX_THUMBNAIL_SIDE) if is_tiled else plane_of(sample, Plane())
        )
    read = read_files(readable, tensor, positions)
    if read.is_null(0):
        raise _is_null(tensor, row)
    if has_frames(read.type):
        read = frame_of(read, tensor, row, 0)
    if isinstance(read.column, EncodedColumn) and not _is_drawn_by_type(read, 0):
        sample = read.column.samples[0]
        is_image = sniff(sample) is not None or read.type.drawn_as == "image"
        return decode_deep(sample) if is_image else None
    return _decoded(read, 0)


@router.post(
    "/{name}/thumbnails",
    response_class=Response,
    responses={200: {"content": {FRAMES_TYPE: {}}}},
)
def read_thumbnails(
    request: Request, name: DatasetPath, asked: ThumbnailsRequest
) -> StreamingResponse:
    """Make many thumbnails in one framed body (`bodies/frames.py`), each sent when made."""
    readable = lake_of(request).readable(name, version=asked.version, view=asked.view)
    check_names(readable, [asked.tensor])
    parse_window(asked.window)
    headers = {"Cache-Control": "private, no-store", **SAMPLE_HEADERS}
    frames = _frames(readable, asked, thumbnails_of(request), shown=request.app.state.shown)
    return StreamingResponse(frames, 200, headers, FRAMES_TYPE)


def _frames(
    readable: Readable, asked: ThumbnailsRequest, kept: Thumbnails, *, shown: Callable[[str], str]
) -> Iterator[bytes]:
    draw = partial(_draw_rows, readable, asked, kept, shown=shown)
    for start in range(0, len(asked.rows), ROWS_AT_ONCE):
        frames = _drawn_each(draw, asked.rows[start : start + ROWS_AT_ONCE], shown=shown)
        yield b"".join(frame.encode(start + i) for i, frame in enumerate(frames))


def _drawn_each(
    draw: Callable[[list[int]], list[Frame]], rows: list[int], *, shown: Callable[[str], str]
) -> list[Frame]:
    """Draw some rows together; if one of them cannot be read, each by itself."""
    try:
        return draw(rows)
    except TensorlakeError as error:  # sent in the frames: the response has begun
        if len(rows) == 1 or isinstance(error, StorageError):  # which each would wait for
            return [Frame.of_error(error, shown=shown)] * len(rows)
    return [frame for row in rows for frame in _drawn_each(draw, [row], shown=shown)]


def _draw_rows(
    readable: Readable,
    asked: ThumbnailsRequest,
    kept: Thumbnails,
    numbers: list[int],
    *,
    shown: Callable[[str], str],
) -> list[Frame]:
    """Draw what is not kept; samples are read together, and only those that must be."""
    rows = named_positions(readable, numbers)
    samples = identify_samples(readable, asked.tensor, rows, view=asked.view)
    found = {sample: kept.get(sample, asked.size, asked.window) for sample in samples}
    missing = [i for i, sample in enumerate(samples) if found[sample] is None]
    if missing:
        drawn = _drawn(readable, asked, rows[missing], shown=shown)
        for i, frame in zip(missing, drawn, strict=True):
            found[samples[i]] = frame
            kept.put(samples[i], asked.size, frame, asked.window)
    return [frame for sample in samples if (frame := found[sample]) is not None]


def _drawn(
    readable: Readable,
    asked: ThumbnailsRequest,
    rows: npt.NDArray[np.int64],
    *,
    shown: Callable[[str], str],
) -> Iterator[Frame]:
    if is_read_in_parts(column_type(readable, asked.tensor)):
        handles = read_handles(readable, asked.tensor, rows)
        drawings = [partial(_poster, one, asked) for one in handles]
    else:
        read = read_files(readable, asked.tensor, rows)
        drawings = [partial(_image, read, position, asked) for position in range(len(rows))]
    for draw in drawings:
        try:
            image = draw()
        except (CorruptSampleError, ImageTooLargeError) as error:
            yield Frame.of_error(error, shown=shown)
        else:
            yield Frame(FrameKind.NONE) if image is None else Frame.of_image(image)


def _poster(sample: SampleHandle | None, asked: ThumbnailsRequest) -> EncodedImage | None:
    if sample is None:
        return None
    return draw_handle(sample, size=asked.size, plane=Plane(), window=parse_window(asked.window))


def _image(read: TypedColumn, position: int, asked: ThumbnailsRequest) -> EncodedImage | None:
    if read.is_null(position):
        return None
    if has_frames(read.type):
        read, position = first_frame(read, position), 0
    return _draw(read, position, asked.size, parse_window(asked.window))


def _draw(read: TypedColumn, i: int, size: int, window: Window | None) -> EncodedImage:
    if read.type.drawn_as in MASK_KINDS:
        return render_mask(read.type, _decoded_mask(read, i), size=size)
    if isinstance(read.column, EncodedColumn) and not _is_drawn_by_type(read, i):
        return render_sample(read.column.samples[i], size=size, window=window)
    array = _decoded(read, i)
    if not is_drawable(array.dtype, array.shape):
        raise CorruptSampleError(
            f"an array {array.dtype} {array.shape} is not an image (h × w [× c] of 8 or 16 bits"
            " or real numbers)",
            actual=array.shape,
        )
    return render_array(array, size=size, window=window)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A sample that is sent as it is stored, or as an array's file."""

    media_type: str
    data: bytes


def _represent(read: TypedColumn, asked: _Asked) -> EncodedImage | _Stored:
    """Choose what a sample is sent as."""
    size, is_raw, window = asked.size, asked.is_raw, parse_window(asked.window)
    kind = read.type.query_kind
    if read.type.drawn_as in MASK_KINDS and not is_raw:
        return render_mask(read.type, _decoded_mask(read, 0), size=size)
    if isinstance(read.column, EncodedColumn) and (is_raw or not _is_drawn_by_type(read, 0)):
        sample = bytes(read.column.samples[0])
        if is_raw:
            return _Stored(OCTETS, sample)
        if kind == "text":
            return _Stored("text/plain; charset=utf-8", sample)
        if kind == "json":
            return _Stored("application/json", sample)
        actual = sniff(sample)
        if asked.window is not None and actual is None and read.type.drawn_as != "image":
            raise _without_window(asked, read.type)
        is_drawn = asked.window is not None and decode_deep(sample) is not None
        if size is None and actual in PASSIVE_IMAGES and not is_drawn:
            shown = without_turn(sample) if actual == "image/jpeg" else sample
            return _Stored(str(actual), shown)
        if actual is not None:
            return render_sample(sample, size=size, window=window)
        declared = read.type.media_type_of(sample)
        return _Stored(declared if _is_passive(declared) else OCTETS, sample)
    array = _decoded(read, 0)
    if not is_raw and is_drawable(array.dtype, array.shape):
        return render_array(array, size=size, window=window)
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return _Stored(OCTETS, out.getvalue())


def _is_drawn_by_type(read: TypedColumn, i: int) -> bool:
    """Whether a sample is an image in a form that only its type, a plug-in's, can decode."""
    assert isinstance(read.column, EncodedColumn)
    is_image = read.type.is_media and read.type.drawn_as == "image"
    return is_image and sniff(read.column.samples[i]) is None


def _decoded_mask(read: TypedColumn, i: int) -> np.ndarray:
    shapes = read.column.shapes if isinstance(read.column, EncodedColumn) else None
    if shapes is not None:  # a few bytes of run lengths may stand for any number of pixels
        *planes, height, width = shapes[i].tolist()
        check_pixels(width, height, planes=planes[0] if planes else 1)
    return _decoded(read, i)


def _decoded(read: TypedColumn, i: int) -> np.ndarray:
    if isinstance(read.column, EncodedColumn):
        return np.asarray(read.type.decode_sample(read.column.samples[i]))
    one = np.asarray(read.type.present_one(read.column, i))
    if one.dtype.hasobject:  # a value of Python's, a datetime: in a column it is NumPy's
        return np.asarray(read.type.present(take(read.column, np.array([i]))))[0]
    return one


def _is_passive(media_type: str | None) -> TypeGuard[str]:
    """Whether a declared type is one of which no browser runs anything, whatever the bytes are."""
    return media_type is not None and media_type.startswith(PASSIVE_FAMILIES)
