"""Folders of files: splits, classes, names that state them, and which files are images.

photos/train/cat/1.jpg     split "train", class "cat"
photos.zip: photos/cat/…   the outermost folder of an archive is ignored
{label}_{id}.jpg           a pattern of names: cat_07.jpg has the class "cat", and the id "07"
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorlake.dataset import IMAGE_ENDINGS, codec_of_files
from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import ClassLabel, Image, SampleType, Scalar, Text

__all__ = [
    "GIF",
    "IMAGES",
    "FileKind",
    "NamePattern",
    "check_classes",
    "ending_of",
    "field_value",
    "is_split",
    "is_stored",
    "outer_folders",
]

GIF = ".gif"
SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing"))
# Images by their names, of kinds that no codec here stores: told, never passed over.
_OTHER_ENDINGS = frozenset(
    (
        *(".gif", ".bmp", ".heic", ".heif", ".jxl", ".svg", ".ico", ".psd", ".tga", ".exr"),
        *(".ppm", ".pgm", ".pbm", ".pnm", ".dng", ".cr2", ".nef", ".arw"),
    )
)


@dataclass(frozen=True, slots=True)
class FileKind:
    """Files that make the rows of a folder, one each.

    Attributes:
        tensor: Name of their tensor, and of one file in messages.
        endings: Endings of their names, in lower case; None: all files.
        type_of: Chooses the tensor's type by the paths.
        type_in: Chooses it by the content of the first valid file instead, and raises ValueError
            for others; None: by the paths.
        value: Converts the content of a file, given its name; None: the content is the sample.
        foreign: Those of the endings whose files cannot be stored, and are never passed over.
        several: Name of the importer; empty: that of the tensor in the plural.
        unit: One of them in messages; empty: the tensor's name.
    """

    tensor: str
    endings: frozenset[str] | None
    type_of: Callable[[Iterable[str]], SampleType]
    type_in: Callable[[bytes], SampleType] | None = None
    value: Callable[[bytes, str], Any] | None = None
    foreign: frozenset[str] = frozenset()
    several: str = ""
    unit: str = ""

    @property
    def name(self) -> str:
        """Name of the importer."""
        return self.several or f"{self.tensor}s"

    def sees(self, name: str) -> bool:
        """Whether a file is of this kind, by its name."""
        return self.endings is None or ending_of(name) in self.endings

    def stores(self, name: str, *, has_frames: bool = False) -> bool:
        """Whether a file of this kind can be stored, where its frames may be a sequence."""
        ending = ending_of(name)
        return ending not in self.foreign or (has_frames and ending == GIF)


def ending_of(name: str) -> str:
    """Return the ending of a file's name, in lower case.

    >>> ending_of("cat.JPG"), ending_of("scan.nii.gz")
    ('.jpg', '.nii.gz')
    """
    *before, last = name.lower().rsplit(".", 2)
    return f".{before[-1]}.{last}" if last == "gz" and len(before) > 1 else f".{last}"


IMAGES = FileKind(
    "image",
    frozenset(IMAGE_ENDINGS) | _OTHER_ENDINGS,
    lambda paths: Image(codec_of_files(paths)),
    foreign=_OTHER_ENDINGS,
)


class NamePattern:
    """A pattern of names whose fields become tensors, such as ``"{label}_{id}.jpg"``.

    A field matches one or more characters other than ``/``, earlier fields as many as possible;
    ``*`` and ``?`` are wildcards. With a ``/`` the pattern is one of paths below the source.

    >>> NamePattern("{label}_{id}.jpg").values("photos/golden_dog_07.jpg")
    {'label': 'golden_dog', 'id': '07'}
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = re.split(r"(\{\w+\}|[*?])", text) if isinstance(text, str) else []
        self.fields = [part[1:-1] for part in parts[1::2] if part[0] == "{"]
        wild = {"*": "[^/]*", "?": "[^/]"}
        made = [
            wild.get(part, f"(?P<{part[1:-1]}>[^/]+)") if at % 2 else re.escape(part)
            for at, part in enumerate(parts)
        ]
        rest = "".join(parts[::2])
        if "{" in rest or "}" in rest:
            raise InvalidInputError(
                f"pattern={shown(text)} has braces that are not around a name"
                "\nwrite the names of tensors in braces, without a format:"
                ' pattern="{label}_{id}.jpg"',
                actual=text,
            )
        is_valid = self.fields and len({*self.fields}) == len(self.fields)
        if not is_valid or not all(one.isidentifier() for one in self.fields):
            raise InvalidInputError(
                f"pattern={shown(text)} has no fields, or one twice"
                '\nwrite the names of tensors in braces: pattern="{label}_{id}.jpg"',
                actual=text,
            )
        self._match = re.compile("".join(made)).fullmatch
        self._has_folders = "/" in text

    def values(self, path: str) -> dict[str, str] | None:
        """Return the values of the fields of a path below the source; None: it does not match."""
        found = self._match(path if self._has_folders else path.rpartition("/")[2])
        return None if found is None else found.groupdict()

    def types(
        self, values: Sequence[Mapping[str, str]], declared: Mapping[str, Any]
    ) -> dict[str, SampleType]:
        """Return the types of the fields: classes for label and split, text for others."""
        return {
            name: declared.get(name)
            or (
                ClassLabel(sorted({one[name] for one in values}))
                if name in ("label", "split")
                else Text()
            )
            for name in self.fields
        }


def field_value(text: str, sample_type: SampleType, item: str) -> Any:
    """Return the value of a field; a number where its type is one.

    Raises:
        InvalidInputError: It is not a number.
    """
    if not isinstance(sample_type, Scalar):
        return text
    try:
        return int(text) if np.issubdtype(sample_type.dtype, np.integer) else float(text)
    except ValueError as error:
        message = f"{item!r}: {text!r} is not a number"
        raise InvalidInputError(message, item=item, actual=text) from error


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
