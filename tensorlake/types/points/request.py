"""Requests for points: some numbers of points, a level of detail, a box, some of the fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.errors import shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.region import part_of
from tensorlake.types.points.blocks import read_blocks
from tensorlake.types.points.cloud import AXES, records_of
from tensorlake.types.points.levels import LEVEL_SHARES, level_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensorlake.errors import InvalidInputError
    from tensorlake.types.base.parts import SampleParts
    from tensorlake.types.points.blocks import PointMap

__all__ = ["PointRequest", "blocks_of", "read_points", "request_of"]

_NUM_AXES = len(AXES)


@dataclass(frozen=True, slots=True, eq=False)
class PointRequest:
    """Some points of a sample.

    Attributes:
        region: Indices of points, in the order in which they are stored; () is all.
        level: Points of this level and those before it; None: of all.
        low: Least x, y and z of a box, which holds its faces; None: no box.
        high: Greatest ones.
        fields: The fields to return; None: all.
        stacked: Whether to return them as one array, float32 (points, fields).
    """

    region: tuple[Any, ...] = ()
    level: int | None = None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    fields: tuple[str, ...] | None = None
    stacked: bool = False

    @property
    def is_all(self) -> bool:
        """Whether the region leaves nothing out."""
        return not self.region or (len(self.region) == 1 and self.region[0] is Ellipsis)


def request_of(request: Any) -> PointRequest:
    """Return what indices in brackets, or a request, ask for."""
    return request if isinstance(request, PointRequest) else PointRequest(tuple(request))


def blocks_of(
    known: PointMap, request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> np.ndarray:
    """Return the numbers of the blocks that a request needs, ascending.

    Raises:
        InvalidInputError: There are no such points.
    """
    stop = known.blocks_before(_count(known, request, refused))
    box = _box(request, refused)
    if box is not None:
        return known.blocks_in(*box, stop)
    if request.is_all:
        return np.arange(stop)
    wanted = _numbers(known, request, refused)
    if len(wanted) > known.points:  # repeated points: each once
        is_wanted = np.zeros(known.points, np.bool_)
        is_wanted[wanted] = True
        wanted = np.flatnonzero(is_wanted)
    return np.unique(np.searchsorted(known.starts, wanted, side="right") - 1)


def read_points(
    known: PointMap,
    sample: SampleParts,
    request: PointRequest,
    refused: Callable[[str], InvalidInputError],
) -> np.ndarray:
    """Decode what a request asks for.

    Returns:
        A structured array (points,), or float32 (points, fields), whose x, y and z are relative to
        the sample's origin.

    Raises:
        InvalidInputError: There are no such points or fields.
        ValueError: A block cannot be decoded.
    """
    names = _names(known, request, refused)
    blocks = blocks_of(known, request, refused)
    box = _box(request, refused)
    needed = names if box is None else tuple(dict.fromkeys((*names, *AXES)))
    columns = dict(zip(needed, read_blocks(sample, known, blocks, needed), strict=True))
    index = _inside(known, request, blocks, refused)
    if box is not None:
        index = _is_in(known, columns, box)
    if index is not None:
        columns = {name: column[index] for name, column in columns.items()}
    if request.stacked:
        return _stacked(known, columns, names, refused)
    fields = [one for one in known.fields if one.name in names]
    fields.sort(key=lambda one: names.index(one.name))
    return _picked(records_of(fields, [columns[one.name] for one in fields]), request, refused)


def _names(
    known: PointMap, request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> tuple[str, ...]:
    own = [one.name for one in known.fields]
    if request.fields is None:
        return tuple(own)
    for name in request.fields:
        if name not in own:
            raise refused(f"no field {shown(name)}: {', '.join(own)}")
    return tuple(dict.fromkeys(request.fields))


def _count(
    known: PointMap, request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> int:
    if request.level is None:
        return known.points
    if not is_whole_number(request.level) or not 0 <= request.level < len(LEVEL_SHARES):
        raise refused(f"levels are 0 to {len(LEVEL_SHARES) - 1}, got {shown(request.level)}")
    return level_counts(known.points)[request.level]


def _box(
    request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> tuple[np.ndarray, np.ndarray] | None:
    if request.low is None or request.high is None:
        return None
    corners: list[np.ndarray] = []
    for given in (request.low, request.high):
        try:
            corner = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise refused(f"a corner of a box is three numbers, got {shown(given)}") from error
        if corner.shape != (_NUM_AXES,) or bool(np.isnan(corner).any()):
            raise refused(f"a corner of a box is three numbers, got {shown(given)}")
        corners.append(corner)
    low, high = corners
    if bool((low > high).any()):
        raise refused(f"a box from {low.tolist()} to {high.tolist()}: give the low corner first")
    return low, high


def _numbers(
    known: PointMap, request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> np.ndarray:
    """Return the numbers of the points of a region, in its order."""
    count = _count(known, request, refused)
    if len(request.region) != 1:
        raise refused(f"points have one axis, got {len(request.region)} indices")
    (first,) = request.region
    if is_whole_number(first):
        at = int(first) + count if first < 0 else int(first)
        if not 0 <= at < count:
            raise refused(f"it has {count:,} points, and {int(first):,} is not one of them")
        return np.array([at])
    if isinstance(first, slice):
        try:
            return np.arange(*first.indices(count))
        except (TypeError, ValueError) as error:
            raise refused(f"{first!r} is not a slice of points: {error}") from error
    if not isinstance(first, np.ndarray) and not isinstance(first, Iterable):
        raise refused(f"points are a number, a slice or a list of numbers, got {shown(first)}")
    try:
        given = np.asarray(cast("Any", first))
    except (TypeError, ValueError) as error:
        raise refused(f"points are numbers: {error}") from error
    if given.size == 0:
        given = given.astype(np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iub":
        raise refused(f"points are a list of numbers, got {given.dtype} {given.shape}")
    return part_of(np.arange(count), (given,), refused)


def _inside(
    known: PointMap,
    request: PointRequest,
    blocks: np.ndarray,
    refused: Callable[[str], InvalidInputError],
) -> np.ndarray | None:
    """Return the places of the wanted points among those of the blocks; None: all of them."""
    if request.low is not None:
        return None
    if request.is_all:
        count = _count(known, request, refused)
        return None if count == known.points else np.arange(count)
    wanted = _numbers(known, request, refused)
    if len(blocks) and blocks[-1] == len(blocks) - 1:  # from the first one on
        return wanted
    counts = np.diff(known.starts)[blocks]
    firsts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    place = np.searchsorted(blocks, np.searchsorted(known.starts, wanted, side="right") - 1)
    return wanted - known.starts[blocks][place] + firsts[place]


def _is_in(
    known: PointMap, columns: dict[str, np.ndarray], box: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    inside = np.ones(len(columns["x"]), np.bool_)
    for axis, low, high in zip(AXES, *box, strict=True):
        field = known.field(axis)
        assert field is not None
        values = field.values(columns[axis]).astype(np.float64)
        inside &= (values >= low) & (values <= high)
    return inside


def _stacked(
    known: PointMap,
    columns: dict[str, np.ndarray],
    names: Sequence[str],
    refused: Callable[[str], InvalidInputError],
) -> np.ndarray:
    count = len(columns[names[0]]) if names else 0
    made = np.empty((count, len(names)), np.float32)
    for place, name in enumerate(names):
        field = known.field(name)
        assert field is not None
        if field.length:
            raise refused(f"the field {name!r} has {field.length} numbers a point: read it alone")
        values = field.values(columns[name])
        if name in AXES and known.origin[AXES.index(name)]:
            values = values - known.origin[AXES.index(name)]
        made[:, place] = values
    return made


def _picked(
    records: np.ndarray, request: PointRequest, refused: Callable[[str], InvalidInputError]
) -> Any:
    """Return one record where one number was given."""
    is_one = len(request.region) == 1 and is_whole_number(request.region[0])
    return part_of(records, (0,), refused) if is_one else records
