"""Print a folder in which torchcodec finds FFmpeg: the libraries of PyAV's wheel, by their names.

torchcodec needs FFmpeg's shared libraries, and takes none from a wheel. PyAV has them, with a hash
in each name, so that ``libavutil-5809ad29.so.60.26.102`` is linked as ``libavutil.so.60``.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

NAME = re.compile(r"(lib(?:av|sw)\w+)-[0-9a-f]+\.so\.(\d+)[.\d]*")


def main() -> None:
    """Link the libraries beside themselves, where they find each other."""
    found = find_spec("av")
    assert found is not None, "the group has PyAV"
    assert found.origin is not None, "PyAV is a package"
    folder = Path(found.origin).parents[1] / "av.libs"
    for path in folder.iterdir():
        named = NAME.fullmatch(path.name)
        if named is not None:
            link = folder / f"{named[1]}.so.{named[2]}"
            link.unlink(missing_ok=True)
            link.symlink_to(path.name)
    print(folder)  # noqa: T201 - for the Makefile


if __name__ == "__main__":
    main()
