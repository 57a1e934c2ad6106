"""Files that a path, a folder or a pattern names, and the pieces they are read in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from tensorlake.dataset.export import COMPRESSED
from tensorlake.errors import InvalidInputError

__all__ = ["Piece", "find_files"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a file: bytes [start, stop), or the row group numbered ``start``."""

    path: str
    start: int
    stop: int
    nbytes: int

    @property
    def name(self) -> str:
        """What errors and keys call it."""
        return f"{Path(self.path).name}[{self.start}:{self.stop}]"


def find_files(src: str | Path | Sequence[str | Path], ending: str) -> list[str]:
    """List the files in the order of their names; of a folder those with this ending.

    Raises:
        InvalidInputError: There is none.
    """
    if isinstance(src, str | Path):
        text = str(src)
        if Path(text).is_dir():
            endings = [ending, *(ending + one for one in COMPRESSED)]
            found = [
                str(path) for path in Path(text).rglob("*") if path.name.endswith(tuple(endings))
            ]
        else:
            found = glob(text, recursive=True) if has_magic(text) else [text]  # noqa: PTH207 - patterns as users write them
        found.sort()
    else:
        found = [str(one) for one in src]
    missing = next((path for path in found if not Path(path).is_file()), None)
    if missing is not None or not found:
        raise InvalidInputError(
            f"no file {missing or str(src)!r} to ingest\ngive a file, a folder or a pattern",
            src=str(src),
        )
    return found
