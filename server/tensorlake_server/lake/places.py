"""Where data is, which messages for those who ask by the network do not say.

Errors of the SDK name a dataset by its URL: a folder of the server, or a bucket. The server puts
the dataset's name in its place, as the caller wrote it, and names objects by their paths in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tensorlake.storage import public_url

if TYPE_CHECKING:
    from tensorlake_server.lake.lake import Lake
    from tensorlake_server.settings.settings import Settings

__all__ = ["without_places"]


def without_places(message: str, *, lake: Lake, settings: Settings) -> str:
    """Return a message with the names of datasets where it has the URLs of their folders.

    The lake's own stays where only people of this machine ask, who may know it.
    """
    is_asked_here = settings.is_loopback and not settings.public_read and not settings.knows_people
    for name, place in lake.places[: -1 if is_asked_here else None]:
        for url in _written(place):
            if name:
                message = message.replace(url, name)
            else:
                message = message.replace(f"{url}/", "").replace(url, "the lake")
    return message


def _written(place: str) -> list[str]:
    """Return how messages may write a URL: without its user; a path from the root."""
    path = place.removeprefix("file://")
    if "://" in path:
        return [public_url(path)]
    absolute = str(Path(path).absolute())
    return list(dict.fromkeys((f"file://{absolute}", absolute, str(Path(path).resolve()))))
