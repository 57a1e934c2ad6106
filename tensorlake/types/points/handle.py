"""PointCloudHandle: the value of a row of a `PointCloud`, which reads only the points wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.quantities import plural
from tensorlake.types.base.parts import SampleHandle
from tensorlake.types.points.blocks import PointMap, read_head
from tensorlake.types.points.cloud import AXES
from tensorlake.types.points.files.npz import write_npz
from tensorlake.types.points.request import PointRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

__all__ = ["PointCloudHandle"]


class PointCloudHandle(SampleHandle):
    """A point cloud: structured records (points,), of which those wanted are read.

    Points are in the order in which they are stored: random levels, each along a curve in space
    (`PointCloud`). ``np.asarray(cloud)`` is all of them, ``cloud["intensity"]`` a column,
    ``cloud[:1000]`` some records.

    >>> import numpy as np
    >>> import tensorlake as tl
    >>> ds = tl.create("memory://doc-points", {"points": tl.PointCloud()})
    >>> ds.append({"points": np.random.default_rng(0).uniform(0, 10, (5_000, 3))})
    >>> cloud = ds["points"][0]
    >>> len(cloud), cloud.xyz.shape, cloud.level(0).shape, cloud["x"].dtype.name
    (5000, (5000, 3), (79,), 'float64')
    >>> bool((cloud.box((0, 0, 0), (1, 1, 1))["x"] <= 1).all())
    True
    >>> ds.discard()
    """

    __slots__ = ()

    @property
    def fields(self) -> dict[str, np.dtype]:
        """Dtype of the values of each field; of one with several numbers a point, with a shape."""
        return {
            one.name: np.dtype((one.value_dtype, (one.length,))) if one.length else one.value_dtype
            for one in self._points.fields
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points."""
        return (self._points.points,)

    @property
    def bounds(self) -> np.ndarray:
        """Least and greatest x, y and z of finite points, float64 (2, 3); of none, ∞ and -∞."""
        return self._points.bounds.copy()

    @property
    def origin(self) -> np.ndarray:
        """The point that float32 coordinates are relative to, float64 (3,).

        It is 0, unless coordinates are stored more precisely, and are so large that float32
        would round them, such as those of a map projection.
        """
        return self._points.origin.copy()

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """Scale and offset of each field that is stored as scaled integers, such as x of LAS.

        Empty for other clouds, and for fields that the tensor declares in a dtype of their own.
        """
        return {one.name: one.scaling for one in self._points.fields if one.scaling is not None}

    @property
    def xyz(self) -> np.ndarray:
        """Coordinates of all points from `origin`, float32 (points, 3)."""
        return self.read(PointRequest(fields=AXES, stacked=True))

    def level(
        self, level: int, *, fields: Sequence[str] | None = None, stacked: bool = False
    ) -> np.ndarray:
        """Read the points of a level of detail: a random part of all, which costs only its share.

        Args:
            level: 0: 1/64 of the points, 1: 1/8, 2: all.
            fields: The fields to return; None: all.
            stacked: Return one array float32 (points, fields), with coordinates from `origin`.

        Returns:
            Structured records (points,), unless `stacked`.

        Raises:
            InvalidInputError: There is no such level or field.
        """
        return self.read(PointRequest(level=level, fields=_names(fields), stacked=stacked))

    def box(
        self,
        low: ArrayLike,
        high: ArrayLike,
        *,
        level: int | None = None,
        fields: Sequence[str] | None = None,
        stacked: bool = False,
    ) -> np.ndarray:
        """Read the points in a box; only blocks that meet it are read.

        Args:
            low: Least x, y and z; points on the faces are in the box.
            high: Greatest x, y and z.
            level: Only points of this level of detail; None: all.
            fields: The fields to return; None: all.
            stacked: Return one array float32 (points, fields), with coordinates from `origin`.

        Returns:
            Structured records (points,), unless `stacked`.

        Raises:
            InvalidInputError: The corners are not three numbers each, or there is no such level or
                field.
        """
        request = PointRequest(
            level=level,
            low=_corner(low),
            high=_corner(high),
            fields=_names(fields),
            stacked=stacked,
        )
        return self.read(request)

    @property
    def projection(self) -> dict[int, bytes]:
        """Records of the coordinate reference system of a LAS file, by number; else empty.

        2112 is WKT, 34735 to 34737 are the keys of GeoTIFF and their values.
        """
        return dict(self._points.projection)

    @property
    def crs(self) -> str | None:
        """The coordinate reference system as WKT; None where the file did not have it as such."""
        text = self._points.projection.get(2112)
        return None if text is None else text.rstrip(b"\0").decode("utf-8", "replace")

    def npz(self) -> bytes:
        """Return all points as a NumPy ``.npz`` file with an array per field."""
        return write_npz(self.read())

    def __getitem__(self, region: Any) -> Any:
        if isinstance(region, str):
            return self.read(PointRequest(fields=(region,)))[region]
        return super().__getitem__(region)

    def blocks(self) -> Iterator[Any]:
        """Decode the cloud, whose levels are read together."""
        yield self.read()

    def __iter__(self) -> Iterator[np.void]:
        return iter(self.read())

    def __repr__(self) -> str:
        what = f"row {self.row} of {self.tensor!r}" if self.tensor else "a sample"
        fields = ", ".join(self.fields)
        return f"PointCloud {plural(len(self), 'point')} · {fields} · {self.nbytes:,} bytes, {what}"

    @property
    def _points(self) -> PointMap:
        return read_head(self.head)


def _names(fields: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if fields is None else tuple(fields)


def _corner(given: ArrayLike) -> Any:
    return tuple(given) if isinstance(given, list) else given
