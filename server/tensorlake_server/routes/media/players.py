"""Routes for players, beside the file of a sample: its rate, its outline.

They are computed from a few parts of the sample, and named by its bytes, so that a browser asks
once.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from tensorlake.errors import InvalidInputError
from tensorlake.types import (
    DicomVolume,
    MeshHandle,
    NiftiVolume,
    PointCloudHandle,
    VideoHandle,
    Waveform,
)
from tensorlake_server.bodies.arrow import NPZ_TYPE
from tensorlake_server.bodies.columns import (
    column_type,
    identify_samples,
    is_read_in_parts,
    named_positions,
    read_handles,
)
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.http.problems import Problem
from tensorlake_server.media.handles import file_type
from tensorlake_server.media.scenes import color_fields, scene_of
from tensorlake_server.media.waveforms import MOST_STRETCHES, peaks_of
from tensorlake_server.messages.media import MediaInfo, PeaksInfo
from tensorlake_server.request.context import DatasetPath, TensorPath, hold_more, lake_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types import SampleHandle
    from tensorlake_server.messages.messages import Message

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["samples"])

LAYOUT = 2  # part of ETags: raise it when an answer means something else
FULL_SCALE = 127

Version = Annotated[str | None, Query(description="main when left out")]
View = Annotated[str | None, Query(description="`row` is a position in its result")]
Digest = Annotated[str | None, Query(description="the version must have it")]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which sample, of what."""

    name: str
    tensor: str
    row: int
    version: str | None
    view: str | None
    digest: str | None

    def handle(
        self, request: Request, what: str, *options: Any
    ) -> tuple[SampleHandle, dict[str, str], Response | None]:
        """Find the sample: its handle, the headers of an answer, and the one that is known."""
        readable = lake_of(request).readable(
            self.name, version=self.version, view=self.view, digest=self.digest
        )
        kind = column_type(readable, self.tensor)
        if not is_read_in_parts(kind):
            raise InvalidInputError(
                f"{what} is of audio, videos, volumes, point clouds and meshes, and"
                f" {self.tensor!r} is {kind.describe()}"
                "\nread the sample: GET …/tensors/{tensor}/{row}",
                tensor=self.tensor,
            )
        positions = named_positions(readable, [self.row])
        (handle,) = read_handles(readable, self.tensor, positions)
        if handle is None:
            detail = f"row {self.row} of {self.tensor!r} is NULL and has no sample"
            raise Problem(404, "null-sample", detail)
        (sample,) = identify_samples(readable, self.tensor, positions, view=self.view)
        etag = etag_of(what, LAYOUT, self.name, sample, *options)
        headers = cache_headers(self.version if self.view is None else None, etag)
        return handle, headers, not_modified(request, headers)


@router.get("/{name}/tensors/{tensor}/{row}/info", response_model=MediaInfo)
def read_info(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    version: Version = None,
    view: View = None,
    digest: Digest = None,
) -> Response:
    """Describe a sample that is read in parts, from its header alone."""
    asked = _Asked(name, tensor, row, version, view, digest)
    handle, headers, known = asked.handle(request, "info")
    return known or _json(_describe(handle), headers)


@router.get("/{name}/tensors/{tensor}/{row}/peaks", response_model=PeaksInfo)
def read_peaks(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    stretches: Annotated[int, Query(ge=1, le=MOST_STRETCHES)] = 1024,
    version: Version = None,
    view: View = None,
    digest: Digest = None,
) -> Response:
    """Read the outline of a sound, for a waveform."""
    asked = _Asked(name, tensor, row, version, view, digest)
    handle, headers, known = asked.handle(request, "peaks", stretches)
    if not isinstance(handle, Waveform):
        raise InvalidInputError(
            f"peaks are of Audio, and {tensor!r} is {handle.type.describe()}", tensor=tensor
        )
    if known is not None:
        return known
    peaks = peaks_of(handle, stretches)
    info = PeaksInfo(low=_scaled(peaks.low), high=_scaled(peaks.high), is_sampled=peaks.is_sampled)
    return _json(info, headers)


@router.get(
    "/{name}/tensors/{tensor}/{row}/scene",
    response_class=Response,
    responses={200: {"content": {NPZ_TYPE: {}}}},
)
def read_scene(
    request: Request,
    name: DatasetPath,
    tensor: TensorPath,
    row: int,
    field: Annotated[str | None, Query(description="of points, instead of their colour")] = None,
    version: Version = None,
    view: View = None,
    digest: Digest = None,
) -> Response:
    """Read points or triangles: .npz of `xyz`, `origin`, `total`, and `faces`, `rgb`, `value`."""
    asked = _Asked(name, tensor, row, version, view, digest)
    handle, headers, known = asked.handle(request, "scene", field)
    if not isinstance(handle, PointCloudHandle | MeshHandle):
        raise InvalidInputError(
            f"a scene is of PointCloud or Mesh, and {tensor!r} is {handle.type.describe()}",
            tensor=tensor,
        )
    if known is not None:
        return known
    arrays = scene_of(handle, field=field).arrays()
    hold_more(request, sum(one.nbytes for one in arrays.values()))
    out = io.BytesIO()
    np.savez(out, **cast("dict[str, Any]", arrays))
    return Response(out.getvalue(), 200, headers, NPZ_TYPE)


def _describe(handle: SampleHandle) -> MediaInfo:
    known: dict[str, Any] = {}
    match handle:
        case VideoHandle():
            known = {"rate": handle.fps, "codec": handle.codec, "duration_s": handle.duration}
        case Waveform():
            known = {"rate": handle.rate, "codec": handle.codec, "duration_s": handle.duration}
        case PointCloudHandle():
            known = {"fields": color_fields(handle)}
        case MeshHandle():
            known = {"faces": handle.num_faces}
        case DicomVolume():
            known = {"spacing": _known_lengths(handle.spacing)}
        case NiftiVolume():
            known = {"spacing": _known_lengths(handle.zooms)}
        case _:
            pass
    return MediaInfo(
        media_type=file_type(handle), nbytes=handle.nbytes, shape=list(handle.shape), **known
    )


def _known_lengths(lengths: Sequence[float]) -> list[float] | None:
    three = [float(one) for one in lengths[:3]]
    return three if all(math.isfinite(one) and one > 0 for one in three) else None


def _scaled(values: np.ndarray) -> list[int]:
    return np.rint(np.nan_to_num(values).clip(-1, 1) * FULL_SCALE).astype(int).tolist()


def _json(message: Message, headers: dict[str, str]) -> Response:
    return Response(message.model_dump_json(), 200, headers, "application/json")
