"""Files that describe the records beside them: the index of shards, and the types of an export."""

from __future__ import annotations

import json
from typing import Any, cast

from tensorlake.dataset import TYPES_FILES, leads_outside
from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.ingest.engine.found_files import source_path
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url
from tensorlake.types import Link, SampleType, from_json

__all__ = ["read_index", "shard_path", "written_types"]

INDEX = "index.json"

INDEX_NBYTES_MAX = 1 << 30


def read_index(src: object, files: SourceFiles, what: str) -> tuple[str, dict[str, Any]]:
    """Read ``index.json`` of a folder.

    Args:
        src: The folder, or the file.
        files: Opens files.
        what: Name of the format, for errors.

    Returns:
        The folder and the index.

    Raises:
        InvalidInputError: It is missing, or not JSON.
    """
    path = source_path(src).rstrip("/")
    path = path if path.endswith(INDEX) else f"{path}/{INDEX}"
    place = public_url(path)
    nbytes = files.nbytes(path)
    if nbytes is None:
        message = f"no file {place!r} to ingest\ngive the folder of {INDEX}, which {what} writes"
        raise InvalidInputError(message, src=place)
    if nbytes > INDEX_NBYTES_MAX:
        raise InvalidInputError(f"{place!r} has {nbytes:,} bytes: it is not an index", src=place)
    try:
        index = json.loads(files.content(path))
    except (ValueError, RecursionError) as error:
        message = f"{place!r} is not JSON, or damaged: {error}"
        raise InvalidInputError(message, src=place) from error
    if not isinstance(index, dict):
        raise InvalidInputError(f"{place!r} is not an index of {what}", src=place)
    return path.rpartition("/")[0], cast("dict[str, Any]", index)


def shard_path(folder: str, name: object) -> str:
    """Return the path of a file that an index names.

    Raises:
        InvalidInputError: It is outside of the folder.
    """
    if not isinstance(name, str) or not name or leads_outside(name):
        place = public_url(folder)
        message = f"the index of {place!r} names the file {name!r}, which is not in its folder"
        raise InvalidInputError(message, src=place)
    return f"{folder}/{name}"


def written_types(folder: str, files: SourceFiles) -> dict[str, SampleType]:
    """Return the types that an export wrote beside its files; empty if there are none.

    Raises:
        InvalidInputError: The file of types is damaged.
    """
    places = [f"{folder}/{name}" if folder else name for name in TYPES_FILES]
    found = ((place, one) for place, one in zip(places, files.contents(places), strict=True))
    place, content = next((one for one in found if one[1] is not None), ("", None))
    if content is None:
        return {}
    try:
        types = {name: from_json(one) for name, one in json.loads(content).items()}
        if any(isinstance(one, Link) for one in types.values()):  # they would name any file
            raise ValueError("links are not read from records")  # noqa: TRY301 - told below
    except (ValueError, TypeError, KeyError, AttributeError, TensorlakeError) as error:
        message = f"{public_url(place)!r} is not what tensorlake wrote: {error}"
        raise InvalidInputError(f"{message}\nremove it, or pass schema=", src=place) from error
    return types
