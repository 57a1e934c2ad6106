"""One sample, and thumbnails of many.

Only types that are nothing but pictures, sound, film or text are served as themselves; everything
else leaves as an ``application/octet-stream`` attachment. Samples are other people's bytes:
whatever the type, ``nosniff`` and a sandboxing policy keep a browser from running any of it.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Annotated, TypeGuard

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from tensorlake.errors import CorruptSampleError, TensorlakeError
from tensorlake.types import EncodedColumn
from tensorlake_server.caching import cache_headers, etag_of, not_modified
from tensorlake_server.columns import (
    TypedColumn,
    check_names,
    identify_samples,
    named_positions,
    read_column,
)
from tensorlake_server.frames import FRAMES_TYPE, Frame, FrameKind
from tensorlake_server.kept import Kept
from tensorlake_server.masks import MASK_KINDS, render_mask
from tensorlake_server.messages import MAX_THUMBNAIL_SIDE, ThumbnailsRequest
from tensorlake_server.orientation import without_turn
from tensorlake_server.pictures import (
    PASSIVE_IMAGES,
    Picture,
    is_drawable,
    render_array,
    render_sample,
    sniff,
)
from tensorlake_server.problems import Problem
from tensorlake_server.request import DatasetPath, TensorPath, lake_of, thumbnails_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tensorlake_server.lake import Readable

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["samples"])

ROWS_AT_ONCE = 8  # read together: few enough that the first thumbnails leave early

SAMPLE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Accept-Ranges": "bytes",
}
ATTACHMENT = {"Content-Disposition": 'attachment; filename="sample.bin"'}
OCTETS = "application/octet-stream"
PASSIVE_FAMILIES = ("audio/", "video/", "model/")


@router.get("/{name}/tensors/{tensor}/{row}", response_class=Response)
def read_sample(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    version: Annotated[str | None, Query(description="main when left out")] = None,
    view: Annotated[str | None, Query(description="`row` is a position in its result")] = None,
    digest: Annotated[str | None, Query(description="the version must have it")] = None,
    size: Annotated[int | None, Query(ge=16, le=MAX_THUMBNAIL_SIDE)] = None,
    raw: Annotated[str | None, Query(description="the stored bytes, to download")] = None,
) -> Response:
    """Read one sample: a picture for browsers, the stored bytes with ``?raw``."""
    readable = lake_of(request).readable(name, version=version, view=view, digest=digest)
    positions = named_positions(readable, [row])
    (sample,) = identify_samples(readable, tensor, positions, view=view)
    etag = etag_of("sample", name, sample, size, raw is not None)
    headers = {**cache_headers(version if view is None else None, etag), **SAMPLE_HEADERS}
    known = not_modified(request, headers)
    if known is not None:
        return known
    read = read_column(readable, tensor, positions)
    if read.is_null(0):
        raise Problem(404, "null-sample", f"row {row} of {tensor!r} is NULL and has no sample")
    body, media_type = _represent(read, size=size, is_raw=raw is not None)
    if media_type == OCTETS:
        headers |= ATTACHMENT
    return _ranged(request, body, headers, media_type)


@router.post(
    "/{name}/thumbnails",
    response_class=Response,
    responses={200: {"content": {FRAMES_TYPE: {}}}},
)
def read_thumbnails(
    request: Request, name: DatasetPath, asked: ThumbnailsRequest
) -> StreamingResponse:
    """Make many thumbnails in one framed body (frames.py draws it), each sent as soon as made."""
    readable = lake_of(request).readable(name, version=asked.version, view=asked.view)
    check_names(readable, [asked.tensor])
    headers = {"Cache-Control": "private, no-store", **SAMPLE_HEADERS}
    frames = _frames(readable, asked, thumbnails_of(request))
    return StreamingResponse(frames, 200, headers, FRAMES_TYPE)


def _frames(
    readable: Readable, asked: ThumbnailsRequest, kept: Kept[tuple[str, int], Frame]
) -> Iterator[bytes]:
    for start in range(0, len(asked.rows), ROWS_AT_ONCE):
        rows = asked.rows[start : start + ROWS_AT_ONCE]
        try:
            frames = _draw_rows(readable, asked, named_positions(readable, rows), kept)
        except TensorlakeError as error:  # said in the frames: the answer has begun already
            frames = [Frame.of_error(error)] * len(rows)
        yield b"".join(frame.encode(start + i) for i, frame in enumerate(frames))


def _draw_rows(
    readable: Readable,
    asked: ThumbnailsRequest,
    rows: npt.NDArray[np.int64],
    kept: Kept[tuple[str, int], Frame],
) -> list[Frame]:
    """Draw what is not kept; samples are read together, and only those that must be."""
    samples = identify_samples(readable, asked.tensor, rows, view=asked.view)
    found = {sample: kept.get((sample, asked.size)) for sample in samples}
    missing = [i for i, sample in enumerate(samples) if found[sample] is None]
    if missing:
        read = read_column(readable, asked.tensor, rows[missing])
        for position, i in enumerate(missing):
            frame = _frame(read, position, asked.size)
            found[samples[i]] = frame
            kept.put((samples[i], asked.size), frame)
    return [frame for sample in samples if (frame := found[sample]) is not None]


def _frame(read: TypedColumn, position: int, size: int) -> Frame:
    if read.is_null(position):
        return Frame(FrameKind.NONE)
    try:
        picture = _draw(read, position, size)
    except CorruptSampleError as error:
        return Frame.of_error(error)
    kind = FrameKind.PNG if picture.media_type == "image/png" else FrameKind.JPEG
    return Frame(kind, picture.data, picture.width, picture.height)


def _draw(read: TypedColumn, i: int, size: int) -> Picture:
    if read.type.drawn_as in MASK_KINDS:
        return render_mask(read.type, _decoded(read, i), size=size)
    if isinstance(read.column, EncodedColumn) and not _is_drawn_by_type(read, i):
        return render_sample(read.column.samples[i], size=size)
    array = _decoded(read, i)
    if not is_drawable(array.dtype, array.shape):
        raise CorruptSampleError(
            f"an array {array.dtype} {array.shape} is no picture (uint8 or uint16, h × w [× c])",
            actual=array.shape,
        )
    return render_array(array, size=size)


def _represent(read: TypedColumn, *, size: int | None, is_raw: bool) -> tuple[bytes, str]:
    """Choose what a sample is sent as: (bytes, media type)."""
    kind = read.type.query_kind
    if read.type.drawn_as in MASK_KINDS and not is_raw:
        picture = render_mask(read.type, _decoded(read, 0), size=size)
        return picture.data, picture.media_type
    if isinstance(read.column, EncodedColumn) and (is_raw or not _is_drawn_by_type(read, 0)):
        sample = bytes(read.column.samples[0])
        if is_raw:
            return sample, OCTETS
        if kind == "text":
            return sample, "text/plain; charset=utf-8"
        if kind == "json":
            return sample, "application/json"
        actual = sniff(sample)
        if size is None and actual in PASSIVE_IMAGES:
            shown = without_turn(sample) if actual == "image/jpeg" else sample
            return shown, str(actual)
        if actual is not None:
            picture = render_sample(sample, size=size)
            return picture.data, picture.media_type
        declared = read.type.media_type
        return sample, declared if _is_passive(declared) else OCTETS
    array = _decoded(read, 0)
    if not is_raw and is_drawable(array.dtype, array.shape):
        picture = render_array(array, size=size)
        return picture.data, picture.media_type
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue(), OCTETS


def _is_drawn_by_type(read: TypedColumn, i: int) -> bool:
    """Whether a sample is a picture in a form that only its type, a plug-in's, can decode."""
    assert isinstance(read.column, EncodedColumn)
    is_picture = read.type.is_media and read.type.drawn_as == "image"
    return is_picture and sniff(read.column.samples[i]) is None


def _decoded(read: TypedColumn, i: int) -> np.ndarray:
    if isinstance(read.column, EncodedColumn):
        return np.asarray(read.type.decode_sample(read.column.samples[i]))
    return np.asarray(read.type.present_one(read.column, i))


def _is_passive(media_type: str | None) -> TypeGuard[str]:
    """Whether a declared type is one of which no browser runs anything, whatever the bytes are."""
    return media_type is not None and media_type.startswith(PASSIVE_FAMILIES)


def _ranged(request: Request, body: bytes, headers: dict[str, str], media_type: str) -> Response:
    """Answer a request for one range of bytes (RFC 9110); several at once get the whole."""
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", "").strip())
    if asked is None or asked[0] == "bytes=-":
        return Response(body, 200, headers, media_type)
    first, last = asked[1], asked[2]
    start = int(first) if first else max(0, len(body) - int(last))
    stop = min(len(body), int(last) + 1) if first and last else len(body)
    if start >= stop:
        raise Problem(
            416,
            "range-not-satisfiable",
            f"the sample has {len(body):,} bytes; {asked[0]!r} names none of them",
            {"Content-Range": f"bytes */{len(body)}"},
        )
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
    return Response(body[start:stop], 206, headers, media_type)
