"""Folders of images: splits, classes, and which files are images.

photos/train/cat/1.jpg     split "train", class "cat"
photos.zip: photos/cat/…   the outermost folder of an archive is ignored
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

from tensorlake.dataset import IMAGE_ENDINGS
from tensorlake.errors import InvalidInputError

__all__ = ["SEEN_ENDINGS", "check_classes", "is_split", "is_stored", "outer_folders"]

SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing"))
# Images by their names, of kinds that no codec here stores: told, never passed over.
_OTHER_ENDINGS = frozenset(
    (
        *(".gif", ".bmp", ".heic", ".heif", ".jxl", ".svg", ".ico", ".psd", ".tga", ".exr"),
        *(".ppm", ".pgm", ".pbm", ".pnm", ".dng", ".cr2", ".nef", ".arw"),
    )
)
SEEN_ENDINGS = frozenset(IMAGE_ENDINGS) | _OTHER_ENDINGS


def is_split(folder: str) -> bool:
    """Whether a folder's name is a split's, such as ``Train``."""
    return folder.lower() in SPLITS


def is_stored(ending: str) -> bool:
    """Whether files whose names end so can be stored."""
    return ending in IMAGE_ENDINGS


def outer_folders(folders: Collection[tuple[str, ...]]) -> int:
    """Count the outer folders of an archive that contain all others, and no images.

    >>> outer_folders([("photos", "cat"), ("photos", "dog")]), outer_folders([("cat",), ("dog",)])
    (1, 0)
    """
    depth = 0
    while folders and all(len(one) > depth for one in folders):
        here = {one[depth] for one in folders}
        if len(here) > 1 or is_split(next(iter(here))):
            return depth
        depth += 1
    return 0  # images lie in the innermost: it is their class


def check_classes(names: Sequence[str], shown: str) -> None:
    """Reject folders whose names are not valid text, or look the same as another name.

    Raises:
        InvalidInputError: It names the folder.
    """
    known: dict[str, str] = {}
    for name in names:
        if not name.isascii():
            _check_name(name, known, shown)


def _check_name(name: str, known: dict[str, str], shown: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raw = name.encode(errors="surrogateescape")
        message = f"the folder {raw!r} of {shown!r} has a name that is not UTF-8\nrename it"
        raise InvalidInputError(message, src=shown, item=repr(raw)) from error
    twin = known.setdefault(unicodedata.normalize("NFC", name), name)
    if twin != name:
        raise InvalidInputError(
            f"{shown!r} has two folders {name!r}, which differ only in how accents are written"
            f" ({twin!a} and {name!a})\nput their images into one",
            src=shown,
            item=name,
        )
