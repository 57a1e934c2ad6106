"""The datasets that players are tested with: sounds, films, points and meshes of known places."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tensorlake as tl
from tests.support.sounds import sound_file
from tests.support.videos import ENCODINGS, encode

__all__ = ["make_recorded"]

RED, GREEN, BLUE, GREY = (200, 0, 0), (0, 200, 0), (0, 0, 200), (90, 90, 90)


def make_recorded(root: Path) -> None:
    """Make these datasets under a folder."""
    _make_sounds(str(root / "sounds"))
    _make_films(str(root / "films"))
    _make_volumes(str(root / "volumes"))
    _make_clouds(str(root / "clouds"))
    _make_solids(str(root / "solids"))
    _make_drives(str(root / "drives"))


def _make_sounds(url: str) -> None:
    """Two seconds of silence, then two of a tone in both channels; an MP3; NULL; one frame."""
    sounds = tl.create(url, {"sound": tl.Audio(nullable=True), "said": "str"}, durability="none")
    loud = np.zeros((32_000, 2), np.int16)
    loud[16_000:] = (32_000 * np.sin(np.arange(16_000) / 5)).astype(np.int16)[:, None]
    samples = [
        {"samples": loud, "rate": 8_000},
        sound_file("MP3", "MPEG_LAYER_III"),
        None,
        {"samples": np.ones(1, np.int16), "rate": 8_000},
    ]
    sounds.extend({"sound": samples, "said": ["silence, a tone", "a glide", "", "a click"]})
    sounds.commit("four sounds")


def _make_films(url: str) -> None:
    """Films of five red, green, blue and grey frames: some that browsers play, some not."""
    films = tl.create(url, {"film": tl.Video(nullable=True)}, durability="none")
    sizes = {"h264": (48, 64), "vp9": (96, 32), "prores": (48, 64), "gif": (48, 64), "ffv1": (1, 1)}
    for name, (height, width) in sizes.items():
        films.append({"film": _film(name, height, width)})
    films.append({"film": None})
    films.append({"film": _film("fragments", 48, 64)})  # its first frame is at 0.08 s
    films.commit("films")


def _film(name: str, height: int, width: int) -> bytes:
    colors = np.repeat(np.array((RED, GREEN, BLUE, GREY), np.uint8), 5, axis=0)
    return encode(np.broadcast_to(colors[:, None, None], (20, height, width, 3)), *ENCODINGS[name])


def _make_clouds(url: str) -> None:
    """A red plate below a blue one with intensities; a hundred thousand points; one; none; NULL."""
    clouds = tl.create(url, {"points": tl.PointCloud(nullable=True)}, durability="none")
    x, y = (side.ravel() for side in np.meshgrid(np.linspace(0, 4, 60), np.linspace(0, 4, 60)))
    plates = {
        "x": np.tile(x, 2),
        "y": np.tile(y, 2),
        "z": np.repeat([0.0, 1.0], len(x)),
        "intensity": np.tile(x, 2).astype(np.float32),
    }
    for name, colors in {"red": [200, 0], "green": [0, 0], "blue": [0, 200]}.items():
        plates[name] = np.repeat(np.array(colors, np.uint8), len(x))
    many = np.random.default_rng(1).uniform(0, 10, (100_000, 3))
    for sample in (plates, many, many[:1], many[:0], None):
        clouds.append({"points": sample})
    clouds.commit("five clouds")


def _make_solids(url: str) -> None:
    """A square pyramid, as vertices and faces."""
    types = {"mesh": tl.Mesh(), "hulls": tl.BBox3D(of="mesh")}
    solids = tl.create(url, types, durability="none")
    corners = [[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0], [1, 1, 2]]
    faces = [[0, 2, 1], [0, 3, 2], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    hull = [[1, 1, 1, 2, 2, 2, 0]]
    solids.append({"mesh": {"vertices": corners, "faces": faces}, "hulls": hull})
    solids.commit("a pyramid")


def _make_drives(url: str) -> None:
    """Grey points with boxes of every format, and where NumPy says that the page shows them.

    Near zero; far away, as in a map projection; a box of NaN; and more boxes than a page gets.
    """
    types = {
        "points": tl.PointCloud(),
        "boxes": tl.BBox3D(of="points"),
        "labels": tl.ClassLabel(["car", "person"], per="boxes"),
        "turned": tl.BBox3D("xyzlwhq", of="points"),
        "turned_labels": tl.ClassLabel(["tree"], per="turned"),
        "around": tl.BBox3D("corners", of="points"),
        "around_labels": tl.ClassLabel(["house"], per="around"),
        "seen": tl.Array("float32", (None, 8, 2)),
    }
    drives = tl.create(url, types, durability="none")
    cloud = np.random.default_rng(7).uniform(-10, 10, (3000, 3)) * [1, 1, 0.2]
    quaternion = np.array([0.8, 0.2, -0.4, 0.4])  # of length 1
    for far in (0, 4_500_000):
        boxes = np.array([[3, 2, 0, 4, 2, 1.5, 0.5], [-4, -3, 0, 1, 1, 2, -1.25]])
        boxes[:, 0] += far
        turned = np.array([[far - 2, 5, 1, 2, 1, 6, *quaternion]])
        plain = _corners([far + 5, -5, 0], [3, 4, 2], np.eye(3))
        corners = [
            *(_corners(box[:3], box[3:6], _about_z(box[6])) for box in boxes),
            _corners(turned[0, :3], turned[0, 3:6], _of_quaternion(quaternion)),
            plain,
        ]
        drives.append(
            {
                "points": _grey(cloud + np.array([far, 0, 0])),
                "boxes": boxes,
                "labels": ["car", "person"],
                "turned": turned,
                "turned_labels": ["tree"],
                "around": [plain],
                "around_labels": ["house"],
                "seen": _seen(np.stack(corners) - [far, 0, 0], cloud),
            }
        )
    for boxes in (np.full((1, 7), np.nan), np.ones((5000, 7))):
        drives.append(
            {
                "points": _grey(cloud),
                "boxes": boxes,
                "labels": [0] * len(boxes),
                "turned": np.zeros((0, 10)),
                "turned_labels": [],
                "around": np.zeros((0, 8, 3)),
                "around_labels": [],
                "seen": np.zeros((0, 8, 2)),
            }
        )
    drives.commit("four scenes")


def _grey(points: np.ndarray) -> dict[str, np.ndarray]:
    grey = np.full(len(points), 120, np.uint8)
    return {**dict(zip("xyz", points.T, strict=True)), "red": grey, "green": grey, "blue": grey}


def _about_z(angle: float) -> np.ndarray:
    return np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )


def _of_quaternion(quaternion: np.ndarray) -> np.ndarray:
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _corners(centre: object, sides: object, turn: np.ndarray) -> np.ndarray:
    """Return the lower four corners around, then the upper four: (8, 3)."""
    ring = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    halves = np.concatenate([np.c_[ring, [z] * 4] for z in (-0.5, 0.5)])
    return np.asarray(centre) + (halves * np.asarray(sides)) @ turn.T


def _seen(corners: np.ndarray, cloud: np.ndarray) -> np.ndarray:
    """Project as the page's first camera does, in halves of the shorter side from the middle."""
    ordered = np.sort(cloud, axis=0)
    outer = round(0.005 * (len(cloud) - 1))
    low, high = ordered[outer], ordered[len(cloud) - 1 - outer]
    azimuth, elevation = np.radians([-60, 30])
    right = [-np.sin(azimuth), np.cos(azimuth), 0]
    up = [
        -np.sin(elevation) * np.cos(azimuth),
        -np.sin(elevation) * np.sin(azimuth),
        np.cos(elevation),
    ]
    reach = np.linalg.norm(high - low) / 2
    return ((corners - (low + high) / 2) @ np.array([right, up]).T / reach).astype(np.float32)


def _make_volumes(url: str) -> None:
    """A bright box in a dark volume of flat voxels: planes 8 to 17, lines 4 to 7, columns 20 on."""
    volumes = tl.create(url, {"scan": tl.Nifti(nullable=True)}, durability="none")
    voxels = np.full((20, 16, 40), -1000, np.int16)
    voxels[8:18, 4:8, 20:] = 1000
    affine = np.diag([1.0, 1.0, 4.0, 1.0])
    slices = [{"voxels": one, "affine": affine} for one in (voxels[8:9], voxels[:, :, 20:21])]
    volumes.extend({"scan": [{"voxels": voxels, "affine": affine}, None, *slices]})
    volumes.commit("a scan")
