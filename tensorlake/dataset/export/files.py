"""Destinations of exports: written beside the destination, and renamed when complete.

An interrupted export leaves nothing under the requested name. An existing destination is an error,
unless it may be overwritten.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.quantities import check_flags
from tensorlake.storage import place_text

__all__ = ["new_file", "new_folder"]


@contextmanager
def new_file(dst: str | PathLike[str], *, overwrite: bool) -> Generator[Path]:
    """Give a file to write, which takes the destination's name at the end."""
    target = _free(dst, overwrite=overwrite)
    partial = target.with_name(f"{target.name}.partial")
    try:
        yield partial
        _make_room(target)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(dst: str | PathLike[str], *, overwrite: bool) -> Generator[Path]:
    """Give an empty folder to fill, which takes the destination's name at the end."""
    target = _free(dst, overwrite=overwrite)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        _make_room(target)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _free(dst: str | PathLike[str], *, overwrite: bool) -> Path:
    text = place_text(dst, what="dst")
    if "://" in text:
        raise UnsupportedFeatureError(
            f"files are written to a local path, not to {text!r}"
            "\nwrite them here and copy them, or copy the dataset: tl.copy(src, dst)",
            actual=text,
        )
    check_flags(overwrite=overwrite)
    target = Path(text)
    if target.exists() and not overwrite:
        raise InvalidInputError(
            f"{str(target)!r} is there already"
            "\ngive overwrite=True (in a shell: --overwrite), or another path",
            actual=str(target),
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _make_room(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
