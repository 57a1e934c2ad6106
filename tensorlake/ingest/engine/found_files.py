"""Files matched by a path, a folder or a pattern, and the pieces in which they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import cast

from tensorlake.dataset import COMPRESSED
from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.engine.source_files import SourceFiles, is_folder, is_url, walk_files
from tensorlake.storage import place_text, public_url

__all__ = ["Piece", "expand_braces", "find_files", "full_place", "names_below", "source_path"]

BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")
MAX_EXPANDED = 1_000_000
"""Names that braces may expand to: more shards than any dataset has."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a file: bytes [start, stop), or the row group numbered ``start``."""

    path: str
    start: int
    stop: int
    nbytes: int

    @property
    def name(self) -> str:
        """Name in errors and keys."""
        return f"{Path(self.path).name}[{self.start}:{self.stop}]"


def source_path(src: object) -> str:
    """Return a source as a string: a local path, or a URL.

    Raises:
        InvalidInputError: The source is not a path.
    """
    if not isinstance(src, str | PathLike):
        message = (
            f"a source is a path, got {type(src).__name__} {shown(src)}\npass a string or a Path"
        )
        raise InvalidInputError(message, actual=type(src).__name__)
    return place_text(cast("object", src), what="src")


def full_place(src: object) -> str:
    """Return the absolute path, or the URL without secrets, by which a source is known again."""
    path = source_path(src)
    return public_url(path) if is_url(path) else str(Path(path).absolute())


def find_files(
    src: str | PathLike[str] | Sequence[str | PathLike[str]], ending: str, files: SourceFiles
) -> list[str]:
    """List the files, sorted by name; for a folder, those with this suffix.

    Raises:
        InvalidInputError: No file is found.
    """
    if isinstance(src, str | PathLike):
        text = place_text(src, what="src")
        found = _of_store(text, ending, files) if is_url(text) else _local(text, ending)
        found.sort()
    elif isinstance(src, Iterable) and getattr(src, "ndim", 1):  # an array without axes is not
        found = [source_path(one) for one in src]
    else:
        found = [source_path(src)]  # raises an error that names its type
    missing = next((path for path in found if files.nbytes(path) is None), None)
    if missing is not None or not found:
        named = public_url(missing or (str(src) if isinstance(src, str | PathLike) else shown(src)))
        of_folder = missing is None and (is_url(named) or is_folder(named))
        what = f"no file *{ending} in {named!r}" if of_folder else f"no file {named!r}"
        message = f"{what} to ingest\npass a file, a folder or a pattern"
        raise InvalidInputError(message, src=named)
    return found


def expand_braces(text: str) -> list[str]:
    """Return the names that braces expand to, as in a shell: numbers, or alternatives.

    >>> expand_braces("s3://b/{train,val}-{08..10}.tar")[1:4]
    ['s3://b/train-09.tar', 's3://b/train-10.tar', 's3://b/val-08.tar']

    Raises:
        InvalidInputError: They expand to more than a million names, or for none.
    """
    found = BRACES.search(text)
    if found is None:
        return [text]
    first, last, listed = found.groups()
    if listed is not None:
        parts = listed.split(",")
    else:
        numbers = range(int(first), int(last) + 1)
        if not 0 < len(numbers) <= MAX_EXPANDED:
            message = f"{found[0]!r} of {public_url(text)!r} expands to {len(numbers):,} names"
            raise InvalidInputError(
                f"{message}\nwrite {{000..127}}, at most {MAX_EXPANDED:,} names"
            )
        parts = [str(number).zfill(len(first)) for number in numbers]
    ends = expand_braces(text[found.end() :])
    if len(parts) * len(ends) > MAX_EXPANDED:
        message = f"the braces of {public_url(text)!r} expand to {len(parts) * len(ends):,} names"
        raise InvalidInputError(f"{message}\ngive at most {MAX_EXPANDED:,} names")
    return [f"{text[: found.start()]}{part}{end}" for part in parts for end in ends]


def names_below(paths: Iterable[str]) -> dict[str, str]:
    """Return the path of each file relative to their common folder.

    >>> names_below(["s3://b/raw/x/0.csv", "s3://b/raw/1.csv"])
    {'s3://b/raw/x/0.csv': 'x/0.csv', 's3://b/raw/1.csv': '1.csv'}
    """
    split = {path: path.split("/") for path in paths}
    folders = [parts[:-1] for parts in split.values()] or [[]]
    pairs = zip(min(folders), max(folders), strict=False)  # they share what all share
    depth = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return {path: "/".join(parts[depth:]) for path, parts in split.items()}


def _local(path: str, ending: str) -> list[str]:
    if is_folder(path):
        found = walk_files(path, follow_links=False)
        return [one for one in found if one.endswith(_endings(ending))]
    return glob(path, recursive=True) if has_magic(path) else [path]  # noqa: PTH207 - patterns as users write them


def _of_store(url: str, ending: str, files: SourceFiles) -> list[str]:
    if has_magic(url):
        folder = url[: url.index(next(filter(has_magic, url.split("/")))) - 1]
        return [one for one in files.list(folder) if fnmatchcase(one, url)]
    if not url.endswith("/") and files.nbytes(url) is not None:
        return [url]
    return [one for one in files.list(url) if one.endswith(_endings(ending))]


def _endings(ending: str) -> tuple[str, ...]:
    return (ending, *(ending + one for one in COMPRESSED))
